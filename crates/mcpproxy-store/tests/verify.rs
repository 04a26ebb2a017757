//! Proving the log: whatever was done to it is found, and named.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::fs;
use std::time::Duration;

use common::{NO_RETENTION, Place, call, key, now_ms, payload, refusal, success, until};
use mcpproxy_core::RiskLevel;
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{
    ChainVerdict, Checkpoint, Damage, DamageKind, Filter, Ledger, LedgerOptions, NewRecord, Outcome, Selection, Status,
    Store, StoreError, VerifyOptions, Wait, verify_bundle,
};

on_both!(
    a_log_that_nobody_touched_is_intact,
    every_column_counts,
    rows_that_are_gone_moved_or_put_in_are_found,
    payloads_may_be_erased_but_not_changed,
    a_tail_that_was_cut_is_missed,
    checkpoints_must_be_signed_by_the_chain,
    another_past_is_noticed,
    a_chain_that_is_gone_is_missed,
    every_chain_has_its_own_verdict,
    a_gateway_may_go_on_writing,
    open_calls_are_no_damage,
    calls_in_one_line_are_checked_in_full,
    only_the_gateway_removes_records,
);

/// Positions: 1 a refusal, 2 and 6 a call, 3 and 4 another, 5 a refusal; signed. 7 and 8 a call, 9 a refusal without
/// arguments, 10 a call that is still open; signed.
async fn write(place: &Place) -> Store {
    let (store, ledger) = place.open().await;
    let full = |n: u32| NewRecord { risk: Some(RiskLevel::High), message: Some("m".into()), ..refusal(n) };
    ledger.note(full(1), Wait::Durable).await.unwrap();
    let long = ledger.open(NewRecord { risk: Some(RiskLevel::Low), ..call(2) }, Wait::Durable).await.unwrap();
    let short = ledger.open(call(3), Wait::Durable).await.unwrap();
    ledger.close(short, success(), Wait::Durable).await.unwrap();
    ledger.note(full(4), Wait::Durable).await.unwrap();
    let end = Outcome {
        code: Some("SERVER_ERROR".into()),
        message: Some("it failed".into()),
        metadata: Some(r#"{"late":true}"#.into()),
        status: Status::Error,
        ..success()
    };
    ledger.close(long, end, Wait::Durable).await.unwrap();
    ledger.finish().await.unwrap();
    let ledger = place.ledger(&store).await;
    let third = ledger.open(call(5), Wait::Durable).await.unwrap();
    ledger.close(third, success(), Wait::Durable).await.unwrap();
    ledger.note(NewRecord { args: None, ..refusal(6) }, Wait::Durable).await.unwrap();
    let open = ledger.open(call(7), Wait::Durable).await.unwrap();
    assert_eq!(open.id().time_ms(), call(7).time_ms);
    ledger.finish().await.unwrap();
    store
}

async fn verdicts(store: &Store, options: VerifyOptions) -> Vec<ChainVerdict> {
    store.verify(options, &mut |_| {}).await.unwrap()
}

async fn damage(store: &Store) -> Option<Damage> {
    verdicts(store, VerifyOptions::default()).await.into_iter().find_map(|verdict| verdict.damage)
}

/// Does something to the log, looks what is found, and takes it back.
struct Tampering<'p> {
    place: &'p Place,
    store: Store,
}

const TABLES: [&str; 5] = ["chains", "records", "payloads", "checkpoints", "stubs"];

impl<'p> Tampering<'p> {
    async fn on(place: &'p Place) -> Self {
        Self::over(place, write(place).await).await
    }

    async fn over(place: &'p Place, store: Store) -> Self {
        for table in TABLES {
            place.sql(&format!("CREATE TABLE {table}_before AS SELECT * FROM {table}")).await;
        }
        Self { place, store }
    }

    async fn check(&self, sql: &str, expected: Option<(i64, DamageKind)>) {
        self.run(sql).await;
        let found = damage(&self.store).await;
        assert_eq!(found.map(|damage| (damage.seq, damage.what)), expected, "{sql}");
    }

    /// On the log as it was.
    async fn run(&self, sql: &str) {
        let back = TABLES.map(|table| format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}_before"));
        self.place.sql(&format!("{}; {sql}", back.join("; "))).await;
    }

    async fn changed(&self, change: &str, row: i64, position: i64) {
        self.check(&format!("UPDATE records SET {change} WHERE seq = {row}"), Some((position, DamageKind::Changed)))
            .await;
    }
}

