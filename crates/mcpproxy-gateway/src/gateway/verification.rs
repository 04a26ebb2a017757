//! Verifies the activity log in the background, for the console.
//!
//! `mcpproxy activity verify --full` does the same from outside, which proves more: it trusts no running program. The
//! console runs one verification at a time, because each may read the whole log. The end is a record of the log with the
//! code [`LOG_VERIFIED`], so that every gateway of the database knows when the log was verified last, and by whom. The
//! record says if every line was read, or only those since the last verification.
//!
//! Gateways that share a database have a `verified.json` each, so a gateway does not know what another one found. The
//! record tells it: after damage, the next verification reads every line, whichever gateway runs it. And a verification of
//! the new lines only, which began before the damage was recorded, does not make up for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpproxy_store::{
    ChainVerdict, Filter, Kind, NewRecord, Progress, Record, Status, Store, StoreError, VerifiedLog, VerifyExtent,
    VerifyRun, small_chain_lines,
};
use serde_json::{Value, json};

use super::Gateway;
use crate::record;
use crate::state::SharedState;

/// The code of the record about a verification. Its status is `success` if the log is intact.
pub const LOG_VERIFIED: &str = "log_verified";
/// Records of the settings to search for the last verification.
const SEARCHED_MAX: usize = 20;

/// The verification that runs or ran last.
#[derive(Clone, Debug, Default)]
pub enum Verification {
    /// None since the gateway started.
    #[default]
    None,
    Running {
        by: String,
        started_ms: i64,
        progress: Progress,
    },
    Ended {
        by: String,
        ended_ms: i64,
        result: Result<Arc<VerifiedLog>, String>,
    },
}

/// The record about a verification. It also says when every line was verified last, for the reminder of the console.
fn record_of(found: &VerifiedLog, by: &str) -> NewRecord {
    let sum = |of: fn(&ChainVerdict) -> u64| found.chains.iter().map(of).sum::<u64>();
    let metadata = json!({
        "user": by,
        "full": found.is_full(),
        "last_full_ms": found.last_full_ms,
        "chains": found.chains.len(),
        "lines": found.chains.iter().map(|chain| chain.lines).sum::<i64>(),
        "lines_before": found.chains.iter().map(|chain| chain.verified_before.map_or(0, |b| b.lines)).sum::<i64>(),
        "checkpoints": sum(|chain| chain.checkpoints),
    });
    let status = if found.is_intact() { Status::Success } else { Status::Error };
    NewRecord {
        code: Some(LOG_VERIFIED.to_owned()),
        message: Some(found.summary()),
        metadata: metadata.to_string(),
        ..record::blank(Kind::Settings, status)
    }
}

/// Returns when every line of the log was verified last, as a record about a verification says. `None` if that is unknown.
pub fn fully_verified_ms(record: &Record) -> Option<i64> {
    let metadata = metadata_of(record);
    match is_full(&metadata) {
        false => metadata.get("last_full_ms").and_then(Value::as_i64),
        true => Some(record.time_ms()),
    }
}

fn metadata_of(record: &Record) -> Value {
    serde_json::from_str(record.metadata.for_json()).unwrap_or_default()
}

fn is_full(metadata: &Value) -> bool {
    metadata.get("full").and_then(Value::as_bool).unwrap_or(true)
}

/// The result of a verification, as its record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    Damaged,
    IntactInFull,
    IntactSinceLast,
}

impl Recorded {
    fn of(record: &Record) -> Self {
        if record.status != Status::Success {
            Self::Damaged
        } else if is_full(&metadata_of(record)) {
            Self::IntactInFull
        } else {
            Self::IntactSinceLast
        }
    }
}

/// Returns the index of the verification that counts, of a list with the newest first. That is the newest, unless it did
/// not read the lines in which an older one found damage.
fn counting(recorded: &[Recorded]) -> Option<usize> {
    let decided = recorded.iter().position(|one| *one != Recorded::IntactSinceLast);
    let is_damaged = |index: &usize| recorded.get(*index) == Some(&Recorded::Damaged);
    decided.filter(is_damaged).or_else(|| (!recorded.is_empty()).then_some(0))
}

