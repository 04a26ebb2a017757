//! Tests for a failing log: acknowledged records are kept, refused ones are not, and the rest is written later.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::postgres::{Cluster, Fsync};
use common::relay::{Relay, Words};
use common::{Place, all, call, refusal, statuses, success, until, verified};
use mcpproxy_store::{Health, Ledger, LedgerOptions, Location, RecordId, Status, Store, StoreError, WaitFor};

on_both!(
    a_log_that_cannot_be_written_refuses_calls_and_forgets_nothing_that_happened,
    a_log_that_stays_broken_is_reported_at_the_end,
    a_log_that_works_again_says_so_without_being_asked,
    nothing_is_taken_on_trust_while_the_log_fails,
    a_caller_that_leaves_early_leaves_no_open_call,
);

async fn a_log_that_cannot_be_written_refuses_calls_and_forgets_nothing_that_happened(place: &Place) {
    let (store, ledger) = place.open().await;
    let written = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    place.break_log().await;

    let read = ledger.open(call(2), WaitFor::Queue).await.unwrap();
    let refused = ledger.open(call(3), WaitFor::Disk).await.unwrap_err();
    assert_eq!(refused.to_string(), "could not write to the activity log");
    ledger.close(written, success(), WaitFor::Disk).await.unwrap_err();
    ledger.close(read, success(), WaitFor::Disk).await.unwrap_err();
    ledger.append(refusal(4), WaitFor::Disk).await.unwrap_err();
    ledger.open(call(5), WaitFor::Disk).await.unwrap_err();
    assert_eq!(statuses(&store).await, [Status::Started]);

    place.mend_log().await;
    let record = ledger.open(call(6), WaitFor::Disk).await.unwrap();
    ledger.close(record, success(), WaitFor::Disk).await.unwrap();
    let seen: Vec<_> = all(&store).await.iter().map(|record| (second(record.id), record.status)).collect();
    assert_eq!(seen, [(1, Status::Success), (2, Status::Success), (4, Status::Refused), (6, Status::Success)]);
    assert_eq!(verified(&store).await, 6);
}

async fn a_log_that_stays_broken_is_reported_at_the_end(place: &Place) {
    let (_store, ledger) = place.open().await;
    place.break_log().await;
    ledger.append(refusal(1), WaitFor::Queue).await.unwrap();
    assert_eq!(ledger.finish().await.unwrap_err().to_string(), "could not write to the activity log");
}

async fn a_log_that_works_again_says_so_without_being_asked(place: &Place) {
    let (store, ledger) = place.open().await;
    assert_eq!(ledger.health(), Health::Well);
    place.break_log().await;
    ledger.open(call(1), WaitFor::Disk).await.unwrap_err();
    let Health::Failing { since_ms, reason } = ledger.health() else { panic!("it fails") };
    assert!(reason.starts_with("could not write to the activity log: ") && reason.contains("full"), "{reason}");
    assert!((common::now_ms() - since_ms).abs() < 10_000);
    // Another attempt changes nothing.
    ledger.open(call(2), WaitFor::Disk).await.unwrap_err();
    assert!(matches!(ledger.health(), Health::Failing { since_ms: since, .. } if since == since_ms));
    place.mend_log().await;
    until("the log is well", async || ledger.health() == Health::Well).await;
    assert_eq!(statuses(&store).await, []);
}

async fn nothing_is_taken_on_trust_while_the_log_fails(place: &Place) {
    let (store, ledger) = place.open().await;
    place.break_log().await;
    ledger.open(call(1), WaitFor::Disk).await.unwrap_err();
    ledger.open(call(2), WaitFor::Queue).await.unwrap_err();
    place.mend_log().await;
    until("a read is recorded again", async || ledger.open(call(3), WaitFor::Queue).await.is_ok()).await;
    ledger.finish().await.unwrap();
    assert!(all(&store).await.iter().all(|record| second(record.id) == 3));
    verified(&store).await;
}

async fn a_caller_that_leaves_early_leaves_no_open_call(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..50 {
        // Polled once, so that it is in the queue, and then dropped before or while it is written.
        let leaving =
            tokio::time::timeout(Duration::from_micros(u64::from(n) * 40), ledger.open(call(n), WaitFor::Disk));
        if let Ok(opened) = leaving.await {
            ledger.close(opened.unwrap(), success(), WaitFor::Queue).await.unwrap();
        }
    }
    ledger.finish().await.unwrap();
    assert!(statuses(&store).await.iter().all(|status| [Status::Success, Status::Cancelled].contains(status)));
    verified(&store).await;
}

