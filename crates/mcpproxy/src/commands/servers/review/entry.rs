//! A review as the gateway sends it.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The definitions of a server that wait for a user.
#[derive(Deserialize)]
pub(super) struct Review {
    pub(super) server: String,
    /// True if no definition of this server was ever accepted.
    pub(super) first_sight: bool,
    /// Findings about the name of the server.
    #[serde(default)]
    pub(super) findings: Vec<Finding>,
    pub(super) entries: Vec<Entry>,
    /// The number of listed definitions that a user rejected.
    #[serde(default)]
    pub(super) rejected: usize,
}

/// A definition that waits, or that a user rejected. All texts come from the server, so they must be escaped before they are printed.
#[derive(Deserialize)]
pub(super) struct Entry {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) pin: String,
    pub(super) reason: String,
    /// Raw, because a changed digit of a long number must show.
    pub(super) old: Option<Box<RawValue>>,
    pub(super) new: Box<RawValue>,
    pub(super) changes: Vec<String>,
    pub(super) kinds: Vec<String>,
    pub(super) resembles: Option<String>,
    pub(super) findings: Vec<Finding>,
    pub(super) first_seen_ms: i64,
    pub(super) times: u64,
    /// The user who rejected it, and the time.
    pub(super) rejected_by: Option<String>,
    pub(super) rejected_ms: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct Finding {
    pub(super) rule: String,
    pub(super) severity: String,
    #[serde(rename = "where")]
    pub(super) place: String,
    pub(super) reason: String,
}

/// The user's decision about a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Accept,
    Reject,
}

impl Review {
    /// Counts the definitions that wait.
    pub(super) fn waiting(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_rejected()).count()
    }
}

impl Entry {
    /// Returns true if a user rejected it, so that it does not wait.
    pub(super) fn is_rejected(&self) -> bool {
        self.rejected_by.is_some()
    }

    /// Returns true if the scan found something severe. Such a definition is never accepted together with others.
    pub(super) fn is_severe(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == "high")
    }

    /// Names the definition, such as `tool send_mail` or `instructions`. Not escaped.
    pub(super) fn title(&self) -> String {
        if self.name.is_empty() { self.kind.clone() } else { format!("{} {}", self.kind, self.name) }
    }

    /// Returns the name for `--accept` that no other kind of definition has: `tool:send_mail`. Not escaped.
    pub(super) fn full_name(&self) -> String {
        if self.name.is_empty() { self.kind.clone() } else { format!("{}:{}", self.kind, self.name) }
    }
}
