//! Notices of one server that its supervisor has not taken yet. Their number is bounded, whatever the server sends.
//!
//! A changed list is a flag, not a message in a queue: a thousand `tools/list_changed` mean the same as one, and the
//! supervisor reads the list once. So a change is never lost, and a flood of them costs nothing. Updates of resources
//! name a resource, so they queue. They are hints, and are dropped when too many wait.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Notice;

/// Waiting updates of resources.
const UPDATES_MAX: usize = 256;
/// Longest `params` of an update: a URI and a little metadata.
const UPDATE_MAX_BYTES: usize = 16 * 1024;

#[derive(Default)]
pub(crate) struct Notices {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Default)]
struct Waiting {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// At most `UPDATES_MAX`, each once.
    updates: VecDeque<Arc<str>>,
    updated: HashSet<Arc<str>>,
}

impl Notices {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn add(&self, notice: Notice) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::ToolsChanged => waiting.tools = true,
            Notice::PromptsChanged => waiting.prompts = true,
            Notice::ResourcesChanged => waiting.resources = true,
            Notice::ResourceUpdated(params) => waiting.add_update(&params),
        }
        self.added.notify_one();
    }

    /// Waits for the next notice. Only one task may wait.
    pub(crate) async fn next(&self) -> Notice {
        loop {
            if let Some(notice) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return notice;
            }
            self.added.notified().await;
        }
    }
}

impl Waiting {
    fn add_update(&mut self, params: &str) {
        if params.len() > UPDATE_MAX_BYTES || self.updates.len() >= UPDATES_MAX {
            tracing::debug!("a server sends more updates of resources than the gateway passes on");
            return;
        }
        let params: Arc<str> = params.into();
        if self.updated.insert(Arc::clone(&params)) {
            self.updates.push_back(params);
        }
    }

    /// Takes updates first. They are passed on at once, and reading a list takes a while.
    fn take(&mut self) -> Option<Notice> {
        if let Some(update) = self.updates.pop_front() {
            self.updated.remove(&update);
            return Some(Notice::ResourceUpdated(update.to_string()));
        }
        let flags = [
            (&mut self.tools, Notice::ToolsChanged),
            (&mut self.prompts, Notice::PromptsChanged),
            (&mut self.resources, Notice::ResourcesChanged),
        ];
        flags.into_iter().find_map(|(flag, notice)| std::mem::take(flag).then_some(notice))
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
            notices.add(update(number / 2));
            notices.add(Notice::ToolsChanged);
        }
        notices.add(Notice::PromptsChanged);
        notices.add(Notice::ResourcesChanged);
        notices.add(Notice::ResourceUpdated("x".repeat(UPDATE_MAX_BYTES + 1)));
        for number in 0..UPDATES_MAX {
            assert_eq!(notices.next().await, update(number), "each once, in order");
        }
        for kind in [Notice::ToolsChanged, Notice::PromptsChanged, Notice::ResourcesChanged] {
            assert_eq!(notices.next().await, kind);
        }
        assert_eq!(notices.waiting.lock().unwrap().take(), None);
        // A change after the last one was taken counts again, and so does an update.
        notices.add(Notice::ToolsChanged);
        assert_eq!(notices.next().await, Notice::ToolsChanged);
        notices.add(update(0));
        assert_eq!(notices.next().await, update(0));
    }
}
