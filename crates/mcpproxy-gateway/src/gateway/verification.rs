//! Verifies the activity log in the background, for the console.
//!
//! `mcpproxy activity verify` does the same from outside, which proves more: it does not trust the running program. The
//! console runs one verification at a time, because each reads the whole log. The end is a record of the log with the code
//! [`LOG_VERIFIED`], so that every gateway of the database knows when the log was verified last, and by whom.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpproxy_store::{ChainVerdict, Filter, Kind, NewRecord, Progress, Record, Status, StoreError};
use serde_json::json;

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

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedLog {
    pub chains: Vec<ChainVerdict>,
    /// Damage of the file and its indexes, as SQLite reports it.
    pub database_damage: Vec<String>,
}

impl VerifiedLog {
    pub fn is_intact(&self) -> bool {
        self.database_damage.is_empty() && self.chains.iter().all(|chain| chain.damage.is_none())
    }

    /// Says in one sentence what was found.
    pub fn summary(&self) -> String {
        let lines: i64 = self.chains.iter().map(|chain| chain.lines).sum();
        let damage = self.chains.iter().find_map(|chain| chain.damage.as_ref().map(|damage| (&chain.chain, damage)));
        match (damage, self.database_damage.first()) {
            (Some((chain, damage)), _) => format!("chain {chain} is damaged: {damage}"),
            (None, Some(damage)) => format!("the database file is damaged: {damage}"),
            (None, None) => {
                let of = |count: usize, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
                let lines = of(usize::try_from(lines).unwrap_or_default(), "line");
                format!("intact: {lines} in {}", of(self.chains.len(), "chain"))
            }
        }
    }

    fn record(&self, by: &str) -> NewRecord {
        let sum = |of: fn(&ChainVerdict) -> u64| self.chains.iter().map(of).sum::<u64>();
        let metadata = json!({
            "user": by,
            "chains": self.chains.len(),
            "lines": self.chains.iter().map(|chain| chain.lines).sum::<i64>(),
            "checkpoints": sum(|chain| chain.checkpoints),
        });
        let status = if self.is_intact() { Status::Success } else { Status::Error };
        NewRecord {
            code: Some(LOG_VERIFIED.to_owned()),
            message: Some(self.summary()),
            metadata: metadata.to_string(),
            ..record::blank(Kind::Settings, status)
        }
    }
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
    pub fn verify_log(&self, by: &str) -> bool {
        if !self.verification.begin(by) {
            return false;
        }
        let (slot, state, by) = (Arc::clone(&self.verification), Arc::clone(&self.state), by.to_owned());
        tokio::spawn(async move {
            // A stopping gateway closes its database. The verification ends without a record then.
            let result = tokio::select! {
                result = verify(&state, &slot) => result.map_err(|error| error.to_string()),
                () = state.stopping.cancelled() => Err("the gateway stopped".to_owned()),
            };
            let found = result.as_ref().ok().map(|found| (found.record(&by), found.is_intact(), found.summary()));
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

    /// Returns the record of the last verification from the console, also of an earlier run or another gateway.
    pub async fn last_verification(&self) -> Result<Option<Record>, StoreError> {
        let filter = Filter { kind: Some(Kind::Settings), text: Some(LOG_VERIFIED.to_owned()), ..Filter::default() };
        let found = self.state.store.list(&filter, None, SEARCHED_MAX).await?;
        // The text may also be part of a message.
        let is_one = |record: &Record| record.code.as_ref().is_some_and(|code| code.for_json() == LOG_VERIFIED);
        Ok(found.records.into_iter().find(is_one))
    }
}

async fn verify(state: &SharedState, slot: &VerificationSlot) -> Result<VerifiedLog, StoreError> {
    // Read checkpoints before the log: a gateway signs only what is already written.
    let evidence = state.ledger.evidence();
    let database_damage = state.store.file_damage().await?;
    let chains = match state.store.verify(evidence, &mut |done| slot.advance(done)).await {
        // A file with damaged pages may not be readable to the end.
        Err(_) if !database_damage.is_empty() => Vec::new(),
        chains => chains?,
    };
    Ok(VerifiedLog { chains, database_damage })
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn damage_is_named() {
        let log = |damage: &[&str]| VerifiedLog {
            chains: Vec::new(),
            database_damage: damage.iter().map(|text| (*text).to_owned()).collect(),
        };
        let (intact, damaged) = (log(&[]), log(&["row 7 missing from index records_tool"]));
        assert!(intact.is_intact() && !damaged.is_intact());
        assert_eq!(intact.summary(), "intact: 0 lines in 0 chains");
        assert_eq!(damaged.summary(), "the database file is damaged: row 7 missing from index records_tool");
        assert_eq!((intact.record("a").status, damaged.record("a").status), (Status::Success, Status::Error));
    }
}
