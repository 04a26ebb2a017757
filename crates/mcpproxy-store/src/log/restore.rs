//! Restores: signed records that say that the log was set back to a backup, so that `verify` can tell a restore from an
//! attack.
//!
//! After a restore, the chain goes on from the end of the backup. Checkpoints that were kept elsewhere sign positions
//! that the log no longer has, or has with other content. To `verify`, that looks like a log that was cut off or
//! rewritten. So a restore appends a record with the code `restored`, and signs it:
//!
//! ```text
//! 1 ─────────── fork ─── restored ─── new records …          the log now
//!                 └───── lost records ───── lost_to          what checkpoints from elsewhere may still sign
//! ```
//!
//! The record names the last position that both histories share (`fork`), and the last position that is known of the
//! replaced one (`lost_to`). A checkpoint between them, signed before the restore, is not held against the log. Every
//! other checkpoint must match, as before. Only the owner of `signing.key` can sign such a record: a record that no
//! valid checkpoint covers excuses nothing.

use serde::{Deserialize, Serialize};

use super::line::Hash;
use super::sql::ChainRow;
use crate::sql::{Database, Statement, Value};
use crate::text::rfc3339;
use crate::{Checkpoint, Kind, NewRecord, Status, Store, StoreError, Verifier};

const CODE: &str = "restored";
const DOING: &str = "compare the log with its backup";

/// A restore: the backup, and the part of the log that it replaces. The record of the restore has it as `metadata`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    /// The time of the backup, in RFC 3339 and UTC.
    pub backup: String,
    /// The time of the restore.
    pub time: String,
    /// The last position of the chain in the backup.
    pub backup_seq: i64,
    /// The last position that the backup and the replaced log share.
    pub fork: i64,
    /// The last position that is known of the replaced log. `None` if nothing was there to tell.
    pub lost_to: Option<i64>,
    /// The number of records that the replaced log had after `fork`. `None` if it could not be read.
    pub records_gone: Option<u64>,
}

/// A restore, and the position of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRestore {
    pub seq: i64,
    pub restore: Restore,
}

impl Restore {
    /// Describes the restore of `backup`, an intact copy of the log with its chain. `replaced` is the log before, as far
    /// as it can be read, and `newest` its newest checkpoint outside the database.
    pub async fn plan(
        backup: &Store,
        backup_time: &str,
        replaced: Option<&Store>,
        newest: Option<&Checkpoint>,
        verifier: &Verifier,
        now_ms: i64,
    ) -> Result<Self, StoreError> {
        let (ours, backup_seq) =
            chain(backup, verifier).await?.ok_or_else(|| StoreError::corrupt("a missing chain"))?;
        let newest = newest.filter(|newest| newest.chain == verifier.chain());
        let mut restore = Self {
            backup: backup_time.to_owned(),
            time: rfc3339(now_ms),
            backup_seq,
            fork: backup_seq,
            lost_to: newest.map(|newest| newest.seq),
            records_gone: None,
        };
        let before = match replaced {
            Some(replaced) => chain(replaced, verifier).await?.map(|(row, end)| (replaced, row, end)),
            None => None,
        };
        if let Some((replaced, theirs, end)) = before {
            let (a, b) = ((backup, ours.number), (replaced, theirs.number));
            restore.fork = last_shared(a, b, backup_seq.min(end)).await?;
            restore.lost_to = restore.lost_to.max(Some(end)).max(lost_before(replaced, theirs.number).await?);
            restore.records_gone = Some(count_after(replaced.database(), theirs.number, restore.fork).await?);
        } else if let Some(newest) = newest.filter(|newest| newest.seq <= backup_seq) {
            let is_shared = hash_at(backup.database(), ours.number, newest.seq).await?.is_none_or(|h| h == newest.hash);
            restore.fork = if is_shared { backup_seq } else { newest.seq - 1 };
        }
        Ok(restore)
    }

    /// The record that tells of it.
    pub fn record(&self, now_ms: i64, random: u64) -> NewRecord {
        NewRecord {
            code: Some(CODE.to_owned()),
            message: Some(self.to_string()),
            metadata: serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned()),
            ..NewRecord::blank(Kind::Settings, Status::Success, now_ms, random)
        }
    }

    /// Tells if a checkpoint signs a part of the replaced log.
    fn excuses(&self, checkpoint: &Checkpoint) -> bool {
        let is_known = self.lost_to.is_none_or(|lost_to| checkpoint.seq <= lost_to);
        checkpoint.seq > self.fork && is_known && checkpoint.time <= self.time
    }
}

