//! The ledger: the only way to add a record. It records a call before the call is sent, and again when it is over.
//!
//! ```text
//! let open = ledger.open(record, wait_for).await?;   // an error: nothing was recorded, so nothing may be sent
//! let outcome = forward(permit).await;
//! ledger.close(open, outcome, wait_for).await?;
//! ```
//!
//! | method | records | with steps |
//! |---|---|---|
//! | `open`, `open_if` | the beginning of a call | `open_if`: only if each step's condition holds |
//! | `close`, `close_with` | its end | `close_with`: the steps are written whatever they find |
//! | `append`, `append_if` | an event that is over at once, such as a refusal | `append_if`: as `open_if` |
//!
//! A record passes the queue (`queue.rs`) to the one task that writes (`writer.rs`). [`WaitFor`] says when a method
//! returns: a call that changes data waits for the disk, a call that only reads waits for the queue. While the log
//! cannot be written, every record waits for the disk, so that nothing is sent that may never be recorded.
//!
//! Invariants:
//! - **No record, no call.** `open` is awaited before anything is sent. It fails within `patience`, it never hangs.
//! - **An end is never lost while the gateway runs.** The call has happened, so its end is queued even without space.
//!   It is still written after its caller got an error.
//! - **A caller may leave at any moment**, because the futures are cancelled when an agent disconnects. A beginning
//!   whose caller left is dropped or ended as `cancelled` with the code `not_sent` (`waiting.rs`).
//! - **One process per chain.** `start` ends the calls that an earlier run left open as `interrupted`. It must hold the
//!   lock of the data folder, or it would end the calls of a running gateway.
//!
//! `start` also checks the end of the chain, and compares it with the newest checkpoint outside the database
//! (`start.rs`). It refuses to continue a log that lost records or was rewritten, because new records on top would hide
//! the damage.

mod evidence;
mod room;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcpproxy_core::settings::Retention;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::copies::{Copies, CopyPaths};
use super::disk::DiskRoom;
use super::health::{Health, Pulse};
use super::keeper::{Keeper, RoundNow, RoundWaiter};
use super::meter::{LogMeter, LogReadings};
use super::operation::{End, Stage, Waiter, Written};
use super::queue::{Limits, OpenRecord, Queue};
use super::retention::Retainer;
use super::signature::{SigningKey, Verifier};
use super::waiting::Waiting;
use super::writer::Writer;
use crate::approvals::step::{Conditional, Step, Steps};
use crate::{NewRecord, Outcome, RecordId, Store, StoreError};

/// Writes the records of one chain. All clones share one queue and one writer.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue>,
    pulse: Arc<Pulse>,
    disk: Arc<DiskRoom>,
    meter: Arc<LogMeter>,
    committed: watch::Receiver<u64>,
    rounds: mpsc::Sender<RoundNow>,
    verifier: Verifier,
    newest_checkpoint: Option<PathBuf>,
    interrupted: usize,
    chain: u16,
    /// `None` once it was awaited.
    writer: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

pub struct LedgerOptions {
    /// Names the chain and signs its checkpoints.
    pub key: SigningKey,
    /// A file with the newest checkpoint. `start` compares the database with it.
    pub newest_checkpoint: Option<PathBuf>,
    /// A file to append all checkpoints to.
    pub checkpoints_to: Option<PathBuf>,
    pub retention: Retention,
    /// Longest wait of a caller while the log neither accepts a record nor fails.
    pub patience: Duration,
    pub now_ms: fn() -> i64,
}

/// The moment at which a method of the ledger returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The record is on disk.
    Disk,
    /// The record is in the queue, and on disk a moment later. While the log cannot be written, this means `Disk`.
    Queue,
}

impl Ledger {
    /// Continues the chain of this key, and ends the calls that an earlier run left open. The caller must hold the lock
    /// of the data folder.
    pub async fn start(store: &Store, options: LedgerOptions) -> Result<Self, StoreError> {
        let limits = Limits { wait: options.patience, ..Limits::DEFAULT };
        Self::start_with(store, options, limits).await
    }

