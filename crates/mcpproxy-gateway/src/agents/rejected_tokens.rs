//! Rate-limits log records about rejected tokens, so that a scanner cannot fill the log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two records. Each contains the number of rejections since the last.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct RejectedTokens {
    state: Mutex<(Option<Instant>, u64)>,
}

impl RejectedTokens {
    /// Counts a rejection. Returns `Some` if it should be recorded, with the number of unrecorded ones before it.
    pub(crate) fn count(&self) -> Option<u64> {
        self.count_at(Instant::now())
    }

    fn count_at(&self, now: Instant) -> Option<u64> {
        let (recorded, unrecorded) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.is_some_and(|recorded| now.duration_since(recorded) < PAUSE) {
            *unrecorded += 1;
            return None;
        }
        *recorded = Some(now);
        Some(std::mem::take(unrecorded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_record_a_second_with_the_number_of_the_others() {
        let rejected_tokens = RejectedTokens::default();
        let begin = Instant::now();
        let counts =
            [0, 1, 500, 999, 1000, 1001, 5000].map(|ms| rejected_tokens.count_at(begin + Duration::from_millis(ms)));
        assert_eq!(counts, [Some(0), None, None, None, Some(3), None, Some(1)]);
    }
}
