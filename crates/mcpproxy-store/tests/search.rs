//! Tests for the search index: it never changes what is found, and it is built, built again and removed as it should be.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on should stop"
)]

mod common;

use std::time::Duration;

use common::filled::{fill, text};
use common::{NO_RETENTION, Place, all, call, now_ms, refusal, success, until};
use mcpproxy_core::Untrusted;
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{
    Filter, Ledger, LedgerOptions, Location, NewRecord, OpenRecord, Outcome, Record, SCAN_MAX, SearchIndexer, Status,
    Store, WaitFor,
};
use sqlx::{Connection as _, PgConnection};

on_both!(
    the_index_never_changes_what_is_found,
    an_index_leads_to_a_rare_record_at_once,
    a_search_works_without_the_index,
    an_index_of_another_log_is_built_again,
    blocks_of_removed_records_go,
    one_gateway_at_a_time_writes_the_index,
    the_task_indexes_what_is_written,
);

const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR_MS: i64 = 3_600_000;
const WORDS: [&str; 12] =
    ["nightly", "Backup", "100%", "a_b", "Ä", "ärger", "\u{202e}txt", "it's", "\"so\"", "日本語", "back\\slash", "x"];

/// Numbers that look random, from a seed.
struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap() % end
    }

    fn is_one_of(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A few words and a number, in one text.
    fn text(&mut self) -> String {
        let words: Vec<&str> = (0..=self.below(3)).map(|_| WORDS[self.below(WORDS.len())]).collect();
        format!("{} {}", words.join(" "), self.below(400))
    }

    fn record(&mut self, time_ms: i64) -> NewRecord {
        let metadata = serde_json::json!({ "reason": self.text(), "n": self.below(1_000) });
        NewRecord {
            time_ms,
            random: u64::try_from(self.below(1 << 30)).unwrap(),
            status: Status::Success,
            agent: (!self.is_one_of(5)).then(|| format!("agent{}", self.below(4))),
            server: (!self.is_one_of(7)).then(|| format!("server{}", self.below(5))),
            tool: (!self.is_one_of(7)).then(|| format!("Tool_{}", self.below(20))),
            message: self.is_one_of(3).then(|| self.text()),
            code: self.is_one_of(4).then(|| format!("code_{}", self.below(6))),
            metadata: metadata.to_string(),
            args: None,
            ..call(0)
        }
    }

    fn outcome(&mut self) -> Outcome {
        let message = self.is_one_of(2).then(|| format!("late {}", self.text()));
        let metadata = self.is_one_of(2).then(|| serde_json::json!({ "end": self.text() }).to_string());
        Outcome { message, metadata, ..success() }
    }
}

/// Writes lines of several chains whose times overlap. Some calls stay open until a later run.
async fn write(
    random: &mut Random,
    ledgers: &[Ledger],
    open: &mut Vec<(usize, OpenRecord)>,
    lines: usize,
    begin_ms: i64,
) {
    for n in 0..lines {
        let chain = random.below(ledgers.len());
        let ledger = &ledgers[chain];
        let time_ms = begin_ms + i64::try_from(n).unwrap() * 5;
        let wait_for = if n % 20 == 0 { WaitFor::Disk } else { WaitFor::Queue };
        match random.below(4) {
            0 | 1 => drop(ledger.append(random.record(time_ms), wait_for).await.unwrap()),
            2 => {
                let begun = NewRecord { status: Status::Started, message: None, code: None, ..random.record(time_ms) };
                open.push((chain, ledger.open(begun, wait_for).await.unwrap()));
            }
            _ if open.len() > 40 => {
                let (chain, call) = open.swap_remove(random.below(open.len()));
                ledgers[chain].close(call, random.outcome(), wait_for).await.unwrap();
            }
            _ => {}
        }
    }
    for ledger in ledgers {
        ledger.append(random.record(begin_ms + i64::try_from(lines).unwrap() * 5), WaitFor::Disk).await.unwrap();
    }
}

