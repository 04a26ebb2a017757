//! Measures reading the log at 10,000, 100,000 and a million records. With `MCPPROXY_BENCH_RECORDS` set to 10000000, it
//! goes up to ten million, which takes some minutes and about 10 GB of disk. With `MCPPROXY_BENCH_DATABASE` set to the
//! address of an empty PostgreSQL database, it measures that instead of SQLite.
//!
//! It fails if a page of destructive calls or a summary costs more than twice as much as in the smallest log.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports, or stops")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{BEGIN_MS, ledger};
use mcpproxy_core::{RiskLevel, Variant, mask};
use mcpproxy_store::{Cursor, Filter, Kind, Location, NewRecord, Payload, Status, Store, WaitFor};

const SIZES: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
const DEFAULT_MAX: u64 = 1_000_000;
const RUNS: usize = 31;
const LIMIT: usize = 50;
/// Maximum cost of what must not grow, relative to the cost in the smallest log.
const RATIO_MAX: f64 = 2.0;
const PAUSE_MS: u64 = 100;
const DAY_MS: i64 = 86_400_000;
/// The beginnings of the names of what must not grow.
const CONSTANT: [&str; 2] = ["intent_type=destructive, ", "summary "];

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    let max = std::env::var("MCPPROXY_BENCH_RECORDS").ok().map_or(DEFAULT_MAX, |max| max.parse().expect("a number"));
    let is_well = runtime.block_on(grow(max));
    assert!(
        is_well,
        "a page of destructive calls or a summary costs more than {RATIO_MAX} times what it costs in a small log"
    );
}

/// Grows one log and measures it at every size.
async fn grow(max: u64) -> bool {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a folder on a disk");
    let location = match std::env::var("MCPPROXY_BENCH_DATABASE") {
        Ok(url) => Location::Postgres(url),
        Err(_) => Location::Sqlite(folder.path().join("mcpproxy.db")),
    };
    let mut written = 0;
    let mut first: Option<Vec<(String, Duration)>> = None;
    let mut is_well = true;
    for size in SIZES.into_iter().filter(|size| *size <= max) {
        let begin = Instant::now();
        fill(&location, written..size).await;
        let (seconds, added) = (begin.elapsed().as_secs_f64(), size - written);
        written = size;
        println!("\n{size} records ({:.0} a second were added)", added as f64 / seconds);
        let times = measure(&location, size).await;
        let smallest = first.get_or_insert_with(|| times.clone());
        for ((name, time), (_, in_small)) in times.iter().zip(smallest.iter()) {
            let ratio = time.as_secs_f64() / in_small.as_secs_f64();
            println!("  {name:<44} {:>9.0} µs {ratio:>8.2} ×", time.as_secs_f64() * 1e6);
            is_well &= ratio <= RATIO_MAX || !CONSTANT.iter().any(|constant| name.starts_with(constant));
        }
    }
    is_well
}

async fn fill(location: &Location, numbers: std::ops::Range<u64>) {
    let store = Store::open(location).await.expect("a store");
    let ledger = ledger(&store).await;
    for n in numbers {
        // Retry if the disk cannot keep up.
        while ledger.append(record(n), WaitFor::Queue).await.is_err() {}
    }
    // A gateway does this every few minutes, and takes days for as many records.
    ledger.roll_up().await.expect("all counts are in series");
    ledger.finish().await.expect("everything is written");
    store.close().await;
}

async fn measure(location: &Location, size: u64) -> Vec<(String, Duration)> {
    let store = Store::open_read_only(location).await.expect("a store");
    let mut times = Vec::new();
    // The oldest hundredth of the log.
    let deep = Some(BEGIN_MS + (size * PAUSE_MS / 100).cast_signed());
    for (name, filter) in filters() {
        times.push((format!("{name}, first page"), page(&store, &filter, None).await));
        let far = Filter { until_ms: deep, ..filter.clone() };
        let cursor = store.list(&far, None, LIMIT).await.expect("a page").next;
        times.push((format!("{name}, deep page"), page(&store, &filter, cursor).await));
    }
    let middle = BEGIN_MS + (size * PAUSE_MS / 2).cast_signed();
    let range = Filter { since_ms: Some(middle), until_ms: Some(middle + 60_000), ..Filter::default() };
    times.push(("a minute in the middle".to_owned(), page(&store, &range, None).await));
    let end = BEGIN_MS + (size * PAUSE_MS).cast_signed();
    let ranges = [
        ("summary of everything", None, None),
        ("summary of the last day", Some(end - DAY_MS), Some(end)),
        ("summary of the last week", Some(end - 7 * DAY_MS), Some(end)),
        ("summary of a day in the middle", Some(middle - DAY_MS), Some(middle)),
    ];
    for (name, since_ms, until_ms) in ranges {
        let summary = async || drop(store.summary(since_ms, until_ms).await.expect("a summary"));
        times.push((name.to_owned(), fastest(summary).await));
    }
    let hours = async || drop(store.hourly_calls(end - DAY_MS, end).await.expect("counts"));
    times.push(("calls by hour of the last day".to_owned(), fastest(hours).await));
    let newest = store.list(&range, None, 1).await.expect("a page").records;
    let id = newest.first().expect("a record").id.to_string();
    let prefix = id.get(..14).expect("a beginning").to_owned();
    times.push(("by id".to_owned(), fastest(async || drop(store.find(&id).await.expect("found"))).await));
    times.push(("by the beginning of an id".to_owned(), fastest(async || drop(store.find(&prefix).await)).await));
    store.close().await;
    let opened = fastest(async || {
        let store = Store::open_read_only(location).await.expect("a store");
        store.list(&Filter::default(), None, LIMIT).await.expect("a page");
        store.close().await;
    });
    times.push(("open, list, close".to_owned(), opened.await));
    times
}

