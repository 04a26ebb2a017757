//! Counters and histograms of atomics, for metrics.
//!
//! An observation is two or three relaxed additions: no lock, no allocation. A reader may see an observation in one
//! counter before it sees it in another, and sums it up from the buckets, so a histogram is always consistent with itself.
//!
//! All histograms share one list of bounds. It reaches from a decision in memory to a call that waits for a user, so
//! stages can be compared and added up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in nanoseconds, smallest first. One more bucket takes everything above.
const BOUNDS_NS: [u64; 19] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Durations, counted by size.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BOUNDS_NS.len()],
    above: Counter,
    sum_ns: Counter,
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramReading {
    /// The upper bound of each bucket in seconds, with the number of observations up to it.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    pub sum_seconds: f64,
}

impl Histogram {
    pub fn observe(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let index = BOUNDS_NS.partition_point(|bound| *bound < ns);
        self.buckets.get(index).unwrap_or(&self.above).add(1);
        self.sum_ns.add(ns);
    }

    pub fn read(&self) -> HistogramReading {
        let mut count = 0;
        let buckets = BOUNDS_NS.iter().zip(&self.buckets).map(|(bound, bucket)| {
            count += bucket.read();
            (seconds(*bound), count)
        });
        let buckets = buckets.collect();
        HistogramReading { buckets, count: count + self.above.read(), sum_seconds: seconds(self.sum_ns.read()) }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_smallest_bucket_that_holds_it() {
        let check = |duration: Duration, expected: Option<f64>| {
            let histogram = Histogram::default();
            histogram.observe(duration);
            let reading = histogram.read();
            let first = reading.buckets.iter().find(|(_, count)| *count == 1).map(|(bound, _)| *bound);
            assert_eq!((first, reading.count), (expected, 1), "{duration:?}");
            assert!((reading.sum_seconds - duration.as_secs_f64()).abs() < 1e-6, "{duration:?}");
        };
        check(Duration::ZERO, Some(0.00005));
        check(Duration::from_micros(50), Some(0.00005));
        check(Duration::from_nanos(50_001), Some(0.0001));
        check(Duration::from_millis(1), Some(0.001));
        check(Duration::from_secs(60), Some(60.0));
        check(Duration::from_secs(61), None);
    }

    #[test]
    fn buckets_add_up() {
        let histogram = Histogram::default();
        for ms in [0, 1, 2, 3, 100, 90_000] {
            histogram.observe(Duration::from_millis(ms));
        }
        let reading = histogram.read();
        assert!(reading.buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        assert_eq!((reading.buckets.last().map(|(_, count)| *count), reading.count), (Some(5), 6));
    }
}
