//! Approval requests, standing approvals, idempotency claims, dry runs and rate limits. Each file holds a table's types,
//! methods and SQL. Everything that changes an approval is a step, written in one transaction with a record (`step.rs`).

pub(crate) mod approval;
pub(crate) mod claim;
mod rate;
pub(crate) mod standing;
pub(crate) mod step;

use crate::record::id::{Key, RecordId};
use crate::sql::columns::Columns;

/// Reads the id of a record, which takes two columns.
fn record_id(columns: &Columns<'_>, column: usize) -> Result<Option<RecordId>, crate::StoreError> {
    let tail = columns.int(column + 1)?;
    Ok(columns.int(column)?.zip(tail).map(|(key, tail)| RecordId::new(Key(key), tail.unsigned_abs())))
}
