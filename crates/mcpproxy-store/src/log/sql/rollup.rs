//! Moves counts from `tallies` into series. `log/rollup.rs` explains why and when.

use std::collections::BTreeMap;

use super::RecordWriter;
use super::take::hold_chain;
use crate::log::step_counts::StepCounts;
use crate::sql::bulk::Column::{Bytes, Int, Text};
use crate::sql::bulk::{self, Form};
use crate::sql::driver::{Connection, Dialect, Row, Statement, Value};
use crate::{Kind, Status, StoreError};

/// Rows that one step moves.
const STEP_ROWS: i64 = 500;
/// The same if their hour has points after it, which all change.
const LATE_ROWS: i64 = 100;
/// Points that a step changes. An hour that is very late moves row by row, and each row changes the points after it.
const STEP_POINTS: i64 = 2_000;
/// A gateway that was silent for this time does not run any more.
const RUNNING_MS: i64 = 10_000;
/// A gateway that was silent for this time does not come back soon.
const GONE_MS: i64 = 60_000;
/// The schema version from which on gateways know series.
const SERIES_VERSION: i64 = 14;
/// The first hour from $2 on in which the chain $1 has counts. The key of `tallies` begins with the hour, so this looks
/// into each hour once, and stops at the first with such counts. A plain query would read the counts of all other chains
/// until one of this chain comes. With `EXISTS`, PostgreSQL would join the hours in any order.
const FIRST_HOUR: &str = "WITH RECURSIVE hours (hour) AS (SELECT min(hour) FROM tallies WHERE hour >= $2 \
     UNION ALL SELECT (SELECT min(t.hour) FROM tallies AS t WHERE t.hour > hours.hour) FROM hours \
     WHERE hours.hour IS NOT NULL \
     AND (SELECT t.chain FROM tallies AS t WHERE t.hour = hours.hour AND t.chain = $1 LIMIT 1) IS NULL) \
     SELECT hours.hour FROM hours \
     WHERE (SELECT t.chain FROM tallies AS t WHERE t.hour = hours.hour AND t.chain = $1 LIMIT 1) IS NOT NULL";
/// The columns that name a series.
const NAMES: &str = "kind, status, intent_type, server, tool, risk, mark";

const SERIES: Form = Form {
    begin: "INSERT INTO tally_series (chain, number, kind, status, intent_type, server, tool, risk, mark, last_hour, counts) \
            SELECT * FROM ",
    columns: &[Int, Int, Text, Text, Text, Text, Text, Text, Text, Int, Bytes],
    end: " WHERE column1 IS NOT NULL ON CONFLICT (chain, number) DO UPDATE \
          SET last_hour = excluded.last_hour, counts = excluded.counts",
};

const POINTS: Form = Form {
    begin: "INSERT INTO tally_points (chain, series, hour, counts) SELECT * FROM ",
    columns: &[Int, Int, Int, Bytes],
    end: " WHERE column1 IS NOT NULL ON CONFLICT (chain, series, hour) DO UPDATE SET counts = excluded.counts",
};

const HOURS: Form = Form {
    begin: "INSERT INTO tally_hours (hour, chain, intent_type, calls, failed) SELECT * FROM ",
    columns: &[Int, Int, Text, Int, Int],
    end: " WHERE column1 IS NOT NULL ON CONFLICT (hour, chain, intent_type) DO UPDATE \
          SET calls = tally_hours.calls + excluded.calls, failed = tally_hours.failed + excluded.failed",
};

/// Finds series by chain and name.
const KNOWN: Form = Form {
    begin: "SELECT s.kind, s.status, s.intent_type, s.server, s.tool, s.risk, s.mark, s.number, s.last_hour, s.counts, \
            s.base FROM ",
    columns: &[Int, Text, Text, Text, Text, Text, Text, Text],
    end: " JOIN tally_series AS s ON s.chain = column1 AND s.kind = column2 AND s.status = column3 \
          AND s.intent_type = column4 AND s.server = column5 AND s.tool = column6 AND s.risk = column7 \
          AND s.mark = column8",
};

