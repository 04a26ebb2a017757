//! Measures listing approvals with few or many pending, and a call with an idempotency key.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark reports, or stops"
)]

mod common;
#[path = "../tests/common/postgres.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod postgres;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{BEGIN_MS, ledger};
use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, Digest, RiskLevel, ToolName, Variant};
use mcpproxy_store::{
    ApprovalFilter, Kind, Ledger, Location, NewApproval, NewClaim, NewRecord, Outcome, Status, Step, Store, WaitFor,
};
use postgres::{Cluster, Fsync};

// The allocator of `mcpproxy`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [u64; 3] = [100, 1_000, 10_000];
const AGENTS: u64 = 500;
const LIMIT: usize = 50;
const RUNS: usize = 31;
const PARALLEL: u64 = 64;
const CALLS: u64 = 5_000;
/// Maximum time to read all pending approvals of the largest size, page by page.
const ALL_MAX: Duration = Duration::from_millis(100);
/// Maximum cost of a page, relative to the cost with few pending approvals.
const RATIO_MAX: f64 = 2.0;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a folder on a disk");
    let cluster = Cluster::start(Fsync::On);
    let places = [
        ("SQLite", Location::Sqlite(folder.path().join("mcpproxy.db"))),
        ("PostgreSQL", Location::Postgres(cluster.new_database(""))),
    ];
    let mut is_well = true;
    for (name, location) in places {
        is_well &= runtime.block_on(grow(name, &location));
        runtime.block_on(calls(name, &location));
    }
    assert!(is_well, "it costs too much to look at many approvals");
}

async fn grow(name: &str, location: &Location) -> bool {
    let store = Store::open(location).await.expect("a store");
    let ledger = ledger(&store).await;
    let mut asked = 0;
    let mut first: Option<Vec<(&str, Duration)>> = None;
    let mut is_well = true;
    for size in SIZES {
        ask(&ledger, asked..size).await;
        asked = size;
        println!("\n{name}, {size} pending");
        let times = measure(&store, size).await;
        let smallest = first.get_or_insert_with(|| times.clone());
        for ((what, time), (_, in_small)) in times.iter().zip(smallest.iter()) {
            let ratio = time.as_secs_f64() / in_small.as_secs_f64();
            println!("  {what:<44} {:>9.0} µs {ratio:>8.2} ×", time.as_secs_f64() * 1e6);
            is_well &= ratio <= RATIO_MAX || !what.starts_with("one ");
            is_well &= *time <= ALL_MAX;
        }
    }
    ledger.finish().await.expect("everything is written");
    store.close().await;
    is_well
}

async fn ask(ledger: &Ledger, numbers: std::ops::Range<u64>) {
    let mut asking = tokio::task::JoinSet::new();
    for n in numbers {
        let ledger = ledger.clone();
        asking.spawn(async move {
            let steps = vec![Step::RequestApproval(Box::new(question(n)))];
            ledger
                .append_if(record(n, Kind::Approval, Status::Success), steps)
                .await
                .expect("written")
                .written()
                .expect("asked");
        });
        if asking.len() as u64 >= PARALLEL {
            asking.join_next().await.expect("a task").expect("it ended well");
        }
    }
    while let Some(asked) = asking.join_next().await {
        asked.expect("it ended well");
    }
}

async fn measure(store: &Store, size: u64) -> Vec<(&'static str, Duration)> {
    let pending = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
    let agent = ApprovalFilter { agent: Some("agent3".into()), ..pending.clone() };
    let tool = ApprovalFilter { tool: Some("mail:send7".into()), ..ApprovalFilter::default() };
    let middle = id(size / 2).to_string();
    let one = async |filter: &ApprovalFilter, before: Option<&str>, limit: usize| {
        fastest(async || drop(store.list_approvals(filter, before, limit).await.expect("a page"))).await
    };
    let binding = question(size / 2).binding;
    let last = id(size - 1);
    vec![
        ("one page of 50, pending", one(&pending, None, LIMIT).await),
        ("one page of 50, pending, from the middle", one(&pending, Some(&middle), LIMIT).await),
        ("one page of an agent, pending", one(&agent, None, 1).await),
        ("one page of a tool, in any state", one(&tool, None, 1).await),
        ("one by its id", fastest(async || drop(store.find_approval(&last).await.expect("found"))).await),
        ("one by its binding", fastest(async || drop(store.find_open_approval(&binding, BEGIN_MS).await)).await),
        ("one look whether anything is new", fastest(async || drop(store.approvals_version().await)).await),
        ("all that are pending, page by page", all(store, &pending, size).await),
        ("how many are pending", fastest(async || drop(store.count_pending().await)).await),
        ("those that are overdue, none", fastest(async || drop(store.overdue_approvals(BEGIN_MS, 100).await)).await),
    ]
}

