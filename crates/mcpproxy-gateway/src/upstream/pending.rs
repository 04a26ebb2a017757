//! Requests that a server on a shared connection has not answered yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::error::UpstreamError;
use crate::agents::AgentChannel;
use crate::message::Reply;

#[derive(Default)]
pub(crate) struct Pending {
    open: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    waiting: HashMap<u64, Waiting>,
    /// Set when the connection has ended. Later requests fail with it at once.
    ended: Option<UpstreamError>,
}

struct Waiting {
    answer: oneshot::Sender<Result<Reply, UpstreamError>>,
    channel: Option<AgentChannel>,
}

pub(crate) type Answered = oneshot::Receiver<Result<Reply, UpstreamError>>;

/// The agent that an uncorrelated message of a server belongs to.
pub(crate) enum Belongs {
    To(AgentChannel),
    ToSeveral,
    ToNobody,
}

impl Pending {
    pub(crate) fn open(&self, id: u64, channel: Option<AgentChannel>) -> Result<Answered, UpstreamError> {
        let mut table = self.table();
        if let Some(ended) = &table.ended {
            return Err(ended.clone());
        }
        let (answer, answered) = oneshot::channel();
        table.waiting.insert(id, Waiting { answer, channel });
        Ok(answered)
    }

    /// Passes an answer to the waiting request. Returns `false` and drops the answer if no request waits for it.
    pub(crate) fn answer(&self, id: u64, answer: Result<Reply, UpstreamError>) -> bool {
        let waiting = self.table().waiting.remove(&id);
        waiting.is_some_and(|waiting| waiting.answer.send(answer).is_ok())
    }

    pub(crate) fn forget(&self, id: u64) {
        self.table().waiting.remove(&id);
    }

    pub(crate) fn channel(&self, id: u64) -> Option<AgentChannel> {
        self.table().waiting.get(&id).and_then(|waiting| waiting.channel.clone())
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.table().waiting.keys().copied().collect()
    }

    /// Returns why the connection has ended, if it has.
    pub(crate) fn end_reason(&self) -> Option<UpstreamError> {
        self.table().ended.clone()
    }

    /// Finds the agent of a message that names no call. A message is passed on only if exactly one call of an agent is
    /// open: an agent must not see or answer what belongs to another.
    pub(crate) fn belongs(&self) -> Belongs {
        let table = self.table();
        let mut calls = table.waiting.values().filter_map(|waiting| waiting.channel.as_ref());
        match (calls.next(), calls.next()) {
            (None, _) => Belongs::ToNobody,
            (Some(channel), None) => Belongs::To(channel.clone()),
            (Some(_), Some(_)) => Belongs::ToSeveral,
        }
    }

    /// Ends the connection. All waiting requests fail with the reason.
    pub(crate) fn end(&self, reason: &UpstreamError) {
        let waiting = {
            let mut table = self.table();
            table.ended.get_or_insert_with(|| reason.clone());
            std::mem::take(&mut table.waiting)
        };
        for (_, waiting) in waiting {
            // A missing sign-in refused one message. The server may have processed those before it.
            let told = if let UpstreamError::SignIn(_) = reason { UpstreamError::Closed } else { reason.clone() };
            let _gone = waiting.answer.send(Err(told));
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
