//! Opening a database: new, current, newer, foreign, and by several processes at once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

use std::path::{Path, PathBuf};

use mcpproxy_core::Scope;
use mcpproxy_store::{Filter, Store, StoreError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcpproxy.db");
    (folder, path)
}

async fn run_sql(path: &Path, sql: &'static str) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[cfg(unix)]
fn mode(path: &Path, suffix: &str) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = format!("{}{suffix}", path.display());
    std::fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777)
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_the_files() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    store.create_token("x", &Scope::everything(), [1; 32], 1).await.unwrap();
    let private = Some(0o600);
    assert_eq!(["", "-wal", "-shm"].map(|suffix| mode(&path, suffix)), [private; 3]);

    use std::os::unix::fs::PermissionsExt as _;
    for suffix in ["", "-wal", "-shm"] {
        let file = format!("{}{suffix}", path.display());
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let _other = Store::open(&path).await.unwrap();
    assert_eq!(["", "-wal", "-shm"].map(|suffix| mode(&path, suffix)), [private; 3]);
}

#[tokio::test]
async fn what_was_stored_is_there_after_a_restart() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let secret = store.create_token("x", &Scope::everything(), [1; 32], 1).await.unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    let store = Store::open(&path).await.unwrap();
    assert!(store.find_agent(&secret).await.unwrap().is_some());
}

#[tokio::test]
async fn a_newer_database_is_refused_and_left_alone() {
    let (_folder, path) = place();
    Store::open(&path).await.unwrap().close().await.unwrap();
    run_sql(&path, "PRAGMA user_version = 99; DROP TABLE tokens").await;
    let expected = format!(
        "the database `{}` has version 99, and this mcpproxy knows versions up to 1; use a newer mcpproxy",
        path.display()
    );
    for refused in [Store::open(&path).await, Store::open_read_only(&path).await] {
        assert_eq!(refused.err().unwrap().to_string(), expected);
    }
    run_sql(&path, "CREATE TABLE tokens (later TEXT)").await;
}

#[tokio::test]
async fn a_step_that_fails_changes_nothing() {
    let (_folder, path) = place();
    run_sql(&path, "CREATE TABLE records (somebody_elses TEXT)").await;
    let refused = Store::open(&path).await.err().unwrap();
    assert_eq!(refused.to_string(), "could not bring the database to the current version");
    // The step makes `tokens` before it comes to `records`.
    run_sql(&path, "CREATE TABLE tokens (x TEXT)").await;
}

#[tokio::test]
async fn reading_needs_a_database_that_is_there() {
    let (folder, path) = place();
    assert!(matches!(Store::open_read_only(&path).await, Err(StoreError::Open { .. })));
    assert!(!path.exists());
    assert!(matches!(Store::open(&folder.path().join("no/such/folder.db")).await, Err(StoreError::Open { .. })));
    std::fs::write(&path, "").unwrap();
    assert!(matches!(Store::open_read_only(&path).await, Err(StoreError::NotReady { .. })));
    std::fs::write(&path, "this is a text file, and quite a long one at that ".repeat(100)).unwrap();
    assert!(matches!(Store::open(&path).await, Err(StoreError::Database { .. })));
}

#[tokio::test]
async fn a_closed_database_can_be_read_without_writing() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    store.create_token("x", &Scope::everything(), [1; 32], 1).await.unwrap();
    store.close().await.unwrap();
    let looker = Store::open_read_only(&path).await.unwrap();
    assert_eq!(looker.list_tokens().await.unwrap().len(), 1);
    assert!(looker.list(&Filter::default(), None, 10).await.unwrap().records.is_empty());
    assert!(matches!(looker.recover_interrupted().await, Err(StoreError::ReadOnly)));
    looker.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_open_a_new_database_at_once() {
    for _ in 0..5 {
        let (_folder, path) = place();
        let opening: Vec<_> = (0..8u8)
            .map(|n| {
                let path = path.clone();
                tokio::spawn(async move {
                    let store = Store::open(&path).await?;
                    store.create_token(&format!("agent{n}"), &Scope::everything(), [n; 32], 1).await?;
                    store.close().await
                })
            })
            .collect();
        for open in opening {
            open.await.unwrap().unwrap();
        }
        assert_eq!(Store::open(&path).await.unwrap().list_tokens().await.unwrap().len(), 8);
    }
}
