//! Continues a chain after an earlier run: ends its open calls, and finds its last signed position.

use std::sync::Arc;

use super::RecordWriter;
use super::read::{COLUMNS, record};
use crate::log::operation::{Change, End};
use crate::log::subject::Subject;
use crate::log::tally::HOUR_MS;
use crate::sql::driver::{Statement, Value};
use crate::{Kind, Outcome, Record, Status, StoreError};

const INTERRUPTED: &str = "the gateway stopped before the call ended";
const STEP_ROWS: usize = 256;

impl RecordWriter {
    /// Ends the calls that an earlier run left open. Returns their number.
    pub(crate) async fn close_interrupted(&mut self) -> Result<usize, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM records WHERE status = 'started' AND status <> 'success' AND chain = $1 \
             ORDER BY status, key LIMIT {STEP_ROWS}"
        );
        let mut count = 0;
        loop {
            let chain = Value::int(self.chain().into());
            let rows = self.fetch(Statement::new(sql.as_str(), vec![chain])).await?;
            let ends: Vec<Change> = rows.iter().map(|row| record(row).map(interrupted)).collect::<Result<_, _>>()?;
            self.write(ends.iter()).await?;
            count += ends.len();
            if ends.len() < STEP_ROWS {
                return Ok(count);
            }
        }
    }

    /// The last signed position of the chain.
    pub(crate) async fn signed_seq(&mut self) -> Result<i64, StoreError> {
        let sql = "SELECT seq FROM checkpoints WHERE chain = $1 ORDER BY seq DESC LIMIT 1";
        let rows = self.fetch(Statement::new(sql, vec![Value::int(self.chain().into())])).await?;
        let seq = rows.first().map(|row| row.int(0)).transpose();
        Ok(seq.map_err(StoreError::while_trying("read a checkpoint"))?.flatten().unwrap_or(0))
    }
}

fn interrupted(record: Record) -> Change {
    let word = |word: &Option<mcpproxy_core::Untrusted>| word.as_ref().map_or("", |word| word.for_json()).to_owned();
    let is_call = record.kind == Kind::Call;
    let subject = Subject {
        hour: record.time_ms() / HOUR_MS,
        kind: record.kind,
        intent_type: record.intent_type,
        server: if is_call { word(&record.server) } else { String::new() },
        tool: if is_call { word(&record.tool) } else { String::new() },
        risk: record.risk,
        mark: record.mark(),
    };
    let outcome = Outcome { message: Some(INTERRUPTED.to_owned()), ..Outcome::bare(Status::Interrupted) };
    Change::Close(Box::new(End { id: record.id, outcome, subject: Arc::new(subject) }))
}
