//! The queue in front of the writer: every operation that was accepted and is not on disk yet.
//!
//! Callers push under a short lock. The writer takes everything that has queued up and commits it as one transaction,
//! so the number of commits does not grow with the number of calls. The queue decides three things:
//!
//! - **Order.** A record gets its key and its slot under the same lock. So the order of keys is the order of the queue,
//!   and that is the order of the chain.
//! - **Space.** A semaphore counts units of [`RECORD_BYTES`]. It bounds the number of records and the memory of their
//!   texts. A caller waits for space until a deadline and then gets `LogUnavailable`. The end of a call is accepted
//!   without space, because the call has happened; there are never more such ends than open calls.
//! - **Urgency.** The writer sleeps until an operation needs it: at once if a caller waits for the disk, when a batch
//!   is full, or after [`Limits::linger`]. Callers wake it once per batch, not once per record.
//!
//! A call often ends while its beginning is still in the queue. Then `close_record` merges both into one row and one
//! line of the chain, which halves the work for fast calls. The caller's [`OpenRecord`] remembers its slot for that.
//! Slots are numbered from the start of the process, so a slot that the writer has taken is simply too small to be
//! found.
//!
//! Why not an `mpsc` channel? The receiver could not merge an end into its beginning, and keys could be handed out in
//! another order than records are queued.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::operation::{Change, EarlyEnd, End, NewRow, Operation, Stage, Waiter};
use super::subject::Subject;
use super::tally::HOUR_MS;
use crate::approvals::step::Steps;
use crate::record::id::{Key, RecordId};
use crate::{NewRecord, StoreError};

/// The flat cost of a record. Its texts cost extra.
const RECORD_BYTES: usize = 1024;

/// Steps in one transaction. Each is a round trip to the database, and every waiting caller waits for all of them.
const STEPS_MAX: usize = 128;

pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Notify,
    /// Free space in units of `RECORD_BYTES`.
    space: Semaphore,
    limits: Limits,
}

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Capacity in units of `RECORD_BYTES`.
    pub(crate) space: u32,
    /// Longest wait for space and for the disk together.
    pub(crate) wait: Duration,
    /// The same while the log is known to fail: a caller gets its refusal sooner.
    pub(crate) wait_failing: Duration,
    /// With this many operations, the writer starts without waiting for more.
    pub(crate) batch: usize,
    /// The most operations in one transaction. A caller waits for the whole batch.
    pub(crate) batch_max: usize,
    /// Longest time that an operation stays here if no caller waits for it.
    pub(crate) linger: Duration,
}

impl Limits {
    pub(crate) const DEFAULT: Self = Self {
        space: 16 * 1024,
        wait: Duration::from_secs(5),
        wait_failing: Duration::from_millis(900),
        batch: 256,
        batch_max: 1024,
        linger: Duration::from_millis(20),
    };
}

struct State {
    operations: VecDeque<Operation>,
    /// The number of operations taken so far, which is the slot of the first one here.
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
    /// A batch is full, or a caller waits for space.
    Full,
    /// A caller waits for the disk.
    Awaited,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intake {
    Open,
    Closed,
}

/// A call that has begun and must be closed.
#[derive(Debug)]
#[must_use = "a record that is never closed reads as interrupted after the next start"]
pub struct OpenRecord {
    pub(super) id: RecordId,
    pub(super) slot: QueueSlot,
    pub(super) subject: Arc<Subject>,
}

/// The position of an operation among all that were ever queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSlot(u64);

/// Ends the wait of an idle writer.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// The keeper has work at this time, even if nothing is queued.
    Due(Instant),
    /// The last write failed. Retry after this time, or sooner if a caller waits for the disk.
    Retry(Duration),
}

impl OpenRecord {
    pub fn id(&self) -> RecordId {
        self.id
    }
}

