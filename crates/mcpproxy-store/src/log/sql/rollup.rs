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
struct Moved {
    chain: i64,
    hour: i64,
    series: BTreeMap<SeriesName, StepCounts>,
    /// Calls, and failed ones among them, by intent.
    calls: BTreeMap<String, (u64, u64)>,
    /// The place after the last row.
    next: RollUpCursor,
}

impl RecordWriter {
    /// Returns the chains whose counts this gateway may move, its own last. There are none while a gateway of another
    /// version runs on the same database: an older one reads `tallies` only.
    pub(crate) async fn chains_to_roll_up(&mut self) -> std::result::Result<Vec<u16>, StoreError> {
        let own = i64::from(self.chain());
        let read = async |connection: &mut Connection| {
            if connection.dialect() == Dialect::Postgres {
                let now = Dialect::Postgres.now_ms();
                let sql = format!("SELECT count(*) FROM gateways WHERE version <> $1 AND seen_ms > {now} - $2");
                let values = vec![Value::text(env!("CARGO_PKG_VERSION")), Value::int(RUNNING_MS)];
                if number(connection, Statement::new(sql, values)).await? != Some(0) {
                    return Ok(Vec::new());
                }
            }
            let sql = "SELECT number FROM chains WHERE number <> $1 ORDER BY number DESC";
            let rows = connection.fetch(Statement::new(sql, vec![Value::int(own)])).await?;
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
            let sql = "SELECT hour FROM tallies WHERE chain = $1 AND hour >= $2 ORDER BY hour LIMIT 1";
            let values = [i64::from(chain), cursor.hour].map(Value::int).to_vec();
            let Some(hour) = number(connection, Statement::new(sql, values)).await? else { return Ok(None) };
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
) -> Result<Option<Moved>> {
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
    let mut moved = Moved { chain, hour, series: BTreeMap::new(), calls: BTreeMap::new(), next };
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

impl Moved {
    /// The same calls as in `Store::hourly_calls`: sent, ended, and neither a dry run nor a replayed answer.
    fn count_call(&mut self, name: &SeriesName, count: u64) {
        let [kind, status, intent, _, _, _, mark] = &name.0;
        let is_call = kind == Kind::Call.as_str() && status != Status::Started.as_str() && mark.is_empty();
        let (calls, failed) = self.calls.entry(if is_call { intent.clone() } else { String::new() }).or_default();
        if is_call && !intent.is_empty() {
            *calls += count;
            *failed += if status == Status::Error.as_str() { count } else { 0 };
        }
    }

    /// Adds the counts to their series, and commits. Returns the place after them.
    async fn write(self, connection: &mut Connection) -> Result<RollUpCursor> {
        let Self { chain, hour, series, calls, next } = self;
        let known = known_series(connection, chain, &series).await?;
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
                    let raised = raised_points(connection, chain, series, hour, added).await?;
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

/// Finds the series with these names, and maybe others between the first and the last of them.
async fn known_series(
    connection: &mut Connection,
    chain: i64,
    names: &BTreeMap<SeriesName, StepCounts>,
) -> Result<BTreeMap<SeriesName, Series>> {
    let Some(((first, _), (last, _))) = names.first_key_value().zip(names.last_key_value()) else {
        return Ok(BTreeMap::new());
    };
    let sql = format!(
        "SELECT {NAMES}, number, last_hour, counts, base FROM tally_series \
         WHERE chain = $1 AND ({NAMES}) >= ({}) AND ({NAMES}) <= ({})",
        places(2),
        places(9)
    );
    let values = std::iter::once(Value::int(chain)).chain(first.values()).chain(last.values()).collect();
    let mut found = BTreeMap::new();
    for row in connection.fetch(Statement::new(sql, values)).await? {
        let (number, last_hour) = (row.int(7)?.unwrap_or(0), row.int(8)?.unwrap_or(0));
        let series = Series { number, last_hour, counts: counts(&row, 9)?, base: counts(&row, 10)? };
        found.insert(SeriesName::read(&row)?, series);
    }
    Ok(found)
}

async fn first_free_number(connection: &mut Connection, chain: i64) -> Result<i64> {
    let sql = "SELECT max(number) FROM tally_series WHERE chain = $1";
    Ok(number(connection, Statement::new(sql, vec![Value::int(chain)])).await?.unwrap_or(0) + 1)
}

/// Returns the point of this hour and all points after it, with counts that were added late.
async fn raised_points(
    connection: &mut Connection,
    chain: i64,
    series: &Series,
    hour: i64,
    added: &StepCounts,
) -> Result<Vec<(i64, StepCounts)>> {
    let sql = "SELECT hour, counts FROM tally_points WHERE chain = $1 AND series = $2 AND hour >= coalesce((SELECT max(hour) \
               FROM tally_points WHERE chain = $1 AND series = $2 AND hour <= $3), $3) ORDER BY hour";
    let values = [chain, series.number, hour].map(Value::int).to_vec();
    let mut before = series.base.clone();
    let mut points = Vec::new();
    for row in connection.fetch(Statement::new(sql, values)).await? {
        let (found, mut counts) = (row.int(0)?.unwrap_or(0), counts(&row, 1)?);
        if found < hour {
            before = counts;
            continue;
        }
        counts.add_all(added);
        points.push((found, counts));
    }
    if points.first().is_none_or(|(first, _)| *first != hour) {
        before.add_all(added);
        points.push((hour, before));
    }
    Ok(points)
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

fn counts(row: &Row, column: usize) -> Result<StepCounts> {
    let counts = row.bytes(column)?.as_deref().map_or(Some(StepCounts::default()), StepCounts::from_bytes);
    counts.ok_or_else(|| sqlx::Error::Decode("the database has malformed counts of a series".into()))
}

/// Returns the number in the first column of the first row.
async fn number(connection: &mut Connection, statement: Statement) -> Result<Option<i64>> {
    Ok(connection.fetch(statement).await?.first().map(|row| row.int(0)).transpose()?.flatten())
}
