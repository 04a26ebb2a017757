//! Tests that every change to the log is detected and named.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::fs;
use std::time::Duration;

use common::tampering::{TABLES, Tampering, damage, verdicts, write};
use common::{NO_RETENTION, Place, call, key, now_ms, payload, refusal, success, until};
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{
    Checkpoint, Damage, DamageKind, Filter, Ledger, LedgerOptions, NewRecord, Selection, StoreError, VerifyOptions,
    WaitFor, verify_bundle,
};

on_both!(
    every_column_counts,
    rows_that_are_gone_moved_or_put_in_are_found,
    payloads_may_be_erased_but_not_changed,
    a_tail_that_was_cut_is_missed,
    checkpoints_must_be_signed_by_the_chain,
    another_past_is_noticed,
    a_chain_that_is_gone_is_missed,
    only_the_gateway_removes_records,
);

async fn every_column_counts(place: &Place) {
    let log = Tampering::on(place).await;
    // A `whole` line, and the `begin` line of a call.
    for row in [5, 2] {
        for change in [
            "key = key + 1",
            "tail = tail + 1",
            "tail = -tail",
            "tail = tail + 576460752303423488",
            "hash = (SELECT hash FROM records WHERE seq = 1)",
            "kind = 'auth'",
            "kind = 'unheard of'",
            "agent = 'eve'",
            "agent = NULL",
            "client = NULL",
            "server = 'other'",
            "tool = 'other'",
            "intent_type = 'read'",
            "intent_type = 'none'",
            "intent_type = NULL",
            "risk = 'medium'",
            "risk = NULL",
            "metadata = '{}'",
            "metadata = metadata || ' '",
            "metadata = ''",
            "args_bytes = args_bytes + 1",
            "args_bytes = -args_bytes",
            "args_bytes = NULL",
            "args_digest = result_digest",
            "args_digest = (SELECT hash FROM records WHERE seq = 1)",
        ] {
            log.changed(change, row, row).await;
        }
    }
    // Columns that belong to the `end` line, if there is one.
    for (row, position) in [(5, 5), (2, 6)] {
        for change in [
            "status = 'cancelled'",
            "code = 'OTHER'",
            "code = NULL",
            "message = 'other'",
            "message = NULL",
            "duration_us = 1",
            "result_bytes = 1, result_digest = hash",
            "end_metadata = '{}'",
        ] {
            log.changed(change, row, position).await;
        }
    }
    for change in [
        "status = 'unheard of'",
        "end_hash = NULL",
        "end_seq = NULL",
        "status = 'started', end_seq = NULL, end_hash = NULL, end_metadata = NULL",
    ] {
        log.changed(change, 2, 2).await;
    }
    log.changed("duration_us = -duration_us", 2, 2).await;
    log.changed("end_hash = hash", 2, 6).await;
    log.changed("end_metadata = NULL", 2, 6).await;
    log.changed("end_metadata = '{\"late\":true},\"x\":{}'", 2, 6).await;
    // Columns that an open call must not have.
    for change in [
        "code = 'X'",
        "message = 'x'",
        "duration_us = 1",
        "result_bytes = 1, result_digest = hash",
        "end_metadata = '{}'",
    ] {
        log.changed(change, 10, 10).await;
    }
    log.changed("end_hash = hash", 5, 5).await;
}

