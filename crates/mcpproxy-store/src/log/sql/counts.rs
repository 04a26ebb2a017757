//! Queries for hourly counts, and for running calls, which are not counted yet.

use super::queries::{int, text};
use crate::log::tally::{Counted, NO_STEP};
use crate::record::id::Key;
use crate::sql::{Database, Statement, Value};
use crate::{CallMark, Kind, Status, StoreError};

const DOING: &str = "summarize the activity log";
const TALLIES: &str = "SELECT kind, status, intent_type, server, tool, risk, mark, step, CAST(sum(count) AS BIGINT) \
     FROM tallies WHERE hour >= $1 AND hour <= $2 GROUP BY kind, status, intent_type, server, tool, risk, mark, step";
const OPEN: &str = "SELECT kind, status, coalesce(intent_type, ''), coalesce(server, ''), coalesce(tool, ''), \
     coalesce(risk, ''), '', CAST(-1 AS BIGINT), CAST(1 AS BIGINT) FROM records \
     WHERE status = 'started' AND status <> 'success' AND key >= $1 AND key <= $2 LIMIT 10000";
const HOURS: &str = "SELECT (SELECT hour FROM tallies ORDER BY hour LIMIT 1), \
     (SELECT hour FROM tallies ORDER BY hour DESC LIMIT 1)";

/// Looks at a bounded number of the newest records, of whatever kind. Hourly counts do not have the agent.
const BY_AGENT: &str = "SELECT agent, intent_type, CAST(count(*) AS BIGINT) FROM \
     (SELECT kind, agent, intent_type FROM records WHERE key >= $1 ORDER BY key DESC LIMIT $2) AS newest \
     WHERE kind = 'call' AND agent IS NOT NULL AND intent_type IS NOT NULL GROUP BY agent, intent_type";

impl Database {
    /// Calls of each agent by intent, among the newest records since this time.
    pub(crate) async fn calls_by_agent(
        &self,
        since_ms: i64,
        most: i64,
    ) -> Result<Vec<(String, String, u64)>, StoreError> {
        let values = vec![Value::int(Key::at(since_ms).0), Value::int(most)];
        let rows = self.fetch(Statement::new(BY_AGENT, values), DOING).await?;
        let one = |row| {
            let word = |column| text(row, column).map(Option::unwrap_or_default);
            Ok((word(0)?, word(1)?, int(row, 2)?.unwrap_or(0).unsigned_abs()))
        };
        rows.iter().map(one).collect()
    }

    /// Counts of the hours from `first` to `last`.
    pub(crate) async fn tallies(&self, first: i64, last: i64) -> Result<Vec<Counted>, StoreError> {
        self.counted(TALLIES, first, last).await
    }

    /// Running calls that began in this range of time.
    pub(crate) async fn open_calls(&self, from_ms: i64, to_ms: i64) -> Result<Vec<Counted>, StoreError> {
        let open = self.counted(OPEN, Key::at(from_ms).0, Key::at(to_ms.saturating_add(1)).0 - 1).await?;
        Ok(open.into_iter().map(|counted| Counted { step: NO_STEP, ..counted }).collect())
    }

    /// The first and last hour with counts.
    pub(crate) async fn tallied_hours(&self) -> Result<Option<(i64, i64)>, StoreError> {
        let rows = self.fetch(Statement::plain(HOURS), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(int(row, 0)?.zip(int(row, 1)?))
    }

    async fn counted(&self, sql: &str, first: i64, last: i64) -> Result<Vec<Counted>, StoreError> {
        let mut all = Vec::new();
        for row in self.fetch(Statement::new(sql, vec![Value::int(first), Value::int(last)]), DOING).await? {
            let word = |column| text(&row, column).map(Option::unwrap_or_default);
            all.push(Counted {
                kind: Kind::parse(&word(0)?).ok_or_else(|| StoreError::corrupt("a count without a known kind"))?,
                status: Status::parse(&word(1)?)
                    .ok_or_else(|| StoreError::corrupt("a count without a known status"))?,
                intent_type: word(2)?,
                server: word(3)?,
                tool: word(4)?,
                risk: word(5)?,
                mark: CallMark::parse(&word(6)?).ok_or_else(|| StoreError::corrupt("a count with an unknown mark"))?,
                step: int(&row, 7)?.unwrap_or(NO_STEP),
                count: int(&row, 8)?.unwrap_or(0).unsigned_abs(),
            });
        }
        Ok(all)
    }
}
