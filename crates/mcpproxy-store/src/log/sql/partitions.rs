//! Creates and drops partitions of the payloads, and lists those of any table. `log/partitions.rs` explains them.

use super::RecordWriter;
use super::retention::More;
use crate::StoreError;
use crate::log::partitions::{Hours, missing};
use crate::log::tally::HOUR_MS;
use crate::record::id::Key;
use crate::sql::driver::{Connection, Dialect, Row, Statement, Value};
use crate::text::rfc3339;

/// All partitions of a table, the default one too. None if the table is not partitioned.
const LIST: &str = "SELECT CAST(CAST(c.oid AS regclass) AS text), pg_get_expr(c.relpartbound, c.oid), \
     CAST(c.reltuples AS bigint) \
     FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = CAST(CAST($1 AS text) AS regclass)";
/// Gateways take turns. Writers and readers wait behind a lock that this waits for, so it does not wait long.
pub(super) const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '200ms'; SELECT pg_advisory_xact_lock(7163470114)";
const LAST_IN_REST: &str = "SELECT max(key) FROM payloads_rest WHERE key >= $1 AND key < $2";
/// PostgreSQL's codes for a lock that was not free in time, for a deadlock, and for a statement that took too long.
const IN_USE: [&str; 3] = ["55P03", "40P01", "57014"];

type Result<T> = std::result::Result<T, sqlx::Error>;

pub(super) struct Partition {
    /// As it stands in SQL.
    pub(super) name: String,
    pub(super) hours: Hours,
}

impl RecordWriter {
    /// Creates the partitions that are missing from now on, each with this many hours. None with SQLite.
    pub(crate) async fn create_partitions(&mut self, width: i64, now_ms: i64) -> std::result::Result<(), StoreError> {
        match self.dialect() {
            Dialect::Sqlite => return Ok(()),
            Dialect::Postgres => {}
        }
        let now_hour = now_ms.div_euclid(HOUR_MS);
        let work = async |connection: &mut Connection| {
            if missing_now(connection, now_hour, width).await?.is_empty() {
                return Ok(());
            }
            connection.run(BEGIN).await?;
            // Another gateway may have created them meanwhile.
            for hours in missing_now(connection, now_hour, width).await? {
                create(connection, hours).await?;
            }
            connection.run("COMMIT").await
        };
        unless_in_use(self.with_connection(work).await).map(|_| ())
    }

    /// Drops the oldest partition if all its keys are before this one.
    pub(crate) async fn drop_partition(&mut self, before: Key) -> std::result::Result<More, StoreError> {
        match self.dialect() {
            Dialect::Sqlite => return Ok(More::No),
            Dialect::Postgres => {}
        }
        let work = async |connection: &mut Connection| {
            let expired =
                partitions(connection, "payloads").await?.into_iter().filter(|one| one.hours.keys().1 <= before);
            let Some(Partition { name, hours }) = expired.min_by_key(|one| one.hours.to) else { return Ok(More::No) };
            let (from, to) = (hours.from.max(0), hours.to);
            connection.run(BEGIN).await?;
            // Another gateway may have dropped it meanwhile.
            let sql = format!(
                "DROP TABLE IF EXISTS {name}; DELETE FROM payload_hours WHERE hour >= {from} AND hour < {to}; COMMIT"
            );
            connection.run(&sql).await?;
            Ok(More::Yes)
        };
        unless_in_use(self.with_connection(work).await).map(|more| more.unwrap_or(More::No))
    }
}

async fn missing_now(connection: &mut Connection, now_hour: i64, width: i64) -> Result<Vec<Hours>> {
    let existing: Vec<Hours> = partitions(connection, "payloads").await?.into_iter().map(|one| one.hours).collect();
    Ok(missing(&existing, now_hour, width))
}

/// The partitions of a table with a range, which a default one does not have, in their order.
pub(super) async fn partitions(connection: &mut Connection, table: &str) -> Result<Vec<Partition>> {
    let rows = connection.fetch(list(table)).await?;
    let read = |row: &Row| {
        let (name, bounds) = (row.text(0)?.unwrap_or_default(), row.text(1)?.unwrap_or_default());
        Ok(Hours::of_bounds(&bounds).map(|hours| Partition { name, hours }))
    };
    let mut partitions: Vec<Partition> = rows.iter().filter_map(|row| read(row).transpose()).collect::<Result<_>>()?;
    partitions.sort_unstable_by_key(|partition| partition.hours.from);
    Ok(partitions)
}

/// The names, the bounds and the estimated numbers of rows of the partitions of a table.
pub(super) fn list(table: &str) -> Statement {
    Statement::new(LIST, vec![Value::text(table)])
}

/// Creates a partition in a transaction that has begun. It begins after the rows that already arrived without one.
async fn create(connection: &mut Connection, hours: Hours) -> Result<()> {
    let (from, to) = hours.keys();
    let rows = connection.fetch(Statement::new(LAST_IN_REST, vec![Value::int(from.0), Value::int(to.0)])).await?;
    let last = rows.first().map(|row| row.int(0)).transpose()?.flatten();
    let from_hour = last.map_or(hours.from, |last| Key(last).time_ms() / HOUR_MS + 1);
    if from_hour >= hours.to {
        return Ok(());
    }
    let hours = Hours { from: from_hour, ..hours };
    let (from, to) = hours.keys();
    let name = name("payloads", hours);
    // Attaching a table takes a weaker lock than creating a partition.
    let sql = format!(
        "CREATE TABLE {name} (key BIGINT PRIMARY KEY, args TEXT, result TEXT); \
         ALTER TABLE payloads ATTACH PARTITION {name} FOR VALUES FROM ({}) TO ({})",
        from.0, to.0
    );
    connection.run(&sql).await
}

/// Names the first hour: `payloads_2026_11_18_22`.
pub(super) fn name(table: &str, hours: Hours) -> String {
    let time = rfc3339(hours.from.saturating_mul(HOUR_MS));
    let hour = time.chars().take("2026-11-18T22".len()).map(|digit| if digit.is_ascii_digit() { digit } else { '_' });
    format!("{table}_{}", hour.collect::<String>())
}

/// Returns `None` if another transaction uses the partitions. The next round tries again.
pub(super) fn unless_in_use<T>(
    outcome: std::result::Result<T, StoreError>,
) -> std::result::Result<Option<T>, StoreError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Database { source, .. }) if is_in_use(&source) => {
            tracing::info!("partitions of the activity log are in use, trying again later");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_in_use(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| IN_USE.contains(&code.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_first_hour() {
        assert_eq!(name("payloads", Hours { from: 472_222, to: 472_223 }), "payloads_2023_11_14_22");
    }
}
