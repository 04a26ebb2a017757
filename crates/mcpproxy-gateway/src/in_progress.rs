//! Counts work that a stopping gateway waits for: requests of agents, and answers on their way to them.
//!
//! The activity log closes only when this count is zero, or when nothing can be answered any more. So every call that
//! was answered has its outcome in the log.

use std::sync::Arc;

use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct InProgress {
    count: Arc<watch::Sender<usize>>,
}

/// One piece of work. Dropping it means that the work is done.
pub(crate) struct Working {
    count: Arc<watch::Sender<usize>>,
}

impl Default for InProgress {
    fn default() -> Self {
        Self { count: Arc::new(watch::channel(0).0) }
    }
}

impl InProgress {
    pub(crate) fn begin(&self) -> Working {
        self.count.send_modify(|count| *count += 1);
        Working { count: Arc::clone(&self.count) }
    }

    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until no work is in progress.
    pub(crate) async fn none(&self) {
        let mut count = self.count.subscribe();
        // Fails only without a sender, and this is one.
        let _never = count.wait_for(|count| *count == 0).await.is_err();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn waits_for_all_work() {
        let in_progress = InProgress::default();
        in_progress.none().await;
        let (one, two) = (in_progress.begin(), in_progress.begin());
        drop(one);
        assert!(in_progress.none().now_or_never().is_none());
        drop(two);
        in_progress.none().await;
    }
}
