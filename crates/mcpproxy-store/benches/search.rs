//! Measures the search for a text in a million records of SQLite, without the index and with it. With
//! `MCPPROXY_BENCH_RECORDS`, there are more or fewer records.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports, or stops")]

mod common;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{BEGIN_MS, ledger};
use mcpproxy_store::{Filter, Kind, Location, NewRecord, Status, Store, WaitFor};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

const DEFAULT_RECORDS: i64 = 1_000_000;
const PAUSE_MS: i64 = 100;
const LIMIT: usize = 50;
const RUNS: usize = 5;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    let records =
        std::env::var("MCPPROXY_BENCH_RECORDS").ok().map_or(DEFAULT_RECORDS, |n| n.parse().expect("a number"));
    runtime.block_on(compare(records));
}

async fn compare(records: i64) {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a folder on a disk");
    let path = folder.path().join("mcpproxy.db");
    let store = Store::open(&Location::Sqlite(path.clone())).await.expect("a store");
    fill(&store, &path, records).await;
    let size_mb = async || store.size().await.expect("a size").used_bytes.unwrap_or(0) / 1_000_000;
    let before = size_mb().await;
    measure(&store, "scan", 1).await;
    let begin = Instant::now();
    let blocks = store.update_search_index(BEGIN_MS + records * PAUSE_MS).await.expect("an index");
    let (time, after) = (begin.elapsed(), size_mb().await);
    println!("{blocks} blocks built in {time:.1?}; {before} MB before, {after} MB after");
    measure(&store, "index", RUNS).await;
    store.close().await;
}

/// Writes one record, and copies it with other texts. The ledger would take minutes.
async fn fill(store: &Store, path: &PathBuf, records: i64) {
    let ledger = ledger(store).await;
    let rare = NewRecord {
        agent: Some("local".to_owned()),
        client: Some("cursor 1.2".to_owned()),
        server: Some("files".to_owned()),
        message: Some("a rare one".to_owned()),
        ..NewRecord::blank(Kind::Call, Status::Success, BEGIN_MS, 1)
    };
    ledger.append(rare, WaitFor::Disk).await.expect("a record");
    ledger.finish().await.expect("everything is written");
    // `2097152` is the distance of two keys that are a millisecond apart.
    let sql = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {records}) \
         INSERT INTO records (key, tail, chain, seq, hash, kind, status, agent, client, server, tool, metadata) \
         SELECT key + n * {PAUSE_MS} * 2097152, tail, chain, seq + n, hash, kind, status, agent, client, server, \
                'tool' || (n % 200), \
                '{{\"intent\":{{\"operation_type\":\"read\",\"reason\":\"look for item ' || (n * 7919 % 1000003) || \
                '\"}},\"tool_variant\":\"call_tool_read\",\"session\":\"' || hex(n * 2654435761 % 4294967291) || '\"}}' \
         FROM records, numbers WHERE seq = 1"
    );
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.expect("records");
    connection.close().await.expect("closed");
}

async fn measure(store: &Store, with: &str, runs: usize) {
    for what in ["nowhere at all", "rare one", "look for item 7919\"", "tool77"] {
        let mut fastest = Duration::MAX;
        let mut found = (0, 0);
        for _ in 0..runs {
            let begin = Instant::now();
            found = search(store, what).await;
            fastest = fastest.min(begin.elapsed());
        }
        let (records, pages) = found;
        println!("{with:<6} {what:<20} {records:>3} found on {pages:>3} pages {:>9.1} ms", fastest.as_secs_f64() * 1e3);
    }
}

/// Searches until a page of records is full, or the log ends. Returns the number of records and of pages.
async fn search(store: &Store, what: &str) -> (usize, usize) {
    let filter = Filter { text: Some(what.to_owned()), ..Filter::default() };
    let (mut records, mut pages, mut before) = (0, 0, None);
    loop {
        let page = store.list(&filter, before, LIMIT).await.expect("a page");
        (records, pages, before) = (records + page.records.len(), pages + 1, page.next);
        if before.is_none() || records >= LIMIT {
            return (records, pages);
        }
    }
}
