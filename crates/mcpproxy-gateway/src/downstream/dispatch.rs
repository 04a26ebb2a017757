//! What each method of the protocol does, whichever way it came in.

use std::sync::{Arc, PoisonError};

use http::HeaderMap;
use mcpproxy_core::json::{members, quote, string_value};
use mcpproxy_core::{Agent, ServerName, Variant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::endpoint_mode::EndpointMode;
use super::flight::{Flight, OnDrop};
use super::http::tool_name;
use super::revision::client_name;
use super::session::Session;
use super::{Caller, four, lists};
use crate::audience::{Audience, Listener, Wants};
use crate::back::{Back, LogLevel};
use crate::call::{self, CallRequest, Wanted};
use crate::gateway::Inner;
use crate::message::{self, HEADER_MISMATCH, INVALID_PARAMS, Members, RpcError, field, member, params_of, required};
use crate::upstream::{Era, Passage, Relayed, Reply, Server, relay};
use crate::{IMPLEMENTATION, LEGACY_VERSION, MODERN_VERSION, VERSIONS, headers};

/// A request, on its own feet.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) method: Arc<str>,
    pub(crate) params: Option<Arc<str>>,
}

/// Sets a request going. `id` lets an agent with a session take it back.
pub(crate) fn begin(
    gateway: &Arc<Inner>,
    caller: Caller,
    question: Question,
    on_drop: OnDrop,
    id: Option<&str>,
) -> Flight {
    let cancel = CancellationToken::new();
    let under_way = caller.session.as_ref().zip(id).map(|(session, id)| session.begin(id, cancel.clone()));
    let meta = question.params.as_deref().and_then(|params| member(params, "_meta"));
    let progress_token = meta.and_then(|meta| member(meta, "progressToken")).map(Arc::from);
    let later = caller.session.as_ref().and_then(|session| session.standing());
    let (back, events) = Back::new(progress_token, caller.log_level, Arc::clone(&caller.capabilities), later);
    let (gateway, token) = (Arc::clone(gateway), cancel.clone());
    let work = async move {
        let reply = answer(&gateway, &caller, &question, &back, &token).await;
        reply.map(|result| dress(result, caller.era))
    };
    Flight::new(Box::pin(work), events, on_drop, cancel, under_way)
}

/// Results in the agent's kind of the protocol: the newer wants to know that they are complete.
fn dress(result: String, era: Era) -> String {
    let marked = member(&result, "resultType");
    match (era, marked) {
        (Era::Modern, None) => message::with_members(&result, &[("resultType", "\"complete\"")]),
        (Era::Legacy, Some("\"complete\"")) => {
            let kept = members(&result).unwrap_or_default();
            message::object(
                kept.iter().filter(|(key, _)| key != "resultType").map(|(key, value)| (key.as_ref(), *value)),
            )
        }
        (Era::Modern, Some(_)) | (Era::Legacy, _) => result,
    }
}

