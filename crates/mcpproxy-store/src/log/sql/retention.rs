//! Removes payloads, and the oldest records of a chain.

use super::RecordWriter;
use super::read::{COLUMN_COUNT, COLUMNS, record};
use super::rollup::first_hour;
use crate::log::line::{self, Hash};
use crate::log::removal::{Removal, Stub};
use crate::log::tally::HOUR_MS;
use crate::record::id::Key;
use crate::sql::driver::{Connection, Statement, Value};
use crate::{SigningKey, Status, StoreError};

pub(super) const STEP_ROWS: i64 = 500;
pub(super) const DOING: &str = "remove old records";

/// Tells if there is more to remove.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    No,
}

impl RecordWriter {
    /// The size of the payloads of each hour, newest first. The limit is for the database, so all chains count.
    pub(crate) async fn payload_bytes_by_hour(&mut self) -> Result<Vec<(i64, u64)>, StoreError> {
        let sql = "SELECT hour, CAST(sum(bytes) AS BIGINT) FROM payload_hours GROUP BY hour ORDER BY hour DESC";
        let failed = StoreError::while_trying(DOING);
        let rows = self.fetch(Statement::plain(sql)).await?;
        let mut hours = Vec::with_capacity(rows.len());
        for row in rows {
            let hour = row.int(0).map_err(&failed)?.unwrap_or(0);
            hours.push((hour, row.int(1).map_err(&failed)?.unwrap_or(0).unsigned_abs()));
        }
        Ok(hours)
    }

    pub(crate) async fn remove_payloads(&mut self, before: Key) -> Result<More, StoreError> {
        let sql = "DELETE FROM payloads WHERE key IN (SELECT key FROM payloads WHERE key < $1 ORDER BY key LIMIT $2)";
        let removed = self.change(Statement::new(sql, vec![Value::int(before.0), Value::int(STEP_ROWS)])).await?;
        if removed >= STEP_ROWS.unsigned_abs() {
            return Ok(More::Yes);
        }
        // Hours without payloads take no more space.
        let sql = "DELETE FROM payload_hours WHERE hour < $1";
        self.change(Statement::new(sql, vec![Value::int(before.time_ms() / HOUR_MS)])).await?;
        Ok(More::No)
    }

    /// Removes the first rows of this chain. Stops before a row that is too new, has not ended, or holds the end of the
    /// chain. Without the last, the chain could not be continued.
    pub(crate) async fn remove_records(
        &mut self,
        before: Key,
        key: &SigningKey,
        now_ms: i64,
    ) -> Result<More, StoreError> {
        let chain = i64::from(self.chain());
        let sql =
            format!("SELECT {COLUMNS}, hash FROM records WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT {STEP_ROWS}");
        let head_seq = self.head().seq;
        let removed_before = self.removed_seq().await?;
        // Finds the end of the range here: a query for it might scan the whole chain.
        let rows = self.fetch(Statement::new(sql, vec![Value::int(chain), Value::int(removed_before)])).await?;
        let mut removed = 0;
        let mut last: Option<(i64, Hash)> = None;
        let mut ends = Vec::new();
        for row in &rows {
            let read = record(row)?;
            let holds_head = read.end_seq.unwrap_or(read.seq) == head_seq;
            if read.id.key() >= before || read.status == Status::Started || holds_head {
                break;
            }
            removed += 1;
            let hash = row.bytes(COLUMN_COUNT).map_err(StoreError::while_trying(DOING))?;
            let hash = hash.and_then(|hash| hash.try_into().ok()).ok_or_else(|| StoreError::corrupt("a hash"))?;
            if let (_, Some((seq, end))) = line::of_record(&read) {
                ends.push((seq, line::digest(&end)));
            }
            last = Some((read.seq, hash));
        }
        if let Some((removed_seq, removed_hash)) = last {
            ends.retain(|(seq, _)| *seq > removed_seq);
            let stubs = self.stubs_after(chain, removed_seq, ends).await?;
            let removal = Removal::new(removed_seq, removed_hash, &stubs);
            let note = removal.sign(key, now_ms);
            let work = async |connection: &mut Connection| {
                remove_first(
                    connection,
                    chain,
                    removed_before,
                    Signed { removal: &removal, note: &note, stubs: &stubs },
                )
                .await
            };
            self.with_connection(work).await?;
        }
        if removed == STEP_ROWS { Ok(More::Yes) } else { self.remove_tallies(before).await }
    }

