//! Tests for verifying the log: verdicts on chains, without disturbing a writer.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::fs;

use common::tampering::{damage, verdicts, write};
use common::{Place, call, key, refusal, success};
use mcpproxy_store::{ChainVerdict, Checkpoint, DamageKind, Ledger, LedgerOptions, Outcome, VerifyOptions, WaitFor};

on_both!(
    an_unchanged_log_is_intact,
    every_chain_has_its_own_verdict,
    a_gateway_may_go_on_writing,
    open_calls_are_no_damage,
    calls_in_one_line_are_checked_in_full,
);

async fn an_unchanged_log_is_intact(place: &Place) {
    let store = write(place).await;
    let mut told = Vec::new();
    let found = store.verify(VerifyOptions::default(), &mut |progress| told.push(progress)).await.unwrap();
    let expected = ChainVerdict {
        chain: key(1).verifier().chain().to_owned(),
        lines: 10,
        verified_before: None,
        removed: 0,
        records: 7,
        checkpoints: 2,
        payloads: 9,
        erased: 0,
        last_signed: Some(10),
        is_trusted: false,
        restores: Vec::new(),
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

async fn every_chain_has_its_own_verdict(place: &Place) {
    let store = write(place).await;
    let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(2) };
    let other = Ledger::start(&store, options).await.unwrap();
    for n in 0..3 {
        other.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    other.finish().await.unwrap();
    place.sql("UPDATE records SET tool = 'x' WHERE chain = 1 AND seq = 2").await;
    let found = verdicts(&store, VerifyOptions::default()).await;
    let found: Vec<_> = found.iter().map(|verdict| (verdict.lines, verdict.damage.as_ref().map(|d| d.seq))).collect();
    assert_eq!(found, [(10, None), (1, Some(2))]);
    let damage = damage(&store).await.unwrap();
    let id = damage.id.unwrap();
    assert_eq!(
        damage.to_string(),
        format!("position 2 (record {id}): the record does not match its hash; it was changed")
    );
}

async fn a_gateway_may_go_on_writing(place: &Place) {
    let (store, ledger) = place.open().await;
    let writer = ledger.clone();
    let writing = tokio::spawn(async move {
        let mut open = Vec::new();
        for n in 0..1_500 {
            let wait = if n % 10 == 0 { WaitFor::Disk } else { WaitFor::Queue };
            open.push(writer.open(call(n), wait).await.unwrap());
            if n % 3 == 0 {
                writer.close(open.remove(0), success(), WaitFor::Disk).await.unwrap();
            }
        }
    });
    let mut lines = 0;
    loop {
        let is_over = writing.is_finished();
        // Read before the check, like a file next to the database.
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
    // The next run closes the call, and the log stays intact.
    let ledger = place.ledger(&store).await;
    assert_eq!(ledger.interrupted(), 1);
    ledger.finish().await.unwrap();
    let found = verdicts(&store, VerifyOptions::default()).await;
    assert_eq!((found[0].lines, found[0].last_signed, &found[0].damage), (11, Some(11), &None));
}

/// If an end arrives before its beginning is written, both become one line. That depends on timing.
async fn calls_in_one_line_are_checked_in_full(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut seq = None;
    for n in 0..200 {
        let open = ledger.open(call(n), WaitFor::Queue).await.unwrap();
        let id = open.id().to_string();
        let end = Outcome { metadata: Some("{}".into()), ..success() };
        ledger.close(open, end, WaitFor::Disk).await.unwrap();
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

/// The chain proves the table. Filters read an index, which could lack a row.
#[tokio::test]
async fn an_index_without_a_row_is_found() {
    let place = Place::sqlite();
    write(&place).await.close().await;
    place
        .sql(
            "DROP INDEX records_tool; \
             CREATE INDEX records_tool ON records (tool, key) WHERE tool IS NOT NULL AND seq <> 1; \
             PRAGMA writable_schema = ON; \
             UPDATE sqlite_master SET sql = 'CREATE INDEX records_tool ON records (tool, key) WHERE tool IS NOT NULL' \
             WHERE name = 'records_tool'; \
             PRAGMA writable_schema = OFF",
        )
        .await;
    let store = place.store().await;
    assert_eq!(damage(&store).await, None, "the chain is intact");
    let found = store.file_damage().await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|found| found.contains("records_tool")), "{found:?}");
    place.sql("REINDEX").await;
    assert_eq!(store.file_damage().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_with_damaged_pages_is_found() {
    let place = Place::sqlite();
    write(&place).await.close().await;
    let mcpproxy_store::Location::Sqlite(path) = &place.location else { panic!("a file") };
    let root = place.sql("SELECT rootpage FROM sqlite_master WHERE name = 'records_tool'").await[0];
    let size = place.sql("PRAGMA page_size").await[0];
    let begin = usize::try_from((root - 1) * size).unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[begin..begin + usize::try_from(size).unwrap()].fill(0x5a);
    fs::write(path, bytes).unwrap();
    let store = place.store().await;
    assert!(!store.file_damage().await.unwrap().is_empty());
}
