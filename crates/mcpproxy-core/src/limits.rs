//! The recent calls of each tool, which rate limits of contracts count.
//!
//! A running gateway counts in its database, because several gateways share one limit and a restart must not reset it.
//! The store counts a call in the transaction that opens its record, and refuses it there. The decision is pure and only
//! hears what the store found ([`Limits::counted_by_store`]). A replay has no database, and counts in memory
//! ([`Limits::default`]). Both count the same way: in no span of time are there more calls than the limit allows.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ToolName;
use crate::contract::RateLimit;

/// The recent calls of each tool, or what the store found out about them.
#[derive(Debug)]
pub struct Limits {
    counted: Counted,
}

#[derive(Debug)]
enum Counted {
    /// The times of recent calls, by tool. Holds at most `calls` times for each tool with a rate limit.
    Here(Mutex<HashMap<ToolName, VecDeque<i64>>>),
    ByStore {
        wait_ms: Option<u64>,
    },
}

/// Counts in memory.
impl Default for Limits {
    fn default() -> Self {
        Self { counted: Counted::Here(Mutex::default()) }
    }
}

impl Limits {
    /// Counts nothing, because the store does. `wait_ms` is the wait that the store reported for the tool of this
    /// decision. `None` if the tool has room, or if nobody asked the store yet.
    pub const fn counted_by_store(wait_ms: Option<u64>) -> Self {
        Self { counted: Counted::ByStore { wait_ms } }
    }

    /// Returns the milliseconds until a call is allowed, or `None` if it is allowed now.
    pub fn wait_ms(&self, tool: &ToolName, limit: RateLimit, now_ms: i64) -> Option<u64> {
        match &self.counted {
            Counted::Here(calls) => {
                let mut calls = lock(calls);
                let times = calls.get_mut(tool)?;
                wait_ms(times, limit, now_ms)
            }
            Counted::ByStore { wait_ms } => *wait_ms,
        }
    }

    /// Counts a call, or returns the milliseconds to wait. Concurrent calls cannot exceed the limit, because a lock
    /// guards the check.
    pub fn take(&self, tool: &ToolName, limit: RateLimit, now_ms: i64) -> Result<(), u64> {
        let calls = match &self.counted {
            Counted::Here(calls) => calls,
            Counted::ByStore { wait_ms } => return wait_ms.map_or(Ok(()), Err),
        };
        let mut calls = lock(calls);
        let times = calls.entry(tool.clone()).or_default();
        if let Some(wait) = wait_ms(times, limit, now_ms) {
            return Err(wait);
        }
        times.push_back(now_ms);
        // The limit needs only the last `limit.calls` times, whatever the span.
        while times.len() > limit.calls as usize {
            times.pop_front();
        }
        Ok(())
    }
}

fn lock(calls: &Mutex<HashMap<ToolName, VecDeque<i64>>>) -> MutexGuard<'_, HashMap<ToolName, VecDeque<i64>>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Computes the wait. The call that is `limit.calls` back must leave the span before the next call.
fn wait_ms(times: &mut VecDeque<i64>, limit: RateLimit, now_ms: i64) -> Option<u64> {
    // If the clock was set back, later times count as now. Otherwise they would block the tool for longer than one
    // span.
    for time in times.iter_mut().rev().take_while(|time| **time > now_ms) {
        *time = now_ms;
    }
    let nth_last = times.len().checked_sub(limit.calls as usize)?;
    let earliest = *times.get(nth_last)?;
    let span_ms = i64::try_from(limit.per.as_millis()).unwrap_or(i64::MAX);
    let free_at = earliest.saturating_add(span_ms);
    u64::try_from(free_at.saturating_sub(now_ms)).ok().filter(|wait| *wait > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_span_has_more_calls_than_allowed() {
        let limits = Limits::default();
        let tool = ToolName::parse("fx:tool").unwrap();
        let limit = RateLimit { calls: 2, per: Duration::from_secs(60) };
        let take = |now_ms| limits.take(&tool, limit, now_ms);
        assert_eq!(take(1_000), Ok(()));
        assert_eq!(take(31_000), Ok(()));
        assert_eq!(take(32_000), Err(29_000));
        assert_eq!(limits.wait_ms(&tool, limit, 60_999), Some(1));
        assert_eq!(take(61_000), Ok(()));
        assert_eq!(take(61_000), Err(30_000));
        let other = ToolName::parse("fx:other").unwrap();
        assert_eq!(limits.take(&other, limit, 61_000), Ok(()));
    }

    #[test]
    fn the_store_has_the_last_word() {
        let tool = ToolName::parse("fx:tool").unwrap();
        let limit = RateLimit { calls: 1, per: Duration::from_secs(60) };
        let check = |wait_ms: Option<u64>| {
            let limits = Limits::counted_by_store(wait_ms);
            for _ in 0..2 {
                assert_eq!(limits.wait_ms(&tool, limit, 0), wait_ms);
                assert_eq!(limits.take(&tool, limit, 0).err(), wait_ms);
            }
        };
        check(None);
        check(Some(7));
    }

    #[test]
    fn a_changed_limit_counts_for_calls_already_made() {
        let limits = Limits::default();
        let tool = ToolName::parse("fx:tool").unwrap();
        let limit = |calls| RateLimit { calls, per: Duration::from_secs(1) };
        for _ in 0..5 {
            assert_eq!(limits.take(&tool, limit(5), 10_000), Ok(()));
        }
        assert_eq!(limits.take(&tool, limit(1), 10_500), Err(500));
        assert_eq!(limits.take(&tool, limit(6), 10_500), Ok(()));
        // The clock is an hour back, and the wait is still only one span.
        assert_eq!(limits.take(&tool, limit(1), -3_600_000), Err(1_000));
        assert_eq!(limits.wait_ms(&tool, limit(1), -3_599_500), Some(500));
        assert_eq!(limits.take(&tool, limit(1), -3_599_000), Ok(()));
    }
}
