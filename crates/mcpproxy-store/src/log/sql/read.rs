//! Reads rows of the table of records.

use mcpproxy_core::{RiskLevel, Untrusted, Variant};

use crate::record::id::Key;
use crate::sql::Row;
use crate::{Digests, Kind, PayloadFacts, Record, RecordId, Status, StoreError};

/// The columns that `record` reads, in order.
pub(crate) const COLUMNS: &str = "key, tail, chain, seq, kind, status, agent, client, server, tool, intent_type, risk, \
     code, message, duration_us, metadata, args_bytes, args_digest, result_bytes, result_digest, end_seq, end_metadata";
/// Their number. Further columns of a query come after them.
pub(crate) const COLUMN_COUNT: usize = 22;

pub(crate) fn record(row: &Row) -> Result<Record, StoreError> {
    let columns = Columns(row);
    let missing = |what: &str| StoreError::corrupt(format!("a record without a {what}"));
    let key = columns.int(0)?.ok_or_else(|| missing("key"))?;
    let tail = columns.int(1)?.ok_or_else(|| missing("tail"))?;
    let chain = columns.int(2)?.and_then(|chain| u16::try_from(chain).ok());
    Ok(Record {
        id: RecordId::new(Key(key), tail.unsigned_abs()),
        chain: chain.ok_or_else(|| missing("chain"))?,
        seq: columns.int(3)?.ok_or_else(|| missing("position"))?,
        kind: columns.text(4)?.and_then(|word| Kind::parse(&word)).ok_or_else(|| missing("known kind"))?,
        status: columns.text(5)?.and_then(|word| Status::parse(&word)).ok_or_else(|| missing("known status"))?,
        agent: columns.text(6)?,
        client: columns.untrusted(7)?,
        server: columns.untrusted(8)?,
        tool: columns.untrusted(9)?,
        intent_type: columns.parsed(10, Variant::from_operation, "known intent")?,
        risk: columns.parsed(11, RiskLevel::parse, "known risk")?,
        code: columns.untrusted(12)?,
        message: columns.untrusted(13)?,
        duration_us: columns.int(14)?.map(i64::unsigned_abs),
        metadata: columns.untrusted(15)?.ok_or_else(|| missing("metadata"))?,
        args: columns.payload(16)?,
        result: columns.payload(18)?,
        end_seq: columns.int(20)?,
        end_metadata: columns.untrusted(21)?,
    })
}

struct Columns<'r>(&'r Row);

impl Columns<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.0.int(column).map_err(StoreError::while_trying("read a record"))
    }

    fn text(&self, column: usize) -> Result<Option<String>, StoreError> {
        self.0.text(column).map_err(StoreError::while_trying("read a record"))
    }

    fn untrusted(&self, column: usize) -> Result<Option<Untrusted>, StoreError> {
        Ok(self.text(column)?.map(Untrusted::new))
    }

    /// An unknown word is an error: the line of the row could not be rebuilt.
    fn parsed<T>(&self, column: usize, parse: impl Fn(&str) -> Option<T>, what: &str) -> Result<Option<T>, StoreError> {
        let Some(word) = self.text(column)? else { return Ok(None) };
        let parsed = parse(&word).ok_or_else(|| StoreError::corrupt(format!("a record without a {what}")))?;
        Ok(Some(parsed))
    }

    /// Reads the size and the digests, which take two columns.
    fn payload(&self, column: usize) -> Result<Option<PayloadFacts>, StoreError> {
        let bytes = self.int(column)?;
        let digests = self.0.bytes(column + 1).map_err(StoreError::while_trying("read a record"))?;
        match (bytes, digests) {
            (None, None) => Ok(None),
            (Some(bytes), Some(digests)) => {
                let digests = Digests::from_bytes(&digests)
                    .ok_or_else(|| StoreError::corrupt("a digest of an unexpected size"))?;
                Ok(Some(PayloadFacts { bytes: bytes.unsigned_abs(), digests }))
            }
            (Some(_), None) | (None, Some(_)) => {
                Err(StoreError::corrupt("a payload with a size or a digest, but not both"))
            }
        }
    }
}
