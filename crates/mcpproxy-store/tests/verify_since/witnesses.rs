//! Tests for checkpoints outside the database, and for the last verification as one of them.

use std::fs;

use mcpproxy_store::{DamageKind, FullReason, Ledger, LedgerOptions, VerifyExtent, WaitFor};

use crate::common::tampering::{Tampering, write};
use crate::common::{self, Place, key, refusal};
use crate::{Log, Run, damage};

on_both!(
    new_witnesses_are_heard_in_full,
    the_last_verification_is_a_witness,
    another_past_is_noticed,
    an_older_witness_does_not_replace_a_newer_one,
);

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
