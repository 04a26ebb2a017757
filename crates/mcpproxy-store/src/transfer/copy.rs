//! Copies a database into another one, in steps that are continued after a crash.
//!
//! The target keeps a table `migration_progress`: which source is copied, and the last row of each table. Every batch is
//! written with its progress in one transaction. So after a crash at any moment, the next run continues with the next
//! batch. If the source changed in between, the copy begins again. The target only holds what an unfinished copy wrote,
//! which the table proves.
//!
//! At the end, every row of both databases is read again and compared: the number of rows of each table, and a digest of
//! their content that does not depend on their order.

use super::load::insert;
use super::snapshot::{Snapshot, TableDigest};
use crate::sql::{Connection, Database, Dialect, Statement, Value, connect, whole};
use crate::{Location, Progress, Store, StoreError};

const DOING: &str = "copy the database";
const PROGRESS: &str = "CREATE TABLE IF NOT EXISTS migration_progress \
     (name TEXT NOT NULL PRIMARY KEY, last TEXT NOT NULL)";
/// The row that names the source. No table has this name.
const SOURCE: &str = "source";
/// Tables that every change of their area raises.
const VERSIONS: [&str; 3] = ["tokens_version", "approvals_version", "pins_version"];
/// Held by the process that copies.
const POSTGRES_LOCK: &str = "SELECT CASE WHEN pg_try_advisory_lock(7163470113) THEN 1::bigint ELSE 0::bigint END";

/// The result of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Tables with rows, and their number of rows.
    pub tables: Vec<(String, u64)>,
    pub rows: u64,
    /// `true` if an earlier run had begun the copy.
    pub continued: bool,
}

/// The steps of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    Copy,
    Compare,
}

impl Store {
    /// Copies all tables to an empty database, or continues an earlier run. No gateway may use either of them.
    pub async fn copy_to(
        &self,
        target: &Location,
        progress: &mut (dyn FnMut(CopyStep, Progress) + Send),
    ) -> Result<Copied, StoreError> {
        let mut source = self.snapshot().await?;
        // Creates the tables, and for SQLite the file.
        Database::open(target).await?.close().await;
        let mut connection = connect(target).await?;
        whole::check_unused(&mut connection, target).await?;
        lock(&mut connection, target).await?;
        let mark = mark(&mut source).await?;
        let continued = prepare(&mut connection, &source, target, &mark).await?;
        copy_tables(&mut source, &mut connection, progress).await?;
        let tables = compare(&mut source, target, progress).await?;
        run(&mut connection, "DROP TABLE migration_progress").await?;
        connection.close().await.map_err(StoreError::while_trying(DOING))?;
        source.close().await?;
        let tables: Vec<(String, u64)> =
            tables.into_iter().filter(|table| table.rows > 0).map(|table| (table.table, table.rows)).collect();
        Ok(Copied { rows: tables.iter().map(|(_, rows)| rows).sum(), tables, continued })
    }
}

/// Only one process may copy to a database at a time.
async fn lock(connection: &mut Connection, target: &Location) -> Result<(), StoreError> {
    if connection.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let rows = fetch(connection, Statement::plain(POSTGRES_LOCK)).await?;
    match rows.first().map(|row| row.int(0)).transpose().map_err(StoreError::while_trying(DOING))?.flatten() {
        Some(1) => Ok(()),
        Some(_) | None => Err(StoreError::InUse { location: target.clone() }),
    }
}

/// A text that differs if the source changed: the ends of all chains, and the versions of tokens, approvals and pins.
async fn mark(source: &mut Snapshot) -> Result<String, StoreError> {
    let heads = source.heads().await?;
    let mut mark: String = heads.iter().map(|head| format!("{} {} {}\n", head.chain, head.seq, head.hash)).collect();
    for table in VERSIONS {
        source.go_on_after(table, None)?;
        let batch = source.next().await?;
        mark.push_str(&batch.map(|batch| batch.text).unwrap_or_default());
    }
    Ok(mark)
}

