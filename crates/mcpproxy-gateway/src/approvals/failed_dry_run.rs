//! Finds a dry run that the server refused.
//!
//! It is in the log only. A dry run that failed proves nothing, so none is kept for the decision. But without it the page
//! would say that the agent made no dry run, and the approver would not learn that the server refuses such a call.

use mcpproxy_core::json::members;
use mcpproxy_core::{Untrusted, canonical};
use mcpproxy_store::{Filter, Kind, RecordId, Status, Store, StoreError, StoredApproval};

/// An older dry run says little about the data of now.
const LOOK_BACK_MS: i64 = 600_000;
/// Failed dry runs of the same tool and agent that are compared.
const COMPARED_MAX: usize = 10;

/// A dry run of the requested call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedDryRun {
    pub record: RecordId,
    pub at_ms: i64,
    /// The code of the server's error, if it gave one.
    pub code: Option<Untrusted>,
}

/// Finds the newest failed dry run with the same arguments. Masked values look the same, so they are not compared.
pub(super) async fn failed_dry_run(
    store: &Store,
    approval: &StoredApproval,
) -> Result<Option<FailedDryRun>, StoreError> {
    let filter = Filter {
        kind: Some(Kind::Call),
        status: Some(Status::Error),
        agent: Some(approval.agent.clone()),
        server: Some(approval.tool.server().to_string()),
        tool: Some(approval.tool.tool().to_owned()),
        dry_run: Some(true),
        since_ms: Some(approval.created_ms.saturating_sub(LOOK_BACK_MS)),
        until_ms: Some(approval.expires_ms),
        ..Filter::default()
    };
    let records = store.list(&filter, None, COMPARED_MAX).await?.records;
    let ids: Vec<RecordId> = records.iter().map(|record| record.id).collect();
    let payloads = store.payloads(&ids).await?;
    let is_same = |id: RecordId| {
        let args = payloads.iter().find(|(of, ..)| *of == id).and_then(|(_, args, _)| args.as_ref());
        args.is_some_and(|args| has_arguments(args.for_json(), approval.shown_args.for_json()))
    };
    let found = records.into_iter().find(|record| is_same(record.id));
    Ok(found.map(|record| FailedDryRun { record: record.id, at_ms: record.time_ms(), code: record.code }))
}

/// Returns true if the dry run has the arguments of the call, and at most the argument that asks for a dry run besides.
fn has_arguments(dry_run: &str, call: &str) -> bool {
    let (Some(dry_run), Some(call)) = (members(dry_run), members(call)) else { return false };
    let has = |name: &str, value: &str| {
        call.iter().any(|(known, other)| known == name && canonical(other) == canonical(value))
    };
    let (same, more): (Vec<_>, Vec<_>) = dry_run.iter().partition(|(name, value)| has(name, value));
    same.len() == call.len() && more.len() <= 1 && more.iter().all(|(_, value)| value.trim() == "true")
}

#[cfg(test)]
mod tests {
    use super::has_arguments;

    #[test]
    fn a_dry_run_of_the_same_call() {
        let check = |dry_run: &str, call: &str, expected: bool| {
            assert_eq!(has_arguments(dry_run, call), expected, "{dry_run} {call}");
        };
        check(r#"{"userId":"u_max","dryRun":true}"#, r#"{"userId": "u_max"}"#, true);
        check(r#"{"userId":"u_max"}"#, r#"{"userId":"u_max"}"#, true);
        check(r#"{"dryRun":true}"#, "{}", true);
        check(r#"{"userId":"u_anna","dryRun":true}"#, r#"{"userId":"u_max"}"#, false);
        check(r#"{"userId":"u_max","dryRun":true,"force":true}"#, r#"{"userId":"u_max"}"#, false);
        check(r#"{"dryRun":true}"#, r#"{"userId":"u_max"}"#, false);
        check("nonsense", "{}", false);
    }
}
