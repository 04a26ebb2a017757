//! The ledger: where a call is recorded before it is sent, and again when it is over.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcpproxy_core::settings::Retention;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use crate::log::copies::Copies;
use crate::log::health::{Health, Pulse};
use crate::log::keeper::{CopyPaths, Keeper};
use crate::log::queue::{End, Limits, Place, Queue, Stage, Terms, Waiter, Written};
use crate::log::retention::Retainer;
use crate::log::sql::RecordWriter;
use crate::log::subject::Subject;
use crate::log::waiting::Waiting;
use crate::log::writer::Writer;
use crate::{Checkpoint, Lost, NewRecord, Outcome, RecordId, SigningKey, Step, Store, StoreError, Verifier};

/// Writes records of one chain. All clones share one queue and one writer.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue>,
    pulse: Arc<Pulse>,
    committed: watch::Receiver<u64>,
    verifier: Verifier,
    interrupted: usize,
    /// `None` when it was awaited.
    writer: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

pub struct LedgerOptions {
    /// Names the chain, and signs its checkpoints.
    pub key: SigningKey,
    /// A file that holds the newest checkpoint. What the database says is held against it at the start.
    pub newest_checkpoint: Option<PathBuf>,
    /// A file to which all checkpoints are appended.
    pub checkpoints_to: Option<PathBuf>,
    pub retention: Retention,
    /// How long a caller waits for a log that neither takes a record nor says why.
    pub patience: Duration,
    pub now_ms: fn() -> i64,
}

/// When a record counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// When it is on disk.
    Durable,
    /// When the writer has it; it will be on disk a moment later. While the log cannot be written, this is `Durable`.
    Batched,
}

/// A call that is under way, and must be closed.
#[derive(Debug)]
#[must_use = "a record that is never closed reads as interrupted after the next start"]
pub struct OpenRecord {
    pub(crate) id: RecordId,
    pub(crate) place: Place,
    pub(crate) subject: Arc<Subject>,
}

impl Ledger {
    /// Takes up the chain of this key. Only for the process that holds the lock of the data folder: it ends the calls
    /// that an earlier run left open.
    pub async fn start(store: &Store, options: LedgerOptions) -> Result<Self, StoreError> {
        let limits = Limits { wait: options.patience, ..Limits::DEFAULT };
        Self::start_with(store, options, limits).await
    }

    pub(crate) async fn start_with(store: &Store, options: LedgerOptions, limits: Limits) -> Result<Self, StoreError> {
        let LedgerOptions { key, newest_checkpoint, checkpoints_to, retention, patience: _, now_ms } = options;
        let verifier = key.verifier().clone();
        let mut database = store.database().record_writer(&verifier, now_ms()).await?;
        if let Some(path) = &newest_checkpoint {
            check_newest(&mut database, &verifier, path).await?;
        }
        let interrupted = database.close_interrupted().await?;
        let signed_seq = database.signed_seq().await?;
        let queue = Arc::new(Queue::new(limits, database.chain(), database.head().key));
        let pulse = Arc::new(Pulse::default());
        let (sender, committed) = watch::channel(0);
        let copies = Copies::start(CopyPaths { newest: newest_checkpoint, all: checkpoints_to });
        let keeper = Keeper::new(key, copies, Retainer::new(retention), signed_seq);
        let writer = Writer {
            queue: Arc::clone(&queue),
            pulse: Arc::clone(&pulse),
            database,
            keeper,
            committed: sender,
            now_ms,
        };
        let writer = Mutex::new(Some(tokio::spawn(writer.run())));
        Ok(Self { shared: Arc::new(Shared { queue, pulse, committed, verifier, interrupted, writer }) })
    }

    /// Records that a call begins. An error means that nothing was recorded and nothing may be sent.
    pub async fn open(&self, record: NewRecord, wait: Wait) -> Result<OpenRecord, StoreError> {
        let opened = self.insert(record, Stage::Begun, Terms::None, wait).await?;
        opened.map_err(|Lost(_)| StoreError::LogUnavailable)
    }

    /// Records that a call begins, if each step finds what it needs; one transaction, on disk. An error means that
    /// nothing may be sent, and in all likelihood nothing was written either. If it was, because only the word of it got
    /// lost, the record ends as cancelled with the code `not_sent`, and what was consumed stays consumed.
    pub async fn open_if(&self, record: NewRecord, steps: Vec<Step>) -> Result<Result<OpenRecord, Lost>, StoreError> {
        self.insert(record, Stage::Begun, Terms::provided(steps), Wait::Durable).await
    }

