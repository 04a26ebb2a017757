//! Tests for verifications that continue the last one: when they may, and what they find.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use common::tampering::{Tampering, write};
use common::{NO_RETENTION, Place, call, key, now_ms, refusal, success, until};
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{
    Checkpoint, DamageKind, FullReason, Ledger, LedgerOptions, NewRecord, NotKept, Progress, Store, VERIFIED_FILE,
    VerifiedBefore, VerifiedLog, VerifyExtent, VerifyOptions, VerifyRun, WaitFor,
};

on_both!(
    only_new_lines_are_read,
    everything_is_read_in_doubt,
    a_small_chain_is_always_read,
    tampering_with_new_lines_is_found,
    tampering_with_old_lines_is_found_by_a_full_run,
    a_checkpoint_that_is_gone_makes_it_read_everything,
    records_that_extend_trust_are_read_again,
    a_rotated_key_makes_it_read_everything,
    new_witnesses_are_heard_in_full,
    the_last_verification_is_a_witness,
    another_past_is_noticed,
    a_state_that_another_run_removed_stays_removed,
    damage_that_another_run_noted_stays_noted,
    damage_that_cannot_be_noted_removes_the_state,
    a_new_date_at_an_old_position_is_found,
    an_older_witness_does_not_replace_a_newer_one,
    retention_and_a_new_chain_are_no_reason,
);

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const NOW_MS: i64 = 1_800_000_000_000;

/// The data folder and its log.
struct Log<'p> {
    place: &'p Place,
    store: Store,
}

/// A verification.
struct Run {
    now_ms: i64,
    extent: VerifyExtent,
    checkpoints: PathBuf,
    small_lines: i64,
}

impl<'p> Log<'p> {
    /// A log of ten lines, verified in full.
    async fn verified(place: &'p Place) -> Self {
        let log = Self { place, store: write(place).await };
        let found = log.verify().await;
        assert_eq!(
            (found.full.clone(), found.last_full_ms, found.not_kept.clone()),
            (Some(FullReason::NoState), Some(NOW_MS), None)
        );
        assert!(found.is_intact() && log.file().exists());
        log
    }

    fn file(&self) -> PathBuf {
        self.place.folder.path().join(VERIFIED_FILE)
    }

    fn run(&self) -> Run {
        let checkpoints = self.place.newest_checkpoint();
        Run { now_ms: NOW_MS, extent: VerifyExtent::SinceLast, checkpoints, small_lines: 0 }
    }

    async fn verify(&self) -> VerifiedLog {
        self.verify_as(self.run()).await
    }

    async fn verify_as(&self, run: Run) -> VerifiedLog {
        self.verify_watched(run, &mut |_| {}).await
    }

    async fn verify_watched(&self, run: Run, progress: &mut (dyn FnMut(Progress) + Send)) -> VerifiedLog {
        let checkpoints = Checkpoint::notes(&fs::read_to_string(&run.checkpoints).unwrap());
        let evidence = VerifyOptions { checkpoints, trusted: vec![key(1).verifier().clone()] };
        let Run { now_ms, extent, small_lines, .. } = run;
        let run = VerifyRun { evidence, file: Some(self.file()), extent, now_ms, small_lines };
        self.store.verify_log(run, progress).await.unwrap()
    }

    /// Ends the call that is open, and adds refusals. All of it is signed.
    async fn extend(&self, numbers: std::ops::Range<u32>) {
        let ledger = self.place.ledger(&self.store).await;
        for n in numbers {
            ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
        }
        ledger.finish().await.unwrap();
    }

    async fn end(&self) -> i64 {
        self.store.chains().await.unwrap()[0].lines
    }

    /// Replaces a part of the state.
    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.file()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        fs::write(self.file(), text.replace(from, to)).unwrap();
    }
}

fn damage(found: &VerifiedLog) -> Option<(i64, DamageKind)> {
    found.chains.iter().find_map(|chain| chain.damage.clone()).map(|damage| (damage.seq, damage.what))
}

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

