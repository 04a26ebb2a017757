//! Tests of a signing key that is replaced: both chains are verified, and trust in either key is enough.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use common::{Place, key, now_ms, refusal};
use mcpproxy_store::{
    BundleError, ChainVerdict, DamageKind, Filter, KeyFrom, Ledger, Selection, Store, StoreError, VerifyOptions,
    WaitFor, verify_bundle,
};

on_both!(
    a_new_key_continues_the_log,
    an_older_key_is_enough_for_a_bundle,
    the_end_of_the_old_chain_is_known,
    an_interrupted_rotation_is_finished_by_the_next_start,
);

/// Writes some records with this key. The first one says which chain is continued, if one is.
async fn run(place: &Place, store: &Store, seed: u8, numbers: std::ops::Range<u32>) {
    store.check_key(Some(key(seed).verifier()), &place.newest_checkpoint()).await.unwrap();
    let first = store.continues(key(seed).verifier(), now_ms(), 1).await.unwrap();
    let ledger = Ledger::start(store, place.options(seed)).await.unwrap();
    for record in first.into_iter().chain(numbers.map(refusal)) {
        ledger.append(record, WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
}

async fn rotate(place: &Place, store: &Store, old: u8, new: u8) {
    let ledger = Ledger::start(store, place.options(old)).await.unwrap();
    ledger.append(key(old).rotated_to(key(new).verifier(), now_ms(), 2), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
}

async fn rotated(place: &Place) -> Store {
    let store = place.store().await;
    run(place, &store, 1, 0..5).await;
    rotate(place, &store, 1, 2).await;
    run(place, &store, 2, 5..10).await;
    rotate(place, &store, 2, 3).await;
    run(place, &store, 3, 10..15).await;
    store
}

async fn verdicts(store: &Store, seed: u8) -> Vec<ChainVerdict> {
    let options = VerifyOptions { checkpoints: Vec::new(), trusted: vec![key(seed).verifier().clone()] };
    store.verify(options, &mut |_| {}).await.unwrap()
}

async fn a_new_key_continues_the_log(place: &Place) {
    let store = rotated(place).await;
    for seed in [1, 2, 3] {
        let found = verdicts(&store, seed).await;
        let facts: Vec<_> = found.iter().map(|verdict| (verdict.lines, verdict.is_trusted, &verdict.damage)).collect();
        assert_eq!(facts, [(6, true, &None), (7, true, &None), (6, true, &None)], "trusting key {seed}");
    }
    assert_eq!(store.export_chains(key(3).verifier(), 2).await.unwrap(), [0, 1, 2]);
    assert_eq!(store.export_chains(key(4).verifier(), 7).await.unwrap(), [7], "a stranger exports its own chain");
    // A key that nobody signed is refused, as before.
    let refused = store.check_key(Some(key(4).verifier()), &place.newest_checkpoint()).await;
    assert!(matches!(refused, Err(StoreError::KeyReplaced { .. })), "{refused:?}");
    assert!(store.continues(key(3).verifier(), now_ms(), 1).await.unwrap().is_none(), "it has begun");
    assert!(store.continues(key(4).verifier(), now_ms(), 1).await.unwrap().is_none(), "it succeeds nothing");
}

async fn an_older_key_is_enough_for_a_bundle(place: &Place) {
    let store = rotated(place).await;
    let own = key(3);
    let selection =
        Selection { filter: Filter::default(), id: None, chain: None, key: Some(&own), newest: None, now_ms: now_ms() };
    let mut bundle = Vec::new();
    store.export_signed(&selection, &mut bundle, &mut |_| {}).await.unwrap();
    for seed in [1, 2, 3] {
        let found = verify_bundle(bundle.as_slice(), Some(key(seed).verifier()), &mut |_| {}).unwrap();
        assert_eq!((found.key_from, found.is_sealed), (KeyFrom::Outside, true), "trusting key {seed}");
    }
    let refused = verify_bundle(bundle.as_slice(), Some(key(4).verifier()), &mut |_| {});
    assert!(matches!(refused, Err(BundleError::OtherKey { .. })), "{refused:?}");
}

async fn the_end_of_the_old_chain_is_known(place: &Place) {
    let store = rotated(place).await;
    // Even with the old key, nobody can cut off the old chain.
    place.sql("DELETE FROM records WHERE chain = 1 AND seq > 3; DELETE FROM checkpoints WHERE chain = 1").await;
    let found = verdicts(&store, 3).await;
    let damage = found[1].damage.as_ref().map(|damage| &damage.what);
    assert_eq!(damage, Some(&DamageKind::Truncated { signed: 7 }));
    assert_eq!((&found[0].damage, &found[2].damage), (&None, &None));
}

async fn an_interrupted_rotation_is_finished_by_the_next_start(place: &Place) {
    let store = place.store().await;
    run(place, &store, 1, 0..5).await;
    // Stopped before the key file was replaced: the old key goes on, and the rotation is repeated.
    rotate(place, &store, 1, 2).await;
    run(place, &store, 1, 5..8).await;
    rotate(place, &store, 1, 2).await;
    // Stopped before the new chain began: `checkpoint.txt` still names the old one.
    run(place, &store, 2, 8..9).await;
    let found = verdicts(&store, 2).await;
    let facts: Vec<_> = found.iter().map(|verdict| (verdict.lines, verdict.is_trusted, &verdict.damage)).collect();
    assert_eq!(facts, [(10, true, &None), (2, true, &None)]);
}
