//! Reads one chain for an export, and keeps the position up to which it was exported.
//!
//! The reader of an export must not miss a record, so it follows positions of the chain and not times: a position is
//! committed after all positions before it. A call appears once, when it has ended, because only then its outcome is
//! known. A call that a crash interrupted is ended at the next start, so it appears, too.
//!
//! Retention does not wait for an export. It has its own reasons, such as a legal duty to delete, and a receiver that is
//! gone for months must not fill the disk. Instead, [`ExportBatch::missed`] counts what was removed before it was read.

use super::feed::{ChainReader, FeedCursor};
use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::{Filter, LIMIT_MAX, Record, Store, StoreError};

const READING: &str = "read the position of the export";
const MOVING: &str = "store the position of the export";

/// Records to export, in the order of the chain.
#[derive(Clone, Debug)]
pub struct ExportBatch {
    /// Records that have ended, each with the position up to which everything is exported once it is.
    pub records: Vec<(i64, Record)>,
    /// The position after all that was looked at. Beyond the last record, there are only beginnings of open calls.
    pub next: i64,
    /// The last position of the chain.
    pub end: i64,
    /// Lines that retention removed before they were read.
    pub missed: u64,
}

/// A part of an export that goes on after a position in every chain.
#[derive(Clone, Debug)]
pub struct ExportPage {
    /// Records that have ended, in the order of their chain.
    pub records: Vec<Record>,
    pub next: FeedCursor,
    /// The number of lines that were looked at.
    pub lines: u64,
    /// Lines that retention removed before they were read.
    pub missed: u64,
}

impl Store {
    /// Returns the next records after a position that match the filter, or `None` at the end. Chain after chain.
    pub async fn export_after(
        &self,
        after: &FeedCursor,
        end: &FeedCursor,
        filter: &Filter,
    ) -> Result<Option<ExportPage>, StoreError> {
        for (chain, end) in end.chains() {
            let from = match after.position(chain) {
                Some(from) => from,
                // A new chain begins with the oldest record that is kept.
                None => self.removed_up_to(chain).await?,
            };
            if from >= end {
                continue;
            }
            let ExportBatch { records, next, missed, .. } = self.export_batch(chain, from, LIMIT_MAX).await?;
            let records = records.into_iter().map(|(_, record)| record).filter(|record| filter.fits(record)).collect();
            let lines = (next - from).max(0).unsigned_abs();
            return Ok(Some(ExportPage { records, next: after.moved(chain, next), lines, missed }));
        }
        Ok(None)
    }

    /// Returns the position up to which a chain was exported to a destination. A new destination begins with the oldest
    /// record that is kept.
    pub async fn export_position(&self, chain: u16, destination: &str) -> Result<i64, StoreError> {
        let sql = "SELECT seq FROM exports WHERE chain = $1 AND destination = $2";
        let values = vec![Value::int(chain.into()), Value::text(destination)];
        let rows = self.database().fetch(Statement::new(sql, values), READING).await?;
        match rows.first() {
            Some(row) => Columns::of(row, "the position of an export").number(0),
            None => self.removed_up_to(chain).await,
        }
    }

    /// Stores the position up to which a chain was exported. Everything up to it must be at the destination.
    pub async fn move_export(&self, chain: u16, destination: &str, seq: i64, now_ms: i64) -> Result<(), StoreError> {
        let sql = "INSERT INTO exports (chain, destination, seq, moved_ms) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (chain, destination) DO UPDATE SET seq = excluded.seq, moved_ms = excluded.moved_ms";
        let values = vec![Value::int(chain.into()), Value::text(destination), Value::int(seq), Value::int(now_ms)];
        let statements = vec![Statement::new(sql, values)];
        let write = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(write, MOVING).await
    }

    /// Reads records of a chain after a position, at most `limit`.
    pub async fn export_batch(&self, chain: u16, after: i64, limit: usize) -> Result<ExportBatch, StoreError> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let end = self.database().chain_ends().await?.into_iter().find(|end| end.chain == chain);
        let end = end.map_or(after, |end| end.seq);
        let mut reader = ChainReader::new(chain, after, end);
        let mut records = Vec::new();
        let mut next = after;
        while records.len() < limit {
            reader.fill(self, LIMIT_MAX).await?;
            let Some((seq, record)) = reader.next_line() else {
                next = reader.position();
                break;
            };
            next = seq;
            // The beginning of a call is left out. Its end follows.
            if record.end_seq.unwrap_or(record.seq) == seq && record.status != crate::Status::Started {
                records.push((seq, record));
            }
        }
        // After the rows were read, so that no removal in between goes unnoticed.
        let missed = self.removed_between(chain, after, next).await?;
        Ok(ExportBatch { records, next, end, missed })
    }

    /// Counts the lines in a range that retention removed.
    async fn removed_between(&self, chain: u16, after: i64, next: i64) -> Result<u64, StoreError> {
        let removed = self.removed_up_to(chain).await?;
        let sql = "SELECT count(*) FROM stubs WHERE chain = $1 AND seq > $2 AND seq <= $3";
        let values = vec![Value::int(chain.into()), Value::int(after.max(removed)), Value::int(next)];
        let rows = self.database().fetch(Statement::new(sql, values), READING).await?;
        let stubs = rows.first().map_or(Ok(0), |row| Columns::of(row, "the number of removed lines").number(0))?;
        Ok((removed.min(next) - after).max(0).unsigned_abs() + stubs.unsigned_abs())
    }

    async fn removed_up_to(&self, chain: u16) -> Result<i64, StoreError> {
        let rows = self.database().chain_rows().await?;
        Ok(rows.iter().find(|row| row.number == chain).map_or(0, |row| row.removed_seq))
    }
}
