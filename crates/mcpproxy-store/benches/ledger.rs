//! Measures writing a record: for a read, which waits for the queue, and for a write, which waits for the disk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark that cannot go on should stop")]

#[path = "../tests/common/postgres.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod postgres;

use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use mcpproxy_core::settings::Retention;
use mcpproxy_core::{RiskLevel, Variant, mask};
use mcpproxy_store::{
    Kind, Ledger, LedgerOptions, Location, NewRecord, Outcome, Payload, SearchIndexer, SigningKey, Status, Store,
    WaitFor,
};
use postgres::{Cluster, Fsync};
use tokio::runtime::Runtime;

// The allocator of `mcpproxy`. With the system allocator, lock contention between threads would dominate the result.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PARALLEL: u64 = 64;
const PACED_SECONDS: u64 = 4;
const CPU_CALLS: u64 = 200_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    let mut criterion =
        Criterion::default().measurement_time(Duration::from_secs(3)).sample_size(10).configure_from_args();
    batched(&mut criterion, &runtime);
    durable(&mut criterion, &runtime);
    criterion.final_summary();
    report_cpu(&runtime);
    report_rates(&runtime, "SQLite", [2_000, 100_000], &sqlite);
    let cluster = Cluster::start(Fsync::On);
    report_rates(&runtime, "PostgreSQL", [1_000, 50_000], &|_| Location::Postgres(cluster.new_database("")));
}

fn sqlite(folder: &Path) -> Location {
    Location::Sqlite(folder.join("mcpproxy.db"))
}

/// Measures throughput when nothing but the log is busy. The time includes the last commit.
fn batched(criterion: &mut Criterion, runtime: &Runtime) {
    let mut group = criterion.benchmark_group("batched");
    group.throughput(Throughput::Elements(1));
    for (name, in_flight) in [("open+close at once", 1), ("open, 512 others, close", 512)] {
        group.bench_function(name, |bench| {
            let work = |calls| runtime.block_on(timed(&sqlite, |ledger| read_calls(ledger, 0..calls, in_flight)));
            bench.iter_custom(work);
        });
    }
    group.finish();
}

fn durable(criterion: &mut Criterion, runtime: &Runtime) {
    let mut group = criterion.benchmark_group("durable");
    group.throughput(Throughput::Elements(1));
    for parallel in [1, PARALLEL] {
        group.bench_function(format!("record, {parallel} in parallel"), |bench| {
            let work = |records| runtime.block_on(timed(&sqlite, |ledger| durable_records(ledger, records, parallel)));
            bench.iter_custom(work);
        });
    }
    group.finish();
}

/// Measures a whole log at a time, because the first batches are slower on PostgreSQL.
#[expect(clippy::print_stderr, reason = "a benchmark reports to whoever runs it")]
fn report_rates(runtime: &Runtime, name: &str, records: [u64; 2], place: &dyn Fn(&Path) -> Location) {
    for index in [Index::Off, Index::On] {
        for (parallel, records) in [1, PARALLEL].into_iter().zip(records) {
            let work = |ledger| durable_records(ledger, records, parallel);
            let time = runtime.block_on(timed_beside(index, place, work));
            let rate = records as f64 / time.as_secs_f64();
            eprintln!("durable records, {name}, {parallel} in parallel, search index {index:?}: {rate:.0} a second");
        }
    }
}

/// The search index beside the log. With SQLite, both want the same write lock.
#[derive(Clone, Copy, Debug)]
enum Index {
    Off,
    On,
}

async fn timed<F: Future<Output = ()>>(place: &dyn Fn(&Path) -> Location, work: impl FnOnce(Ledger) -> F) -> Duration {
    timed_beside(Index::Off, place, work).await
}

