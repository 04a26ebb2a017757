//! Work on the whole database: one consistent view of all tables, and a database that is created or replaced at once.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::database::{connect, connect_new};
use super::driver::{Connection, Dialect, Statement};
use super::migrate;
use super::tables::{self, Table};
use crate::{Location, StoreError};

const READING: &str = "read the whole database";
const REPLACING: &str = "replace the database";
const COPYING: &str = "copy the database";
/// The source of a copy that has not finished, and the last row of each table.
const PROGRESS: &str = "CREATE TABLE migration_progress (name TEXT NOT NULL PRIMARY KEY, last TEXT NOT NULL)";
/// Held by the process that copies.
const COPY_LOCK: &str = "SELECT CASE WHEN pg_try_advisory_lock(7163470113) THEN 1::bigint ELSE 0::bigint END";
const COPY_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const COPY_LOCK_PAUSE: Duration = Duration::from_millis(100);
/// The number of chains that gateways hold open. `log/sql/take.rs` takes these locks.
const OPEN_CHAINS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1835233136 \
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// The schema version that this program writes.
pub(crate) const SCHEMA: i64 = migrate::KNOWN;

/// Opens a connection that sees all tables as they are now, whatever others write meanwhile.
pub(crate) async fn view(location: &Location) -> Result<Connection, StoreError> {
    let mut connection = connect(location).await?;
    migrate::check(&mut connection, location).await?;
    begin_view(connection).await
}

/// Opens a view of a database into which a copy has not finished.
pub(crate) async fn view_half_copied(location: &Location) -> Result<Connection, StoreError> {
    begin_view(connect(location).await?).await
}

async fn begin_view(mut connection: Connection) -> Result<Connection, StoreError> {
    let failed = StoreError::while_trying(READING);
    let begin = match connection.dialect() {
        Dialect::Sqlite => "BEGIN",
        // The other settings of a connection end a transaction that waits too long for this program, for example
        // because it writes to a slow disk.
        //
        // Rows of a partition that is dropped vanish from the view, while the signed removals of chains would not appear in
        // it. So partitions of records stay until the view ends. Before the first read, so that nothing is dropped between.
        Dialect::Postgres => {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0; \
             LOCK TABLE records IN ACCESS SHARE MODE"
        }
    };
    connection.run(begin).await.map_err(&failed)?;
    // The first read fixes what the transaction sees.
    connection.fetch(Statement::plain("SELECT version FROM schema_version")).await.map_err(&failed)?;
    Ok(connection)
}

