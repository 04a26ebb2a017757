//! A database of the previous schema version is partitioned without copying its records, while its gateways go on.

use sqlx::{Connection as _, PgConnection};

use super::common::{Place, all, now_ms, verified};
use super::{HOUR_MS, bounds, connect, count, write};
use mcpproxy_store::{Filter, Location, Store};

const YEARS_20: i64 = 20 * 365 * 24;
const INSERT: &str = "INSERT INTO records (key, tail, chain, seq, hash, kind, status, metadata) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::text[], $8::text[]) \
     AS v(column1, column2, column3, column4, column5, column6, column7, column8) WHERE column1 IS NOT NULL";
const CLOSE: &str = "UPDATE records SET end_seq = column2, end_hash = column3 FROM \
     unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS v(column1, column2, column3) \
     WHERE records.key = column1 AND records.end_seq IS NULL";
const PAGE: &str = "SELECT key, seq FROM records WHERE key >= $1 AND key < $2 ORDER BY key DESC LIMIT $3";

/// Inserts a record of chain 9 as the previous version does.
async fn insert(connection: &mut PgConnection, key: i64, seq: i64) -> Result<u64, sqlx::Error> {
    let (hash, word) = (vec![vec![0_u8]], |word: &str| vec![word.to_owned()]);
    let query = sqlx::query(INSERT).bind(vec![key]).bind(vec![1_i64]).bind(vec![9_i64]).bind(vec![seq]).bind(hash);
    let query = query.bind(word("call")).bind(word("started")).bind(word("{}"));
    query.execute(connection).await.map(|done| done.rows_affected())
}

async fn close(connection: &mut PgConnection, key: i64, end_seq: i64) -> Result<u64, sqlx::Error> {
    let query = sqlx::query(CLOSE).bind(vec![key]).bind(vec![end_seq]).bind(vec![vec![0_u8]]);
    query.execute(connection).await.map(|done| done.rows_affected())
}

/// The code of the error of a position that is taken.
fn is_taken(outcome: Result<u64, sqlx::Error>) -> bool {
    outcome.err().unwrap().as_database_error().unwrap().code().as_deref() == Some("23505")
}

/// The files of a table and its indexes.
async fn files(place: &Place, table: &str) -> Vec<i64> {
    let sql = format!(
        "SELECT CAST(relfilenode AS bigint) FROM pg_class WHERE oid = CAST('{table}' AS regclass) \
         OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = CAST('{table}' AS regclass)) ORDER BY 1"
    );
    place.sql(&sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_keeps_records_indexes_and_grants() {
    let place = Place::postgres();
    let store = place.store().await;
    // The clock of that gateway was ahead for a while.
    write(&place, &store, 1, &[0, 0, YEARS_20 * HOUR_MS]).await;
    let (before, lines) = (all(&store).await, verified(&store).await);
    store.close().await;
    place.undo_record_partitions().await;
    place.sql("CREATE ROLE record_auditor; GRANT SELECT ON records TO record_auditor").await;
    let old = files(&place, "records").await;
    assert_eq!(old.len(), 11);

    let store = place.store().await;
    assert_eq!(place.sql("SELECT version FROM schema_version").await, [19]);
    assert_eq!(files(&place, "records_first").await, old, "neither the table nor an index was built again");
    assert_eq!((count(&place, "records_first").await, count(&place, "records_last").await), (2, 1));
    // Longer than a rolling update.
    let week = bounds(&place).await[0].1.unwrap();
    assert!((167..=169).contains(&week), "{week}");
    let attached = "SELECT count(*) FROM pg_inherits JOIN pg_index ON indexrelid = inhrelid \
                    WHERE indrelid = CAST('records_first' AS regclass)";
    assert_eq!(place.sql(attached).await, [8]);
    let may_read = "SELECT CAST(has_table_privilege('record_auditor', 'records', 'SELECT') AS integer)";
    assert_eq!(place.sql(may_read).await, [1]);
    assert_eq!((all(&store).await, verified(&store).await), (before, lines));
    write(&place, &store, 1, &[1]).await;
    assert_eq!(verified(&store).await, lines + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_of_the_previous_version_go_on() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0]).await;
    store.close().await;
    place.undo_record_partitions().await;
    let mut old = connect(&place).await;
    let (key, hour) = (now_ms() << 21, HOUR_MS << 21);
    for round in 0..2 {
        let (key, seq) = (key + 1 + round, 1 + 10 * round);
        assert_eq!(insert(&mut old, key, seq).await.unwrap(), 1);
        assert_eq!(close(&mut old, key, seq + 1).await.unwrap(), 1);
        let rows: Vec<(i64, i64)> =
            sqlx::query_as(PAGE).bind(0_i64).bind(i64::MAX).bind(1_i64).fetch_all(&mut old).await.unwrap();
        assert_eq!(rows, [(key, seq)]);
        // Another writer with the same key, days ahead.
        assert!(is_taken(insert(&mut old, key + 100 * hour, seq).await), "the position is taken");
        assert_eq!(insert(&mut old, key + 10, seq + 3).await.unwrap(), 1);
        assert!(is_taken(close(&mut old, key + 10, seq + 1).await), "the end is taken");
        assert_eq!(
            sqlx::query("DELETE FROM records WHERE key = $1")
                .bind(key + 10)
                .execute(&mut old)
                .await
                .unwrap()
                .rows_affected(),
            1
        );
        if round == 0 {
            let store = place.store().await;
            assert_eq!(place.sql("SELECT version FROM schema_version").await, [19]);
            store.close().await;
        }
    }
    let store = place.store().await;
    assert_eq!(store.list(&Filter::default(), None, 9).await.unwrap().records.len(), 3);
}

/// Other gateways would wait behind an upgrade that waits for a backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_does_not_wait_for_a_backup() {
    let place = Place::postgres();
    let store = place.store().await;
    write(&place, &store, 1, &[0]).await;
    store.close().await;
    place.undo_record_partitions().await;
    let Location::Postgres(url) = &place.location else { panic!("PostgreSQL") };
    let mut reading = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT key FROM records").execute(&mut reading).await.unwrap();
    let error = Store::open(&place.location).await.err().unwrap();
    assert_eq!(error.to_string(), "could not upgrade the database schema");
    assert_eq!(place.sql("SELECT version FROM schema_version").await, [18]);
    sqlx::raw_sql("COMMIT").execute(&mut reading).await.unwrap();
    let store = place.store().await;
    assert_eq!(place.sql("SELECT version FROM schema_version").await, [19]);
    verified(&store).await;
}
