//! Agents that listen for changes of lists and resources.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpproxy_core::json::quote;
use mcpproxy_core::settings::is_provider_agent;
use mcpproxy_core::{Agent, ServerName};
use tokio::sync::mpsc;

use super::endpoint_mode::EndpointMode;
use super::usage::SubscribedUris;
use crate::message;

/// Waiting messages per listener. A listener that does not read misses the rest.
const WAITING_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Listeners {
    listeners: Mutex<Vec<Listener>>,
}

pub(crate) struct Listener {
    pub(crate) agent: Arc<Agent>,
    pub(crate) endpoint_mode: EndpointMode,
    pub(crate) topics: Topics,
    /// Id of the `subscriptions/listen` request, as raw JSON. Every message on its stream must contain it.
    pub(crate) subscription: Option<String>,
    pub(crate) send: mpsc::Sender<String>,
}

/// The changes that a listener wants to hear of.
pub(crate) struct Topics {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    /// URIs of the wanted resources, as the agent knows them.
    pub(crate) uris: Arc<SubscribedUris>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
}

impl ListKind {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];
}

impl Listeners {
    pub(crate) fn channel() -> (mpsc::Sender<String>, mpsc::Receiver<String>) {
        mpsc::channel(WAITING_MAX)
    }

    pub(crate) fn join(&self, listener: Listener) {
        self.forget_closed();
        self.listeners().push(listener);
    }

    /// Forgets listeners whose stream is closed. Their subscriptions stop counting.
    pub(crate) fn forget_closed(&self) {
        self.listeners().retain(|listener| !listener.send.is_closed());
    }

    /// Notifies of a changed list of a server.
    pub(crate) fn list_changed(&self, server: &ServerName, kind: ListKind) {
        for listener in self.listeners().iter().filter(|listener| listener.sees(server)) {
            let (is_wanted, method) = match kind {
                // With the four tools the list of tools never changes, only what the search finds.
                ListKind::Tools => (
                    listener.topics.tools && listener.endpoint_mode != EndpointMode::Four,
                    "notifications/tools/list_changed",
                ),
                ListKind::Prompts => (listener.topics.prompts, "notifications/prompts/list_changed"),
                ListKind::Resources => (listener.topics.resources, "notifications/resources/list_changed"),
            };
            if is_wanted {
                listener.say(method, "{}");
            }
        }
    }

    /// Ends the streams of all direct addresses.
    pub(crate) fn end_direct(&self) {
        self.listeners().retain(|listener| listener.endpoint_mode == EndpointMode::Four);
    }

    /// Ends the streams of all agents that came with a token of the identity provider.
    pub(crate) fn end_of_provider(&self) {
        self.listeners().retain(|listener| !is_provider_agent(&listener.agent.name));
    }

    /// Notifies that the four tools changed, because the second key became required or optional.
    pub(crate) fn four_tools_changed(&self) {
        for listener in self
            .listeners()
            .iter()
            .filter(|listener| listener.endpoint_mode == EndpointMode::Four && listener.topics.tools)
        {
            listener.say("notifications/tools/list_changed", "{}");
        }
    }

    /// Notifies of a changed resource.
    pub(crate) fn resource_updated(&self, server: &ServerName, uri: &str, params: &str) {
        for listener in self.listeners().iter().filter(|listener| listener.sees(server)) {
            let uri = listener.endpoint_mode.uri_out(server, uri);
            if listener.topics.uris.contains(&uri) {
                listener
                    .say("notifications/resources/updated", &message::with_members(params, &[("uri", &quote(&uri))]));
            }
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    fn sees(&self, server: &ServerName) -> bool {
        self.agent.scope.sees(server) && self.endpoint_mode.shows(server)
    }

    fn say(&self, method: &str, params: &str) {
        let params = match &self.subscription {
            Some(id) => {
                let old = message::member(params, "_meta").unwrap_or("{}");
                let meta = message::with_members(old, &[("io.modelcontextprotocol/subscriptionId", id)]);
                message::with_members(params, &[("_meta", &meta)])
            }
            None => params.to_owned(),
        };
        let _missed_or_gone = self.send.try_send(message::notification(method, &params));
    }
}
