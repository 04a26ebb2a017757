//! Reads all tables as they were at one moment, in batches.

use sha2::{Digest as _, Sha256};

use super::{fate, rows};
use crate::log::sql::{Head, head};
use crate::sql::tables::{self, Table};
use crate::sql::{Connection, Statement, Value, whole};
use crate::text::hex;
use crate::{Location, Progress, Store, StoreError};

const DOING: &str = "read the rows of a table";
/// The rows of one batch. It begins small, because a row can have megabytes, such as an answer that is kept in `claims`.
const BATCH_ROWS_FIRST: usize = 8;
const BATCH_ROWS_MAX: usize = 200;
/// Batches with less text are followed by larger ones, up to the maximum.
const BATCH_BYTES: usize = 1024 * 1024;

/// All tables at one moment, while gateways write.
pub struct Snapshot {
    connection: Connection,
    tables: Vec<Table>,
    /// The table to read next, and the key after which it is continued.
    at: usize,
    after: Option<Vec<Value>>,
    /// The rows of the next batch.
    limit: usize,
}

/// Some rows of a table, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub table: String,
    pub rows: u64,
    /// One JSON array for each row.
    pub text: String,
    /// The key of the last row, as a JSON array.
    pub(crate) last: String,
}

/// The end of a chain in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainHead {
    pub chain: String,
    pub seq: i64,
    /// In hexadecimal digits.
    pub hash: String,
}

/// The number of rows of a table, and a digest that does not depend on their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableDigest {
    pub(crate) table: String,
    pub(crate) rows: u64,
    digest: [u8; 32],
}

impl Store {
    /// Opens a view of the whole database as it is now.
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::of(whole::view(self.database().location()).await?).await
    }
}

impl Snapshot {
    pub(super) async fn of(connection: Connection) -> Result<Self, StoreError> {
        let mut tables = tables::of_version(whole::SCHEMA).await?;
        tables.retain(|table| fate::is_copied(&table.name));
        Ok(Self { connection, tables, at: 0, after: None, limit: BATCH_ROWS_FIRST })
    }

    /// Fails if gateways use the database that this is a view of.
    pub(super) async fn check_unused(&mut self, location: &Location) -> Result<(), StoreError> {
        whole::check_unused(&mut self.connection, location).await
    }

    /// The version of the schema that the rows have.
    pub fn schema(&self) -> i64 {
        whole::SCHEMA
    }

    /// The next rows, table after table. Returns `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Batch>, StoreError> {
        while let Some(table) = self.tables.get(self.at) {
            let failed = StoreError::while_trying(DOING);
            let statement = page(table, self.after.take(), self.limit);
            let found = self.connection.fetch(statement).await.map_err(&failed)?;
            let mut text = String::new();
            let mut last = Vec::new();
            for row in &found {
                last = rows::values(table, row)?;
                rows::push_line(&mut text, &last);
            }
            let key: Vec<Value> = table.key.iter().filter_map(|index| last.get(*index).cloned()).collect();
            let name = table.name.clone();
            // A table without a key has a single row, and is read once.
            if found.len() < self.limit || key.is_empty() {
                (self.at, self.limit) = (self.at + 1, BATCH_ROWS_FIRST);
            } else {
                self.after = Some(key.clone());
                self.limit = next_limit(self.limit, text.len());
            }
            if !found.is_empty() {
                let mut last = String::new();
                rows::push_line(&mut last, &key);
                return Ok(Some(Batch { table: name, rows: found.len() as u64, text, last }));
            }
        }
        Ok(None)
    }

    /// Continues after a row of a table. `None` begins the table.
    pub(crate) fn go_on_after(&mut self, table: &str, last: Option<&str>) -> Result<(), StoreError> {
        let wrong = || StoreError::corrupt("a note of how far a table was copied");
        self.at = self.tables.iter().position(|known| known.name == table).ok_or_else(wrong)?;
        (self.after, self.limit) = (None, BATCH_ROWS_FIRST);
        if let (Some(last), Some(table)) = (last, self.tables.get(self.at)) {
            let kinds: Vec<_> = table.key.iter().filter_map(|index| Some(table.columns.get(*index)?.kind)).collect();
            self.after = Some(rows::parse_line(last.trim(), &kinds).ok_or_else(wrong)?);
        }
        Ok(())
    }

    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The ends of all chains.
    pub async fn heads(&mut self) -> Result<Vec<ChainHead>, StoreError> {
        let failed = StoreError::while_trying(DOING);
        let sql = "SELECT number, name FROM chains ORDER BY number";
        let mut heads = Vec::new();
        for row in self.connection.fetch(Statement::plain(sql)).await.map_err(&failed)? {
            let number = row.int(0).map_err(&failed)?.and_then(|number| u16::try_from(number).ok());
            let number = number.ok_or_else(|| StoreError::corrupt("a chain without a usable number"))?;
            let Head { seq, hash, .. } = head(&mut self.connection, number).await?;
            let chain = row.text(1).map_err(&failed)?.unwrap_or_default();
            heads.push(ChainHead { chain, seq, hash: hex(&hash) });
        }
        Ok(heads)
    }

    /// The number of rows in all tables.
    pub async fn count(&mut self) -> Result<u64, StoreError> {
        let mut count = 0;
        for table in &self.tables {
            count += whole::count(&mut self.connection, &table.name).await?;
        }
        Ok(count)
    }

    /// Reads all tables again from the beginning, to compare them with those of another database.
    pub(crate) async fn digests(
        &mut self,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Vec<TableDigest>, StoreError> {
        let total = self.count().await?;
        (self.at, self.after, self.limit) = (0, None, BATCH_ROWS_FIRST);
        let empty = |table: &Table| TableDigest { table: table.name.clone(), rows: 0, digest: [0; 32] };
        let mut digests: Vec<TableDigest> = self.tables.iter().map(empty).collect();
        let mut done = 0;
        while let Some(batch) = self.next().await? {
            done += batch.rows;
            progress(Progress { done, total });
            let Some(table) = digests.iter_mut().find(|digest| digest.table == batch.table) else { continue };
            table.rows += batch.rows;
            for line in batch.text.lines() {
                let digest: [u8; 32] = Sha256::digest(line.as_bytes()).into();
                table.digest.iter_mut().zip(digest).for_each(|(sum, byte)| *sum ^= byte);
            }
        }
        Ok(digests)
    }

    pub async fn close(self) -> Result<(), StoreError> {
        self.connection.close().await.map_err(StoreError::while_trying(DOING))
    }
}

fn next_limit(limit: usize, bytes: usize) -> usize {
    match bytes {
        0..BATCH_BYTES => (limit * 2).min(BATCH_ROWS_MAX),
        _ => (limit / 2).max(1),
    }
}

fn page(table: &Table, after: Option<Vec<Value>>, limit: usize) -> Statement {
    let (columns, keys) = (table.column_list(), table.key_list());
    if table.key.is_empty() {
        return Statement::new(format!("SELECT {columns} FROM \"{}\"", table.name), Vec::new());
    }
    let places: Vec<String> = (1..=table.key.len()).map(|place| format!("${place}")).collect();
    let condition = after.as_ref().map(|_| format!("WHERE ({keys}) > ({}) ", places.join(", ")));
    let sql = format!(
        "SELECT {columns} FROM \"{}\" {}ORDER BY {keys} LIMIT {limit}",
        table.name,
        condition.unwrap_or_default()
    );
    Statement::new(sql, after.unwrap_or_default())
}