/// Checks that the target is empty or holds an unfinished copy. Returns whether the copy is continued.
async fn prepare(
    connection: &mut Connection,
    source: &Snapshot,
    target: &Location,
    mark: &str,
) -> Result<bool, StoreError> {
    let exists = match connection.dialect() {
        Dialect::Sqlite => "SELECT 1 FROM sqlite_master WHERE name = 'migration_progress'",
        Dialect::Postgres => {
            "SELECT 1 FROM pg_tables WHERE tablename = 'migration_progress' AND schemaname = ANY(current_schemas(false))"
        }
    };
    let is_begun = !fetch(connection, Statement::plain(exists)).await?.is_empty();
    if !is_begun && !whole::is_empty(connection).await? {
        return Err(StoreError::NotEmpty { location: target.clone() });
    }
    run(connection, PROGRESS).await?;
    if is_begun && last(connection, SOURCE).await?.as_deref() == Some(mark) {
        return Ok(true);
    }
    // Everything in the target comes from an unfinished copy of another source, or of the source as it was.
    let mut statements: Vec<Statement> = Vec::new();
    for table in source.tables() {
        statements.push(Statement::new(format!("DELETE FROM \"{}\"", table.name), Vec::new()));
    }
    statements.push(Statement::plain("DELETE FROM migration_progress"));
    statements.push(note(SOURCE, mark));
    connection.transaction(statements).await.map_err(StoreError::while_trying(DOING))?;
    Ok(false)
}

async fn copy_tables(
    source: &mut Snapshot,
    connection: &mut Connection,
    progress: &mut (dyn FnMut(CopyStep, Progress) + Send),
) -> Result<(), StoreError> {
    let failed = StoreError::while_trying(DOING);
    let total = source.count().await?;
    let tables = source.tables().to_vec();
    let mut done = 0;
    for table in &tables {
        let before = last(connection, &table.name).await?;
        // A table with a single row is done once it has any progress.
        if before.is_some() && table.key.is_empty() {
            continue;
        }
        source.go_on_after(&table.name, before.as_deref())?;
        while let Some(batch) = source.next().await?.filter(|batch| batch.table == table.name) {
            connection.begin().await.map_err(&failed)?;
            done += insert(connection, table, &batch.text).await?;
            connection.execute(note(&table.name, &batch.last)).await.map_err(&failed)?;
            run(connection, "COMMIT").await?;
            progress(CopyStep::Copy, Progress { done, total });
        }
    }
    Ok(())
}

/// Reads both databases again. Fails if a table differs.
async fn compare(
    source: &mut Snapshot,
    target: &Location,
    progress: &mut (dyn FnMut(CopyStep, Progress) + Send),
) -> Result<Vec<TableDigest>, StoreError> {
    let copy = Store::open(target).await?;
    let mut copy = copy.snapshot().await?;
    let ours = source.digests(&mut |done| progress(CopyStep::Compare, done)).await?;
    let theirs = copy.digests(&mut |done| progress(CopyStep::Compare, done)).await?;
    copy.close().await?;
    match ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
        Some((table, _)) => Err(StoreError::CopyDiffers { table: table.table.clone() }),
        None => Ok(ours),
    }
}

async fn last(connection: &mut Connection, name: &str) -> Result<Option<String>, StoreError> {
    let sql = "SELECT last FROM migration_progress WHERE name = $1";
    let rows = fetch(connection, Statement::new(sql, vec![Value::text(name)])).await?;
    Ok(rows.first().map(|row| row.text(0)).transpose().map_err(StoreError::while_trying(DOING))?.flatten())
}

fn note(name: &str, last: &str) -> Statement {
    let sql = "INSERT INTO migration_progress (name, last) VALUES ($1, $2) \
               ON CONFLICT (name) DO UPDATE SET last = excluded.last";
    Statement::new(sql, vec![Value::text(name), Value::text(last)])
}

async fn fetch(connection: &mut Connection, statement: Statement) -> Result<Vec<crate::sql::Row>, StoreError> {
    connection.fetch(statement).await.map_err(StoreError::while_trying(DOING))
}

async fn run(connection: &mut Connection, sql: &str) -> Result<(), StoreError> {
    connection.run(sql).await.map_err(StoreError::while_trying(DOING))
}
