//! Questions about claims and dry runs, and removing what is past its time.

use mcpproxy_core::Digest;

use super::steps::begin;
use crate::approvals::claim::NOT_SENT;
use crate::sql::columns::Columns;
use crate::sql::driver::{Connection, Statement, Value};
use crate::sql::{Database, Row};
use crate::{Status, StoreError, StoredClaim, StoredDryRun};

const FIND_CLAIM: &str = "SELECT claims.args_digest, claims.record_key, claims.record_tail, claims.answer, claims.expires_ms, \
     records.status, records.code FROM claims LEFT JOIN records ON records.key = claims.record_key \
     WHERE claims.agent = $1 AND claims.tool = $2 AND claims.key = $3 AND claims.expires_ms > $4";
const DAY_MS: i64 = 86_400_000;
/// The longest that an approval can wait, whose page shows the dry run.
const DRY_RUNS_KEPT_MS: i64 = 7 * DAY_MS;
const APPROVALS_KEPT_MS: i64 = 30 * DAY_MS;
/// No session lasts longer, and who has one asks for it again long before.
const SESSIONS_KEPT_MS: i64 = 7 * DAY_MS;
/// So many rows go in one transaction, which nobody should have to wait for.
const STEP_ROWS: u64 = 500;

/// What is removed, and how long after its time.
pub(super) const FORGET: [(&str, i64); 6] = [
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
    ("DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE used_ms <= $1 LIMIT $2)", SESSIONS_KEPT_MS),
];

impl Database {
    /// `agent_tool_key` in this order.
    pub(crate) async fn claim(
        &self,
        agent_tool_key: [&str; 3],
        now_ms: i64,
    ) -> Result<Option<StoredClaim>, StoreError> {
        let values = agent_tool_key.into_iter().map(Value::text).chain([Value::int(now_ms)]).collect();
        let rows = self.fetch(Statement::new(FIND_CLAIM, values), "look up a claim").await?;
        rows.first().map(claim).transpose()
    }

    pub(crate) async fn dry_run(&self, binding: &Digest) -> Result<Option<StoredDryRun>, StoreError> {
        let sql = "SELECT preview, is_native, at_ms FROM dry_runs WHERE binding = $1";
        let rows = self.fetch(Statement::new(sql, vec![Value::digest(binding)]), "look up a dry run").await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let columns = Columns::of(row, "a dry run with something odd in it");
        let preview = columns.untrusted(0)?.ok_or_else(|| columns.odd())?;
        Ok(Some(StoredDryRun { preview, is_native: columns.number(1)? != 0, at_ms: columns.number(2)? }))
    }

    pub(crate) async fn forget_expired(&self, now_ms: i64) -> Result<u64, StoreError> {
        let failed = StoreError::while_trying("remove what has expired");
        let mut connection = self.writing_connection().await?;
        let mut removed = 0;
        for (sql, kept_ms) in FORGET {
            loop {
                let step = forget(&mut connection, sql, now_ms.saturating_sub(kept_ms)).await.map_err(&failed)?;
                removed += step;
                if step < STEP_ROWS {
                    break;
                }
            }
        }
        connection.close().await.map_err(&failed)?;
        Ok(removed)
    }
}

async fn forget(connection: &mut Connection, sql: &str, until_ms: i64) -> Result<u64, sqlx::Error> {
    begin(connection).await?;
    let values = vec![Value::int(until_ms), Value::int(STEP_ROWS.cast_signed())];
    let removed = connection.execute(Statement::new(sql, values)).await?;
    connection.execute(Statement::plain("COMMIT")).await?;
    Ok(removed)
}

fn claim(row: &Row) -> Result<StoredClaim, StoreError> {
    let columns = Columns::of(row, "a claim with something odd in it");
    let answer = columns.exact(3)?;
    let code = columns.text(6)?;
    // A record that was removed when its time was over has ended; how, nobody can tell without its answer.
    let ended = if answer.is_some() { Status::Success } else { Status::Interrupted };
    let status = columns.parsed(5, Status::parse)?.unwrap_or(ended);
    Ok(StoredClaim {
        args_digest: columns.digest(0)?,
        record: columns.record(1)?.ok_or_else(|| columns.odd())?,
        status,
        was_sent: !(status == Status::Cancelled && code.as_deref() == Some(NOT_SENT)),
        answer,
        expires_ms: columns.number(4)?,
    })
}