#[tokio::test]
async fn a_statement_that_cannot_be_prepared_is_an_error_for_a_while_only() {
    let place = Place::sqlite();
    let (store, ledger) = place.open().await;
    place.sql("ALTER TABLE records RENAME TO away").await;
    ledger.open(call(1), WaitFor::Disk).await.unwrap_err();
    place.sql("ALTER TABLE away RENAME TO records").await;
    let _open = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    assert_eq!(statuses(&store).await, [Status::Started]);
}

/// A store whose connection to the database can be cut.
async fn wired() -> (Place, Relay, Store, Ledger) {
    let mut place = Place::postgres();
    let relay = Relay::start(place.cluster.as_ref().unwrap().port).await;
    let direct = place.store().await;
    let Location::Postgres(url) = &place.location else { panic!("an address") };
    let port = place.cluster.as_ref().unwrap().port;
    place.location = Location::Postgres(url.replace(&format!(":{port}/"), &format!(":{}/", relay.port)));
    let ledger = place.ledger(&place.store().await).await;
    (place, relay, direct, ledger)
}

/// Calls that were running when the connection was cut, and calls that arrived before it was restored.
async fn cut(words: Words, expected: &[(i64, Status)]) {
    let (_place, relay, store, ledger) = wired().await;
    let before = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    relay.cut_at(words);
    // One batch: an event without a waiting caller, and a call with one.
    ledger.append(refusal(2), WaitFor::Queue).await.unwrap();
    let read = ledger.open(call(3), WaitFor::Queue).await.unwrap();
    ledger.open(call(4), WaitFor::Disk).await.unwrap_err();
    assert!(relay.is_cut());
    // None of these was ever sent to the database.
    ledger.open(call(5), WaitFor::Disk).await.unwrap_err();
    ledger.append(refusal(6), WaitFor::Queue).await.unwrap_err();
    ledger.close(before, success(), WaitFor::Queue).await.unwrap();
    ledger.close(read, success(), WaitFor::Disk).await.unwrap_err();
    assert!(matches!(ledger.health(), Health::Failing { .. }));
    relay.mend();
    until("the log is well", async || ledger.health() == Health::Well).await;
    ledger.finish().await.unwrap();
    let seen: Vec<_> = all(&store).await.iter().map(|record| (second(record.id), record.status)).collect();
    assert_eq!(seen, expected);
    verified(&store).await;
}

#[tokio::test]
async fn an_unconfirmed_commit_is_not_written_again() {
    use Status::{Cancelled, Refused, Success};
    let expected = [(1, Success), (2, Refused), (3, Success), (4, Cancelled), (6, Refused)];
    // PostgreSQL sends this with the message that the statement, a transaction of its own, is committed.
    cut(Words::FromServer(b"INSERT 0 "), &expected).await;
}

#[tokio::test]
async fn what_was_cut_off_before_it_was_committed_is_written_once() {
    use Status::{Refused, Success};
    cut(Words::ToServer(b"refused"), &[(1, Success), (2, Refused), (3, Success), (6, Refused)]).await;
}

/// The answers that callers got.
#[derive(Default)]
struct Told {
    opened: Mutex<Vec<RecordId>>,
    closed: Mutex<Vec<RecordId>>,
    refused: Mutex<u64>,
    is_over: AtomicBool,
}

fn load(ledger: &Ledger, told: &Arc<Told>) -> Vec<tokio::task::JoinHandle<()>> {
    let caller = |task: u32| {
        let (ledger, told) = (ledger.clone(), Arc::clone(told));
        let mut news = ledger.committed();
        tokio::spawn(async move {
            let mut n = task;
            while !told.is_over.load(Ordering::SeqCst) {
                n += 16;
                match ledger.open(call(n), WaitFor::Disk).await {
                    Ok(open) => {
                        let id = open.id();
                        told.opened.lock().unwrap().push(id);
                        if ledger.close(open, success(), WaitFor::Disk).await.is_ok() {
                            told.closed.lock().unwrap().push(id);
                        }
                    }
                    Err(_) => {
                        *told.refused.lock().unwrap() += 1;
                        // Try again after a write, or after a short pause.
                        let _no_news = tokio::time::timeout(Duration::from_millis(5), news.changed()).await;
                    }
                }
            }
        })
    };
    (0..16).map(caller).collect()
}

