//! Details of an approval request besides its arguments, each with its source.

use mcpproxy_core::contract::Effective;
use mcpproxy_core::{ApprovalId, Digest, Hidden, RiskLevel};
use mcpproxy_store::StoredApproval;
use serde_json::{Map, Value};

use crate::said_by::SaidBy;

/// The risk level of a tool, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedRisk {
    pub risk: Option<RiskLevel>,
    pub said_by: Option<SaidBy>,
}

impl StatedRisk {
    pub(crate) fn new(risk: Option<RiskLevel>, about: &ApprovalDetails) -> Self {
        Self { risk, said_by: about.said_by("risk") }
    }

    pub fn of(approval: &StoredApproval) -> Self {
        Self::new(approval.risk, &ApprovalDetails::of(approval))
    }

    /// Returns the risk level of a contract in force.
    pub fn of_contract(contract: &Effective) -> Self {
        let said_by = contract.risk.as_ref().and_then(|risk| SaidBy::of(&risk.source));
        Self { risk: contract.risk(), said_by }
    }

    /// Returns the risk level if only the server claims it.
    pub fn claimed(self) -> Option<RiskLevel> {
        self.risk.filter(|_| self.said_by == Some(SaidBy::Server))
    }

    /// Returns the risk level to warn of. A server's own risk level can raise the warning, never lower it.
    pub fn warning(self) -> Option<RiskLevel> {
        match self.claimed() {
            None => self.risk,
            Some(RiskLevel::Low | RiskLevel::Medium) => None,
            Some(claimed @ (RiskLevel::High | RiskLevel::Critical | RiskLevel::Forbidden)) => Some(claimed),
        }
    }

    /// Describes the risk without parentheses, because callers may put it into some.
    pub fn words(self) -> String {
        match (self.warning().map(RiskLevel::as_str), self.claimed().map(RiskLevel::as_str)) {
            (Some(risk), None) if self.said_by == Some(SaidBy::Draft) => format!("{risk}; draft, not reviewed"),
            (Some(risk), None) => risk.to_owned(),
            (Some(risk), Some(_)) => format!("{risk}, says the server"),
            (None, None) => "unclassified".to_owned(),
            (None, Some(claimed)) => format!("unclassified; the server says {claimed}"),
        }
    }
}

/// The details of an approval request, as the store keeps them.
#[derive(Clone, Debug, Default)]
pub struct ApprovalDetails(Value);

impl ApprovalDetails {
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

    /// Returns the source of a part, if it is the operator or the server.
    pub fn said_by(&self, name: &str) -> Option<SaidBy> {
        SaidBy::parse(self.0.get("said_by")?.get(name)?.as_str()?)
    }

    /// Returns true if anything was masked in the arguments.
    pub fn hides(&self) -> bool {
        self.0.get("hidden").and_then(Value::as_object).is_some_and(|hidden| !hidden.is_empty())
    }

    /// Compares a value with the one that was masked at this place. Returns `None` if nothing was masked there.
    pub fn hid(&self, asked: &ApprovalId, pointer: &str, value: &str) -> Option<bool> {
        let kept = self.0.get("hidden")?.get(pointer)?.as_str()?;
        Some(kept == Hidden::mark(asked, value).to_string())
    }
}

/// Builds the digests of masked values, by which a changed value is noticed without storing it.
pub(crate) fn hidden(asked: &ApprovalId, shown: &str, whole: &str) -> Value {
    let mark = |one: &Hidden| -> Digest { Hidden::mark(asked, &one.whole) };
    let marks = Hidden::all(shown, whole).into_iter().map(|one| (one.pointer.clone(), mark(&one).to_string().into()));
    Value::Object(marks.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_raises_the_warning_and_never_lowers_it() {
        let check = |risk, said_by, expected: &str| assert_eq!(StatedRisk { risk, said_by }.words(), expected);
        check(None, None, "unclassified");
        check(Some(RiskLevel::High), Some(SaidBy::Operator), "high");
        check(Some(RiskLevel::High), Some(SaidBy::Draft), "high; draft, not reviewed");
        check(Some(RiskLevel::Low), Some(SaidBy::Server), "unclassified; the server says low");
        check(Some(RiskLevel::Critical), Some(SaidBy::Server), "critical, says the server");
    }

    #[test]
    fn a_masked_value_is_recognized_by_its_digest() {
        let id = ApprovalId::parse("01K9ZQ4B2R0000000000000001").unwrap();
        let kept = hidden(&id, r#"{"to":["***"],"n":1}"#, r#"{"to":["anna"],"n":1}"#);
        let about = ApprovalDetails(serde_json::json!({"hidden": kept}));
        assert_eq!(about.hid(&id, "to/0", "\"anna\""), Some(true));
        assert_eq!(about.hid(&id, "to/0", "\"eve\""), Some(false));
        assert_eq!(about.hid(&id, "n", "1"), None);
    }
}
