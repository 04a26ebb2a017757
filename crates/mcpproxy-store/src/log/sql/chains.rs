//! Queries for chains: where they end, and their rows in order of position.

use super::queries::{int, text};
use super::read::{COLUMN_COUNT, COLUMNS, record};
use crate::log::line::Hash;
use crate::log::removal::Stub;
use crate::record::id::Key;
use crate::sql::{Database, Dialect, Row, Statement, Value};
use crate::{Record, RecordId, StoreError};

const DOING: &str = "read the chains of the activity log";
const ENDS: &str = "SELECT number, removed_seq, (SELECT max(seq) FROM records WHERE chain = number), \
     (SELECT max(end_seq) FROM records WHERE chain = number AND end_seq IS NOT NULL), \
     (SELECT max(seq) FROM stubs WHERE chain = number) FROM chains ORDER BY number";
const CHAINS: &str = "SELECT number, name, verifier, created_ms, removed_seq, \
     (SELECT max(seq) FROM checkpoints WHERE chain = number) FROM chains";
const REMOVAL: &str = "SELECT removed_seq, removed_hash, removed_note, stubs.seq, digest FROM chains \
     LEFT JOIN stubs ON stubs.chain = number WHERE number = $1 ORDER BY stubs.seq";
/// The last position of a chain at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    pub(crate) chain: u16,
    pub(crate) seq: i64,
}

/// The rows and checkpoints of a range of positions, as stored.
pub(crate) struct Stretch {
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<(i64, String)>,
}

/// A row of the table of chains.
#[derive(Clone, Debug)]
pub(crate) struct ChainRow {
    pub(crate) number: u16,
    pub(crate) name: String,
    pub(crate) verifier: String,
    pub(crate) created_ms: i64,
    pub(crate) removed_seq: i64,
    /// The position of the newest checkpoint.
    pub(crate) signed_seq: Option<i64>,
}

/// The removal that a chain claims, with its stubs, read in one query.
pub(crate) struct RemovalRow {
    pub(crate) seq: i64,
    pub(crate) hash: Option<Hash>,
    pub(crate) note: Option<String>,
    /// `None` if a stub is malformed.
    pub(crate) stubs: Option<Vec<Stub>>,
}

/// A row of the table of records, readable or not.
pub(crate) struct StoredRow {
    pub(crate) seq: Option<i64>,
    pub(crate) end_seq: Option<i64>,
    pub(crate) id: Option<RecordId>,
    /// `None` if the row is malformed.
    pub(crate) record: Option<Record>,
    /// `true` if no number is negative. `record` drops signs.
    pub(crate) numbers_fit: bool,
    pub(crate) hash: Option<Vec<u8>>,
    pub(crate) end_hash: Option<Vec<u8>>,
    pub(crate) args: Option<String>,
    pub(crate) result: Option<String>,
}

impl Database {
    pub(crate) async fn removal(&self, chain: u16) -> Result<Option<RemovalRow>, StoreError> {
        let rows = self.fetch(Statement::new(REMOVAL, vec![Value::int(chain.into())]), DOING).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let mut stubs = Some(Vec::new());
        for row in &rows {
            let Some(seq) = int(row, 3)? else { continue };
            let digest = bytes(row, 4)?.and_then(|digest| digest.try_into().ok());
            stubs = stubs.zip(digest).map(|(mut stubs, digest)| {
                stubs.push((seq, digest));
                stubs
            });
        }
        let hash = bytes(first, 1)?.and_then(|hash| hash.try_into().ok());
        Ok(Some(RemovalRow { seq: int(first, 0)?.unwrap_or(0), hash, note: text(first, 2)?, stubs }))
    }

    pub(crate) async fn chain_ends(&self) -> Result<Vec<ChainEnd>, StoreError> {
        let mut ends = Vec::new();
        for row in self.fetch(Statement::plain(ENDS), DOING).await? {
            let chain = int(&row, 0)?.and_then(|number| u16::try_from(number).ok());
            let chain = chain.ok_or_else(|| StoreError::corrupt("a chain without a usable number"))?;
            let seq = int(&row, 1)?.max(int(&row, 2)?).max(int(&row, 3)?).max(int(&row, 4)?).unwrap_or(0);
            ends.push(ChainEnd { chain, seq });
        }
        Ok(ends)
    }