fn filters() -> Vec<(&'static str, Filter)> {
    let word = |word: &str| Some(word.to_owned());
    let none = Filter::default;
    vec![
        ("intent_type=destructive", Filter { intent_type: Some(Variant::Destructive), ..none() }),
        ("no filter", none()),
        ("intent_type=read", Filter { intent_type: Some(Variant::Read), ..none() }),
        ("kind=refusal", Filter { kind: Some(Kind::Refusal), ..none() }),
        ("kind=call", Filter { kind: Some(Kind::Call), ..none() }),
        ("status=error", Filter { status: Some(Status::Error), ..none() }),
        ("status=success", Filter { status: Some(Status::Success), ..none() }),
        ("server", Filter { server: word("server7"), ..none() }),
        ("tool", Filter { tool: word("tool77"), ..none() }),
        ("agent", Filter { agent: word("agent3"), ..none() }),
        ("risk=high", Filter { risk: Some(RiskLevel::High), ..none() }),
        ("server and status", Filter { server: word("server7"), status: Some(Status::Error), ..none() }),
        ("agent and intent_type", Filter { agent: word("agent3"), intent_type: Some(Variant::Destructive), ..none() }),
        ("two that never meet", Filter { server: word("server7"), tool: word("tool78"), ..none() }),
        ("a word that is often there", Filter { text: word("agent3"), ..none() }),
        ("a word that is nowhere", Filter { text: word("nowhere"), ..none() }),
    ]
}

async fn page(store: &Store, filter: &Filter, before: Option<Cursor>) -> Duration {
    fastest(async || drop(store.list(filter, before, LIMIT).await.expect("a page"))).await
}

/// Returns the fastest of some runs. Other work on the machine only makes runs slower.
async fn fastest(work: impl AsyncFn()) -> Duration {
    let mut fastest = Duration::MAX;
    for _ in 0..RUNS {
        let begin = Instant::now();
        work().await;
        fastest = fastest.min(begin.elapsed());
    }
    fastest
}

/// Returns a record whose fields vary independently, as with many servers, agents and tools.
fn record(n: u64) -> NewRecord {
    // A hash of `n`, so that neighbouring records differ.
    let chance = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let tool = (chance >> 10) % 200;
    let (kind, status) = match chance % 1000 {
        0..20 => (Kind::Refusal, Status::Refused),
        20..25 => (Kind::Server, Status::Success),
        25..60 => (Kind::Call, Status::Error),
        _ => (Kind::Call, Status::Success),
    };
    // Each tool has one operation, and a typical duration.
    let intent_type = match tool {
        0..4 => Variant::Destructive,
        4..40 => Variant::Write,
        _ => Variant::Read,
    };
    let duration_us = 500 * (1 + tool % 50) + (chance >> 8) % (400 * (1 + tool % 50));
    let risk = match intent_type {
        Variant::Read => RiskLevel::Low,
        Variant::Write => RiskLevel::Medium,
        Variant::Destructive => RiskLevel::High,
    };
    NewRecord {
        time_ms: BEGIN_MS + (n * PAUSE_MS).cast_signed(),
        random: chance,
        kind,
        status,
        agent: Some(format!("agent{}", (chance >> 20) % 10)),
        client: Some("cursor 1.2".to_owned()),
        server: Some(format!("server{}", tool % 20)),
        tool: Some(format!("tool{tool}")),
        is_known_tool: true,
        intent_type: Some(intent_type),
        risk: Some(risk),
        code: None,
        message: None,
        duration_us: (kind == Kind::Call).then_some(duration_us),
        metadata:
            r#"{"intent":{"operation_type":"read","reason":"look for duplicates"},"tool_variant":"call_tool_read"}"#
                .to_owned(),
        args: Some(payload(r#"{"query":"is:open label:bug","limit":10}"#)),
    }
}

fn payload(text: &str) -> Payload {
    Payload::of(mask(text, &[]), text.len())
}
