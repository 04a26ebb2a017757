//! A gateway that is killed in the middle of its work: what it acknowledged is there, and the chain goes on.

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

use common::{Place, all, call, location, now_ms, success, verified};
use mcpproxy_store::{Ledger, LedgerOptions, Location, NewRecord, RecordId, Status, Store, Wait};

on_both!(what_a_killed_process_acknowledged_is_there);

const CHILD: &str = "MCPPROXY_TEST_WRITES";
const ROUNDS: usize = 5;
const CALLERS: u64 = 16;

async fn what_a_killed_process_acknowledged_is_there(place: &Place) {
    let mut opened = HashSet::new();
    let mut closed = HashSet::new();
    for round in 0..ROUNDS {
        run_and_kill(place, 200 + 100 * round, &mut opened, &mut closed);
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

/// Lets a process write until it has told of so many records, and kills it in the middle of the next.
fn run_and_kill(place: &Place, lines: usize, opened: &mut HashSet<RecordId>, closed: &mut HashSet<RecordId>) {
    let address = match &place.location {
        Location::Sqlite(path) => path.to_str().unwrap().to_owned(),
        Location::Postgres(url) => url.clone(),
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
        .env(CHILD, format!("{} {address}", place.newest_checkpoint().display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = 0;
    while seen < lines {
        let line = told.next().expect("the process writes on").unwrap();
        seen += usize::from(keep(&line, opened, closed));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it said before it was gone counts, except a line that it could not finish.
    for line in told.map_while(Result::ok) {
        keep(&line, opened, closed);
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
    // Another test runs this as a process of its own.
    let Ok(child) = std::env::var(CHILD) else { return };
    let (newest, address) = child.split_once(' ').unwrap();
    let location = location(address);
    let place = Place::sqlite();
    let store = Store::open(&location).await.unwrap();
    let options = LedgerOptions { newest_checkpoint: Some(newest.into()), ..place.options(1) };
    let ledger = Ledger::start(&store, options).await.unwrap();
    let callers: Vec<_> = (0..CALLERS).map(|n| tokio::spawn(calls_without_end(ledger.clone(), n))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "the other process reads it")]
async fn calls_without_end(ledger: Ledger, n: u64) {
    loop {
        let record = NewRecord { time_ms: now_ms(), random: n, ..call(0) };
        let open = ledger.open(record, Wait::Durable).await.unwrap();
        let id = open.id();
        println!("opened {id}");
        ledger.close(open, success(), Wait::Durable).await.unwrap();
        println!("closed {id}");
    }
}