/// Returns the lines to read after the last verification. In doubt, that is everything.
fn extent_after(last: Result<Option<Recorded>, StoreError>, asked: VerifyExtent) -> VerifyExtent {
    match last {
        Ok(None | Some(Recorded::IntactInFull | Recorded::IntactSinceLast)) => asked,
        Ok(Some(Recorded::Damaged)) | Err(_) => VerifyExtent::Everything,
    }
}

/// Finds the record of the last verification that counts.
async fn last_verification(store: &Store) -> Result<Option<Record>, StoreError> {
    let filter = Filter { kind: Some(Kind::Settings), text: Some(LOG_VERIFIED.to_owned()), ..Filter::default() };
    let found = store.list(&filter, None, SEARCHED_MAX).await?;
    // The text may also be part of a message.
    let is_one = |record: &Record| record.code.as_ref().is_some_and(|code| code.for_json() == LOG_VERIFIED);
    let mut records: Vec<Record> = found.records.into_iter().filter(is_one).collect();
    let recorded: Vec<Recorded> = records.iter().map(Recorded::of).collect();
    Ok(counting(&recorded).map(|index| records.swap_remove(index)))
}

#[derive(Default)]
pub(super) struct VerificationSlot(Mutex<Verification>);

impl VerificationSlot {
    fn lock(&self) -> MutexGuard<'_, Verification> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the slot. Returns false if a verification is running.
    fn begin(&self, by: &str) -> bool {
        let mut slot = self.lock();
        if matches!(*slot, Verification::Running { .. }) {
            return false;
        }
        *slot =
            Verification::Running { by: by.to_owned(), started_ms: record::now_ms(), progress: Progress::default() };
        true
    }

    fn advance(&self, done: Progress) {
        if let Verification::Running { progress, .. } = &mut *self.lock() {
            *progress = done;
        }
    }
}

impl Gateway {
    /// Starts a verification of the log, in the name of this user. Returns false if one is running.
    pub fn verify_log(&self, by: &str, extent: VerifyExtent) -> bool {
        if !self.verification.begin(by) {
            return false;
        }
        let (slot, state, by) = (Arc::clone(&self.verification), Arc::clone(&self.state), by.to_owned());
        tokio::spawn(async move {
            // A stopping gateway closes its database. The verification ends without a record then.
            let result = tokio::select! {
                result = verify(&state, &slot, extent) => result.map_err(|error| error.to_string()),
                () = state.stopping.cancelled() => Err("the gateway stopped".to_owned()),
            };
            let found = result.as_ref().ok().map(|found| (record_of(found, &by), found.is_intact(), found.summary()));
            // Before the record: a page that hears of the record shows the result.
            *slot.lock() = Verification::Ended { by, ended_ms: record::now_ms(), result: result.map(Arc::new) };
            let Some((record, is_intact, summary)) = found else { return };
            record::note(&state.ledger, record).await;
            if !is_intact {
                tracing::error!("the activity log is damaged: {summary}");
            }
        });
        true
    }

    /// Returns the verification that runs, or the last one since the gateway started.
    pub fn verification(&self) -> Verification {
        self.verification.lock().clone()
    }

    /// Returns the record of the last verification from the console, also of an earlier run or another gateway. After
    /// damage, only a verification of every line replaces it.
    pub async fn last_verification(&self) -> Result<Option<Record>, StoreError> {
        last_verification(&self.state.store).await
    }
}

