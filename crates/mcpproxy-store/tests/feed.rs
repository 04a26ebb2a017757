//! Tests for the feed: records after a cursor, each once and in order.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::{NO_RETENTION, Place, all, call, now_ms, refusal, success, until};
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{
    Feed, FeedCursor, Filter, Kind, Ledger, LedgerOptions, NewRecord, SCAN_MAX, Status, Store, StoreError, WaitFor,
};

on_both!(
    a_call_appears_when_it_begins_and_when_it_ends,
    a_call_that_is_over_appears_once,
    what_does_not_fit_is_passed_by,
    a_long_way_is_gone_in_steps,
    every_record_has_a_place_to_go_on_from,
    a_look_takes_in_so_much_and_no_more,
    chains_are_watched_together,
    nothing_is_missed_while_calls_come_in,
    an_export_has_every_call_once_when_it_has_ended,
    the_position_of_an_export_is_kept,
    an_export_goes_on_after_a_position_in_every_chain,
    an_export_counts_what_is_gone_and_ends,
    a_position_is_of_one_history,
);

async fn read(store: &Store, cursor: &mut FeedCursor, filter: &Filter, limit: usize) -> Vec<(i64, Status)> {
    let Feed { records, next, .. } = store.feed(cursor, filter, limit).await.unwrap();
    // As a browser sends it back.
    *cursor = FeedCursor::parse(&next.to_string()).unwrap();
    records.iter().map(|record| (record.seq, record.status)).collect()
}

async fn a_call_appears_when_it_begins_and_when_it_ends(place: &Place) {
    let (store, ledger) = place.open().await;
    ledger.append(refusal(0), WaitFor::Disk).await.unwrap();
    let (mut cursor, everything) = (store.feed_end().await.unwrap(), Filter::default());
    assert_eq!(read(&store, &mut cursor, &everything, 10).await, []);
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    assert_eq!(read(&store, &mut cursor, &everything, 10).await, [(2, Status::Started)]);
    assert_eq!(read(&store, &mut cursor, &everything, 10).await, []);
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    assert_eq!(cursor, FeedCursor::parse(&cursor.to_string()).unwrap());
    assert_eq!(read(&store, &mut cursor, &everything, 10).await, [(3, Status::Refused), (2, Status::Success)]);
    assert_eq!(read(&store, &mut cursor, &everything, 10).await, []);
    assert_eq!(cursor, store.feed_end().await.unwrap());
}

async fn a_call_that_is_over_appears_once(place: &Place) {
    let (store, ledger) = place.open().await;
    let (mut cursor, everything) = (store.feed_end().await.unwrap(), Filter::default());
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    let expected = [(2, Status::Refused), (1, Status::Success)];
    assert_eq!(read(&store, &mut cursor.clone(), &everything, 10).await, expected);
    // The same when records are read one by one.
    assert_eq!(read(&store, &mut cursor, &everything, 1).await, expected[..1]);
    assert_eq!(read(&store, &mut cursor, &everything, 1).await, expected[1..]);
    assert_eq!(read(&store, &mut cursor, &everything, 1).await, []);
}

async fn what_does_not_fit_is_passed_by(place: &Place) {
    let (store, ledger) = place.open().await;
    let filter = Filter { status: Some(Status::Refused), ..Filter::default() };
    let mut cursor = FeedCursor::default();
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    assert_eq!(read(&store, &mut cursor, &filter, 1).await, []);
    assert_eq!(cursor, store.feed_end().await.unwrap());
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap();
    ledger.append(NewRecord { status: Status::Success, ..call(3) }, WaitFor::Disk).await.unwrap();
    let feed = store.feed(&cursor, &filter, 1).await.unwrap();
    assert_eq!(feed.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [3]);
    assert_eq!((feed.next, feed.has_more), (store.feed_end().await.unwrap(), false));
}

