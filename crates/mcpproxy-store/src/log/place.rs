//! Reads the place of a record in its chain: its hashes, and the checkpoint that covers it.

use super::checkpoint::Checkpoint;
use super::sql::Nearest;
use crate::sql::columns::Columns;
use crate::sql::{Statement, Value};
use crate::{Record, Store, StoreError};

const DOING: &str = "read the place of a record";
/// A lookup by two primary keys.
const SQL: &str = "SELECT name, hash, end_hash FROM records JOIN chains ON number = chain WHERE key = $1";

/// The place of a record in its chain, as stored. Only `Store::verify` checks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPlace {
    /// The name of the chain.
    pub chain: String,
    /// The hash of the chain after the record, in hexadecimal digits.
    pub hash: String,
    /// The same after its end, if the end was written later.
    pub end_hash: Option<String>,
    /// The position and time of the first checkpoint that covers the whole record.
    pub checkpoint: Option<(i64, String)>,
}

impl Store {
    /// Reads three rows by their primary keys, so the cost does not grow with the log.
    pub async fn chain_place(&self, record: &Record) -> Result<Option<ChainPlace>, StoreError> {
        let statement = Statement::new(SQL, vec![Value::int(record.id.key().0)]);
        let Some(row) = self.database().fetch_first(statement, DOING).await? else { return Ok(None) };
        let columns = Columns::of(&row, "a chain without a name, or a record without a hash");
        let last = record.end_seq.unwrap_or(record.seq);
        let checkpoint = self.database().checkpoint(record.chain, Nearest::From(last)).await?;
        Ok(Some(ChainPlace {
            chain: columns.word(0)?,
            hash: hex(&columns.bytes(1)?.unwrap_or_default()),
            end_hash: columns.bytes(2)?.map(|hash| hex(&hash)),
            checkpoint: checkpoint.map(|(seq, note)| (seq, Checkpoint::claimed_time(&note))),
        }))
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
