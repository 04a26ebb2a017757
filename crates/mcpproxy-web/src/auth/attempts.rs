//! Rate-limits failed attempts: five per name and 100 in total within a minute.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

const WINDOW_MS: i64 = 60_000;
const OF_ONE_NAME: usize = 5;
/// High enough that invented names lock no user out, and low enough to limit the cost of password hashing.
const OF_ALL: usize = 100;

/// Counts in this process. It does not know which names exist, so its answers do not reveal them.
#[derive(Default)]
pub(crate) struct Attempts {
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    of: HashMap<String, VecDeque<i64>>,
    all: VecDeque<i64>,
}

/// The time to wait before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    pub(crate) wait_ms: i64,
}

impl Attempts {
    /// Counts a failure before the attempt is made, so that parallel attempts cannot exceed the limit. Call `forgive`
    /// after a success.
    pub(crate) fn take(&self, name: &str, now_ms: i64) -> Result<(), TooMany> {
        let mut failures = self.failures();
        failures.forget(now_ms);
        let oldest_of = |times: &VecDeque<i64>, most: usize| {
            (times.len() >= most).then(|| times.front().copied().unwrap_or(now_ms))
        };
        let of_name = failures.of.get(name).and_then(|times| oldest_of(times, OF_ONE_NAME));
        if let Some(oldest_ms) = of_name.max(oldest_of(&failures.all, OF_ALL)) {
            return Err(TooMany { wait_ms: (oldest_ms + WINDOW_MS - now_ms).max(1) });
        }
        failures.of.entry(name.to_owned()).or_default().push_back(now_ms);
        failures.all.push_back(now_ms);
        Ok(())
    }

    /// Removes the failure that `take` counted at this time.
    pub(crate) fn forgive(&self, name: &str, taken_ms: i64) {
        let mut failures = self.failures();
        failures.of.remove(name);
        if let Some(at) = failures.all.iter().rposition(|time_ms| *time_ms == taken_ms) {
            failures.all.remove(at);
        }
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures {
    /// Removes old failures. There are at most `OF_ALL` names, because each name has a failure in the last minute.
    fn forget(&mut self, now_ms: i64) {
        let is_old = |time_ms: &i64| now_ms.saturating_sub(*time_ms) >= WINDOW_MS;
        self.all.retain(|time_ms| !is_old(time_ms));
        self.of.retain(|_, times| {
            times.retain(|time_ms| !is_old(time_ms));
            !times.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_of_one_name_in_a_minute() {
        let attempts = Attempts::default();
        for at in 0..5 {
            assert_eq!(attempts.take("anna", at * 1_000), Ok(()), "{at}");
        }
        assert_eq!(attempts.take("anna", 5_000), Err(TooMany { wait_ms: 55_000 }));
        assert_eq!(attempts.take("ben", 5_000), Ok(()), "others are not kept out");
        assert_eq!(attempts.take("anna", 59_999), Err(TooMany { wait_ms: 1 }));
        assert_eq!(attempts.take("anna", 60_000), Ok(()), "the first is a minute old");
        assert_eq!(attempts.take("anna", 60_500), Err(TooMany { wait_ms: 500 }));
    }

    #[test]
    fn a_hundred_of_all_names() {
        let attempts = Attempts::default();
        for at in 0..100 {
            assert_eq!(attempts.take(&format!("name {at}"), at), Ok(()), "{at}");
        }
        assert_eq!(attempts.take("another", 100), Err(TooMany { wait_ms: 59_900 }));
        assert_eq!(attempts.take("another", 60_000), Ok(()));
        assert!(attempts.failures().of.len() <= OF_ALL, "names are not kept");
    }

    #[test]
    fn a_success_resets_the_count() {
        let attempts = Attempts::default();
        for at in 0..30 {
            assert_eq!(attempts.take("anna", at), Ok(()), "{at}");
            attempts.forgive("anna", at);
        }
        let failures = attempts.failures();
        assert_eq!((failures.all.len(), failures.of.len()), (0, 0));
    }

    /// A refused attempt does not count as a failure. Otherwise an attacker could lock out the owner of the account for
    /// good.
    #[test]
    fn refusals_do_not_count() {
        let attempts = Attempts::default();
        for at in 0..5 {
            attempts.take("anna", at).unwrap();
        }
        for at in 5..1_000 {
            attempts.take("anna", at).unwrap_err();
        }
        assert_eq!(attempts.take("anna", 60_000), Ok(()));
    }
}
