//! Spaces out what a server can cause again and again.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses between the first events, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);
/// Events with the first pause. Then the pause doubles with each.
const BURST: u32 = 5;

/// Allows one event at once, a few after short pauses, and the next ones after pauses that double. A quiet time as long
/// as twice the pause forgets all of them. So an hour of trouble causes about twenty events.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last: Option<Instant>,
    /// Events since the last quiet time.
    count: u32,
}

impl Pace {
    /// Returns when the next event may happen.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.last.map(|at| at + self.pause())
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| now >= next)
    }

    /// Notes that an event happened.
    pub(crate) fn step(&mut self, now: Instant) {
        let is_quiet = self.last.is_none_or(|at| now >= at + self.pause() * 3);
        self.count = if is_quiet { 1 } else { self.count.saturating_add(1) };
        self.last = Some(now);
    }

    /// Returns the pause after the last event.
    fn pause(&self) -> Duration {
        let doubled = self.count.saturating_sub(BURST).min(16);
        (FIRST_PAUSE * 2_u32.pow(doubled)).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_trouble_causes_few_events() {
        let start = Instant::now();
        let (mut pace, mut events) = (Pace::default(), 0);
        for tenth in 0..36_000 {
            let now = start + Duration::from_millis(100 * tenth);
            if pace.is_due(now) {
                pace.step(now);
                events += 1;
            }
        }
        assert_eq!(events, 19);
    }

    #[test]
    fn quiet_forgets_the_trouble() {
        let start = Instant::now();
        let mut pace = Pace::default();
        for second in [0, 1, 2, 3, 4, 5, 7] {
            let now = start + Duration::from_secs(second);
            assert!(pace.is_due(now));
            pace.step(now);
        }
        let later = start + Duration::from_secs(60);
        pace.step(later);
        assert_eq!(pace.next(), Some(later + FIRST_PAUSE));
    }
}