/// Finds the points of series from an hour on, and the point before it, by chain, series and hour.
const LATER_POINTS: Form = Form {
    begin: "SELECT p.series, p.hour, p.counts FROM (SELECT column1 AS chain, column2 AS series, \
            coalesce((SELECT max(b.hour) FROM tally_points AS b \
            WHERE b.chain = column1 AND b.series = column2 AND b.hour <= column3), column3) AS since FROM ",
    columns: &[Int, Int, Int],
    end: ") AS late JOIN tally_points AS p ON p.chain = late.chain AND p.series = late.series AND p.hour >= late.since \
          ORDER BY p.series, p.hour",
};

type Result<T> = std::result::Result<T, sqlx::Error>;

/// The values that the records of a series have in common, in the order of `NAMES`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesName([String; 7]);

/// The place up to which a round has walked through the counts of a chain, in the order of the table. Rows that come
/// after it are left to the next round, so a round ends however many calls there are meanwhile.
#[derive(Default)]
pub(crate) struct RollUpCursor {
    hour: i64,
    /// The last row of this hour.
    after: Option<(SeriesName, i64)>,
}

/// A series as it is stored.
struct Series {
    number: i64,
    last_hour: i64,
    counts: StepCounts,
    base: StepCounts,
}

/// The rows that a step moves. All of them are of one chain and hour.
struct CountMove {
    chain: i64,
    hour: i64,
    series: BTreeMap<SeriesName, StepCounts>,
    /// Calls, and failed ones among them, by intent.
    calls: BTreeMap<String, (u64, u64)>,
    /// The place after the last row.
    next: RollUpCursor,
}

impl RecordWriter {
    /// Returns the chains whose counts this gateway may move, its own last. There are none while a gateway runs on the
    /// same database that does not know series: it reads `tallies` only. Chains whose gateway was seen lately are left
    /// out. It may be about to come back, and would find its chain locked.
    pub(crate) async fn chains_to_roll_up(&mut self) -> std::result::Result<Vec<u16>, StoreError> {
        let own = i64::from(self.chain());
        let read = async |connection: &mut Connection| {
            let mut values = vec![Value::int(own)];
            let sql = match connection.dialect() {
                Dialect::Sqlite => "SELECT number FROM chains WHERE number <> $1 ORDER BY number DESC".to_owned(),
                Dialect::Postgres => {
                    let now = Dialect::Postgres.now_ms();
                    let older = format!(
                        "SELECT count(*) FROM gateways WHERE coalesce(database_version, 0) < $1 AND seen_ms > {now} - $2"
                    );
                    let older = Statement::new(older, [SERIES_VERSION, RUNNING_MS].map(Value::int).to_vec());
                    if number(connection, older).await? != Some(0) {
                        return Ok(Vec::new());
                    }
                    values.push(Value::int(GONE_MS));
                    format!(
                        "SELECT number FROM chains WHERE number <> $1 AND NOT EXISTS (SELECT 1 FROM gateways \
                         WHERE gateways.id = chains.name AND gateways.seen_ms > {now} - $2) ORDER BY number DESC"
                    )
                }
            };
            let rows = connection.fetch(Statement::new(sql, values)).await?;
            let others = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>>>()?;
            Ok(others.into_iter().flatten().chain([own]).filter_map(|chain| u16::try_from(chain).ok()).collect())
        };
        self.with_connection(read).await
    }

    /// Moves some counts of a chain, the oldest first. Returns the place to go on from, or `None` if that was all. A chain
    /// that another gateway writes is left to that gateway.
    pub(crate) async fn roll_up_some(
        &mut self,
        chain: u16,
        cursor: &RollUpCursor,
    ) -> std::result::Result<Option<RollUpCursor>, StoreError> {
        let is_own = chain == self.chain();
        self.with_connection(async |connection: &mut Connection| {
            let Some(hour) = first_hour(connection, chain, cursor.hour).await? else { return Ok(None) };
            let after = cursor.after.as_ref().filter(|_| hour == cursor.hour);
            connection.begin().await?;
            if !is_own && !hold_chain(connection, chain).await? {
                return connection.execute(Statement::plain("ROLLBACK")).await.map(|_| None);
            }
            match take_rows(connection, chain.into(), hour, after).await? {
                Some(moved) => moved.write(connection).await.map(Some),
                // All rows of this hour came after the round had passed them.
                None => {
                    connection.execute(Statement::plain("ROLLBACK")).await?;
                    Ok(Some(RollUpCursor { hour: hour + 1, after: None }))
                }
            }
        })
        .await
    }
}

