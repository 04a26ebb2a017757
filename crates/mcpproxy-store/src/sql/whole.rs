//! Work on the whole database: one consistent view of all tables, and a database that is created or replaced at once.

use super::database::connect;
use super::driver::{Connection, Dialect, Statement};
use super::migrate;
use super::tables::{self, Table};
use crate::{Location, StoreError};

const READING: &str = "read the whole database";
const REPLACING: &str = "replace the database";
/// The number of chains that gateways hold open. `log/sql/take.rs` takes these locks.
const OPEN_CHAINS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1835233136 \
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// The schema version that this program writes.
pub(crate) const SCHEMA: i64 = migrate::KNOWN;

/// Opens a connection that sees all tables as they are now, whatever others write meanwhile.
pub(crate) async fn view(location: &Location) -> Result<Connection, StoreError> {
    let failed = StoreError::while_trying(READING);
    let mut connection = connect(location).await?;
    migrate::check(&mut connection, location).await?;
    let begin = match connection.dialect() {
        Dialect::Sqlite => "BEGIN",
        // The other settings of a connection end a transaction that waits too long for this program, for example
        // because it writes to a slow disk.
        Dialect::Postgres => {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0"
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
    if found > 0 {
        let mut names: Vec<String> = tables::of_version(found).await?.into_iter().map(|table| table.name).collect();
        names.push("schema_version".to_owned());
        for name in names {
            connection.run(&format!("DROP TABLE \"{name}\"")).await.map_err(&failed)?;
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
    tables::of_version(version.min(SCHEMA)).await
}
