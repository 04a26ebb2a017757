//! Waits until a record is on disk. Safe to cancel at any moment: a caller that leaves makes no call, and the log says
//! so.

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::operation::{End, Stage, Written};
use super::queue::{OpenRecord, Queue};
use crate::StoreError;
use crate::approvals::step::{Conditional, Steps};

/// A caller that waits for its record to be written.
pub(crate) struct Waiting<'q> {
    queue: &'q Queue,
    written: oneshot::Receiver<Written>,
    stage: Stage,
    /// `None` once it was returned.
    open: Option<OpenRecord>,
}

impl<'q> Waiting<'q> {
    pub(crate) fn new(queue: &'q Queue, written: oneshot::Receiver<Written>, stage: Stage, open: OpenRecord) -> Self {
        Self { queue, written, stage, open: Some(open) }
    }

    pub(crate) async fn finish(mut self, deadline: Instant) -> Result<Conditional<OpenRecord>, StoreError> {
        let Ok(answer) = timeout_at(deadline, &mut self.written).await else {
            return Err(StoreError::LogUnavailable);
        };
        let open = self.open.take().ok_or(StoreError::LogUnavailable)?;
        Ok(answer.unwrap_or(Err(StoreError::LogUnavailable))?.map(|()| open))
    }
}

impl Drop for Waiting<'_> {
    /// Runs when the caller leaves. The writer usually notices, because its answer cannot be delivered. If the answer
    /// was delivered and never read, the record is ended here.
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.written.close();
        if let (Stage::Begun, Ok(Ok(Conditional::Written(())))) = (self.stage, self.written.try_recv()) {
            let end = End::unsent(open.id, open.subject);
            let _closed = self.queue.close_record(open.slot, end, Steps::None, None, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::log::operation::Change;
    use crate::log::queue::Limits;
    use crate::record::id::Key;
    use crate::{Kind, NewRecord, RecordId, Status};

    fn record() -> NewRecord {
        NewRecord { is_known_tool: true, ..NewRecord::blank(Kind::Call, Status::Started, 1, 1) }
    }

    /// The operations left in the queue after a caller left, and if the answer was delivered.
    fn left_behind(stage: Stage, answer: Option<Written>) -> (Vec<(RecordId, Status, Option<String>)>, bool) {
        let queue = Queue::new(Limits::DEFAULT, 0, Some(Key::at(0)));
        let (waiter, written) = oneshot::channel();
        let open = queue.insert(record(), stage, Steps::None, None, 0).unwrap();
        queue.take_all();
        let waiting = Waiting::new(&queue, written, stage, open);
        let is_delivered = match answer {
            Some(answer) => waiter.send(answer).is_ok(),
            None => {
                drop(waiting);
                return (ends(&queue), waiter.send(Ok(Conditional::Written(()))).is_ok());
            }
        };
        drop(waiting);
        (ends(&queue), is_delivered)
    }

    fn ends(queue: &Queue) -> Vec<(RecordId, Status, Option<String>)> {
        let end = |change: Change| match change {
            Change::Close(end) => (end.id, end.outcome.status, end.outcome.code),
            Change::Insert(_) => panic!("no beginning"),
        };
        queue.take_all().into_iter().map(|operation| end(operation.change)).collect()
    }

    #[test]
    fn an_unread_answer_leaves_no_call_open() {
        let (ends, is_delivered) = left_behind(Stage::Begun, Some(Ok(Conditional::Written(()))));
        assert!(is_delivered, "the writer has delivered its answer");
        assert_eq!(ends.len(), 1);
        assert_eq!((ends[0].1, ends[0].2.as_deref()), (Status::Cancelled, Some("not_sent")));
        for answer in [None, Some(Ok(Conditional::Conflict { step: 0 })), Some(Err(StoreError::LogUnavailable))] {
            let left_first = answer.is_none();
            let (ends, is_delivered) = left_behind(Stage::Begun, answer);
            assert_eq!((ends, is_delivered), (vec![], !left_first), "the writer ends it, or there is nothing to end");
        }
        assert_eq!(left_behind(Stage::Complete, Some(Ok(Conditional::Written(())))).0, []);
    }

    #[tokio::test]
    async fn a_waiting_caller_gets_the_answer() {
        for answer in [Ok(Conditional::Written(())), Ok(Conditional::Conflict { step: 3 }), Err(StoreError::NoAnswer)] {
            let queue = Queue::new(Limits::DEFAULT, 0, Some(Key::at(0)));
            let (waiter, written) = oneshot::channel();
            let open = queue.insert(record(), Stage::Begun, Steps::None, None, 0).unwrap();
            let id = open.id;
            queue.take_all();
            let waiting = Waiting::new(&queue, written, Stage::Begun, open);
            assert!(waiter.send(answer.clone()).is_ok());
            let received = waiting.finish(Instant::now() + Duration::from_secs(30)).await;
            let received = format!("{:?}", received.map(|written| written.map(|open| assert_eq!(open.id, id))));
            assert_eq!(received, format!("{answer:?}"));
            assert!(queue.take_all().is_empty());
        }
    }
}