/// Takes rows of an hour out of `tallies`. Returns `None` if there are none.
async fn take_rows(
    connection: &mut Connection,
    chain: i64,
    hour: i64,
    after: Option<&(SeriesName, i64)>,
) -> Result<Option<CountMove>> {
    let newest = "SELECT max(hour) FROM tally_points WHERE chain = $1";
    let newest = number(connection, Statement::new(newest, vec![Value::int(chain)])).await?;
    let limit = match newest.map_or(0, |newest| newest - hour) {
        ..=0 => STEP_ROWS,
        later_hours => (STEP_POINTS / later_hours).clamp(1, LATE_ROWS),
    };
    let mut range = "hour = $1 AND chain = $2".to_owned();
    let mut values = [hour, chain].map(Value::int).to_vec();
    if let Some((name, step)) = after {
        range.push_str(&format!(" AND ({NAMES}, step) > ({}, $10)", places(3)));
        values.extend(name.values().chain([Value::int(*step)]));
    }
    let sql = format!("SELECT {NAMES}, step, count FROM tallies WHERE {range} ORDER BY {NAMES}, step LIMIT {limit}");
    let rows = connection.fetch(Statement::new(sql, values.clone())).await?;
    let is_last = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
    let next = RollUpCursor { hour: hour + i64::from(is_last), after: None };
    let mut moved = CountMove { chain, hour, series: BTreeMap::new(), calls: BTreeMap::new(), next };
    let mut last = None;
    for row in &rows {
        let (name, step) = (SeriesName::read(row)?, row.int(7)?.unwrap_or(0));
        let count = row.int(8)?.unwrap_or(0).unsigned_abs();
        moved.count_call(&name, count);
        moved.series.entry(name.clone()).or_default().add(step, count);
        last = Some((name, step));
    }
    let Some((name, step)) = last else { return Ok(None) };
    // Exactly the rows that were read: nobody else writes this chain.
    let first = values.len() + 1;
    let sql = format!("DELETE FROM tallies WHERE {range} AND ({NAMES}, step) <= ({}, ${})", places(first), first + 7);
    values.extend(name.values().chain([Value::int(step)]));
    connection.execute(Statement::new(sql, values)).await?;
    if !is_last {
        moved.next.after = Some((name, step));
    }
    Ok(Some(moved))
}

impl CountMove {
    /// The same calls as in `Store::hourly_calls`: sent, ended, and neither a dry run nor a replayed answer.
    fn count_call(&mut self, name: &SeriesName, count: u64) {
        let [kind, status, intent, _, _, _, mark] = &name.0;
        let is_call = kind == Kind::Call.as_str() && status != Status::Started.as_str() && mark.is_empty();
        let (calls, failed) = self.calls.entry(if is_call { intent.clone() } else { String::new() }).or_default();
        if is_call && !intent.is_empty() {
            *calls = calls.saturating_add(count);
            let failures = if status == Status::Error.as_str() { count } else { 0 };
            *failed = failed.saturating_add(failures);
        }
    }

