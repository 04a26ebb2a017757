//! The writer: one task that commits what has queued up, retries after failures, and answers waiting callers.
//!
//! Each round does three things:
//!
//! 1. **Settle.** After a failure, reconnect and find out if the last batch was committed: a commit can succeed
//!    although its acknowledgement is lost. The position and hash at the end of the chain tell.
//! 2. **Write.** Take a batch from the queue and commit it as one transaction. Steps of the operations run first
//!    (`approvals/step.rs`); an operation with a conflict is left out.
//! 3. **Keep.** Sign a checkpoint, remove expired records or move counts if that is due (`keeper.rs`). While nothing is
//!    written, check once a second that the connection still leads to the database.
//!
//! If a write fails, every waiting caller gets the error. The operations of the batch are then one of three kinds:
//!
//! | operation | after the error |
//! |---|---|
//! | the beginning of a call, or anything conditional, with a waiting caller | dropped: the caller will not send the call |
//! | the end of a call, or an event | kept and retried: it has happened |
//! | a beginning without a waiting caller | kept and retried: the call is under way |
//!
//! The first row has a catch. If the batch turns out to be committed after all, the log holds calls that were never
//! sent. `Leftover::refused` remembers them, and the next batch ends them as `cancelled` with the code `not_sent`.
//!
//! Invariants:
//! - Only this task writes records of the chain, so the head of the chain in memory is the head on disk.
//! - An operation releases its queue space exactly once: when it is written or dropped.
//! - A database that does not respond makes the log *failing* after `Limits::wait`, the time after which callers give
//!   up. From then on, new callers fail fast instead of queueing up.
//!
//! Why not one transaction per call? A commit waits for the disk. One commit for a whole batch costs about as much as
//! one for a single call, so the throughput grows with the load.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::disk::DiskRoom;
use super::health::Pulse;
use super::keeper::{Keeper, RoundNow};
use super::meter::LogMeter;
use super::operation::Operation;
use super::queue::{Intake, Queue, Until};
use super::sql::{RecordWriter, Settled};
use super::subject::Subject;
use crate::approvals::step::{Conditional, Conflicts, Steps};
use crate::error::with_causes;
use crate::sql::POSTGRES_TIMEOUT;
use crate::{RecordId, StoreError};

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The pause between two checks of an idle connection. A lost database is noticed without a call.
const WATCH_PAUSE: Duration = Duration::from_secs(1);
/// A database that has not responded by then counts as unreachable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two measurements of the database under load.
const MEASURE_PAUSE: Duration = Duration::from_millis(100);
/// Times that the writer lets other tasks run before it takes the next batch.
const GATHER_MAX: u32 = 16;
/// Tries after the ledger was told to finish.
const LAST_TRIES: u32 = 3;

pub(crate) struct Writer {
    pub(crate) queue: Arc<Queue>,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) disk: Arc<DiskRoom>,
    pub(crate) meter: Arc<LogMeter>,
    pub(crate) database: RecordWriter,
    pub(crate) keeper: Keeper,
    /// Rounds of the keeper that callers want now.
    pub(crate) rounds: mpsc::Receiver<RoundNow>,
    /// Counts commits, for readers that wait for new records.
    pub(crate) committed: watch::Sender<u64>,
    pub(crate) now_ms: fn() -> i64,
    /// The last time at which the connection was known to work.
    pub(crate) watched: Instant,
    /// The last time at which the size of the database was read.
    pub(crate) measured: Option<Instant>,
}

/// Operations left over from a failed batch.
#[derive(Default)]
struct Leftover {
    /// Part of the failed batch and still to be written, unless the batch was committed after all.
    kept: Vec<Operation>,
    /// Calls of the failed batch that will not be sent. If the batch was committed after all, the log must say so.
    refused: Refused,
    /// Arrived after the failure and was never tried.
    later: Vec<Operation>,
}

type Refused = Vec<(RecordId, Arc<Subject>)>;

enum Next {
    Round,
    Stop,
}

