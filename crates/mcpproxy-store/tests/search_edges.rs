//! Tests for the edges of the search index: gaps, long texts, late ends, and searches while it is written.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::filled::{fill, text};
use common::{Place, call, refusal, success};
use mcpproxy_store::{Ledger, NewRecord, Outcome, SCAN_MAX, Store, WaitFor};

on_both!(
    a_gap_in_the_index_is_noticed,
    an_export_does_not_rely_on_the_index,
    an_index_with_a_gap_is_built_again,
    long_beginnings_make_short_blocks,
    long_ends_make_short_blocks,
    a_search_finds_ends_while_the_index_is_written,
);

/// A time before all records, so that no chain counts as idle.
const EARLY_MS: i64 = 1_700_000_000_000;

/// Appends one line for each number.
async fn append(ledger: &Ledger, numbers: Range<u32>) {
    let last = numbers.end - 1;
    for n in numbers {
        ledger.append(refusal(n), if n == last { WaitFor::Disk } else { WaitFor::Queue }).await.unwrap();
    }
}

/// Counts the matches on all pages. Each page scans few records, so that the index has to find the rest.
async fn matches(store: &Store, part: &str) -> usize {
    let (mut found, mut before) = (0, None);
    loop {
        let page = store.list_scanning(&text(part), before, 5, 50).await.unwrap();
        found += page.records.len();
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}

/// A message of 3,000 bytes that names its number.
fn long(n: u32) -> String {
    format!("word{n:05} ").repeat(300)
}

async fn block_ends(place: &Place) -> Vec<i64> {
    place.sql("SELECT last_seq FROM search_blocks ORDER BY first_seq").await
}

async fn a_gap_in_the_index_is_noticed(place: &Place) {
    let (store, last_ms) = fill(place, 2 * SCAN_MAX).await;
    store.update_search_index(last_ms).await.unwrap();
    assert_eq!(matches(&store, "rare one").await, 1);
    place.sql("DELETE FROM search_blocks WHERE first_seq = 5121").await;
    let page = store.list(&text("rare one"), None, 5).await.unwrap();
    assert!(page.records.is_empty() && page.next.is_some(), "a block is missing, so the page reads records");
    // Without the newest blocks, there are more lines to read than a search reads.
    place.sql("DELETE FROM search_blocks WHERE first_seq > 5121").await;
    assert!(store.list(&text("rare one"), None, 5).await.unwrap().next.is_some());
}

/// Nobody can notice postings that are gone, so an export does not read them.
async fn an_export_does_not_rely_on_the_index(place: &Place) {
    let (store, last_ms) = fill(place, 2 * SCAN_MAX).await;
    store.update_search_index(last_ms).await.unwrap();
    place.sql("DELETE FROM search_postings").await;
    let (mut found, mut before) = (0, None);
    loop {
        let page = store.list_without_index(&text("rare one"), before, 5).await.unwrap();
        found += page.records.len();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(found, 1);
}

async fn an_index_with_a_gap_is_built_again(place: &Place) {
    let (store, ledger) = place.open().await;
    let open = ledger.open(call(0), WaitFor::Disk).await.unwrap();
    append(&ledger, 1..2_048).await;
    assert_eq!(store.update_search_index(EARLY_MS).await.unwrap(), 2);
    place.sql("DELETE FROM search_blocks WHERE first_seq = 1").await;
    // The call began in the block that is gone.
    let outcome = Outcome { message: Some("a late end".into()), ..success() };
    ledger.close(open, outcome, WaitFor::Disk).await.unwrap();
    append(&ledger, 2_048..3_148).await;
    assert_eq!(store.update_search_index(EARLY_MS).await.unwrap(), 3);
    assert_eq!(block_ends(place).await, [1_024, 2_048, 3_072]);
    assert_eq!(matches(&store, "a late end").await, 1);
    ledger.finish().await.unwrap();
}

async fn long_beginnings_make_short_blocks(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..1_100 {
        let record = NewRecord { message: Some(long(n)), ..refusal(n) };
        ledger.append(record, if n == 1_099 { WaitFor::Disk } else { WaitFor::Queue }).await.unwrap();
    }
    // Records are read in slices of 128. The second one reaches 512 KiB.
    assert_eq!(store.update_search_index(EARLY_MS).await.unwrap(), 1);
    assert_eq!(block_ends(place).await, [256]);
    for part in ["word00007 word00007", "word00255", "word00256", "word01099"] {
        assert_eq!(matches(&store, part).await, 1, "{part}");
    }
    ledger.finish().await.unwrap();
}

async fn long_ends_make_short_blocks(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut calls = Vec::new();
    for n in 0..300 {
        calls.push(ledger.open(call(n), WaitFor::Queue).await.unwrap());
    }
    append(&ledger, 300..1_024).await;
    assert_eq!(store.update_search_index(EARLY_MS).await.unwrap(), 1);
    for (n, call) in (0..).zip(calls) {
        let outcome = Outcome { message: Some(long(n)), ..success() };
        ledger.close(call, outcome, WaitFor::Queue).await.unwrap();
    }
    append(&ledger, 1_024..1_824).await;
    assert_eq!(store.update_search_index(EARLY_MS).await.unwrap(), 1);
    assert_eq!(block_ends(place).await, [1_024, 1_280]);
    for part in ["word00010 word00010", "word00255", "word00256", "word00299"] {
        assert_eq!(matches(&store, part).await, 1, "{part}");
    }
    ledger.finish().await.unwrap();
}

/// An end is found from the moment of its commit, in a line that is not indexed or in a block.
async fn a_search_finds_ends_while_the_index_is_written(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut calls = Vec::new();
    for n in 0..15 {
        calls.push(ledger.open(call(n), WaitFor::Disk).await.unwrap());
    }
    append(&ledger, 15..2_300).await;
    assert_eq!(store.update_search_index(EARLY_MS).await.unwrap(), 2);
    let is_over = Arc::new(AtomicBool::new(false));
    let updating = tokio::spawn({
        let (store, is_over) = (store.clone(), Arc::clone(&is_over));
        async move {
            let mut added = 0;
            while !is_over.load(Ordering::Relaxed) {
                added += store.update_search_index(EARLY_MS).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            added
        }
    });
    for (n, call) in (0..).zip(calls) {
        let outcome = Outcome { message: Some(format!("needle {n} end")), ..success() };
        ledger.close(call, outcome, WaitFor::Disk).await.unwrap();
        for earlier in 0..=n {
            assert_eq!(matches(&store, &format!("needle {earlier} end")).await, 1, "{earlier} of {n}");
        }
        append(&ledger, 2_300 + n * 150..2_450 + n * 150).await;
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(updating.await.unwrap() >= 1, "blocks were added meanwhile");
    ledger.finish().await.unwrap();
}