    /// Adds the counts to their series, and commits. Returns the place after them.
    async fn write(self, connection: &mut Connection) -> Result<RollUpCursor> {
        let Self { chain, hour, series, calls, next } = self;
        let known = known_series(connection, chain, &series).await?;
        let late = later_points(connection, chain, hour, known.values()).await?;
        let mut next_number = None;
        let (mut rows, mut points) = (Vec::new(), Vec::new());
        let point = |number: i64, hour: i64, counts: &StepCounts| {
            [Value::int(chain), Value::int(number), Value::int(hour), Value::bytes(&counts.to_bytes())]
        };
        for (name, added) in &series {
            let (number, last_hour, counts) = match known.get(name) {
                None => {
                    let number = match next_number {
                        Some(number) => number,
                        None => first_free_number(connection, chain).await?,
                    };
                    next_number = Some(number + 1);
                    (number, hour, added.clone())
                }
                Some(Series { number, last_hour, counts, .. }) => {
                    let mut counts = counts.clone();
                    counts.add_all(added);
                    (*number, hour.max(*last_hour), counts)
                }
            };
            match known.get(name).filter(|series| series.last_hour > hour) {
                None => points.extend(point(number, hour, &counts)),
                Some(series) => {
                    let raised = raised_points(series, late.get(&series.number), hour, added);
                    points.extend(raised.iter().flat_map(|(hour, counts)| point(number, *hour, counts)));
                }
            }
            rows.extend([Value::int(chain), Value::int(number)]);
            rows.extend(name.values());
            rows.extend([Value::int(last_hour), Value::bytes(&counts.to_bytes())]);
        }
        let number = |count: u64| Value::int(i64::try_from(count).unwrap_or(i64::MAX));
        let calls = calls.iter().flat_map(|(intent, (calls, failed))| {
            [Value::int(hour), Value::int(chain), Value::text(intent), number(*calls), number(*failed)]
        });
        let dialect = connection.dialect();
        let forms = [(&SERIES, rows), (&POINTS, points), (&HOURS, calls.collect())];
        let statements = forms.into_iter().flat_map(|(form, rows)| bulk::statements(form, dialect, rows));
        connection.finish_batch(statements.collect()).await?;
        Ok(next)
    }
}

/// Returns the first hour from `from` on in which the chain has counts that have not moved.
pub(super) async fn first_hour(connection: &mut Connection, chain: u16, from: i64) -> Result<Option<i64>> {
    let values = [i64::from(chain), from].map(Value::int).to_vec();
    number(connection, Statement::new(FIRST_HOUR, values)).await
}

/// Finds the series with these names, of which there are at most as many as rows of a step.
async fn known_series(
    connection: &mut Connection,
    chain: i64,
    names: &BTreeMap<SeriesName, StepCounts>,
) -> Result<BTreeMap<SeriesName, Series>> {
    let rows = names.keys().flat_map(|name| std::iter::once(Value::int(chain)).chain(name.values())).collect();
    let mut found = BTreeMap::new();
    for statement in bulk::statements(&KNOWN, connection.dialect(), rows) {
        for row in connection.fetch(statement).await? {
            let (number, last_hour) = (row.int(7)?.unwrap_or(0), row.int(8)?.unwrap_or(0));
            let place = ("tally_series", chain, number);
            let series = Series { number, last_hour, counts: counts(&row, 9, place)?, base: counts(&row, 10, place)? };
            found.insert(SeriesName::read(&row)?, series);
        }
    }
    Ok(found)
}

async fn first_free_number(connection: &mut Connection, chain: i64) -> Result<i64> {
    let sql = "SELECT max(number) FROM tally_series WHERE chain = $1";
    Ok(number(connection, Statement::new(sql, vec![Value::int(chain)])).await?.unwrap_or(0) + 1)
}

/// The points of series, by number, in the order of hours.
type Points = BTreeMap<i64, Vec<(i64, StepCounts)>>;

/// Reads the points that change if counts are added to this hour, and the point before each of them. Takes one round
/// trip for all series, because calls wait for it.
async fn later_points<'s>(
    connection: &mut Connection,
    chain: i64,
    hour: i64,
    series: impl Iterator<Item = &'s Series>,
) -> Result<Points> {
    let late = series.filter(|series| series.last_hour > hour);
    let rows = late.flat_map(|series| [chain, series.number, hour].map(Value::int)).collect();
    let mut points = Points::new();
    for statement in bulk::statements(&LATER_POINTS, connection.dialect(), rows) {
        for row in connection.fetch(statement).await? {
            let (number, hour) = (row.int(0)?.unwrap_or(0), row.int(1)?.unwrap_or(0));
            let counts = counts(&row, 2, ("tally_points", chain, number))?;
            points.entry(number).or_default().push((hour, counts));
        }
    }
    Ok(points)
}

