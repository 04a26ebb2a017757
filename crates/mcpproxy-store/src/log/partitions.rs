//! Partitions of payloads and records, with PostgreSQL: which ranges of time they have, and when the next ones are created.
//!
//! Both expire by age, and payloads by total size, too. A `DELETE` of millions of rows takes thousands of small steps, and the
//! space is free only after a `VACUUM`. A `DROP` of a partition is one step, and frees the space at once. So the tables
//! `payloads` and `records` are partitioned by key. A key begins with the time, so a range of hours is a range of keys, for
//! all gateways that share the database:
//!
//! ```text
//! payloads_first      │ payloads_2026_11_18_22 │ payloads_2026_11_24_11 │ …       payloads_rest: everything else
//! records_first       │ records_2026_11_18_22  │ records_2026_12_18_22  │ …     │ records_last
//! from the beginning  │ some hours or days     │ as long                │ …     │ to the end
//! ```
//!
//! # When they go
//!
//! The same cutoff as with SQLite decides if a whole partition has expired. A partition that has expired in part
//! is left alone for a while, because its rows would otherwise be deleted one by one just before it could be dropped.
//! The bound of that while is a tenth: rows that are a tenth older than the age, or exceed the limit by a tenth, are deleted
//! in steps as with SQLite (`retention.rs`). So nothing goes earlier than the settings say, and at most a tenth later.
//!
//! A partition of payloads is a sixteenth of the age, or as long as a sixteenth of the limit takes to arrive, so it expires as
//! a whole within that tenth. If the log grows much faster than before, the next partitions are shorter. Until then, rows are
//! deleted one by one. A partition of records is a twelfth of their age, or a quarter of a year. A partition has at least one
//! hour, so that a busy hour does not make thousands of them.
//!
//! # Records and their chains
//!
//! Payloads have neither a chain nor a signature: a record names the digest of its payload, and `verify` accepts that a
//! payload is gone. Records differ in three ways:
//!
//! - **A gap in a chain must be signed by its owner.** A partition has lines of all chains, so each gateway signs for its own
//!   before the partition goes. `sql/expired.rs` explains it.
//! - **Positions must be unique.** Unique indexes of a partition do not see other partitions. So each batch moves the head of
//!   its chain from the position that the writer knows. `sql/take.rs` explains it.
//! - **A page must not get slower.** PostgreSQL reads partitions in their order, and stops early, only if there is no default
//!   partition. So a first and a last partition take the keys before and after all others. The last one is empty until a
//!   partition before it is late. It then gives its rows to the new partitions, or becomes one of them
//!   (`sql/record_partitions.rs`). A filter looks into each partition, so pages split their range (`sql/windows.rs`), and
//!   records have fewer partitions than payloads.
//!
//! # What must stay true
//!
//! - **No write fails for lack of a partition.** `payloads_rest` takes every key without one: after a clock jumped, while
//!   no gateway could create partitions, and for a call that ends after its partition was dropped. A range in which it has
//!   rows gets no partition of its own, because PostgreSQL would reject it. Those rows are deleted one by one. The partitions
//!   of records have no gap.
//! - **No statement waits long for a partition.** Creating and dropping one takes locks that writers and readers wait for. A
//!   long transaction, such as that of a backup, delays such a lock. So the gateway gives up after a moment, and tries again
//!   in the next round of retention.
//! - **A transaction may see payloads vanish, but no records.** A `DROP` is not part of what a transaction sees at its begin. A
//!   backup that had not read the payloads yet has those records without them, as if they had expired before. It locks the
//!   records before it reads anything (`whole.rs`), because it would have a gap without its signature.
//! - **Their number is bounded.** The widths above leave about twenty. If rows are kept forever and partitions add up,
//!   new ones become longer.
//! - **Ranges begin and end at whole hours**, as the sizes in `payload_hours` do. Both go in one transaction.

use mcpproxy_core::settings::Retention;

use super::tally::HOUR_MS;
use crate::record::id::Key;

/// The part of the age, and of the limit of bytes, that one partition holds.
const PARTS: u32 = 16;
/// Four weeks, in hours.
const WIDTH_MAX: i64 = 28 * 24;
/// Widths that are created ahead of now.
const AHEAD: i64 = 3;
/// With more partitions than these, every new one has `MANY_FACTOR` times the longest width: about two years.
const MANY: usize = 64;
const MANY_FACTOR: i64 = 26;

