//! Tests for retention: expired records are removed in small steps, and the chain still verifies.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::time::Duration;

use common::{NO_RETENTION, Place, all, call, now_ms, payload, refusal, success, until, verified};
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{Ledger, LedgerOptions, NewRecord, Outcome, Status, Store, VerifyOptions, WaitFor};

on_both!(
    old_records_go_and_the_chain_holds,
    the_end_of_the_chain_stays,
    old_payloads_go_and_their_records_stay,
    payloads_over_the_limit_go_oldest_first,
    an_export_counts_what_was_removed_before_it,
);

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const OLD: u32 = 1_200;
const YOUNG: u32 = 30;

fn at(ago: Duration, record: NewRecord) -> NewRecord {
    NewRecord { time_ms: now_ms() - i64::try_from(ago.as_millis()).unwrap(), ..record }
}

fn old(n: u32) -> NewRecord {
    at(2 * DAY, refusal(n))
}

fn young(n: u32) -> NewRecord {
    at(Duration::from_secs(60), refusal(n))
}

async fn start(place: &Place, store: &Store, retention: Retention) -> Ledger {
    Ledger::start(store, LedgerOptions { retention, ..place.options(1) }).await.unwrap()
}

async fn old_records_go_and_the_chain_holds(place: &Place) {
    let (store, ledger) = place.open().await;
    // One call ends long after its neighbours were removed, and one never ends.
    let straddling = ledger.open(at(2 * DAY, call(0)), WaitFor::Disk).await.unwrap();
    for n in 0..OLD {
        ledger.append(old(n), WaitFor::Queue).await.unwrap();
    }
    let _lost = ledger.open(at(2 * DAY, call(1)), WaitFor::Disk).await.unwrap();
    for n in 0..YOUNG {
        ledger.append(young(n), WaitFor::Queue).await.unwrap();
    }
    ledger.close(straddling, success(), WaitFor::Disk).await.unwrap();
    ledger.append(young(YOUNG), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let lines = verified(&store).await;
    let kept: Vec<_> = all(&store).await.into_iter().filter(|record| record.time_ms() > now_ms() - 3_600_000).collect();

    let ledger = start(place, &store, Retention { records: Some(DAY), ..NO_RETENTION }).await;
    assert_eq!(ledger.interrupted(), 1);
    // The interrupted call holds the end of the chain until this record.
    ledger.append(young(YOUNG + 1), WaitFor::Disk).await.unwrap();
    until("old records are gone", async || all(&store).await.len() == YOUNG as usize + 2).await;
    assert_eq!(all(&store).await[..kept.len()], kept);
    assert_eq!(place.sql("SELECT removed_seq FROM chains").await, [i64::from(OLD) + 2]);
    // The ends of both calls are between lines that stay.
    assert_eq!(place.sql("SELECT count(*) FROM stubs").await, [2]);
    assert_eq!(place.sql("SELECT count(*) FROM payloads").await, [i64::from(YOUNG) + 2]);
    until("old counts are gone", async || place.sql("SELECT count(*) FROM tallies WHERE count > 1000").await == [0])
        .await;
    let left = i64::from(YOUNG) + 4;
    assert_eq!(lines + 2 - (i64::from(OLD) + 2), left, "the end of the lost call and one note came after");
    assert_eq!(verified(&store).await, left);
    ledger.finish().await.unwrap();

    let ledger = place.ledger(&store).await;
    ledger.append(young(YOUNG + 2), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    assert_eq!(verified(&store).await, left + 1);
}

async fn the_end_of_the_chain_stays(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..3 {
        ledger.append(old(n), WaitFor::Disk).await.unwrap();
    }
    let last = ledger.open(at(2 * DAY, call(3)), WaitFor::Disk).await.unwrap();
    for n in 4..6 {
        ledger.append(old(n), WaitFor::Disk).await.unwrap();
    }
    ledger.close(last, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let ledger = start(place, &store, Retention { records: Some(DAY), ..NO_RETENTION }).await;
    // The call's end is the end of the chain, so the call and the records after its beginning stay.
    until("old records are gone", async || all(&store).await.len() == 3).await;
    ledger.finish().await.unwrap();
    let ledger = place.ledger(&store).await;
    ledger.append(young(1), WaitFor::Disk).await.unwrap();
    assert_eq!(all(&store).await.last().unwrap().seq, 8);
    assert_eq!(verified(&store).await, 5);
}

async fn old_payloads_go_and_their_records_stay(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..OLD {
        ledger.append(old(n), WaitFor::Queue).await.unwrap();
    }
    let call = ledger.open(at(HOUR, call(0)), WaitFor::Disk).await.unwrap();
    let id = call.id().to_string();
    ledger.close(call, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let before = all(&store).await;

    let ledger = start(place, &store, Retention { payloads: Some(DAY), ..NO_RETENTION }).await;
    until("old payloads are gone", async || place.sql("SELECT count(*) FROM payloads").await == [1]).await;
    ledger.finish().await.unwrap();
    assert_eq!(all(&store).await, before);
    let kept = store.find(&id).await.unwrap().unwrap();
    assert!(kept.args.is_some() && kept.result.is_some());
    let gone = store.find(&before[0].id.to_string()).await.unwrap().unwrap();
    assert_eq!((gone.args, gone.record.args), (None, before[0].args));
    let verdict = store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap().remove(0);
    assert_eq!((verdict.damage, verdict.payloads, verdict.erased), (None, 2, OLD.into()));
}

async fn payloads_over_the_limit_go_oldest_first(place: &Place) {
    const EACH: usize = 10_000;
    let (store, ledger) = place.open().await;
    let text = payload(&"x".repeat(EACH / 2));
    // Ten calls in each of four hours.
    for (hours, n) in (0..40).map(|n| (4 - n / 10, n)) {
        let record = NewRecord { args: Some(text.clone()), ..at(hours * HOUR, call(n)) };
        let open = ledger.open(record, WaitFor::Queue).await.unwrap();
        let outcome = Outcome { result: Some(text.clone()), ..Outcome::bare(Status::Success) };
        ledger.close(open, outcome, WaitFor::Queue).await.unwrap();
    }
    ledger.finish().await.unwrap();
    // PostgreSQL deletes rows when there is a tenth more.
    let max_bytes = if place.cluster.is_some() { 181_819 } else { EACH as u64 * 20 };
    let limit = Retention { payload_bytes: Some(max_bytes), ..NO_RETENTION };
    let ledger = start(place, &store, limit).await;
    until("payloads over the limit are gone", async || place.sql("SELECT count(*) FROM payloads").await == [20]).await;
    ledger.finish().await.unwrap();
    let gone = place.sql("SELECT seq FROM records WHERE key NOT IN (SELECT key FROM payloads) ORDER BY seq").await;
    assert_eq!(gone, (1..=20).collect::<Vec<i64>>());
    verified(&store).await;
}

async fn an_export_counts_what_was_removed_before_it(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..5 {
        ledger.append(old(n), WaitFor::Disk).await.unwrap();
    }
    ledger.append(young(5), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let ledger = start(place, &store, Retention { records: Some(DAY), ..NO_RETENTION }).await;
    until("old records are gone", async || place.sql("SELECT removed_seq FROM chains").await == [5]).await;
    let chain = ledger.chain();
    // It had exported two of them.
    let batch = store.export_batch(chain, 2, 10).await.unwrap();
    assert_eq!((batch.missed, batch.records.len(), batch.next), (3, 1, 6));
    assert_eq!(store.export_batch(chain, batch.next, 10).await.unwrap().missed, 0);
    let position = store.export_position(chain, "new").await.unwrap();
    assert_eq!(position, 5, "a new destination begins with what is kept");
    assert_eq!(store.export_batch(chain, position, 10).await.unwrap().missed, 0);
}
