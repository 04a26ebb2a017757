//! Counts that are written with the records, so that a summary reads no records.
//!
//! ```text
//! batch ─▶ tallies ─▶ tally_series, tally_points, tally_hours
//!          by hour    every few minutes (rollup.rs)
//! ```

use mcpproxy_core::{RiskLevel, Variant};

use super::step_counts::StepCounts;
use crate::{CallMark, Kind, Status};

/// Steps between a duration and its double. A percentile is at most 1/16 off.
const STEPS_PER_DOUBLING: u64 = 8;
const STEP_BITS: u32 = STEPS_PER_DOUBLING.trailing_zeros();
/// The step of records without a duration.
pub(crate) const NO_STEP: i64 = -1;
/// The step of the longest duration.
pub(crate) const STEP_MAX: i64 = 495;
pub(crate) const HOUR_MS: i64 = 3_600_000;

/// Records with the same values are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tally<'t> {
    /// Hours since 1970.
    pub(crate) hour: i64,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    pub(crate) intent_type: Option<Variant>,
    /// Empty for none, as in the table.
    pub(crate) server: &'t str,
    pub(crate) tool: &'t str,
    pub(crate) risk: Option<RiskLevel>,
    pub(crate) mark: CallMark,
    pub(crate) step: i64,
}

/// Counts as read from the tables. An empty text means none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    pub(crate) intent_type: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) risk: String,
    pub(crate) mark: CallMark,
    pub(crate) count: u64,
    /// The same by step.
    pub(crate) steps: StepCounts,
}

/// The logarithmic step of a duration. Up to 15 µs, each duration has its own step.
pub(crate) fn step_of(duration_us: u64) -> i64 {
    let Some(exponent) = duration_us.checked_ilog2().filter(|exponent| *exponent > STEP_BITS) else {
        return i64::try_from(duration_us).unwrap_or(i64::MAX);
    };
    let shift = exponent - STEP_BITS;
    let leading = duration_us >> shift;
    i64::from(shift) * STEPS_PER_DOUBLING.cast_signed() + leading.cast_signed()
}

/// The duration in the middle of a step.
pub(crate) fn duration_of(step: i64) -> u64 {
    let step = step.max(0).unsigned_abs();
    let Some(shift) = (step / STEPS_PER_DOUBLING).checked_sub(1).filter(|shift| *shift > 0) else { return step };
    let shift = u32::try_from(shift).unwrap_or(u32::MAX).min(u64::BITS - STEP_BITS - 1);
    let leading = step % STEPS_PER_DOUBLING + STEPS_PER_DOUBLING;
    (leading << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_with_durations_and_round_trip() {
        let mut last = -1;
        let durations = (0..5_000).chain((13..64).flat_map(|bit| {
            let round = 1_u64 << bit;
            [round - 1, round, round + 1, round + round / 3]
        }));
        for duration_us in durations.chain([u64::MAX]) {
            let step = step_of(duration_us);
            let middle = duration_of(step);
            assert!(step >= last, "{duration_us}: {step} after {last}");
            assert_eq!(step_of(middle), step, "{duration_us}: {middle}");
            assert!(middle.abs_diff(duration_us) <= duration_us / 16 + 1, "{duration_us}: {middle}");
            last = step;
        }
        assert_eq!((0..16).map(step_of).collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
        assert_eq!((step_of(16), step_of(17), step_of(18), step_of(32)), (16, 16, 17, 24));
        assert_eq!(step_of(u64::MAX), STEP_MAX);
        assert_eq!((duration_of(NO_STEP), duration_of(i64::MAX) > 0), (0, true));
    }
}
