//! The results of a search, each with its score in words.

use mcpproxy_core::{Features, FieldMatch, RiskLevel, ScoreExplanation, Untrusted, Variant, WordMatch};
use serde_json::Value;

use super::{BRIEF_CHARS, level_class, variant_word};
use crate::visible::Visible;

/// Reasons of one score. The others add little.
const REASONS_MAX: usize = 3;
const WORDS_MAX: usize = 12;

pub(crate) struct FoundTool {
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) description: Visible,
    pub(crate) risk_class: &'static str,
    pub(crate) risk_word: &'static str,
    pub(crate) variant: &'static str,
    /// `0.82`.
    pub(crate) score: String,
    /// The score in words.
    pub(crate) fit: &'static str,
    pub(crate) reasons: Vec<&'static str>,
    pub(crate) words: Vec<WordRow>,
    pub(crate) features: Vec<FeatureRow>,
    pub(crate) is_named: bool,
}

/// A word of the query, and where the tool has it.
pub(crate) struct WordRow {
    pub(crate) word: Visible,
    pub(crate) percent: u32,
    pub(crate) places: Vec<Visible>,
}

pub(crate) struct FeatureRow {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) adds: String,
}

impl FoundTool {
    /// Reads the JSON that agents get. `None` if it is not as expected, which cannot happen.
    pub(crate) fn new(tool: &Value, why: Option<ScoreExplanation>) -> Option<Self> {
        let text = |name: &str| tool.get(name).and_then(Value::as_str);
        let name = text("name")?;
        let (server, own) = name.split_once(':')?;
        let risk = text("risk_level").and_then(|word| RiskLevel::ALL.into_iter().find(|level| level.as_str() == word));
        let score = tool.get("score").and_then(Value::as_f64).unwrap_or_default();
        let why = why.unwrap_or_default();
        let description = Untrusted::shortened(text("description").unwrap_or_default(), BRIEF_CHARS * 2);
        Some(Self {
            href: format!("/ui/tools/{server}/{own}"),
            name: name.to_owned(),
            description: Visible::untrusted(&description),
            risk_class: level_class(risk),
            risk_word: risk_word(risk),
            variant: text("call_with").and_then(Variant::from_tool).map_or("", variant_word),
            score: format!("{score:.2}"),
            fit: fit(score),
            reasons: reasons(&why.features),
            words: why.words.iter().take(WORDS_MAX).map(WordRow::new).collect(),
            features: features(&why.features),
            is_named: why.is_named,
        })
    }
}

impl WordRow {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share from 0 to 1")]
    fn new(found: &WordMatch) -> Self {
        Self {
            word: Visible::untrusted(&found.word),
            percent: (found.weight * 100.0).round() as u32,
            places: found.places.iter().map(place).collect(),
        }
    }
}

fn place(place: &FieldMatch) -> Visible {
    let field = place.field.as_str();
    match &place.instead {
        Some(word) => Visible::of(&format!("{field}, as “{}”", word.for_json())),
        None => Visible::of(field),
    }
}

fn risk_word(risk: Option<RiskLevel>) -> &'static str {
    match risk {
        Some(RiskLevel::Low) => "Low risk",
        Some(RiskLevel::Medium) => "Medium risk",
        Some(RiskLevel::High) => "High risk",
        Some(RiskLevel::Critical) => "Critical",
        Some(RiskLevel::Forbidden) => "Forbidden",
        None => "Unclassified",
    }
}

fn fit(score: f64) -> &'static str {
    match score {
        0.7.. => "strong match",
        0.4.. => "likely match",
        0.15.. => "weak match",
        _ => "guess",
    }
}

/// Words the features that add most to the score.
fn reasons(features: &Features) -> Vec<&'static str> {
    let mut all: Vec<(f32, &'static str)> = features.adds().into_iter().zip(SENTENCES).collect();
    all.retain(|(adds, _)| *adds >= 0.1);
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    all.into_iter().take(REASONS_MAX).map(|(_, sentence)| sentence).collect()
}

/// One sentence per feature, in the order of `Features::NAMES`.
const SENTENCES: [&str; 7] = [
    "Its meaning is close to the whole query.",
    "Its meaning is close to a sentence of the query.",
    "Its meaning is close to a request in the query.",
    "Its parameters are named like words of the query.",
    "It has the words of the query, or words that mean the same.",
    "The query has the words of its name.",
    "Its server fits the query.",
];

fn features(features: &Features) -> Vec<FeatureRow> {
    let numbers = features.values().into_iter().zip(features.adds());
    let row = |(name, (value, adds))| FeatureRow { name, value: format!("{value:.2}"), adds: format!("{adds:.2}") };
    Features::NAMES.into_iter().zip(numbers).map(row).collect()
}
