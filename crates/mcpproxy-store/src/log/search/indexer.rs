//! The task that keeps the search index up to date while the gateway runs.
//!
//! It looks every two seconds for lines to index, and at once after it added blocks. A busy gateway writes some blocks
//! in that time. An old log without an index is indexed from its beginning, with a pause after each block, so that calls
//! keep the database for themselves most of the time. Until it is done, searches read the records.
//!
//! Several gateways on one database each have this task. A lock in PostgreSQL lets one of them work at a time, on all
//! chains, so that the log of a gateway that is gone gets indexed, too. The others look again after half a minute.
//!
//! A failure fails no call and no search. The task waits longer after each one, and warns of the first. While
//! `limits.disk` leaves little room, it adds nothing (`update.rs`).

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::update::{UpdateOutcome, Updater};
use crate::error::with_causes;
use crate::{Ledger, Store};

const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Chains that are looked at in one [`LOOK_PAUSE`]. With more of them, the pause is longer.
const LOOK_CHAINS: u32 = 256;
const BLOCK_PAUSE: Duration = Duration::from_millis(50);
const NOT_MINE_PAUSE: Duration = Duration::from_secs(30);
const RETRY_MAX: Duration = Duration::from_secs(120);

/// Keeps the search index up to date until it is dropped.
pub struct SearchIndexer {
    task: JoinHandle<()>,
}

impl SearchIndexer {
    pub fn start(store: &Store, ledger: &Ledger, now_ms: fn() -> i64) -> Self {
        let updater = Updater::beside(ledger.clone(), BLOCK_PAUSE);
        Self { task: tokio::spawn(run(store.clone(), ledger.clone(), updater, now_ms)) }
    }
}

impl Drop for SearchIndexer {
    /// A block is one transaction, so the task can end at any point.
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(store: Store, ledger: Ledger, mut updater: Updater, now_ms: fn() -> i64) {
    let mut pause = LOOK_PAUSE;
    let mut retry = LOOK_PAUSE;
    loop {
        sleep(pause).await;
        if !ledger.is_writable() {
            continue;
        }
        match updater.run(&store, now_ms()).await {
            Ok(outcome) => (pause, retry) = (pause_after(outcome), LOOK_PAUSE),
            Err(error) => {
                if retry == LOOK_PAUSE {
                    tracing::warn!(error = with_causes(&error), "could not update the search index; retrying");
                }
                retry = (retry * 2).min(RETRY_MAX);
                pause = retry;
            }
        }
    }
}

fn pause_after(outcome: UpdateOutcome) -> Duration {
    match outcome {
        UpdateOutcome::NotMine => NOT_MINE_PAUSE,
        UpdateOutcome::Done { added: 1.., .. } => BLOCK_PAUSE,
        UpdateOutcome::Done { added: 0, chains } => {
            LOOK_PAUSE * u32::try_from(chains).unwrap_or(u32::MAX).div_ceil(LOOK_CHAINS).clamp(1, LOOK_CHAINS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_follows_what_was_found() {
        let check = |outcome, pause_ms| assert_eq!(pause_after(outcome).as_millis(), pause_ms, "{outcome:?}");
        check(UpdateOutcome::NotMine, 30_000);
        check(UpdateOutcome::Done { added: 3, chains: 4_096 }, 50);
        check(UpdateOutcome::Done { added: 0, chains: 0 }, 2_000);
        check(UpdateOutcome::Done { added: 0, chains: 256 }, 2_000);
        check(UpdateOutcome::Done { added: 0, chains: 4_096 }, 32_000);
    }
}