    /// Records how a call ended. An end whose waiter was told of an error is still written when the log works again.
    pub async fn close(&self, open: OpenRecord, outcome: Outcome, wait: Wait) -> Result<(), StoreError> {
        self.end(open, outcome, wait, Terms::None).await
    }

    /// The same with steps, which are written with the end, whenever that is. They cannot lose.
    pub async fn close_with(
        &self,
        open: OpenRecord,
        outcome: Outcome,
        wait: Wait,
        steps: Vec<Step>,
    ) -> Result<(), StoreError> {
        self.end(open, outcome, wait, Terms::with(steps)).await
    }

    /// Records something that is over at once: a refusal, or an event.
    pub async fn note(&self, record: NewRecord, wait: Wait) -> Result<RecordId, StoreError> {
        let noted = self.insert(record, Stage::Complete, Terms::None, wait).await?;
        noted.map(|open| open.id).map_err(|Lost(_)| StoreError::LogUnavailable)
    }

    /// Records something that is so if each step finds what it needs; one transaction, on disk. After an error it can be
    /// tried again: what was written all the same then loses.
    pub async fn note_if(&self, record: NewRecord, steps: Vec<Step>) -> Result<Result<RecordId, Lost>, StoreError> {
        let noted = self.insert(record, Stage::Complete, Terms::provided(steps), Wait::Durable).await?;
        Ok(noted.map(|open| open.id))
    }

    /// How many calls an earlier run had left open.
    pub fn interrupted(&self) -> usize {
        self.shared.interrupted
    }

    pub fn health(&self) -> Health {
        self.shared.pulse.health()
    }

    /// Changes after every commit.
    pub fn committed(&self) -> watch::Receiver<u64> {
        self.shared.committed.clone()
    }

    pub fn verifier(&self) -> &Verifier {
        &self.shared.verifier
    }

    /// Writes what was accepted, signs it, and takes nothing more. An error means that some could not be written.
    pub async fn finish(&self) -> Result<(), StoreError> {
        self.shared.queue.close();
        let writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match writer {
            Some(writer) => writer.await.unwrap_or(Err(StoreError::LogUnavailable)),
            None => Ok(()),
        }
    }

    async fn insert(
        &self,
        record: NewRecord,
        stage: Stage,
        terms: Terms,
        wait: Wait,
    ) -> Result<Result<OpenRecord, Lost>, StoreError> {
        let Shared { queue, pulse, .. } = &*self.shared;
        let record = record.bounded();
        let deadline = queue.deadline();
        let room = queue.take_room(record.text_bytes() + terms.text_bytes(), deadline).await?;
        // A log that does not work may never get to what it is handed now.
        let wait = if pulse.is_failing() { Wait::Durable } else { wait };
        let (waiter, written) = waiter(wait);
        let (id, place, subject) = queue.insert(record, stage, terms, waiter, room)?;
        let open = OpenRecord { id, place, subject };
        match written {
            Some(written) => Waiting::new(queue, written, stage, open).finish(deadline).await,
            None => Ok(Ok(open)),
        }
    }

    async fn end(&self, open: OpenRecord, outcome: Outcome, wait: Wait, terms: Terms) -> Result<(), StoreError> {
        let OpenRecord { id, place, subject } = open;
        let queue = &self.shared.queue;
        let mut outcome = outcome.bounded();
        let deadline = queue.deadline();
        let room = match queue.take_room(outcome.text_bytes() + terms.text_bytes(), deadline).await {
            Ok(room) => room,
            // What happened has happened: without room for the result, the rest is kept all the same.
            // There cannot be more of these than there are open calls.
            Err(_) => {
                outcome.result = outcome.result.map(|result| result.without_text());
                0
            }
        };
        let (waiter, written) = waiter(wait);
        queue.close_record(place, End { id, outcome, subject }, terms, waiter, room)?;
        let Some(written) = written else { return Ok(()) };
        match timeout_at(deadline, written).await {
            Ok(Ok(outcome)) => outcome?.map_err(|Lost(_)| StoreError::LogUnavailable),
            Ok(Err(_)) | Err(_) => Err(StoreError::LogUnavailable),
        }
    }
}

