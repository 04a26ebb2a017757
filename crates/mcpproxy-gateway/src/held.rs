//! Changes of the operator's files that weaken contracts, policies or settings, and wait for a user.

use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_store::{Kind, NewRecord, Status};
use serde_json::json;

use crate::record;

/// Changes in a record, a line of the terminal or a list. The rest is counted.
const RECORDED_MAX: usize = 200;
const TOLD_MAX: usize = 3;

/// The code of a record about changes that wait.
const HELD: &str = "weakening_held";
/// The code of a record about changes that a restart applied.
const AT_START: &str = "weaker_at_start";

/// Changes that are not applied yet.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldChanges {
    /// Identifies the files. A user confirms these and no others.
    pub digest: String,
    pub weaker: Weaker,
}

impl HeldChanges {
    /// Words the first changes on one line, and counts the others.
    pub fn summary(&self) -> String {
        summary(&self.weaker)
    }

    pub(crate) fn record(&self) -> NewRecord {
        let message = format!("not applied until a user confirms it: {}", self.summary());
        NewRecord { code: Some(HELD.to_owned()), ..of_weaker(&self.weaker, message, Status::Refused) }
    }
}

/// Builds the record of a start with files that are weaker than those of the last run.
pub(crate) fn at_start(weaker: &Weaker) -> NewRecord {
    let message = format!("weaker than in the last run: {}", summary(weaker));
    NewRecord { code: Some(AT_START.to_owned()), ..of_weaker(weaker, message, Status::Success) }
}

fn of_weaker(weaker: &Weaker, message: String, status: Status) -> NewRecord {
    let all = weaker.lines();
    let left_out = all.len().saturating_sub(RECORDED_MAX);
    let mut metadata = json!({"weaker": all.iter().take(RECORDED_MAX).collect::<Vec<_>>()});
    if let (1.., Some(members)) = (left_out, metadata.as_object_mut()) {
        members.insert("weaker_left_out".to_owned(), left_out.into());
    }
    NewRecord { message: Some(message), metadata: metadata.to_string(), ..record::blank(Kind::Settings, status) }
}

fn summary(weaker: &Weaker) -> String {
    let all = weaker.lines();
    let more = all.len().saturating_sub(TOLD_MAX);
    let rest = (more > 0).then(|| format!("{more} more"));
    all.into_iter().take(TOLD_MAX).chain(rest).collect::<Vec<_>>().join("; ")
}
