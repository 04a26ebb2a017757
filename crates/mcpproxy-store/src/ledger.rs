//! The ledger: where a call is recorded before it is sent, and again when it is over.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::queue::{Change, Operation, Place, Queue, Row, Stage};
use crate::{NewRecord, Outcome, RecordId, StoreError};

/// Writes records. All clones share one queue and one writer.
#[derive(Clone)]
pub struct Ledger {
    queue: Arc<Queue>,
}

/// When a record counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// When it is on disk.
    Durable,
    /// When the writer has it; it will be on disk a moment later.
    Batched,
}

/// A call that is under way, and must be closed.
#[derive(Debug)]
#[must_use = "a record that is never closed reads as interrupted after the next start"]
pub struct OpenRecord {
    id: RecordId,
    place: Place,
}

impl Ledger {
    pub(crate) fn new(queue: Arc<Queue>) -> Self {
        Self { queue }
    }

    /// Records that a call begins. An error means that nothing was recorded and nothing may be sent.
    pub async fn open(&self, record: NewRecord, wait: Wait) -> Result<OpenRecord, StoreError> {
        let id = record.id;
        let place = self.insert(record, Stage::Begun, wait).await?;
        Ok(OpenRecord { id, place })
    }

    /// Records how a call ended. An end whose waiter was told of an error is still written when the log works again.
    pub async fn close(&self, open: OpenRecord, outcome: Outcome, wait: Wait) -> Result<(), StoreError> {
        let mut outcome = outcome.bounded();
        let room = match self.queue.take_room(outcome.text_bytes()).await {
            Ok(room) => room,
            // What happened has happened: without room for the result, the rest is kept all the same.
            // There cannot be more of these than there are open calls.
            Err(_) => {
                outcome.result = outcome.result.map(|cut| cut.without_text());
                0
            }
        };
        let (waiter, written) = waiter(wait);
        self.queue.push_close(open.place, Operation { change: Change::Close(open.id, outcome), waiter, room })?;
        finish(written).await
    }

    /// Records something that is over at once: a refusal, or an event.
    pub async fn note(&self, record: NewRecord, wait: Wait) -> Result<(), StoreError> {
        self.insert(record, Stage::Complete, wait).await.map(drop)
    }

    async fn insert(&self, record: NewRecord, stage: Stage, wait: Wait) -> Result<Place, StoreError> {
        let record = record.bounded();
        let room = self.queue.take_room(record.text_bytes()).await?;
        let (waiter, written) = waiter(wait);
        let change = Change::Insert(Row::new(record, stage));
        let place = self.queue.push(Operation { change, waiter, room })?;
        finish(written).await?;
        Ok(place)
    }
}

impl OpenRecord {
    pub fn id(&self) -> RecordId {
        self.id
    }
}

type Written = oneshot::Receiver<Result<(), StoreError>>;

fn waiter(wait: Wait) -> (Option<oneshot::Sender<Result<(), StoreError>>>, Option<Written>) {
    match wait {
        Wait::Batched => (None, None),
        Wait::Durable => {
            let (waiter, written) = oneshot::channel();
            (Some(waiter), Some(written))
        }
    }
}

async fn finish(written: Option<Written>) -> Result<(), StoreError> {
    match written {
        None => Ok(()),
        Some(written) => written.await.unwrap_or(Err(StoreError::LogUnavailable)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::queue::{Intake, Limits};
    use crate::{Cut, Filter, Kind, Status, Store};

    fn call(n: u32) -> NewRecord {
        NewRecord {
            id: RecordId::new(1, n.into()),
            time_ms: 1,
            kind: Kind::Call,
            status: Status::Started,
            agent: None,
            client: None,
            server: None,
            tool: None,
            intent_type: None,
            code: None,
            message: None,
            duration_us: None,
            metadata: "{}".into(),
            args: None,
        }
    }

    fn success() -> Outcome {
        Outcome { status: Status::Success, result: Some(Cut::of("done")), ..Outcome::cancelled() }
    }

    fn stalled(room: u32) -> (Arc<Queue>, Ledger) {
        let limits = Limits { room, room_wait: Duration::from_millis(10), ..Limits::DEFAULT };
        let queue = Arc::new(Queue::new(limits, Intake::Open));
        (Arc::clone(&queue), Ledger::new(queue))
    }

    #[tokio::test]
    async fn a_full_queue_refuses_beginnings_and_keeps_ends() {
        let (queue, ledger) = stalled(2);
        let first = ledger.open(call(1), Wait::Batched).await.unwrap();
        let second = ledger.open(call(2), Wait::Batched).await.unwrap();
        let refused = ledger.open(call(3), Wait::Batched).await;
        assert!(matches!(refused, Err(StoreError::LogUnavailable)));
        assert!(matches!(ledger.note(call(4), Wait::Durable).await, Err(StoreError::LogUnavailable)));
        ledger.close(first, success(), Wait::Batched).await.unwrap();
        let batch = queue.take();
        ledger.close(second, success(), Wait::Batched).await.unwrap();
        let [Operation { change: Change::Insert(whole), .. }, Operation { change: Change::Insert(begun), .. }] =
            &batch[..]
        else {
            panic!("two rows");
        };
        assert_eq!((whole.record.status, begun.record.status), (Status::Success, Status::Started));
        assert_eq!(
            whole.result,
            Some(Cut::of("done").without_text()),
            "without room, only the size of the result is kept"
        );
        assert!(matches!(&queue.take()[..], [Operation { change: Change::Close(..), room: 0, .. }]));
    }

    #[tokio::test]
    async fn long_texts_take_more_room() {
        let (queue, ledger) = stalled(100);
        let long = NewRecord { args: Some(Cut::of(&"x".repeat(60 * 1024))), ..call(1) };
        ledger.note(long.clone(), Wait::Batched).await.unwrap();
        assert!(matches!(ledger.note(long.clone(), Wait::Batched).await, Err(StoreError::LogUnavailable)));
        queue.give_room(queue.take().iter().map(|operation| operation.room).sum());
        ledger.note(long, Wait::Batched).await.unwrap();
    }

    #[tokio::test]
    async fn room_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { room: 8, room_wait: Duration::from_secs(60), ..Limits::DEFAULT };
        let store = Store::open_with(&folder.path().join("mcpproxy.db"), limits).await.unwrap();
        let ledger = store.ledger();
        for n in 0..200 {
            let record = ledger.open(call(n), Wait::Batched).await.unwrap();
            ledger.close(record, success(), Wait::Batched).await.unwrap();
        }
        store.close().await.unwrap();
        let store = Store::open(&folder.path().join("mcpproxy.db")).await.unwrap();
        let page = store.list(&Filter::default(), None, 500).await.unwrap();
        assert!(page.records.len() == 200 && page.records.iter().all(|record| record.status == Status::Success));
    }

    #[tokio::test]
    async fn a_caller_that_leaves_early_leaves_no_open_call() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("mcpproxy.db")).await.unwrap();
        let ledger = store.ledger();
        for n in 0..50 {
            // Polled once, so that it stands in the queue, and then dropped before or while it is written.
            let leaving = timeout(Duration::from_micros(u64::from(n) * 20), ledger.open(call(n), Wait::Durable));
            if let Ok(opened) = leaving.await {
                ledger.close(opened.unwrap(), success(), Wait::Batched).await.unwrap();
            }
        }
        store.close().await.unwrap();
        let store = Store::open(&folder.path().join("mcpproxy.db")).await.unwrap();
        let page = store.list(&Filter::default(), None, 500).await.unwrap();
        assert!(page.records.iter().all(|record| record.status != Status::Started));
    }
}
