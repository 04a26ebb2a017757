//! Tests for lines that were changed since the last verification, or before it.

use std::fs;

use mcpproxy_store::{DamageKind, FullReason};

use crate::common::tampering::Tampering;
use crate::common::{self, Place, key};
use crate::{DAY_MS, Log, NOW_MS, Run, damage};

on_both!(
    tampering_with_new_lines_is_found,
    tampering_with_old_lines_is_found_by_a_full_run,
    a_checkpoint_that_is_gone_makes_it_read_everything,
    records_that_extend_trust_are_read_again,
    a_new_date_at_an_old_position_is_found,
);

async fn tampering_with_new_lines_is_found(place: &Place) {
    use DamageKind::{ArgsChanged, Changed, Missing, ResultChanged, Truncated};
    let log = Log::verified(place).await;
    log.extend(20..25).await;
    let (state, end) = (fs::read_to_string(log.file()).unwrap(), log.end().await);
    let tampering = Tampering::over(place, log.store.clone()).await;
    let payload = |part: &str, row: i64| {
        format!("UPDATE payloads SET {part} = 'x' WHERE key = (SELECT key FROM records WHERE seq = {row})")
    };
    for (sql, expected) in [
        ("UPDATE records SET tool = 'other' WHERE seq = 13".to_owned(), (13, Changed)),
        ("DELETE FROM records WHERE seq = 13".to_owned(), (13, Missing)),
        (payload("args", 13), (13, ArgsChanged)),
        (payload("result", 13), (13, ResultChanged)),
        // The end of a call that began before.
        ("UPDATE records SET status = 'success' WHERE seq = 10".to_owned(), (11, Changed)),
        ("UPDATE records SET end_seq = 1000 WHERE seq = 10".to_owned(), (11, Missing)),
        (format!("DELETE FROM records WHERE seq = {end}"), (end, Truncated { signed: end })),
        (
            "DELETE FROM checkpoints WHERE seq > 10; DELETE FROM records WHERE seq > 12".to_owned(),
            (13, Truncated { signed: end }),
        ),
    ] {
        fs::write(log.file(), &state).unwrap();
        tampering.run(&sql).await;
        let found = log.verify().await;
        assert_eq!((damage(&found), found.full.clone()), (Some(expected), None), "{sql}");
        let found = log.verify().await;
        assert_eq!((found.full.clone(), found.is_intact()), (Some(FullReason::DamagedBefore), false), "{sql}");
    }
}

async fn tampering_with_old_lines_is_found_by_a_full_run(place: &Place) {
    let log = Log::verified(place).await;
    log.extend(20..25).await;
    place.sql("UPDATE records SET tool = 'other' WHERE seq = 5").await;
    let found = log.verify().await;
    assert_eq!((found.full.clone(), damage(&found)), (None, None), "these lines are not read again");
    assert!(found.summary().starts_with("intact since the last verification"), "{}", found.summary());
    let found = log.verify_as(Run { now_ms: NOW_MS + 8 * DAY_MS, ..log.run() }).await;
    assert_eq!((found.full.clone(), damage(&found)), (Some(FullReason::Old), Some((5, DamageKind::Changed))));
    let found = log.verify().await;
    let expected = (Some(FullReason::DamagedBefore), Some((5, DamageKind::Changed)));
    assert_eq!((found.full.clone(), damage(&found)), expected, "it is not forgotten");
    place.sql("UPDATE records SET tool = 'send' WHERE seq = 5").await;
    assert_eq!(log.verify().await.full, Some(FullReason::DamagedBefore));
    assert_eq!(log.verify().await.full, None, "an intact run ends it");
}

