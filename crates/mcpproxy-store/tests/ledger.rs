//! Tests for the ledger: every accepted record is written.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, all, call, payload, refusal, statuses, success, until};
use mcpproxy_core::{RiskLevel, Untrusted, Variant};
use mcpproxy_store::{Filter, Kind, NewRecord, OpenRecord, Outcome, PAYLOAD_MAX_BYTES, Record, Status, Store, WaitFor};
use mcpproxy_store::{RecordId, StoreError};

on_both!(
    every_field_comes_back,
    the_end_says_what_went_wrong_and_what_became_known,
    an_end_that_comes_in_time_makes_one_line,
    a_durable_beginning_is_on_disk_when_it_returns,
    records_without_a_waiter_are_written_at_the_end,
    calls_that_overlap_get_their_own_ends,
    many_durable_calls_at_once,
    calls_of_a_run_that_ended_badly_are_interrupted,
    more_calls_than_one_step_takes_are_interrupted,
    ids_tell_the_time_and_grow,
    long_texts_are_cut_and_their_size_is_kept,
    text_is_stored_as_it_came,
    news_of_commits_arrive,
);

async fn every_field_comes_back(place: &Place) {
    let (store, ledger) = place.open().await;
    // Beginning and end in one line, and in two.
    for (n, open, end_seq) in [(1, WaitFor::Queue, None), (2, WaitFor::Disk, Some(3))] {
        let record = NewRecord { risk: Some(RiskLevel::High), ..call(n) };
        let (args, result) = (payload(r#"{"to":"you"}"#), payload("sent"));
        let record = ledger.open(record, open).await.unwrap();
        let id = record.id();
        ledger.close(record, success(), WaitFor::Disk).await.unwrap();
        let expected = Record {
            id,
            chain: 0,
            seq: n.into(),
            end_seq,
            kind: Kind::Call,
            status: Status::Success,
            agent: Some("local".into()),
            client: Some(Untrusted::new("cursor 1.2")),
            server: Some(Untrusted::new("mail")),
            tool: Some(Untrusted::new("send")),
            intent_type: Some(Variant::Write),
            risk: Some(RiskLevel::High),
            code: None,
            message: None,
            duration_us: Some(1_234_567),
            metadata: Untrusted::new(r#"{"tool_variant":"call_tool_write"}"#),
            end_metadata: None,
            args: Some(*args.facts()),
            result: Some(*result.facts()),
        };
        let found = store.find(&id.to_string()).await.unwrap().unwrap();
        assert_eq!(found.record, expected);
        assert_eq!(found.args, Some(Untrusted::new(r#"{"to":"you"}"#)));
        assert_eq!(found.result, Some(Untrusted::new("sent")));
        assert_eq!(all(&store).await.last(), Some(&expected));
    }
}

async fn the_end_says_what_went_wrong_and_what_became_known(place: &Place) {
    let (store, ledger) = place.open().await;
    for (n, open) in [(1, WaitFor::Queue), (2, WaitFor::Disk)] {
        let record = ledger.open(call(n), open).await.unwrap();
        let outcome = Outcome {
            status: Status::Error,
            code: Some("timeout".into()),
            message: Some("no answer".into()),
            duration_us: Some(1),
            result: None,
            metadata: Some(r#"{"warnings":["late"]}"#.into()),
        };
        ledger.close(record, outcome, WaitFor::Disk).await.unwrap();
        let record = all(&store).await.pop().unwrap();
        assert_eq!((record.status, record.duration_us, record.result), (Status::Error, Some(1), None));
        assert_eq!(record.code, Some(Untrusted::new("timeout")));
        assert_eq!(record.message, Some(Untrusted::new("no answer")));
        assert_eq!(record.metadata, Untrusted::new(r#"{"tool_variant":"call_tool_write"}"#));
        assert_eq!(record.end_metadata, Some(Untrusted::new(r#"{"warnings":["late"]}"#)));
    }
}

async fn an_end_that_comes_in_time_makes_one_line(place: &Place) {
    let (store, ledger) = place.open().await;
    let early = ledger.open(call(1), WaitFor::Queue).await.unwrap();
    ledger.close(early, success(), WaitFor::Queue).await.unwrap();
    let late = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(3), WaitFor::Disk).await.unwrap();
    ledger.close(late, success(), WaitFor::Disk).await.unwrap();
    let positions: Vec<_> = all(&store).await.iter().map(|record| (record.seq, record.end_seq)).collect();
    assert_eq!(positions, [(1, None), (2, Some(4)), (3, None)]);
}

async fn a_durable_beginning_is_on_disk_when_it_returns(place: &Place) {
    let (_store, ledger) = place.open().await;
    let reader = Store::open_read_only(&place.location).await.unwrap();
    let record = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    assert_eq!(statuses(&reader).await, [Status::Started]);
    ledger.close(record, success(), WaitFor::Disk).await.unwrap();
    assert_eq!(statuses(&reader).await, [Status::Success]);
}

async fn records_without_a_waiter_are_written_at_the_end(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..1000 {
        let record = ledger.open(call(n), WaitFor::Queue).await.unwrap();
        ledger.close(record, success(), WaitFor::Queue).await.unwrap();
    }
    let open = ledger.open(call(1000), WaitFor::Queue).await.unwrap();
    ledger.finish().await.unwrap();
    ledger.finish().await.unwrap();
    assert!(matches!(ledger.open(call(1001), WaitFor::Queue).await, Err(StoreError::Closed)));
    assert!(matches!(ledger.append(call(1001), WaitFor::Disk).await, Err(StoreError::Closed)));
    assert!(matches!(ledger.close(open, success(), WaitFor::Disk).await, Err(StoreError::Closed)));
    store.close().await;

    let store = Store::open_read_only(&place.location).await.unwrap();
    let mut expected = vec![Status::Success; 1000];
    expected.push(Status::Started);
    assert_eq!(statuses(&store).await, expected);
}

async fn calls_that_overlap_get_their_own_ends(place: &Place) {
    let (store, ledger) = place.open().await;
    // More than one batch of beginnings, so that some ends find a written beginning and others a queued one.
    let outcome = |id: RecordId| Outcome { message: Some(id.to_string()), ..success() };
    let mut open: Vec<OpenRecord> = Vec::new();
    for n in 0..300 {
        open.push(ledger.open(call(n), WaitFor::Queue).await.unwrap());
        if n % 3 == 0 {
            let record = open.swap_remove(open.len() / 2);
            let outcome = outcome(record.id());
            ledger.close(record, outcome, WaitFor::Queue).await.unwrap();
        }
    }
    for record in open {
        let outcome = outcome(record.id());
        ledger.close(record, outcome, WaitFor::Queue).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let records = all(&store).await;
    assert_eq!(records.len(), 300);
    for record in records {
        assert_eq!(record.message, Some(Untrusted::new(record.id.to_string())));
    }
}

async fn many_durable_calls_at_once(place: &Place) {
    let (store, ledger) = place.open().await;
    let reader = Store::open_read_only(&place.location).await.unwrap();
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let (ledger, reader) = (ledger.clone(), reader.clone());
            tokio::spawn(async move {
                for round in 0..4 {
                    let record = ledger.open(call(n * 4 + round), WaitFor::Disk).await.unwrap();
                    let seen = reader.find(&record.id().to_string()).await.unwrap().unwrap();
                    assert_eq!(seen.record.status, Status::Started);
                    ledger.close(record, success(), WaitFor::Disk).await.unwrap();
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(statuses(&store).await, [Status::Success; 256]);
}

/// PostgreSQL plans a statement once, when the log is still empty, and keeps the plan. It must not read the whole table
/// for every batch as the log grows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_writes_without_reading_the_log() {
    const CALLS: u32 = 200;
    let place = Place::postgres();
    let (store, ledger) = place.open().await;
    for n in 0..CALLS {
        let record = ledger.open(call(n), WaitFor::Disk).await.unwrap();
        ledger.close(record, success(), WaitFor::Disk).await.unwrap();
    }
    // A connection reports what it did when it ends.
    ledger.finish().await.unwrap();
    store.close().await;
    let sum = async |what: &str| {
        let sql =
            format!("SELECT CAST(sum({what}) AS bigint) FROM pg_stat_user_tables WHERE relname LIKE 'records\\_%'");
        place.sql(&sql).await[0]
    };
    let read = async || sum("seq_tup_read").await;
    until("the statistics are there", async || sum("n_tup_ins").await == i64::from(CALLS)).await;
    assert!(read().await < i64::from(CALLS), "{} rows were read one after the other", read().await);
}

async fn calls_of_a_run_that_ended_badly_are_interrupted(place: &Place) {
    let (store, ledger) = place.open().await;
    let _lost = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    let done = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    ledger.close(done, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    store.close().await;

    let (store, ledger) = place.open().await;
    assert_eq!(ledger.interrupted(), 1);
    assert_eq!(statuses(&store).await, [Status::Interrupted, Status::Success]);
    let record = all(&store).await.remove(0);
    assert_eq!(record.message, Some(Untrusted::new("the gateway stopped before the call ended")));
    assert_eq!((record.seq, record.end_seq), (1, Some(4)));
    ledger.finish().await.unwrap();

    let again = place.ledger(&store).await;
    assert_eq!(again.interrupted(), 0);
    assert_eq!(statuses(&store).await, [Status::Interrupted, Status::Success]);
}

async fn more_calls_than_one_step_takes_are_interrupted(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..600 {
        let _lost = ledger.open(call(n), WaitFor::Queue).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let ledger = place.ledger(&store).await;
    assert_eq!(ledger.interrupted(), 600);
    assert_eq!(statuses(&store).await, [Status::Interrupted; 600]);
}

async fn ids_tell_the_time_and_grow(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut ids = Vec::new();
    // The clock stops, goes back, and goes on.
    for n in [5, 5, 5, 4, 9, 1] {
        ids.push(ledger.append(refusal(n), WaitFor::Queue).await.unwrap());
    }
    ledger.finish().await.unwrap();
    let ledger = place.ledger(&store).await;
    // The clock is behind the records of an earlier run.
    ids.push(ledger.append(refusal(2), WaitFor::Disk).await.unwrap());
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let times: Vec<i64> = ids.iter().map(|id| (id.time_ms() - 1_700_000_000_000) / 1_000).collect();
    assert_eq!(times, [5, 5, 5, 5, 9, 9, 9]);
    assert_eq!(all(&store).await.iter().map(|record| record.id).collect::<Vec<_>>(), ids);
}

async fn long_texts_are_cut_and_their_size_is_kept(place: &Place) {
    let (store, ledger) = place.open().await;
    let long = "x".repeat(10 * PAYLOAD_MAX_BYTES);
    let record = NewRecord {
        args: Some(payload(&long)),
        message: Some(long.clone()),
        client: Some(long.clone()),
        tool: Some("é".repeat(200)),
        ..call(1)
    };
    let record = ledger.open(record, WaitFor::Disk).await.unwrap();
    let id = record.id().to_string();
    let outcome = Outcome { result: Some(payload(&long)), code: Some(long.clone()), ..success() };
    ledger.close(record, outcome, WaitFor::Disk).await.unwrap();
    let found = store.find(&id).await.unwrap().unwrap();
    let length = |text: &Option<Untrusted>| text.as_ref().map(|text| text.for_json().len());
    assert_eq!((length(&found.args), length(&found.result)), (Some(PAYLOAD_MAX_BYTES), Some(PAYLOAD_MAX_BYTES)));
    let record = found.record;
    for facts in [record.args.unwrap(), record.result.unwrap()] {
        assert_eq!((facts.bytes, facts.digests), (655_360, payload(&long).facts().digests));
        assert!(facts.digests.kept.is_some_and(|kept| kept != facts.digests.whole));
    }
    assert_eq!((length(&record.client), length(&record.tool), length(&record.code)), (Some(256), Some(256), Some(256)));
}

async fn text_is_stored_as_it_came(place: &Place) {
    let (store, ledger) = place.open().await;
    let odd = [
        "",
        "'; DROP TABLE records; --",
        "nul \0 inside",
        "\u{202e}🙂\n\r\t\u{1}\u{7f}",
        "\u{feff}\u{fffe}\u{10ffff}\u{d7ff}",
        r#"{"a":"\u0000\ud800"}"#,
        "$1 ? :a @b %s \\",
    ];
    for (n, text) in odd.into_iter().enumerate() {
        let n = u32::try_from(n).unwrap();
        let some = || Some(text.to_owned());
        let metadata = format!(r#"{{"text":"{text}"}}"#);
        let record = NewRecord {
            agent: some(),
            client: some(),
            server: some(),
            tool: some(),
            metadata: metadata.clone(),
            args: Some(payload(text)),
            ..call(n)
        };
        let outcome = Outcome {
            code: some(),
            message: some(),
            result: Some(payload(text)),
            metadata: Some(metadata.clone()),
            ..success()
        };
        let record = ledger.open(record, WaitFor::Disk).await.unwrap();
        let id = record.id().to_string();
        ledger.close(record, outcome, WaitFor::Disk).await.unwrap();
        // PostgreSQL cannot store NUL, and the log should not depend on the database.
        let kept = |text: &str| text.replace('\0', "\u{fffd}");
        let found = store.find(&id).await.unwrap().unwrap();
        let record = found.record;
        assert_eq!(record.agent, Some(kept(text)));
        for word in [record.client, record.server, record.tool, record.code, record.message, found.args, found.result] {
            assert_eq!(word, Some(Untrusted::new(kept(text))));
        }
        assert_eq!(record.metadata, Untrusted::new(kept(&metadata)));
        assert_eq!(record.end_metadata, Some(Untrusted::new(kept(&metadata))));
        let filter = Filter { server: Some(kept(text)), ..Filter::default() };
        assert_eq!(store.list(&filter, None, 10).await.unwrap().records.len(), 1, "{text:?}");
    }
}

async fn news_of_commits_arrive(place: &Place) {
    let (_store, ledger) = place.open().await;
    let mut committed = ledger.committed();
    committed.mark_unchanged();
    ledger.append(refusal(1), WaitFor::Queue).await.unwrap();
    tokio::time::timeout(common::PATIENCE, committed.changed()).await.unwrap().unwrap();
}
