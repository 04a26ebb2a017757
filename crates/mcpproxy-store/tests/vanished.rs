//! Tests for a database whose file is removed or replaced while the gateway runs: nothing is written into the void.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]
#![cfg(unix)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Place, all, call, refusal, success, until, verified};
use mcpproxy_core::Scope;
use mcpproxy_store::{Health, Location, WaitFor};

/// The files of a database that a test moves away and back.
struct Files {
    database: PathBuf,
    aside: PathBuf,
}

const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

impl Files {
    fn of(place: &Place) -> Self {
        let Location::Sqlite(database) = &place.location else { panic!("a file") };
        Self { database: database.clone(), aside: place.folder.path().join("aside.db") }
    }

    fn each(from: &Path, to: &Path) {
        for suffix in SUFFIXES {
            let name = |path: &Path| format!("{}{suffix}", path.display());
            if Path::new(&name(from)).exists() {
                fs::rename(name(from), name(to)).unwrap();
            }
        }
    }

    fn remove(&self) {
        Self::each(&self.database, &self.aside);
    }

    fn restore(&self) {
        Self::each(&self.aside, &self.database);
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_without_the_file() {
    let place = Place::sqlite();
    let (store, ledger) = place.open().await;
    let before = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    let files = Files::of(&place);
    files.remove();
    let refused = ledger.open(call(2), WaitFor::Disk).await.unwrap_err();
    assert!(refused.to_string().contains("was removed or replaced while the gateway ran"), "{refused}");
    ledger.open(call(3), WaitFor::Queue).await.unwrap_err();
    ledger.close(before, success(), WaitFor::Disk).await.unwrap_err();
    assert!(matches!(ledger.health(), Health::Failing { .. }));
    assert!(!files.database.exists(), "no new database takes its place");

    files.restore();
    until("the log is well", async || ledger.health() == Health::Well).await;
    ledger.append(refusal(4), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    // The call that was refused is either not there, or ended as never sent.
    assert!(all(&store).await.len() >= 2);
    verified(&store).await;
}

/// The health probe notices it, although nothing is written.
#[tokio::test]
async fn an_idle_log_notices_that_its_file_is_gone() {
    let place = Place::sqlite();
    let (_store, ledger) = place.open().await;
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    let files = Files::of(&place);
    files.remove();
    until("the log fails", async || matches!(ledger.health(), Health::Failing { .. })).await;
    files.restore();
    until("the log is well", async || ledger.health() == Health::Well).await;
}

/// Another database in the same place must not be continued, and its tokens must count at once.
#[tokio::test]
async fn another_database_in_its_place_is_not_continued() {
    let (place, other) = (Place::sqlite(), Place::sqlite());
    let (store, ledger) = place.open().await;
    ledger.append(refusal(1), WaitFor::Disk).await.unwrap();
    assert_eq!(store.list_tokens().await.unwrap().len(), 0);
    let (other_store, other_ledger) = other.open().await;
    for n in 0..3 {
        other_ledger.append(refusal(n), WaitFor::Disk).await.unwrap();
    }
    other_store.create_token("x", &Scope::everything(), [1; 32], 1).await.unwrap();
    other_ledger.finish().await.unwrap();
    other_store.close().await;
    let (files, others) = (Files::of(&place), Files::of(&other));
    files.remove();
    fs::copy(&others.database, &files.database).unwrap();
    ledger.append(refusal(2), WaitFor::Disk).await.unwrap_err();
    until("the log fails for good", async || match ledger.health() {
        Health::Failing { reason, .. } => reason.contains("does not match the checkpoint"),
        Health::Well => false,
    })
    .await;
    assert_eq!(store.list_tokens().await.unwrap().len(), 1, "readers follow the path");
}
