//! Claims, which reserve an idempotency key so that a call runs once, and dry runs, which preview a call.

use mcpproxy_core::{Digest, Untrusted};

use super::record_id;
use super::step::begin;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Row, Statement, Value};
use crate::{RecordId, Status, Store, StoreError};

/// The code of a record whose call was never sent. Another call may take over its claim.
pub(crate) const NOT_SENT: &str = "not_sent";
const FIND_CLAIM: &str = "SELECT claims.args_digest, claims.record_key, claims.record_tail, claims.answer, claims.expires_ms, \
     records.status, records.code FROM claims LEFT JOIN records ON records.key = claims.record_key \
     WHERE claims.agent = $1 AND claims.tool = $2 AND claims.key = $3";
const ANSWER_BYTES: &str = "SELECT CAST(coalesce(sum(length(answer)), 0) AS BIGINT) FROM claims WHERE agent = $1";
const COUNTING: &str = "count the answers of an agent";
const DAY_MS: i64 = 86_400_000;
/// The longest time that an approval request, whose page shows the dry run, can be pending.
const DRY_RUNS_KEPT_MS: i64 = 7 * DAY_MS;
const APPROVALS_KEPT_MS: i64 = 30 * DAY_MS;
/// No session lasts longer. A session in use updates its row long before.
const SESSIONS_KEPT_MS: i64 = 7 * DAY_MS;
/// Rows to remove in one transaction. It stays short, because calls wait for it.
const STEP_ROWS: u64 = 500;

/// Statements that remove expired rows, each with the time to keep a row after it expired.
pub(super) const EXPIRED: [(&str, i64); 7] = [
    (
        "DELETE FROM claims WHERE (agent, tool, key) IN \
      (SELECT agent, tool, key FROM claims WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2)",
        0,
    ),
    (
        "DELETE FROM dry_runs WHERE binding IN \
      (SELECT binding FROM dry_runs WHERE at_ms <= $1 ORDER BY at_ms LIMIT $2)",
        DRY_RUNS_KEPT_MS,
    ),
    (
        "DELETE FROM approvals WHERE id IN (SELECT old.id FROM approvals AS old \
      WHERE old.args IS NULL AND old.created_ms <= $1 AND (old.state <> 'consumed' OR EXISTS (SELECT 1 FROM approvals AS newer \
      WHERE newer.agent = old.agent AND newer.tool = old.tool AND newer.state = 'consumed' AND newer.id > old.id)) \
      ORDER BY old.created_ms LIMIT $2)",
        APPROVALS_KEPT_MS,
    ),
    ("DELETE FROM invitations WHERE hash IN (SELECT hash FROM invitations WHERE expires_ms <= $1 LIMIT $2)", 0),
    (
        "DELETE FROM challenges WHERE (session, purpose) IN \
      (SELECT session, purpose FROM challenges WHERE expires_ms <= $1 LIMIT $2)",
        0,
    ),
    ("DELETE FROM sign_ins WHERE state IN (SELECT state FROM sign_ins WHERE expires_ms <= $1 LIMIT $2)", 0),
    ("DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE used_ms <= $1 LIMIT $2)", SESSIONS_KEPT_MS),
];

#[derive(Clone, Debug)]
pub struct NewClaim {
    pub agent: String,
    pub tool: String,
    pub key: String,
    pub args_digest: Digest,
    pub now_ms: i64,
    pub expires_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredClaim {
    pub args_digest: Digest,
    /// The record of the call that reserved the key, and its status.
    pub record: RecordId,
    pub status: Status,
    /// `false` if the call was certainly never sent. Then another call may reserve the key.
    pub was_sent: bool,
    pub answer: Option<String>,
    pub expires_ms: i64,
}

#[derive(Clone, Debug)]
pub struct NewDryRun {
    pub binding: Digest,
    pub agent: String,
    pub tool: String,
    /// Masked JSON.
    pub preview: String,
    /// `true` if the server made the preview.
    pub is_native: bool,
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDryRun {
    pub preview: Untrusted,
    pub is_native: bool,
    pub at_ms: i64,
}

impl Store {
    /// Finds the claim of this idempotency key, even if it has expired. An expired claim is only for those who waited
    /// for its answer.
    pub async fn find_claim(&self, agent: &str, tool: &str, key: &str) -> Result<Option<StoredClaim>, StoreError> {
        let values = [agent, tool, key].into_iter().map(Value::text).collect();
        let row = self.database().fetch_first(Statement::new(FIND_CLAIM, values), "look up a claim").await?;
        row.as_ref().map(claim).transpose()
    }

