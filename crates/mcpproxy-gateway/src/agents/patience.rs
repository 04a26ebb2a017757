//! The time that servers wait for one agent to read its messages.
//!
//! A server's connection is shared, and the gateway reads it in order. While a message waits for a slow agent, nothing else
//! of that server is read: not the answers of other agents' calls either. Waiting is right for a burst, which an agent
//! reads in a moment. So every agent has a second of it, over all its calls and servers, and gets a twentieth of the time
//! that passes back. An agent that keeps reading too slowly misses messages, and delays a server by 5 % at most.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const MOST: Duration = Duration::from_secs(1);
/// Time that passes until one part of it is given back.
const PARTS: u32 = 20;
/// Longest wait for one message.
const OF_ONE_MESSAGE: Duration = Duration::from_millis(500);
/// Shorter waits are not worth a timer.
const LEAST: Duration = Duration::from_millis(1);

/// The patience that servers have with one agent.
pub(crate) struct Patience {
    left: Mutex<Left>,
}

struct Left {
    time: Duration,
    at: Instant,
}

impl Patience {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: Mutex::new(Left { time: MOST, at: now }) }
    }

    /// Takes the time that a message may wait. It is zero if the agent has used up its patience.
    pub(crate) fn take(&self, now: Instant) -> Duration {
        let mut left = self.left();
        let passed = now.saturating_duration_since(left.at);
        left.time = left.time.saturating_add(passed / PARTS).min(MOST);
        left.at = left.at.max(now);
        if left.time < LEAST {
            return Duration::ZERO;
        }
        let taken = left.time.min(OF_ONE_MESSAGE);
        left.time -= taken;
        taken
    }

    /// Gives back the part that was not needed.
    pub(crate) fn give_back(&self, unused: Duration) {
        let mut left = self.left();
        left.time = left.time.saturating_add(unused).min(MOST);
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_out_and_comes_back() {
        let start = Instant::now();
        let patience = Patience::new(start);
        let check = |seconds, millis| {
            let taken = patience.take(start + Duration::from_secs(seconds));
            assert_eq!(taken, Duration::from_millis(millis), "after {seconds} s");
        };
        check(0, 500);
        check(0, 500);
        check(0, 0);
        check(1, 50);
        check(4, 150);
        patience.give_back(Duration::from_millis(120));
        check(4, 120);
        check(1000, 500);
        check(1000, 500);
        check(1000, 0);
    }
}
