//! The line before the writer: everything that was accepted and is not on disk yet.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::timeout;

use crate::{Cut, NewRecord, Outcome, RecordId, StoreError};

/// A record costs this much room, plus what its texts take.
const RECORD_BYTES: usize = 1024;

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
    pub(crate) room_wait: Duration,
    /// So many changes are written at once, without waiting for more.
    pub(crate) batch: usize,
    /// So long may a change that nobody waits for lie here.
    pub(crate) linger: Duration,
}

impl Limits {
    pub(crate) const DEFAULT: Self =
        Self { room: 16 * 1024, room_wait: Duration::from_secs(1), batch: 256, linger: Duration::from_millis(20) };
}

struct State {
    operations: Vec<Operation>,
    /// Counts the batches that were taken, so that an open record can tell whether it still stands here.
    generation: u64,
    urgency: Urgency,
    intake: Intake,
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
    /// Who waits until this is on disk.
    pub(crate) waiter: Option<oneshot::Sender<Result<(), StoreError>>>,
    /// The room it takes, to be given back when it is written.
    pub(crate) room: u32,
}

pub(crate) enum Change {
    Insert(Row),
    /// The end of a call whose beginning was written before.
    Close(RecordId, Outcome),
}

pub(crate) struct Row {
    pub(crate) record: NewRecord,
    pub(crate) result: Option<Cut>,
    pub(crate) stage: Stage,
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
    generation: u64,
    index: usize,
}

impl Queue {
    pub(crate) fn new(limits: Limits, intake: Intake) -> Self {
        let state = State { operations: Vec::new(), generation: 0, urgency: Urgency::Idle, intake };
        Self { state: Mutex::new(state), wake: Notify::new(), room: Semaphore::new(limits.room as usize), limits }
    }

    /// Waits for room, within reason. The caller pushes an operation with it or gives it back.
    pub(crate) async fn take_room(&self, text_bytes: usize) -> Result<u32, StoreError> {
        let room = u32::try_from(1 + text_bytes / RECORD_BYTES).unwrap_or(u32::MAX).min(self.limits.room);
        if let Ok(permit) = self.room.try_acquire_many(room) {
            permit.forget();
            return Ok(room);
        }
        self.raise(&mut self.lock(), Urgency::Full);
        match timeout(self.limits.room_wait, self.room.acquire_many(room)).await {
            Ok(Ok(permit)) => permit.forget(),
            Ok(Err(_)) | Err(_) => return Err(StoreError::LogUnavailable),
        }
        Ok(room)
    }

    pub(crate) fn give_room(&self, room: u32) {
        self.room.add_permits(room as usize);
    }

    pub(crate) fn push(&self, operation: Operation) -> Result<Place, StoreError> {
        let mut state = self.lock();
        if state.intake == Intake::Closed {
            self.give_room(operation.room);
            return Err(StoreError::Closed);
        }
        let urgency = self.urgency(&state, &operation);
        let place = Place { generation: state.generation, index: state.operations.len() };
        state.operations.push(operation);
        self.raise(&mut state, urgency);
        Ok(place)
    }

    /// Ends a record where it stands if its beginning was not written yet, so that both become one row.
    pub(crate) fn push_close(&self, place: Place, mut operation: Operation) -> Result<(), StoreError> {
        let mut state = self.lock();
        let same_batch = state.generation == place.generation;
        let opened = state.operations.get_mut(place.index).filter(|_| same_batch);
        match (opened, operation.change) {
            (Some(Operation { change: Change::Insert(row), waiter, room }), Change::Close(id, outcome))
                if row.record.id == id =>
            {
                row.finish(outcome);
                *room = room.saturating_add(operation.room);
                *waiter = operation.waiter;
                if waiter.is_some() {
                    self.raise(&mut state, Urgency::Awaited);
                }
                Ok(())
            }
            (_, change) => {
                operation.change = change;
                drop(state);
                self.push(operation).map(drop)
            }
        }
    }

    /// Waits until a batch should be written. After a failure that is later, unless somebody waits for the disk.
    pub(crate) async fn ready(&self, pause: Option<Duration>) -> Intake {
        let enough = if pause.is_some() { Urgency::Awaited } else { Urgency::Full };
        let since = if pause.is_some() { Urgency::Idle } else { Urgency::Lingering };
        if let Some(intake) = self.reached(since).await {
            return intake;
        }
        let reached = timeout(pause.unwrap_or(self.limits.linger), self.reached(enough)).await;
        reached.ok().flatten().unwrap_or(Intake::Open)
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

    pub(crate) fn take(&self) -> Vec<Operation> {
        let mut state = self.lock();
        state.generation += 1;
        state.urgency = Urgency::Idle;
        let expected = state.operations.len();
        mem::replace(&mut state.operations, Vec::with_capacity(expected.min(self.limits.batch)))
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

impl Row {
    pub(crate) fn new(record: NewRecord, stage: Stage) -> Self {
        Self { record, result: None, stage }
    }

    fn finish(&mut self, outcome: Outcome) {
        let Outcome { status, code, message, duration_us, result, metadata } = outcome;
        self.record.status = status;
        self.record.code = code;
        self.record.message = message;
        self.record.duration_us = duration_us;
        if let Some(metadata) = metadata {
            self.record.metadata = metadata;
        }
        self.result = result;
        self.stage = Stage::Complete;
    }
}
