//! The lists an agent may ask for, made from the snapshot: no server is asked, so none can delay them.

use std::sync::Arc;

use mcpproxy_core::json::{quote, string_value};
use mcpproxy_core::{ServerName, Tool};
use serde_json::value::RawValue;

use super::{Caller, EndpointMode, four};
use crate::contracts_for_agents;
use crate::gateway::Inner;
use crate::message::{self, INVALID_PARAMS, Members, RpcError, field, member};
use crate::snapshot::Snapshot;
use crate::upstream::{Era, Offers, Reply};

/// How long an agent may keep a list that can differ between agents.
const PRIVATE: [(&str, &str); 2] = [("ttlMs", "60000"), ("cacheScope", "\"private\"")];
/// The four tools are the same for everybody.
const PUBLIC: [(&str, &str); 2] = [("ttlMs", "3600000"), ("cacheScope", "\"public\"")];

pub(super) fn tools(gateway: &Inner, caller: &Caller, params: &Members<'_>) -> Reply {
    only_page(params)?;
    let snapshot = gateway.snapshot.load();
    if caller.endpoint_mode == EndpointMode::Four {
        return Ok(finish("tools", four::tools(snapshot.settings.intent.two_key), caller.era, PUBLIC));
    }
    let visible =
        snapshot.catalog.visible(&caller.agent.scope).filter(|tool| caller.endpoint_mode.shows(tool.name.server()));
    let all: Vec<String> = visible
        .map(|tool| match &caller.endpoint_mode {
            EndpointMode::Server(_) => contracts_for_agents::listed(tool),
            EndpointMode::Four | EndpointMode::Direct => message::with_members(
                &contracts_for_agents::listed(tool),
                &[("name", &quote(&caller.endpoint_mode.name_out(tool.name.server(), tool.name.tool())))],
            ),
        })
        .collect();
    Ok(finish("tools", &format!("[{}]", all.join(",")), caller.era, PRIVATE))
}

pub(super) fn prompts(gateway: &Inner, caller: &Caller, params: &Members<'_>) -> Reply {
    only_page(params)?;
    let all = offered(
        &gateway.snapshot.load(),
        caller,
        |offers| &offers.prompts,
        |server, prompt| {
            let name = member(prompt, "name").and_then(string_value)?;
            Some(message::with_members(prompt, &[("name", &quote(&caller.endpoint_mode.name_out(server, &name)))]))
        },
    );
    Ok(finish("prompts", &format!("[{}]", all.join(",")), caller.era, PRIVATE))
}

/// The servers' resources, and the contracts of their tools.
pub(super) fn resources(gateway: &Inner, caller: &Caller, params: &Members<'_>) -> Reply {
    only_page(params)?;
    let snapshot = gateway.snapshot.load();
    let mut all = offered(
        &snapshot,
        caller,
        |offers| &offers.resources,
        |server, resource| addressed(caller, server, resource, "uri"),
    );
    all.extend(contracts_for_agents::resources(&snapshot.catalog, &caller.agent.scope, |server| {
        caller.endpoint_mode.shows(server)
    }));
    Ok(finish("resources", &format!("[{}]", all.join(",")), caller.era, PRIVATE))
}

pub(super) fn templates(gateway: &Inner, caller: &Caller, params: &Members<'_>) -> Reply {
    only_page(params)?;
    let mut all = offered(
        &gateway.snapshot.load(),
        caller,
        |offers| &offers.templates,
        |server, template| addressed(caller, server, template, "uriTemplate"),
    );
    all.push(contracts_for_agents::template());
    Ok(finish("resourceTemplates", &format!("[{}]", all.join(",")), caller.era, PRIVATE))
}

/// The answer for a contract's address, if it is one. A tool that the agent may not see has none.
pub(super) fn read_contract(gateway: &Inner, caller: &Caller, uri: &str) -> Option<Result<String, ()>> {
    let name = contracts_for_agents::tool_of(uri)?;
    let snapshot = gateway.snapshot.load();
    let tool = name
        .filter(|name| caller.endpoint_mode.shows(name.server()) && caller.agent.scope.sees(name.server()))
        .and_then(|name| snapshot.catalog.resolve(&name).map(Arc::clone));
    let read = |tool: Arc<Tool>| match caller.era {
        Era::Legacy => contracts_for_agents::read(&tool),
        Era::Modern => message::with_members(&contracts_for_agents::read(&tool), &PRIVATE),
    };
    Some(tool.map(read).ok_or(()))
}

/// What a server answered to `resources/read`, under the addresses this agent knows.
pub(super) fn read_result(reply: Reply, caller: &Caller, server: &ServerName) -> Reply {
    let result = reply?;
    let result = match (
        &caller.endpoint_mode,
        member(&result, "contents").and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok()),
    ) {
        (EndpointMode::Server(_), _) | (_, None) => result,
        (EndpointMode::Four | EndpointMode::Direct, Some(contents)) => {
            let all: Vec<String> = contents
                .into_iter()
                .map(|content| {
                    addressed(caller, server, content.get(), "uri").unwrap_or_else(|| content.get().to_owned())
                })
                .collect();
            message::with_members(&result, &[("contents", &format!("[{}]", all.join(",")))])
        }
    };
    let lacks = |key: &str| member(&result, key).is_none();
    match caller.era {
        Era::Modern if lacks("ttlMs") || lacks("cacheScope") => {
            // A server of the older kind promises nothing about how long its answer holds.
            Ok(message::with_members(&result, &[("ttlMs", "0"), ("cacheScope", "\"private\"")]))
        }
        Era::Modern | Era::Legacy => Ok(result),
    }
}

/// What the servers offer of one kind, under the names this agent knows.
fn offered(
    snapshot: &Snapshot,
    caller: &Caller,
    of: impl Fn(&Offers) -> &Arc<[String]>,
    shown: impl Fn(&ServerName, &str) -> Option<String>,
) -> Vec<String> {
    let visible = snapshot
        .offers
        .iter()
        .filter(|(server, _)| caller.endpoint_mode.shows(server) && caller.agent.scope.sees(server));
    visible
        .flat_map(|(server, offers)| of(offers).iter().filter_map(|json| shown(server, json)).collect::<Vec<_>>())
        .collect()
}

fn addressed(caller: &Caller, server: &ServerName, json: &str, key: &str) -> Option<String> {
    let uri = member(json, key).and_then(string_value)?;
    Some(match &caller.endpoint_mode {
        EndpointMode::Server(_) => json.to_owned(),
        EndpointMode::Four | EndpointMode::Direct => {
            message::with_members(json, &[(key, &quote(&caller.endpoint_mode.uri_out(server, &uri)))])
        }
    })
}

fn finish(key: &str, list: &str, era: Era, cache: [(&str, &str); 2]) -> String {
    match era {
        Era::Legacy => message::object([(key, list)]),
        Era::Modern => message::object([(key, list)].into_iter().chain(cache)),
    }
}

/// Lists come whole, so a cursor was never given out.
fn only_page(params: &Members<'_>) -> Result<(), RpcError> {
    match field(params, "cursor") {
        None | Some("null") => Ok(()),
        Some(_) => Err(RpcError::new(INVALID_PARAMS, "params.cursor is not one of ours")),
    }
}
