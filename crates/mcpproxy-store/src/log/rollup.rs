//! Roll-up: moves counts out of `tallies` into cumulative series, so that the cost of a summary does not depend on the
//! length of its range.
//!
//! The writer counts records in `tallies`, with a row for each hour, tool, status and step of durations. Three months of
//! ten million records are six million such rows, and a summary would have to add them up. A *series* has the counts of
//! one tool and status *since its beginning*, with a *point* for each hour. Then the counts of a range are those at its
//! end minus those before it: two reads for each series, however long the range and however many the records.
//!
//! Every five minutes a *round* begins and walks through `tallies` once. Each of its steps moves at most 500 rows of one
//! hour in one transaction: it deletes them and adds them to the series. So a record is counted exactly once at every
//! moment, and a summary reads both places with a single statement. The newest rows move, too. If the end of a call is
//! late, its hour has points after it, and the step raises them all.
//!
//! Why in the task of the writer? Its connection is the only one that may write the counts of its chain. A second
//! connection could wait for a row of the writer while the writer waits for one of its rows.
//!
//! Chains that nobody writes any more are moved, too. A gateway locks such a chain for the length of one step. It leaves
//! chains alone whose gateway was seen in the last minute, because that gateway may come back and need the lock.
//!
//! Daily counts beside hourly ones would be simpler. They are not enough: ninety days with 30 steps for each of 600
//! series still cost 90 times as much as one day.

use std::time::Duration;

use tokio::time::Instant;

use crate::StoreError;
use crate::error::with_causes;
use crate::log::keeper::RoundWaiter;
use crate::log::sql::{More, RecordWriter, RollUpCursor};

const PAUSE: Duration = Duration::from_secs(300);
/// The pause between two steps of a round.
const STEP_PAUSE: Duration = Duration::from_millis(50);
/// A step that is this late runs even while calls are coming in.
const LATE: Duration = Duration::from_millis(250);
const FIRST: Duration = Duration::from_secs(30);

pub(crate) struct Roller {
    due: Instant,
    /// The chains that are left in this round, the next one last. `None` between two rounds.
    round: Option<Vec<u16>>,
    /// The place in the chain that is next.
    cursor: RollUpCursor,
    /// Callers that wait for this round, and for the next one. There are as many as callers of `Ledger::roll_up`.
    waiters: Vec<RoundWaiter>,
    next_waiters: Vec<RoundWaiter>,
}

impl Roller {
    pub(crate) fn new() -> Self {
        Self {
            due: Instant::now() + FIRST,
            round: None,
            cursor: RollUpCursor::default(),
            waiters: Vec::new(),
            next_waiters: Vec::new(),
        }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    pub(crate) fn is_late(&self) -> bool {
        self.due.elapsed() >= LATE
    }

    /// Begins a round as soon as possible. The waiter is answered when it is over, and dropped if it fails.
    pub(crate) fn hurry(&mut self, waiter: RoundWaiter) {
        self.next_waiters.push(waiter);
        self.due = Instant::now();
    }

    pub(crate) async fn step(&mut self, database: &mut RecordWriter) {
        // A step that is cancelled, because the database does not respond, waits for the next round.
        self.due = Instant::now() + PAUSE;
        let more = match self.move_some(database).await {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(error = with_causes(&error), "could not move counts of the activity log");
                self.waiters.clear();
                self.leave_chain(database)
            }
        };
        if more == More::No {
            self.round = None;
            // A caller that has left needs no answer.
            for waiter in self.waiters.drain(..) {
                let _left = waiter.send(());
            }
        }
        let pause = match more {
            More::Yes => STEP_PAUSE,
            More::No => PAUSE,
        };
        let is_awaited = !self.waiters.is_empty() || !self.next_waiters.is_empty();
        self.due = Instant::now() + if is_awaited { Duration::ZERO } else { pause };
    }

    /// Leaves the chain whose counts could not be moved, so that a damaged series does not hold up the other chains.
    /// Without a connection, the round is over.
    fn leave_chain(&mut self, database: &RecordWriter) -> More {
        self.cursor = RollUpCursor::default();
        let left = self.round.as_mut().filter(|_| database.is_connected()).map(|chains| {
            chains.pop();
            chains.len()
        });
        if left.unwrap_or(0) > 0 { More::Yes } else { More::No }
    }

    async fn move_some(&mut self, database: &mut RecordWriter) -> Result<More, StoreError> {
        if self.round.is_none() {
            self.waiters.append(&mut self.next_waiters);
            self.round = Some(database.chains_to_roll_up().await?);
            self.cursor = RollUpCursor::default();
        }
        let chains = self.round.get_or_insert_default();
        let Some(chain) = chains.last() else { return Ok(More::No) };
        let next = database.roll_up_some(*chain, &self.cursor).await?;
        if next.is_none() {
            chains.pop();
        }
        self.cursor = next.unwrap_or_default();
        Ok(if chains.is_empty() { More::No } else { More::Yes })
    }
}
