//! Open calls on an HTTP link with sessions, to find the agent of a message outside of any answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::agents::AgentChannel;

/// Time for which a finished call still counts, because a message may arrive after the answer.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct OpenCalls {
    open: Mutex<Vec<OpenCall>>,
}

struct OpenCall {
    id: u64,
    channel: AgentChannel,
    ended: Option<Instant>,
}

impl OpenCalls {
    pub(crate) fn begin(&self, id: u64, channel: AgentChannel) {
        self.table().push(OpenCall { id, channel, ended: None });
    }

    pub(crate) fn end(&self, id: u64) {
        let mut table = self.table();
        if let Some(call) = table.iter_mut().find(|call| call.id == id) {
            call.ended = Some(Instant::now());
        }
        table.retain(|call| call.ended.is_none_or(|ended| ended.elapsed() < LINGER));
    }

    /// Returns the only agent with an open or just finished call. In doubt returns none: an agent must not read what
    /// belongs to another.
    pub(crate) fn sole(&self) -> Option<AgentChannel> {
        let table = self.table();
        let mut open = table.iter().filter(|call| call.ended.is_none());
        if let Some(call) = open.next() {
            return open.next().is_none().then(|| call.channel.clone());
        }
        let recent = || table.iter().filter(|call| call.ended.is_some_and(|ended| ended.elapsed() < LINGER));
        let last = recent().max_by_key(|call| call.ended)?;
        recent().all(|call| call.channel.is_same_agent(&last.channel)).then(|| last.channel.clone())
    }

    fn table(&self) -> MutexGuard<'_, Vec<OpenCall>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