    pub(crate) async fn start_with(store: &Store, options: LedgerOptions, limits: Limits) -> Result<Self, StoreError> {
        let LedgerOptions { key, newest_checkpoint, checkpoints_to, retention, patience: _, now_ms } = options;
        let verifier = key.verifier().clone();
        store.check_chain(&verifier, newest_checkpoint.as_deref()).await?;
        let mut database = store.database().record_writer(&verifier, now_ms()).await?;
        let retainer = Retainer::new(retention);
        retainer.prepare(&mut database, now_ms()).await?;
        let interrupted = database.close_interrupted().await?;
        let signed_seq = database.signed_seq().await?;
        let chain = database.chain();
        let queue = Arc::new(Queue::new(limits, chain, database.head().key));
        let pulse = Arc::new(Pulse::default());
        let disk = Arc::new(DiskRoom::default());
        let meter = Arc::new(LogMeter::default());
        let (sender, committed) = watch::channel(0);
        let (rounds, wanted_rounds) = mpsc::channel(1);
        let copies = Copies::start(CopyPaths { newest: newest_checkpoint.clone(), all: checkpoints_to });
        let keeper = Keeper::new(key, copies, retainer, signed_seq);
        let writer = Writer {
            queue: Arc::clone(&queue),
            pulse: Arc::clone(&pulse),
            disk: Arc::clone(&disk),
            meter: Arc::clone(&meter),
            database,
            keeper,
            rounds: wanted_rounds,
            committed: sender,
            now_ms,
            watched: Instant::now(),
            measured: None,
        };
        let writer = Mutex::new(Some(spawn(writer)));
        let shared = Shared {
            queue,
            pulse,
            disk,
            meter,
            committed,
            rounds,
            verifier,
            newest_checkpoint,
            interrupted,
            chain,
            writer,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Records the beginning of a call. After an error, nothing was recorded and nothing may be sent.
    pub async fn open(&self, record: NewRecord, wait_for: WaitFor) -> Result<OpenRecord, StoreError> {
        let opened = self.insert(record, Stage::Begun, Steps::None, wait_for).await?;
        opened.written().ok_or(StoreError::LogUnavailable)
    }

    /// Records the beginning of a call if the condition of every step holds, in one transaction, on disk. After an
    /// error, nothing may be sent. Most likely nothing was written either. If it was, and only the answer got lost, the
    /// record ends as cancelled with the code `not_sent`, and consumed approvals stay consumed.
    pub async fn open_if(&self, record: NewRecord, steps: Vec<Step>) -> Result<Conditional<OpenRecord>, StoreError> {
        self.insert(record, Stage::Begun, Steps::if_all(steps), WaitFor::Disk).await
    }

    /// Records the end of a call. After an error, the end is still written once the log works again.
    pub async fn close(&self, open: OpenRecord, outcome: Outcome, wait_for: WaitFor) -> Result<(), StoreError> {
        self.end(open, outcome, wait_for, Steps::None).await
    }

    /// Like `close`, with steps that are written with the end even if their conditions do not hold.
    pub async fn close_with(
        &self,
        open: OpenRecord,
        outcome: Outcome,
        wait_for: WaitFor,
        steps: Vec<Step>,
    ) -> Result<(), StoreError> {
        self.end(open, outcome, wait_for, Steps::always(steps)).await
    }

    /// Records something that is over at once: a refusal, or an event.
    pub async fn append(&self, record: NewRecord, wait_for: WaitFor) -> Result<RecordId, StoreError> {
        let appended = self.insert(record, Stage::Complete, Steps::None, wait_for).await?;
        appended.written().map(|open| open.id()).ok_or(StoreError::LogUnavailable)
    }

    /// Records an event if the condition of every step holds, in one transaction, on disk. The caller may retry after
    /// an error: if the first try was written after all, the second conflicts.
    pub async fn append_if(&self, record: NewRecord, steps: Vec<Step>) -> Result<Conditional<RecordId>, StoreError> {
        let appended = self.insert(record, Stage::Complete, Steps::if_all(steps), WaitFor::Disk).await?;
        Ok(appended.map(|open| open.id()))
    }

    /// The number of calls that an earlier run left open.
    pub fn interrupted(&self) -> usize {
        self.shared.interrupted
    }

    /// The number of the chain that this ledger writes.
    pub fn chain(&self) -> u16 {
        self.shared.chain
    }

    pub fn health(&self) -> Health {
        match self.shared.pulse.health() {
            Health::Well => self.shared.disk.health(),
            failing @ Health::Failing { .. } => failing,
        }
    }

    /// Limits the size of the content of a SQLite database. PostgreSQL is not measured.
    pub fn limit_disk(&self, bytes: u64) {
        self.shared.disk.set_limit(bytes);
    }

    /// Turns counting for metrics on or off. It is on at first.
    pub fn measure(&self, is_on: bool) {
        self.shared.meter.turn(is_on);
    }

    /// Returns the counts since the start.
    pub fn readings(&self) -> LogReadings {
        self.shared.meter.read(self.shared.queue.len())
    }

    /// Changes after every commit.
    pub fn committed(&self) -> watch::Receiver<u64> {
        self.shared.committed.clone()
    }

    /// Moves the counts of all records so far into series, and waits for it. Moves none, without an error, while a
    /// gateway runs that does not know series. The writer does this every few minutes. Tests do not wait for that.
    pub async fn roll_up(&self) -> Result<(), StoreError> {
        self.round(RoundNow::RollUp).await
    }

    /// Removes what has expired, as far as possible now, and waits for it. The writer does this every ten minutes. Tests do
    /// not wait for that.
    pub async fn remove_expired(&self) -> Result<(), StoreError> {
        self.round(RoundNow::Retention).await
    }

    async fn round(&self, round: fn(RoundWaiter) -> RoundNow) -> Result<(), StoreError> {
        let (waiter, over) = oneshot::channel();
        self.shared.rounds.send(round(waiter)).await.map_err(|_| StoreError::Closed)?;
        over.await.map_err(|_| StoreError::LogUnavailable)
    }

    pub fn verifier(&self) -> &Verifier {
        &self.shared.verifier
    }

    /// Writes and signs everything that was accepted, and accepts nothing more. After an error, some of it is not
    /// written.
    pub async fn finish(&self) -> Result<(), StoreError> {
        self.shared.queue.close();
        let writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match writer {
            Some(writer) => writer.await.unwrap_or(Err(StoreError::LogUnavailable)),
            None => Ok(()),
        }
    }

    async fn insert(
        &self,
        record: NewRecord,
        stage: Stage,
        steps: Steps,
        wait_for: WaitFor,
    ) -> Result<Conditional<OpenRecord>, StoreError> {
        let Shared { queue, pulse, disk, .. } = &*self.shared;
        if disk.is_full() {
            return Err(StoreError::DiskLimit);
        }
        let record = record.bounded();
        let deadline = queue.deadline(pulse.is_failing());
        let space = queue.take_space(record.text_bytes() + steps.text_bytes(), deadline).await?;
        // A failing log may never write what it accepts now.
        let wait_for = if pulse.is_failing() { WaitFor::Disk } else { wait_for };
        let (waiter, written) = waiter(wait_for);
        let open = queue.insert(record, stage, steps, waiter, space)?;
        match written {
            Some(written) => Waiting::new(queue, written, stage, open).finish(deadline).await,
            None => Ok(Conditional::Written(open)),
        }
    }

    async fn end(&self, open: OpenRecord, outcome: Outcome, wait_for: WaitFor, steps: Steps) -> Result<(), StoreError> {
        let OpenRecord { id, slot, subject } = open;
        let Shared { queue, pulse, disk, .. } = &*self.shared;
        let mut outcome = outcome.bounded();
        if disk.is_full() {
            // Leaves room for the ends of all other open calls.
            outcome.result = outcome.result.map(|result| result.without_text());
        }
        let deadline = queue.deadline(pulse.is_failing());
        let space = match queue.take_space(outcome.text_bytes() + steps.text_bytes(), deadline).await {
            Ok(space) => space,
            // The call has happened, so its end is recorded without the text of its result. There are never more of
            // these ends than open calls.
            Err(_) => {
                outcome.result = outcome.result.map(|result| result.without_text());
                0
            }
        };
        let (waiter, written) = waiter(wait_for);
        queue.close_record(slot, End { id, outcome, subject }, steps, waiter, space)?;
        let Some(written) = written else { return Ok(()) };
        match timeout_at(deadline, written).await {
            Ok(Ok(outcome)) => outcome?.written().ok_or(StoreError::LogUnavailable),
            Ok(Err(_)) | Err(_) => Err(StoreError::LogUnavailable),
        }
    }
}

impl Drop for Shared {
    /// The writer finishes by itself. A caller that needs to know calls `finish`.
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn waiter(wait_for: WaitFor) -> (Option<Waiter>, Option<oneshot::Receiver<Written>>) {
    match wait_for {
        WaitFor::Queue => (None, None),
        WaitFor::Disk => {
            let (waiter, written) = oneshot::channel();
            (Some(waiter), Some(written))
        }
    }
}

/// Starts the writer. A function of its own compiles it in this crate, and not in the program that polls
/// [`Ledger::start`].
fn spawn(writer: Writer) -> JoinHandle<Result<(), StoreError>> {
    tokio::spawn(writer.run())
}