/// A range of hours since 1970. The last one is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hours {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Hours {
    /// Reads the bounds of a partition as PostgreSQL prints them: `FOR VALUES FROM (MINVALUE) TO ('42')`. The default
    /// partition has none.
    pub(crate) fn of_bounds(bounds: &str) -> Option<Self> {
        let (from, to) = bounds.strip_prefix("FOR VALUES FROM (")?.strip_suffix(')')?.split_once(") TO (")?;
        let hour = |key: i64| Key(key).time_ms().div_euclid(HOUR_MS);
        let number = |text: &str| text.trim_matches('\'').parse().ok();
        let from = if from == "MINVALUE" { i64::MIN } else { hour(number(from)?) };
        // Up to the last key in it, should somebody have created a partition within an hour.
        let to = if to == "MAXVALUE" { i64::MAX } else { hour(number(to)? - 1) + 1 };
        Some(Self { from, to })
    }

    /// The keys of these hours. The last one is exclusive.
    pub(crate) fn keys(self) -> (Key, Key) {
        let key = |hour: i64| Key::at(hour.saturating_mul(HOUR_MS));
        (key(self.from), key(self.to))
    }
}

/// The part of the age of records that one of their partitions holds. Fewer than for payloads: a filter looks into every
/// partition.
const RECORD_PARTS: u32 = 12;
/// A quarter of a year, in hours. Records stay forever by default, and their partitions must not become many.
const RECORD_WIDTH_MAX: i64 = 13 * 7 * 24;

/// The hours that a new partition of records should have.
pub(crate) fn record_width(retention: &Retention) -> i64 {
    let age = |age: std::time::Duration| i64::try_from((age / RECORD_PARTS).as_secs() / 3600).unwrap_or(i64::MAX);
    retention.records.map_or(RECORD_WIDTH_MAX, age).clamp(1, RECORD_WIDTH_MAX)
}

/// The partitions of records to create before the last one, which begins at `last_from` and has no end. None if there are
/// enough hours before it. They leave no gap, because there is no default partition.
pub(crate) fn before_last(last_from: i64, existing: usize, now_hour: i64, width: i64) -> Vec<Hours> {
    let width = if existing < MANY { width } else { width * MANY_FACTOR };
    let mut created = Vec::new();
    let mut from = last_from;
    // Less than a width is left until the gateways reach the last one. No gateway may have run for long.
    while from < now_hour + width {
        let to = if from < now_hour { now_hour } else { from + width };
        created.push(Hours { from, to });
        from = to;
    }
    created
}

/// The hours that a new partition should have. `sizes` are the bytes of each hour, newest first.
pub(crate) fn width(retention: &Retention, sizes: &[(i64, u64)], now_hour: i64) -> i64 {
    let age = |age: std::time::Duration| i64::try_from((age / PARTS).as_secs() / 3600).unwrap_or(WIDTH_MAX);
    let by_age = retention.payloads.map_or(WIDTH_MAX, age);
    let by_size = retention.payload_bytes.map_or(WIDTH_MAX, |max| hours_with(max / u64::from(PARTS), sizes, now_hour));
    by_age.min(by_size).clamp(1, WIDTH_MAX)
}

/// The number of hours before now that have this many bytes.
fn hours_with(bytes: u64, sizes: &[(i64, u64)], now_hour: i64) -> i64 {
    let mut left = bytes;
    for (hour, size) in sizes {
        if *size > left {
            return now_hour.saturating_sub(*hour);
        }
        left -= size;
    }
    WIDTH_MAX
}

