//! The results of a search, each with its score in words.

use mcpproxy_core::{Features, FieldMatch, ScoreExplanation, Untrusted, Variant, WordMatch};
use serde_json::Value;

use super::{BRIEF_CHARS, variant_word};
use crate::ui::pages::labels::Risk;
use crate::visible::Visible;

const WORDS_MAX: usize = 12;

pub(crate) struct FoundTool {
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) description: Visible,
    pub(crate) risk: Risk,
    pub(crate) variant: &'static str,
    /// `0.82`.
    pub(crate) score: String,
    /// The score in words.
    pub(crate) fit: &'static str,
    pub(crate) reasons: Vec<Visible>,
    pub(crate) words: Vec<WordRow>,
    pub(crate) features: Vec<FeatureRow>,
}

/// A word of the query, and where the tool has it.
pub(crate) struct WordRow {
    pub(crate) word: Visible,
    pub(crate) percent: String,
    pub(crate) places: Vec<Visible>,
}

pub(crate) struct FeatureRow {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) adds: String,
}

impl FoundTool {
    /// Reads the JSON that agents get. `None` if it is not as expected, which cannot happen.
    pub(crate) fn new(tool: &Value, why: Option<ScoreExplanation>, risk: Risk) -> Option<Self> {
        let text = |name: &str| tool.get(name).and_then(Value::as_str);
        let name = text("name")?;
        let (server, own) = name.split_once(':')?;
        let score = tool.get("score").and_then(Value::as_f64).unwrap_or_default();
        let why = why.unwrap_or_default();
        // The last line names the variant, which this page shows by itself.
        let description = text("description").unwrap_or_default();
        let description = description.rsplit_once("\n(Call with").map_or(description, |(own, _)| own);
        let description = Untrusted::shortened(description, BRIEF_CHARS * 2);
        Some(Self {
            href: format!("/ui/tools/{server}/{own}"),
            name: name.to_owned(),
            description: Visible::lines(description.for_json()),
            risk,
            variant: text("call_with").and_then(Variant::from_tool).map_or("", variant_word),
            score: format!("{score:.2}"),
            fit: fit(score),
            reasons: reasons(&why),
            words: why.words.iter().take(WORDS_MAX).map(WordRow::new).collect(),
            features: features(&why.features),
        })
    }
}

impl WordRow {
    fn new(found: &WordMatch) -> Self {
        Self {
            word: Visible::untrusted(&found.word),
            percent: format!("{:.0}", found.weight * 100.0),
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

fn fit(score: f64) -> &'static str {
    match score {
        0.7.. => "strong match",
        0.4.. => "likely match",
        0.15.. => "weak match",
        _ => "guess",
    }
}

/// Words the two sides of the score: the words of the query, and its meaning.
fn reasons(why: &ScoreExplanation) -> Vec<Visible> {
    let names = |is_found: bool| {
        let words = why.words.iter().filter(|word| word.places.is_empty() != is_found).take(WORDS_MAX);
        words.map(|word| format!("“{}”", word.word.for_json())).collect::<Vec<_>>().join(", ")
    };
    let (found, missing) = (names(true), names(false));
    let meaning = match why.semantic {
        0.6.. => "very similar",
        0.45.. => "similar",
        0.3.. => "somewhat similar",
        _ => "not similar",
    };
    let sentences = [
        why.is_named.then(|| "The query is the name of this tool.".to_owned()),
        (!found.is_empty()).then(|| format!("It has words for {found}.")),
        (!missing.is_empty()).then(|| format!("It has nothing for {missing}.")),
        Some(format!("Its meaning is {meaning} to the query ({:.2} of 1).", why.semantic)),
    ];
    sentences.into_iter().flatten().map(|sentence| Visible::of(&sentence)).collect()
}

fn features(features: &Features) -> Vec<FeatureRow> {
    let row = |(name, value, adds)| FeatureRow { name, value: format!("{value:.2}"), adds: format!("{adds:.2}") };
    features.parts().map(row).collect()
}
