//! Facts about a call that stand in the metadata of its record: a dry run, a replayed answer, warnings, and words to
//! filter by.
//!
//! They are members of the metadata and not columns, so the hash chain covers them, and the form of its lines stays the
//! same. The gateway writes metadata as JSON without spaces between tokens. So a member is found by its text: inside a
//! string, its quotes would be escaped. An agent cannot forge one, because all names of members are the gateway's.

use mcpproxy_core::Sensitivity;
use mcpproxy_core::json::quote;

use super::Record;

const DRY_RUN: &str = "\"dry_run\":\"";
const REPLAYED: &str = "\"replayed_from\":\"";
const WARNINGS: &str = "\"warnings\":[";

/// The difference between a call that ran and one that only looks like it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallMark {
    #[default]
    Real,
    /// The server or the gateway showed what the call would do.
    DryRun,
    /// The answer of an earlier call was given again.
    Replayed,
}

impl CallMark {
    pub(crate) const ALL: [Self; 3] = [Self::Real, Self::DryRun, Self::Replayed];

    pub(crate) fn of(metadata: &str) -> Self {
        if metadata.contains(DRY_RUN) {
            Self::DryRun
        } else if metadata.contains(REPLAYED) {
            Self::Replayed
        } else {
            Self::Real
        }
    }

    /// Returns the word in the table of counts. It is empty for real calls.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Real => "",
            Self::DryRun => "dry_run",
            Self::Replayed => "replayed",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.as_str() == text)
    }

    /// Returns the text that the metadata of such calls contains.
    pub(crate) fn member(self) -> Option<&'static str> {
        match self {
            Self::Real => None,
            Self::DryRun => Some(DRY_RUN),
            Self::Replayed => Some(REPLAYED),
        }
    }
}

/// Returns the text that the metadata contains if the agent declared this sensitivity.
pub(crate) fn sensitivity_member(sensitivity: Sensitivity) -> String {
    format!("\"data_sensitivity\":\"{}\"", sensitivity.as_str())
}

/// Returns the text that the metadata contains if the tool has this category.
pub(crate) fn category_member(category: &str) -> String {
    format!("\"category\":{}", quote(category))
}

impl Record {
    pub fn mark(&self) -> CallMark {
        CallMark::of(self.metadata.for_json())
    }

    /// Returns true if the call was allowed with a warning.
    pub fn has_warnings(&self) -> bool {
        self.metadata.for_json().contains(WARNINGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_members_and_never_words_of_an_agent() {
        let check = |metadata: &str, expected: CallMark| assert_eq!(CallMark::of(metadata), expected, "{metadata}");
        check(r#"{"intent":{"operation_type":"read"}}"#, CallMark::Real);
        check(r#"{"a":1,"dry_run":"server"}"#, CallMark::DryRun);
        check(r#"{"dry_run":"preview"}"#, CallMark::DryRun);
        check(r#"{"replayed_from":"01X"}"#, CallMark::Replayed);
        let reason = serde_json::json!({"intent": {"reason": r#"","dry_run":"server","replayed_from":"x"#}});
        check(&reason.to_string(), CallMark::Real);
        assert!(CallMark::ALL.iter().all(|mark| CallMark::parse(mark.as_str()) == Some(*mark)));
    }
}
