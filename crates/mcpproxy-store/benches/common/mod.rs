//! A log for benchmarks, of which nothing expires.

use std::time::Duration;

use mcpproxy_core::settings::Retention;
use mcpproxy_store::{Ledger, LedgerOptions, SigningKey, Store};

/// The time of the first record.
pub(crate) const BEGIN_MS: i64 = 1_700_000_000_000;

/// Starts the log of a store.
pub(crate) async fn ledger(store: &Store) -> Ledger {
    let options = LedgerOptions {
        key: SigningKey::from_seed(&[1; 32]).expect("a key"),
        newest_checkpoint: None,
        checkpoints_to: None,
        retention: Retention { payloads: None, payload_bytes: None, records: None },
        patience: Duration::from_secs(20),
        now_ms: || BEGIN_MS,
    };
    Ledger::start(store, options).await.expect("a ledger")
}
