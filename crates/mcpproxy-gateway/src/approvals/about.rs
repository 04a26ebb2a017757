//! What is kept about a question besides its arguments, and whose words each part is.

use mcpproxy_core::contract::Source;
use mcpproxy_core::{ApprovalId, Digest, Hidden, RiskLevel};
use mcpproxy_store::StoredApproval;
use serde_json::{Map, Value};

/// Who said something about a tool. Only the operator's word is known to be meant well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaidBy {
    Operator,
    Server,
}

impl SaidBy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Server => "server",
        }
    }

    pub(crate) fn of(source: &Source) -> Option<Self> {
        match source {
            Source::Operator { .. } => Some(Self::Operator),
            Source::Server | Source::Hints => Some(Self::Server),
            Source::Level | Source::Default => None,
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Operator, Self::Server].into_iter().find(|one| one.as_str() == word)
    }
}

/// How dangerous a tool is, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub risk: Option<RiskLevel>,
    pub said_by: Option<SaidBy>,
}

impl Level {
    pub(crate) fn new(risk: Option<RiskLevel>, about: &About) -> Self {
        Self { risk, said_by: about.said_by("risk") }
    }

    pub fn of(approval: &StoredApproval) -> Self {
        Self::new(approval.risk, &About::of(approval))
    }

    /// What a server alone says.
    pub fn claimed(self) -> Option<RiskLevel> {
        self.risk.filter(|_| self.said_by == Some(SaidBy::Server))
    }

    /// What a person is warned of. A server's word can make a warning of it, and never take one away.
    pub fn warning(self) -> Option<RiskLevel> {
        match self.claimed() {
            None => self.risk,
            Some(RiskLevel::Low | RiskLevel::Medium) => None,
            Some(claimed @ (RiskLevel::High | RiskLevel::Critical | RiskLevel::Forbidden)) => Some(claimed),
        }
    }

    /// For a sentence.
    pub fn words(self) -> String {
        match (self.warning().map(RiskLevel::as_str), self.claimed().map(RiskLevel::as_str)) {
            (Some(risk), None) => risk.to_owned(),
            (Some(risk), Some(_)) => format!("{risk}, says the server"),
            (None, None) => "unclassified".to_owned(),
            (None, Some(claimed)) => format!("unclassified; the server calls it {claimed}"),
        }
    }
}

/// As it is stored with an approval.
#[derive(Clone, Debug, Default)]
pub struct About(Value);

impl About {
    pub fn of(approval: &StoredApproval) -> Self {
        Self::read(approval.about.for_json())
    }

    pub(crate) fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    pub fn texts(&self, name: &str) -> Vec<&str> {
        let list = self.0.get(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).collect()
    }

    /// Whose words a part is, as far as anybody but the gateway and the agent said it.
    pub fn said_by(&self, name: &str) -> Option<SaidBy> {
        SaidBy::parse(self.0.get("said_by")?.get(name)?.as_str()?)
    }

    /// Whether anything was masked in the arguments.
    pub fn hides(&self) -> bool {
        self.0.get("hidden").and_then(Value::as_object).is_some_and(|hidden| !hidden.is_empty())
    }

    /// Whether something was hidden at this place of the arguments, and if so, whether it was this value.
    pub fn hid(&self, asked: &ApprovalId, pointer: &str, value: &str) -> Option<bool> {
        let kept = self.0.get("hidden")?.get(pointer)?.as_str()?;
        Some(kept == Hidden::mark(asked, value).to_string())
    }
}

/// What is kept of what is masked in the arguments of a question.
pub(crate) fn hidden(asked: &ApprovalId, shown: &str, whole: &str) -> Value {
    let mark = |one: &Hidden| -> Digest { Hidden::mark(asked, &one.whole) };
    let marks = Hidden::all(shown, whole).into_iter().map(|one| (one.pointer.clone(), mark(&one).to_string().into()));
    Value::Object(marks.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_word_a_level_is() {
        let check = |risk, said_by, expected: &str| assert_eq!(Level { risk, said_by }.words(), expected);
        check(None, None, "unclassified");
        check(Some(RiskLevel::High), Some(SaidBy::Operator), "high");
        check(Some(RiskLevel::Low), Some(SaidBy::Server), "unclassified; the server calls it low");
        check(Some(RiskLevel::Critical), Some(SaidBy::Server), "critical, says the server");
    }

    #[test]
    fn what_was_hidden_is_known_again() {
        let id = ApprovalId::parse("01K9ZQ4B2R0000000000000001").unwrap();
        let kept = hidden(&id, r#"{"to":["***"],"n":1}"#, r#"{"to":["anna"],"n":1}"#);
        let about = About(serde_json::json!({"hidden": kept}));
        assert_eq!(about.hid(&id, "to/0", "\"anna\""), Some(true));
        assert_eq!(about.hid(&id, "to/0", "\"eve\""), Some(false));
        assert_eq!(about.hid(&id, "n", "1"), None);
    }
}