    /// Records whose first line is after `after` and not after `last`, in order.
    pub(crate) async fn begun_after(
        &self,
        chain: u16,
        after: i64,
        last: i64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.records_by("seq", chain, (after, last), limit).await
    }

    /// Records with an `end` line in this range, in order of that line.
    pub(crate) async fn ended_after(
        &self,
        chain: u16,
        after: i64,
        last: i64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.records_by("end_seq", chain, (after, last), limit).await
    }

    async fn records_by(
        &self,
        column: &str,
        chain: u16,
        (after, last): (i64, i64),
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        // PostgreSQL plans a statement once, without the values, and takes two ends for a small range, which it might sort.
        // It takes row values for a large one, and reads it in the order of the index.
        let range = match self.dialect() {
            Dialect::Sqlite => format!("chain = $1 AND {column} > $2 AND {column} <= $3 ORDER BY {column}"),
            Dialect::Postgres => format!(
                "(chain, {column}) > ($1, $2) AND (chain, {column}) <= ($1, $3) AND {column} IS NOT NULL \
                 ORDER BY chain, {column}"
            ),
        };
        let sql = format!("SELECT {COLUMNS} FROM records WHERE {range} LIMIT {limit}");
        let values = vec![Value::int(chain.into()), Value::int(after), Value::int(last)];
        self.fetch(Statement::new(sql, values), DOING).await?.iter().map(record).collect()
    }

    pub(crate) async fn chain_rows(&self) -> Result<Vec<ChainRow>, StoreError> {
        let statement = Statement::new(format!("{CHAINS} ORDER BY number"), Vec::new());
        self.fetch(statement, DOING).await?.iter().map(chain_row).collect()
    }

    /// Returns the chain numbers that occur in records.
    pub(crate) async fn chains_of_records(&self) -> Result<Vec<i64>, StoreError> {
        let mut numbers = Vec::new();
        let sql = "SELECT chain FROM records WHERE chain > $1 ORDER BY chain LIMIT 1";
        let mut last = i64::MIN;
        loop {
            let rows = self.fetch(Statement::new(sql, vec![Value::int(last)]), DOING).await?;
            let Some(number) = rows.first().map(|row| int(row, 0)).transpose()?.flatten() else { return Ok(numbers) };
            numbers.push(number);
            last = number;
        }
    }

    /// The first record of a chain, whatever position it claims.
    pub(crate) async fn first_row(&self, chain: i64) -> Result<Option<StoredRow>, StoreError> {
        let stored = stored(self.dialect());
        let sql = format!("SELECT {COLUMNS}, {stored} WHERE chain = $1 ORDER BY seq LIMIT 1");
        let rows = self.fetch(Statement::new(sql, vec![Value::int(chain)]), DOING).await?;
        Ok(rows.first().map(StoredRow::of))
    }