async fn a_long_way_is_gone_in_steps(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut open = Vec::new();
    for n in 0..700 {
        match n % 3 {
            0 => {
                open.push(ledger.open(call(n), if n % 30 == 0 { WaitFor::Disk } else { WaitFor::Queue }).await.unwrap())
            }
            1 => drop(ledger.append(refusal(n), WaitFor::Queue).await.unwrap()),
            _ => {
                let index = (n as usize * 7) % open.len();
                ledger.close(open.swap_remove(index), success(), WaitFor::Queue).await.unwrap();
            }
        }
    }
    ledger.append(refusal(700), WaitFor::Disk).await.unwrap();
    let expected = all(&store).await;
    for limit in [1, 3, 100, 500] {
        let (mut cursor, mut seen) = (FeedCursor::default(), Vec::new());
        for _ in 0..1000 {
            let feed = store.feed(&cursor, &Filter::default(), limit).await.unwrap();
            assert!(feed.records.len() == limit || !feed.has_more, "only the last is short");
            seen.extend(feed.records);
            cursor = feed.next;
            if !feed.has_more {
                break;
            }
        }
        assert_eq!(cursor, store.feed_end().await.unwrap());
        let positions: Vec<_> = seen.iter().map(|record| record.end_seq.unwrap_or(record.seq)).collect();
        assert!(positions.is_sorted(), "in the order of what happened");
        seen.sort_by_key(|record| record.seq);
        assert_eq!(seen, expected, "each once, {limit} at a time");
    }
}

async fn every_record_has_a_place_to_go_on_from(place: &Place) {
    let (store, ledger) = place.open().await;
    let other = other_chain(place, &store).await;
    let mut open = Vec::new();
    for n in 0..12 {
        let ledger = if n % 2 == 0 { &ledger } else { &other };
        open.push((ledger, ledger.open(call(n), WaitFor::Disk).await.unwrap()));
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
        if n % 3 == 2 {
            let (ledger, call) = open.swap_remove(0);
            ledger.close(call, success(), WaitFor::Disk).await.unwrap();
        }
    }
    let filter = Filter { status: Some(Status::Success), ..Filter::default() };
    for filter in [Filter::default(), filter] {
        let whole = store.feed(&FeedCursor::default(), &filter, 100).await.unwrap();
        assert_eq!(whole.records.len(), whole.cursors.len());
        for (index, place) in whole.cursors.iter().enumerate() {
            let rest = store.feed(place, &filter, 100).await.unwrap();
            assert_eq!(rest.records, whole.records[index + 1..], "after {index}");
            assert_eq!(rest.next, whole.next);
        }
    }
}

async fn a_look_takes_in_so_much_and_no_more(place: &Place) {
    let (store, ledger) = place.open().await;
    ledger.append(NewRecord { status: Status::Success, ..call(0) }, WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let sql = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {0}) \
         INSERT INTO records (key, tail, chain, seq, hash, kind, status, tool, metadata) \
         SELECT key + n, tail, chain, seq + n, hash, kind, CASE n WHEN {0} THEN 'error' ELSE status END, tool, metadata \
         FROM records, numbers WHERE seq = 1",
        SCAN_MAX + 1000
    );
    place.sql(&sql).await;
    let filter = Filter { status: Some(Status::Error), ..Filter::default() };
    let first = store.feed(&FeedCursor::default(), &filter, 10).await.unwrap();
    assert_eq!((first.records.len(), first.has_more), (0, true));
    let second = store.feed(&first.next, &filter, 10).await.unwrap();
    assert_eq!((second.records.len(), second.has_more), (1, false));
}

async fn other_chain(place: &Place, store: &Store) -> Ledger {
    let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(2) };
    Ledger::start(store, options).await.unwrap()
}

async fn chains_are_watched_together(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut cursor = store.feed_end().await.unwrap();
    // A gateway that starts later is seen from its first record.
    let other = other_chain(place, &store).await;
    let agents = async |cursor: &mut FeedCursor, limit: usize| {
        let feed = store.feed(cursor, &Filter::default(), limit).await.unwrap();
        *cursor = feed.next;
        feed.records.into_iter().map(|record| record.agent.unwrap()).collect::<Vec<_>>()
    };
    let record = |n: u32, agent: &str| NewRecord { agent: Some(agent.into()), ..refusal(n) };
    for n in 0..6 {
        ledger.append(record(2 * n, &format!("a{n}")), WaitFor::Disk).await.unwrap();
        other.append(record(2 * n + 1, &format!("b{n}")), WaitFor::Disk).await.unwrap();
    }
    assert_eq!(agents(&mut cursor, 5).await, ["a0", "b0", "a1", "b1", "a2"], "by time, so that none is left behind");
    assert_eq!(agents(&mut cursor, 5).await, ["b2", "a3", "b3", "a4", "b4"]);
    assert_eq!(agents(&mut cursor, 5).await, ["a5", "b5"]);
    assert_eq!(cursor, store.feed_end().await.unwrap());
    ledger.finish().await.unwrap();
    other.finish().await.unwrap();
}