/// Makes further calls, ends them, and checks the answers.
async fn end_load(callers: Vec<tokio::task::JoinHandle<()>>, told: &Arc<Told>, ledger: &Ledger, store: &Store) {
    more_calls(told, ledger).await;
    told.is_over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    ledger.finish().await.unwrap();
    check_told(store, told).await;
}

/// Every answer is true, and calls without an answer were never sent.
async fn check_told(store: &Store, told: &Told) {
    let records = all(store).await;
    let ids: HashSet<RecordId> = records.iter().map(|record| record.id).collect();
    assert_eq!(ids.len(), records.len());
    let opened: HashSet<RecordId> = told.opened.lock().unwrap().iter().copied().collect();
    assert!(opened.is_subset(&ids), "{:?}", opened.difference(&ids));
    // Ends that could not be written at first were written later, so every call that was sent has an end.
    for record in &records {
        let expected = if opened.contains(&record.id) { Status::Success } else { Status::Cancelled };
        assert_eq!(record.status, expected, "{record:?}");
    }
    assert!(told.closed.lock().unwrap().len() <= opened.len());
    let lines = records.iter().map(|record| 1 + i64::from(record.end_seq.is_some())).sum::<i64>();
    assert_eq!(verified(store).await, lines);
}

async fn more_calls(told: &Told, ledger: &Ledger) {
    until("the log is well", async || ledger.health() == Health::Well).await;
    let before = told.closed.lock().unwrap().len();
    until("calls go on", async || told.closed.lock().unwrap().len() > before + 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_ended_under_load_lose_nothing() {
    let place = Place::postgres();
    let (store, ledger) = place.open().await;
    let told = Arc::new(Told::default());
    let callers = load(&ledger, &told);
    for _ in 0..6 {
        more_calls(&told, &ledger).await;
        place
            .sql(
                "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_stat_activity USING (pid) \
                 WHERE l.locktype = 'advisory' AND datname = current_database()",
            )
            .await;
    }
    end_load(callers, &told, &ledger, &store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_under_load_loses_nothing() {
    let cluster = Arc::new(Cluster::start(Fsync::On));
    let place = Place::on(Arc::clone(&cluster));
    let (store, ledger) = place.open().await;
    let told = Arc::new(Told::default());
    let callers = load(&ledger, &told);
    for _ in 0..2 {
        more_calls(&told, &ledger).await;
        cluster.crash();
        until("the log fails", async || ledger.health() != Health::Well).await;
        let refused = *told.refused.lock().unwrap();
        until("calls are refused", async || *told.refused.lock().unwrap() > refused + 20).await;
        cluster.resume();
    }
    end_load(callers, &told, &ledger, &store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_server_does_not_block_others() {
    let cluster = Arc::new(Cluster::start(Fsync::Off));
    let place = Place::on(Arc::clone(&cluster));
    let store = place.store().await;
    let options = LedgerOptions { patience: Duration::from_millis(900), ..place.options(1) };
    let ledger = Ledger::start(&store, options).await.unwrap();
    let told = Arc::new(Told::default());
    let callers = load(&ledger, &told);
    more_calls(&told, &ledger).await;
    cluster.freeze();
    until("the log fails", async || ledger.health() != Health::Well).await;
    let begin = Instant::now();
    let refused = ledger.open(call(1_000_000), WaitFor::Disk).await.unwrap_err();
    assert!(matches!(refused, StoreError::LogUnavailable | StoreError::NoAnswer), "{refused:?}");
    assert!(begin.elapsed() < Duration::from_millis(1_500), "{:?}", begin.elapsed());
    cluster.thaw();
    end_load(callers, &told, &ledger, &store).await;
}

/// A session that began read-only stays so, even if the server allows writing again. Only another one can write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_can_only_read_is_replaced() {
    let place = Place::postgres();
    let (store, ledger) = place.open().await;
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    let Location::Postgres(url) = &place.location else { panic!("an address") };
    let name = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let cluster = place.cluster.as_ref().unwrap();
    let turn = |value: &str| {
        cluster.sql("postgres", &format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}"));
    };
    turn("on");
    cluster
        .sql("postgres", &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"));
    until("the log fails, although nothing is written", async || ledger.health() != Health::Well).await;
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap_err();
    turn("off");
    until("the log is well", async || ledger.health() == Health::Well).await;
    ledger.append(refusal(3), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    verified(&store).await;
}

fn second(id: RecordId) -> i64 {
    (id.time_ms() - 1_700_000_000_000) / 1_000
}