    /// The newest first line of a record up to a position, with its stored hash.
    pub(crate) async fn line_up_to(&self, chain: u16, seq: i64) -> Result<Option<(i64, Hash)>, StoreError> {
        let sql = "SELECT seq, hash FROM records WHERE chain = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 1";
        let rows = self.fetch(Statement::new(sql, vec![Value::int(chain.into()), Value::int(seq)]), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let hash = bytes(row, 1)?.and_then(|hash| hash.try_into().ok());
        let hash = hash.ok_or_else(|| StoreError::corrupt("a record without a hash"))?;
        Ok(int(row, 0)?.map(|seq| (seq, hash)))
    }

    /// The rows and checkpoints at these positions.
    pub(crate) async fn stretch(&self, chain: u16, first: i64, last: i64) -> Result<Stretch, StoreError> {
        let places = || vec![Value::int(chain.into()), Value::int(first), Value::int(last)];
        let stored = stored(self.dialect());
        let begun = format!("SELECT {COLUMNS}, {stored} WHERE chain = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq");
        let mut rows = self.fetch(Statement::new(begun, places()), DOING).await?;
        // Rows of the first query include their ends.
        let ended =
            format!("SELECT {COLUMNS}, {stored} WHERE chain = $1 AND end_seq >= $2 AND end_seq <= $3 AND seq < $2");
        rows.extend(self.fetch(Statement::new(ended, places()), DOING).await?);
        let sql = "SELECT seq, note FROM checkpoints WHERE chain = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq";
        let mut notes = Vec::new();
        for row in self.fetch(Statement::new(sql, places()), DOING).await? {
            // A note that is not text fails the check of its signature.
            notes.push((int(&row, 0)?.unwrap_or(0), row.text(1).ok().flatten().unwrap_or_default()));
        }
        Ok(Stretch { rows, notes })
    }

    /// The newest checkpoint up to a position, or the first from a position on.
    pub(crate) async fn checkpoint(&self, chain: u16, which: Nearest) -> Result<Option<(i64, String)>, StoreError> {
        let (condition, seq) = match which {
            Nearest::UpTo(seq) => ("seq <= $2 ORDER BY seq DESC", seq),
            Nearest::From(seq) => ("seq >= $2 ORDER BY seq", seq),
        };
        let sql = format!("SELECT seq, note FROM checkpoints WHERE chain = $1 AND {condition} LIMIT 1");
        let rows = self.fetch(Statement::new(sql, vec![Value::int(chain.into()), Value::int(seq)]), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(int(row, 0)?.zip(text(row, 1)?))
    }

    pub(crate) async fn checkpoint_count(&self, chain: u16) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM checkpoints WHERE chain = $1";
        let rows = self.fetch(Statement::new(sql, vec![Value::int(chain.into())]), DOING).await?;
        Ok(rows.first().map(|row| int(row, 0)).transpose()?.flatten().unwrap_or(0).unsigned_abs())
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Nearest {
    UpTo(i64),
    From(i64),
}

impl StoredRow {
    pub(crate) fn of(row: &Row) -> Self {
        let int = |column| row.int(column).ok().flatten();
        let (key, tail) = (int(0), int(1));
        let id = key.zip(tail).map(|(key, tail)| RecordId::new(Key(key), tail.unsigned_abs()));
        let is_natural = |column| int(column).is_none_or(|number| number >= 0);
        let is_id = id.is_some_and(|id| Some(id.key().0) == key && Some(id.tail()) == tail);
        let bytes = |column| row.bytes(column).ok().flatten();
        // A payload that is not text was changed. This replacement cannot match its digest.
        let payload = |column| row.text(column).unwrap_or_else(|_| Some("\u{FFFD}".to_owned()));
        Self {
            seq: int(3),
            end_seq: int(20),
            id,
            record: record(row).ok(),
            numbers_fit: is_id && [14, 16, 18].into_iter().all(is_natural),
            hash: bytes(COLUMN_COUNT),
            end_hash: bytes(COLUMN_COUNT + 1),
            args: payload(COLUMN_COUNT + 2),
            result: payload(COLUMN_COUNT + 3),
        }
    }

    pub(crate) fn text_bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        length(&self.args) + length(&self.result)
    }
}

/// Rows with their payloads. Renames the columns of those, so that `COLUMNS` needs no table names. PostgreSQL counts a look
/// into one partition as a look into each, and would rather read them all. The limit leaves it no other way.
fn stored(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "hash, end_hash, args_text, result_text FROM records LEFT JOIN \
             (SELECT key AS payload_key, args AS args_text, result AS result_text FROM payloads) AS kept \
             ON payload_key = key"
        }
        Dialect::Postgres => {
            "hash, end_hash, args_text, result_text FROM records LEFT JOIN LATERAL \
             (SELECT args AS args_text, result AS result_text FROM payloads WHERE payloads.key = records.key LIMIT 1) \
             AS kept ON true"
        }
    }
}

fn chain_row(row: &Row) -> Result<ChainRow, StoreError> {
    let missing = |what: &str| StoreError::corrupt(format!("a chain without a {what}"));
    Ok(ChainRow {
        number: int(row, 0)?.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| missing("usable number"))?,
        name: text(row, 1)?.ok_or_else(|| missing("name"))?,
        verifier: text(row, 2)?.ok_or_else(|| missing("key"))?,
        created_ms: int(row, 3)?.unwrap_or(0),
        removed_seq: int(row, 4)?.unwrap_or(0),
        signed_seq: int(row, 5)?,
    })
}

fn bytes(row: &Row, column: usize) -> Result<Option<Vec<u8>>, StoreError> {
    row.bytes(column).map_err(StoreError::while_trying(DOING))
}