/// Returns whether no table with a primary key has a row. A database without tables is empty, too.
pub(crate) async fn is_empty(connection: &mut Connection) -> Result<bool, StoreError> {
    let failed = StoreError::while_trying(READING);
    for table in tables_of(connection).await?.iter().filter(|table| !table.key.is_empty()) {
        let sql = format!("SELECT 1 FROM \"{}\" LIMIT 1", table.name);
        if !connection.fetch(Statement::plain(&sql)).await.map_err(&failed)?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Counts the rows of a table.
pub(crate) async fn count(connection: &mut Connection, table: &str) -> Result<u64, StoreError> {
    let failed = StoreError::while_trying(READING);
    let sql = format!("SELECT count(*) FROM \"{table}\"");
    let rows = connection.fetch(Statement::plain(&sql)).await.map_err(&failed)?;
    let count = rows.first().map(|row| row.int(0)).transpose().map_err(&failed)?.flatten();
    Ok(count.unwrap_or(0).unsigned_abs())
}

/// Fails if gateways use the database. A SQLite database has the lock of its data folder instead.
pub(crate) async fn check_unused(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    if connection.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let failed = StoreError::while_trying(READING);
    let rows = connection.fetch(Statement::plain(OPEN_CHAINS)).await.map_err(&failed)?;
    match rows.first().map(|row| row.int(0)).transpose().map_err(&failed)?.flatten() {
        Some(0) | None => Ok(()),
        Some(_) => Err(StoreError::InUse { location: location.clone() }),
    }
}

/// Opens a database to copy another one into it. It must be empty, or an earlier run must have begun to copy.
///
/// Until `end_copy`, its schema version is negative, so that no gateway opens it half copied. Returns true if the copy may
/// be continued.
pub(crate) async fn begin_copy(location: &Location) -> Result<(Connection, bool), StoreError> {
    let failed = StoreError::while_trying(COPYING);
    let mut connection = connect_new(location).await?;
    lock_copy(&mut connection, location).await?;
    check_unused(&mut connection, location).await?;
    let found = migrate::version(&mut connection).await?;
    if found == -SCHEMA {
        return Ok((connection, true));
    }
    // What another version of this program began to copy has other tables, so it begins again.
    if found > 0 && !is_empty(&mut connection).await? {
        return Err(StoreError::NotEmpty { location: location.clone() });
    }
    begin_replacing(&mut connection, location, SCHEMA).await?;
    let begin = format!("{PROGRESS}; UPDATE schema_version SET version = -{SCHEMA}; COMMIT");
    connection.run(&begin).await.map_err(&failed)?;
    Ok((connection, false))
}

/// Marks a copy as complete. From here on, a gateway may open it.
pub(crate) async fn end_copy(mut connection: Connection) -> Result<(), StoreError> {
    let failed = StoreError::while_trying(COPYING);
    let version = format!("UPDATE schema_version SET version = {SCHEMA}");
    let statements = vec![Statement::plain("DROP TABLE migration_progress"), Statement::new(version, Vec::new())];
    connection.transaction(statements).await.map_err(&failed)?;
    connection.close().await.map_err(&failed)
}

/// Only one process may copy into a database at a time. For SQLite, the lock of the data folder ensures it.
async fn lock_copy(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    if connection.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let failed = StoreError::while_trying(COPYING);
    let begin = Instant::now();
    loop {
        let rows = connection.fetch(Statement::plain(COPY_LOCK)).await.map_err(&failed)?;
        match rows.first().map(|row| row.int(0)).transpose().map_err(&failed)?.flatten() {
            Some(1) => return Ok(()),
            // The server takes a moment to notice that an earlier run was killed.
            Some(_) | None if begin.elapsed() < COPY_LOCK_TIMEOUT => sleep(COPY_LOCK_PAUSE).await,
            Some(_) | None => return Err(StoreError::InUse { location: location.clone() }),
        }
    }
}

/// Begins a transaction in which all tables are created anew, in a schema version that this program knows.
pub(crate) async fn begin_replacing(
    connection: &mut Connection,
    location: &Location,
    schema: i64,
) -> Result<(), StoreError> {
    let failed = StoreError::while_trying(REPLACING);
    match connection.dialect() {
        Dialect::Sqlite => connection.run("BEGIN IMMEDIATE").await.map_err(&failed)?,
        Dialect::Postgres => {
            let settings = "SET LOCAL idle_in_transaction_session_timeout = 0";
            connection.run(&format!("BEGIN; {}; {settings}", migrate::POSTGRES_LOCK)).await.map_err(&failed)?;
        }
    }
    let found = migrate::version(connection).await?;
    if found > SCHEMA {
        return Err(StoreError::Newer { location: location.clone(), found, known: SCHEMA });
    }
    if found != 0 {
        let tables = tables::of_version(found.abs()).await?;
        for name in tables.iter().map(|table| table.name.as_str()).chain(["schema_version", "migration_progress"]) {
            connection.run(&format!("DROP TABLE IF EXISTS \"{name}\"")).await.map_err(&failed)?;
        }
    }
    migrate::create(connection, schema).await
}

/// Upgrades what was written to the current schema, and commits.
pub(crate) async fn commit_replaced(connection: &mut Connection, location: &Location) -> Result<(), StoreError> {
    migrate::steps(connection, location).await?;
    connection.run("COMMIT").await.map_err(StoreError::while_trying(REPLACING))
}

async fn tables_of(connection: &mut Connection) -> Result<Vec<Table>, StoreError> {
    let version = migrate::version(connection).await?;
    tables::of_version(version.abs().min(SCHEMA)).await
}
