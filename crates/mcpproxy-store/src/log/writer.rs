//! The writer: one task that turns whatever has queued up into one commit, and signs how far the chain has come.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::approvals::sql::Losers;
use crate::log::health::Pulse;
use crate::log::keeper::Keeper;
use crate::log::queue::{Change, End, Intake, Operation, Queue, Stage, Terms, Until};
use crate::log::sql::{RecordWriter, Settled};
use crate::log::subject::Subject;
use crate::{RecordId, StoreError};

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A database that has not answered by then is as good as gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// When the ledger is finished, a log that does not recover is given up.
const LAST_TRIES: u32 = 3;

pub(crate) struct Writer {
    pub(crate) queue: Arc<Queue>,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) database: RecordWriter,
    pub(crate) keeper: Keeper,
    /// Counts commits, for those who wait for news.
    pub(crate) committed: watch::Sender<u64>,
    pub(crate) now_ms: fn() -> i64,
}

/// What is left over when a batch fails.
#[derive(Default)]
struct Rest {
    /// Of the batch that was tried: did happen, and is to be written unless it was.
    kept: Vec<Operation>,
    /// Of the batch that was tried: calls that will not be sent because their callers were told of the failure. If the
    /// batch turns out to have been committed after all, the log must say so.
    refused: Refused,
    /// Happened since then, and was never tried.
    later: Vec<Operation>,
}

type Refused = Vec<(RecordId, Arc<Subject>)>;