/// The partitions to create, so that there is one for every hour from now on, for a while.
pub(crate) fn missing(existing: &[Hours], now_hour: i64, width: i64) -> Vec<Hours> {
    let width = if existing.len() < MANY { width } else { WIDTH_MAX * MANY_FACTOR };
    let end = now_hour + AHEAD * width;
    let mut missing = Vec::new();
    let mut hour = now_hour;
    while hour < end {
        if let Some(covering) = existing.iter().find(|hours| hours.from <= hour && hour < hours.to) {
            hour = covering.to;
            continue;
        }
        let next = existing.iter().map(|hours| hours.from).filter(|from| *from > hour).min();
        let to = next.map_or(hour + width, |next| next.min(hour + width));
        missing.push(Hours { from: hour, to });
        hour = to;
    }
    missing
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn hours(from: i64, to: i64) -> Hours {
        Hours { from, to }
    }

    #[test]
    fn bounds_are_read_as_hours() {
        let key = |hour: i64| Key::at(hour * HOUR_MS).0;
        let bounds = |from: i64, to: i64| format!("FOR VALUES FROM ('{from}') TO ('{to}')");
        assert_eq!(Hours::of_bounds(&bounds(key(7), key(9))), Some(hours(7, 9)));
        assert_eq!(Hours::of_bounds(&bounds(key(7) + 5, key(9) + 5)), Some(hours(7, 10)), "not before its last key");
        let first = format!("FOR VALUES FROM (MINVALUE) TO ('{}')", key(9));
        assert_eq!(Hours::of_bounds(&first), Some(hours(i64::MIN, 9)));
        assert_eq!(Hours::of_bounds("FOR VALUES FROM ('0') TO (MAXVALUE)"), Some(hours(0, i64::MAX)));
        for other in ["DEFAULT", "", "FOR VALUES IN ('1')", "FOR VALUES FROM ('x') TO ('1')"] {
            assert_eq!(Hours::of_bounds(other), None, "{other}");
        }
        assert_eq!(hours(7, 9).keys(), (Key(key(7)), Key(key(9))));
        assert_eq!(hours(i64::MIN, i64::MAX).keys(), (Key::at(0), Key::at(i64::MAX)));
    }

    #[test]
    fn a_partition_is_a_part_of_what_is_kept() {
        let check = |payloads: Option<Duration>, payload_bytes, sizes: &[(i64, u64)], expected: i64| {
            let retention = Retention { payloads, payload_bytes, records: None };
            assert_eq!(width(&retention, sizes, 100), expected, "{retention:?} {sizes:?}");
        };
        check(Some(90 * DAY), None, &[], 90 * 24 / 16);
        check(Some(DAY), None, &[], 1);
        check(Some(Duration::ZERO), None, &[], 1);
        check(None, None, &[], WIDTH_MAX);
        check(Some(Duration::MAX), None, &[], WIDTH_MAX);
        // 1,600 bytes may be kept, and 100 of them arrived since hour 90.
        let sizes = [(100, 40), (95, 50), (90, 10), (89, 1)];
        check(None, Some(1_600), &sizes, 11);
        check(Some(90 * DAY), Some(1_600), &sizes, 11);
        check(Some(2 * DAY), Some(1_600), &sizes, 3);
        check(None, Some(16 * 39), &sizes, 1);
        check(None, Some(u64::MAX), &sizes, WIDTH_MAX);
    }

    #[test]
    fn hours_without_a_partition_get_one() {
        assert_eq!(missing(&[], 100, 5), [hours(100, 105), hours(105, 110), hours(110, 115)]);
        let first = hours(i64::MIN, 102);
        assert_eq!(missing(&[first], 100, 5), [hours(102, 107), hours(107, 112), hours(112, 117)]);
        let ahead = [first, hours(102, 107), hours(107, 112), hours(112, 117)];
        assert_eq!(missing(&ahead, 100, 5), []);
        assert_eq!(missing(&ahead, 103, 5), [hours(117, 122)]);
        assert_eq!(missing(&ahead, 103, 2), [], "shorter ones follow those that exist");
        // No gateway ran for a while, and then its clock was set back.
        let later = [first, hours(500, 505)];
        assert_eq!(missing(&later, 493, 5), [hours(493, 498), hours(498, 500), hours(505, 510)]);
        assert_eq!(missing(&[hours(0, i64::MAX)], 100, 5), []);
    }

    #[test]
    fn a_partition_of_records_expires_within_a_tenth_of_their_age() {
        let check = |records: Option<Duration>, expected: i64| {
            assert_eq!(
                record_width(&Retention { payloads: None, payload_bytes: None, records }),
                expected,
                "{records:?}"
            );
        };
        check(Some(360 * DAY), 30 * 24);
        check(Some(12 * Duration::from_secs(3600)), 1);
        check(Some(Duration::ZERO), 1);
        check(Some(Duration::MAX), RECORD_WIDTH_MAX);
        check(None, RECORD_WIDTH_MAX);
    }

    #[test]
    fn records_have_partitions_without_a_gap_until_the_last() {
        assert_eq!(before_last(102, 2, 100, 5), [hours(102, 107)]);
        assert_eq!(before_last(100, 2, 100, 5), [hours(100, 105)]);
        assert_eq!(before_last(105, 2, 100, 5), []);
        assert_eq!(before_last(107, 2, 100, 5), []);
        assert_eq!(before_last(107, 2, 103, 5), [hours(107, 112)]);
        // No gateway ran for a while.
        assert_eq!(before_last(107, 2, 500, 5), [hours(107, 500), hours(500, 505)]);
        let mut last_from = 2;
        let mut count = 2;
        // A hundred years, with a look at every day.
        for day in 0..100 * 365 {
            let created = before_last(last_from, count, day * 24, RECORD_WIDTH_MAX);
            count += created.len();
            last_from = created.last().map_or(last_from, |last| last.to);
            assert!(last_from >= day * 24 + RECORD_WIDTH_MAX);
        }
        assert!(count < 80, "{count}");
    }

    #[test]
    fn the_number_of_partitions_is_bounded() {
        let mut existing = vec![hours(i64::MIN, 0)];
        // Fifty years, with a look at every day.
        for day in 0..50 * 365 {
            let found = missing(&existing, day * 24, WIDTH_MAX);
            existing.extend(found);
        }
        assert!(existing.len() < 100, "{}", existing.len());
    }
}