impl RecordedRestore {
    pub(super) fn excuses(&self, checkpoint: &Checkpoint) -> bool {
        self.restore.excuses(checkpoint)
    }
}

impl std::fmt::Display for Restore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "restored from the backup of {}; ", self.backup)?;
        let lines = self.lost_to.map(|lost_to| (lost_to - self.fork).max(0));
        match (self.records_gone, lines) {
            (Some(1), _) => f.write_str("1 record after it is gone"),
            (Some(count), _) => write!(f, "{count} records after it are gone"),
            (None, Some(lines)) => write!(f, "at least {lines} lines after it are gone"),
            (None, None) => f.write_str("it is unknown how many records after it are gone"),
        }
    }
}

impl Store {
    /// The restores that the records of a chain tell of, unverified, oldest first.
    pub(super) async fn restores(&self, chain: u16) -> Result<Vec<RecordedRestore>, StoreError> {
        let sql = "SELECT seq, metadata FROM records WHERE kind = 'settings' AND kind <> 'call' AND chain = $1 \
                   AND code = $2 ORDER BY kind, key";
        let statement = Statement::new(sql, vec![Value::int(chain.into()), Value::text(CODE)]);
        let mut restores = Vec::new();
        for row in self.database().fetch(statement, DOING).await? {
            let seq = row.int(0).ok().flatten();
            let restore = row.text(1).ok().flatten().and_then(|text| serde_json::from_str(&text).ok());
            // A row that cannot be read is damage, which the walk over the chain finds.
            restores.extend(seq.zip(restore).map(|(seq, restore)| RecordedRestore { seq, restore }));
        }
        Ok(restores)
    }
}

/// The last position that earlier restores of the replaced log took away. Their records may be gone with it.
async fn lost_before(replaced: &Store, chain: u16) -> Result<Option<i64>, StoreError> {
    let restores = replaced.restores(chain).await?;
    Ok(restores.into_iter().filter_map(|found| found.restore.lost_to).max())
}

/// The row of the chain of this key, and its last position.
async fn chain(store: &Store, verifier: &Verifier) -> Result<Option<(ChainRow, i64)>, StoreError> {
    let database = store.database();
    let row = database.chain_rows().await?.into_iter().find(|row| row.name == verifier.chain());
    let Some(row) = row else { return Ok(None) };
    let ends = database.chain_ends().await?;
    let end = ends.iter().find(|end| end.chain == row.number).map_or(0, |end| end.seq);
    Ok(Some((row, end)))
}

/// The last position up to `end` with the same hash in both logs. A position that retention removed counts as shared.
async fn last_shared(a: (&Store, u16), b: (&Store, u16), end: i64) -> Result<i64, StoreError> {
    let (mut shared, mut different) = (0, end + 1);
    while different - shared > 1 {
        let middle = shared + (different - shared) / 2;
        let ours = hash_at(a.0.database(), a.1, middle).await?;
        let theirs = hash_at(b.0.database(), b.1, middle).await?;
        let is_shared = ours.zip(theirs).is_none_or(|(ours, theirs)| ours == theirs);
        *(if is_shared { &mut shared } else { &mut different }) = middle;
    }
    Ok(shared)
}

/// The stored hash at a position.
pub(super) async fn hash_at(database: &Database, chain: u16, seq: i64) -> Result<Option<Hash>, StoreError> {
    let sql = "SELECT hash FROM records WHERE chain = $1 AND seq = $2 UNION ALL \
               SELECT end_hash FROM records WHERE chain = $1 AND end_seq = $2 AND end_seq IS NOT NULL";
    let rows = database.fetch(Statement::new(sql, vec![Value::int(chain.into()), Value::int(seq)]), DOING).await?;
    Ok(rows.first().and_then(|row| row.bytes(0).ok().flatten()).and_then(|hash| hash.try_into().ok()))
}

async fn count_after(database: &Database, chain: u16, seq: i64) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM records WHERE chain = $1 AND seq > $2";
    let rows = database.fetch(Statement::new(sql, vec![Value::int(chain.into()), Value::int(seq)]), DOING).await?;
    let count = rows.first().map(|row| row.int(0)).transpose().map_err(StoreError::while_trying(DOING))?;
    Ok(count.flatten().unwrap_or(0).unsigned_abs())
}
