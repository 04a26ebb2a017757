//! Waiting until a record is on disk, and leaving without harm.

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::log::queue::{End, Queue, Stage, Terms, Written};
use crate::{Lost, OpenRecord, StoreError};

/// Somebody who waits for a record to be written.
pub(crate) struct Waiting<'q> {
    queue: &'q Queue,
    written: oneshot::Receiver<Written>,
    stage: Stage,
    /// `None` when it was handed on, or there is none.
    open: Option<OpenRecord>,
}

impl<'q> Waiting<'q> {
    pub(crate) fn new(queue: &'q Queue, written: oneshot::Receiver<Written>, stage: Stage, open: OpenRecord) -> Self {
        Self { queue, written, stage, open: Some(open) }
    }

    pub(crate) async fn finish(mut self, deadline: Instant) -> Result<Result<OpenRecord, Lost>, StoreError> {
        let Ok(heard) = timeout_at(deadline, &mut self.written).await else {
            return Err(StoreError::LogUnavailable);
        };
        let open = self.open.take().ok_or(StoreError::LogUnavailable)?;
        Ok(heard.unwrap_or(Err(StoreError::LogUnavailable))?.map(|()| open))
    }
}

impl Drop for Waiting<'_> {
    /// Who leaves makes no call. The writer sees that when it wants to say that the call is recorded; if it has said so
    /// already, and nobody heard it, the record is ended here.
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.written.close();
        if let (Stage::Begun, Ok(Ok(Ok(())))) = (self.stage, self.written.try_recv()) {
            let end = End::unsent(open.id, open.subject);
            let _closed = self.queue.close_record(open.place, end, Terms::None, None, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::log::queue::{Change, Limits};
    use crate::record::id::Key;
    use crate::{Kind, NewRecord, RecordId, Status};

    fn record() -> NewRecord {
        NewRecord {
            time_ms: 1,
            random: 1,
            kind: Kind::Call,
            status: Status::Started,
            agent: None,
            client: None,
            server: None,
            tool: None,
            is_known_tool: true,
            intent_type: None,
            risk: None,
            code: None,
            message: None,
            duration_us: None,
            metadata: "{}".into(),
            args: None,
        }
    }

    /// What is left in the queue when somebody leaves after this was said, and whether saying it worked.
    fn left_behind(stage: Stage, said: Option<Written>) -> (Vec<(RecordId, Status, Option<String>)>, bool) {
        let queue = Queue::new(Limits::DEFAULT, 0, Some(Key::at(0)));
        let (waiter, written) = oneshot::channel();
        let (id, place, subject) = queue.insert(record(), stage, Terms::None, None, 0).unwrap();
        queue.take_all();
        let open = OpenRecord { id, place, subject: Arc::clone(&subject) };
        let waiting = Waiting::new(&queue, written, stage, open);
        let is_heard = match said {
            Some(said) => waiter.send(said).is_ok(),
            None => {
                drop(waiting);
                return (ends(&queue), waiter.send(Ok(Ok(()))).is_ok());
            }
        };
        drop(waiting);
        (ends(&queue), is_heard)
    }

    fn ends(queue: &Queue) -> Vec<(RecordId, Status, Option<String>)> {
        let end = |change: Change| match change {
            Change::Close(end) => (end.id, end.outcome.status, end.outcome.code),
            Change::Insert(_) => panic!("no beginning"),
        };
        queue.take_all().into_iter().map(|operation| end(operation.change)).collect()
    }

    #[test]
    fn a_word_that_nobody_heard_leaves_no_call_open() {
        let (ends, is_heard) = left_behind(Stage::Begun, Some(Ok(Ok(()))));
        assert!(is_heard, "the writer has done its part");
        assert_eq!(ends.len(), 1);
        assert_eq!((ends[0].1, ends[0].2.as_deref()), (Status::Cancelled, Some("not_sent")));
        for said in [None, Some(Ok(Err(Lost(0)))), Some(Err(StoreError::LogUnavailable))] {
            let is_first_to_leave = said.is_none();
            let (ends, is_heard) = left_behind(Stage::Begun, said);
            assert_eq!(
                (ends, is_heard),
                (vec![], !is_first_to_leave),
                "the writer sees to it, or there is nothing to end"
            );
        }
        assert_eq!(left_behind(Stage::Complete, Some(Ok(Ok(())))).0, []);
    }

    #[tokio::test]
    async fn who_waits_hears_what_is_said() {
        for said in [Ok(Ok(())), Ok(Err(Lost(3))), Err(StoreError::NoAnswer)] {
            let queue = Queue::new(Limits::DEFAULT, 0, Some(Key::at(0)));
            let (waiter, written) = oneshot::channel();
            let (id, place, subject) = queue.insert(record(), Stage::Begun, Terms::None, None, 0).unwrap();
            queue.take_all();
            let waiting = Waiting::new(&queue, written, Stage::Begun, OpenRecord { id, place, subject });
            assert!(waiter.send(said.clone()).is_ok());
            let heard = waiting.finish(Instant::now() + Duration::from_secs(30)).await;
            let heard = format!("{:?}", heard.map(|won| won.map(|open| assert_eq!(open.id, id))));
            assert_eq!(heard, format!("{said:?}"));
            assert!(queue.take_all().is_empty());
        }
    }
}
