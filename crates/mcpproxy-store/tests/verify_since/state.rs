//! Tests for `verified.json` while other verifications run, and when it cannot be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use mcpproxy_store::{DamageKind, FullReason, NotKept, VerifyExtent};

use crate::common::{self, Place};
use crate::{Log, Run, damage};

on_both!(
    a_state_that_another_run_removed_stays_removed,
    damage_that_another_run_noted_stays_noted,
    damage_that_cannot_be_noted_removes_the_state,
);

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