async fn a_log_that_nobody_touched_is_intact(place: &Place) {
    let store = write(place).await;
    let mut told = Vec::new();
    let found = store.verify(VerifyOptions::default(), &mut |progress| told.push(progress)).await.unwrap();
    let expected = ChainVerdict {
        chain: key(1).verifier().chain().to_owned(),
        lines: 10,
        removed: 0,
        records: 7,
        checkpoints: 2,
        payloads: 9,
        erased: 0,
        last_signed: Some(10),
        is_trusted: false,
        damage: None,
    };
    assert_eq!(found, std::slice::from_ref(&expected));
    assert_eq!(told, [mcpproxy_store::Progress { done: 10, total: 10 }]);
    let notes = Checkpoint::notes(&fs::read_to_string(place.all_checkpoints()).unwrap());
    assert_eq!(notes.len(), 2);
    let options = VerifyOptions { checkpoints: notes, trusted: vec![key(1).verifier().clone()] };
    assert_eq!(verdicts(&store, options).await, [ChainVerdict { is_trusted: true, ..expected }]);
    let chains = store.chains().await.unwrap();
    let chain = &chains[0];
    assert_eq!((chains.len(), chain.lines, chain.checkpoints, chain.removed_seq), (1, 10, 2, 0));
    assert_eq!(chain.newest_checkpoint.as_ref().map(|(seq, _)| *seq), Some(10));
    assert_eq!((chain.name.as_str(), &chain.verifier), (key(1).verifier().chain(), &key(1).verifier().to_string()));
}