impl Queue {
    pub(crate) fn new(limits: Limits, chain: u16, last_key: Option<Key>) -> Self {
        let (urgency, intake) = (Urgency::Idle, Intake::Open);
        let state = State { operations: VecDeque::new(), taken: 0, urgency, intake, chain, last_key };
        Self { state: Mutex::new(state), wake: Notify::new(), space: Semaphore::new(limits.space as usize), limits }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A caller that arrives now waits no longer than this, for space and for the disk together.
    pub(crate) fn deadline(&self, is_failing: bool) -> Instant {
        let Limits { wait, wait_failing, .. } = self.limits;
        Instant::now() + if is_failing { wait.min(wait_failing) } else { wait }
    }

    /// Waits for space until the deadline. The caller pushes an operation with it, or releases it.
    pub(crate) async fn take_space(&self, text_bytes: usize, deadline: Instant) -> Result<u32, StoreError> {
        let space = u32::try_from(1 + text_bytes / RECORD_BYTES).unwrap_or(u32::MAX).min(self.limits.space);
        if let Ok(permit) = self.space.try_acquire_many(space) {
            permit.forget();
            return Ok(space);
        }
        self.raise(&mut self.lock(), Urgency::Full);
        match timeout_at(deadline, self.space.acquire_many(space)).await {
            Ok(Ok(permit)) => permit.forget(),
            Ok(Err(_)) | Err(_) => return Err(StoreError::LogUnavailable),
        }
        Ok(space)
    }

    pub(crate) fn release_space(&self, space: u32) {
        self.space.add_permits(space as usize);
    }

    /// Assigns a key and a slot to a record. Both happen under one lock, so the order of keys is the order of the
    /// queue.
    pub(crate) fn insert(
        &self,
        record: NewRecord,
        stage: Stage,
        steps: Steps,
        waiter: Option<Waiter>,
        space: u32,
    ) -> Result<OpenRecord, StoreError> {
        let mut subject = Subject::of(&record);
        let mut state = self.lock();
        let key = Key::next(state.last_key, state.chain, record.time_ms);
        // Counts the record in the hour of its key, where a list finds it.
        subject.hour = key.time_ms() / HOUR_MS;
        let subject = Arc::new(subject);
        let id = RecordId::new(key, record.random);
        let row = NewRow { id, record, early_end: EarlyEnd::default(), stage, subject: Arc::clone(&subject) };
        let slot = self.push(&mut state, Operation { change: Change::Insert(Box::new(row)), steps, waiter, space })?;
        state.last_key = Some(key);
        Ok(OpenRecord { id, slot, subject })
    }

    /// Ends a record. If its beginning is still queued, both become one line.
    pub(crate) fn close_record(
        &self,
        slot: QueueSlot,
        end: End,
        steps: Steps,
        waiter: Option<Waiter>,
        more_space: u32,
    ) -> Result<(), StoreError> {
        let is_awaited = waiter.is_some();
        let mut state = self.lock();
        let index = slot.0.checked_sub(state.taken).and_then(|index| usize::try_from(index).ok());
        let opened = index.and_then(|index| state.operations.get_mut(index));
        let end = Operation { change: Change::Close(Box::new(end)), steps, waiter, space: more_space };
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

    fn push(&self, state: &mut State, operation: Operation) -> Result<QueueSlot, StoreError> {
        if state.intake == Intake::Closed {
            self.release_space(operation.space);
            return Err(StoreError::Closed);
        }
        let urgency = self.urgency(state, &operation);
        let slot = QueueSlot(state.taken + state.operations.len() as u64);
        state.operations.push_back(operation);
        self.raise(state, urgency);
        Ok(slot)
    }

    /// Waits until the writer should write a batch, or `until` is reached.
    pub(crate) async fn ready(&self, until: Until) -> Intake {
        let closed = match until {
            Until::Retry(pause) => timeout(pause, self.reached(Urgency::Awaited)).await,
            Until::Due(due) => match timeout_at(due, self.reached(Urgency::Lingering)).await {
                Ok(None) => timeout(self.limits.linger, self.reached(Urgency::Full)).await,
                other => other,
            },
        };
        closed.ok().flatten().unwrap_or(Intake::Open)
    }

    /// Returns `Some` if the queue was closed.
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

    /// Takes up to `most` operations. The rest stays as urgent as it was.
    pub(crate) fn take(&self, most: usize) -> Vec<Operation> {
        let mut state = self.lock();
        let mut steps = 0;
        let fits = |operation: &&Operation| {
            let fits = steps < STEPS_MAX;
            steps += operation.steps.list().len();
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
            // While the disk does not respond, thousands of operations queue up. Their memory is not kept for later.
            if state.operations.capacity() > self.limits.batch_max {
                state.operations.shrink_to(self.limits.batch);
            }
        }
        taken
    }

    /// The number of operations that wait to be taken.
    pub(crate) fn len(&self) -> usize {
        self.lock().operations.len()
    }

    /// The number of operations that fit into the memory it holds.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.lock().operations.capacity()
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
