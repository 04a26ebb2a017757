//! Removes the oldest hours of series.
//!
//! A point counts from the beginning of its series, so it cannot be removed alone: the points after it would still count
//! its records. The newest removed point of a series becomes its *base*, which every range subtracts.

use std::collections::BTreeMap;

use super::RecordWriter;
use super::retention::{DOING, More, STEP_ROWS};
use crate::StoreError;
use crate::sql::bulk::Column::{Bytes, Int};
use crate::sql::bulk::{self, Form};
use crate::sql::driver::{Statement, Value};

const BASES: Form = Form {
    begin: "UPDATE tally_series SET base = column3 FROM ",
    columns: &[Int, Int, Bytes],
    end: " WHERE tally_series.chain = column1 AND tally_series.number = column2",
};

impl RecordWriter {
    /// Removes some of the hours before this one from the series of this chain, the oldest first.
    pub(super) async fn remove_points(&mut self, before_hour: i64) -> Result<More, StoreError> {
        let chain = i64::from(self.chain());
        let sql = "SELECT series, hour, counts FROM tally_points WHERE chain = $1 AND hour < $2 \
                   ORDER BY hour, series LIMIT $3";
        let values = [chain, before_hour, STEP_ROWS].map(Value::int).to_vec();
        let rows = self.fetch(Statement::new(sql, values)).await?;
        let failed = StoreError::while_trying(DOING);
        let mut bases = BTreeMap::new();
        let mut last = None;
        for row in &rows {
            let (series, hour) = (row.int(0).map_err(&failed)?, row.int(1).map_err(&failed)?);
            last = series.zip(hour);
            // Rows are ordered by hour, so the newest point of each series stays.
            bases.insert(series, row.bytes(2).map_err(&failed)?);
        }
        let change = |sql: &str, values: &[i64]| Statement::new(sql, values.iter().copied().map(Value::int).collect());
        let remove_hours = "DELETE FROM tally_hours WHERE chain = $1 AND hour < $2";
        let bases = bases
            .into_iter()
            .flat_map(|(series, counts)| [Value::int(chain), Value::Int(series), Value::Bytes(counts)]);
        let mut statements = bulk::statements(&BASES, self.dialect(), bases.collect());
        if let Some((series, hour)) = last {
            statements.push(change(
                "DELETE FROM tally_points WHERE chain = $1 AND (hour, series) <= ($2, $3)",
                &[chain, hour, series],
            ));
            if rows.len() >= usize::try_from(STEP_ROWS).unwrap_or(usize::MAX) {
                statements.push(change(remove_hours, &[chain, hour]));
                self.run(statements).await?;
                return Ok(More::Yes);
            }
        }
        // No point is left. Also without a point in this step: the one before may have removed the last of them.
        statements.push(change(remove_hours, &[chain, before_hour]));
        statements.push(change("DELETE FROM tally_series WHERE chain = $1 AND last_hour < $2", &[chain, before_hour]));
        self.run(statements).await?;
        Ok(More::No)
    }
}
