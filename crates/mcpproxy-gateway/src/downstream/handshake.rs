//! The first answer to an agent: what this endpoint speaks and offers, in the words of the agent's era.

use std::sync::Arc;

use mcpproxy_core::Agent;
use mcpproxy_core::json::quote;

use super::dispatch::AgentRequest;
use super::four;
use super::revision::{checked_capabilities, client_name};
use crate::agents::{EndpointMode, Session};
use crate::message::{self, RpcError, field, required};
use crate::protocol::{Era, IMPLEMENTATION, LEGACY_VERSION, MODERN_VERSION, VERSIONS};
use crate::state::SharedState;

/// Answers the `initialize` handshake.
pub(crate) fn initialize(
    state: &SharedState,
    endpoint_mode: &EndpointMode,
    agent: &Agent,
    request: &AgentRequest,
) -> Result<(Session, String), RpcError> {
    let params = request.params();
    let wanted = required(&params, "protocolVersion")?;
    let is_known = VERSIONS.contains(&wanted.as_ref()) && wanted != MODERN_VERSION;
    let version = if is_known { wanted.as_ref() } else { LEGACY_VERSION };
    let capabilities: Arc<str> = checked_capabilities(field(&params, "capabilities").unwrap_or("{}"))?.into();
    let client = field(&params, "clientInfo").and_then(client_name);
    let usage = state.usages.of(&agent.name);
    let mut session = Session::new(&usage, endpoint_mode.clone(), client, capabilities);
    version.clone_into(&mut session.revision);
    let result = message::object([
        ("protocolVersion", quote(version).as_str()),
        ("capabilities", &capabilities_of(state, endpoint_mode, Era::Legacy)),
        ("serverInfo", &IMPLEMENTATION),
        ("instructions", &quote(instructions(state, endpoint_mode))),
    ]);
    Ok((session, result))
}

/// Answers `server/discover`.
pub(super) fn discover(state: &SharedState, endpoint_mode: &EndpointMode) -> String {
    let versions = serde_json::json!(*VERSIONS).to_string();
    message::object([
        ("supportedVersions", versions.as_str()),
        ("capabilities", &capabilities_of(state, endpoint_mode, Era::Modern)),
        ("instructions", &quote(instructions(state, endpoint_mode))),
        ("ttlMs", "60000"),
        ("cacheScope", "\"private\""),
        ("_meta", &format!("{{\"io.modelcontextprotocol/serverInfo\":{}}}", IMPLEMENTATION.as_str())),
    ])
}

fn instructions(state: &SharedState, endpoint_mode: &EndpointMode) -> &'static str {
    four::instructions(endpoint_mode, state.snapshot.load().settings.intent.two_key)
}

/// Returns the capabilities of this endpoint now. At `/mcp/s/NAME` they depend on the server.
fn capabilities_of(state: &SharedState, endpoint_mode: &EndpointMode, era: Era) -> String {
    let snapshot = state.snapshot.load();
    let can_complete = snapshot.offers.iter().any(|(name, offers)| endpoint_mode.shows(name) && offers.can_complete);
    let mut capabilities = String::from(
        "{\"tools\":{\"listChanged\":true},\"prompts\":{\"listChanged\":true},\"resources\":{\"listChanged\":true,\"subscribe\":true}",
    );
    if era == Era::Legacy {
        capabilities.push_str(",\"logging\":{}");
    }
    if can_complete {
        capabilities.push_str(",\"completions\":{}");
    }
    capabilities + "}"
}
