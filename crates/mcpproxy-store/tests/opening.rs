//! Tests for opening a database: new, current, newer, foreign, and by several processes at once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::asking::{grant, take_steps};
use common::postgres::Cluster;
use common::{Place, call, location, success, verified};
use mcpproxy_core::Scope;
use mcpproxy_store::{Filter, Ledger, Location, Step, Store, StoreError, WaitFor};

on_both!(
    what_was_stored_is_there_after_a_restart,
    a_newer_database_is_refused_and_left_alone,
    a_step_that_fails_changes_nothing,
    a_database_without_tables_is_not_for_reading,
    a_reader_writes_nothing,
    a_database_of_the_first_version_goes_on,
    a_database_of_the_third_version_keeps_its_rows,
    many_may_open_a_new_database_at_once,
    many_processes_may_open_a_new_database_at_once,
);

async fn what_was_stored_is_there_after_a_restart(place: &Place) {
    let store = place.store().await;
    let secret = store.create_token("x", &Scope::everything(), [1; 32], 1).await.unwrap();
    store.close().await;
    store.close().await;
    assert!(place.store().await.find_agent(&secret).await.unwrap().is_some());
}

async fn a_newer_database_is_refused_and_left_alone(place: &Place) {
    place.store().await.close().await;
    place.sql("UPDATE schema_version SET version = 99; DROP TABLE tokens").await;
    let expected = format!(
        "the database `{}` has schema version 99, but this mcpproxy supports versions up to 19; install a newer mcpproxy",
        place.location
    );
    for refused in [Store::open(&place.location).await, Store::open_read_only(&place.location).await] {
        assert_eq!(refused.err().unwrap().to_string(), expected);
    }
    place.sql("CREATE TABLE tokens (later TEXT)").await;
}

async fn a_step_that_fails_changes_nothing(place: &Place) {
    if let Location::Sqlite(path) = &place.location {
        std::fs::write(path, "").unwrap();
    }
    place.sql("CREATE TABLE records (somebody_elses TEXT)").await;
    let refused = Store::open(&place.location).await.err().unwrap();
    assert_eq!(refused.to_string(), "could not upgrade the database schema");
    // The migration creates `tokens` before `records`.
    place.sql("CREATE TABLE tokens (x TEXT)").await;
}

async fn a_database_without_tables_is_not_for_reading(place: &Place) {
    if let Location::Sqlite(path) = &place.location {
        assert!(matches!(Store::open_read_only(&place.location).await, Err(StoreError::Open { .. })));
        assert!(!path.exists());
        std::fs::write(path, "").unwrap();
    }
    assert!(matches!(Store::open_read_only(&place.location).await, Err(StoreError::NotReady { .. })));
}

async fn a_database_of_the_first_version_goes_on(place: &Place) {
    let (store, ledger) = place.open().await;
    let secret = store.create_token("x", &Scope::everything(), [1; 32], 1).await.unwrap();
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    store.close().await;
    let tables = "approvals approvals_version grants claims dry_runs shared_secrets users passkeys invitations \
                  sessions challenges operator_files attempts pinned_servers accepted_pins waiting_pins past_pins \
                  pins_version recovery_codes sign_ins operator_actions server_sign_ins rate_calls gateways session_keys \
                  session_changes session_subscriptions replica_messages exports tool_vectors tally_series tally_points \
                  tally_hours search_blocks search_postings config_versions";
    for table in tables.split_ascii_whitespace() {
        place.sql(&format!("DROP TABLE {table}")).await;
    }
    place.undo_partitions().await;
    place.sql("UPDATE schema_version SET version = 1").await;
    let looking = Store::open_read_only(&place.location).await.err().unwrap();
    let expected = format!(
        "the database `{}` has schema version 1, but this mcpproxy needs version 19; start the gateway once to upgrade it",
        place.location
    );
    assert_eq!(looking.to_string(), expected);
    let (store, ledger) = place.open().await;
    assert!(store.find_agent(&secret).await.unwrap().is_some());
    assert!(!store.has_users().await.unwrap());
    assert_eq!(store.count_pending().await.unwrap(), 0);
    let open = ledger.open_if(call(2), vec![]).await.unwrap().written().unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    assert_eq!(verified(&store).await, 4);
}

