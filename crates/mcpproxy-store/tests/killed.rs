//! Tests that kill a running gateway: acknowledged records are kept, and the chain continues.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should stop"
)]

mod common;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use common::asking::{event, id, question, tool};
use common::{Place, all, call, location, now_ms, success, verified};
use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, Digest};
use mcpproxy_store::{
    ApprovalFilter, Kind, Ledger, LedgerOptions, Location, NewApproval, NewClaim, NewRecord, RecordId, Status, Step,
    Store, StoredApproval, WaitFor,
};

on_both!(what_a_killed_process_acknowledged_is_there, a_killed_process_leaves_no_half_of_anything);

const CHILD: &str = "MCPPROXY_TEST_WRITES";
const ROUNDS: usize = 5;
const CALLERS: u64 = 16;

async fn what_a_killed_process_acknowledged_is_there(place: &Place) {
    let mut opened = HashSet::new();
    let mut closed = HashSet::new();
    for round in 0..ROUNDS {
        run_and_kill(place, "writes_until_it_is_killed", 200 + 100 * round, |line| {
            keep(line, &mut opened, &mut closed)
        });
        let (store, ledger) = place.open().await;
        assert!(ledger.interrupted() <= usize::try_from(CALLERS).unwrap());
        let found: HashMap<RecordId, Status> =
            all(&store).await.into_iter().map(|record| (record.id, record.status)).collect();
        for id in &opened {
            assert!(found.contains_key(id), "round {round}: {id} was opened");
        }
        for id in &closed {
            assert_eq!(found.get(id), Some(&Status::Success), "round {round}: {id} was closed");
        }
        assert!(found.values().all(|status| [Status::Success, Status::Interrupted].contains(status)));
        verified(&store).await;
        ledger.finish().await.unwrap();
        store.close().await;
    }
}

/// The approval, record, claim and answer of a call stay consistent, whenever the process is killed.
async fn a_killed_process_leaves_no_half_of_anything(place: &Place) {
    let (mut opened, mut closed) = (HashSet::new(), HashSet::new());
    for round in 0..ROUNDS {
        run_and_kill(place, "approves_until_it_is_killed", 150 + 70 * round, |line| {
            keep(line, &mut opened, &mut closed)
        });
        let (store, ledger) = place.open().await;
        let found: HashMap<RecordId, Status> = all(&store)
            .await
            .into_iter()
            .filter(|record| record.kind == Kind::Call)
            .map(|record| (record.id, record.status))
            .collect();
        let mut calls = HashSet::new();
        for approval in approvals(&store).await {
            let Some(record) = approval.record else {
                assert_ne!(approval.state, ApprovalState::Consumed);
                continue;
            };
            assert!(calls.insert(record), "round {round}: two approvals for {record}");
            let status = *found.get(&record).expect("a consumed approval has its record");
            let key = approval.id.as_str();
            let claim = store.find_claim("local", "mail:send", key).await.unwrap().expect("and its claim");
            assert_eq!((claim.record, claim.status), (record, status));
            let expected = match status {
                Status::Success => Some(key.to_owned()),
                Status::Interrupted => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(claim.answer, expected, "the answer is there exactly when the end is");
            assert!(ledger.open_if(call(1), vec![consume(&approval.id)]).await.unwrap().written().is_none());
        }
        assert_eq!(calls.len(), found.len(), "every call has its approval");
        assert!(opened.iter().all(|id| calls.contains(id)));
        assert!(closed.iter().all(|id| found.get(id) == Some(&Status::Success)));
        verified(&store).await;
        ledger.finish().await.unwrap();
        store.close().await;
    }
}

async fn approvals(store: &Store) -> Vec<StoredApproval> {
    let mut approvals = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let page = store.list_approvals(&ApprovalFilter::default(), before.as_deref(), 500).await.unwrap();
        approvals.extend(page.approvals);
        before = page.next;
        if before.is_none() {
            return approvals;
        }
    }
}

fn consume(id: &ApprovalId) -> Step {
    Step::Consume { id: id.clone(), now_ms: 0 }
}