async fn rows_that_are_gone_moved_or_put_in_are_found(place: &Place) {
    use DamageKind::{Changed, Doubled, Inserted, Missing, NoSuchChain};
    let log = Tampering::on(place).await;
    for (row, position) in [(1, 1), (2, 2), (5, 5), (7, 7)] {
        log.check(&format!("DELETE FROM records WHERE seq = {row}"), Some((position, Missing))).await;
        log.check(&format!("UPDATE records SET seq = seq + 1000 WHERE seq = {row}"), Some((position, Missing))).await;
    }
    log.check("UPDATE records SET end_seq = 1000 WHERE seq = 2", Some((6, Missing))).await;
    log.check("UPDATE records SET end_seq = 5 WHERE seq = 2", Some((5, Changed))).await;
    log.check("UPDATE records SET end_seq = 1 WHERE seq = 2", Some((1, Doubled))).await;
    log.check("UPDATE records SET chain = 1 WHERE seq = 5", Some((5, Missing))).await;
    log.check("UPDATE records SET chain = 1", Some((1, DamageKind::Truncated { signed: 10 }))).await;
    // Two rows swap positions and hashes, or everything but their ids.
    let swap = |columns: &str| {
        format!(
            "UPDATE records SET seq = -seq WHERE seq IN (1, 5); \
             UPDATE records SET seq = 6 + seq, {columns} WHERE seq < 0"
        )
    };
    log.check(&swap("code = code"), Some((1, Changed))).await;
    let other = "(SELECT b.hash FROM records_before AS b WHERE b.seq = 6 + records.seq)";
    log.check(&swap(&format!("hash = {other}")), Some((1, Changed))).await;
    let insert = |seq: &str, key: &str, number: &str| {
        format!(
            "INSERT INTO records (key, tail, chain, seq, hash, kind, status, metadata) \
             SELECT {key}, tail, {number}, {seq}, hash, kind, status, metadata FROM records WHERE seq = 5"
        )
    };
    log.check(&insert("11", "key + 1", "chain"), Some((11, Changed))).await;
    log.check(&insert("6", "key + 1", "chain"), Some((6, Doubled))).await;
    log.check(&insert("0", "key + 1", "chain"), Some((0, Inserted))).await;
    log.check(&insert("-3", "key + 1", "chain"), Some((-3, Inserted))).await;
    log.check(&insert("1", "key + 512", "1"), Some((1, NoSuchChain))).await;
    log.check("UPDATE chains SET removed_hash = (SELECT hash FROM records WHERE seq = 1)", Some((0, Changed))).await;
}

async fn payloads_may_be_erased_but_not_changed(place: &Place) {
    use DamageKind::{ArgsChanged, ResultChanged};
    let log = Tampering::on(place).await;
    let of = |row: i64| format!("WHERE key = (SELECT key FROM records WHERE seq = {row})");
    log.check(&format!("DELETE FROM payloads {}", of(5)), None).await;
    log.check(&format!("UPDATE payloads SET args = NULL {}", of(2)), None).await;
    log.check(&format!("UPDATE payloads SET args = args || ' ' {}", of(2)), Some((2, ArgsChanged))).await;
    log.check(&format!("UPDATE payloads SET args = '' {}", of(5)), Some((5, ArgsChanged))).await;
    log.check(&format!("UPDATE payloads SET result = 'other' {}", of(2)), Some((6, ResultChanged))).await;
    log.check(&format!("UPDATE payloads SET result = 'other' {}", of(7)), Some((8, ResultChanged))).await;
    log.check(&format!("UPDATE payloads SET result = 'new' {}", of(5)), Some((5, ResultChanged))).await;
    log.check(&format!("UPDATE payloads SET result = 'early' {}", of(10)), Some((10, ResultChanged))).await;
    let new = "INSERT INTO payloads (key, args) SELECT key, '{}' FROM records WHERE seq = 9";
    log.check(new, Some((9, ArgsChanged))).await;
    log.run("DELETE FROM payloads").await;
    let verdict = &verdicts(&log.store, VerifyOptions::default()).await[0];
    assert_eq!((verdict.payloads, verdict.erased, &verdict.damage), (0, 9, &None));
}