async fn a_checkpoint_that_is_gone_makes_it_read_everything(place: &Place) {
    use DamageKind::{Changed, Missing, WrongCheckpoint, WrongKey};
    let log = Log::verified(place).await;
    log.extend(20..25).await;
    let state = fs::read_to_string(log.file()).unwrap();
    let tampering = Tampering::over(place, log.store.clone()).await;
    let gone = || FullReason::CheckpointGone { chain: key(1).verifier().chain().to_owned() };
    let old = "UPDATE records SET tool = 'other' WHERE seq = 5";
    let other_key = format!("UPDATE chains SET verifier = '{}'", key(2).verifier());
    for (sql, reason, expected) in [
        ("DELETE FROM checkpoints WHERE seq = 10".to_owned(), gone(), None),
        (format!("DELETE FROM checkpoints WHERE seq = 10; {old}"), gone(), Some((5, Changed))),
        ("UPDATE checkpoints SET note = '' WHERE seq = 10".to_owned(), gone(), Some((10, WrongCheckpoint))),
        (
            "UPDATE records SET hash = (SELECT hash FROM records_before AS b WHERE b.seq = 1) WHERE seq = 10"
                .to_owned(),
            gone(),
            Some((10, Changed)),
        ),
        ("DELETE FROM records WHERE seq = 10".to_owned(), gone(), Some((10, Missing))),
        (other_key, FullReason::Damaged, Some((0, WrongKey))),
    ] {
        fs::write(log.file(), &state).unwrap();
        tampering.run(&sql).await;
        let found = log.verify().await;
        assert_eq!((found.full.clone(), damage(&found)), (Some(reason), expected), "{sql}");
    }
}

/// These records are believed before the chain is read. So a false one among the old lines must not count.
async fn records_that_extend_trust_are_read_again(place: &Place) {
    let log = Log::verified(place).await;
    log.extend(20..25).await;
    let state = fs::read_to_string(log.file()).unwrap();
    let tampering = Tampering::over(place, log.store.clone()).await;
    let restored = r#"{"backup":"2099-01-01T00:00:00.000Z","time":"2099-01-01T00:00:00.000Z","backup_seq":10,"fork":10,"lost_to":99,"records_gone":0}"#;
    let continues = format!(r#"{{"old_key":"{}","old_seq":3,"old_hash":"{}"}}"#, key(9).verifier(), "00".repeat(32));
    for (code, metadata) in [("restored", restored), ("key_continues", &continues), ("key_rotated", "{}")] {
        fs::write(log.file(), &state).unwrap();
        // With a false restore, the end could be cut off, although `checkpoint.txt` signs it.
        tampering
            .run(&format!(
                "UPDATE records SET kind = 'settings', code = '{code}', metadata = '{metadata}' WHERE seq = 5; \
                 DELETE FROM checkpoints WHERE seq > 10; DELETE FROM records WHERE seq > 11"
            ))
            .await;
        let found = log.verify().await;
        assert_eq!(found.full, Some(FullReason::Turned), "{code}");
        assert_eq!(damage(&found), Some((5, DamageKind::Changed)), "{code}");
    }
}

/// Lists show records by their times, and a verification that continues reads them by their positions.
async fn a_new_date_at_an_old_position_is_found(place: &Place) {
    let log = Log::verified(place).await;
    log.extend(20..25).await;
    let state = fs::read_to_string(log.file()).unwrap();
    let tampering = Tampering::over(place, log.store.clone()).await;
    // Only the end of a call has position 6, so the index of first lines has room there.
    let forged = "INSERT INTO records (key, tail, chain, seq, hash, kind, status, metadata) \
                  SELECT max(key) + 1, 1, 0, 6, (SELECT hash FROM records WHERE seq = 1), 'approval', 'success', '{}' \
                  FROM records";
    let dated_anew = "UPDATE records SET key = (SELECT max(key) FROM records) + 1 WHERE seq = 5";
    for (sql, expected) in [(forged, (6, DamageKind::Doubled)), (dated_anew, (5, DamageKind::Changed))] {
        fs::write(log.file(), &state).unwrap();
        tampering.run(sql).await;
        let found = log.verify().await;
        let reason = FullReason::Misplaced { chain: key(1).verifier().chain().to_owned() };
        assert_eq!((found.full.clone(), damage(&found)), (Some(reason), Some(expected)), "{sql}");
    }
}