async fn a_rotated_key_makes_it_read_everything(place: &Place) {
    let log = Log::verified(place).await;
    let ledger = place.ledger(&log.store).await;
    ledger.append(key(1).rotated_to(key(2).verifier(), now_ms(), 2), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let found = log.verify().await;
    assert_eq!((found.full.clone(), damage(&found)), (Some(FullReason::Turned), None));
    assert_eq!(log.verify().await.full, None);
}

async fn new_witnesses_are_heard_in_full(place: &Place) {
    let log = Log::verified(place).await;
    let other = || Some(FullReason::OtherCheckpoints { chain: key(1).verifier().chain().to_owned() });
    let with_all = || Run { checkpoints: place.all_checkpoints(), ..log.run() };
    log.extend(20..22).await;
    assert_eq!(log.verify_as(with_all()).await.full, other(), "position 6 was not compared");
    log.extend(22..24).await;
    let found = log.verify_as(with_all()).await;
    assert_eq!((found.full.clone(), found.is_intact()), (None, true), "the same file, with more in it");
    assert_eq!(log.verify_as(with_all()).await.full, None);
    log.extend(24..26).await;
    assert_eq!(log.verify().await.full, None, "no earlier checkpoint is given");
    assert_eq!(log.verify_as(with_all()).await.full, other(), "those between were not compared");
    // A witness of another past, before the state.
    let other_place = Place::sqlite();
    let (_store, ledger) = other_place.open().await;
    for n in 0..6 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let foreign = fs::read_to_string(other_place.all_checkpoints()).unwrap();
    let path = place.folder.path().join("foreign.txt");
    fs::write(&path, foreign).unwrap();
    let found = log.verify_as(Run { checkpoints: path, ..log.run() }).await;
    assert_eq!(found.full, other());
    assert!(matches!(damage(&found), Some((6, DamageKind::Rewritten { .. }))), "{:?}", damage(&found));
}

/// A chain of another gateway has no other witness here.
async fn the_last_verification_is_a_witness(place: &Place) {
    let store = write(place).await;
    let options = LedgerOptions { newest_checkpoint: None, checkpoints_to: None, ..place.options(2) };
    let second = Ledger::start(&store, options).await.unwrap();
    for n in 0..4 {
        second.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    second.finish().await.unwrap();
    let log = Log { place, store };
    assert!(log.verify().await.is_intact());
    let state = fs::read_to_string(log.file()).unwrap();
    let tampering = Tampering::over(place, log.store.clone()).await;
    let name = key(2).verifier().chain().to_owned();
    let cut = "DELETE FROM records WHERE chain = 1 AND seq > 2; DELETE FROM checkpoints WHERE chain = 1";
    let gone = "DELETE FROM records WHERE chain = 1; DELETE FROM checkpoints WHERE chain = 1; \
                DELETE FROM chains WHERE number = 1";
    for (sql, seq) in [(cut, 3), (gone, 1)] {
        for extent in [VerifyExtent::SinceLast, VerifyExtent::Everything] {
            fs::write(log.file(), &state).unwrap();
            tampering.run(sql).await;
            let found = log.verify_as(Run { extent, ..log.run() }).await;
            let reason = match extent {
                VerifyExtent::SinceLast => FullReason::CheckpointGone { chain: name.clone() },
                VerifyExtent::Everything => FullReason::Asked,
            };
            assert_eq!(found.full, Some(reason), "{sql}");
            let expected = Some((seq, DamageKind::Truncated { signed: 4 }));
            assert_eq!(damage(&found), expected, "{sql}");
            assert_eq!(damage(&log.verify().await), expected, "the witness is not forgotten");
        }
    }
}

/// The state is of another history that the same key signed.
async fn another_past_is_noticed(place: &Place) {
    let log = Log::verified(place).await;
    let own = fs::read_to_string(log.file()).unwrap();
    let other_place = Place::sqlite();
    let other_store = other_place.store().await;
    let ledger = Ledger::start(&other_store, other_place.options(1)).await.unwrap();
    for n in 0..8 {
        ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
    let other = Log { place: &other_place, store: other_store };
    assert!(other.verify().await.is_intact());
    let digest = |text: &str| text.split_once("\"database\":\"").unwrap().1.split('"').next().unwrap().to_owned();
    let foreign = fs::read_to_string(other.file()).unwrap();
    fs::write(log.file(), foreign.replace(&digest(&foreign), &digest(&own))).unwrap();
    let found = log.verify().await;
    assert!(found.is_full(), "{found:?}");
    assert!(matches!(damage(&found), Some((8, DamageKind::Rewritten { .. }))), "{:?}", damage(&found));
}

/// The other run may have found damage that this one did not look at.
async fn a_state_that_another_run_removed_stays_removed(place: &Place) {
    let log = Log::verified(place).await;
    log.extend(20..25).await;
    let file = log.file();
    let found = log.verify_watched(log.run(), &mut |_| fs::remove_file(&file).unwrap()).await;
    assert_eq!((found.full.clone(), found.is_intact()), (None, true));
    assert!(!log.file().exists());
}

/// It passed the place before the damage was done, and ended after the other run.
async fn damage_that_another_run_noted_stays_noted(place: &Place) {
    let log = Log::verified(place).await;
    let file = log.file();
    let everything = || Run { extent: VerifyExtent::Everything, ..log.run() };
    let found = log
        .verify_watched(everything(), &mut |_| {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("\"damaged\":false", "\"damaged\":true")).unwrap();
        })
        .await;
    assert!(found.is_intact() && found.is_full());
    assert_eq!(log.verify().await.full, Some(FullReason::DamagedBefore));
    // That run began with the note, read everything, and found nothing.
    assert_eq!(log.verify().await.full, None);
    log.edit("\"database\":\"", "\"database\":\"9");
    log.edit("\"damaged\":false", "\"damaged\":true");
    assert_eq!(log.verify().await.full, Some(FullReason::OtherDatabase));
    assert_eq!(log.verify().await.full, None, "damage of another database is not ours");

    // Without a state at the start, the one that another run has written meanwhile gets the note.
    let intact = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    place.sql("UPDATE records SET tool = 'other' WHERE seq = 5").await;
    let found = log
        .verify_watched(everything(), &mut |_| {
            fs::write(&file, &intact).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        })
        .await;
    assert_eq!(damage(&found), Some((5, DamageKind::Changed)));
    assert_eq!(log.verify().await.full, Some(FullReason::DamagedBefore));
}

/// Such as on a full disk. The old state says that the log is intact.
async fn damage_that_cannot_be_noted_removes_the_state(place: &Place) {
    let log = Log::verified(place).await;
    place.sql("UPDATE records SET tool = 'other' WHERE seq = 5").await;
    // A folder stands where the new state would be written.
    let in_the_way = PathBuf::from(format!("{}.{}.new", log.file().display(), std::process::id()));
    fs::create_dir(&in_the_way).unwrap();
    let found = log.verify_as(Run { extent: VerifyExtent::Everything, ..log.run() }).await;
    assert_eq!(damage(&found), Some((5, DamageKind::Changed)));
    assert!(matches!(found.not_kept, Some(NotKept::Removed { .. })), "{:?}", found.not_kept);
    assert!(!log.file().exists());
    let found = log.verify().await;
    assert_eq!((found.full.clone(), damage(&found)), (Some(FullReason::NoState), Some((5, DamageKind::Changed))));
    fs::remove_dir(&in_the_way).unwrap();
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

/// The checkpoints that a caller gives may be older than those of the last verification.
async fn an_older_witness_does_not_replace_a_newer_one(place: &Place) {
    let store = write(place).await;
    let copy = place.folder.path().join("second.txt");
    let extend = async |numbers: std::ops::Range<u32>| {
        let options = LedgerOptions { newest_checkpoint: Some(copy.clone()), checkpoints_to: None, ..place.options(2) };
        let second = Ledger::start(&store, options).await.unwrap();
        for n in numbers {
            second.append(refusal(n), WaitFor::Disk).await.unwrap();
        }
        second.finish().await.unwrap();
    };
    extend(0..4).await;
    let both = place.folder.path().join("both.txt");
    let notes = [place.newest_checkpoint(), copy.clone()].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&both, notes.join("\n")).unwrap();
    extend(4..8).await;
    let log = Log { place, store: store.clone() };
    assert!(log.verify().await.is_intact());
    let found = log.verify_as(Run { checkpoints: both, ..log.run() }).await;
    let other = FullReason::OtherCheckpoints { chain: key(2).verifier().chain().to_owned() };
    assert_eq!((found.full.clone(), found.is_intact()), (Some(other), true));
    let cut = "DELETE FROM records WHERE chain = 1 AND seq > 5; DELETE FROM checkpoints WHERE chain = 1 AND seq > 4";
    place.sql(cut).await;
    assert_eq!(damage(&log.verify().await), Some((6, DamageKind::Truncated { signed: 8 })));
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