    /// Returns the size of all answers that are kept for repeated calls of this agent.
    pub async fn answer_bytes(&self, agent: &str) -> Result<u64, StoreError> {
        let row = self.database().fetch_first(Statement::new(ANSWER_BYTES, vec![Value::text(agent)]), COUNTING).await?;
        let bytes = row.map(|row| row.int(0)).transpose().map_err(StoreError::while_trying(COUNTING))?.flatten();
        Ok(bytes.unwrap_or(0).unsigned_abs())
    }

    /// Finds the last dry run of exactly this call, however old.
    pub async fn find_dry_run(&self, binding: &Digest) -> Result<Option<StoredDryRun>, StoreError> {
        let sql = "SELECT preview, is_native, at_ms FROM dry_runs WHERE binding = $1";
        let statement = Statement::new(sql, vec![Value::digest(binding)]);
        let Some(row) = self.database().fetch_first(statement, "look up a dry run").await? else { return Ok(None) };
        let columns = Columns::of(&row, "a malformed dry run");
        let preview = columns.untrusted(0)?.ok_or_else(|| columns.corrupt())?;
        Ok(Some(StoredDryRun { preview, is_native: columns.number(1)? != 0, at_ms: columns.number(2)? }))
    }

    /// Removes expired claims, old dry runs, approvals that ended 30 days ago, and expired sign-in data. Returns the
    /// number of removed rows. For each tool and agent, the newest used approval stays: the next request is compared
    /// with it.
    pub async fn remove_expired(&self, now_ms: i64) -> Result<u64, StoreError> {
        let remove = async |connection: &mut Connection| {
            let mut removed = 0;
            for (sql, kept_ms) in EXPIRED {
                loop {
                    let step = remove_some(connection, sql, now_ms.saturating_sub(kept_ms)).await?;
                    removed += step;
                    if step < STEP_ROWS {
                        break;
                    }
                }
            }
            Ok(removed)
        };
        let removed = self.database().write(remove, "remove expired rows").await?;
        Ok(removed + self.remove_old_attempts(now_ms).await?)
    }
}

async fn remove_some(connection: &mut Connection, sql: &str, until_ms: i64) -> Result<u64, sqlx::Error> {
    begin(connection).await?;
    let values = vec![Value::int(until_ms), Value::int(STEP_ROWS.cast_signed())];
    let removed = connection.execute(Statement::new(sql, values)).await?;
    connection.execute(Statement::plain("COMMIT")).await?;
    Ok(removed)
}

fn claim(row: &Row) -> Result<StoredClaim, StoreError> {
    let columns = Columns::of(row, "a malformed claim");
    let answer = columns.exact(3)?;
    let code = columns.text(6)?;
    // A record that retention removed has ended. Only an answer tells how.
    let ended = if answer.is_some() { Status::Success } else { Status::Interrupted };
    let status = columns.parsed(5, Status::parse)?.unwrap_or(ended);
    Ok(StoredClaim {
        args_digest: columns.digest(0)?,
        record: record_id(&columns, 1)?.ok_or_else(|| columns.corrupt())?,
        status,
        was_sent: !(status == Status::Cancelled && code.as_deref() == Some(NOT_SENT)),
        answer,
        expires_ms: columns.number(4)?,
    })
}