async fn answer(
    gateway: &Arc<Inner>,
    caller: &Caller,
    question: &Question,
    back: &Back,
    cancel: &CancellationToken,
) -> Reply {
    let params = params_of(question.params.as_deref())?;
    let passage = |own: &[&str]| Passage {
        era: caller.era,
        meta: field(&params, "_meta"),
        others: params
            .iter()
            .filter(|(key, _)| key != "_meta" && !own.contains(&key.as_ref()))
            .map(|(key, value)| (key.as_ref(), *value))
            .collect(),
        back,
        cancel,
    };
    match (&*question.method, caller.era) {
        ("server/discover", Era::Modern) => Ok(discover(gateway, &caller.endpoint_mode)),
        ("tools/list", _) => lists::tools(gateway, caller, &params),
        ("prompts/list", _) => lists::prompts(gateway, caller, &params),
        ("resources/list", _) => lists::resources(gateway, caller, &params),
        ("resources/templates/list", _) => lists::templates(gateway, caller, &params),
        ("tools/call", _) => call_tool(gateway, caller, &params, passage(&["name", "arguments"])).await,
        ("prompts/get", _) => {
            let name = required(&params, "name")?;
            let (server, own) =
                find(gateway, caller, caller.endpoint_mode.name_in(&name)).ok_or_else(|| unknown("prompt", &name))?;
            let subject = vec![("name", quote(own))];
            relayed(relay(&server, Relayed::GetPrompt, subject, Some(own), &passage(&["name"])).await)
        }
        ("resources/read", _) => {
            let uri = required(&params, "uri")?;
            if let Some(contract) = lists::read_contract(gateway, caller, &uri) {
                return contract.map_err(|()| no_resource(&uri));
            }
            let (server, own) =
                find(gateway, caller, caller.endpoint_mode.uri_in(&uri)).ok_or_else(|| no_resource(&uri))?;
            let reply = relayed(
                relay(&server, Relayed::ReadResource, vec![("uri", quote(own))], Some(own), &passage(&["uri"])).await,
            );
            lists::read_result(reply, caller, server.name())
        }
        ("completion/complete", _) => complete(gateway, caller, &params, &passage(&["ref"])).await,
        ("ping", Era::Legacy) => Ok("{}".to_owned()),
        ("logging/setLevel", Era::Legacy) => set_level(gateway, caller, &params, &passage(&["level"])).await,
        ("resources/subscribe", Era::Legacy) => {
            subscribe(gateway, caller, &params, Relayed::Subscribe, &passage(&["uri"])).await
        }
        ("resources/unsubscribe", Era::Legacy) => {
            subscribe(gateway, caller, &params, Relayed::Unsubscribe, &passage(&["uri"])).await
        }
        (method, _) => Err(RpcError::method_not_found(&four::quoted(method))),
    }
}

/// A call, through one of the four tools or directly.
async fn call_tool(gateway: &Arc<Inner>, caller: &Caller, params: &Members<'_>, passage: Passage<'_>) -> Reply {
    let name = required(params, "name")?;
    let arguments = field(params, "arguments").unwrap_or("{}");
    let wanted = match &caller.endpoint_mode {
        EndpointMode::Four => match (Variant::from_tool(&name), name.as_ref()) {
            (Some(variant), _) => Wanted::Variant { variant, parameters: arguments },
            (None, four::RETRIEVE) => return four::retrieve(gateway, caller, arguments),
            (None, _) => {
                let error = four::no_such_tool(&name);
                return call::refuse_unknown(gateway, caller, &name, arguments, error).await;
            }
        },
        EndpointMode::Server(_) | EndpointMode::Direct => match caller.endpoint_mode.tool_in(&name) {
            Some(name) => Wanted::Direct { name, arguments, meta: field(params, "_meta") },
            None => {
                let error = unknown("tool", &name);
                return call::refuse_unknown(gateway, caller, &name, arguments, error).await;
            }
        },
    };
    call::run(gateway, caller, CallRequest { wanted, passage }).await
}

/// The server an agent means, if the agent may see it and it is enabled.
fn find<'n>(gateway: &Inner, caller: &Caller, name: Option<(ServerName, &'n str)>) -> Option<(Arc<Server>, &'n str)> {
    let (server, own) = name?;
    let snapshot = gateway.snapshot.load();
    let server = snapshot
        .servers
        .get(&server)
        .filter(|server| server.settings.enabled && caller.agent.scope.sees(server.name()))?;
    Some((Arc::clone(server), own))
}

fn relayed(answer: Result<Reply, crate::upstream::UpstreamError>) -> Reply {
    answer.unwrap_or_else(|error| {
        let data = serde_json::json!({"code": error.code()});
        Err(RpcError::new(message::INTERNAL_ERROR, error.for_agent()).with_data(&data))
    })
}

fn unknown(kind: &str, name: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("Unknown {kind}: {}", four::quoted(name)))
}

fn no_resource(uri: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, "Resource not found").with_data(&serde_json::json!({"uri": uri}))
}