async fn verify(state: &SharedState, slot: &VerificationSlot, asked: VerifyExtent) -> Result<VerifiedLog, StoreError> {
    let last = last_verification(&state.store).await.map(|last| last.as_ref().map(Recorded::of));
    let extent = extent_after(last, asked);
    let run = VerifyRun {
        // Read checkpoints before the log: a gateway signs only what is already written.
        evidence: state.ledger.evidence(),
        file: state.ledger.verified_file(),
        extent,
        now_ms: record::now_ms(),
        small_lines: small_chain_lines(),
    };
    let found = state.store.verify_log(run, &mut |done| slot.advance(done)).await?;
    if let Some(not_kept) = &found.not_kept {
        tracing::warn!("the result of the verification was not kept. {not_kept}");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use mcpproxy_store::FullReason;

    use super::*;

    #[test]
    fn one_verification_runs_at_a_time() {
        let slot = VerificationSlot::default();
        slot.advance(Progress { done: 1, total: 2 });
        assert!(matches!(*slot.lock(), Verification::None));
        assert!(slot.begin("anna"));
        assert!(!slot.begin("bob"));
        slot.advance(Progress { done: 1, total: 2 });
        assert!(
            matches!(&*slot.lock(), Verification::Running { by, progress, .. } if by == "anna" && progress.done == 1)
        );
        *slot.lock() = Verification::Ended { by: "anna".to_owned(), ended_ms: 0, result: Err(String::new()) };
        assert!(slot.begin("bob"));
    }

    fn found(damage: &[&str], full: Option<FullReason>) -> VerifiedLog {
        VerifiedLog {
            chains: Vec::new(),
            database_damage: damage.iter().map(|text| (*text).to_owned()).collect(),
            unread: None,
            full,
            last_full_ms: Some(7),
            not_kept: None,
        }
    }

    #[test]
    fn damage_is_named() {
        let asked = Some(FullReason::Asked);
        let (intact, damaged) = (found(&[], asked.clone()), found(&["row 7 missing from index records_tool"], asked));
        assert!(intact.is_intact() && !damaged.is_intact());
        assert_eq!(intact.summary(), "intact: 0 lines in 0 chains");
        assert_eq!(damaged.summary(), "the database file is damaged: row 7 missing from index records_tool");
        assert_eq!((record_of(&intact, "a").status, record_of(&damaged, "a").status), (Status::Success, Status::Error));
    }

    #[test]
    fn only_a_full_verification_makes_up_for_damage() {
        use Recorded::{Damaged, IntactInFull, IntactSinceLast};
        // The newest first.
        for (recorded, expected) in [
            (vec![], None),
            (vec![IntactSinceLast], Some(0)),
            (vec![Damaged, IntactInFull], Some(0)),
            (vec![IntactInFull, Damaged], Some(0)),
            (vec![IntactSinceLast, IntactInFull, Damaged], Some(0)),
            (vec![IntactSinceLast, Damaged, IntactInFull], Some(1)),
            (vec![IntactSinceLast, IntactSinceLast, Damaged], Some(2)),
        ] {
            assert_eq!(counting(&recorded), expected, "{recorded:?}");
        }
    }

    #[test]
    fn everything_is_read_after_damage() {
        let since = VerifyExtent::SinceLast;
        let check = |last, expected| assert_eq!(extent_after(last, since), expected);
        check(Ok(None), since);
        check(Ok(Some(Recorded::IntactSinceLast)), since);
        check(Ok(Some(Recorded::IntactInFull)), since);
        check(Ok(Some(Recorded::Damaged)), VerifyExtent::Everything);
        check(Err(StoreError::Closed), VerifyExtent::Everything);
        assert_eq!(extent_after(Ok(None), VerifyExtent::Everything), VerifyExtent::Everything);
    }

    #[test]
    fn a_part_is_not_called_the_whole() {
        let part = found(&[], None);
        assert_eq!(
            part.summary(),
            "intact since the last verification: 0 new lines in 0 chains; 0 lines not read again"
        );
        let metadata: Value = serde_json::from_str(&record_of(&part, "a").metadata).unwrap();
        assert_eq!((&metadata["full"], &metadata["last_full_ms"]), (&json!(false), &json!(7)));
    }
}
