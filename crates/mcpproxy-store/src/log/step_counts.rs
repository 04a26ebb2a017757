//! The number of records in each step of durations, and the bytes in which a series stores it.
//!
//! A series of a busy tool has records in about 30 steps. A row for each of them would make a summary read 30 times as
//! many rows, so all steps of a series are in one value. It is a list of pairs of LEB128 numbers: the distance to the
//! step before, and the count.
//!
//! ```text
//! steps    -1: 5    16: 200    17: 3
//! numbers  1 5      17 200     1 3        (the list begins before step -1, at -2)
//! bytes    01 05    11 c8 01   01 03
//! ```
//!
//! Counts are cumulative, so the counts of a range of time are a difference: those at its end minus those before it.

use super::tally::{NO_STEP, STEP_MAX};

/// The step before all others.
const BEFORE: i64 = NO_STEP - 1;

/// Counts by step, in the order of steps. No count is zero. Steps are at most [`STEP_MAX`], which bounds the length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepCounts {
    counts: Vec<(i64, u64)>,
}

impl StepCounts {
    pub(crate) fn add(&mut self, step: i64, count: u64) {
        if count == 0 {
            return;
        }
        let step = step.clamp(NO_STEP, STEP_MAX);
        match self.counts.binary_search_by_key(&step, |(step, _)| *step) {
            Ok(found) => {
                if let Some((_, sum)) = self.counts.get_mut(found) {
                    *sum = sum.saturating_add(count);
                }
            }
            Err(place) => self.counts.insert(place, (step, count)),
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(step, count)| self.add(step, count));
    }

    /// Returns what was added since `earlier`, or `None` if a count fell, which it never does.
    pub(crate) fn since(&self, earlier: &Self) -> Option<Self> {
        let mut counts = Vec::with_capacity(self.counts.len());
        let mut before = earlier.counts.iter().peekable();
        for (step, count) in self.iter() {
            let was = before.next_if(|(earlier, _)| *earlier == step).map_or(0, |(_, was)| *was);
            match count.checked_sub(was)? {
                0 => {}
                added => counts.push((step, added)),
            }
        }
        // A step that is left over was counted earlier, and is not now.
        before.next().is_none().then_some(Self { counts })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.counts.iter().copied()
    }

    pub(crate) fn total(&self) -> u64 {
        self.iter().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.counts.len() * 4);
        let mut last = BEFORE;
        for (step, count) in self.iter() {
            write(step.abs_diff(last), &mut bytes);
            write(count, &mut bytes);
            last = step;
        }
        bytes
    }

    /// Reads what `to_bytes` wrote. Returns `None` if the bytes are malformed.
    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut counts = Vec::new();
        let mut last = BEFORE;
        while !bytes.is_empty() {
            let distance = i64::try_from(read(&mut bytes)?).ok().filter(|distance| *distance > 0)?;
            let step = last.checked_add(distance).filter(|step| *step <= STEP_MAX)?;
            counts.push((step, read(&mut bytes).filter(|count| *count > 0)?));
            last = step;
        }
        Some(Self { counts })
    }
}

impl FromIterator<(i64, u64)> for StepCounts {
    fn from_iter<I: IntoIterator<Item = (i64, u64)>>(pairs: I) -> Self {
        let mut counts = Self::default();
        pairs.into_iter().for_each(|(step, count)| counts.add(step, count));
        counts
    }
}

/// Writes seven bits in each byte, the lowest first. The high bit means that more follow.
fn write(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(first & 0x7f);
        number |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(i64, u64)]) -> StepCounts {
        pairs.iter().copied().collect()
    }

    #[test]
    fn counts_round_trip() {
        let check = |pairs: &[(i64, u64)], bytes: &[u8]| {
            let counts = counts(pairs);
            assert_eq!(counts.to_bytes(), bytes, "{pairs:?}");
            assert_eq!(StepCounts::from_bytes(bytes), Some(counts), "{pairs:?}");
        };
        check(&[], &[]);
        check(&[(17, 3), (NO_STEP, 5), (16, 150), (16, 50)], &[1, 5, 17, 200, 1, 1, 3]);
        let most = [&[1, 1][..], &[0xf0, 3], &[0xff; 9], &[1]].concat();
        check(&[(NO_STEP, 1), (STEP_MAX, u64::MAX)], &most);
        check(&[(0, 0)], &[]);
    }

    #[test]
    fn other_bytes_are_rejected() {
        let rejected: [&[u8]; 7] = [
            &[1],
            &[0, 1],
            &[1, 0],
            &[1, 0x80],
            &[0xf2, 3, 1],
            &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1],
        ];
        for bytes in rejected {
            assert_eq!(StepCounts::from_bytes(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_difference_has_what_was_added() {
        let (early, late) = (counts(&[(3, 1), (9, 4)]), counts(&[(NO_STEP, 2), (3, 1), (9, 7)]));
        assert_eq!(late.since(&early), Some(counts(&[(NO_STEP, 2), (9, 3)])));
        assert_eq!(late.since(&late), Some(StepCounts::default()));
        assert_eq!(late.since(&StepCounts::default()).as_ref(), Some(&late));
        assert_eq!(early.since(&late), None);
        assert_eq!(counts(&[(3, 1)]).since(&counts(&[(9, 1)])), None, "a step that vanished");
        let mut sum = early.clone();
        sum.add_all(&late.since(&early).unwrap());
        assert_eq!((sum.total(), sum), (10, late));
    }
}