async fn a_tail_that_was_cut_is_missed(place: &Place) {
    let log = Tampering::on(place).await;
    let cut = "DELETE FROM records WHERE seq >= 7";
    log.check(cut, Some((7, DamageKind::Truncated { signed: 10 }))).await;
    log.check("DELETE FROM records", Some((1, DamageKind::Truncated { signed: 10 }))).await;
    // Without the checkpoints nothing is detected, unless there are copies.
    log.run(&format!("{cut}; DELETE FROM checkpoints WHERE seq > 6")).await;
    assert_eq!(damage(&log.store).await, None);
    for file in [place.all_checkpoints(), place.newest_checkpoint()] {
        let checkpoints = Checkpoint::notes(&fs::read_to_string(file).unwrap());
        let found = verdicts(&log.store, VerifyOptions { checkpoints, ..VerifyOptions::default() }).await;
        let expected = Damage { seq: 7, id: None, what: DamageKind::Truncated { signed: 10 } };
        assert_eq!(found[0].damage, Some(expected.clone()));
        assert_eq!(
            expected.to_string(),
            "position 7: the log ends before this position, but position 10 was signed; the last records are missing"
        );
    }
}

async fn checkpoints_must_be_signed_by_the_chain(place: &Place) {
    use DamageKind::{WrongCheckpoint, WrongKey};
    let log = Tampering::on(place).await;
    let wrong = Some((6, WrongCheckpoint));
    log.check("UPDATE checkpoints SET note = '' WHERE seq = 6", wrong.clone()).await;
    log.check("UPDATE checkpoints SET note = replace(note, 'Z', '1Z') WHERE seq = 6", wrong.clone()).await;
    log.check("UPDATE checkpoints SET seq = 5 WHERE seq = 6", Some((5, WrongCheckpoint))).await;
    let other = key(2);
    log.check(&format!("UPDATE chains SET verifier = '{}'", other.verifier()), Some((0, WrongKey))).await;
    let name = other.verifier().chain();
    log.check(&format!("UPDATE chains SET name = '{name}'"), Some((0, WrongKey))).await;
    // A trusted key detects a chain whose key and name were both replaced.
    log.run(&format!("UPDATE chains SET verifier = '{}', name = '{name}'", other.verifier())).await;
    assert!(damage(&log.store).await.is_some());
    let trusted = vec![key(1).verifier().clone()];
    let found = verdicts(&log.store, VerifyOptions { trusted, ..VerifyOptions::default() }).await;
    assert_eq!(found[1].damage.as_ref().map(|damage| &damage.what), Some(&DamageKind::ChainGone));
    let nonsense = VerifyOptions { checkpoints: vec!["nonsense".into()], ..VerifyOptions::default() };
    let refused = log.store.verify(nonsense, &mut |_| {}).await;
    assert!(matches!(refused, Err(StoreError::Checkpoint { .. })), "{refused:?}");
}

