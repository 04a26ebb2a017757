//! The line before the writer: everything that was accepted and is not on disk yet.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::approvals::claim::NOT_SENT;
use crate::log::subject::Subject;
use crate::log::tally::HOUR_MS;
use crate::record::id::Key;
use crate::{Lost, NewRecord, Outcome, Payload, RecordId, Status, Step, StoreError};

/// A record costs this much room, plus what its texts take.
const RECORD_BYTES: usize = 1024;

/// No more steps are taken in one transaction: each is a question to the database, and who waits waits for all of them.
const STEPS_MAX: usize = 128;

/// Callers push under a short lock and wake the writer once per batch, not once per record.
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Notify,
    /// In units of `RECORD_BYTES`, so that it bounds the memory as well as the number of records.
    room: Semaphore,
    limits: Limits,
}

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Units of `RECORD_BYTES`.
    pub(crate) room: u32,
    /// Longest wait for room, and for the disk.
    pub(crate) wait: Duration,
    /// So many changes are written at once, without waiting for more.
    pub(crate) batch: usize,
    /// No more than so many are written at once: who waits for the disk, or for room, waits for all of a batch.
    pub(crate) batch_max: usize,
    /// So long may a change that nobody waits for lie here.
    pub(crate) linger: Duration,
}

impl Limits {
    pub(crate) const DEFAULT: Self = Self {
        room: 16 * 1024,
        wait: Duration::from_millis(900),
        batch: 256,
        batch_max: 1024,
        linger: Duration::from_millis(20),
    };
}

struct State {
    operations: VecDeque<Operation>,
    /// How many were taken before these, so that an open record can tell whether it still stands here.
    taken: u64,
    urgency: Urgency,
    intake: Intake,
    chain: u16,
    last_key: Option<Key>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Idle,
    Lingering,
    /// There is enough for a batch, or somebody waits for room.
    Full,
    /// Somebody waits for the disk.
    Awaited,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intake {
    Open,
    Closed,
}

pub(crate) struct Operation {
    pub(crate) change: Change,
    pub(crate) terms: Terms,
    /// Who waits until this is on disk.
    pub(crate) waiter: Option<Waiter>,
    /// The room it takes, to be given back when it is written.
    pub(crate) room: u32,
}

pub(crate) type Waiter = oneshot::Sender<Written>;
pub(crate) type Written = Result<Result<(), Lost>, StoreError>;

/// What else is written in the same transaction.
#[derive(Default)]
pub(crate) enum Terms {
    #[default]
    None,
    /// The change is made only if each of these finds what it needs. Somebody waits to hear whether it was, and whoever
    /// hears of an error takes it that it was not: such a change is never tried again.
    If(Box<[Step]>),
    /// Made with the change, whatever they find: what they are about has happened.
    With(Box<[Step]>),
}

pub(crate) enum Change {
    Insert(Box<Row>),
    Close(Box<End>),
}

/// A new row.
pub(crate) struct Row {
    pub(crate) id: RecordId,
    pub(crate) record: NewRecord,
    pub(crate) ended: Ended,
    pub(crate) stage: Stage,
    pub(crate) subject: Arc<Subject>,
}

/// What a row has only when its end arrived in time.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) result: Option<Payload>,
    pub(crate) metadata: Option<String>,
}

/// The end of a call whose beginning was written before.
pub(crate) struct End {
    pub(crate) id: RecordId,
    pub(crate) outcome: Outcome,
    pub(crate) subject: Arc<Subject>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The beginning of a call.
    Begun,
    /// An event, or a call whose end arrived before its beginning was written.
    Complete,
}

/// Where in the line a record stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// So many came before it, ever.
    number: u64,
}

/// What the writer waits for besides its queue.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// It has something to do then, whether or not there is anything to write.
    Due(Instant),
    /// The last try failed; the next is then, unless somebody waits for the disk.
    Pause(Duration),
}

