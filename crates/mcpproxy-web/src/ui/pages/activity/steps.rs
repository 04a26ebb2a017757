//! The records of one approved call as one story: asked, approved by anna, ran.
//!
//! Each step is a record of its own. They share the id of the approval request.

use mcpproxy_core::{ApprovalId, Assurance};
use mcpproxy_store::{Kind, Record, Status};
use serde_json::Value;

use super::bounded::line;
use super::story::{assurance, decider};
use super::words::{NAME_CHARS, clock, code, member, metadata};
use crate::visible::Visible;

/// Steps of one call on a page. A prompt that a client does not show adds one, and so does each repeated call.
pub(crate) const STEPS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) id: String,
    pub(crate) iso: String,
    pub(crate) clock: String,
    /// `asked`, `approved by anna`, `ran`.
    pub(crate) words: Visible,
    /// True for the record that the page or the row is about.
    pub(crate) is_here: bool,
}

/// Returns the approval request that a record belongs to.
pub(crate) fn approval_of(metadata: &Value) -> Option<ApprovalId> {
    member(metadata, "approval_id").and_then(ApprovalId::parse)
}

/// Words the records of one approval request, oldest first. `records` are newest first, as the store lists them.
pub(crate) fn steps<'r>(records: impl DoubleEndedIterator<Item = &'r Record>, here: &str, now_ms: i64) -> Vec<Step> {
    let steps = records.rev().map(|record| Step {
        id: record.id.to_string(),
        iso: crate::time::format(record.time_ms()),
        clock: clock(record.time_ms(), now_ms),
        words: line(&words(record, &metadata(record)), NAME_CHARS),
        is_here: record.id.to_string() == here,
    });
    steps.take(STEPS_MAX).collect()
}

fn words(record: &Record, metadata: &Value) -> String {
    let by = |verb: &str| match decider(member(metadata, "by")) {
        Some((name, _)) => format!("{verb} by {name}"),
        None => verb.to_owned(),
    };
    match (record.kind, code(record)) {
        (Kind::Call, _) => ran(record.status).to_owned(),
        (Kind::Refusal, _) => "refused".to_owned(),
        (_, "approval_requested") => "asked".to_owned(),
        (_, "approval_approved") => {
            let given = member(metadata, "given").and_then(Assurance::parse);
            let how = given.filter(|given| *given == Assurance::Factor).map(|given| format!(" {}", assurance(given)));
            by("approved") + &how.unwrap_or_default()
        }
        (_, "approval_denied") => by("denied"),
        (_, "approval_expired") => "expired".to_owned(),
        (_, "approval_cancelled") => "cancelled".to_owned(),
        (_, "approval_not_shown") => "prompt not shown".to_owned(),
        (_, "grant_created") => by("standing approval created"),
        (_, "grant_revoked") => by("standing approval revoked"),
        (_, other) => other.replace('_', " "),
    }
}

fn ran(status: Status) -> &'static str {
    match status {
        Status::Success => "ran",
        Status::Error => "ran and failed",
        Status::Started => "is running",
        Status::Cancelled => "was cancelled",
        Status::Interrupted => "outcome unknown",
        Status::Refused => "refused",
    }
}
