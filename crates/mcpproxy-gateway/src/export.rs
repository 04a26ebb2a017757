//! Copies every record of this gateway to a file or an HTTP endpoint, as OCSF events, for a SIEM.
//!
//! ```text
//!  store ─▶ batch after the position ─▶ OCSF lines ─▶ file + fsync, or POST ─▶ position in the store
//! ```
//!
//! One task does this. It reads what is committed, so it exports nothing that the log could lose. The position moves only
//! after the destination has the batch: a file after `fsync`, an endpoint after a 2xx answer. If the gateway is killed in
//! between, the batch is sent again. So each record arrives **at least once**, and a duplicate has the same
//! `metadata.uid`.
//!
//! Invariants:
//!
//! - **No call waits for an export.** The task has no queue. It reads from the store when the destination is ready.
//! - **Memory is bounded.** One batch at a time, with at most [`BATCH_MAX`] records and about [`BATCH_BYTES`] of text.
//! - **Nothing is skipped.** A destination that fails is tried again with exponential backoff, for as long as it takes.
//!   If retention removes records meanwhile, the next batch begins with an event that says how many lines are missing.
//! - **Masked values stay masked.** The store has no other ones. Arguments and results are not exported, only their sizes
//!   and digests.
//!
//! Several gateways on one database export one chain each, so their exports need no coordination. After the signing key
//! was replaced, a gateway first exports the rest of the chain that its older key signed.

mod destination;
mod ocsf;
mod progress;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::settings::ExportSettings;
use mcpproxy_store::{ExportBatch, Ledger, Store, StoreError};
use tokio_util::sync::CancellationToken;

use self::destination::Destination;
use crate::record::now_ms;

pub(crate) use self::progress::ExportProgress;
pub use self::progress::ExportReadings;

/// Records in one batch.
const BATCH_MAX: usize = 500;
/// Text of one batch. A batch ends after the record that reaches it.
const BATCH_BYTES: usize = 1024 * 1024;
/// Pause after a batch that reached the end of the log, so that busy times make larger batches.
const GATHER: Duration = Duration::from_millis(250);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Starts the export, if the settings have one. It ends when the gateway stops.
pub(crate) fn start(
    settings: Option<&ExportSettings>,
    store: &Store,
    ledger: &Ledger,
    stopping: &CancellationToken,
) -> Option<Arc<ExportProgress>> {
    let destination = Destination::new(settings?);
    let progress = Arc::new(ExportProgress::new(destination.shown()));
    let (store, ledger) = (store.clone(), ledger.clone());
    let exporter = Exporter { store, ledger, destination, progress: Arc::clone(&progress), limit: BATCH_MAX };
    tokio::spawn(exporter.run(stopping.clone()));
    Some(progress)
}

/// The task of the export, and what it needs.
struct Exporter {
    store: Store,
    ledger: Ledger,
    destination: Destination,
    progress: Arc<ExportProgress>,
    /// Records in the next batch. Halved when an endpoint refuses a batch as too large.
    limit: usize,
}

/// A batch as text.
struct Lines {
    text: String,
    records: u64,
    /// The position up to which everything is exported once the text is delivered.
    position: i64,
}

impl Exporter {
    /// Exports until the gateway stops. What is left is exported after the next start.
    async fn run(mut self, stopping: CancellationToken) {
        tokio::select! {
            () = stopping.cancelled() => {}
            () = self.export() => {}
        }
    }

    async fn export(&mut self) {
        let mut committed = self.ledger.committed();
        let mut place = Place { chains: VecDeque::new(), position: None };
        let mut pause = RETRY_FIRST;
        loop {
            // Marked before the read, so that a commit during the read is not missed.
            committed.mark_unchanged();
            match self.step(&mut place).await {
                Ok(More::Yes) => pause = RETRY_FIRST,
                Ok(More::No) => {
                    pause = RETRY_FIRST;
                    tokio::time::sleep(GATHER).await;
                    if committed.changed().await.is_err() {
                        return;
                    }
                }
                Err(reason) => {
                    if self.progress.failed(&reason, now_ms()) {
                        tracing::warn!(to = self.progress.destination(), reason, "could not export records; retrying");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_MAX);
                }
            }
        }
    }

    /// Exports one batch. Reads the position from the store at first, and after that keeps it.
    async fn step(&mut self, place: &mut Place) -> Result<More, String> {
        let own = self.ledger.chain();
        if place.chains.is_empty() {
            let chains = self.store.export_chains(self.ledger.verifier(), own).await.map_err(store_failed)?;
            place.chains = chains.into();
        }
        let chain = place.chains.front().copied().unwrap_or(own);
        let from = match place.position {
            Some(position) => position,
            None => self.store.export_position(chain, self.destination.key()).await.map_err(store_failed)?,
        };
        let batch = self.store.export_batch(chain, from, self.limit).await.map_err(store_failed)?;
        self.progress.look(batch.end - from);
        let lines = lines(&batch, chain, from);
        if !lines.text.is_empty() {
            if let Err(failure) = self.destination.deliver(&lines.text).await {
                if failure.is_too_large && self.limit > 1 {
                    self.limit /= 2;
                }
                return Err(failure.reason);
            }
            self.limit = BATCH_MAX.min(self.limit.saturating_mul(2));
        }
        if lines.position > from {
            let moved = self.store.move_export(chain, self.destination.key(), lines.position, now_ms());
            moved.await.map_err(store_failed)?;
        }
        place.position = Some(lines.position);
        if batch.missed > 0 {
            tracing::warn!(lines = batch.missed, "retention removed records before they were exported");
        }
        if self.progress.exported(lines.records, batch.missed, batch.end - lines.position, now_ms()) {
            tracing::info!(to = self.progress.destination(), "the export works again");
        }
        if lines.position < batch.end && lines.position > from {
            return Ok(More::Yes);
        }
        Ok(place.next_chain())
    }
}

/// The place in the log up to which it is exported.
struct Place {
    /// Chains that are left, the oldest first. There are several after the signing key was replaced.
    chains: VecDeque<u16>,
    /// The position in the first of them. `None` before it is read from the store.
    position: Option<i64>,
}

impl Place {
    /// Goes on with the next chain after the end of one. Only the newest chain grows.
    fn next_chain(&mut self) -> More {
        if self.chains.len() < 2 {
            return More::No;
        }
        self.chains.pop_front();
        self.position = None;
        More::Yes
    }
}

/// Tells if the log has more to export at once.
enum More {
    Yes,
    No,
}

fn lines(batch: &ExportBatch, chain: u16, from: i64) -> Lines {
    let mut lines = Lines { text: String::new(), records: 0, position: batch.next };
    if batch.missed > 0 {
        lines.push(&ocsf::gap(chain, from, batch.missed, now_ms()));
    }
    for (position, record) in &batch.records {
        lines.push(&ocsf::event(record));
        lines.records += 1;
        if lines.text.len() >= BATCH_BYTES {
            lines.position = *position;
            break;
        }
    }
    lines
}

impl Lines {
    fn push(&mut self, event: &serde_json::Value) {
        self.text.push_str(&event.to_string());
        self.text.push('\n');
    }
}

fn store_failed(error: StoreError) -> String {
    format!("the database failed: {error}")
}