async fn timed_beside<F: Future<Output = ()>>(
    index: Index,
    place: &dyn Fn(&Path) -> Location,
    work: impl FnOnce(Ledger) -> F,
) -> Duration {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a folder on a disk");
    let store = Store::open(&place(folder.path())).await.expect("a store");
    let options = LedgerOptions {
        key: SigningKey::from_seed(&[1; 32]).expect("a key"),
        newest_checkpoint: Some(folder.path().join("checkpoint.txt")),
        checkpoints_to: None,
        retention: Retention::default(),
        patience: std::time::Duration::from_secs(20),
        now_ms: || 1_700_000_000_000,
    };
    let ledger = Ledger::start(&store, options).await.expect("a ledger");
    let indexer = match index {
        Index::Off => None,
        Index::On => Some(SearchIndexer::start(&store, &ledger, || 1_700_000_000_000)),
    };
    let begin = Instant::now();
    work(ledger.clone()).await;
    ledger.finish().await.expect("everything is written");
    let elapsed = begin.elapsed();
    drop(indexer);
    store.close().await;
    elapsed
}

async fn read_calls(ledger: Ledger, calls: std::ops::Range<u64>, in_flight: u64) {
    let mut open = Vec::new();
    let last = calls.end - 1;
    for n in calls {
        open.push(ledger.open(call(n, Variant::Read), WaitFor::Queue).await.expect("open"));
        if open.len() as u64 == in_flight || n == last {
            for record in open.drain(..) {
                ledger.close(record, success(n), WaitFor::Queue).await.expect("close");
            }
        }
    }
}

async fn durable_records(ledger: Ledger, records: u64, parallel: u64) {
    let tasks: Vec<_> = (0..parallel)
        .map(|task| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                for n in (task..records).step_by(parallel as usize) {
                    ledger.append(call(n, Variant::Write), WaitFor::Disk).await.expect("note");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("task");
    }
}

/// Writes small batches, as a gateway under light load does.
async fn paced_calls(ledger: Ledger, per_second: u64) {
    let mut clock = tokio::time::interval(Duration::from_millis(10));
    let calls = per_second / 100;
    for tick in 0..PACED_SECONDS * 100 {
        clock.tick().await;
        read_calls(ledger.clone(), tick * calls..(tick + 1) * calls, 1).await;
    }
}

/// Reports CPU time per call, because the wall clock hides work on other threads.
#[expect(clippy::print_stderr, reason = "a benchmark reports to whoever runs it")]
fn report_cpu(runtime: &Runtime) {
    let report = |name: &str, calls: u64, run: &dyn Fn()| {
        let before = cpu();
        run();
        let (Some(before), Some(after)) = (before, cpu()) else { return };
        let us = (after - before).as_secs_f64() * 1e6 / calls as f64;
        eprintln!("batched open+close, {name}: {us:.1} µs of CPU per call");
    };
    for (name, in_flight) in [("as fast as it goes", 1), ("512 at a time", 512)] {
        let work = || runtime.block_on(timed(&sqlite, |ledger| read_calls(ledger, 0..CPU_CALLS, in_flight)));
        report(name, CPU_CALLS, &|| {
            let _wall = work();
        });
    }
    for per_second in [500, 5_000] {
        let work = || runtime.block_on(timed(&sqlite, |ledger| paced_calls(ledger, per_second)));
        report(&format!("{per_second} a second"), per_second * PACED_SECONDS, &|| {
            let _wall = work();
        });
    }
}

/// Returns user and system time of this process in ticks of 10 ms, if the kernel has `/proc`.
fn cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
}

fn call(n: u64, variant: Variant) -> NewRecord {
    NewRecord {
        time_ms: 1_700_000_000_000 + n as i64 / 10,
        random: n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        kind: Kind::Call,
        status: Status::Started,
        agent: Some("local".into()),
        client: Some("cursor 1.2".into()),
        server: Some("github".into()),
        tool: Some("search_issues".into()),
        is_known_tool: true,
        intent_type: Some(variant),
        risk: Some(RiskLevel::Low),
        code: None,
        message: None,
        duration_us: None,
        metadata: r#"{"intent":{"operation_type":"read","reason":"look for duplicates"},"tool_variant":"call_tool_read","intent_verified":true,"warnings":[]}"#.into(),
        args: Some(payload(r#"{"query":"is:open label:bug","limit":10}"#)),
    }
}

fn success(n: u64) -> Outcome {
    let result = payload(r#"{"content":[{"type":"text","text":"3 issues: #12, #15, #18"}]}"#);
    Outcome { duration_us: Some(300 + n % 100), result: Some(result), ..Outcome::bare(Status::Success) }
}

fn payload(text: &str) -> Payload {
    Payload::of(mask(text, &[]), text.len())
}
