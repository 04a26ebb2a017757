//! Splits the range of a page, so that PostgreSQL looks into few partitions of the records.
//!
//! The index of a filter is one index for each partition. To find the newest match, PostgreSQL looks into each of them, even
//! if the newest partition has a whole page. So a page first reads the *recent* partitions: the one where the page begins, and
//! some before it. Only if they have too few matches, a second query reads the others. A small log is not worth it.
//!
//! The bounds of partitions are remembered for a minute. They only decide where the range is split. Both parts together are
//! the whole range, so a page is the same with outdated bounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::partitions::list;
use crate::log::filter::Keys;
use crate::log::partitions::Hours;
use crate::sql::{Bounds, Database, Dialect, Row};

/// The last partition, up to two that were created ahead, and the one that is written.
const RECENT: usize = 4;
/// The records in the recent partitions, as PostgreSQL estimates them, from which on a range is split.
const RECORDS_MIN: i64 = 20_000;
const REMEMBERED: Duration = Duration::from_secs(60);

impl Database {
    /// The first key of the recent partitions. `None` if it does not split the range.
    pub(super) async fn recent_from(&self, keys: &Keys) -> Option<i64> {
        match self.dialect() {
            Dialect::Sqlite => return None,
            Dialect::Postgres => {}
        }
        split(&self.record_bounds().await, keys)
    }

    /// The first keys of all partitions, in order, with their number of records. Empty if they cannot be read.
    async fn record_bounds(&self) -> Bounds {
        let remembered = self.bounds();
        if let Some((bounds, _)) = remembered.filter(|(_, read)| read.elapsed() < REMEMBERED) {
            return bounds;
        }
        let rows = self.fetch(list("records"), "list the partitions of the activity log").await.unwrap_or_default();
        let bound = |row: &Row| {
            let hours = Hours::of_bounds(&row.text(1).ok().flatten()?)?;
            Some((hours.keys().0.0, row.int(2).ok().flatten()?.max(0)))
        };
        let mut bounds: Vec<(i64, i64)> = rows.iter().filter_map(bound).collect();
        bounds.sort_unstable();
        let bounds: Bounds = bounds.into();
        self.remember_bounds(Arc::clone(&bounds), Instant::now());
        bounds
    }
}

fn split(bounds: &[(i64, i64)], keys: &Keys) -> Option<i64> {
    let newer = bounds.partition_point(|(bound, _)| *bound < keys.before);
    let recent = bounds.get(newer.checked_sub(RECENT)?..newer)?;
    let (from, _) = recent.first()?;
    let records: i64 = recent.iter().map(|(_, records)| records).sum();
    (*from > keys.from && records >= RECORDS_MIN).then_some(*from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_split_before_the_recent_partitions() {
        let bounds = [0, 10, 20, 30, 40, 50, 60].map(|bound| (bound, RECORDS_MIN / 4));
        let at = |from, before| split(&bounds, &Keys { from, before });
        assert_eq!(at(0, i64::MAX), Some(30));
        assert_eq!(at(0, 60), Some(20), "the end is exclusive");
        assert_eq!(at(0, 61), Some(30));
        assert_eq!(at(29, i64::MAX), Some(30));
        assert_eq!(at(30, i64::MAX), None);
        assert_eq!(at(0, 40), None, "the first four");
        assert_eq!(at(0, 5), None);
        assert_eq!(split(&[], &Keys { from: 0, before: 9 }), None);
        let small = bounds.map(|(bound, records)| (bound, records - 1));
        assert_eq!(split(&small, &Keys { from: 0, before: i64::MAX }), None);
    }
}
