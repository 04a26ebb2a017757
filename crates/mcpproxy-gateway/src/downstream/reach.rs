//! Names that an agent sends, and what of the servers they reach. Everything else looks as if it did not exist.

use std::sync::Arc;

use mcpproxy_core::ServerName;
use mcpproxy_core::json::string_value;

use crate::agents::ConnectedAgent;
use crate::message::member;
use crate::state::SharedState;
use crate::upstream::Server;

/// Finds the server of a name, if it is enabled and the agent may see it. One of which nothing is accepted does not exist
/// for agents.
pub(super) fn find<'n>(
    state: &SharedState,
    agent: &ConnectedAgent,
    name: Option<(ServerName, &'n str)>,
) -> Option<(Arc<Server>, &'n str)> {
    let (server, own) = name?;
    let snapshot = state.snapshot.load();
    let server = snapshot
        .servers
        .get(&server)
        .filter(|server| server.settings.enabled && agent.identity.scope.sees(server.name()))
        .filter(|server| !server.is_closed())?;
    Some((Arc::clone(server), own))
}

/// Returns true if agents may see this prompt. One that is quarantined does not exist for them.
pub(super) fn has_prompt(state: &SharedState, server: &ServerName, name: &str) -> bool {
    let snapshot = state.snapshot.load();
    let named = |json: &String| member(json, "name").and_then(string_value).is_some_and(|found| found == name);
    snapshot.offers.get(server).is_some_and(|offers| offers.prompts.iter().any(named))
}

/// Returns true if agents may see this template or resource. A template that is quarantined does not exist for them.
pub(super) fn has_address(state: &SharedState, server: &ServerName, address: &str) -> bool {
    let snapshot = state.snapshot.load();
    let Some(offers) = snapshot.offers.get(server) else { return false };
    let has = |list: &[String], key: &str| {
        list.iter().any(|json| member(json, key).and_then(string_value).is_some_and(|found| found == address))
    };
    has(&offers.templates, "uriTemplate") || has(&offers.resources, "uri")
}
