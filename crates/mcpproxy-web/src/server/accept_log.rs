//! Logs failures to accept a connection at a bounded rate. A full table of open files fails many times a second.

use std::io;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct AcceptLog {
    last: Option<Instant>,
    suppressed: u64,
}

impl AcceptLog {
    pub(super) fn failed(&mut self, error: &io::Error, now: Instant) {
        if let Some(suppressed) = self.is_due(now) {
            tracing::warn!(%error, suppressed, "could not accept a connection");
        }
    }

    /// Returns the number of failures that were not logged since the last one that was, or `None` if it is too early.
    fn is_due(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds() {
        let mut log = AcceptLog::default();
        let began = Instant::now();
        let logged: Vec<(u64, u64)> = (0..25_000)
            .step_by(50)
            .filter_map(|ms| log.is_due(began + Duration::from_millis(ms)).map(|suppressed| (ms, suppressed)))
            .collect();
        assert_eq!(logged, [(0, 0), (10_000, 199), (20_000, 199)]);
    }
}
