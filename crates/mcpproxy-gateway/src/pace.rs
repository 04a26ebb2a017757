//! Spaces out what a server can cause again and again.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses after the first event, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// Allows one event at once, and the next ones after pauses that double. A quiet time as long as twice the pause
/// forgets it. So an event is never late by more than the trouble before it, and an hour of trouble causes a dozen.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last: Option<(Instant, Duration)>,
}

impl Pace {
    /// Returns when the next event may happen.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.last.map(|(at, pause)| at + pause)
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| now >= next)
    }

    /// Notes that an event happened.
    pub(crate) fn step(&mut self, now: Instant) {
        let pause = match self.last {
            Some((at, pause)) if now < at + pause * 3 => (pause * 2).min(PAUSE_MAX),
            Some(_) | None => FIRST_PAUSE,
        };
        self.last = Some((now, pause));
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
        assert_eq!(events, 15);
    }

    #[test]
    fn quiet_forgets_the_trouble() {
        let start = Instant::now();
        let mut pace = Pace::default();
        for second in [0, 1, 3, 7] {
            let now = start + Duration::from_secs(second);
            assert!(pace.is_due(now));
            pace.step(now);
        }
        let later = start + Duration::from_secs(60);
        pace.step(later);
        assert_eq!(pace.next(), Some(later + FIRST_PAUSE));
    }
}
