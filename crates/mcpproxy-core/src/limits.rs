//! Enforces the rate limits of contracts: remembers the recent calls of each tool.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ToolName;
use crate::contract::RateLimit;

/// The times of recent calls, by tool. This outlives snapshots, because a reload must not reset a rate limit.
#[derive(Debug, Default)]
pub struct Limits {
    calls: Mutex<HashMap<ToolName, VecDeque<i64>>>,
}

impl Limits {
    /// Returns the milliseconds until a call is allowed, or `None` if it is allowed now.
    pub fn wait_ms(&self, tool: &ToolName, limit: RateLimit, now_ms: i64) -> Option<u64> {
        let mut calls = self.calls();
        let times = calls.get_mut(tool)?;
        wait_ms(times, limit, now_ms)
    }

    /// Counts a call, or returns the milliseconds to wait. Concurrent calls cannot exceed the limit, because a lock
    /// guards the check.
    pub fn take(&self, tool: &ToolName, limit: RateLimit, now_ms: i64) -> Result<(), u64> {
        let mut calls = self.calls();
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

    fn calls(&self) -> MutexGuard<'_, HashMap<ToolName, VecDeque<i64>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
