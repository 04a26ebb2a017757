//! Notices of one server that its supervisor has not taken yet. Their number is bounded, whatever the server sends.
//!
//! A bounded channel does not fit. While the supervisor reads a list, the connection must go on reading, so a full
//! channel could only drop notices. A dropped `tools/list_changed` would hide tools until the next one. Here a notice
//! that already waits is not added again, so list changes take three places at most and are never lost. Only updates
//! of resources, which are hints, are dropped when there are too many.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Notice;

/// Waiting updates of resources.
const UPDATES_MAX: usize = 256;
/// Longest `params` of an update: a URI and a little metadata.
const UPDATE_MAX_BYTES: usize = 16 * 1024;

#[derive(Default)]
pub(crate) struct Notices {
    waiting: Mutex<VecDeque<Notice>>,
    added: Notify,
}

impl Notices {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn add(&self, notice: Notice) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.contains(&notice) {
            return;
        }
        if let Notice::ResourceUpdated(params) = &notice
            && (params.len() > UPDATE_MAX_BYTES || waiting.len() >= UPDATES_MAX)
        {
            tracing::debug!("a server sends more updates of resources than the gateway passes on");
            return;
        }
        waiting.push_back(notice);
        self.added.notify_one();
    }

    /// Waits for the next notice. Only one task may wait.
    pub(crate) async fn next(&self) -> Notice {
        loop {
            if let Some(notice) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
                return notice;
            }
            self.added.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_is_bounded_and_loses_no_change_of_a_list() {
        let notices = Notices::new();
        let update = |number: usize| Notice::ResourceUpdated(format!("{{\"uri\":\"x:{number}\"}}"));
        for number in 0..10_000 {
            notices.add(update(number));
            notices.add(Notice::ToolsChanged);
        }
        notices.add(Notice::PromptsChanged);
        notices.add(Notice::ResourcesChanged);
        notices.add(Notice::ResourceUpdated("x".repeat(UPDATE_MAX_BYTES + 1)));
        let count = notices.waiting.lock().unwrap().len();
        assert!(count <= UPDATES_MAX + 3, "{count}");
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(notices.next().await);
        }
        assert_eq!(taken.first(), Some(&update(0)));
        for kind in [Notice::ToolsChanged, Notice::PromptsChanged, Notice::ResourcesChanged] {
            assert_eq!(taken.iter().filter(|notice| **notice == kind).count(), 1, "{kind:?}");
        }
        // A change after the last one was taken counts again.
        notices.add(Notice::ToolsChanged);
        assert_eq!(notices.next().await, Notice::ToolsChanged);
    }
}
