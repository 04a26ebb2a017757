//! The task that keeps the search index up to date while the gateway runs.
//!
//! It looks every two seconds for lines to index. A busy gateway writes some blocks in that time. An old log without an
//! index is indexed from its beginning, with a pause after each block, so that calls keep the database for themselves
//! most of the time. Until it is done, searches read the records.
//!
//! Several gateways on one database each have this task. A lock in PostgreSQL lets one of them work at a time, on all
//! chains, so that the log of a gateway that is gone gets indexed, too.
//!
//! A failure fails no call and no search. The task waits longer after each one, and warns of the first.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::update::Updater;
use crate::error::with_causes;
use crate::{Health, Ledger, Store};

const LOOK_PAUSE: Duration = Duration::from_secs(2);
const BLOCK_PAUSE: Duration = Duration::from_millis(50);
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
    loop {
        sleep(pause).await;
        if ledger.health() != Health::Well {
            continue;
        }
        match updater.run(&store, now_ms()).await {
            Ok(_) => pause = LOOK_PAUSE,
            Err(error) => {
                if pause == LOOK_PAUSE {
                    tracing::warn!(error = with_causes(&error), "could not update the search index; retrying");
                }
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
}