async fn complete(gateway: &Arc<Inner>, caller: &Caller, params: &Members<'_>, passage: &Passage<'_>) -> Reply {
    let reference = field(params, "ref").ok_or_else(|| RpcError::new(INVALID_PARAMS, "params.ref is required"))?;
    let word = |key: &str| member(reference, key).and_then(string_value);
    let (key, found) = match (word("name"), word("uri")) {
        (Some(name), _) => (
            "name",
            find(gateway, caller, caller.endpoint_mode.name_in(&name)).map(|(server, own)| (server, own.to_owned())),
        ),
        (None, Some(uri)) => (
            "uri",
            find(gateway, caller, caller.endpoint_mode.uri_in(&uri)).map(|(server, own)| (server, own.to_owned())),
        ),
        (None, None) => return Err(RpcError::new(INVALID_PARAMS, "params.ref must name a prompt or a resource")),
    };
    let (server, own) =
        found.ok_or_else(|| RpcError::new(INVALID_PARAMS, "params.ref names nothing that is offered here"))?;
    let reference = message::with_members(reference, &[(key, &quote(&own))]);
    relayed(relay(&server, Relayed::Complete, vec![("ref", reference)], None, passage).await)
}

/// Remembers the level and tells the servers that keep one; each session still gets only what it asked for.
async fn set_level(gateway: &Arc<Inner>, caller: &Caller, params: &Members<'_>, passage: &Passage<'_>) -> Reply {
    let word = required(params, "level")?;
    let level = LogLevel::parse(&word)
        .ok_or_else(|| RpcError::new(INVALID_PARAMS, "params.level must be a syslog level, debug to emergency"))?;
    if let Some(session) = &caller.session {
        session.set_level(level);
    }
    let snapshot = gateway.snapshot.load_full();
    let shown = snapshot.servers.values().filter(|server| {
        server.settings.enabled
            && caller.endpoint_mode.shows(server.name())
            && caller.agent.scope.sees(server.name())
            && server.keeps_log_level()
    });
    let told =
        shown.map(|server| relay(server, Relayed::SetLevel, vec![("level", quote(level.as_str()))], None, passage));
    // A server that does not listen costs its log messages, not the agent's request.
    let _answers = futures::future::join_all(told).await;
    Ok("{}".to_owned())
}

async fn subscribe(
    gateway: &Arc<Inner>,
    caller: &Caller,
    params: &Members<'_>,
    relayed_as: Relayed,
    passage: &Passage<'_>,
) -> Reply {
    let uri = required(params, "uri")?;
    let (server, own) = find(gateway, caller, caller.endpoint_mode.uri_in(&uri)).ok_or_else(|| no_resource(&uri))?;
    if let Some(session) = &caller.session {
        let mut uris = session.uris.lock().unwrap_or_else(PoisonError::into_inner);
        match relayed_as {
            Relayed::Unsubscribe => drop(uris.remove(uri.as_ref())),
            _ => drop(uris.insert(uri.to_string())),
        }
    }
    // Another agent may still want to hear of it, so the server is never told to stop.
    if relayed_as == Relayed::Subscribe && server.offers().can_subscribe {
        relayed(relay(&server, relayed_as, vec![("uri", quote(own))], None, passage).await)?;
    }
    Ok("{}".to_owned())
}

/// The handshake of the older kind.
pub(crate) fn initialize(
    gateway: &Inner,
    endpoint_mode: &EndpointMode,
    agent: &Agent,
    question: &Question,
) -> Result<(Session, String), RpcError> {
    let params = params_of(question.params.as_deref())?;
    let wanted = required(&params, "protocolVersion")?;
    let is_known = VERSIONS.contains(&wanted.as_ref()) && wanted != MODERN_VERSION;
    let version = if is_known { wanted.as_ref() } else { LEGACY_VERSION };
    let capabilities: Arc<str> = field(&params, "capabilities").unwrap_or("{}").into();
    let client = field(&params, "clientInfo").and_then(client_name);
    let session = Session::new(agent.name.clone(), endpoint_mode.clone(), client, capabilities);
    let result = message::object([
        ("protocolVersion", quote(version).as_str()),
        ("capabilities", &capabilities_of(gateway, endpoint_mode, Era::Legacy)),
        ("serverInfo", &IMPLEMENTATION),
        ("instructions", &quote(four::instructions(endpoint_mode))),
    ]);
    Ok((session, result))
}

