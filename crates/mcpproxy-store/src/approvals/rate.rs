//! Counts the calls of tools with a rate limit, for all gateways of one database together.
//!
//! Each counted call is a row with a number. A call is allowed if the call that is `limit.calls` back has left the span
//! (`at_ms + span <= now`). So no span ever has more calls than the limit allows, whatever the distribution of calls over
//! gateways, and a restart forgets nothing. A token bucket needs a single row, but a full bucket that refills meanwhile
//! lets almost twice as many calls through within one span.
//!
//! Counting is a [`Step`](super::step::Step): one statement in the transaction that opens the record of the call. A call
//! that is not recorded is not counted, and a call over the limit is neither recorded as started nor sent. Steps of several
//! gateways run one after the other, so two calls cannot take the same number.
//!
//! Times come from the clock of the database, because the clocks of gateways differ. If that clock is set back, a row from
//! the future counts for at most one span longer, as in `attempt.rs`.
//!
//! There is one row for each call within the span of its limit. [`Store::remove_old_rate_calls`] removes the others.

use mcpproxy_core::ToolName;
use mcpproxy_core::contract::RateLimit;

use super::step::begin;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Dialect, Statement, Value};
use crate::{Store, StoreError};

const READING: &str = "read the recent calls of a tool";
const REMOVING: &str = "remove calls that no rate limit counts any more";
/// Rows to remove in one transaction. It stays short, because calls wait for it.
const REMOVED_ROWS: u64 = 500;

/// The number of the last call of tool `$1`.
const LAST: &str = "coalesce((SELECT max(number) FROM rate_calls WHERE tool = $1), 0)";

impl Store {
    /// Returns the milliseconds until a call of this tool is allowed, or `None` if it is allowed now. Counts nothing.
    pub async fn rate_wait_ms(&self, tool: &ToolName, limit: RateLimit) -> Result<Option<u64>, StoreError> {
        let now = self.database().dialect().now_ms();
        let sql = format!("SELECT at_ms + $3 - {now} FROM rate_calls WHERE {}", blocking(now));
        let row = self.database().fetch_first(Statement::new(sql, values(tool, limit)), READING).await?;
        let Some(row) = row else { return Ok(None) };
        let wait_ms = Columns::of(&row, "a malformed time of a call").number(0)?;
        Ok(Some(wait_ms.clamp(1, span_ms(limit)).unsigned_abs()))
    }

    /// Removes calls that have left the span of their limit. Returns the number of removed rows.
    pub async fn remove_old_rate_calls(&self) -> Result<u64, StoreError> {
        let now = self.database().dialect().now_ms();
        let any = format!("SELECT number FROM rate_calls WHERE expires_ms <= {now} LIMIT 1");
        // Most gateways have no limited tool, and a write needs a connection of its own.
        if self.database().fetch_first(Statement::plain(&any), REMOVING).await?.is_none() {
            return Ok(0);
        }
        let sql = format!(
            "DELETE FROM rate_calls WHERE (tool, number) IN \
             (SELECT tool, number FROM rate_calls WHERE expires_ms <= {now} ORDER BY expires_ms LIMIT $1)"
        );
        let remove = async |connection: &mut Connection| {
            let mut removed = 0;
            loop {
                begin(connection).await?;
                let values = vec![Value::int(REMOVED_ROWS.cast_signed())];
                let step = connection.execute(Statement::new(sql.as_str(), values)).await?;
                connection.execute(Statement::plain("COMMIT")).await?;
                removed += step;
                if step < REMOVED_ROWS {
                    return Ok(removed);
                }
            }
        };
        self.database().write(remove, REMOVING).await
    }
}

/// Counts a call, or changes nothing if the limit is used up.
pub(super) fn count(tool: &ToolName, limit: RateLimit, dialect: Dialect) -> Statement {
    Statement::new(count_sql(dialect), values(tool, limit))
}

pub(super) fn count_sql(dialect: Dialect) -> String {
    let now = dialect.now_ms();
    format!(
        "INSERT INTO rate_calls (tool, number, at_ms, expires_ms) SELECT $1, {LAST} + 1, {now}, {now} + $3 \
         WHERE NOT EXISTS (SELECT 1 FROM rate_calls WHERE {})",
        blocking(now)
    )
}

/// The condition for the call that must leave the span before the next one: `$2` calls back, of tool `$1`, in the last
/// `$3` milliseconds.
fn blocking(now: &str) -> String {
    format!("tool = $1 AND number = {LAST} + 1 - $2 AND at_ms > {now} - $3 AND at_ms <= {now} + $3")
}

fn values(tool: &ToolName, limit: RateLimit) -> Vec<Value> {
    vec![Value::text(&tool.to_string()), Value::int(limit.calls.into()), Value::int(span_ms(limit))]
}

/// At least 1, so that a wait is never zero.
fn span_ms(limit: RateLimit) -> i64 {
    i64::try_from(limit.per.as_millis()).unwrap_or(i64::MAX / 4).max(1)
}