/// Returns the point of this hour and all points after it, with counts that were added late.
fn raised_points(
    series: &Series,
    later: Option<&Vec<(i64, StepCounts)>>,
    hour: i64,
    added: &StepCounts,
) -> Vec<(i64, StepCounts)> {
    let mut before = series.base.clone();
    let mut points = Vec::new();
    for (found, counts) in later.into_iter().flatten() {
        if *found < hour {
            before = counts.clone();
            continue;
        }
        let mut counts = counts.clone();
        counts.add_all(added);
        points.push((*found, counts));
    }
    if points.first().is_none_or(|(first, _)| *first != hour) {
        before.add_all(added);
        points.push((hour, before));
    }
    points
}

impl SeriesName {
    /// Reads the first columns of a row.
    fn read(row: &Row) -> Result<Self> {
        let mut name = Self(Default::default());
        for (column, word) in name.0.iter_mut().enumerate() {
            *word = row.text(column)?.unwrap_or_default();
        }
        Ok(name)
    }

    fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.0.iter().map(|word| Value::text(word))
    }
}

/// The places of the values of a name, from `$first` on.
fn places(first: usize) -> String {
    (first..first + 7).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ")
}

/// Reads counts. The place is a table, a chain and the number of a series, for the error.
fn counts(row: &Row, column: usize, (table, chain, number): (&str, i64, i64)) -> Result<StepCounts> {
    let counts = row.bytes(column)?.as_deref().map_or(Some(StepCounts::default()), StepCounts::from_bytes);
    counts.ok_or_else(|| {
        sqlx::Error::Decode(format!("`{table}` has malformed counts of series {number} in chain {chain}").into())
    })
}

/// Returns the number in the first column of the first row.
async fn number(connection: &mut Connection, statement: Statement) -> Result<Option<i64>> {
    Ok(connection.fetch(statement).await?.first().map(|row| row.int(0)).transpose()?.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Database;

    /// Other chains have millions of rows, and the writer waits for these.
    #[tokio::test]
    async fn no_step_reads_the_rows_of_other_chains() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&crate::Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let names = (0..8).flat_map(|n| [Value::int(n)].into_iter().chain((0..7).map(|_| Value::text("x")))).collect();
        let points = (0..8).flat_map(|n| [n, 1, 2].map(Value::int)).collect();
        let mut statements = vec![Statement::new(FIRST_HOUR, [1, 2].map(Value::int).to_vec())];
        statements.extend(bulk::statements(&KNOWN, Dialect::Sqlite, names));
        statements.extend(bulk::statements(&LATER_POINTS, Dialect::Sqlite, points));
        assert_eq!(statements.len(), 3);
        for Statement { sql, values } in statements {
            let explained = Statement::new(format!("EXPLAIN QUERY PLAN {sql}"), values);
            let rows = database.fetch(explained, "explain").await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.text(3).unwrap().unwrap()).collect();
            let scans = |step: &&String| {
                ["SCAN tallies", "SCAN t", "SCAN s", "SCAN p", "SCAN b"]
                    .iter()
                    .any(|scan| step.strip_prefix(scan).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
            };
            assert_eq!(plan.iter().find(scans), None, "{plan:#?}");
        }
    }

    /// A late end raises its own point and all later ones. Without a point before, it begins from what was removed.
    #[test]
    fn late_counts_raise_all_later_points() {
        let counts = |count: u64| StepCounts::from_iter([(3, count)]);
        let series = Series { number: 1, last_hour: 9, counts: counts(30), base: counts(5) };
        let check = |later: &[(i64, u64)], expected: &[(i64, u64)]| {
            let of = |points: &[(i64, u64)]| points.iter().map(|(hour, n)| (*hour, counts(*n))).collect::<Vec<_>>();
            let mut raised = raised_points(&series, Some(&of(later)), 6, &counts(2));
            raised.sort_by_key(|(hour, _)| *hour);
            assert_eq!(raised, of(expected), "{later:?}");
        };
        check(&[(4, 10), (9, 30)], &[(6, 12), (9, 32)]);
        check(&[(6, 20), (9, 30)], &[(6, 22), (9, 32)]);
        check(&[(9, 30)], &[(6, 7), (9, 32)]);
    }
}