async fn all(store: &Store, filter: &ApprovalFilter, size: u64) -> Duration {
    fastest(async || {
        let (mut count, mut before) = (0, None::<String>);
        loop {
            let page = store.list_approvals(filter, before.as_deref(), 500).await.expect("a page");
            count += page.approvals.len() as u64;
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(count, size);
    })
    .await
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

/// Measures calls that wait for the disk before they are sent, with and without an idempotency key.
async fn calls(name: &str, location: &Location) {
    let store = Store::open(location).await.expect("a store");
    let ledger = ledger(&store).await;
    for (what, has_key) in
        [("without a key", false), ("with a key", true), ("without a key", false), ("with a key", true)]
    {
        let begin = Instant::now();
        let tasks: Vec<_> = (0..PARALLEL).map(|task| tokio::spawn(make_calls(ledger.clone(), task, has_key))).collect();
        for task in tasks {
            task.await.expect("it ended well");
        }
        let rate = CALLS as f64 / begin.elapsed().as_secs_f64();
        println!("{name}: {rate:.0} calls a second {what}, {PARALLEL} in parallel");
        store.remove_expired(BEGIN_MS + 2).await.expect("forgotten");
    }
    ledger.finish().await.expect("everything is written");
    store.close().await;
}

async fn make_calls(ledger: Ledger, task: u64, has_key: bool) {
    for n in (task..CALLS).step_by(usize::try_from(PARALLEL).expect("a number")) {
        let record = record(n, Kind::Call, Status::Started);
        let end = Outcome::bare(Status::Success);
        if has_key {
            let (agent, tool, key) = ("local".to_owned(), "mail:send".to_owned(), format!("key:{n}"));
            let claim = NewClaim {
                agent: agent.clone(),
                tool: tool.clone(),
                key: key.clone(),
                args_digest: Digest::of(b"arguments"),
                now_ms: BEGIN_MS,
                expires_ms: BEGIN_MS + 1,
            };
            let open = ledger
                .open_if(record, vec![Step::Claim(Box::new(claim))])
                .await
                .expect("written")
                .written()
                .expect("won");
            let finish =
                Step::FinishClaim { agent, tool, key, answer: "{\"content\":[]}".to_owned(), expires_ms: None };
            ledger.close_with(open, end, WaitFor::Queue, vec![finish]).await.expect("written");
        } else {
            let open = ledger.open(record, WaitFor::Disk).await.expect("written");
            ledger.close(open, end, WaitFor::Queue).await.expect("written");
        }
    }
}

fn id(n: u64) -> ApprovalId {
    ApprovalId::parse(&format!("01HF{n:022}")).expect("an id")
}

fn question(n: u64) -> NewApproval {
    // Typical lengths of arguments and of the details that pages show.
    let args = format!(r#"{{"to":"somebody{n}@example.com","subject":"news","body":"{}"}}"#, "word ".repeat(80));
    NewApproval {
        id: id(n),
        binding: Digest::of(&n.to_be_bytes()),
        agent: format!("agent{}", n % AGENTS),
        client: Some("cursor 1.2".into()),
        tool: ToolName::parse(&format!("mail:send{}", n % 20)).expect("a name"),
        pin: Digest::of(b"pin"),
        contract: Digest::of(b"contract"),
        variant: Variant::Write,
        risk: Some(RiskLevel::High),
        least: Assurance::Session,
        args_digest: Digest::of(args.as_bytes()),
        shown_args: args.clone(),
        args,
        attached: None,
        attached_digest: Digest::of(b""),
        shown_attached: None,
        about:
            r#"{"reason":"send the news","side_effects":["external_email"],"asked_by":["contract risk level high"]}"#
                .into(),
        created_ms: BEGIN_MS,
        expires_ms: BEGIN_MS + 600_000,
        most: 20,
    }
}

fn record(n: u64, kind: Kind, status: Status) -> NewRecord {
    NewRecord {
        time_ms: BEGIN_MS,
        random: n,
        kind,
        status,
        agent: Some("local".into()),
        client: Some("cursor 1.2".into()),
        server: Some("mail".into()),
        tool: Some("send".into()),
        is_known_tool: true,
        intent_type: Some(Variant::Write),
        risk: Some(RiskLevel::High),
        code: None,
        message: None,
        duration_us: None,
        metadata: "{}".into(),
        args: None,
    }
}
