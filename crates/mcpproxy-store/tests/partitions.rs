//! Tests for partitions of payloads, which only PostgreSQL has.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

mod common;

use std::time::Duration;

use common::{NO_RETENTION, Place, all, call, now_ms, refusal, success, until, verified};
use mcpproxy_core::settings::Retention;
use mcpproxy_store::{Ledger, LedgerOptions, Location, NewRecord, Store, VerifyOptions, WaitFor};
use sqlx::{Connection as _, PgConnection};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const YEARS_20: i64 = 20 * 365 * 24;
/// A partition is ten days long.
const AGE: Retention = Retention { payloads: Some(Duration::from_secs(160 * 24 * 3600)), ..NO_RETENTION };
/// The first partition ends within two hours, and the next one ten days later. Now it has expired. No row in it is a
/// tenth older than `AGE`.
const EXPIRED: i64 = 170 * 24 + 3;

/// The clock of a gateway, in hours from now.
fn ahead<const HOURS: i64>() -> i64 {
    now_ms() + HOURS * HOUR_MS
}

fn at(ahead_ms: i64, record: NewRecord) -> NewRecord {
    NewRecord { time_ms: now_ms() + ahead_ms, ..record }
}

async fn start(place: &Place, store: &Store, seed: u8, retention: Retention, now_ms: fn() -> i64) -> Ledger {
    let options = place.options(seed);
    let (newest_checkpoint, checkpoints_to) = (None, None);
    Ledger::start(store, LedgerOptions { newest_checkpoint, checkpoints_to, retention, now_ms, ..options })
        .await
        .unwrap()
}

/// Writes a record with a payload at each of these times.
async fn write(place: &Place, store: &Store, seed: u8, ahead_ms: &[i64]) {
    let ledger = start(place, store, seed, AGE, now_ms).await;
    for ms in ahead_ms {
        ledger.append(at(*ms, refusal(1)), WaitFor::Disk).await.unwrap();
    }
    ledger.finish().await.unwrap();
}

async fn count(place: &Place, table: &str) -> i64 {
    place.sql(&format!("SELECT count(*) FROM {table}")).await[0]
}

async fn has_first_partition(place: &Place) -> bool {
    count(place, "pg_class WHERE relname = 'payloads_first'").await == 1
}

