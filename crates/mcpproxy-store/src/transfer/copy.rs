//! Copies a database into another one, in steps that are continued after a crash.
//!
//! The target keeps a table `migration_progress`: which source is copied, and the last row of each table. Every batch is
//! written with its progress in one transaction. So after a crash at any moment, the next run continues with the next
//! batch. The target only holds what an unfinished copy wrote, which its negative schema version proves (`whole.rs`).
//! That version also keeps gateways away from it.
//!
//! If the source changed in between, the copy begins again. A mark of the source detects most changes: the ends of its
//! chains, and the versions of tokens, approvals and pins. The comparison at the end detects the others.
//!
//! At the end, every row of both databases is read again and compared: the number of rows of each table, and a digest of
//! their content that does not depend on their order.

use super::load::insert;
use super::snapshot::{Snapshot, TableDigest};
use crate::sql::{Connection, Statement, Value, whole};
use crate::{Location, Progress, Store, StoreError};

const DOING: &str = "copy the database";
/// The row that names the source. No table has this name.
const SOURCE: &str = "source";
/// Tables that every change of their area raises.
const VERSIONS: [&str; 3] = ["tokens_version", "approvals_version", "pins_version"];

/// A copy whose rows equal the original. No gateway opens it before [`Copied::finish`].
pub struct Copied {
    /// Tables with rows, and their number of rows.
    pub tables: Vec<(String, u64)>,
    pub rows: u64,
    /// `true` if an earlier run had begun the copy.
    pub continued: bool,
    store: Store,
    connection: Connection,
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
        source.check_unused(self.database().location()).await?;
        let (mut connection, is_begun) = whole::begin_copy(target).await?;
        let mark = mark(&mut source).await?;
        let mut continued = is_begun && last(&mut connection, SOURCE).await?.as_deref() == Some(mark.as_str());
        let tables = loop {
            if !continued {
                begin_again(&mut connection, &source, &mark).await?;
            }
            copy_tables(&mut source, &mut connection, progress).await?;
            match compare(&mut source, target, progress).await {
                // The source changed since the earlier run, in a way that its mark does not show.
                Err(StoreError::CopyDiffers { .. }) if continued => continued = false,
                compared => break compared?,
            }
        };
        source.close().await?;
        let tables: Vec<(String, u64)> =
            tables.into_iter().filter(|table| table.rows > 0).map(|table| (table.table, table.rows)).collect();
        let rows = tables.iter().map(|(_, rows)| rows).sum();
        Ok(Copied { tables, rows, continued, store: Store::open_half_copied(target)?, connection })
    }
}

impl Copied {
    /// The new database, to check it or to adapt it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Hands the new database over to gateways.
    pub async fn finish(self) -> Result<(), StoreError> {
        self.store.close().await;
        whole::end_copy(self.connection).await
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

/// Removes what an unfinished copy of another source wrote, or of the source as it was.
async fn begin_again(connection: &mut Connection, source: &Snapshot, mark: &str) -> Result<(), StoreError> {
    let delete = |name: &str| Statement::new(format!("DELETE FROM \"{name}\""), Vec::new());
    let mut statements: Vec<Statement> = source.tables().iter().map(|table| delete(&table.name)).collect();
    statements.extend([delete("migration_progress"), note(SOURCE, mark)]);
    connection.transaction(statements).await.map_err(StoreError::while_trying(DOING))
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
        // An earlier run may have copied some.
        done += whole::count(connection, &table.name).await?;
    }
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
            connection.run("COMMIT").await.map_err(&failed)?;
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
    let mut copy = Snapshot::of(whole::view_half_copied(target).await?).await?;
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