impl Writer {
    /// Runs until the queue is closed and its operations are written, or cannot be.
    pub(crate) async fn run(mut self) -> Result<(), StoreError> {
        let mut leftover = Leftover::default();
        let mut pause = None;
        let mut last_tries = 0;
        loop {
            let intake = match pause {
                Some(pause) => {
                    // A waiting caller gets its answer soon, but not by one try for each caller.
                    sleep(RETRY_FIRST).await;
                    self.queue.ready(Until::Retry(pause - RETRY_FIRST)).await
                }
                // Leftovers of a successful write are written at once.
                None if !leftover.kept.is_empty() => self.queue.intake(),
                None => {
                    self.gather().await;
                    let due = self.keeper.due(&self.database).min(self.watched + WATCH_PAUSE);
                    tokio::select! {
                        biased;
                        Some(round) = self.rounds.recv() => {
                            self.keeper.hurry(round);
                            self.queue.intake()
                        }
                        intake = self.queue.ready(Until::Due(due)) => intake,
                    }
                }
            };
            match self.round(&mut leftover, intake).await {
                Ok(Next::Stop) => {
                    return timeout(ANSWER_TIMEOUT, self.database.close()).await.unwrap_or(Err(StoreError::NoAnswer));
                }
                Ok(Next::Round) => pause = None,
                Err(error) => {
                    pause = Some(pause.map_or(RETRY_FIRST, |pause: Duration| (pause * 2).min(RETRY_MAX)));
                    if intake == Intake::Closed {
                        last_tries += 1;
                    }
                    if last_tries == LAST_TRIES {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Lets the callers that the last commit woke queue what they do next, as long as more of them do. Without this,
    /// the first of them would get a commit of its own, and all others would wait for it. There is no timer: a caller
    /// that is alone is not delayed.
    async fn gather(&self) {
        for _ in 0..GATHER_MAX {
            let before = self.queue.len();
            yield_now().await;
            if self.queue.len() == before {
                return;
            }
        }
    }

    async fn round(&mut self, leftover: &mut Leftover, intake: Intake) -> Result<Next, StoreError> {
        if let Err(error) = self.settle(leftover).await {
            // Callers that wait must get the error, too.
            self.report_failure(&error);
            let mut batch = self.queue.take_all();
            drop_abandoned(&self.queue, &mut batch);
            let (kept, _never_tried) = self.refuse(batch, &Conflicts::new(), &error);
            leftover.later.extend(kept);
            return Err(error);
        }
        let batch = self.batch(leftover);
        if batch.is_empty() {
            return self.idle(intake).await;
        }
        let mut conflicts = Conflicts::new();
        let began = Instant::now();
        match self.write(&batch, &mut conflicts).await {
            Ok(()) if conflicts.len() == batch.len() => {
                acknowledge(&self.queue, batch, &conflicts);
                // Nothing was written, so the log may still be failing.
                self.probe_if_failing().await?;
                Ok(Next::Round)
            }
            Ok(()) => {
                self.report_success();
                self.watched = Instant::now();
                // Before the callers are woken, so that they find their calls counted.
                self.meter.committed(&batch, &conflicts, self.watched - began);
                leftover.kept = acknowledge(&self.queue, batch, &conflicts);
                let now_ms = (self.now_ms)();
                let keeping = self.keeper.after_commit(&mut self.database, now_ms);
                let kept = with_timeouts(keeping, &self.pulse, self.queue.limits().wait, now_ms).await;
                self.measure().await;
                self.after_keeping(kept)
            }
            Err(error) => {
                self.meter.failed();
                // In this order: a caller that gets the error can see that the log is failing.
                self.report_failure(&error);
                (leftover.kept, leftover.refused) = self.refuse(batch, &conflicts, &error);
                Err(error)
            }
        }
    }

    /// Runs when there is nothing to write.
    async fn idle(&mut self, intake: Intake) -> Result<Next, StoreError> {
        if intake == Intake::Closed {
            let last = timeout(ANSWER_TIMEOUT, self.keeper.finish(&mut self.database, (self.now_ms)())).await;
            if last.is_err() {
                tracing::warn!("could not sign or copy the last checkpoint in time");
            }
            return Ok(Next::Stop);
        }
        self.probe_if_failing().await?;
        self.watch().await?;
        self.measure().await;
        let now_ms = (self.now_ms)();
        let keeping = self.keeper.when_idle(&mut self.database, now_ms);
        let kept = with_timeouts(keeping, &self.pulse, self.queue.limits().wait, now_ms).await;
        self.after_keeping(kept)
    }

    async fn probe_if_failing(&mut self) -> Result<(), StoreError> {
        if self.pulse.is_failing() {
            let probed = timeout(ANSWER_TIMEOUT, self.database.probe((self.now_ms)())).await;
            probed.unwrap_or(Err(StoreError::NoAnswer)).inspect_err(|error| self.report_failure(error))?;
            self.report_success();
        }
        Ok(())
    }

    /// Measures the database, if it is limited. A failure here fails no call; the next write finds it, too.
    async fn measure(&mut self) {
        let is_due = self.measured.is_none_or(|measured| measured.elapsed() >= MEASURE_PAUSE);
        if !is_due || !self.disk.is_limited() {
            return;
        }
        self.measured = Some(Instant::now());
        match timeout(ANSWER_TIMEOUT, self.database.used_bytes()).await.unwrap_or(Err(StoreError::NoAnswer)) {
            Ok(Some(used)) => self.disk.measured(used, (self.now_ms)()),
            Ok(None) => {}
            Err(error) => tracing::debug!(error = with_causes(&error), "could not measure the database"),
        }
    }

    /// Notices a database that was lost while nothing is written.
    async fn watch(&mut self) -> Result<(), StoreError> {
        if self.watched.elapsed() < WATCH_PAUSE {
            return Ok(());
        }
        let watched = timeout(ANSWER_TIMEOUT, self.database.watch()).await.unwrap_or(Err(StoreError::NoAnswer));
        self.watched = Instant::now();
        watched.inspect_err(|error| self.report_failure(error))
    }

    /// A database that does not respond to the keeper makes the log failing, although no caller waits.
    fn after_keeping(&self, kept: Result<(), StoreError>) -> Result<Next, StoreError> {
        kept.inspect_err(|error| self.report_failure(error))?;
        if self.pulse.is_failing() {
            self.report_success();
        }
        Ok(Next::Round)
    }

    /// Reconnects if needed. If the failed batch was committed after all, its kept operations are done, and the calls
    /// that were refused are ended as cancelled.
    async fn settle(&mut self, leftover: &mut Leftover) -> Result<(), StoreError> {
        // A new connection may take as long as a command waits for one.
        let limit = POSTGRES_TIMEOUT + ANSWER_TIMEOUT;
        let settled = timeout(limit, self.database.settle()).await.unwrap_or(Err(StoreError::NoAnswer))?;
        // After an error, `refused` stays: the fate of the batch is still unknown.
        let refused = std::mem::take(&mut leftover.refused);
        if settled == Settled::WasCommitted {
            self.meter.committed_late(&leftover.kept);
            for operation in leftover.kept.drain(..) {
                self.queue.release_space(operation.space);
            }
            leftover.kept = refused.into_iter().map(|(id, subject)| Operation::unsent(id, subject)).collect();
        }
        Ok(())
    }

    /// The leftovers and what has been queued since, with at most one change for each record.
    fn batch(&self, leftover: &mut Leftover) -> Vec<Operation> {
        let mut batch = std::mem::take(&mut leftover.kept);
        batch.append(&mut leftover.later);
        let has_leftovers = !batch.is_empty();
        batch.append(&mut self.queue.take(self.queue.limits().batch_max));
        drop_abandoned(&self.queue, &mut batch);
        if has_leftovers { merged(batch) } else { batch }
    }

    async fn write(&mut self, batch: &[Operation], conflicts: &mut Conflicts) -> Result<(), StoreError> {
        let (wait, now_ms) = (self.queue.limits().wait, (self.now_ms)());
        if batch.iter().any(|operation| !matches!(operation.steps, Steps::None)) {
            return with_timeouts(self.database.write_steps(batch, conflicts), &self.pulse, wait, now_ms).await?;
        }
        let writing = self.database.write(batch.iter().map(|operation| &operation.change));
        with_timeouts(writing, &self.pulse, wait, now_ms).await?
    }

    /// Sends the error to all waiting callers. Returns the operations to retry, and the calls that will not be sent. A
    /// caller with a conflict gets the error as well: the transaction it conflicted with was rolled back.
    fn refuse(&self, batch: Vec<Operation>, conflicts: &Conflicts, error: &StoreError) -> (Vec<Operation>, Refused) {
        let (mut kept, mut refused) = (Vec::new(), Vec::new());
        for (index, mut operation) in batch.into_iter().enumerate() {
            let Some(waiter) = operation.waiter.take() else {
                kept.push(operation);
                continue;
            };
            // A caller that has left needs no answer.
            let _left = waiter.send(Err(error.clone()));
            if !operation.is_beginning() && !operation.is_conditional() {
                kept.push(operation);
                continue;
            }
            self.queue.release_space(operation.space);
            // An operation with a conflict was not part of the write, so there is nothing to end.
            if let Some((id, subject)) = operation.begun().filter(|_| !conflicts.contains_key(&index)) {
                refused.push((id, subject));
            }
        }
        (kept, refused)
    }

    fn report_failure(&self, error: &StoreError) {
        if self.pulse.fail(error, (self.now_ms)()) {
            tracing::error!(error = with_causes(error), "could not write the activity log; retrying");
        }
    }

    fn report_success(&self) {
        if self.pulse.recover() {
            tracing::info!("the activity log works again");
        }
        self.committed.send_modify(|count| *count += 1);
    }
}

/// Marks the log as failing after `wait`, when callers give up, and stops the work after `ANSWER_TIMEOUT` more. Stopped
/// work has lost its connection.
async fn with_timeouts<T>(
    work: impl Future<Output = T>,
    pulse: &Pulse,
    wait: Duration,
    now_ms: i64,
) -> Result<T, StoreError> {
    tokio::pin!(work);
    if let Ok(outcome) = timeout(wait, &mut work).await {
        return Ok(outcome);
    }
    pulse.fail(&StoreError::NoAnswer, now_ms);
    timeout(ANSWER_TIMEOUT, work).await.map_err(|_| StoreError::NoAnswer)
}

/// Drops beginnings and conditional operations whose caller has left: their calls will not be sent.
fn drop_abandoned(queue: &Queue, batch: &mut Vec<Operation>) {
    batch.retain(|operation| {
        let can_be_dropped = operation.is_beginning() || operation.is_conditional();
        let abandoned = can_be_dropped && operation.waiter.as_ref().is_some_and(|waiter| waiter.is_closed());
        if abandoned {
            queue.release_space(operation.space);
        }
        !abandoned
    });
}

/// Merges each end into its beginning, if that is still to be written.
fn merged(batch: Vec<Operation>) -> Vec<Operation> {
    let mut merged: Vec<Operation> = Vec::with_capacity(batch.len());
    let mut begun: HashMap<RecordId, usize> = HashMap::new();
    for operation in batch {
        let left = match begun.get(&operation.id()).and_then(|index| merged.get_mut(*index)) {
            Some(beginning) => beginning.end_with(operation),
            None => {
                begun.insert(operation.id(), merged.len());
                Some(operation)
            }
        };
        merged.extend(left);
    }
    merged
}

/// Answers all waiting callers. Returns the ends of calls whose caller left while the call was being written.
fn acknowledge(queue: &Queue, batch: Vec<Operation>, conflicts: &Conflicts) -> Vec<Operation> {
    let mut unsent = Vec::new();
    for (index, mut operation) in batch.into_iter().enumerate() {
        queue.release_space(operation.space);
        let conflict = conflicts.get(&index).copied();
        let answer = conflict.map_or(Conditional::Written(()), |step| Conditional::Conflict { step });
        let waiter = operation.waiter.take();
        let is_delivered = waiter.is_none_or(|waiter| waiter.send(Ok(answer)).is_ok());
        if is_delivered || conflict.is_some() {
            continue;
        }
        // The caller left, so the call will not be sent.
        unsent.extend(operation.begun().map(|(id, subject)| Operation::unsent(id, subject)));
    }
    unsent
}