impl Queue {
    pub(crate) fn new(limits: Limits, chain: u16, last_key: Option<Key>) -> Self {
        let (urgency, intake) = (Urgency::Idle, Intake::Open);
        let state = State { operations: VecDeque::new(), taken: 0, urgency, intake, chain, last_key };
        Self { state: Mutex::new(state), wake: Notify::new(), room: Semaphore::new(limits.room as usize), limits }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Who comes now waits no longer than this, for room and for the disk together.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limits.wait
    }

    /// Waits for room, within reason. The caller pushes an operation with it or gives it back.
    pub(crate) async fn take_room(&self, text_bytes: usize, deadline: Instant) -> Result<u32, StoreError> {
        let room = u32::try_from(1 + text_bytes / RECORD_BYTES).unwrap_or(u32::MAX).min(self.limits.room);
        if let Ok(permit) = self.room.try_acquire_many(room) {
            permit.forget();
            return Ok(room);
        }
        self.raise(&mut self.lock(), Urgency::Full);
        match timeout_at(deadline, self.room.acquire_many(room)).await {
            Ok(Ok(permit)) => permit.forget(),
            Ok(Err(_)) | Err(_) => return Err(StoreError::LogUnavailable),
        }
        Ok(room)
    }

    pub(crate) fn give_room(&self, room: u32) {
        self.room.add_permits(room as usize);
    }

    /// Gives a record its key, and a place in the line. Both under one lock: the order of keys is the order of the line.
    pub(crate) fn insert(
        &self,
        record: NewRecord,
        stage: Stage,
        terms: Terms,
        waiter: Option<Waiter>,
        room: u32,
    ) -> Result<(RecordId, Place, Arc<Subject>), StoreError> {
        let mut subject = Subject::of(&record);
        let mut state = self.lock();
        let key = Key::next(state.last_key, state.chain, record.time_ms);
        // A record is counted in the hour in which it is found.
        subject.hour = key.time_ms() / HOUR_MS;
        let subject = Arc::new(subject);
        let id = RecordId::new(key, record.random);
        let row = Row { id, record, ended: Ended::default(), stage, subject: Arc::clone(&subject) };
        let place = self.push(&mut state, Operation { change: Change::Insert(Box::new(row)), terms, waiter, room })?;
        state.last_key = Some(key);
        Ok((id, place, subject))
    }

    /// Ends a record where it stands if its beginning was not written yet, so that both become one line.
    pub(crate) fn close_record(
        &self,
        place: Place,
        end: End,
        terms: Terms,
        waiter: Option<Waiter>,
        more_room: u32,
    ) -> Result<(), StoreError> {
        let is_awaited = waiter.is_some();
        let mut state = self.lock();
        let index = place.number.checked_sub(state.taken).and_then(|index| usize::try_from(index).ok());
        let opened = index.and_then(|index| state.operations.get_mut(index));
        let end = Operation { change: Change::Close(Box::new(end)), terms, waiter, room: more_room };
        let left = match opened {
            Some(opened) => opened.end_with(end),
            None => Some(end),
        };
        match left {
            Some(end) => self.push(&mut state, end).map(drop),
            None => {
                if is_awaited {
                    self.raise(&mut state, Urgency::Awaited);
                }
                Ok(())
            }
        }
    }

    fn push(&self, state: &mut State, operation: Operation) -> Result<Place, StoreError> {
        if state.intake == Intake::Closed {
            self.give_room(operation.room);
            return Err(StoreError::Closed);
        }
        let urgency = self.urgency(state, &operation);
        let place = Place { number: state.taken + state.operations.len() as u64 };
        state.operations.push_back(operation);
        self.raise(state, urgency);
        Ok(place)
    }

    /// Waits until a batch should be written, or something else is to be done.
    pub(crate) async fn ready(&self, until: Until) -> Intake {
        let closed = match until {
            Until::Pause(pause) => timeout(pause, self.reached(Urgency::Awaited)).await,
            Until::Due(due) => match timeout_at(due, self.reached(Urgency::Lingering)).await {
                Ok(None) => timeout(self.limits.linger, self.reached(Urgency::Full)).await,
                other => other,
            },
        };
        closed.ok().flatten().unwrap_or(Intake::Open)
    }