/// Compares a record with a filter, written apart from the code under test.
fn fits(filter: &Filter, record: &Record) -> bool {
    let shown = |text: &Option<Untrusted>| text.as_ref().map(|text| text.for_json().to_owned());
    let (server, tool) = (shown(&record.server), shown(&record.tool));
    let both = server.iter().zip(&tool).map(|(server, tool)| format!("{server}:{tool}")).next();
    let texts = [
        server,
        tool.clone(),
        both,
        record.agent.clone(),
        shown(&record.client),
        shown(&record.code),
        shown(&record.message),
        Some(record.metadata.for_json().to_owned()),
        shown(&record.end_metadata),
    ];
    let part = filter.text.as_ref().unwrap().to_ascii_lowercase();
    let is_id = record.id.to_string().to_ascii_lowercase() == part;
    (is_id || texts.iter().flatten().any(|text| text.to_ascii_lowercase().contains(&part)))
        && filter.tool.as_ref().is_none_or(|wanted| Some(wanted) == tool.as_ref())
        && filter.status.is_none_or(|status| status == record.status)
        && filter.since_ms.is_none_or(|since| record.time_ms() >= since)
        && filter.until_ms.is_none_or(|until| record.time_ms() <= until)
}

/// Reads all pages, and checks each of them.
async fn read_through(store: &Store, filter: &Filter, limit: usize, scan: usize) -> Vec<Record> {
    let (mut records, mut before): (Vec<Record>, _) = (Vec::new(), None);
    for _ in 0..20_000 {
        let page = store.list_scanning(filter, before, limit, scan).await.unwrap();
        assert!(page.records.len() <= limit);
        assert!(page.next.is_none() || page.records.len() == limit || page.searched_to_ms.is_some());
        assert!(page.next.is_some() || page.searched_to_ms.is_none());
        if let (Some(to_ms), Some(last)) = (page.searched_to_ms, page.records.last()) {
            assert!(to_ms <= last.time_ms());
        }
        records.extend(page.records);
        assert!(page.next.is_none() || page.next != before, "every page makes progress");
        before = page.next;
        if before.is_none() {
            return records;
        }
    }
    panic!("the pages do not end");
}

/// Compares many searches with a look at all records. Returns the number of matches, so that a test can tell that it
/// tested something.
async fn compare(store: &Store, random: &mut Random, searches: usize) -> usize {
    let mut everything = all(store).await;
    everything.reverse();
    let mut count = 0;
    for n in 0..searches {
        let some = &everything[random.below(everything.len())];
        let texts = [some.metadata.for_json(), some.message.as_ref().map_or("late", |text| text.for_json())];
        let text: Vec<char> = texts[random.below(2)].chars().collect();
        let begin = random.below(text.len());
        let part: String = text[begin..].iter().take(1 + random.below(14)).collect();
        let fixed =
            ["nowhere at all", "SERVER1:tool_1", "%", "100% ", "late ", "日本語", "Ärger", "abc\0", "agent3", ""];
        let text = match n {
            0..10 => fixed[n].to_owned(),
            10 => some.id.to_string(),
            _ => part,
        };
        let filter = Filter {
            text: Some(text).filter(|text| !text.is_empty()).or(Some("x".to_owned())),
            tool: some.tool.as_ref().filter(|_| n % 5 == 4).map(|tool| tool.for_json().to_owned()),
            status: Some(Status::Success).filter(|_| n % 7 == 6),
            since_ms: Some(some.time_ms() - 3_000).filter(|_| n % 6 == 5),
            until_ms: Some(some.time_ms() + 3_000).filter(|_| n % 8 == 7),
            ..Filter::default()
        };
        let expected: Vec<_> = everything.iter().filter(|record| fits(&filter, record)).map(|r| r.id).collect();
        let limit = [1, 7, 50, 500][random.below(4)];
        // A short scan makes many pages, also with the index.
        let scan = [SCAN_MAX, 700, 90][random.below(3)];
        let limit = if expected.len() > 300 { limit.max(50) } else { limit };
        let found: Vec<_> = read_through(store, &filter, limit, scan).await.iter().map(|record| record.id).collect();
        assert_eq!(found, expected, "{filter:?}, {limit} a page, {scan} scanned, seed {}", random.seed);
        count += found.len();
    }
    count
}

async fn blocks(place: &Place) -> i64 {
    place.sql("SELECT count(*) FROM search_blocks").await[0]
}

