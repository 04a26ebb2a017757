//! The form with the filters, and the filters in force as chips.

use mcpproxy_core::{RiskLevel, Sensitivity, Variant};
use mcpproxy_store::{Kind, Status};

use super::bounded::line;
use super::links::Filters;
use super::words::kind_word;
use crate::ui::pages::labels::level_word;
use crate::visible::{Visible, plain};

const CHIP_CHARS: usize = 60;

/// Names that a user can choose from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) agents: Vec<String>,
    pub(crate) servers: Vec<String>,
}

pub(crate) struct FilterForm {
    pub(crate) query: String,
    pub(crate) tool: String,
    /// The filters that are always visible, and those that are folded.
    pub(crate) usual: Vec<Select>,
    pub(crate) more: Vec<Select>,
    pub(crate) texts: Vec<Text>,
    /// True if a folded filter is in force.
    pub(crate) is_open: bool,
    pub(crate) chips: Vec<Chip>,
}

pub(crate) struct Select {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) choices: Vec<Choice>,
}

pub(crate) struct Choice {
    pub(crate) value: String,
    pub(crate) word: String,
    pub(crate) is_chosen: bool,
}

pub(crate) struct Text {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) value: String,
    pub(crate) placeholder: &'static str,
}

/// A filter in force, and the address of the list without it.
pub(crate) struct Chip {
    pub(crate) label: Visible,
    pub(crate) value: Visible,
    pub(crate) without: String,
}

impl FilterForm {
    pub(crate) fn new(filters: &Filters, names: &Names) -> Self {
        let value = |name: &str| filters.value(name).to_owned();
        let select = |name, label, all: &'static str, words: Vec<(String, String)>| Select {
            name,
            label,
            choices: choices(&value(name), all, words),
        };
        let named = |names: &[String]| names.iter().map(|name| (name.clone(), name.clone())).collect();
        let more = vec![
            select("risk", "Risk", "Any risk", words(RiskLevel::ALL.map(|risk| (risk.as_str(), level_word(risk))))),
            select("type", "Type", "Any type", words(Kind::ALL.map(|kind| (kind.as_str(), kind_word(kind))))),
            select(
                "sensitivity",
                "Sensitivity",
                "Any sensitivity",
                words(Sensitivity::ALL.map(|word| (word.as_str(), word.as_str()))),
            ),
            select("dry_run", "Dry runs", "Included", words([("true", "Only dry runs"), ("false", "Left out")])),
            select(
                "replayed",
                "Repeated answers",
                "Included",
                words([("true", "Only repeated"), ("false", "Left out")]),
            ),
        ];
        let text = |name, label, placeholder| Text { name, label, value: value(name), placeholder };
        let texts = vec![
            text("code", "Code", "Example: policy_violation"),
            text("category", "Category", "Example: communication"),
            text("until", "Until", "Example: 2h or 2026-01-31T10:00Z"),
        ];
        let is_open =
            more.iter().any(|select| !value(select.name).is_empty()) || texts.iter().any(|text| !text.value.is_empty());
        Self {
            query: value("q"),
            tool: value("tool"),
            usual: vec![
                select("since", "Period", "All time", words(PERIODS)),
                select("agent", "Agent", "Any agent", named(&names.agents)),
                select("server", "Server", "Any server", named(&names.servers)),
                select(
                    "intent_type",
                    "Intent",
                    "Any intent",
                    words(Variant::ALL.map(|v| (v.operation(), v.operation()))),
                ),
                select("status", "Status", "Any status", words(Status::ALL.map(|s| (s.as_str(), status_choice(s))))),
            ],
            more,
            texts,
            is_open,
            chips: filters.iter().map(|(name, value)| Chip::new(name, value, filters)).collect(),
        }
    }
}

const PERIODS: [(&str, &str); 4] =
    [("1h", "Last hour"), ("24h", "Last 24 hours"), ("7d", "Last 7 days"), ("30d", "Last 30 days")];

fn words<const N: usize>(words: [(&str, &str); N]) -> Vec<(String, String)> {
    words.iter().map(|(value, word)| ((*value).to_owned(), (*word).to_owned())).collect()
}

/// Lists the choices. A value that is not among them, such as a revoked agent or an exact time, becomes one.
fn choices(value: &str, all: &str, mut words: Vec<(String, String)>) -> Vec<Choice> {
    if !value.is_empty() && !words.iter().any(|(known, _)| known == value) {
        words.push((value.to_owned(), value.to_owned()));
    }
    let all = Choice { value: String::new(), word: all.to_owned(), is_chosen: value.is_empty() };
    let choice =
        |(known, word): (String, String)| Choice { is_chosen: known == value, value: known, word: plain(&word) };
    std::iter::once(all).chain(words.into_iter().map(choice)).collect()
}

/// Names the words of the list that a choice finds: the list words some records by what happened.
fn status_choice(status: Status) -> &'static str {
    match status {
        Status::Success => "succeeded, done, requested, approved",
        Status::Refused => "refused, denied, needs approval, held back",
        Status::Cancelled => "cancelled, expired",
        Status::Started | Status::Error | Status::Interrupted => status_word(status),
    }
}

pub(crate) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Started => "running",
        Status::Success => "succeeded",
        Status::Error => "failed",
        Status::Refused => "refused",
        Status::Cancelled => "cancelled",
        Status::Interrupted => "outcome unknown",
    }
}

impl Chip {
    fn new(name: &str, value: &str, filters: &Filters) -> Self {
        let period = PERIODS.iter().find(|(known, _)| *known == value).map(|(_, word)| word.to_lowercase());
        let (label, value) = match (name, period) {
            ("since", Some(words)) => ("period", words),
            ("since" | "from", None) => ("since", value.to_owned()),
            ("until" | "to", _) => ("until", value.to_owned()),
            ("q", _) => ("text", value.to_owned()),
            ("intent_type", _) => ("intent", value.to_owned()),
            ("status", _) => (
                "status",
                Status::parse(value).map_or_else(|| value.to_owned(), |status| status_word(status).to_owned()),
            ),
            ("dry_run", _) => ("dry runs", switch(value)),
            ("replayed", _) => ("repeated answers", switch(value)),
            (name, _) => (name, value.to_owned()),
        };
        Self { label: line(label, CHIP_CHARS), value: line(&value, CHIP_CHARS), without: filters.without(name).list() }
    }
}

fn switch(value: &str) -> String {
    match value {
        "true" => "only".to_owned(),
        "false" => "left out".to_owned(),
        other => other.to_owned(),
    }
}