async fn every_column_counts(place: &Place) {
    let log = Tampering::on(place).await;
    // A line that says it all, and the beginning of a call.
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
    // What belongs to the end, where there is one.
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
    // What an open call cannot have.
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
    // Two rows change places: their positions and hashes, or everything but their ids.
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
    // Without the checkpoints there is nothing to see, unless there are copies.
    log.run(&format!("{cut}; DELETE FROM checkpoints WHERE seq > 6")).await;
    assert_eq!(damage(&log.store).await, None);
    for file in [place.all_checkpoints(), place.newest_checkpoint()] {
        let checkpoints = Checkpoint::notes(&fs::read_to_string(file).unwrap());
        let found = verdicts(&log.store, VerifyOptions { checkpoints, ..VerifyOptions::default() }).await;
        let expected = Damage { seq: 7, id: None, what: DamageKind::Truncated { signed: 10 } };
        assert_eq!(found[0].damage, Some(expected.clone()));
        assert_eq!(
            expected.to_string(),
            "position 7: the log ends before it, but a checkpoint was signed for position 10: the last records are gone"
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
    // A key that was known before is not exchanged for another together with the name.
    log.run(&format!("UPDATE chains SET verifier = '{}', name = '{name}'", other.verifier())).await;
    assert!(damage(&log.store).await.is_some());
    let trusted = vec![key(1).verifier().clone()];
    let found = verdicts(&log.store, VerifyOptions { trusted, ..VerifyOptions::default() }).await;
    assert_eq!(found[1].damage.as_ref().map(|damage| &damage.what), Some(&DamageKind::ChainGone));
    let nonsense = VerifyOptions { checkpoints: vec!["nonsense".into()], ..VerifyOptions::default() };
    let refused = log.store.verify(nonsense, &mut |_| {}).await;
    assert!(matches!(refused, Err(StoreError::Checkpoint { .. })), "{refused:?}");
}

/// The same key signed two histories: one of them is not the one that was signed elsewhere.
async fn another_past_is_noticed(place: &Place) {
    let (store, other_place) = (write(place).await, Place::sqlite());
    let other_store = other_place.store().await;
    let ledger = Ledger::start(&other_store, other_place.options(1)).await.unwrap();
    for n in 0..6 {
        ledger.note(NewRecord { args: Some(payload("other")), ..refusal(n) }, Wait::Durable).await.unwrap();
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
    assert_eq!(damage.to_string(), "the database has no chain of this key");
}

async fn every_chain_has_its_own_verdict(place: &Place) {
    let store = write(place).await;
    let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(2) };
    let other = Ledger::start(&store, options).await.unwrap();
    for n in 0..3 {
        other.note(refusal(n), Wait::Durable).await.unwrap();
    }
    other.finish().await.unwrap();
    place.sql("UPDATE records SET tool = 'x' WHERE chain = 1 AND seq = 2").await;
    let found = verdicts(&store, VerifyOptions::default()).await;
    let found: Vec<_> = found.iter().map(|verdict| (verdict.lines, verdict.damage.as_ref().map(|d| d.seq))).collect();
    assert_eq!(found, [(10, None), (1, Some(2))]);
    let damage = damage(&store).await.unwrap();
    let id = damage.id.unwrap();
    assert_eq!(damage.to_string(), format!("position 2 (record {id}): its content does not match its hash"));
}

async fn a_gateway_may_go_on_writing(place: &Place) {
    let (store, ledger) = place.open().await;
    let writer = ledger.clone();
    let writing = tokio::spawn(async move {
        let mut open = Vec::new();
        for n in 0..1_500 {
            let wait = if n % 10 == 0 { Wait::Durable } else { Wait::Batched };
            open.push(writer.open(call(n), wait).await.unwrap());
            if n % 3 == 0 {
                writer.close(open.remove(0), success(), Wait::Durable).await.unwrap();
            }
        }
    });
    let mut lines = 0;
    loop {
        let is_over = writing.is_finished();
        // Read before, as a file beside the database is.
        let note = fs::read_to_string(place.newest_checkpoint()).ok();
        let options = VerifyOptions { checkpoints: note.into_iter().collect(), ..VerifyOptions::default() };
        let found = verdicts(&store, options).await;
        assert_eq!(found[0].damage, None);
        assert!(found[0].lines >= lines);
        lines = found[0].lines;
        if is_over {
            break;
        }
    }
    writing.await.unwrap();
    ledger.finish().await.unwrap();
    let found = verdicts(&store, VerifyOptions::default()).await;
    assert_eq!((found[0].records, found[0].last_signed, &found[0].damage), (1_500, Some(found[0].lines), &None));
    assert!(found[0].checkpoints >= 2 && found[0].lines >= lines);
}

async fn open_calls_are_no_damage(place: &Place) {
    let store = write(place).await;
    place.sql("DELETE FROM checkpoints").await;
    let found = verdicts(&store, VerifyOptions::default()).await;
    assert_eq!((found[0].last_signed, found[0].checkpoints, &found[0].damage), (None, 0, &None));
    // The next run closes the call, and the log stays whole.
    let ledger = place.ledger(&store).await;
    assert_eq!(ledger.interrupted(), 1);
    ledger.finish().await.unwrap();
    let found = verdicts(&store, VerifyOptions::default()).await;
    assert_eq!((found[0].lines, found[0].last_signed, &found[0].damage), (11, Some(11), &None));
}

async fn only_the_gateway_removes_records(place: &Place) {
    use DamageKind::{Inserted, UnsignedRemoval};
    let (store, ledger) = place.open().await;
    let young = |n: u32| NewRecord { time_ms: now_ms(), ..refusal(n) };
    // Positions 1 to 3 are years old, and the call that began at 2 ended at 5.
    ledger.note(refusal(1), Wait::Durable).await.unwrap();
    let long = ledger.open(call(2), Wait::Durable).await.unwrap();
    ledger.note(refusal(3), Wait::Durable).await.unwrap();
    ledger.note(young(4), Wait::Durable).await.unwrap();
    ledger.close(long, success(), Wait::Durable).await.unwrap();
    for n in 6..9 {
        ledger.note(young(n), Wait::Durable).await.unwrap();
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
    // One more than the gateway removed, with everything that follows from it.
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

/// An end that comes before its beginning was written makes one line of both. Whether it does is a matter of luck.
async fn calls_in_one_line_are_checked_in_full(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut seq = None;
    for n in 0..200 {
        let open = ledger.open(call(n), Wait::Batched).await.unwrap();
        let id = open.id().to_string();
        let end = Outcome { metadata: Some("{}".into()), ..success() };
        ledger.close(open, end, Wait::Durable).await.unwrap();
        let record = store.find(&id).await.unwrap().unwrap().record;
        seq = record.end_seq.is_none().then_some(record.seq);
        if seq.is_some() {
            break;
        }
    }
    ledger.finish().await.unwrap();
    let seq = seq.unwrap();
    assert_eq!(damage(&store).await, None);
    for (change, back) in [
        ("status = 'error'", "status = 'success'"),
        ("duration_us = 5", "duration_us = 1234567"),
        ("result_bytes = 5", "result_bytes = 4"),
        ("end_metadata = NULL", "end_metadata = '{}'"),
        ("end_metadata = '{},\"args\":{}'", "end_metadata = '{}'"),
    ] {
        place.sql(&format!("UPDATE records SET {change} WHERE seq = {seq}")).await;
        let found = damage(&store).await.map(|damage| (damage.seq, damage.what));
        assert_eq!(found, Some((seq, DamageKind::Changed)), "{change}");
        place.sql(&format!("UPDATE records SET {back} WHERE seq = {seq}")).await;
    }
    place
        .sql(&format!("UPDATE payloads SET result = 'x' WHERE key = (SELECT key FROM records WHERE seq = {seq})"))
        .await;
    let found = damage(&store).await.map(|damage| (damage.seq, damage.what));
    assert_eq!(found, Some((seq, DamageKind::ResultChanged)));
}
