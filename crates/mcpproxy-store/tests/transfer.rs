//! Tests of copies of the whole database: snapshots, loads, moves between databases, and restores of the log.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::fs;

use common::{Place, all, call, key, now_ms, refusal, success, verified};
use mcpproxy_core::Scope;
use mcpproxy_store::{
    Batch, Checkpoint, CopyStep, DamageKind, Existing, Ledger, Loader, NewRecord, Progress, Restore, Store, StoreError,
    VerifyOptions, WaitFor,
};

on_both!(
    a_snapshot_has_one_moment_of_every_table,
    a_loaded_database_is_the_same,
    a_backup_of_the_previous_version_is_upgraded,
    a_database_with_data_is_not_replaced_by_mistake,
    a_copy_goes_on_after_an_interruption,
    a_copy_begins_again_if_the_original_changed,
    a_database_in_use_is_not_copied,
    a_restore_is_told_from_an_attack,
    a_restore_that_is_not_signed_excuses_nothing,
    a_second_restore_excuses_what_the_first_one_lost,
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

/// A database of the previous schema version with data, as an update of the program finds it.
async fn a_backup_of_the_previous_version_is_upgraded(place: &Place) {
    let source = Place::sqlite();
    let store = fill(&source, 0, 20).await;
    store.create_token("ci", &Scope::everything(), [7; 32], now_ms()).await.unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/schema");
    let mut steps: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    steps.sort();
    let last = fs::read_to_string(steps.last().unwrap()).unwrap();
    let is_older = |batch: &&Batch| !last.contains(&format!("CREATE TABLE {} ", batch.table));
    let all_batches = batches(&store).await;
    let mut loader = Loader::begin(&place.location, schema() - 1, Existing::Refuse).await.unwrap();
    for batch in all_batches.iter().filter(is_older) {
        loader.add(&batch.table, &batch.text).await.unwrap();
    }
    loader.finish().await.unwrap();
    let upgraded = place.store().await;
    assert_eq!(place.sql("SELECT version FROM schema_version").await, [schema()]);
    assert_eq!(rows(&batches(&upgraded).await), rows(&all_batches));
    assert_eq!((verified(&upgraded).await, upgraded.list_tokens().await.unwrap().len()), (60, 1));
    append(place, &upgraded, vec![refusal(99)]).await;
    assert_eq!(verified(&upgraded).await, 61);
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

/// Stops a copy after some batches, as a killed process does.
async fn copy_partly(store: &Store, target: &Place) {
    let (copying, mut told) = (store.clone(), move |_, done: Progress| {
        // In the middle of `records`, which follow `payloads` and are as many.
        assert!(done.done * 10 < done.total * 7, "stopped here");
    });
    let location = target.location.clone();
    let stopped = tokio::spawn(async move { copying.copy_to(&location, &mut told).await.map(drop) }).await;
    assert!(stopped.is_err(), "it was stopped");
}

async fn a_copy_goes_on_after_an_interruption(place: &Place) {
    let target = other(place);
    let store = fill(place, 0, 300).await;
    let wanted = rows(&batches(&store).await);
    copy_partly(&store, &target).await;
    let partly = target.sql("SELECT count(*) FROM records").await[0];
    assert!((1..600).contains(&partly), "{partly}");
    // No gateway opens it, and no command reads it.
    for opened in [Store::open(&target.location).await, Store::open_read_only(&target.location).await] {
        assert!(matches!(opened, Err(StoreError::HalfCopied { .. })));
    }
    let mut first = None;
    let mut told = |_, done: Progress| first = first.or(Some(done.done));
    let copied = store.copy_to(&target.location, &mut told).await.unwrap();
    assert!(copied.continued && copied.rows == wanted.len() as u64, "{} rows", copied.rows);
    assert!(first.unwrap() > partly.unsigned_abs(), "{first:?}");
    assert_eq!(verified(copied.store()).await, 900);
    assert!(matches!(Store::open(&target.location).await, Err(StoreError::HalfCopied { .. })));
    copied.finish().await.unwrap();
    let copy = target.store().await;
    assert_eq!(rows(&batches(&copy).await), wanted);
    assert_eq!(verified(&copy).await, 900);
    let refused = store.copy_to(&target.location, &mut |_, _| {}).await.err().unwrap();
    assert!(matches!(refused, StoreError::NotEmpty { .. }), "{refused}");
}

async fn a_copy_begins_again_if_the_original_changed(place: &Place) {
    let store = fill(place, 0, 300).await;
    for (change, is_seen_at_once) in [
        // The mark of the source shows the first change. The second one is found by the comparison.
        ("UPDATE tokens_version SET version = version + 1", true),
        ("UPDATE records SET message = 'changed' WHERE key = (SELECT min(key) FROM records)", false),
    ] {
        let target = other(place);
        copy_partly(&store, &target).await;
        place.sql(change).await;
        let mut steps = Vec::new();
        let copied = store.copy_to(&target.location, &mut |step, _| steps.push(step)).await.unwrap();
        assert!(!copied.continued, "{change}");
        steps.dedup();
        let (copy, compare) = (CopyStep::Copy, CopyStep::Compare);
        let expected: &[CopyStep] = if is_seen_at_once { &[copy, compare] } else { &[copy, compare, copy, compare] };
        assert_eq!(steps, expected, "{change}");
        copied.finish().await.unwrap();
        assert_eq!(rows(&batches(&target.store().await).await), rows(&batches(&store).await), "{change}");
    }
}

/// For SQLite, the lock of the data folder takes care of this.
async fn a_database_in_use_is_not_copied(place: &Place) {
    if place.cluster.is_none() {
        return;
    }
    let (store, ledger) = place.open().await;
    let copied = store.copy_to(&Place::sqlite().location, &mut |_, _| {}).await.err();
    assert!(matches!(copied, Some(StoreError::InUse { .. })), "{copied:?}");
    let source = Place::sqlite();
    let copied = source.store().await.copy_to(&place.location, &mut |_, _| {}).await.err();
    assert!(matches!(copied, Some(StoreError::InUse { .. })), "{copied:?}");
    ledger.finish().await.unwrap();
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

/// The log is set back twice. Checkpoints of both replaced histories may be kept elsewhere.
async fn a_second_restore_excuses_what_the_first_one_lost(place: &Place) {
    let backup = batches(&fill(place, 0, 3).await).await;
    let replaced = fill(place, 3, 8).await;
    let (store, restore, _) = restored(place, &backup, &replaced).await;
    append(place, &store, vec![restore.record(now_ms(), 1)]).await;
    let (store, again, old) = restored(place, &backup, &store).await;
    assert_eq!((again.fork, again.lost_to, again.records_gone), (9, Some(24), Some(1)));
    append(place, &store, vec![again.record(now_ms(), 2)]).await;
    assert_eq!(damage(&store, old).await, None);
}