async fn the_index_never_changes_what_is_found(place: &Place) {
    let store = place.store().await;
    let seed = 20_261;
    let mut random = Random { seed, state: seed };
    let mut ledgers = Vec::new();
    for seed in 1..=3 {
        let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(seed) };
        ledgers.push(Ledger::start(&store, options).await.unwrap());
    }
    // The first third is two days old. Some of its calls end in the others.
    let old_ms = now_ms() - i64::try_from(DAY.as_millis()).unwrap() * 2;
    let (mut open, recent_ms) = (Vec::new(), now_ms() - 600_000);
    write(&mut random, &ledgers, &mut open, 5_000, old_ms).await;
    store.update_search_index(old_ms).await.unwrap();
    let first = blocks(place).await;
    assert!(first >= 3, "{first} blocks");
    compare(&store, &mut random, 8).await;
    write(&mut random, &ledgers, &mut open, 4_500, recent_ms).await;
    store.update_search_index(now_ms()).await.unwrap();
    assert!(blocks(place).await > first);
    let late = "SELECT count(*) FROM search_postings WHERE part <> first_seq";
    assert!(place.sql(late).await[0] > 0, "calls ended in later blocks");
    // What comes now is not indexed.
    write(&mut random, &ledgers, &mut open, 1_500, recent_ms + 60_000).await;
    for (chain, call) in open.drain(..) {
        ledgers[chain].close(call, random.outcome(), WaitFor::Disk).await.unwrap();
    }
    assert!(compare(&store, &mut random, 20).await > 100);
    // Retention removes the old records of one chain.
    for ledger in ledgers {
        ledger.finish().await.unwrap();
    }
    let retention = Retention { records: Some(DAY), ..NO_RETENTION };
    let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, retention, ..place.options(1) };
    let ledger = Ledger::start(&store, options).await.unwrap();
    ledger.append(random.record(now_ms()), WaitFor::Disk).await.unwrap();
    let left = format!("SELECT count(*) FROM records WHERE chain = 0 AND key < {}", (recent_ms - 60_000) << 21);
    until("old records are gone", async || place.sql(&left).await == [0]).await;
    compare(&store, &mut random, 8).await;
    store.update_search_index(now_ms()).await.unwrap();
    assert!(compare(&store, &mut random, 15).await > 10);
    // All chains to their ends.
    store.update_search_index(now_ms() + 2 * HOUR_MS).await.unwrap();
    compare(&store, &mut random, 8).await;
    ledger.finish().await.unwrap();
}

async fn an_index_leads_to_a_rare_record_at_once(place: &Place) {
    let (store, last_ms) = fill(place, 2 * SCAN_MAX).await;
    let scanned = store.list(&text("rare one"), None, 5).await.unwrap();
    assert!(scanned.records.is_empty() && scanned.next.is_some(), "a scan does not come that far");
    let expected = i64::try_from(2 * SCAN_MAX).unwrap() / 1024;
    assert_eq!(store.update_search_index(last_ms).await.unwrap(), expected.unsigned_abs());
    assert_eq!(store.update_search_index(last_ms).await.unwrap(), 0, "there is nothing left to do");
    for (filter, positions) in [
        (text("rare one"), &[1][..]),
        (Filter { tool: Some("send".into()), ..text("RARE") }, &[1]),
        (Filter { status: Some(Status::Success), ..text("rare one") }, &[]),
        (text("nowhere at all"), &[]),
        (text("look for item 7919\""), &[2]),
    ] {
        let page = store.list(&filter, None, 5).await.unwrap();
        assert_eq!(page.records.iter().map(|record| record.seq).collect::<Vec<_>>(), positions, "{filter:?}");
        assert_eq!((page.next, page.searched_to_ms), (None, None), "{filter:?}");
    }
    // A smaller scan reads fewer blocks, and the next pages read the others.
    let quick = store.list_scanning(&text("rare one"), None, 5, 10).await.unwrap();
    assert!(quick.records.is_empty() && quick.next.is_some() && quick.searched_to_ms.is_some());
    // The rest, once nothing was written for an hour.
    assert_eq!(store.update_search_index(last_ms + HOUR_MS).await.unwrap(), 1);
    let ends = place.sql("SELECT max(last_seq) FROM search_blocks").await;
    assert_eq!(ends, [i64::try_from(2 * SCAN_MAX).unwrap() + 1]);
}

async fn a_search_works_without_the_index(place: &Place) {
    let (store, last_ms) = fill(place, 2 * SCAN_MAX).await;
    let scanned = store.list(&text("rare one"), None, 5).await.unwrap();
    store.update_search_index(last_ms).await.unwrap();
    let same = async |why: &str| {
        let page = store.list(&text("rare one"), None, 5).await.unwrap();
        assert!(page.records.is_empty() && page.next == scanned.next, "{why}");
        assert_eq!(read_through(&store, &text("rare one"), 5, SCAN_MAX).await.len(), 1, "{why}");
    };
    // Bytes of a hash are no postings.
    place.sql("UPDATE search_postings SET postings = (SELECT hash FROM records WHERE seq = 1)").await;
    same("malformed postings").await;
    place.sql("DROP TABLE search_postings").await;
    same("no postings").await;
    assert!(store.update_search_index(last_ms + HOUR_MS).await.is_err());
    place.sql("DROP TABLE search_blocks").await;
    same("no blocks").await;
}