/// Kills a process after it has reported this many records.
fn run_and_kill(place: &Place, child: &str, lines: usize, mut keep: impl FnMut(&str) -> bool) {
    let address = match &place.location {
        Location::Sqlite(path) => path.to_str().unwrap().to_owned(),
        Location::Postgres(url) => url.clone(),
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(CHILD, format!("{} {address}", place.newest_checkpoint().display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = 0;
    while seen < lines {
        let line = told.next().expect("the process writes on").unwrap();
        seen += usize::from(keep(&line));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Lines that it wrote before it was killed count, except an incomplete last line.
    for line in told.map_while(Result::ok) {
        keep(&line);
    }
}

fn keep(line: &str, opened: &mut HashSet<RecordId>, closed: &mut HashSet<RecordId>) -> bool {
    let told = line.split_once(' ').and_then(|(what, id)| Some((what, RecordId::parse(id)?)));
    match told {
        Some(("opened", id)) => opened.insert(id),
        Some(("closed", id)) => closed.insert(id),
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_until_it_is_killed() {
    let Some(ledger) = as_child().await else { return };
    let callers: Vec<_> = (0..CALLERS).map(|n| tokio::spawn(calls_without_end(ledger.clone(), n))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approves_until_it_is_killed() {
    let Some(ledger) = as_child().await else { return };
    let callers: Vec<_> = (0..CALLERS).map(|n| tokio::spawn(approvals_without_end(ledger.clone(), n))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

/// Returns a ledger in a child process that another test has started. Otherwise there is nothing to do.
async fn as_child() -> Option<Ledger> {
    let child = std::env::var(CHILD).ok()?;
    let (newest, address) = child.split_once(' ').unwrap();
    let location = location(address);
    let place = Place::sqlite();
    let store = Store::open(&location).await.unwrap();
    let options = LedgerOptions { newest_checkpoint: Some(newest.into()), ..place.options(1) };
    Some(Ledger::start(&store, options).await.unwrap())
}

#[expect(clippy::print_stdout, reason = "the other process reads it")]
async fn calls_without_end(ledger: Ledger, n: u64) {
    loop {
        let record = NewRecord { time_ms: now_ms(), random: n, ..call(0) };
        let open = ledger.open(record, WaitFor::Disk).await.unwrap();
        let id = open.id();
        println!("opened {id}");
        ledger.close(open, success(), WaitFor::Disk).await.unwrap();
        println!("closed {id}");
    }
}

#[expect(clippy::print_stdout, reason = "the other process reads it")]
async fn approvals_without_end(ledger: Ledger, caller: u64) {
    let begin = now_ms().unsigned_abs();
    for turn in 0.. {
        let id = id((begin * CALLERS + caller) * 100_000 + turn);
        let binding = Digest::of(id.as_str().as_bytes());
        let asked = NewApproval { id: id.clone(), binding, most: 10_000, ..question(0) };
        let approve = Step::Approve {
            id: id.clone(),
            by: "anna".into(),
            given: Assurance::Session,
            now_ms: 0,
            until_ms: i64::MAX,
        };
        let steps = vec![Step::RequestApproval(Box::new(asked)), approve];
        ledger.append_if(event(), steps).await.unwrap().written().unwrap();
        let key = id.to_string();
        let (agent, tool) = ("local".to_owned(), tool().to_string());
        let args_digest = Digest::of(b"");
        let claim = NewClaim {
            agent: agent.clone(),
            tool: tool.clone(),
            key: key.clone(),
            args_digest,
            now_ms: 0,
            expires_ms: i64::MAX,
        };
        let record = NewRecord { time_ms: now_ms(), random: caller, ..call(0) };
        let steps = vec![consume(&id), Step::Claim(Box::new(claim))];
        let open = ledger.open_if(record, steps).await.unwrap().written().unwrap();
        let opened = open.id();
        println!("opened {opened}");
        let finish = Step::FinishClaim { agent, tool, answer: key.clone(), key, expires_ms: None };
        ledger.close_with(open, success(), WaitFor::Disk, vec![finish]).await.unwrap();
        println!("closed {opened}");
    }
}