/// The same key signed two histories, and a saved checkpoint tells which one is false.
async fn another_past_is_noticed(place: &Place) {
    let (store, other_place) = (write(place).await, Place::sqlite());
    let other_store = other_place.store().await;
    let ledger = Ledger::start(&other_store, other_place.options(1)).await.unwrap();
    for n in 0..6 {
        ledger.append(NewRecord { args: Some(payload("other")), ..refusal(n) }, WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let checkpoints = Checkpoint::notes(&fs::read_to_string(other_place.newest_checkpoint()).unwrap());
    let found = verdicts(&store, VerifyOptions { checkpoints, ..VerifyOptions::default() }).await;
    let expected = Damage { seq: 6, id: None, what: DamageKind::Rewritten { trusted: 6 } };
    assert_eq!(found[0].damage, Some(expected));
}

async fn a_chain_that_is_gone_is_missed(place: &Place) {
    let store = write(place).await;
    let checkpoints = Checkpoint::notes(&fs::read_to_string(place.newest_checkpoint()).unwrap());
    for table in TABLES {
        place.sql(&format!("DELETE FROM {table}")).await;
    }
    assert_eq!(verdicts(&store, VerifyOptions::default()).await, []);
    let options = VerifyOptions { checkpoints, trusted: vec![key(1).verifier().clone()] };
    let found = verdicts(&store, options.clone()).await;
    let what = DamageKind::Truncated { signed: 10 };
    assert_eq!(
        found.iter().map(|verdict| verdict.damage.clone()).collect::<Vec<_>>(),
        [Some(Damage { seq: 1, id: None, what })]
    );
    let options = VerifyOptions { checkpoints: vec![], ..options };
    let damage = verdicts(&store, options).await[0].damage.clone().unwrap();
    assert_eq!(damage.to_string(), "the database has no chain for this key");
}

async fn only_the_gateway_removes_records(place: &Place) {
    use DamageKind::{Inserted, UnsignedRemoval};
    let (store, ledger) = place.open().await;
    let young = |n: u32| NewRecord { time_ms: now_ms(), ..refusal(n) };
    // Positions 1 to 3 are years old, and the call that began at 2 ended at 5.
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    let long = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(3), WaitFor::Disk).await.unwrap();
    ledger.append(young(4), WaitFor::Disk).await.unwrap();
    ledger.close(long, success(), WaitFor::Disk).await.unwrap();
    for n in 6..9 {
        ledger.append(young(n), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let retention = Retention { records: Some(Duration::from_secs(3600)), ..NO_RETENTION };
    let ledger = Ledger::start(&store, LedgerOptions { retention, ..place.options(1) }).await.unwrap();
    until("old records are gone", async || place.sql("SELECT removed_seq FROM chains").await == [3]).await;
    ledger.finish().await.unwrap();
    let verdict = &verdicts(&store, VerifyOptions::default()).await[0];
    assert_eq!((verdict.removed, verdict.lines, verdict.records, &verdict.damage), (3, 5, 4, &None));
    let mut bundle = Vec::new();
    let selection =
        Selection { filter: Filter::default(), id: None, chain: None, key: None, newest: None, now_ms: now_ms() };
    store.export_signed(&selection, &mut bundle, &mut |_| {}).await.unwrap();
    let proved = verify_bundle(bundle.as_slice(), Some(key(1).verifier()), &mut |_| {}).unwrap();
    assert_eq!((proved.first, proved.last, proved.lines, proved.digests), (4, 8, 4, 1));

    let log = Tampering::over(place, store).await;
    let unsigned = Some((3, UnsignedRemoval));
    // One more than the gateway removed, with all dependent values changed to match.
    let more = "UPDATE chains SET removed_seq = 4, removed_hash = (SELECT hash FROM records WHERE seq = 4); \
                DELETE FROM records WHERE seq = 4";
    log.check(more, Some((4, UnsignedRemoval))).await;
    let stub = "INSERT INTO stubs (chain, seq, digest) SELECT chain, seq, hash FROM records WHERE seq = 6; \
                DELETE FROM records WHERE seq = 6";
    log.check(stub, unsigned.clone()).await;
    log.check("DELETE FROM stubs", unsigned.clone()).await;
    log.check("UPDATE stubs SET seq = 6", unsigned.clone()).await;
    log.check("UPDATE stubs SET digest = (SELECT hash FROM records WHERE seq = 4)", unsigned.clone()).await;
    log.check("UPDATE chains SET removed_note = NULL", unsigned.clone()).await;
    log.check("UPDATE chains SET removed_note = (SELECT note FROM checkpoints LIMIT 1)", unsigned.clone()).await;
    log.check("UPDATE chains SET removed_hash = (SELECT hash FROM records WHERE seq = 4)", unsigned).await;
    log.check("UPDATE chains SET removed_seq = 0; DELETE FROM stubs", Some((0, DamageKind::Changed))).await;
    let insert = "INSERT INTO records (key, tail, chain, seq, hash, kind, status, metadata) \
                  SELECT key - 5000, tail, chain, 2, hash, kind, status, metadata FROM records WHERE seq = 4";
    log.check(insert, Some((2, Inserted))).await;
}