impl Drop for Shared {
    /// Lets the writer finish by itself. Who needs to know that it did, calls `finish`.
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl OpenRecord {
    pub fn id(&self) -> RecordId {
        self.id
    }
}

fn waiter(wait: Wait) -> (Option<Waiter>, Option<oneshot::Receiver<Written>>) {
    match wait {
        Wait::Batched => (None, None),
        Wait::Durable => {
            let (waiter, written) = oneshot::channel();
            (Some(waiter), Some(written))
        }
    }
}

/// The database must have come at least as far as what was signed last, by the same way.
async fn check_newest(database: &mut RecordWriter, verifier: &Verifier, path: &Path) -> Result<(), StoreError> {
    let note = match std::fs::read_to_string(path) {
        Ok(note) => note,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(StoreError::Open { path: path.to_owned(), source: Arc::new(source) }),
    };
    let signed = match Checkpoint::open(&note, verifier) {
        Ok(signed) => signed,
        Err(error) => {
            tracing::warn!(error = crate::log::health::chain(&error), path = %path.display(), "unusable checkpoint");
            return Ok(());
        }
    };
    let chain = verifier.chain().to_owned();
    if database.head().seq < signed.seq {
        return Err(StoreError::Truncated { chain, found: database.head().seq, signed: signed.seq });
    }
    match database.hash_at(signed.seq).await? {
        Some(hash) if hash != signed.hash => Err(StoreError::Rewritten { chain, seq: signed.seq }),
        // Removed when its time was over.
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::mask;

    use super::*;
    use crate::log::queue::{Change, Operation};
    use crate::{Filter, Kind, Location, Payload, Status};

    fn payload(text: &str) -> Payload {
        Payload::of(mask(text, &[]), text.len())
    }

    fn call(n: u32) -> NewRecord {
        NewRecord {
            time_ms: 1,
            random: n.into(),
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

    fn success() -> Outcome {
        Outcome { result: Some(payload("done")), ..Outcome::bare(Status::Success) }
    }

    /// A ledger whose writer never comes.
    fn stalled(room: u32) -> (Arc<Queue>, Ledger) {
        let limits = Limits { room, wait: Duration::from_millis(10), ..Limits::DEFAULT };
        let queue = Arc::new(Queue::new(limits, 0, None));
        let shared = Shared {
            queue: Arc::clone(&queue),
            pulse: Arc::default(),
            committed: watch::channel(0).1,
            verifier: SigningKey::from_seed(&[1; 32]).unwrap().verifier().clone(),
            interrupted: 0,
            writer: Mutex::new(None),
        };
        (queue, Ledger { shared: Arc::new(shared) })
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
        let batch = queue.take_all();
        ledger.close(second, success(), Wait::Batched).await.unwrap();
        let [Operation { change: Change::Insert(whole), .. }, Operation { change: Change::Insert(begun), .. }] =
            &batch[..]
        else {
            panic!("two rows");
        };
        assert_eq!((whole.record.status, begun.record.status), (Status::Success, Status::Started));
        let without_text = Some(payload("done").without_text());
        assert_eq!(whole.ended.result, without_text, "without room, only the size of the result is kept");
        assert!(matches!(&queue.take_all()[..], [Operation { change: Change::Close(..), room: 0, .. }]));
    }

    #[tokio::test]
    async fn long_texts_take_more_room() {
        let (queue, ledger) = stalled(100);
        let long = NewRecord { args: Some(payload(&"x".repeat(60 * 1024))), ..call(1) };
        ledger.note(long.clone(), Wait::Batched).await.unwrap();
        assert!(matches!(ledger.note(long.clone(), Wait::Batched).await, Err(StoreError::LogUnavailable)));
        queue.give_room(queue.take_all().iter().map(|operation| operation.room).sum());
        ledger.note(long, Wait::Batched).await.unwrap();
    }

    #[tokio::test]
    async fn a_writer_that_never_comes_is_not_waited_for_long() {
        let (_queue, ledger) = stalled(100);
        assert!(matches!(ledger.open(call(1), Wait::Durable).await, Err(StoreError::LogUnavailable)));
        assert!(matches!(ledger.note(call(2), Wait::Durable).await, Err(StoreError::LogUnavailable)));
    }

    #[tokio::test]
    async fn room_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { room: 8, wait: Duration::from_secs(60), ..Limits::DEFAULT };
        let store = Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let retention = Retention { payloads: None, payload_bytes: None, records: None };
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let options = LedgerOptions {
            key,
            newest_checkpoint: None,
            checkpoints_to: None,
            retention,
            patience: limits.wait,
            now_ms: || 1,
        };
        let ledger = Ledger::start_with(&store, options, limits).await.unwrap();
        for n in 0..200 {
            let record = ledger.open(call(n), Wait::Batched).await.unwrap();
            ledger.close(record, success(), Wait::Batched).await.unwrap();
        }
        ledger.finish().await.unwrap();
        let page = store.list(&Filter::default(), None, 500).await.unwrap();
        assert!(page.records.len() == 200 && page.records.iter().all(|record| record.status == Status::Success));
    }
}
