//! Operations: what the queue holds and the writer writes. An operation inserts a row, or closes one.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::subject::Subject;
use crate::approvals::claim::NOT_SENT;
use crate::approvals::step::{Conditional, Steps};
use crate::record::id::RecordId;
use crate::{NewRecord, Outcome, Payload, Status, StoreError};

/// One change of the log, and the steps that are written with it.
pub(crate) struct Operation {
    pub(crate) change: Change,
    pub(crate) steps: Steps,
    /// Answered when the operation is on disk.
    pub(crate) waiter: Option<Waiter>,
    /// Units of queue space, released when the operation is written.
    pub(crate) space: u32,
}

pub(crate) type Waiter = oneshot::Sender<Written>;
pub(crate) type Written = Result<Conditional<()>, StoreError>;

pub(crate) enum Change {
    Insert(Box<NewRow>),
    Close(Box<End>),
}

/// A row to insert.
pub(crate) struct NewRow {
    pub(crate) id: RecordId,
    pub(crate) record: NewRecord,
    pub(crate) early_end: EarlyEnd,
    pub(crate) stage: Stage,
    pub(crate) subject: Arc<Subject>,
}

/// Fields of a row whose call ended before the row was written.
#[derive(Default)]
pub(crate) struct EarlyEnd {
    pub(crate) result: Option<Payload>,
    pub(crate) metadata: Option<String>,
}

/// The end of a call whose beginning is on disk.
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

impl Operation {
    /// Closes a call that was recorded and then not sent.
    pub(crate) fn unsent(id: RecordId, subject: Arc<Subject>) -> Self {
        let change = Change::Close(Box::new(End::unsent(id, subject)));
        Self { change, steps: Steps::None, waiter: None, space: 0 }
    }

    pub(crate) fn id(&self) -> RecordId {
        match &self.change {
            Change::Insert(row) => row.id,
            Change::Close(end) => end.id,
        }
    }

    /// `true` if it is the beginning of a call.
    pub(crate) fn is_beginning(&self) -> bool {
        matches!(&self.change, Change::Insert(row) if row.stage == Stage::Begun)
    }

    /// The call that begins with this operation.
    pub(crate) fn begun(&self) -> Option<(RecordId, Arc<Subject>)> {
        match &self.change {
            Change::Insert(row) if row.stage == Stage::Begun => Some((row.id, Arc::clone(&row.subject))),
            Change::Insert(_) | Change::Close(_) => None,
        }
    }

    /// `true` if nothing has happened unless this is written.
    pub(crate) fn is_conditional(&self) -> bool {
        match self.steps {
            Steps::IfAll(_) => true,
            Steps::None | Steps::Always(_) => false,
        }
    }

    /// Merges the end of a call into its beginning, so that both become one line. Returns the end if it does not belong
    /// here. A conditional beginning stays separate: the end must not depend on the conditions.
    pub(crate) fn end_with(&mut self, end: Self) -> Option<Self> {
        let is_conditional = self.is_conditional();
        match (&mut self.change, end) {
            (Change::Insert(row), Self { change: Change::Close(end), steps, waiter, space })
                if row.id == end.id && !is_conditional =>
            {
                row.finish(end.outcome);
                self.steps = steps;
                self.waiter = waiter;
                self.space = self.space.saturating_add(space);
                None
            }
            (Change::Insert(_) | Change::Close(_), end) => Some(end),
        }
    }
}

impl End {
    /// The end of a call that was recorded and then not sent.
    pub(crate) fn unsent(id: RecordId, subject: Arc<Subject>) -> Self {
        let outcome = Outcome { code: Some(NOT_SENT.to_owned()), ..Outcome::bare(Status::Cancelled) };
        Self { id, outcome, subject }
    }
}

impl NewRow {
    fn finish(&mut self, outcome: Outcome) {
        let Outcome { status, code, message, duration_us, result, metadata } = outcome;
        self.record.status = status;
        self.record.code = code;
        self.record.message = message;
        self.record.duration_us = duration_us;
        self.early_end = EarlyEnd { result, metadata };
        self.stage = Stage::Complete;
    }
}
