//! Streams of notifications for agents without a session.

use std::sync::Arc;

use mcpproxy_core::json::members;
use tokio::sync::mpsc;

use super::dispatch::AgentRequest;
use crate::agents::{ConnectedAgent, InUse, Listener, Listeners, SubscribedUris, Topics};
use crate::message::{self, RpcError, field, member};
use crate::state::SharedState;

/// Opens a `subscriptions/listen` stream. Returns the acknowledgement, the notifications that follow, and the guard that
/// counts the stream.
pub(crate) fn listen(
    state: &SharedState,
    agent: &ConnectedAgent,
    id: &str,
    request: &AgentRequest,
) -> Result<(String, mpsc::Receiver<String>, InUse), RpcError> {
    let usage = state.usages.of(&agent.identity.name);
    let in_use = usage.open_stream()?;
    // Otherwise, the subscriptions of streams that were just closed would still count.
    state.listeners.forget_closed();
    let params = request.params();
    let wanted = field(&params, "notifications").unwrap_or("{}");
    let is_set = |key: &str| member(wanted, key) == Some("true");
    let uris: Vec<String> =
        member(wanted, "resourceSubscriptions").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    // Not the agent's own text, which may be megabytes and waits until the agent reads it.
    let granted_uris = serde_json::json!(uris).to_string();
    let wanted_members = members(wanted).unwrap_or_default();
    let granted = message::object(wanted_members.iter().filter_map(|(key, value)| match key.as_ref() {
        key @ ("toolsListChanged" | "promptsListChanged" | "resourcesListChanged") => {
            matches!(*value, "true" | "false").then_some((key, *value))
        }
        "resourceSubscriptions" => Some(("resourceSubscriptions", granted_uris.as_str())),
        _ => None,
    }));
    let subscribed = SubscribedUris::new(&usage);
    for uri in &uris {
        subscribed.insert(uri)?;
    }
    let (send, receive) = Listeners::channel();
    let topics = Topics {
        tools: is_set("toolsListChanged"),
        prompts: is_set("promptsListChanged"),
        resources: is_set("resourcesListChanged"),
        uris: Arc::new(subscribed),
    };
    let meta = format!("{{\"io.modelcontextprotocol/subscriptionId\":{id}}}");
    let acknowledged = message::object([("notifications", granted.as_str()), ("_meta", &meta)]);
    state.listeners.join(Listener {
        agent: Arc::clone(&agent.identity),
        endpoint_mode: agent.endpoint_mode.clone(),
        topics,
        subscription: Some(id.to_owned()),
        send,
    });
    Ok((message::notification("notifications/subscriptions/acknowledged", &acknowledged), receive, in_use))
}
