//! Queries for hourly counts, and for running calls, which are not counted yet.

use mcpproxy_core::{Untrusted, Variant};

use super::queries::{int, text};
use crate::log::hourly::{HourlyCount, RefusalCount};
use crate::log::tally::{Counted, HOUR_MS, NO_STEP};
use crate::record::id::Key;
use crate::sql::{Database, Dialect, Statement, Value};
use crate::{CallMark, Kind, Status, StoreError};

const DOING: &str = "summarize the activity log";
const TALLIES: &str = "SELECT kind, status, intent_type, server, tool, risk, mark, step, CAST(sum(count) AS BIGINT) \
     FROM tallies WHERE hour >= $1 AND hour <= $2 GROUP BY kind, status, intent_type, server, tool, risk, mark, step";
const OPEN: &str = "SELECT kind, status, coalesce(intent_type, ''), coalesce(server, ''), coalesce(tool, ''), \
     coalesce(risk, ''), '', CAST(-1 AS BIGINT), CAST(1 AS BIGINT) FROM records \
     WHERE status = 'started' AND status <> 'success' AND key >= $1 AND key <= $2 LIMIT 10000";
const HOURS: &str = "SELECT (SELECT hour FROM tallies ORDER BY hour LIMIT 1), \
     (SELECT hour FROM tallies ORDER BY hour DESC LIMIT 1)";
/// The condition for a record, or a count of records, to be a call that the console counts: it was sent and has ended.
/// Dry runs and replayed answers are left out too: `mark` in the counts, members of the metadata in the records.
const COUNTED: &str = "kind = 'call' AND status <> 'started' AND intent_type <> ''";
/// Reads the newest refusals through the index on kind and key. PostgreSQL uses it only if rows are compared and ordered by
/// both columns.
const REFUSALS: [(Dialect, &str); 2] = [
    (Dialect::Sqlite, "kind = 'refusal' AND key >= $1 AND kind <> 'call' ORDER BY key DESC"),
    (
        Dialect::Postgres,
        "(kind, key) >= ('refusal', $1) AND (kind, key) <= ('refusal', 9223372036854775807) AND kind <> 'call' \
         ORDER BY kind DESC, key DESC",
    ),
];

impl Database {
    /// Calls of each agent by intent, among the newest records since this time.
    pub(crate) async fn calls_by_agent(
        &self,
        since_ms: i64,
        most: i64,
    ) -> Result<Vec<(String, String, u64)>, StoreError> {
        let mut values = vec![Value::int(Key::at(since_ms).0), Value::int(most)];
        let mut condition = COUNTED.to_owned();
        for member in CallMark::ALL.into_iter().filter_map(CallMark::member) {
            values.push(Value::text(member));
            let position = match self.dialect() {
                Dialect::Sqlite => "instr",
                Dialect::Postgres => "strpos",
            };
            condition.push_str(&format!(" AND {position}(metadata, ${}) = 0", values.len()));
        }
        // Looks at a bounded number of the newest records, of whatever kind. Hourly counts do not have the agent.
        let sql = format!(
            "SELECT agent, intent_type, CAST(count(*) AS BIGINT) FROM \
             (SELECT kind, status, agent, intent_type, metadata FROM records WHERE key >= $1 ORDER BY key DESC LIMIT $2) \
             AS newest WHERE {condition} AND agent IS NOT NULL GROUP BY agent, intent_type"
        );
        let rows = self.fetch(Statement::new(sql, values), DOING).await?;
        let one = |row| {
            let word = |column| text(row, column).map(Option::unwrap_or_default);
            Ok((word(0)?, word(1)?, int(row, 2)?.unwrap_or(0).unsigned_abs()))
        };
        rows.iter().map(one).collect()
    }

    /// Calls of the hours from `first` to `last`, by hour and intent.
    pub(crate) async fn hourly_calls(&self, first: i64, last: i64) -> Result<Vec<HourlyCount>, StoreError> {
        let sql = format!(
            "SELECT hour, intent_type, CAST(sum(count) AS BIGINT), \
             CAST(sum(CASE WHEN status = 'error' THEN count ELSE 0 END) AS BIGINT) FROM tallies \
             WHERE hour >= $1 AND hour <= $2 AND {COUNTED} AND mark = '' \
             GROUP BY hour, intent_type ORDER BY hour, intent_type"
        );
        let mut hours = Vec::new();
        for row in self.fetch(Statement::new(sql, vec![Value::int(first), Value::int(last)]), DOING).await? {
            let word = text(&row, 1)?.unwrap_or_default();
            let intent = Variant::ALL.into_iter().find(|variant| variant.operation() == word);
            let intent = intent.ok_or_else(|| StoreError::corrupt("a count without a known intent"))?;
            let from_ms = int(&row, 0)?.unwrap_or(0).saturating_mul(HOUR_MS);
            let count = |column| int(&row, column).map(|count| count.unwrap_or(0).unsigned_abs());
            hours.push(HourlyCount { from_ms, intent, calls: count(2)?, failed: count(3)? });
        }
        Ok(hours)
    }

    /// The error codes of at most `limit` refusals, the newest ones, with the most frequent code first.
    pub(crate) async fn refusal_reasons(&self, since_ms: i64, limit: usize) -> Result<Vec<RefusalCount>, StoreError> {
        let newest = REFUSALS.iter().find(|(dialect, _)| *dialect == self.dialect()).map_or("", |(_, sql)| sql);
        let sql = format!(
            "SELECT coalesce(code, ''), count(*) FROM (SELECT code FROM records WHERE {newest} LIMIT $2) AS newest \
             GROUP BY coalesce(code, '') ORDER BY count(*) DESC, coalesce(code, '')"
        );
        let mut reasons = Vec::new();
        let values = vec![Value::int(Key::at(since_ms).0), Value::limit(limit)];
        for row in self.fetch(Statement::new(sql, values), DOING).await? {
            let code = Untrusted::new(text(&row, 0)?.unwrap_or_default());
            reasons.push(RefusalCount { code, count: int(&row, 1)?.unwrap_or(0).unsigned_abs() });
        }
        Ok(reasons)
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
