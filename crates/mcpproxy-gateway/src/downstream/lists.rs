//! Lists for agents, built from the snapshot. They send nothing to servers, so no server can delay them.

use std::sync::Arc;

use mcpproxy_core::decision::needs_contract;
use mcpproxy_core::json::{quote, string_value};
use mcpproxy_core::{ServerName, Tool, Variant};
use serde_json::value::RawValue;

use super::four::{self, Audience, NEEDS_USER};
use crate::agents::{ConnectedAgent, EndpointMode};
use crate::message::{self, INVALID_PARAMS, Members, Reply, RpcError, field, member};
use crate::protocol::Era;
use crate::snapshot::Snapshot;
use crate::state::SharedState;
use crate::upstream::Offers;
use crate::views::contract;

/// Cache hints for a list that differs between agents.
const PRIVATE: [(&str, &str); 2] = [("ttlMs", "60000"), ("cacheScope", "\"private\"")];
/// Cache hints for the four tools. They depend on the token, and change only with the settings.
const FOUR: [(&str, &str); 2] = [("ttlMs", "3600000"), ("cacheScope", "\"private\"")];

pub(super) fn tools(state: &SharedState, agent: &ConnectedAgent, params: &Members<'_>) -> Reply {
    only_page(params)?;
    let snapshot = state.snapshot.load();
    if agent.endpoint_mode == EndpointMode::Four {
        let audience =
            Audience { two_key: snapshot.settings.intent.two_key, is_headless: agent.identity.scope.headless };
        return Ok(finish("tools", four::tools(audience), agent.era, FOUR));
    }
    let contracts = snapshot.settings.contracts;
    // Under its own name, a tool cannot say that it needs a contract first. So it is left out.
    let is_shown =
        |tool: &&Arc<Tool>| agent.endpoint_mode.shows(tool.name.server()) && !needs_contract(contracts, tool);
    let visible = snapshot.catalog.visible(&agent.identity.scope).filter(is_shown);
    let all: Vec<String> = visible
        .map(|tool| match &agent.endpoint_mode {
            EndpointMode::Server(_) => listed(agent, tool),
            EndpointMode::Four | EndpointMode::Direct => message::with_members(
                &listed(agent, tool),
                &[("name", &quote(&agent.endpoint_mode.name_out(tool.name.server(), tool.name.tool())))],
            ),
        })
        .collect();
    Ok(finish("tools", &format!("[{}]", all.join(",")), agent.era, PRIVATE))
}

/// Lists one tool of a server. Clients with a user prompt for every call of a destructive one.
fn listed(agent: &ConnectedAgent, tool: &Tool) -> String {
    let listed = contract::listed(tool);
    match tool.call_with() {
        Variant::Destructive if !agent.identity.scope.headless => {
            let meta = message::with_members(member(&listed, "_meta").unwrap_or("{}"), &[(NEEDS_USER, "true")]);
            message::with_members(&listed, &[("_meta", &meta)])
        }
        Variant::Read | Variant::Write | Variant::Destructive => listed,
    }
}

pub(super) fn prompts(state: &SharedState, agent: &ConnectedAgent, params: &Members<'_>) -> Reply {
    only_page(params)?;
    let all = offered(
        &state.snapshot.load(),
        agent,
        |offers| &offers.prompts,
        |server, prompt| {
            let name = member(prompt, "name").and_then(string_value)?;
            Some(message::with_members(prompt, &[("name", &quote(&agent.endpoint_mode.name_out(server, &name)))]))
        },
    );
    Ok(finish("prompts", &format!("[{}]", all.join(",")), agent.era, PRIVATE))
}

/// Lists the servers' resources, and the contracts of their tools.
pub(super) fn resources(state: &SharedState, agent: &ConnectedAgent, params: &Members<'_>) -> Reply {
    only_page(params)?;
    let snapshot = state.snapshot.load();
    let mut all = offered(
        &snapshot,
        agent,
        |offers| &offers.resources,
        |server, resource| addressed(agent, server, resource, "uri"),
    );
    all.extend(contract::resources(&snapshot.catalog, &agent.identity.scope, |server| {
        agent.endpoint_mode.shows(server)
    }));
    Ok(finish("resources", &format!("[{}]", all.join(",")), agent.era, PRIVATE))
}