    /// `Some` when the queue was closed.
    async fn reached(&self, urgency: Urgency) -> Option<Intake> {
        loop {
            {
                let state = self.lock();
                if state.intake == Intake::Closed {
                    return Some(Intake::Closed);
                }
                if state.urgency >= urgency {
                    return None;
                }
            }
            self.wake.notified().await;
        }
    }

    /// The first so many. What is left is as urgent as it was.
    pub(crate) fn take(&self, most: usize) -> Vec<Operation> {
        let mut state = self.lock();
        let mut steps = 0;
        let fits = |operation: &&Operation| {
            let fits = steps < STEPS_MAX;
            steps += operation.terms.steps().len();
            fits
        };
        let count = state.operations.iter().take(most).take_while(fits).count();
        self.take_first(&mut state, count)
    }

    pub(crate) fn take_all(&self) -> Vec<Operation> {
        let mut state = self.lock();
        let count = state.operations.len();
        self.take_first(&mut state, count)
    }

    fn take_first(&self, state: &mut State, count: usize) -> Vec<Operation> {
        state.taken += count as u64;
        let taken = state.operations.drain(..count).collect();
        if state.operations.is_empty() {
            state.urgency = Urgency::Idle;
        }
        taken
    }

    pub(crate) fn intake(&self) -> Intake {
        self.lock().intake
    }

    pub(crate) fn close(&self) {
        self.lock().intake = Intake::Closed;
        self.wake.notify_one();
    }

    fn urgency(&self, state: &State, operation: &Operation) -> Urgency {
        if operation.waiter.is_some() {
            Urgency::Awaited
        } else if state.operations.len() + 1 >= self.limits.batch {
            Urgency::Full
        } else {
            Urgency::Lingering
        }
    }

    fn raise(&self, state: &mut State, urgency: Urgency) {
        if urgency > state.urgency {
            state.urgency = urgency;
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operation {
    /// The record it is about.
    pub(crate) fn id(&self) -> RecordId {
        match &self.change {
            Change::Insert(row) => row.id,
            Change::Close(end) => end.id,
        }
    }

    /// The beginning of a call.
    pub(crate) fn begins(&self) -> bool {
        matches!(&self.change, Change::Insert(row) if row.stage == Stage::Begun)
    }

    /// Whether it did not happen if it is not written.
    pub(crate) fn is_conditional(&self) -> bool {
        matches!(self.terms, Terms::If(_))
    }

    /// The beginning and the end of one call become one; anything else is handed back. What has conditions stays as it
    /// is: the end must not depend on them.
    pub(crate) fn end_with(&mut self, end: Self) -> Option<Self> {
        match (&mut self.change, end) {
            (Change::Insert(row), Self { change: Change::Close(end), terms, waiter, room })
                if row.id == end.id && !matches!(self.terms, Terms::If(_)) =>
            {
                row.finish(end.outcome);
                self.terms = terms;
                self.waiter = waiter;
                self.room = self.room.saturating_add(room);
                None
            }
            (_, end) => Some(end),
        }
    }
}

impl Terms {
    pub(crate) fn with(steps: Vec<Step>) -> Self {
        if steps.is_empty() { Self::None } else { Self::With(steps.into()) }
    }

    pub(crate) fn provided(steps: Vec<Step>) -> Self {
        Self::If(steps.into())
    }

    pub(crate) fn steps(&self) -> &[Step] {
        match self {
            Self::None => &[],
            Self::If(steps) | Self::With(steps) => steps,
        }
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.steps().iter().map(Step::text_bytes).sum()
    }
}

impl End {
    /// Of a call that was recorded and then not sent.
    pub(crate) fn unsent(id: RecordId, subject: Arc<Subject>) -> Self {
        let outcome = Outcome { code: Some(NOT_SENT.to_owned()), ..Outcome::bare(Status::Cancelled) };
        Self { id, outcome, subject }
    }
}

impl Row {
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        let Outcome { status, code, message, duration_us, result, metadata } = outcome;
        self.record.status = status;
        self.record.code = code;
        self.record.message = message;
        self.record.duration_us = duration_us;
        self.ended = Ended { result, metadata };
        self.stage = Stage::Complete;
    }
}
