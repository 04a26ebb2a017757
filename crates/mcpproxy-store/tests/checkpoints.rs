//! Tests for checkpoints: signed while running and at the end, copied to files, and compared with the database at the
//! next start.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, call, key, refusal, success, verified};
use mcpproxy_store::{Checkpoint, Health, Ledger, LedgerOptions, Location, SigningKey, Store, StoreError, WaitFor};

on_both!(
    checkpoints_are_signed_on_the_way_and_at_the_end,
    nothing_new_is_nothing_to_sign,
    a_database_behind_its_checkpoint_is_refused,
    a_database_that_is_another_than_was_signed_is_refused,
    the_end_of_a_chain_is_checked_and_the_rest_is_left_to_verify,
    a_key_that_is_not_the_chains_is_refused,
    a_checkpoint_that_cannot_be_read_says_nothing,
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
    let cut = |seq: i64| {
        format!(
            "position {seq}: the log ends before this position, but position 3 was signed; the last records are missing"
        )
    };
    assert_eq!(refused(place, &store).await, cut(3));
    // The copy outside the database tells, too.
    place.sql("DELETE FROM checkpoints").await;
    assert_eq!(refused(place, &store).await, cut(3));
    place.sql("DELETE FROM records").await;
    assert_eq!(refused(place, &store).await, cut(1));
    place.sql("DELETE FROM chains").await;
    assert_eq!(refused(place, &store).await, cut(1));
    std::fs::remove_file(place.newest_checkpoint()).unwrap();
    place.ledger(&store).await.finish().await.unwrap();
}

/// Returns the damage for which a start is refused.
async fn refused(place: &Place, store: &Store) -> String {
    let refused = Ledger::start(store, place.options(1)).await.err().unwrap();
    let StoreError::Damaged { chain, damage } = refused else { panic!("{refused:?}") };
    assert_eq!(chain, key(1).verifier().chain());
    damage
}

async fn a_database_that_is_another_than_was_signed_is_refused(place: &Place) {
    let (store, ledger) = place.open().await;
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    place.sql("UPDATE records SET end_hash = hash").await;
    let damage = refused(place, &store).await;
    assert!(damage.starts_with("position 2 (record ") && damage.ends_with("; it was changed"), "{damage}");
}

/// Without a signature over the change, only the end of the chain is read.
async fn the_end_of_a_chain_is_checked_and_the_rest_is_left_to_verify(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..6_000 {
        ledger.append(refusal(n), WaitFor::Queue).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let change = async |seq: i64, tool: &str| {
        place.sql(&format!("UPDATE records SET tool = '{tool}' WHERE seq = {seq}")).await;
    };
    change(1_500, "changed").await;
    place.ledger(&store).await.finish().await.unwrap();
    // Without checkpoints, the check still ends.
    place.sql("DELETE FROM checkpoints").await;
    place.ledger(&store).await.finish().await.unwrap();
    change(5_100, "changed").await;
    assert!(refused(place, &store).await.starts_with("position 5100 (record "));
}

async fn a_key_that_is_not_the_chains_is_refused(place: &Place) {
    let (store, ledger) = place.open().await;
    for n in 0..3 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let (own, other, newest) = (key(1), key(2), place.newest_checkpoint());
    let check =
        async |verifier: Option<&SigningKey>| store.check_key(verifier.map(|key| key.verifier()), &newest).await;
    let chain = own.verifier().chain();
    check(Some(&own)).await.unwrap();
    for (key, expected) in [
        (Some(&other), format!("`signing.key` is not the key of chain `{chain}`, which this gateway wrote before")),
        (None, format!("`signing.key` is missing, but this gateway wrote the chain `{chain}` before")),
    ] {
        assert_eq!(check(key).await.unwrap_err().to_string(), expected);
    }
    let refused = Ledger::start(&store, place.options(2)).await.err().unwrap();
    assert!(matches!(refused, StoreError::KeyReplaced { .. }), "{refused:?}");
    // Without the file, a database of one gateway still tells. Others may share PostgreSQL.
    std::fs::remove_file(&newest).unwrap();
    for key in [Some(&other), None] {
        assert_eq!(check(key).await.is_ok(), matches!(place.location, Location::Postgres(_)));
    }
    check(Some(&own)).await.unwrap();
}

async fn a_checkpoint_that_cannot_be_read_says_nothing(place: &Place) {
    let (store, ledger) = place.open().await;
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    for text in ["".as_bytes(), b"mcpproxy/\x1b[2J\n1\n", b"nonsense", &[0xff, 0xfe]] {
        std::fs::write(place.newest_checkpoint(), text).unwrap();
        place.ledger(&store).await.finish().await.unwrap();
    }
    std::fs::remove_file(place.newest_checkpoint()).unwrap();
    std::fs::create_dir(place.newest_checkpoint()).unwrap();
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