async fn nothing_is_missed_while_calls_come_in(place: &Place) {
    let (store, ledger) = place.open().await;
    let writing = tokio::spawn(async move {
        for n in 0..300 {
            let open = ledger.open(call(n), WaitFor::Disk).await.unwrap();
            ledger.append(refusal(n), WaitFor::Queue).await.unwrap();
            ledger.close(open, success(), WaitFor::Queue).await.unwrap();
        }
        ledger.finish().await.unwrap();
    });
    let (mut cursor, mut seen) = (FeedCursor::default(), HashMap::new());
    loop {
        let is_over = writing.is_finished();
        let feed = store.feed(&cursor, &Filter::default(), 7).await.unwrap();
        cursor = feed.next;
        for record in feed.records {
            let earlier = seen.insert(record.id, record.clone());
            let was_final = earlier.as_ref().is_some_and(|earlier| earlier.status != Status::Started);
            assert!(!was_final || earlier.as_ref() == Some(&record), "nothing goes back to an earlier state");
        }
        if is_over && !feed.has_more {
            break;
        }
    }
    writing.await.unwrap();
    let expected = all(&store).await;
    assert_eq!(seen.len(), expected.len());
    assert!(expected.iter().all(|record| seen.get(&record.id) == Some(record)), "all in their final state");
}

async fn exported(store: &Store, ledger: &Ledger, position: &mut i64, limit: usize) -> Vec<(i64, Status)> {
    let batch = store.export_batch(ledger.chain(), *position, limit).await.unwrap();
    assert_eq!(batch.missed, 0);
    *position = batch.next;
    batch.records.iter().map(|(_, record)| (record.seq, record.status)).collect()
}

async fn an_export_has_every_call_once_when_it_has_ended(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut position = 0;
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap();
    assert_eq!(exported(&store, &ledger, &mut position, 10).await, [(2, Status::Refused)]);
    assert_eq!(exported(&store, &ledger, &mut position, 10).await, []);
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    for n in 3..6 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    // The end of the call has position 3.
    assert_eq!(exported(&store, &ledger, &mut position, 2).await, [(1, Status::Success), (4, Status::Refused)]);
    assert_eq!(exported(&store, &ledger, &mut position, 2).await, [(5, Status::Refused), (6, Status::Refused)]);
    assert_eq!(exported(&store, &ledger, &mut position, 2).await, []);
    assert_eq!(position, 6);
}

async fn the_position_of_an_export_is_kept(place: &Place) {
    let (store, ledger) = place.open().await;
    let chain = ledger.chain();
    assert_eq!(store.export_position(chain, "a").await.unwrap(), 0);
    for seq in [3, 7] {
        store.move_export(chain, "a", seq, 1).await.unwrap();
        assert_eq!(store.export_position(chain, "a").await.unwrap(), seq);
    }
    assert_eq!(store.export_position(chain, "b").await.unwrap(), 0);
}

