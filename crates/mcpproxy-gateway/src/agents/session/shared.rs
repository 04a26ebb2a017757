//! The part of a session that several gateways share.

use std::sync::Arc;

use mcpproxy_core::Agent;
use mcpproxy_store::SessionChanges;

use super::{Session, Standing, lock};
use crate::agents::channel::{Later, LogLevel};
use crate::agents::session_id::SessionContent;

impl Session {
    /// Returns true if other gateways can meet this session. One on standard input belongs to its process.
    pub(crate) fn is_sealed(&self) -> bool {
        self.id != self.uid
    }

    /// Returns what the id of this session carries.
    pub(crate) fn content(&self) -> SessionContent {
        SessionContent {
            uid: self.uid.clone(),
            revision: self.revision.clone(),
            began_ms: self.began_ms,
            client: self.client.clone(),
            capabilities: Arc::clone(&self.capabilities),
        }
    }

    /// Returns the way to the agent after a request is answered: its stream for notifications, here or elsewhere.
    pub(crate) fn later(&self) -> Option<Later> {
        if let Some(standing) = Standing::open(&lock(&self.standing)) {
            return Some(Later::Here(standing.send.clone()));
        }
        let gateway = self.bus.as_ref().and(lock(&self.stream_at).clone())?;
        Some(Later::Elsewhere { bus: Arc::clone(self.bus.as_ref()?), gateway, session: self.uid.clone() })
    }

    /// Sends a message on the stream for notifications, if it is here.
    pub(crate) fn say(&self, text: String) {
        if let Some(standing) = &*lock(&self.standing) {
            let _missed_or_gone = standing.send.try_send(text);
        }
    }

    /// Takes over what other gateways stored about this session. `here` is the name of this gateway.
    pub(crate) fn take_over(&self, changes: &SessionChanges, here: &str) {
        if let Some(level) = changes.level.as_deref().and_then(LogLevel::parse) {
            self.set_level(level);
        }
        *lock(&self.stream_at) = changes.stream_at.clone().filter(|gateway| gateway != here);
        let mut untold = lock(&self.untold_uris);
        for uri in &changes.uris {
            // An agent at its limit misses the rest, as it would on one gateway.
            if !self.uris.contains(uri) && self.uris.insert(uri).is_ok() {
                untold.push(uri.clone());
            }
        }
        for uri in self.uris.list().iter().filter(|uri| !changes.uris.contains(uri)) {
            self.uris.remove(uri);
            untold.retain(|untold| untold != uri);
        }
    }

    /// Takes the subscriptions of which servers here must be told, with the agent. There are none without a stream here,
    /// because nobody would hear of an update.
    pub(crate) fn take_untold_uris(&self) -> Option<(Arc<Agent>, Vec<String>)> {
        let agent = Standing::open(&lock(&self.standing)).map(|standing| Arc::clone(&standing.agent))?;
        let uris = std::mem::take(&mut *lock(&self.untold_uris));
        (!uris.is_empty()).then_some((agent, uris))
    }

    /// Returns the other gateway that asked the agent something under this id.
    pub(crate) fn asked_at<'i>(&self, id: &'i str) -> Option<&'i str> {
        let here = self.bus.as_ref()?.name();
        let (_, gateway) = id.strip_prefix("\"mcpproxy-")?.strip_suffix('"')?.split_once('@')?;
        Some(gateway).filter(|gateway| **gateway != **here)
    }
}
