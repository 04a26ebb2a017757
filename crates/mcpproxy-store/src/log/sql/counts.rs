//! Queries for counts, and for running calls, which are not counted yet.

use mcpproxy_core::{Untrusted, Variant};

use super::queries::{int, text};
use crate::log::hourly::{HourlyCount, RefusalCount};
use crate::log::step_counts::StepCounts;
use crate::log::tally::{Counted, HOUR_MS};
use crate::record::id::Key;
use crate::sql::{Database, Dialect, Row, Statement, Value};
use crate::{CallMark, Kind, Status, StoreError};

const DOING: &str = "summarize the activity log";
/// Counts of the hours from $1 to $2: of series with a record since $1, of what has not moved into a series yet, and of
/// running calls with keys from $3 to $4. A single statement, so that no count is missed or read twice while the writer
/// moves it.
const COUNTS: &str = "SELECT s.kind, s.status, s.intent_type, s.server, s.tool, s.risk, s.mark, \
     CASE WHEN s.last_hour <= $2 THEN s.counts ELSE coalesce((SELECT p.counts FROM tally_points AS p \
     WHERE p.chain = s.chain AND p.series = s.number AND p.hour <= $2 ORDER BY p.hour DESC LIMIT 1), s.base) END, \
     CASE WHEN $1 <= 0 THEN s.base ELSE coalesce((SELECT p.counts FROM tally_points AS p \
     WHERE p.chain = s.chain AND p.series = s.number AND p.hour < $1 ORDER BY p.hour DESC LIMIT 1), s.base) END, \
     CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), s.chain, s.number FROM tally_series AS s WHERE s.last_hour >= $1 \
     UNION ALL SELECT kind, status, intent_type, server, tool, risk, mark, NULL, NULL, step, \
     CAST(sum(count) AS BIGINT), NULL, NULL \
     FROM tallies WHERE hour >= $1 AND hour <= $2 \
     GROUP BY kind, status, intent_type, server, tool, risk, mark, step \
     UNION ALL SELECT kind, status, coalesce(intent_type, ''), coalesce(server, ''), coalesce(tool, ''), \
     coalesce(risk, ''), '', NULL, NULL, CAST(-1 AS BIGINT), CAST(1 AS BIGINT), NULL, NULL FROM \
     (SELECT kind, status, intent_type, server, tool, risk FROM records \
     WHERE status = 'started' AND status <> 'success' AND key >= $3 AND key <= $4 \
     LIMIT 10000) AS running";
const HOURS: &str = "SELECT min(hour), max(hour) FROM (SELECT (SELECT hour FROM tallies ORDER BY hour LIMIT 1) AS hour \
     UNION ALL SELECT (SELECT hour FROM tallies ORDER BY hour DESC LIMIT 1) \
     UNION ALL SELECT (SELECT hour FROM tally_hours ORDER BY hour LIMIT 1) \
     UNION ALL SELECT (SELECT hour FROM tally_hours ORDER BY hour DESC LIMIT 1)) AS ends";
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
            "SELECT hour, intent_type, CAST(sum(calls) AS BIGINT), CAST(sum(failed) AS BIGINT) FROM (\
             SELECT hour, intent_type, calls, failed FROM tally_hours \
             WHERE hour >= $1 AND hour <= $2 AND intent_type <> '' \
             UNION ALL SELECT hour, intent_type, count, CASE WHEN status = 'error' THEN count ELSE 0 END FROM tallies \
             WHERE hour >= $1 AND hour <= $2 AND {COUNTED} AND mark = '') AS hours \
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

    /// Counts of the hours from `first` to `last`, with the running calls that began in them.
    pub(crate) async fn counts(&self, first: i64, last: i64) -> Result<Vec<Counted>, StoreError> {
        // The counts at the end of a reversed range are older than those before it.
        if first > last {
            return Ok(Vec::new());
        }
        let [from, to] = [first, last.saturating_add(1)].map(|hour| Key::at(hour.saturating_mul(HOUR_MS)).0);
        let values = [first, last, from, to - 1].map(Value::int).to_vec();
        let mut all = Vec::new();
        for row in self.fetch(Statement::new(COUNTS, values), DOING).await? {
            let steps = steps(&row)?;
            let count = steps.total();
            // A series without a record in this range.
            if count == 0 {
                continue;
            }
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
                count,
                steps,
            });
        }
        Ok(all)
    }

    /// The first and last hour with counts.
    pub(crate) async fn tallied_hours(&self) -> Result<Option<(i64, i64)>, StoreError> {
        let rows = self.fetch(Statement::plain(HOURS), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(int(row, 0)?.zip(int(row, 1)?))
    }
}

/// The counts of a row: of one step, or those of a series at the end of the range minus those before it.
fn steps(row: &Row) -> Result<StepCounts, StoreError> {
    if let Some(step) = int(row, 9)? {
        return Ok(StepCounts::from_iter([(step, int(row, 10)?.unwrap_or(0).unsigned_abs())]));
    }
    let (chain, number) = (int(row, 11)?.unwrap_or(0), int(row, 12)?.unwrap_or(0));
    let corrupt = |what: &str| StoreError::corrupt(format!("{what} in series {number} of chain {chain}"));
    let cumulative = |column| {
        let bytes = row.bytes(column).map_err(StoreError::while_trying(DOING))?;
        let counts = bytes.as_deref().map_or(Some(StepCounts::default()), StepCounts::from_bytes);
        counts.ok_or_else(|| corrupt("malformed counts"))
    };
    let (end, before) = (cumulative(7)?, cumulative(8)?);
    end.since(&before).ok_or_else(|| corrupt("counts that fell"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A summary reads two points of each series with a record in this time, and never all of them.
    #[tokio::test]
    async fn a_summary_finds_each_point_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&crate::Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let statement = Statement::new(format!("EXPLAIN QUERY PLAN {COUNTS}"), [1, 2, 3, 4].map(Value::int).to_vec());
        let rows = database.fetch(statement, DOING).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| text(row, 3).unwrap().unwrap()).collect();
        let found = |step: &str| plan.iter().filter(|found| found.as_str() == step).count();
        assert_eq!(found("SEARCH p USING PRIMARY KEY (chain=? AND series=? AND hour<?)"), 2, "{plan:#?}");
        assert_eq!(found("SEARCH tallies USING PRIMARY KEY (hour>? AND hour<?)"), 1, "{plan:#?}");
        let scans: Vec<&String> = plan.iter().filter(|step| step.starts_with("SCAN")).collect();
        assert_eq!(found("SEARCH s USING INDEX tally_series_last (last_hour>?)"), 1, "{plan:#?}");
        assert_eq!(scans, ["SCAN running"], "{plan:#?}");
    }
}