/// The welcome of the newer kind.
fn discover(gateway: &Inner, endpoint_mode: &EndpointMode) -> String {
    let versions = serde_json::json!(*VERSIONS).to_string();
    message::object([
        ("supportedVersions", versions.as_str()),
        ("capabilities", &capabilities_of(gateway, endpoint_mode, Era::Modern)),
        ("instructions", &quote(four::instructions(endpoint_mode))),
        ("ttlMs", "60000"),
        ("cacheScope", "\"private\""),
        ("_meta", &format!("{{\"io.modelcontextprotocol/serverInfo\":{}}}", IMPLEMENTATION.as_str())),
    ])
}

/// What this endpoint_mode can do at this moment. Behind `/mcp/s/NAME` that is what the server can do and we pass on.
fn capabilities_of(gateway: &Inner, endpoint_mode: &EndpointMode, era: Era) -> String {
    let snapshot = gateway.snapshot.load();
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

/// Opens a subscription of the newer kind: gives the acknowledgement and what follows it.
pub(crate) fn listen(
    gateway: &Inner,
    caller: &Caller,
    id: &str,
    question: &Question,
) -> Result<(String, mpsc::Receiver<String>), RpcError> {
    let params = params_of(question.params.as_deref())?;
    let wanted = field(&params, "notifications").unwrap_or("{}");
    let is_set = |key: &str| member(wanted, key) == Some("true");
    let uris: Vec<String> =
        member(wanted, "resourceSubscriptions").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    let granted = message::object(
        members(wanted)
            .unwrap_or_default()
            .iter()
            .filter(|(key, _)| {
                matches!(
                    key.as_ref(),
                    "toolsListChanged" | "promptsListChanged" | "resourcesListChanged" | "resourceSubscriptions"
                )
            })
            .map(|(key, value)| (key.as_ref(), *value)),
    );
    let (send, receive) = Audience::channel();
    let wants = Wants {
        tools: is_set("toolsListChanged"),
        prompts: is_set("promptsListChanged"),
        resources: is_set("resourcesListChanged"),
        uris: Arc::new(std::sync::Mutex::new(uris.into_iter().collect())),
    };
    let meta = format!("{{\"io.modelcontextprotocol/subscriptionId\":{id}}}");
    let acknowledged = message::object([("notifications", granted.as_str()), ("_meta", &meta)]);
    gateway.audience.join(Listener {
        agent: Arc::clone(&caller.agent),
        endpoint_mode: caller.endpoint_mode.clone(),
        wants,
        subscription: Some(id.to_owned()),
        send,
    });
    Ok((message::notification("notifications/subscriptions/acknowledged", &acknowledged), receive))
}

/// In direct mode a tool may want some of its arguments repeated in headers.
pub(crate) fn check_parameter_headers(
    gateway: &Inner,
    caller: &Caller,
    question: &Question,
    given: &HeaderMap,
) -> Result<(), RpcError> {
    if caller.endpoint_mode == EndpointMode::Four || &*question.method != "tools/call" {
        return Ok(());
    }
    let snapshot = gateway.snapshot.load();
    let name = tool_name(question).and_then(|name| caller.endpoint_mode.tool_in(&name));
    let name = name.filter(|name| caller.agent.scope.sees(name.server()));
    let Some(tool) = name.and_then(|name| snapshot.catalog.resolve(&name).cloned()) else { return Ok(()) };
    let arguments = question.params.as_deref().and_then(|params| member(params, "arguments")).unwrap_or("{}");
    headers::check_parameters(given, &tool.offered, arguments).map_err(|reason| RpcError::new(HEADER_MISMATCH, reason))
}
