//! Tests for what a verification reads again: new lines only, or everything, and why.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use mcpproxy_core::settings::Retention;
use mcpproxy_store::{
    DamageKind, FullReason, Ledger, LedgerOptions, NewRecord, Progress, VerifiedBefore, VerifyExtent, WaitFor,
};

use crate::common::{self, NO_RETENTION, Place, call, key, now_ms, refusal, success, until};
use crate::{DAY_MS, Log, NOW_MS, Run, damage};

on_both!(
    only_new_lines_are_read,
    everything_is_read_in_doubt,
    a_small_chain_is_always_read,
    a_rotated_key_makes_it_read_everything,
    retention_and_a_new_chain_are_no_reason,
);

async fn only_new_lines_are_read(place: &Place) {
    let log = Log::verified(place).await;
    log.extend(20..25).await;
    let mut told = Vec::new();
    let found = log.verify_watched(Run { now_ms: NOW_MS + 5, ..log.run() }, &mut |done| told.push(done)).await;
    let new = log.end().await - 10;
    assert!(new >= 6, "the open call ended, and five records were added");
    assert_eq!(told, [Progress { done: new.unsigned_abs(), total: new.unsigned_abs() }]);
    let chain = &found.chains[0];
    let before = VerifiedBefore { seq: 10, lines: 10, time_ms: NOW_MS };
    assert_eq!((chain.lines, chain.verified_before, chain.last_signed), (new, Some(before), Some(10 + new)));
    assert_eq!((found.is_full(), found.is_intact(), found.last_full_ms), (false, true, Some(NOW_MS)));
    let expected = format!("intact since the last verification: {new} new lines in 1 chain; 10 lines not read again");
    assert_eq!(found.summary(), expected);

    // The next one goes on after that, and still knows when everything was read.
    let found = log.verify_as(Run { now_ms: NOW_MS + 9, ..log.run() }).await;
    let before = VerifiedBefore { seq: 10 + new, lines: 10 + new, time_ms: NOW_MS + 5 };
    assert_eq!((found.chains[0].lines, found.chains[0].verified_before), (0, Some(before)));
    assert_eq!(found.last_full_ms, Some(NOW_MS));

    let found = log.verify_as(Run { extent: VerifyExtent::Everything, ..log.run() }).await;
    assert_eq!((found.full.clone(), found.chains[0].lines), (Some(FullReason::Asked), 10 + new));
    assert_eq!(found.summary(), format!("intact: {} lines in 1 chain", 10 + new));
}

async fn everything_is_read_in_doubt(place: &Place) {
    let log = Log::verified(place).await;
    log.extend(20..25).await;
    let kept = fs::read_to_string(log.file()).unwrap();
    let check = async |expected: Option<FullReason>, run: Run| {
        let found = log.verify_as(run).await;
        assert_eq!((found.full.as_ref(), damage(&found)), (expected.as_ref(), None));
        assert_eq!(found.chains[0].verified_before.is_some(), expected.is_none());
        fs::remove_file(log.file()).unwrap();
        fs::write(log.file(), &kept).unwrap();
        fs::set_permissions(log.file(), Permissions::from_mode(0o600)).unwrap();
    };
    let at = |now_ms: i64| Run { now_ms, ..log.run() };
    check(None, log.run()).await;
    check(Some(FullReason::Asked), Run { extent: VerifyExtent::Everything, ..log.run() }).await;
    check(None, at(NOW_MS + 7 * DAY_MS)).await;
    check(Some(FullReason::Old), at(NOW_MS + 7 * DAY_MS + 1)).await;
    check(Some(FullReason::Old), at(NOW_MS - 1)).await;
    log.edit("\"program\":\"", "\"program\":\"9");
    check(Some(FullReason::OtherProgram), log.run()).await;
    log.edit("\"database\":\"", "\"database\":\"9");
    check(Some(FullReason::OtherDatabase), log.run()).await;
    log.edit("\"turns\":\"", "\"turns\":\"9");
    check(Some(FullReason::Turned), log.run()).await;
    log.edit("\"format\":1", "\"format\":2");
    let form = || FullReason::Unreadable { why: "it is not in the expected form".to_owned() };
    check(Some(form()), log.run()).await;
    // A position that the key of the chain did not sign.
    log.edit("\\n10\\n", "\\n12\\n");
    check(Some(form()), log.run()).await;
    fs::set_permissions(log.file(), Permissions::from_mode(0o620)).unwrap();
    let why = "other users can write it".to_owned();
    check(Some(FullReason::Unreadable { why }), log.run()).await;
    check(None, log.run()).await;
    fs::remove_file(log.file()).unwrap();
    let found = log.verify().await;
    assert_eq!(found.full, Some(FullReason::NoState));
}

async fn a_small_chain_is_always_read(place: &Place) {
    let log = Log::verified(place).await;
    let lines = log.end().await;
    let found = log.verify_as(Run { small_lines: lines, ..log.run() }).await;
    assert_eq!((found.full, found.chains[0].lines), (Some(FullReason::Small), lines));
    let found = log.verify_as(Run { small_lines: lines - 1, ..log.run() }).await;
    assert_eq!((found.full, found.chains[0].lines), (None, 0));
    // So tampering with a small log is always found.
    place.sql("UPDATE records SET tool = 'other' WHERE seq = 5").await;
    let found = log.verify_as(Run { small_lines: lines, ..log.run() }).await;
    assert_eq!(damage(&found), Some((5, DamageKind::Changed)));
}

async fn a_rotated_key_makes_it_read_everything(place: &Place) {
    let log = Log::verified(place).await;
    let ledger = place.ledger(&log.store).await;
    ledger.append(key(1).rotated_to(key(2).verifier(), now_ms(), 2), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let found = log.verify().await;
    assert_eq!((found.full.clone(), damage(&found)), (Some(FullReason::Turned), None));
    assert_eq!(log.verify().await.full, None);
}

async fn retention_and_a_new_chain_are_no_reason(place: &Place) {
    let (store, ledger) = place.open().await;
    let young = |n: u32| NewRecord { time_ms: now_ms(), ..refusal(n) };
    // Positions 1 to 3 are years old, and the call that began at 2 ended at 5.
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    let long = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    ledger.append(refusal(3), WaitFor::Disk).await.unwrap();
    ledger.append(young(4), WaitFor::Disk).await.unwrap();
    ledger.close(long, success(), WaitFor::Disk).await.unwrap();
    ledger.append(young(6), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let log = Log { place, store };
    assert!(log.verify().await.is_intact());

    let retention = Retention { records: Some(Duration::from_secs(3600)), ..NO_RETENTION };
    let ledger = Ledger::start(&log.store, LedgerOptions { retention, ..place.options(1) }).await.unwrap();
    until("old records are gone", async || place.sql("SELECT removed_seq FROM chains").await == [3]).await;
    ledger.append(young(7), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(2) };
    let second = Ledger::start(&log.store, options).await.unwrap();
    second.append(young(8), WaitFor::Disk).await.unwrap();
    second.finish().await.unwrap();
    let found = log.verify().await;
    assert_eq!((found.full.clone(), damage(&found)), (None, None));
    let [first, other] = found.chains.as_slice() else { panic!("two chains") };
    let before = VerifiedBefore { seq: 6, lines: 3, time_ms: NOW_MS };
    assert_eq!((first.removed, first.lines, first.verified_before), (3, 1, Some(before)));
    assert_eq!((other.lines, other.verified_before), (1, None), "a new chain is read from its start");
    assert_eq!(log.verify().await.full, None);
}