    /// Removes the counts of one hour, or some points of series.
    async fn remove_tallies(&mut self, before: Key) -> Result<More, StoreError> {
        let (chain, before_hour) = (self.chain(), before.time_ms() / HOUR_MS);
        let first = self.with_connection(async |connection| first_hour(connection, chain, 0).await).await?;
        let Some(hour) = first.filter(|hour| *hour < before_hour) else { return self.remove_points(before_hour).await };
        let sql = "DELETE FROM tallies WHERE chain = $1 AND hour = $2";
        self.change(Statement::new(sql, vec![Value::int(chain.into()), Value::int(hour)])).await?;
        Ok(More::Yes)
    }

    /// The last removed position of this chain.
    pub(super) async fn removed_seq(&mut self) -> Result<i64, StoreError> {
        let sql = "SELECT removed_seq FROM chains WHERE number = $1";
        let rows = self.fetch(Statement::new(sql, vec![Value::int(self.chain().into())])).await?;
        let seq = rows.first().map(|row| row.int(0)).transpose().map_err(StoreError::while_trying(DOING))?;
        Ok(seq.flatten().unwrap_or(0))
    }

    /// The stubs after the removal: existing ones, and the ends of calls that are removed now.
    pub(super) async fn stubs_after(
        &mut self,
        chain: i64,
        removed_seq: i64,
        ends: Vec<Stub>,
    ) -> Result<Vec<Stub>, StoreError> {
        let sql = "SELECT seq, digest FROM stubs WHERE chain = $1 AND seq > $2";
        let failed = StoreError::while_trying(DOING);
        let rows = self.fetch(Statement::new(sql, vec![Value::int(chain), Value::int(removed_seq)])).await?;
        let mut stubs = ends;
        for row in rows {
            let digest = row.bytes(1).map_err(&failed)?.and_then(|digest| digest.try_into().ok());
            let digest = digest.ok_or_else(|| StoreError::corrupt("a stub without a digest"))?;
            stubs.push((row.int(0).map_err(&failed)?.unwrap_or(0), digest));
        }
        stubs.sort_unstable();
        stubs.dedup();
        Ok(stubs)
    }
}

/// A signed removal, with all stubs of the chain after it.
#[derive(Clone, Copy)]
pub(super) struct Signed<'a> {
    pub(super) removal: &'a Removal,
    pub(super) note: &'a str,
    pub(super) stubs: &'a [Stub],
}

impl Signed<'_> {
    /// Replaces the stubs of a chain.
    pub(super) fn stub_statements(self, chain: i64) -> Vec<Statement> {
        let up_to = vec![Value::int(chain), Value::int(self.removal.seq)];
        let mut statements = vec![Statement::new("DELETE FROM stubs WHERE chain = $1 AND seq <= $2", up_to)];
        for (seq, digest) in self.stubs {
            let sql = "INSERT INTO stubs (chain, seq, digest) VALUES ($1, $2, $3) ON CONFLICT (chain, seq) DO NOTHING";
            statements.push(Statement::new(sql, vec![Value::int(chain), Value::int(*seq), Value::bytes(digest)]));
        }
        statements
    }

    /// Writes the removal of a chain, unless another one was written since `before` was read.
    pub(super) fn moved(self, chain: i64, before: i64) -> Statement {
        let sql = "UPDATE chains SET removed_seq = $2, removed_hash = $3, removed_note = $4 \
                   WHERE number = $1 AND removed_seq = $5";
        let Self { removal, note, .. } = self;
        let (seq, hash) = (Value::int(removal.seq), Value::bytes(&removal.hash));
        Statement::new(sql, vec![Value::int(chain), seq, hash, Value::text(note), Value::int(before)])
    }
}

/// Removes the rows, and writes their stubs and the signed removal, in one transaction. Does nothing if a partition with
/// these rows was dropped in the meantime.
async fn remove_first(
    connection: &mut Connection,
    chain: i64,
    before: i64,
    signed: Signed<'_>,
) -> Result<(), sqlx::Error> {
    connection.begin().await?;
    if connection.execute(signed.moved(chain, before)).await? == 0 {
        return connection.run("ROLLBACK").await;
    }
    let up_to = |sql: &str| Statement::new(sql, vec![Value::int(chain), Value::int(signed.removal.seq)]);
    let rows = [
        up_to("DELETE FROM payloads WHERE key IN (SELECT key FROM records WHERE chain = $1 AND seq <= $2)"),
        up_to("DELETE FROM records WHERE chain = $1 AND seq <= $2"),
    ];
    for statement in rows.into_iter().chain(signed.stub_statements(chain)) {
        connection.execute(statement).await?;
    }
    connection.run("COMMIT").await
}