async fn connect(place: &Place) -> PgConnection {
    let Location::Postgres(url) = &place.location else { panic!("PostgreSQL") };
    PgConnection::connect(url).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_expire_with_their_partition() {
    let place = Place::postgres();
    let store = place.store().await;
    for seed in [1, 2] {
        write(&place, &store, seed, &[0, DAY_MS, 12 * DAY_MS]).await;
    }
    assert_eq!(count(&place, "payloads_first").await, 2);
    assert_eq!((count(&place, "payloads").await, count(&place, "payloads_rest").await), (6, 0));
    let before = all(&store).await;

    let ledger = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    until("expired partitions are gone", async || count(&place, "payloads").await == 2).await;
    ledger.finish().await.unwrap();
    assert!(!has_first_partition(&place).await);
    assert_eq!(all(&store).await, before);
    // What is gone takes no space, so that the limit of bytes counts what is there.
    assert_eq!(count(&place, "payload_hours").await, 2);
    for verdict in store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap() {
        assert_eq!((verdict.damage, verdict.payloads, verdict.erased), (None, 1, 2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_may_end_after_its_partition_is_gone() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0]).await;
    let ledger = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    let open = ledger.open(at(DAY_MS, call(1)), WaitFor::Disk).await.unwrap();
    let id = open.id().to_string();
    until("expired partitions are gone", async || count(&place, "payloads").await == 0).await;
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    assert_eq!((count(&place, "payloads").await, count(&place, "payloads_rest").await), (1, 1));
    let ended = store.find(&id).await.unwrap().unwrap();
    assert_eq!((ended.args.is_some(), ended.result.is_some()), (false, true));
    verified(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_loses_no_payload() {
    let place = Place::postgres();
    let store = place.store().await;
    // Keys of a chain always grow, so the last one is in the future, too.
    write(&place, &store, 1, &[0, YEARS_20 * HOUR_MS, 0]).await;
    assert_eq!((count(&place, "payloads").await, count(&place, "payloads_rest").await), (3, 2));
    let ledger = start(&place, &store, 1, NO_RETENTION, ahead::<YEARS_20>).await;
    // The partition begins after the hour with rows.
    ledger.append(at((YEARS_20 + 1) * HOUR_MS, refusal(1)), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    assert_eq!(count(&place, "payloads_rest").await, 2);
    // Other gateways go on in the present.
    write(&place, &store, 2, &[0, DAY_MS]).await;
    assert_eq!((count(&place, "payloads_rest").await, count(&place, "payloads_first").await), (2, 2));
    let payloads = store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap();
    assert_eq!(payloads.iter().map(|verdict| (verdict.payloads, verdict.erased)).collect::<Vec<_>>(), [(4, 0), (2, 0)]);
    verified(&store).await;
}

/// A backup holds its locks for as long as it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_in_use_stays_and_nobody_waits_for_it() {
    let place = Place::postgres();
    let store = place.store().await;
    // The first is a tenth older than it may be when the partition expires.
    write(&place, &store, 1, &[-10 * DAY_MS, 0]).await;
    let mut reading = connect(&place).await;
    sqlx::raw_sql("BEGIN; SELECT key FROM payloads").execute(&mut reading).await.unwrap();

    let ledger = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    until("the oldest row is gone", async || count(&place, "payloads").await == 1).await;
    ledger.append(at(DAY_MS, refusal(2)), WaitFor::Disk).await.unwrap();
    assert!(has_first_partition(&place).await);
    ledger.finish().await.unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut reading).await.unwrap();

    let ledger = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    until("the partition is gone", async || !has_first_partition(&place).await).await;
    ledger.finish().await.unwrap();
    verified(&store).await;
}

/// Other gateways would wait behind an upgrade that waits for a backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_does_not_wait_for_a_backup() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0]).await;
    store.close().await;
    place.undo_partitions().await;
    place.sql("DROP TABLE config_versions; UPDATE schema_version SET version = 16").await;
    let mut reading = connect(&place).await;
    sqlx::raw_sql("BEGIN; SELECT key FROM payloads").execute(&mut reading).await.unwrap();
    let error = Store::open(&place.location).await.err().unwrap();
    assert_eq!(error.to_string(), "could not upgrade the database schema");
    assert_eq!(place.sql("SELECT version FROM schema_version").await, [16]);
    sqlx::raw_sql("COMMIT").execute(&mut reading).await.unwrap();
    let store = place.store().await;
    assert_eq!(place.sql("SELECT version FROM schema_version").await, [19]);
    verified(&store).await;
}

/// During a rolling update, a gateway of the previous version keeps its connections and its prepared statements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_keeps_rows_grants_and_statements() {
    const KEEP: &str = "INSERT INTO payloads (key, args, result) SELECT * FROM \
         unnest($1::bigint[], $2::text[], $3::text[]) AS v(column1, column2, column3) WHERE column1 IS NOT NULL \
         ON CONFLICT (key) DO UPDATE SET result = excluded.result";
    const READ: &str = "SELECT key, args, result FROM payloads WHERE key IN ($1)";
    const ERASE: &str =
        "DELETE FROM payloads WHERE key IN (SELECT key FROM payloads WHERE key < $1 ORDER BY key LIMIT $2)";
    let place = Place::postgres();
    let store = place.store().await;
    // The clock of that gateway was ahead for a while.
    write(&place, &store, 1, &[0, YEARS_20 * HOUR_MS]).await;
    let lines = verified(&store).await;
    store.close().await;
    place.undo_partitions().await;
    place.sql("DROP TABLE config_versions; UPDATE schema_version SET version = 16; CREATE ROLE payload_auditor").await;
    place.sql("GRANT SELECT ON payloads TO payload_auditor").await;

    let mut old = connect(&place).await;
    let key = now_ms() << 21;
    for (round, result) in [(0, "first"), (1, "second")] {
        let keep = sqlx::query(KEEP).bind(vec![key, key + 1 + round]).bind(vec!["{}", "{}"]).bind(vec![result, result]);
        assert_eq!(keep.execute(&mut old).await.unwrap().rows_affected(), 2);
        let (found, args, kept): (i64, String, String) =
            sqlx::query_as(READ).bind(key).fetch_one(&mut old).await.unwrap();
        assert_eq!((found, args.as_str(), kept.as_str()), (key, "{}", result));
        let erased = sqlx::query(ERASE).bind(key + 2 + round).bind(1_i64).execute(&mut old).await.unwrap();
        assert_eq!(erased.rows_affected(), 1, "the oldest");
        if round == 0 {
            let store = place.store().await;
            assert_eq!(place.sql("SELECT version FROM schema_version").await, [19]);
            assert_eq!((count(&place, "payloads_first").await, count(&place, "payloads_rest").await), (2, 1));
            store.close().await;
        }
    }
    let may_read = "SELECT CAST(has_table_privilege('payload_auditor', 'payloads', 'SELECT') AS integer)";
    assert_eq!(place.sql(may_read).await, [1]);
    let store = place.store().await;
    write(&place, &store, 1, &[1]).await;
    assert_eq!(verified(&store).await, lines + 1);
}
