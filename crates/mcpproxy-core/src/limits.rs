//! How often tools were called lately, for contracts that limit it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ToolName;
use crate::contract::RateLimit;

/// The calls that still count, by tool. It outlives snapshots: a reload must not open a gate again.
#[derive(Debug, Default)]
pub struct Limits {
    calls: Mutex<HashMap<ToolName, VecDeque<i64>>>,
}

impl Limits {
    /// How long until a call is allowed, in milliseconds; `None` is now.
    pub fn wait_ms(&self, tool: &ToolName, limit: RateLimit, now_ms: i64) -> Option<u64> {
        let mut calls = self.calls();
        let times = calls.get_mut(tool)?;
        wait_ms(times, limit, now_ms)
    }

    /// Counts a call, or says how long to wait. Of calls that come together no more pass than the limit allows.
    pub fn take(&self, tool: &ToolName, limit: RateLimit, now_ms: i64) -> Result<(), u64> {
        let mut calls = self.calls();
        let times = calls.entry(tool.clone()).or_default();
        if let Some(wait) = wait_ms(times, limit, now_ms) {
            return Err(wait);
        }
        times.push_back(now_ms);
        // More than the limit are never looked at, whatever the span.
        while times.len() > limit.calls as usize {
            times.pop_front();
        }
        Ok(())
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ToolName, VecDeque<i64>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call that is `limit.calls` back must be out of the span before the next may come.
fn wait_ms(times: &mut VecDeque<i64>, limit: RateLimit, now_ms: i64) -> Option<u64> {
    // A clock that was set back must not lock a tool for longer than one span: what is still to come was just now.
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
        // An hour back: nothing waits longer than the span.
        assert_eq!(limits.take(&tool, limit(1), -3_600_000), Err(1_000));
        assert_eq!(limits.wait_ms(&tool, limit(1), -3_599_500), Some(500));
        assert_eq!(limits.take(&tool, limit(1), -3_599_000), Ok(()));
    }
}
