//! Tests of the queue behind a ledger: what it rejects, what it keeps, and when callers stop waiting.

use mcpproxy_core::mask;

use super::*;
use crate::log::operation::{Change, Operation};
use crate::{Filter, Kind, Location, Payload, Status};

fn payload(text: &str) -> Payload {
    Payload::of(mask(text, &[]), text.len())
}

fn call(n: u32) -> NewRecord {
    NewRecord { is_known_tool: true, ..NewRecord::blank(Kind::Call, Status::Started, 1, n.into()) }
}

fn success() -> Outcome {
    Outcome { result: Some(payload("done")), ..Outcome::bare(Status::Success) }
}

/// A ledger whose writer never runs.
fn stalled(space: u32) -> (Arc<Queue>, Ledger) {
    let limits = Limits { space, wait: Duration::from_millis(10), ..Limits::DEFAULT };
    let queue = Arc::new(Queue::new(limits, 0, None));
    let shared = Shared {
        queue: Arc::clone(&queue),
        pulse: Arc::default(),
        disk: Arc::default(),
        meter: Arc::default(),
        committed: watch::channel(0).1,
        rounds: mpsc::channel(1).0,
        verifier: SigningKey::from_seed(&[1; 32]).unwrap().verifier().clone(),
        newest_checkpoint: None,
        interrupted: 0,
        chain: 0,
        writer: Mutex::new(None),
    };
    (queue, Ledger { shared: Arc::new(shared) })
}

#[tokio::test]
async fn a_full_queue_rejects_beginnings_and_accepts_ends() {
    let (queue, ledger) = stalled(2);
    let first = ledger.open(call(1), WaitFor::Queue).await.unwrap();
    let second = ledger.open(call(2), WaitFor::Queue).await.unwrap();
    let refused = ledger.open(call(3), WaitFor::Queue).await;
    assert!(matches!(refused, Err(StoreError::LogUnavailable)));
    assert!(matches!(ledger.append(call(4), WaitFor::Disk).await, Err(StoreError::LogUnavailable)));
    ledger.close(first, success(), WaitFor::Queue).await.unwrap();
    let batch = queue.take_all();
    ledger.close(second, success(), WaitFor::Queue).await.unwrap();
    let [Operation { change: Change::Insert(whole), .. }, Operation { change: Change::Insert(begun), .. }] = &batch[..]
    else {
        panic!("two rows");
    };
    assert_eq!((whole.record.status, begun.record.status), (Status::Success, Status::Started));
    let without_text = Some(payload("done").without_text());
    assert_eq!(whole.early_end.result, without_text, "without space, only the size and digest of the result are kept");
    assert!(matches!(&queue.take_all()[..], [Operation { change: Change::Close(..), space: 0, .. }]));
}

#[tokio::test]
async fn long_texts_take_more_space() {
    let (queue, ledger) = stalled(100);
    let long = NewRecord { args: Some(payload(&"x".repeat(60 * 1024))), ..call(1) };
    ledger.append(long.clone(), WaitFor::Queue).await.unwrap();
    assert!(matches!(ledger.append(long.clone(), WaitFor::Queue).await, Err(StoreError::LogUnavailable)));
    queue.release_space(queue.take_all().iter().map(|operation| operation.space).sum());
    ledger.append(long, WaitFor::Queue).await.unwrap();
}

#[tokio::test]
async fn a_backlog_leaves_no_memory_behind() {
    let (queue, ledger) = stalled(Limits::DEFAULT.space);
    for n in 0..5_000 {
        ledger.append(call(n), WaitFor::Queue).await.unwrap();
    }
    assert!(queue.capacity() >= 5_000);
    while !queue.take(Limits::DEFAULT.batch_max).is_empty() {}
    assert!(queue.capacity() <= Limits::DEFAULT.batch_max, "{}", queue.capacity());
}

#[tokio::test]
async fn callers_do_not_wait_long_for_a_stalled_writer() {
    let (_queue, ledger) = stalled(100);
    assert!(matches!(ledger.open(call(1), WaitFor::Disk).await, Err(StoreError::LogUnavailable)));
    assert!(matches!(ledger.append(call(2), WaitFor::Disk).await, Err(StoreError::LogUnavailable)));
}

#[tokio::test]
async fn space_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { space: 8, wait: Duration::from_secs(60), ..Limits::DEFAULT };
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
        let record = ledger.open(call(n), WaitFor::Queue).await.unwrap();
        ledger.close(record, success(), WaitFor::Queue).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let page = store.list(&Filter::default(), None, 500).await.unwrap();
    assert!(page.records.len() == 200 && page.records.iter().all(|record| record.status == Status::Success));
}
