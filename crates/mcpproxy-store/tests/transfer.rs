//! Tests of copies of the whole database: snapshots, loads, moves between databases, and restores of the log.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::fs;

use common::{Place, all, call, key, now_ms, refusal, success, verified};
use mcpproxy_core::Scope;
use mcpproxy_store::{
    Batch, Checkpoint, DamageKind, Existing, Ledger, Loader, NewRecord, Restore, Store, StoreError, VerifyOptions,
    WaitFor,
};

on_both!(
    a_snapshot_has_one_moment_of_every_table,
    a_loaded_database_is_the_same,
    a_database_with_data_is_not_replaced_by_mistake,
    a_copy_goes_on_after_an_interruption,
    a_restore_is_told_from_an_attack,
    a_restore_that_is_not_signed_excuses_nothing,
);

/// Writes records of all forms and a token.
async fn fill(place: &Place, from: u32, to: u32) -> Store {
    let (store, ledger) = place.open().await;
    for n in from..to {
        let open = ledger.open(call(n), WaitFor::Disk).await.unwrap();
        ledger.append(refusal(n), WaitFor::Queue).await.unwrap();
        ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
    store
}

async fn batches(store: &Store) -> Vec<Batch> {
    let mut snapshot = store.snapshot().await.unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = snapshot.next().await.unwrap() {
        batches.push(batch);
    }
    snapshot.close().await.unwrap();
    batches
}

/// All rows, whatever order the database has.
fn rows(batches: &[Batch]) -> Vec<String> {
    let mut rows: Vec<String> =
        batches.iter().flat_map(|batch| batch.text.lines().map(|line| format!("{} {line}", batch.table))).collect();
    rows.sort_unstable();
    rows
}

async fn load(place: &Place, batches: &[Batch], existing: Existing) -> Result<(), StoreError> {
    let mut loader = Loader::begin(&place.location, schema(), existing).await?;
    for batch in batches {
        assert_eq!(loader.add(&batch.table, &batch.text).await?, batch.rows);
    }
    loader.finish().await
}

fn schema() -> i64 {
    i64::try_from(fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/schema")).unwrap().count()).unwrap()
}

/// The other kind of database.
fn other(place: &Place) -> Place {
    if place.cluster.is_some() { Place::sqlite() } else { Place::postgres() }
}

async fn a_snapshot_has_one_moment_of_every_table(place: &Place) {
    let store = fill(place, 0, 150).await;
    let before = rows(&batches(&store).await);
    let mut snapshot = store.snapshot().await.unwrap();
    let head = snapshot.heads().await.unwrap();
    assert_eq!((head.len(), head[0].seq), (1, 450));
    // The gateway goes on while the snapshot is read.
    fill(place, 150, 160).await;
    store.create_token("late", &Scope::everything(), [7; 32], now_ms()).await.unwrap();
    let mut seen = Vec::new();
    while let Some(batch) = snapshot.next().await.unwrap() {
        seen.push(batch);
    }
    assert_eq!(snapshot.schema(), schema());
    assert_eq!(rows(&seen), before);
    assert!(seen.iter().filter(|batch| batch.table == "records").count() > 1, "more than one batch");
    snapshot.close().await.unwrap();
}

async fn a_loaded_database_is_the_same(place: &Place) {
    let store = fill(place, 0, 150).await;
    store.create_token("ci", &Scope::everything(), [7; 32], now_ms()).await.unwrap();
    let batches_before = batches(&store).await;
    for copy in [other(place), Place::sqlite()] {
        load(&copy, &batches_before, Existing::Refuse).await.unwrap();
        let restored = copy.store().await;
        assert_eq!(rows(&batches(&restored).await), rows(&batches_before));
        assert_eq!(verified(&restored).await, 450);
        assert_eq!(all(&restored).await, all(&store).await);
        assert_eq!(restored.list_tokens().await.unwrap().len(), 1);
        // The chain goes on.
        let ledger = Ledger::start(&restored, place.options(1)).await.unwrap();
        ledger.append(refusal(9_999), WaitFor::Disk).await.unwrap();
        ledger.finish().await.unwrap();
        assert_eq!(verified(&restored).await, 451);
        fs::remove_file(place.newest_checkpoint()).unwrap();
    }
}

async fn a_database_with_data_is_not_replaced_by_mistake(place: &Place) {
    let source = Place::sqlite();
    let wanted = batches(&fill(&source, 0, 3).await).await;
    let store = fill(place, 0, 5).await;
    let before = rows(&batches(&store).await);
    let refused = load(place, &wanted, Existing::Refuse).await;
    assert!(matches!(refused, Err(StoreError::NotEmpty { .. })), "{refused:?}");
    if place.cluster.is_some() {
        // A gateway uses the database.
        let ledger = place.ledger(&store).await;
        let refused = load(place, &wanted, Existing::Replace).await;
        assert!(matches!(refused, Err(StoreError::InUse { .. })), "{refused:?}");
        ledger.finish().await.unwrap();
        // An error in the middle changes nothing.
        let mut loader = Loader::begin(&place.location, schema(), Existing::Replace).await.unwrap();
        loader.add(&wanted[0].table, &wanted[0].text).await.unwrap();
        assert!(matches!(loader.add("records", "[1]\n").await, Err(StoreError::Corrupt { .. })));
        drop(loader);
        assert_eq!(rows(&batches(&place.store().await).await), before);
    }
    store.close().await;
    load(place, &wanted, Existing::Replace).await.unwrap();
    assert_eq!(rows(&batches(&place.store().await).await), rows(&wanted));
    let newer = Loader::begin(&Place::sqlite().location, schema() + 1, Existing::Refuse).await.err().unwrap();
    assert!(matches!(newer, StoreError::Newer { .. }), "{newer}");
}

async fn a_copy_goes_on_after_an_interruption(place: &Place) {
    let target = other(place);
    let store = fill(place, 0, 300).await;
    let wanted = rows(&batches(&store).await);
    // Stops after some batches, as a killed process does.
    let mut steps = 0;
    let stopped = {
        let (copying, mut told) = (store.clone(), move |_, _| {
            steps += 1;
            assert!(steps < 4, "stopped here");
        });
        let location = target.location.clone();
        tokio::spawn(async move { copying.copy_to(&location, &mut told).await.map(drop) }).await
    };
    assert!(stopped.is_err(), "it was stopped");
    let partly = rows(&batches(&target.store().await).await);
    assert!(!partly.is_empty() && partly.len() < wanted.len(), "{}", partly.len());
    let copied = store.copy_to(&target.location, &mut |_, _| {}).await.unwrap();
    assert!(copied.continued && copied.rows == wanted.len() as u64, "{copied:?}");
    let copy = target.store().await;
    assert_eq!(rows(&batches(&copy).await), wanted);
    assert_eq!(verified(&copy).await, 900);
    let refused = store.copy_to(&target.location, &mut |_, _| {}).await.err().unwrap();
    assert!(matches!(refused, StoreError::NotEmpty { .. }), "{refused}");
}

/// Restores `backup` over the log of `place`, as the command does. Returns all checkpoints of before.
async fn restored(place: &Place, backup: &[Batch], replaced: &Store) -> (Store, Restore, Vec<String>) {
    let old = Checkpoint::notes(&fs::read_to_string(place.all_checkpoints()).unwrap());
    let staged = Place::sqlite();
    load(&staged, backup, Existing::Refuse).await.unwrap();
    let (staged, verifier) = (staged.store().await, key(1).verifier().clone());
    let newest = Checkpoint::open(old.last().unwrap(), &verifier).unwrap();
    let restore =
        Restore::plan(&staged, "2026-01-31T12:00:00.000Z", Some(replaced), Some(&newest), &verifier, now_ms());
    let restore = restore.await.unwrap();
    replaced.close().await;
    load(place, backup, Existing::Replace).await.unwrap();
    fs::remove_file(place.newest_checkpoint()).unwrap();
    (place.store().await, restore, old)
}

async fn append(place: &Place, store: &Store, records: Vec<NewRecord>) {
    let ledger = place.ledger(store).await;
    for record in records {
        ledger.append(record, WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
}

async fn damage(store: &Store, checkpoints: Vec<String>) -> Option<DamageKind> {
    let trusted = vec![key(1).verifier().clone()];
    let verdicts = store.verify(VerifyOptions { checkpoints, trusted }, &mut |_| {}).await.unwrap();
    verdicts[0].damage.clone().map(|damage| damage.what)
}

async fn a_restore_is_told_from_an_attack(place: &Place) {
    let backup = batches(&fill(place, 0, 3).await).await;
    let replaced = fill(place, 3, 8).await;
    let (store, restore, old) = restored(place, &backup, &replaced).await;
    assert_eq!((restore.fork, restore.lost_to, restore.records_gone), (9, Some(24), Some(10)));
    assert_eq!(
        restore.to_string(),
        "restored from the backup of 2026-01-31T12:00:00.000Z; 10 records after it are gone"
    );
    // Without the record, it is an attack.
    assert_eq!(damage(&store, old.clone()).await, Some(DamageKind::Truncated { signed: 24 }));
    append(place, &store, vec![restore.record(now_ms(), 1)]).await;
    assert_eq!(damage(&store, old.clone()).await, None);
    let notes = Checkpoint::notes(&fs::read_to_string(place.all_checkpoints()).unwrap());
    append(place, &store, (20..40).map(refusal).collect()).await;
    assert_eq!(damage(&store, notes.clone()).await, None, "old and new checkpoints together");
    let verdicts = store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap();
    assert_eq!(verdicts[0].restores.iter().map(|found| &found.restore).collect::<Vec<_>>(), [&restore]);
    // What is cut off after the restore is missed as before.
    let newest = Checkpoint::notes(&fs::read_to_string(place.all_checkpoints()).unwrap());
    place.sql("DELETE FROM records WHERE seq > 15; DELETE FROM checkpoints WHERE seq > 15").await;
    let cut = damage(&store, newest).await;
    assert!(matches!(cut, Some(DamageKind::Truncated { .. })), "{cut:?}");
}

async fn a_restore_that_is_not_signed_excuses_nothing(place: &Place) {
    let backup = batches(&fill(place, 0, 3).await).await;
    let replaced = fill(place, 3, 8).await;
    let (store, restore, old) = restored(place, &backup, &replaced).await;
    append(place, &store, vec![restore.record(now_ms(), 1)]).await;
    // An attacker without the key can write the record and its hash, but no checkpoint.
    place.sql("DELETE FROM checkpoints WHERE seq > 9").await;
    assert_eq!(damage(&store, old).await, Some(DamageKind::UnsignedRestore));
}
