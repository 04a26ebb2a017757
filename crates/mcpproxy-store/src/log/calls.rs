//! Reads recorded calls with their arguments, oldest first, for a replay of the decisions on them.
//!
//! A page is a range of keys, so reading a week takes one pass over a week of records, and memory holds one page.

use mcpproxy_core::{Untrusted, Variant};

use super::filter::Filter;
use crate::record::id::{Key, RecordId};
use crate::sql::{Dialect, Statement, Value};
use crate::{Kind, Status, Store, StoreError};

/// Calls in one page. Arguments have at most 64 KiB, so a page stays below 32 MiB.
const PAGE_MAX: usize = 500;
const DOING: &str = "read the recorded calls";
/// The digests of a truncated payload take 64 bytes, those of a whole one 32.
const WHOLE_DIGEST_BYTES: i64 = 32;

const COLUMNS: &str = "r.key, r.tail, r.kind, r.agent, r.server, r.tool, r.intent_type, r.code, r.metadata, \
     CAST(length(r.args_digest) AS BIGINT), p.args, r.status";
const ORDER: &str = "r.kind IN ('call', 'refusal') ORDER BY r.key LIMIT $3";
const SQLITE: &str = "records r LEFT JOIN payloads p ON p.key = r.key WHERE r.key >= $1 AND r.key < $2";
/// PostgreSQL plans a statement once, without the values, and takes two ends for a small range, which it might sort. It does
/// not recognize an end in a row value, and tails are not negative. The limit keeps it from reading all payloads.
const POSTGRES: &str = "records r LEFT JOIN LATERAL (SELECT args FROM payloads WHERE payloads.key = r.key LIMIT 1) p ON true \
     WHERE (r.key, r.tail) >= ($1, 0) AND r.key < $2";

/// A call or a refusal as recorded, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    pub id: RecordId,
    pub kind: Kind,
    pub status: Status,
    pub agent: Option<String>,
    pub server: Option<Untrusted>,
    pub tool: Option<Untrusted>,
    pub intent_type: Option<Variant>,
    pub code: Option<Untrusted>,
    /// A JSON object.
    pub metadata: Untrusted,
    /// The whole stored arguments. `None` if they were truncated, erased or never there.
    pub args: Option<Untrusted>,
}

/// A position between two recorded calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallsFrom {
    key: i64,
    before: i64,
}

impl CallsFrom {
    /// The beginning of a period. Both times are inclusive.
    pub fn period(since_ms: Option<i64>, until_ms: Option<i64>) -> Self {
        let keys = Filter { since_ms, until_ms, ..Filter::default() }.keys(None);
        Self { key: keys.from, before: keys.before }
    }
}

impl Store {
    /// Reads the next calls of a period, oldest first. An empty page is the end.
    pub async fn calls(&self, from: CallsFrom) -> Result<(Vec<RecordedCall>, CallsFrom), StoreError> {
        let values = vec![Value::int(from.key), Value::int(from.before), Value::limit(PAGE_MAX)];
        let range = match self.database().dialect() {
            Dialect::Sqlite => SQLITE,
            Dialect::Postgres => POSTGRES,
        };
        let sql = format!("SELECT {COLUMNS} FROM {range} AND {ORDER}");
        let rows = self.database().fetch(Statement::new(sql, values), DOING).await?;
        let mut calls = Vec::with_capacity(rows.len());
        for row in &rows {
            let int = |column| row.int(column).map_err(StoreError::while_trying(DOING));
            let text = |column| row.text(column).map_err(StoreError::while_trying(DOING));
            let corrupt = || StoreError::corrupt("a recorded call without a key, a type, a status or metadata");
            let (key, tail) = int(0)?.zip(int(1)?).ok_or_else(corrupt)?;
            let is_whole = int(9)?.is_none_or(|bytes| bytes == WHOLE_DIGEST_BYTES);
            calls.push(RecordedCall {
                id: RecordId::new(Key(key), tail.unsigned_abs()),
                kind: text(2)?.and_then(|word| Kind::parse(&word)).ok_or_else(corrupt)?,
                status: text(11)?.and_then(|word| Status::parse(&word)).ok_or_else(corrupt)?,
                agent: text(3)?,
                server: text(4)?.map(Untrusted::new),
                tool: text(5)?.map(Untrusted::new),
                intent_type: text(6)?.and_then(|word| Variant::from_operation(&word)),
                code: text(7)?.map(Untrusted::new),
                metadata: Untrusted::new(text(8)?.ok_or_else(corrupt)?),
                args: text(10)?.filter(|_| is_whole).map(Untrusted::new),
            });
        }
        let next = calls.last().map_or(from.before, |call| call.id.key().0.saturating_add(1));
        Ok((calls, CallsFrom { key: next, ..from }))
    }
}
