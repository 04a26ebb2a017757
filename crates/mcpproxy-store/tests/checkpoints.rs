//! Tests for checkpoints: signed while running and at the end, copied to files, and compared with the database at the
//! next start.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, call, key, refusal, success, verified};
use mcpproxy_store::{Checkpoint, Health, Ledger, LedgerOptions, StoreError, WaitFor};

on_both!(
    checkpoints_are_signed_on_the_way_and_at_the_end,
    nothing_new_is_nothing_to_sign,
    a_database_behind_its_checkpoint_is_refused,
    a_database_that_is_another_than_was_signed_is_refused,
    a_checkpoint_of_another_chain_or_none_says_nothing,
    a_copy_that_cannot_be_made_stops_nothing,
);

fn positions(notes: &str) -> Vec<i64> {
    let verifier = key(1).verifier().clone();
    Checkpoint::notes(notes).iter().map(|note| Checkpoint::open(note, &verifier).unwrap().seq).collect()
}

async fn checkpoints_are_signed_on_the_way_and_at_the_end(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..2_500 {
        ledger.append(refusal(n), WaitFor::Queue).await.unwrap();
    }
    let open = ledger.open(call(2_500), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();

    let copied = positions(&std::fs::read_to_string(place.all_checkpoints()).unwrap());
    assert_eq!(copied, place.sql("SELECT seq FROM checkpoints ORDER BY seq").await);
    assert_eq!(copied.last(), Some(&2_502));
    // A batch is never split for a checkpoint, so there may be more lines between two of them.
    let gaps: Vec<i64> = [&[0], &copied[..]].concat().windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (last, on_the_way) = gaps.split_last().unwrap();
    assert!(!on_the_way.is_empty() && on_the_way.iter().all(|gap| *gap >= 1_000), "{gaps:?}");
    assert!(*last <= 1_000, "{gaps:?}");
    let newest = std::fs::read_to_string(place.newest_checkpoint()).unwrap();
    assert_eq!(positions(&newest), [2_502]);
    assert!(Checkpoint::open(&newest, key(2).verifier()).is_err());
    assert_eq!(verified(&store).await, 2_502);
}

async fn nothing_new_is_nothing_to_sign(place: &Place) {
    let (store, ledger) = place.open().await;
    ledger.finish().await.unwrap();
    assert!(!place.newest_checkpoint().exists());
    let ledger = place.ledger(&store).await;
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    place.ledger(&store).await.finish().await.unwrap();
    assert_eq!(place.sql("SELECT seq FROM checkpoints").await, [1]);
    // After a restart, checkpoints continue from there.
    let ledger = place.ledger(&store).await;
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    assert_eq!(positions(&std::fs::read_to_string(place.all_checkpoints()).unwrap()), [1, 2]);
}

async fn a_database_behind_its_checkpoint_is_refused(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..3 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
    place.sql("DELETE FROM records WHERE seq = 3").await;
    let refused = Ledger::start(&store, place.options(1)).await.err().unwrap();
    let expected = StoreError::Truncated { chain: key(1).verifier().chain().into(), found: 2, signed: 3 };
    assert_eq!(format!("{refused:?}"), format!("{expected:?}"));
    place.sql("DELETE FROM records").await;
    assert!(matches!(Ledger::start(&store, place.options(1)).await, Err(StoreError::Truncated { found: 0, .. })));
}

async fn a_database_that_is_another_than_was_signed_is_refused(place: &Place) {
    let (store, ledger) = place.open().await;
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    place.sql("UPDATE records SET end_hash = hash").await;
    let refused = Ledger::start(&store, place.options(1)).await.err().unwrap();
    let expected = StoreError::Rewritten { chain: key(1).verifier().chain().into(), seq: 2 };
    assert_eq!(format!("{refused:?}"), format!("{expected:?}"));
}

async fn a_checkpoint_of_another_chain_or_none_says_nothing(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..3 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
    // The file now names a chain that is longer than the chain of this key.
    let other = Ledger::start(&store, place.options(2)).await.unwrap();
    other.append(refusal(9), WaitFor::Disk).await.unwrap();
    other.finish().await.unwrap();
    assert_eq!(verified(&store).await, 4);
    std::fs::write(place.newest_checkpoint(), "").unwrap();
    place.ledger(&store).await.finish().await.unwrap();
    std::fs::write(place.newest_checkpoint(), [0xff, 0xfe]).unwrap();
    assert!(matches!(Ledger::start(&store, place.options(1)).await, Err(StoreError::Open { .. })));
}

async fn a_copy_that_cannot_be_made_stops_nothing(place: &Place) {
    let store = place.store().await;
    let nowhere = Some(place.folder.path().join("no/such/folder"));
    let options = LedgerOptions { checkpoints_to: nowhere.clone(), newest_checkpoint: nowhere, ..place.options(1) };
    let ledger = Ledger::start(&store, options).await.unwrap();
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    assert_eq!(ledger.health(), Health::Well);
    ledger.finish().await.unwrap();
    assert_eq!(place.sql("SELECT seq FROM checkpoints").await, [1]);
}