/// Counts of that version have no mark, and standing approvals no intent.
async fn a_database_of_the_third_version_keeps_its_rows(place: &Place) {
    let (store, ledger) = place.open().await;
    let open = ledger.open(call(1), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    let create = |n| vec![Step::CreateStandingApproval(Box::new(grant(n)))];
    take_steps(&ledger, create(1)).await.written().unwrap();
    let before = store.summary(None, None).await.unwrap();
    ledger.finish().await.unwrap();
    store.close().await;
    place.undo_partitions().await;
    place
        .sql(
            "ALTER TABLE grants DROP COLUMN intent; \
             CREATE TABLE old_tallies AS \
             SELECT hour, chain, kind, status, intent_type, server, tool, risk, step, count FROM tallies; \
             DROP TABLE tallies; \
             ALTER TABLE old_tallies RENAME TO tallies; \
             DROP TABLE operator_files; \
             DROP TABLE attempts; \
             DROP TABLE pinned_servers; DROP TABLE accepted_pins; DROP TABLE waiting_pins; DROP TABLE past_pins; \
             DROP TABLE pins_version; \
             DROP INDEX users_subject; ALTER TABLE users DROP COLUMN issuer; \
             ALTER TABLE users DROP COLUMN subject; ALTER TABLE users DROP COLUMN profile; \
             ALTER TABLE invitations DROP COLUMN user_name; \
             DROP TABLE recovery_codes; DROP TABLE sign_ins; DROP TABLE operator_actions; DROP TABLE server_sign_ins; \
             DROP TABLE rate_calls; DROP TABLE gateways; DROP TABLE session_keys; DROP TABLE session_changes; \
             DROP TABLE session_subscriptions; DROP TABLE replica_messages; DROP TABLE exports; DROP TABLE tool_vectors; \
             DROP TABLE tally_series; DROP TABLE tally_points; DROP TABLE tally_hours; \
             DROP TABLE search_blocks; DROP TABLE search_postings; DROP TABLE config_versions; \
             UPDATE schema_version SET version = 3",
        )
        .await;
    let (store, ledger) = place.open().await;
    let after = store.summary(None, None).await.unwrap();
    assert_eq!((after.total, after.by_tool), (before.total, before.by_tool), "what was counted counts as real");
    let open = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    assert_eq!(store.summary(None, None).await.unwrap().total, before.total + 1);
    take_steps(&ledger, create(2)).await.written().unwrap();
    for (id, intent) in [("grant1", None), ("grant2", Some(r#"{"operation_type":"write"}"#))] {
        let found = store.find_standing_approval(id).await.unwrap().unwrap();
        assert_eq!(found.intent.as_ref().map(|intent| intent.for_json()), intent, "{id}");
    }
}

async fn a_reader_writes_nothing(place: &Place) {
    let store = place.store().await;
    store.create_token("x", &Scope::everything(), [1; 32], 1).await.unwrap();
    store.close().await;
    let looker = Store::open_read_only(&place.location).await.unwrap();
    assert_eq!(looker.list_tokens().await.unwrap().len(), 1);
    assert!(looker.list(&Filter::default(), None, 10).await.unwrap().records.is_empty());
    assert!(matches!(Ledger::start(&looker, place.options(1)).await, Err(StoreError::ReadOnly)));
    looker.close().await;
}

async fn many_may_open_a_new_database_at_once(place: &Place) {
    let opening: Vec<_> = (0..8u8)
        .map(|n| {
            let location = place.location.clone();
            tokio::spawn(async move {
                let store = Store::open(&location).await?;
                store.create_token(&format!("agent{n}"), &Scope::everything(), [n; 32], 1).await?;
                store.close().await;
                Ok::<_, StoreError>(())
            })
        })
        .collect();
    for open in opening {
        open.await.unwrap().unwrap();
    }
    assert_eq!(place.store().await.list_tokens().await.unwrap().len(), 8);
}

const CHILD: &str = "MCPPROXY_TEST_OPENS";

async fn many_processes_may_open_a_new_database_at_once(place: &Place) {
    let address = match &place.location {
        Location::Sqlite(path) => path.to_str().unwrap().to_owned(),
        Location::Postgres(url) => url.clone(),
    };
    let spawn = |n: u8| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "opens_and_writes"]).env(CHILD, format!("{n} {address}"));
        child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (1..=8).map(spawn).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    // Each process has its own chain with its own number.
    assert_eq!(place.sql("SELECT number FROM chains ORDER BY number").await, [0, 1, 2, 3, 4, 5, 6, 7]);
    let count = place.sql("SELECT count(*) FROM records WHERE seq = 1 AND end_seq IS NULL").await;
    assert_eq!(count, [8]);
}

#[tokio::test]
async fn opens_and_writes() {
    // Another test runs this one as a child process.
    let Ok(child) = std::env::var(CHILD) else { return };
    let (seed, address) = child.split_once(' ').unwrap();
    let location = location(address);
    let place = Place::sqlite();
    let store = Store::open(&location).await.unwrap();
    let ledger = Ledger::start(&store, place.options(seed.parse().unwrap())).await.unwrap();
    ledger.append(call(1), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let place = Place::sqlite();
    let Location::Sqlite(path) = &place.location else { panic!("a file") };
    std::fs::write(path, "this is a text file, and quite a long one at that ".repeat(100)).unwrap();
    assert!(matches!(Store::open(&place.location).await, Err(StoreError::Database { .. })));
    let nowhere = Location::Sqlite(place.folder.path().join("no/such/folder.db"));
    assert!(matches!(Store::open(&nowhere).await, Err(StoreError::Open { .. })));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_and_no_wait() {
    let begin = std::time::Instant::now();
    for url in ["postgres://127.0.0.1:1/x", "postgres://me:secret@127.0.0.1:1/x?sslmode=disable", "no address"] {
        let error = Store::open(&Location::Postgres(url.to_owned())).await.err().unwrap();
        assert!(matches!(error, StoreError::Database { .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    assert!(begin.elapsed() < std::time::Duration::from_secs(5));
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused() {
    let cluster = Cluster::shared();
    let url = cluster.new_database("ENCODING 'LATIN1' TEMPLATE template0");
    let error = Store::open(&Location::Postgres(url)).await.err().unwrap();
    let reason = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(error.to_string(), "could not use the database");
    assert!(reason.contains("the encoding of the database is LATIN1, but must be UTF8"), "{reason}");
}

#[cfg(unix)]
fn mode(path: &Path, suffix: &str) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = format!("{}{suffix}", path.display());
    std::fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777)
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::sqlite();
    let Location::Sqlite(path) = &place.location else { panic!("a file") };
    let (_store, ledger) = place.open().await;
    ledger.append(call(1), WaitFor::Disk).await.unwrap();
    let private = Some(0o600);
    assert_eq!(["", "-wal", "-shm"].map(|suffix| mode(path, suffix)), [private; 3]);
    for suffix in ["", "-wal", "-shm"] {
        let file = format!("{}{suffix}", path.display());
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let _other = place.store().await;
    assert_eq!(["", "-wal", "-shm"].map(|suffix| mode(path, suffix)), [private; 3]);
}
