//! Expired partitions are dropped with the signed removals of all chains.

use super::common::{NO_RETENTION, Place, all, call, now_ms, refusal, success, until};
use super::{AGE, DAY_MS, EXPIRED, ahead, at, bounds, connect, count, start, write};
use mcpproxy_store::{Store, VerifyOptions, WaitFor};

/// Lines that are checked and lines that were removed, of each chain.
async fn intact(store: &Store) -> Vec<(i64, i64)> {
    let verdicts = store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap();
    assert!(verdicts.iter().all(|verdict| verdict.damage.is_none()), "{verdicts:?}");
    verdicts.iter().map(|verdict| (verdict.lines, verdict.removed)).collect()
}

async fn planned(place: &Place) -> i64 {
    count(place, "planned_removals").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_expire_with_their_partition() {
    let place = Place::postgres();
    let store = place.store().await;
    let ledger = start(&place, &store, 1, AGE, now_ms).await;
    // A call that ends after its partition, between lines that stay.
    let straddling = ledger.open(at(0, call(1)), WaitFor::Disk).await.unwrap();
    ledger.append(at(0, refusal(2)), WaitFor::Disk).await.unwrap();
    ledger.append(at(DAY_MS, refusal(3)), WaitFor::Disk).await.unwrap();
    ledger.append(at(12 * DAY_MS, refusal(4)), WaitFor::Disk).await.unwrap();
    ledger.close(straddling, success(), WaitFor::Disk).await.unwrap();
    ledger.append(at(12 * DAY_MS, refusal(5)), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    write(&place, &store, 2, &[0, DAY_MS, 12 * DAY_MS]).await;
    let kept: Vec<_> =
        all(&store).await.into_iter().filter(|record| record.time_ms() > now_ms() + 2 * DAY_MS).collect();
    assert_eq!((kept.len(), count(&place, "records_first").await), (3, 3));
    assert_eq!(intact(&store).await, [(6, 0), (3, 0)]);

    let busy = start(&place, &store, 2, NO_RETENTION, ahead::<EXPIRED>).await;
    let first = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    first.remove_expired().await.unwrap();
    assert_eq!(planned(&place).await, 1);
    // The other gateway runs and has not signed, so everything is still there.
    assert_eq!((count(&place, "records").await, intact(&store).await), (8, vec![(6, 0), (3, 0)]));
    busy.finish().await.unwrap();

    let second = start(&place, &store, 2, AGE, ahead::<EXPIRED>).await;
    second.remove_expired().await.unwrap();
    assert_eq!(count(&place, "records_first").await, 0);
    assert_eq!(planned(&place).await, 1, "for the next one");
    first.finish().await.unwrap();
    assert_eq!(intact(&store).await, [(4, 2), (2, 1)]);
    // The call's end is between lines that stay.
    assert_eq!(place.sql("SELECT seq FROM stubs").await, [5]);
    assert_eq!(place.sql("SELECT count(*) FROM payloads WHERE key NOT IN (SELECT key FROM records)").await, [0]);
    let before = bounds(&place).await;

    let first = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    first.remove_expired().await.unwrap();
    assert_eq!(count(&place, "records").await, 3);
    first.finish().await.unwrap();
    second.finish().await.unwrap();
    let after = bounds(&place).await;
    assert_eq!((after[0], &after[1..]), ((None, before[1].1), &before[2..]), "the first one grows instead");
    assert_eq!(all(&store).await, kept);
    assert_eq!((intact(&store).await, planned(&place).await), (vec![(3, 3), (1, 2)], 0));
    assert_eq!(place.sql("SELECT removed_seq FROM chains ORDER BY number").await, [3, 2]);

    // The chains go on, and a record of any time has a place.
    write(&place, &store, 1, &[12 * DAY_MS]).await;
    write(&place, &store, 3, &[-300 * DAY_MS]).await;
    assert_eq!((count(&place, "records").await, intact(&store).await), (5, vec![(4, 3), (1, 2), (1, 0)]));
}

/// The records of a chain that nobody continues stay, as they do with SQLite. Those of other chains go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_gone_blocks_no_other() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 2, &[0, 12 * DAY_MS]).await;
    write(&place, &store, 1, &[0, 0, DAY_MS, 12 * DAY_MS]).await;
    let second = partition_of(&place, DAY_MS).await;
    let ledger = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    // PostgreSQL may need a moment to notice that the other gateway is gone.
    until("old records of the gateway are gone", async || {
        ledger.remove_expired().await.unwrap();
        count(&place, "records").await == 3
    })
    .await;
    ledger.finish().await.unwrap();
    assert_eq!((count(&place, "records_first").await, intact(&store).await), (1, vec![(2, 0), (1, 3)]));
    assert_eq!(count(&place, &second).await, 0, "the next one was emptied at once");
    // It comes back.
    let ledger = start(&place, &store, 2, AGE, ahead::<EXPIRED>).await;
    ledger.remove_expired().await.unwrap();
    assert_eq!(count(&place, "records_first").await, 0);
    assert_eq!(count(&place, &format!("pg_class WHERE relname = '{second}'")).await, 0, "it is part of the first one");
    ledger.finish().await.unwrap();
    assert_eq!((count(&place, "records").await, intact(&store).await), (2, vec![(1, 1), (1, 3)]));
}

/// The name of the partition with a record of this time, in milliseconds from now.
async fn partition_of(place: &Place, ahead_ms: i64) -> String {
    let (from, to) = ((now_ms() + ahead_ms - DAY_MS / 2) << 21, (now_ms() + ahead_ms + DAY_MS / 2) << 21);
    let sql = format!("SELECT CAST(tableoid AS bigint) FROM records WHERE key > {from} AND key < {to} LIMIT 1");
    let oid = place.sql(&sql).await[0];
    let mut connection = connect(place).await;
    let name = format!("SELECT CAST(relname AS text) FROM pg_class WHERE oid = {oid}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(name)).fetch_one(&mut connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_chain_and_running_calls_stay() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0]).await;
    let ledger = start(&place, &store, 2, AGE, ahead::<EXPIRED>).await;
    let running = ledger.open(at(0, call(1)), WaitFor::Disk).await.unwrap();
    ledger.append(at(12 * DAY_MS, refusal(2)), WaitFor::Disk).await.unwrap();
    let other = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    ledger.remove_expired().await.unwrap();
    other.remove_expired().await.unwrap();
    other.finish().await.unwrap();
    assert_eq!((planned(&place).await, count(&place, "records_first").await), (0, 2));
    ledger.close(running, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    intact(&store).await;
}

/// Somebody who can write to the database must not be able to have others remove records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_its_chain_did_not_sign_drops_nothing() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0, 12 * DAY_MS]).await;
    write(&place, &store, 2, &[0, 12 * DAY_MS]).await;
    let busy = start(&place, &store, 2, NO_RETENTION, ahead::<EXPIRED>).await;
    let first = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    first.remove_expired().await.unwrap();
    assert_eq!(planned(&place).await, 1);
    busy.finish().await.unwrap();
    for change in ["note = replace(note, '1', '2')", "hash = sha256('x')", "stubs = '9 AAAA'", "chain = 1, seq = 1"] {
        place
            .sql(&format!("CREATE TABLE kept AS SELECT * FROM planned_removals; UPDATE planned_removals SET {change}"))
            .await;
        let second = start(&place, &store, 2, AGE, ahead::<EXPIRED>).await;
        second.remove_expired().await.unwrap();
        second.finish().await.unwrap();
        assert_eq!((count(&place, "records_first").await, intact(&store).await), (2, vec![(2, 0), (2, 0)]), "{change}");
        place
            .sql("DELETE FROM planned_removals; INSERT INTO planned_removals SELECT * FROM kept; DROP TABLE kept")
            .await;
    }
    let second = start(&place, &store, 2, AGE, ahead::<EXPIRED>).await;
    second.remove_expired().await.unwrap();
    assert_eq!(count(&place, "records_first").await, 0);
    second.finish().await.unwrap();
    first.finish().await.unwrap();
    assert_eq!(intact(&store).await, [(1, 1), (1, 1)]);
}

/// Rows of a dropped partition would vanish from a backup that has read the chains, and not yet the records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_keeps_the_partitions_that_it_reads() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0, 0, 12 * DAY_MS]).await;
    let mut snapshot = store.snapshot().await.unwrap();
    let mut records = 0;
    let ledger = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    ledger.remove_expired().await.unwrap();
    assert_eq!(planned(&place).await, 1);
    // Nobody waits for the backup.
    ledger.append(at(12 * DAY_MS, refusal(2)), WaitFor::Disk).await.unwrap();
    while let Some(batch) = snapshot.next().await.unwrap() {
        assert!(!batch.table.starts_with("records_"), "{}", batch.table);
        records += if batch.table == "records" { batch.rows } else { 0 };
    }
    assert_eq!((records, count(&place, "records").await), (3, 4));
    snapshot.close().await.unwrap();
    ledger.finish().await.unwrap();
    let ledger = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    ledger.remove_expired().await.unwrap();
    assert_eq!(count(&place, "records").await, 2);
    ledger.finish().await.unwrap();
    assert_eq!(intact(&store).await, [(2, 2)]);
}

/// A reader of the table, such as an auditor, is not waited for either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_in_use_stays_and_nobody_waits_for_it() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0, 12 * DAY_MS]).await;
    let mut reading = connect(&place).await;
    sqlx::raw_sql("BEGIN; SELECT key FROM records").execute(&mut reading).await.unwrap();
    let ledger = start(&place, &store, 1, AGE, ahead::<EXPIRED>).await;
    ledger.remove_expired().await.unwrap();
    assert_eq!(planned(&place).await, 1);
    ledger.append(at(12 * DAY_MS, refusal(2)), WaitFor::Disk).await.unwrap();
    assert_eq!(count(&place, "records_first").await, 1);
    ledger.finish().await.unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut reading).await.unwrap();
    intact(&store).await;
}