impl Writer {
    /// Runs until the queue is closed and everything in it is written, or cannot be.
    pub(crate) async fn run(mut self) -> Result<(), StoreError> {
        let mut rest = Rest::default();
        let mut pause = None;
        let mut last_tries = 0;
        loop {
            let intake = match pause {
                Some(pause) => {
                    // Who waits is told soon, but not by one try for each of them.
                    sleep(PAUSE_FIRST).await;
                    self.queue.ready(Until::Pause(pause - PAUSE_FIRST)).await
                }
                // What is left over from a success is written at once.
                None if !rest.kept.is_empty() => self.queue.intake(),
                None => self.queue.ready(Until::Due(self.keeper.due(&self.database))).await,
            };
            match self.step(&mut rest, intake).await {
                Ok(Step::Done) => {
                    return timeout(ANSWER_TIMEOUT, self.database.close()).await.unwrap_or(Err(StoreError::NoAnswer));
                }
                Ok(Step::Again) => pause = None,
                Err(error) => {
                    pause = Some(pause.map_or(PAUSE_FIRST, |pause: Duration| (pause * 2).min(PAUSE_MAX)));
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

    async fn step(&mut self, rest: &mut Rest, intake: Intake) -> Result<Step, StoreError> {
        if let Err(error) = self.settle(rest).await {
            // Whoever waits must hear of it, too.
            self.failed(&error);
            let mut batch = self.queue.take_all();
            drop_abandoned(&self.queue, &mut batch);
            let (kept, _never_tried) = self.refuse(batch, &Losers::new(), &error);
            rest.later.extend(kept);
            return Err(error);
        }
        let batch = self.batch(rest);
        if batch.is_empty() {
            return self.rest(intake).await;
        }
        let mut losers = Losers::new();
        match self.write(&batch, &mut losers).await {
            Ok(()) if losers.len() == batch.len() => {
                acknowledge(&self.queue, batch, &losers);
                // Nothing was written, which proves nothing.
                self.probe_if_failing().await?;
                Ok(Step::Again)
            }
            Ok(()) => {
                self.well();
                rest.kept = acknowledge(&self.queue, batch, &losers);
                let now_ms = (self.now_ms)();
                let keeping = self.keeper.after_commit(&mut self.database, now_ms);
                let kept = patiently(keeping, &self.pulse, self.queue.limits().wait, now_ms).await;
                self.after_keeping(kept)
            }
            Err(error) => {
                // In this order: whoever hears that it failed can see that the log fails.
                self.failed(&error);
                (rest.kept, rest.refused) = self.refuse(batch, &losers, &error);
                Err(error)
            }
        }
    }

    /// Nothing to write: time for everything else.
    async fn rest(&mut self, intake: Intake) -> Result<Step, StoreError> {
        if intake == Intake::Closed {
            let last = timeout(ANSWER_TIMEOUT, self.keeper.last(&mut self.database, (self.now_ms)())).await;
            if last.is_err() {
                tracing::warn!("could not sign or copy the last checkpoint in time");
            }
            return Ok(Step::Done);
        }
        self.probe_if_failing().await?;
        let now_ms = (self.now_ms)();
        let keeping = self.keeper.when_idle(&mut self.database, now_ms);
        let kept = patiently(keeping, &self.pulse, self.queue.limits().wait, now_ms).await;
        self.after_keeping(kept)
    }

    async fn probe_if_failing(&mut self) -> Result<(), StoreError> {
        if self.pulse.is_failing() {
            let probed = timeout(ANSWER_TIMEOUT, self.database.probe((self.now_ms)())).await;
            probed.unwrap_or(Err(StoreError::NoAnswer)).inspect_err(|error| self.failed(error))?;
            self.well();
        }
        Ok(())
    }

    /// Work that nobody waits for counts as a failure all the same when the database does not answer to it.
    fn after_keeping(&self, kept: Result<(), StoreError>) -> Result<Step, StoreError> {
        kept.inspect_err(|error| self.failed(error))?;
        if self.pulse.is_failing() {
            self.well();
        }
        Ok(Step::Again)
    }

    /// Connects again if need be. If the last batch was committed although it seemed to fail, what was kept of it is
    /// written, and the calls that were refused for it end as cancelled.
    async fn settle(&mut self, rest: &mut Rest) -> Result<(), StoreError> {
        let settled = timeout(ANSWER_TIMEOUT, self.database.settle()).await.unwrap_or(Err(StoreError::NoAnswer))?;
        // An error leaves everything as it was: what became of the batch is still to be found out.
        let refused = std::mem::take(&mut rest.refused);
        if settled == Settled::WasCommitted {
            for operation in rest.kept.drain(..) {
                self.queue.give_room(operation.room);
            }
            rest.kept = refused.into_iter().map(|(id, subject)| unsent(id, subject)).collect();
        }
        Ok(())
    }

    /// What was kept and what has come since, as one change for each record.
    fn batch(&self, rest: &mut Rest) -> Vec<Operation> {
        let mut batch = std::mem::take(&mut rest.kept);
        batch.append(&mut rest.later);
        let has_old = !batch.is_empty();
        batch.append(&mut self.queue.take(self.queue.limits().batch_max));
        drop_abandoned(&self.queue, &mut batch);
        if has_old { merged(batch) } else { batch }
    }

    async fn write(&mut self, batch: &[Operation], losers: &mut Losers) -> Result<(), StoreError> {
        let (wait, now_ms) = (self.queue.limits().wait, (self.now_ms)());
        if batch.iter().any(|operation| !matches!(operation.terms, Terms::None)) {
            return patiently(self.database.write_steps(batch, losers), &self.pulse, wait, now_ms).await?;
        }
        let writing = self.database.write(batch.iter().map(|operation| &operation.change));
        patiently(writing, &self.pulse, wait, now_ms).await?
    }

    /// Tells all who wait that it failed. A call whose caller was told so will not be sent, and its record is dropped, and
    /// so is what has conditions; everything else did happen, and is kept. Who had lost is told the same as others:
    /// against whom, is not true any more.
    fn refuse(&self, batch: Vec<Operation>, losers: &Losers, error: &StoreError) -> (Vec<Operation>, Refused) {
        let (mut kept, mut refused) = (Vec::new(), Vec::new());
        for (index, mut operation) in batch.into_iter().enumerate() {
            let Some(waiter) = operation.waiter.take() else {
                kept.push(operation);
                continue;
            };
            // Who has left needs no answer.
            let _left = waiter.send(Err(error.clone()));
            if !operation.begins() && !operation.is_conditional() {
                kept.push(operation);
                continue;
            }
            self.queue.give_room(operation.room);
            // What lost was not part of what was tried, and there is nothing to be ended.
            if let Some((id, subject)) = operation.begun().filter(|_| !losers.contains_key(&index)) {
                refused.push((id, subject));
            }
        }
        (kept, refused)
    }

    fn failed(&self, error: &StoreError) {
        if self.pulse.fail(error, (self.now_ms)()) {
            tracing::error!(
                error = crate::log::health::chain(error),
                "the activity log cannot be written; trying again"
            );
        }
    }

    fn well(&self) {
        if self.pulse.recover() {
            tracing::info!("the activity log can be written again");
        }
        self.committed.send_modify(|count| *count += 1);
    }
}

enum Step {
    Again,
    Done,
}

/// Callers give up after `wait`: from then on nobody else should begin to wait. What is given up itself has lost its
/// connection.
async fn patiently<T>(
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

/// The end of a call that was recorded and then not sent.
fn unsent(id: RecordId, subject: Arc<Subject>) -> Operation {
    let change = Change::Close(Box::new(End::unsent(id, subject)));
    Operation { change, terms: Terms::None, waiter: None, room: 0 }
}

/// Beginnings of calls whose caller has left before they were written: these calls will not be sent. What has conditions
/// was given up as well.
fn drop_abandoned(queue: &Queue, batch: &mut Vec<Operation>) {
    batch.retain(|operation| {
        let is_given_up = operation.begins() || operation.is_conditional();
        let abandoned = is_given_up && operation.waiter.as_ref().is_some_and(|waiter| waiter.is_closed());
        if abandoned {
            queue.give_room(operation.room);
        }
        !abandoned
    });
}

/// A beginning that could not be written and the end that came meanwhile become one line.
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

/// Tells all who wait, and returns what is still to be written.
fn acknowledge(queue: &Queue, batch: Vec<Operation>, losers: &Losers) -> Vec<Operation> {
    let mut kept = Vec::new();
    for (index, mut operation) in batch.into_iter().enumerate() {
        queue.give_room(operation.room);
        let lost = losers.get(&index).copied();
        let waiter = operation.waiter.take();
        let told = waiter.is_none_or(|waiter| waiter.send(Ok(lost.map_or(Ok(()), Err))).is_ok());
        if told || lost.is_some() {
            continue;
        }
        // The caller left while its call was being written: the call will not be sent, and the log should say so.
        kept.extend(operation.begun().map(|(id, subject)| unsent(id, subject)));
    }
    kept
}

impl Operation {
    /// The call that begins with it.
    fn begun(self) -> Option<(RecordId, Arc<Subject>)> {
        match self.change {
            Change::Insert(row) if row.stage == Stage::Begun => Some((row.id, row.subject)),
            Change::Insert(_) | Change::Close(_) => None,
        }
    }
}
