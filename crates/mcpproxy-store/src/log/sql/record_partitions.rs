//! Creates partitions of the records. `log/partitions.rs` explains them.

use super::RecordWriter;
use super::partitions::{BEGIN, Partition, name, partitions, unless_in_use};
use crate::StoreError;
use crate::log::partitions::{Hours, before_last};
use crate::log::tally::HOUR_MS;
use crate::sql::driver::{Connection, Dialect, Statement, Value};

/// Nobody reads or writes records until the transaction ends. Locks only the table, because every statement of a gateway
/// takes this lock before that of a partition.
pub(super) const LOCK: &str = "LOCK TABLE ONLY records IN ACCESS EXCLUSIVE MODE";
/// A check of the rows in the last partition must not take long either. Callers wait for it.
const CHECK_TIMEOUT: &str = "SET LOCAL statement_timeout = '2s'";
/// The first rows in the last partition that another one will take.
const LATE: &str = "SELECT CAST(count(*) AS BIGINT) FROM (SELECT 1 FROM records_last WHERE key < $1 LIMIT $2) AS late";
/// With more rows than these, they stay in their table, which becomes a partition of its own.
const LATE_MAX: i64 = 10_000;

type Result<T> = std::result::Result<T, sqlx::Error>;

/// The last partition, and those to create before it.
struct Wanted {
    last: Hours,
    created: Vec<Hours>,
    /// The hour at which the last partition begins afterwards.
    to: i64,
}

impl RecordWriter {
    /// Creates the partitions that are missing before the last one, each with this many hours. None with SQLite.
    pub(crate) async fn create_record_partitions(
        &mut self,
        width: i64,
        now_ms: i64,
    ) -> std::result::Result<(), StoreError> {
        match self.dialect() {
            Dialect::Sqlite => return Ok(()),
            Dialect::Postgres => {}
        }
        let now_hour = now_ms.div_euclid(HOUR_MS);
        let work = async |connection: &mut Connection| {
            if wanted(connection, now_hour, width).await?.is_none() {
                return Ok(());
            }
            connection.run(&format!("{BEGIN}; {CHECK_TIMEOUT}")).await?;
            // Another gateway may have created them meanwhile.
            if let Some(wanted) = wanted(connection, now_hour, width).await? {
                let to = Value::int(wanted.bound());
                let late = Statement::new(LATE, vec![to, Value::int(LATE_MAX + 1)]);
                let rows = connection.fetch(late).await?;
                let late = rows.first().map(|row| row.int(0)).transpose()?.flatten().unwrap_or(0);
                if late > LATE_MAX {
                    close_last(connection, &wanted).await?
                } else {
                    insert(connection, &wanted).await?
                }
            }
            connection.run("COMMIT").await
        };
        unless_in_use(self.with_connection(work).await).map(|_| ())
    }
}

impl Wanted {
    /// The first key of the last partition afterwards.
    fn bound(&self) -> i64 {
        Hours { from: self.to, to: self.to }.keys().0.0
    }
}

async fn wanted(connection: &mut Connection, now_hour: i64, width: i64) -> Result<Option<Wanted>> {
    let existing = partitions(connection, "records").await?;
    let Some(Partition { hours: last, .. }) = existing.last().filter(|last| last.hours.to == i64::MAX) else {
        return Ok(None);
    };
    let created = before_last(last.from, existing.len(), now_hour, width);
    Ok(created.last().map(|end| end.to).map(|to| Wanted { last: *last, created, to }))
}

/// Creates partitions, and moves the beginning of the last one after them. The last one is empty, unless no partition could
/// be created for long, or a clock was ahead.
async fn insert(connection: &mut Connection, wanted: &Wanted) -> Result<()> {
    let tables: Vec<(String, Hours)> = wanted.created.iter().map(|hours| (name("records", *hours), *hours)).collect();
    for (table, _) in &tables {
        create(connection, table).await?;
    }
    let attach: Vec<String> = tables.iter().map(|(table, hours)| attached(table, *hours)).collect();
    let (attach, bound) = (attach.join("; "), wanted.bound());
    let sql = format!(
        "{LOCK}; ALTER TABLE records DETACH PARTITION records_last; {attach}; \
         WITH late AS (DELETE FROM records_last WHERE key < {bound} RETURNING *) INSERT INTO records SELECT * FROM late; \
         {}",
        attached("records_last", Hours { from: wanted.to, to: i64::MAX })
    );
    connection.run(&sql).await
}

/// Gives the last partition an end, and creates a new last one. PostgreSQL checks its rows, which fails if a clock was ahead.
async fn close_last(connection: &mut Connection, wanted: &Wanted) -> Result<()> {
    create(connection, "records_next").await?;
    let closed = Hours { to: wanted.to, ..wanted.last };
    let table = name("records", closed);
    let sql = format!(
        "{LOCK}; ALTER TABLE records DETACH PARTITION records_last; ALTER TABLE records_last RENAME TO {table}; {}; \
         ALTER TABLE records_next RENAME TO records_last; {}",
        attached(&table, closed),
        attached("records_last", Hours { from: wanted.to, to: i64::MAX })
    );
    connection.run(&sql).await
}

/// Creates a table that can be attached. The unique indexes on positions are on each partition only.
async fn create(connection: &mut Connection, table: &str) -> Result<()> {
    let sql = format!(
        "CREATE TABLE {table} (LIKE records INCLUDING INDEXES); CREATE UNIQUE INDEX ON {table} (chain, seq); \
         CREATE UNIQUE INDEX ON {table} (chain, end_seq) WHERE end_seq IS NOT NULL"
    );
    connection.run(&sql).await
}

/// The statement that makes a table the partition of these hours.
pub(super) fn attached(table: &str, hours: Hours) -> String {
    let (from, to) = hours.keys();
    let from = if hours.from == i64::MIN { "MINVALUE".to_owned() } else { from.0.to_string() };
    let to = if hours.to == i64::MAX { "MAXVALUE".to_owned() } else { to.0.to_string() };
    format!("ALTER TABLE records ATTACH PARTITION {table} FOR VALUES FROM ({from}) TO ({to})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_partition_have_one_bound() {
        let bounds = |from, to| attached("t", Hours { from, to }).split_once(" FROM ").unwrap().1.to_owned();
        assert_eq!(bounds(i64::MIN, 1), format!("(MINVALUE) TO ({})", HOUR_MS << 21));
        assert_eq!(bounds(1, i64::MAX), format!("({}) TO (MAXVALUE)", HOUR_MS << 21));
        assert_eq!(bounds(1, 2), format!("({}) TO ({})", HOUR_MS << 21, HOUR_MS << 22));
    }
}