async fn an_export_goes_on_after_a_position_in_every_chain(place: &Place) {
    let (store, ledger) = place.open().await;
    let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(2) };
    let other = Ledger::start(&store, options).await.unwrap();
    let mut cursor = FeedCursor::default();
    let read = async |cursor: &mut FeedCursor, filter: &Filter| {
        let (end, mut found, mut lines) = (store.feed_end().await.unwrap(), Vec::new(), 0);
        let expected = cursor.lines_until(&end);
        assert!(!cursor.is_beyond(&end));
        while let Some(page) = store.export_after(cursor, &end, filter).await.unwrap() {
            found.extend(page.records.iter().map(|record| (record.chain, record.seq)));
            lines += page.lines;
            // As a user hands it in again.
            *cursor = FeedCursor::parse(&page.next.to_string()).unwrap();
        }
        assert_eq!(lines, expected);
        found
    };
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap();
    other.append(refusal(3), WaitFor::Disk).await.unwrap();
    assert_eq!(
        read(&mut cursor, &Filter::default()).await,
        [(0, 2), (1, 1)],
        "the open call follows when it has ended"
    );
    assert_eq!(read(&mut cursor, &Filter::default()).await, []);
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    other.append(refusal(4), WaitFor::Disk).await.unwrap();
    let calls = Filter { kind: Some(mcpproxy_store::Kind::Call), ..Filter::default() };
    assert_eq!(read(&mut cursor.clone(), &calls).await, [(0, 1)]);
    assert_eq!(read(&mut cursor, &Filter::default()).await, [(0, 1), (1, 2)]);
    assert!(FeedCursor::parse("f0-4").unwrap().is_beyond(&store.feed_end().await.unwrap()), "the log was set back");
}

async fn an_export_counts_what_is_gone_and_ends(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 1..4 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    ledger.append(NewRecord { time_ms: now_ms(), ..refusal(4) }, WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let retention = Retention { records: Some(Duration::from_secs(3600)), ..NO_RETENTION };
    let ledger = Ledger::start(&store, LedgerOptions { retention, ..place.options(1) }).await.unwrap();
    until("old records are gone", async || place.sql("SELECT removed_seq FROM chains").await == [3]).await;
    ledger.finish().await.unwrap();
    let end = store.feed_end().await.unwrap();
    let missed = async |from: &FeedCursor| {
        store.export_after(from, &end, &Filter::default()).await.unwrap().map(|page| (page.missed, page.records.len()))
    };
    // A first export takes what is there. To a later one, the chain is new, and a part of it is gone.
    assert_eq!(store.oldest_kept().await.unwrap().to_string(), "f0-3");
    assert_eq!(missed(&store.oldest_kept().await.unwrap()).await, Some((0, 1)));
    assert_eq!(missed(&FeedCursor::parse("f1-7").unwrap()).await, Some((3, 1)));

    // The log becomes shorter while an export runs.
    let cursor = |text: &str| FeedCursor::parse(text).unwrap();
    let read = store.export_after(&cursor("f0-4"), &cursor("f0-9"), &Filter::default()).await;
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
}

async fn a_position_is_of_one_history(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 1..4 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    let cursor = FeedCursor::parse("f0-2").unwrap();
    let before = store.lines_at(&cursor).await.unwrap().remove(&0).unwrap();
    let now = async || store.lines_at(&cursor).await.unwrap().remove(&0).unwrap();
    assert!(before.hash.is_some() && now().await.continues(&before.chain, before.hash.as_deref()));
    assert!(!now().await.continues("other", before.hash.as_deref()), "another database");
    assert!(store.lines_at(&FeedCursor::parse("f7-2").unwrap()).await.unwrap().is_empty(), "no such chain");
    assert_eq!(store.replaced_before(&cursor).await.unwrap(), None);

    let restored = r#"{"backup":"2099-01-01T00:00:00.000Z","time":"2099-01-01T00:00:00.000Z","backup_seq":1,"fork":1,"lost_to":5,"records_gone":4}"#;
    let record = NewRecord {
        kind: Kind::Settings,
        status: Status::Success,
        code: Some("restored".to_owned()),
        metadata: restored.to_owned(),
        ..refusal(4)
    };
    ledger.append(record, WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    for (position, expected) in [("f0-1", None), ("f0-2", Some("f0-1")), ("f0-5", Some("f0-1")), ("f0-6", None)] {
        let found = store.replaced_before(&FeedCursor::parse(position).unwrap()).await.unwrap();
        assert_eq!(found.map(|cursor| cursor.to_string()).as_deref(), expected, "{position}");
    }
    // The same position in another history.
    place.sql("UPDATE records SET hash = (SELECT hash FROM records WHERE seq = 1) WHERE seq = 2").await;
    assert!(!now().await.continues(&before.chain, before.hash.as_deref()));
    place.sql("DELETE FROM records WHERE seq = 2").await;
    assert!(!now().await.continues(&before.chain, before.hash.as_deref()), "gone, and not by retention");
}