pub(super) fn templates(state: &SharedState, agent: &ConnectedAgent, params: &Members<'_>) -> Reply {
    only_page(params)?;
    let mut all = offered(
        &state.snapshot.load(),
        agent,
        |offers| &offers.templates,
        |server, template| addressed(agent, server, template, "uriTemplate"),
    );
    all.push(contract::template());
    Ok(finish("resourceTemplates", &format!("[{}]", all.join(",")), agent.era, PRIVATE))
}

/// Reads a contract, if the URI is that of a contract. A tool that the agent may not see has none.
pub(super) fn read_contract(state: &SharedState, agent: &ConnectedAgent, uri: &str) -> Option<Result<String, ()>> {
    let name = contract::tool_of(uri)?;
    let snapshot = state.snapshot.load();
    let tool = name
        .filter(|name| agent.endpoint_mode.shows(name.server()) && agent.identity.scope.sees(name.server()))
        .and_then(|name| snapshot.catalog.resolve(&name).map(Arc::clone));
    let read = |tool: Arc<Tool>| match agent.era {
        Era::Legacy => contract::read(&tool),
        Era::Modern => message::with_members(&contract::read(&tool), &PRIVATE),
    };
    Some(tool.map(read).ok_or(()))
}

/// Rewrites the URIs in a server's answer to `resources/read` to those that the agent knows.
pub(super) fn read_result(reply: Reply, agent: &ConnectedAgent, server: &ServerName) -> Reply {
    let result = reply?;
    let result = match (
        &agent.endpoint_mode,
        member(&result, "contents").and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok()),
    ) {
        (EndpointMode::Server(_), _) | (_, None) => result,
        (EndpointMode::Four | EndpointMode::Direct, Some(contents)) => {
            let all: Vec<String> = contents
                .into_iter()
                .map(|content| {
                    addressed(agent, server, content.get(), "uri").unwrap_or_else(|| content.get().to_owned())
                })
                .collect();
            message::with_members(&result, &[("contents", &format!("[{}]", all.join(",")))])
        }
    };
    let lacks = |key: &str| member(&result, key).is_none();
    match agent.era {
        Era::Modern if lacks("ttlMs") || lacks("cacheScope") => {
            // A server with a handshake gives no cache hints, so the answer must not be cached.
            Ok(message::with_members(&result, &[("ttlMs", "0"), ("cacheScope", "\"private\"")]))
        }
        Era::Modern | Era::Legacy => Ok(result),
    }
}

/// Collects what the servers offer of one kind, under the names that the agent knows.
fn offered(
    snapshot: &Snapshot,
    agent: &ConnectedAgent,
    of: impl Fn(&Offers) -> &Arc<[String]>,
    shown: impl Fn(&ServerName, &str) -> Option<String>,
) -> Vec<String> {
    let visible = snapshot
        .offers
        .iter()
        .filter(|(server, _)| agent.endpoint_mode.shows(server) && agent.identity.scope.sees(server));
    visible
        .flat_map(|(server, offers)| of(offers).iter().filter_map(|json| shown(server, json)).collect::<Vec<_>>())
        .collect()
}

fn addressed(agent: &ConnectedAgent, server: &ServerName, json: &str, key: &str) -> Option<String> {
    let uri = member(json, key).and_then(string_value)?;
    Some(match &agent.endpoint_mode {
        EndpointMode::Server(_) => json.to_owned(),
        EndpointMode::Four | EndpointMode::Direct => {
            message::with_members(json, &[(key, &quote(&agent.endpoint_mode.uri_out(server, &uri)))])
        }
    })
}

fn finish(key: &str, list: &str, era: Era, cache: [(&str, &str); 2]) -> String {
    match era {
        Era::Legacy => message::object([(key, list)]),
        Era::Modern => message::object([(key, list)].into_iter().chain(cache)),
    }
}

/// Rejects cursors: every list is one page, so none was given out.
fn only_page(params: &Members<'_>) -> Result<(), RpcError> {
    match field(params, "cursor") {
        None | Some("null") => Ok(()),
        Some(_) => Err(RpcError::new(INVALID_PARAMS, "params.cursor is not a cursor of this gateway")),
    }
}
