//! Makes attempts from an address with many failures one after the other.
//!
//! Checking a password takes a core for a moment. Without the lane, an address that tries many names would occupy both
//! places for hashing (`password.rs`), and users at other addresses would wait behind it. A user at the same address waits
//! for their turn, and then signs in.
//!
//! Attempts are also *counted* one after the other, whatever their address. Otherwise a thousand parallel attempts would
//! all be checked before the first one is counted, and none of them would enter the lane. Each would also open a
//! connection to the database, and PostgreSQL allows a hundred by default.

use mcpproxy_store::Pace;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Attempts that wait in the lane. More would wait for longer than users and browsers do.
const LINE_MAX: usize = 256;

pub(crate) struct SlowLane {
    line: Semaphore,
    turn: Semaphore,
    counting: Semaphore,
}

/// The right to make one attempt. Dropping it lets the next one in.
pub(crate) struct Turn<'a> {
    _permit: Option<SemaphorePermit<'a>>,
}

impl Default for SlowLane {
    fn default() -> Self {
        Self { line: Semaphore::new(LINE_MAX), turn: Semaphore::new(1), counting: Semaphore::new(1) }
    }
}

impl SlowLane {
    /// Waits until no other attempt is being counted. Nobody waits for a turn meanwhile, so this cannot deadlock.
    pub(crate) async fn count_alone(&self) -> Option<SemaphorePermit<'_>> {
        self.counting.acquire().await.ok()
    }

    /// Waits for a turn. Returns `None` if too many wait already.
    pub(crate) async fn enter(&self, pace: Pace) -> Option<Turn<'_>> {
        let permit = match pace {
            Pace::Normal => None,
            Pace::Slow => {
                let _place = self.line.try_acquire().ok()?;
                Some(self.turn.acquire().await.ok()?)
            }
        };
        Some(Turn { _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_after_the_other() {
        let lane = SlowLane::default();
        let first = lane.enter(Pace::Slow).await.unwrap();
        let mut second = Box::pin(lane.enter(Pace::Slow));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(lane.enter(Pace::Normal).now_or_never().flatten().is_some(), "others do not wait");
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test]
    async fn attempts_are_counted_alone() {
        let lane = SlowLane::default();
        let first = lane.count_alone().await;
        let mut second = Box::pin(lane.count_alone());
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test]
    async fn the_line_is_bounded() {
        let lane = SlowLane::default();
        let _first = lane.enter(Pace::Slow).await.unwrap();
        let mut waiting: Vec<_> = (0..LINE_MAX).map(|_| Box::pin(lane.enter(Pace::Slow))).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert!(lane.enter(Pace::Slow).await.is_none());
        waiting.pop();
        assert!(lane.enter(Pace::Slow).now_or_never().is_none(), "who gives up leaves the line");
    }
}