async fn an_index_of_another_log_is_built_again(place: &Place) {
    let (store, last_ms) = fill(place, 3_000).await;
    assert_eq!(store.update_search_index(last_ms).await.unwrap(), 2);
    let builds = place.sql("SELECT DISTINCT build FROM search_blocks").await;
    // The log was set back, and other records were written since.
    place.sql("UPDATE search_blocks SET hash = (SELECT args_digest FROM records WHERE seq = 1)").await;
    place.sql("DELETE FROM search_postings WHERE bucket >= 0").await;
    assert_eq!(store.update_search_index(last_ms + 1).await.unwrap(), 2);
    assert_ne!(place.sql("SELECT DISTINCT build FROM search_blocks").await, builds);
    let page = store.list(&text("rare one"), None, 5).await.unwrap();
    assert_eq!((page.records.len(), page.next), (1, None));
    // The log is shorter than the index.
    place.sql("DELETE FROM records WHERE seq > 1500").await;
    assert_eq!(store.update_search_index(last_ms + 2).await.unwrap(), 1);
    assert_eq!(place.sql("SELECT last_seq FROM search_blocks").await, [1024]);
}

async fn blocks_of_removed_records_go(place: &Place) {
    let (store, last_ms) = fill(place, 12_000).await;
    assert_eq!(store.update_search_index(last_ms).await.unwrap(), 11);
    place.sql("DELETE FROM records WHERE seq <= 11000; UPDATE chains SET removed_seq = 11000").await;
    assert_eq!(store.update_search_index(last_ms).await.unwrap(), 0);
    assert_eq!(place.sql("SELECT first_seq FROM search_blocks").await, [10_241]);
    assert_eq!(place.sql("SELECT DISTINCT first_seq FROM search_postings").await, [10_241]);
    place.sql("DELETE FROM records; UPDATE chains SET removed_seq = 12001").await;
    store.update_search_index(last_ms).await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM search_postings").await, [0]);
    assert_eq!(blocks(place).await, 0);
}

async fn one_gateway_at_a_time_writes_the_index(place: &Place) {
    let (store, last_ms) = fill(place, 3_000).await;
    if let Location::Postgres(url) = &place.location {
        let mut other = PgConnection::connect(url).await.unwrap();
        sqlx::query("SELECT pg_advisory_lock(7163470115)").execute(&mut other).await.unwrap();
        assert_eq!(store.update_search_index(last_ms).await.unwrap(), 0);
        other.close().await.unwrap();
    }
    let (a, b) = tokio::join!(store.update_search_index(last_ms), store.update_search_index(last_ms));
    if place.cluster.is_some() {
        assert_eq!(a.unwrap() + b.unwrap(), 2);
    }
    assert_eq!(blocks(place).await, 2);
}

async fn the_task_indexes_what_is_written(place: &Place) {
    let (store, ledger) = place.open().await;
    ledger.append(NewRecord { message: Some("a rare one".into()), ..refusal(0) }, WaitFor::Queue).await.unwrap();
    for n in 1..1_500 {
        ledger.append(refusal(n), WaitFor::Queue).await.unwrap();
    }
    ledger.append(refusal(1_500), WaitFor::Disk).await.unwrap();
    let indexer = SearchIndexer::start(&store, &ledger, now_ms);
    // The records are of 2023, so the first look indexes all of them.
    let ends = "SELECT count(*) FROM search_blocks WHERE last_seq = 1501";
    until("everything is indexed", async || place.sql(ends).await == [1]).await;
    // Later ones are new, whatever their keys say. They wait until there is a whole block.
    for n in 1_501..3_000 {
        ledger.append(refusal(n), WaitFor::Queue).await.unwrap();
    }
    let ends = "SELECT count(*) FROM search_blocks WHERE last_seq >= 2525";
    until("a block is indexed", async || place.sql(ends).await == [1]).await;
    drop(indexer);
    ledger.finish().await.unwrap();
    assert_eq!(store.list(&text("rare one"), None, 5).await.unwrap().records.len(), 1);
}
