//! Reads one chain for an export, and keeps the position up to which it was exported.
//!
//! The reader of an export must not miss a record, so it follows positions of the chain and not times: a position is
//! committed after all positions before it. A call appears once, when it has ended, because only then its outcome is
//! known. A call that a crash interrupted is ended at the next start, so it appears, too.
//!
//! Retention does not wait for an export. It has its own reasons, such as a legal duty to delete, and a receiver that is
//! gone for months must not fill the disk. Instead, [`ExportBatch::missed`] counts what was removed before it was read.

use std::collections::BTreeMap;

use super::feed::{ChainReader, FeedCursor};
use super::restore::hash_at;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::text::hex;
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

/// The place of a line: its chain by name, and its hash. The numbers of a position mean other lines in another database,
/// and after a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineMark {
    pub chain: String,
    /// In hexadecimal digits. `None` if there is no such line, or retention removed it.
    pub hash: Option<String>,
    is_removed: bool,
}

impl LineMark {
    /// Tells if this is the line that an earlier mark described. A line that retention removed cannot be compared.
    pub fn continues(&self, chain: &str, hash: Option<&str>) -> bool {
        self.chain == chain && (self.is_removed || hash.is_none() || self.hash.as_deref() == hash)
    }
}

impl Store {
    /// Returns the position before the oldest record that is kept, in every chain.
    pub async fn oldest_kept(&self) -> Result<FeedCursor, StoreError> {
        let rows = self.database().chain_rows().await?;
        let moved = |cursor: FeedCursor, (chain, seq): (u16, i64)| cursor.moved(chain, seq);
        Ok(rows.iter().map(|row| (row.number, row.removed_seq)).fold(FeedCursor::default(), moved))
    }

    /// Describes the line at the position of each chain. A chain that does not exist is left out.
    pub async fn lines_at(&self, cursor: &FeedCursor) -> Result<BTreeMap<u16, LineMark>, StoreError> {
        let rows = self.database().chain_rows().await?;
        let mut lines = BTreeMap::new();
        for (number, seq) in cursor.chains() {
            let Some(row) = rows.iter().find(|row| row.number == number) else { continue };
            let hash = hash_at(self.database(), number, seq).await?.map(|hash| hex(&hash));
            let is_removed = hash.is_none() && self.removed_between(number, seq - 1, seq).await? > 0;
            lines.insert(number, LineMark { chain: row.name.clone(), hash, is_removed });
        }
        Ok(lines)
    }

    /// Returns a position from which all records follow, if this one may be of a history that a restore replaced.
    pub async fn replaced_before(&self, cursor: &FeedCursor) -> Result<Option<FeedCursor>, StoreError> {
        let (mut earlier, mut is_replaced) = (cursor.clone(), false);
        for (chain, seq) in cursor.chains() {
            for restore in self.restores(chain).await?.into_iter().map(|recorded| recorded.restore) {
                // A later position is of the new history: the replaced one did not get there.
                if restore.fork < seq && restore.lost_to.is_none_or(|lost_to| seq <= lost_to) {
                    let fork = earlier.position(chain).unwrap_or(seq).min(restore.fork);
                    (earlier, is_replaced) = (earlier.moved(chain, fork), true);
                }
            }
        }
        Ok(is_replaced.then_some(earlier))
    }

    /// Returns the next records after a position that match the filter, or `None` at the end. Chain after chain.
    pub async fn export_after(
        &self,
        after: &FeedCursor,
        end: &FeedCursor,
        filter: &Filter,
    ) -> Result<Option<ExportPage>, StoreError> {
        for (chain, end) in end.chains() {
            // A chain that is new since then begins with its first line, so that lines which are gone already are counted.
            let from = after.position(chain).unwrap_or(0);
            if from >= end {
                continue;
            }
            let ExportBatch { records, next, missed, .. } = self.export_batch(chain, from, LIMIT_MAX).await?;
            let records = records.into_iter().map(|(_, record)| record).filter(|record| filter.fits(record)).collect();
            let lines = (next - from).max(0).unsigned_abs();
            // Somebody has replaced the database or removed its last rows. Reading on would never come to the end.
            if lines == 0 {
                return Err(StoreError::corrupt("a chain that became shorter"));
            }
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
