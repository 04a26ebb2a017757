//! Dispatches MCP requests of agents, from HTTP and standard input alike.
//!
//! [`begin`] turns a request into an [`InFlight`]: a future for the answer, and the events before it. The transport
//! polls it and decides how events travel. It never sees the difference between a list, a search and a call.
//!
//! | request | answered from |
//! |---|---|
//! | `tools/list`, `prompts/list`, `resources/list`, `server/discover` | the snapshot, so no server can delay it |
//! | `tools/call` of `retrieve_tools` | the snapshot's search index |
//! | `tools/call` of anything else | the path of a call, `call.rs` |
//! | `prompts/get`, `resources/read`, `completion/complete` | the one server that the name belongs to |
//!
//! Invariants:
//!
//! - **A server outside the token's scope does not exist.** Every lookup goes through [`find`] or the catalog, which
//!   check scope and endpoint mode. The error for a hidden server is the error for a typo.
//! - **Nothing is retyped.** Parameters are slices of the agent's own text. Members that the gateway does not know
//!   travel to the server unchanged.
//! - **Eras meet here.** [`dress`] adds or removes `resultType`, so that the rest of the crate need not care which
//!   revision the agent speaks.
//!
//! Why no trait per method? There are a dozen methods, and MCP lists them. One `match` shows all, and the compiler
//! checks that each returns a reply.

use std::sync::Arc;

use http::HeaderMap;
use mcpproxy_core::json::{OwnedObject, members, quote, string_value};
use mcpproxy_core::{ToolName, Understood, Variant, understand};
use mcpproxy_store::SessionChange;
use tokio_util::sync::CancellationToken;

use super::http::tool_name;
use super::reach::{find, has_address, has_prompt};
use super::{four, handshake, links, lists};
use crate::agents::{AgentChannel, Charge, ConnectedAgent, EndpointMode, InFlight, LogLevel, OnDrop};
use crate::call::{self, CallRequest, Target};
use crate::headers;
use crate::message::{
    self, HEADER_MISMATCH, ID_MAX_BYTES, INVALID_PARAMS, Members, Reply, RpcError, field, member, required,
};
use crate::protocol::Era;
use crate::record::RequestedCall;
use crate::replicas;
use crate::state::SharedState;
use crate::upstream::{Passage, Relayed, UpstreamError, relay};

/// A request of an agent, with owned text.
#[derive(Clone)]
pub(crate) struct AgentRequest {
    pub(crate) method: Arc<str>,
    params: Option<Arc<OwnedObject>>,
    /// Memory of the message, for as long as anything needs its text.
    _charge: Option<Arc<Charge>>,
}

impl AgentRequest {
    pub(crate) fn new(method: &str, params: Option<&str>) -> Result<Self, RpcError> {
        let invalid = || RpcError::new(INVALID_PARAMS, "params must be an object");
        let params = params.map(|params| OwnedObject::new(params).ok_or_else(invalid)).transpose()?;
        Ok(Self { method: method.into(), params: params.map(Arc::new), _charge: None })
    }

    /// Sets the memory that the message counts for.
    pub(crate) fn charged(self, charge: Option<Charge>) -> Self {
        Self { _charge: charge.map(Arc::new), ..self }
    }

    /// Returns the members of the `params`. Absent `params` are empty.
    pub(crate) fn params(&self) -> Members<'_> {
        self.params.as_ref().map(|params| params.members()).unwrap_or_default()
    }

    /// Returns one member of the `params`.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.params.as_ref()?.member(name)
    }
}

/// Starts a request. `id` lets an agent with a session cancel it.
pub(crate) fn begin(
    state: &Arc<SharedState>,
    agent: ConnectedAgent,
    request: AgentRequest,
    on_drop: OnDrop,
    id: Option<&str>,
) -> InFlight {
    let usage = state.usages.of(&agent.identity.name);
    let in_use = match usage.begin_request() {
        Ok(in_use) => in_use,
        Err(limit) => return InFlight::answered(Err(limit.into())),
    };
    let cancel = CancellationToken::new();
    let open_request = agent.session.as_ref().zip(id).map(|(session, id)| session.begin(id, cancel.clone()));
    let progress_token = request.param("_meta").and_then(|meta| member(meta, "progressToken"));
    // A request with a token that is too long gets no progress.
    let progress_token = progress_token.filter(|token| token.len() <= ID_MAX_BYTES).map(Arc::from);
    let (capabilities, session) = (Arc::clone(&agent.capabilities), agent.session.clone());
    let identity = (Arc::clone(&agent.identity), usage);
    let (channel, events) = AgentChannel::new(progress_token, agent.log_level, capabilities, identity, session);
    let progress = channel.progress();
    let (state, token) = (Arc::clone(state), cancel.clone());
    let working = state.in_progress.begin();
    let work = async move {
        // Counts for as long as the work runs, even if the agent hangs up.
        let _counted = (in_use, working);
        let reply = answer(&state, &agent, &request, &channel, &token).await;
        let reply = reply.map(|result| dress(result, agent.era));
        channel.count_answer(reply.as_ref().map_or(0, String::len));
        reply
    };
    InFlight::new(Box::pin(work), events, on_drop, cancel, open_request).counted_by(progress)
}

/// Adapts a result to the agent's era. The stateless one needs `resultType`.
fn dress(result: String, era: Era) -> String {
    let marked = member(&result, "resultType");
    match (era, marked) {
        (Era::Modern, None) => complete_type(result),
        (Era::Legacy, Some("\"complete\"")) => {
            let kept = members(&result).unwrap_or_default();
            message::object(
                kept.iter().filter(|(key, _)| key != "resultType").map(|(key, value)| (key.as_ref(), *value)),
            )
        }
        (Era::Modern, Some(_)) | (Era::Legacy, _) => result,
    }
}

/// Adds `resultType` to a result without one. The rest is not copied, because it may be megabytes.
fn complete_type(mut result: String) -> String {
    const TYPE: &str = "\"resultType\":\"complete\"}";
    let end = result.trim_end().len();
    let open = result.get(..end).and_then(|result| result.strip_suffix('}')).map(str::trim_end);
    let (length, is_first) = match open {
        Some(open) => (open.len(), open.ends_with('{')),
        None => return message::with_members(&result, &[("resultType", "\"complete\"")]),
    };
    result.truncate(length);
    if !is_first {
        result.push(',');
    }
    result.push_str(TYPE);
    result
}

async fn answer(
    state: &Arc<SharedState>,
    agent: &ConnectedAgent,
    request: &AgentRequest,
    channel: &AgentChannel,
    cancel: &CancellationToken,
) -> Reply {
    let params = request.params();
    let passage = |own: &[&str]| Passage {
        era: agent.era,
        meta: field(&params, "_meta"),
        others: params
            .iter()
            .filter(|(key, _)| key != "_meta" && !own.contains(&key.as_ref()))
            .map(|(key, value)| (key.as_ref(), *value))
            .collect(),
        channel,
        cancel,
    };
    if request.method.ends_with("/list") {
        // Lists can be large, and no server limits how many are made.
        expect_answer(channel, cancel).await?;
    }
    // Everything but a call is boxed: each call would move and clear the room for all of them.
    match (&*request.method, agent.era) {
        ("server/discover", Era::Modern) => Ok(handshake::discover(state, &agent.endpoint_mode)),
        ("tools/list", _) => lists::tools(state, agent, &params),
        ("prompts/list", _) => lists::prompts(state, agent, &params),
        ("resources/list", _) => lists::resources(state, agent, &params),
        ("resources/templates/list", _) => lists::templates(state, agent, &params),
        ("tools/call", _) => call_tool(state, agent, &params, passage(&["name", "arguments"])).await,
        ("prompts/get", _) => {
            let name = required(&params, "name")?;
            let found = find(state, agent, agent.endpoint_mode.name_in(&name));
            let found = found.filter(|(server, own)| has_prompt(state, server.name(), own));
            let (server, own) = found.ok_or_else(|| unknown("prompt", &name))?;
            let subject = vec![("name", quote(own))];
            let reply =
                relayed(Box::pin(relay(&server, Relayed::GetPrompt, subject, Some(own), &passage(&["name"]))).await);
            reply.map(|result| links::in_prompt(state, agent, server.name(), result))
        }
        ("resources/read", _) => {
            let uri = required(&params, "uri")?;
            if let Some(contract) = lists::read_contract(state, agent, &uri) {
                return contract.map_err(|()| no_resource(&uri));
            }
            let (server, own) =
                find(state, agent, agent.endpoint_mode.uri_in(&uri)).ok_or_else(|| no_resource(&uri))?;
            let reply = relayed(
                Box::pin(relay(
                    &server,
                    Relayed::ReadResource,
                    vec![("uri", quote(own))],
                    Some(own),
                    &passage(&["uri"]),
                ))
                .await,
            );
            lists::read_result(reply, agent, server.name())
        }
        ("completion/complete", _) => Box::pin(complete(state, agent, &params, &passage(&["ref"]))).await,
        ("ping", Era::Legacy) => Ok("{}".to_owned()),
        ("logging/setLevel", Era::Legacy) => Box::pin(set_level(state, agent, &params, &passage(&["level"]))).await,
        ("resources/subscribe", Era::Legacy) => {
            Box::pin(subscribe(state, agent, &params, Relayed::Subscribe, &passage(&["uri"]))).await
        }
        ("resources/unsubscribe", Era::Legacy) => {
            Box::pin(subscribe(state, agent, &params, Relayed::Unsubscribe, &passage(&["uri"]))).await
        }
        (method, _) => Err(RpcError::method_not_found(&four::quoted(method))),
    }
}

/// Waits until the agent's answers leave room for one more, or the agent cancels.
async fn expect_answer(channel: &AgentChannel, cancel: &CancellationToken) -> Result<(), RpcError> {
    tokio::select! {
        () = channel.expect_answer() => Ok(()),
        () = cancel.cancelled() => relayed(Err(UpstreamError::Cancelled)).map(drop),
    }
}

/// Calls a tool, through one of the four tools or directly.
async fn call_tool(
    state: &Arc<SharedState>,
    agent: &ConnectedAgent,
    params: &Members<'_>,
    passage: Passage<'_>,
) -> Reply {
    let name = required(params, "name")?;
    let arguments = field(params, "arguments").unwrap_or("{}");
    let understood;
    let target = match &agent.endpoint_mode {
        EndpointMode::Four => match (Variant::from_tool(&name), name.as_ref()) {
            (Some(variant), _) => {
                let found = understand(arguments, |bare| tools_named(state, agent, bare));
                let Understood { parameters, fields, candidates } = found;
                understood = parameters;
                let parameters: &str = &understood;
                Target::Variant { variant, parameters, fields: fields.or_else(|| members(parameters)), candidates }
            }
            (None, four::RETRIEVE) => {
                expect_answer(passage.channel, passage.cancel).await?;
                return four::retrieve(state, agent, arguments);
            }
            (None, _) => {
                let error = four::no_such_tool(&name);
                let requested = RequestedCall { variant: None, direct: None, arguments, meta: None };
                return Box::pin(call::refuse_unknown(state, agent, &name, requested, error)).await;
            }
        },
        EndpointMode::Server(_) | EndpointMode::Direct => match agent.endpoint_mode.tool_in(&name) {
            Some(name) => Target::Direct { name, arguments, meta: field(params, "_meta") },
            None => {
                let error = unknown("tool", &name);
                let meta = field(params, "_meta");
                let requested = RequestedCall { variant: None, direct: None, arguments, meta };
                return Box::pin(call::refuse_unknown(state, agent, &name, requested, error)).await;
            }
        },
    };
    let server = target.server();
    let reply = call::answer(state, agent, CallRequest { target, passage }).await;
    match server {
        Some(server) => reply.map(|result| links::in_result(state, agent, &server, result)),
        None => reply,
    }
}

/// Finds the tools with this name, of all servers that the agent may see.
fn tools_named(state: &SharedState, agent: &ConnectedAgent, name: &str) -> Vec<ToolName> {
    let snapshot = state.snapshot.load();
    let named = snapshot.catalog.visible(&agent.identity.scope).filter(|tool| tool.name.tool() == name);
    named.map(|tool| tool.name.clone()).collect()
}

fn relayed(answer: Result<Reply, UpstreamError>) -> Reply {
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

async fn complete(
    state: &Arc<SharedState>,
    agent: &ConnectedAgent,
    params: &Members<'_>,
    passage: &Passage<'_>,
) -> Reply {
    let reference = field(params, "ref").ok_or_else(|| RpcError::new(INVALID_PARAMS, "params.ref is required"))?;
    let word = |key: &str| member(reference, key).and_then(string_value);
    let (key, found) = match (word("name"), word("uri")) {
        (Some(name), _) => {
            let found = find(state, agent, agent.endpoint_mode.name_in(&name));
            let found = found.filter(|(server, own)| has_prompt(state, server.name(), own));
            ("name", found.map(|(server, own)| (server, own.to_owned())))
        }
        (None, Some(uri)) => {
            let found = find(state, agent, agent.endpoint_mode.uri_in(&uri));
            let found = found.filter(|(server, own)| has_address(state, server.name(), own));
            ("uri", found.map(|(server, own)| (server, own.to_owned())))
        }
        (None, None) => return Err(RpcError::new(INVALID_PARAMS, "params.ref must name a prompt or a resource")),
    };
    let (server, own) = found
        .ok_or_else(|| RpcError::new(INVALID_PARAMS, "params.ref names a prompt or resource that does not exist"))?;
    let reference = message::with_members(reference, &[(key, &quote(&own))]);
    relayed(relay(&server, Relayed::Complete, vec![("ref", reference)], None, passage).await)
}

/// Sets the log level of the session, and of servers that have one. Each session still gets only its own level.
async fn set_level(
    state: &Arc<SharedState>,
    agent: &ConnectedAgent,
    params: &Members<'_>,
    passage: &Passage<'_>,
) -> Reply {
    let word = required(params, "level")?;
    let level = LogLevel::parse(&word)
        .ok_or_else(|| RpcError::new(INVALID_PARAMS, "params.level must be a syslog level, debug to emergency"))?;
    if let Some(session) = &agent.session {
        session.set_level(level);
        replicas::share_if_possible(state, session, SessionChange::Level(level.as_str())).await;
    }
    let snapshot = state.snapshot.load_full();
    let shown = snapshot.servers.values().filter(|server| {
        server.settings.enabled
            && agent.endpoint_mode.shows(server.name())
            && agent.identity.scope.sees(server.name())
            && server.keeps_log_level()
    });
    let told =
        shown.map(|server| relay(server, Relayed::SetLevel, vec![("level", quote(level.as_str()))], None, passage));
    // A server that fails here only loses its log messages. The agent's request succeeds.
    let _answers = futures::future::join_all(told).await;
    Ok("{}".to_owned())
}

async fn subscribe(
    state: &Arc<SharedState>,
    agent: &ConnectedAgent,
    params: &Members<'_>,
    relayed_as: Relayed,
    passage: &Passage<'_>,
) -> Reply {
    let uri = required(params, "uri")?;
    let (server, own) = find(state, agent, agent.endpoint_mode.uri_in(&uri)).ok_or_else(|| no_resource(&uri))?;
    let was_subscribed = agent.session.as_ref().is_some_and(|session| session.uris.contains(&uri));
    if let Some(session) = &agent.session {
        match relayed_as {
            Relayed::Unsubscribe => session.uris.remove(&uri),
            Relayed::ReadResource | Relayed::GetPrompt | Relayed::Complete | Relayed::Subscribe | Relayed::SetLevel => {
                session.uris.insert(&uri)?;
            }
        }
    }
    // Other agents may be subscribed too, so the server is never told to stop.
    if relayed_as == Relayed::Subscribe && server.offers().can_subscribe {
        let reply = relayed(relay(&server, relayed_as, vec![("uri", quote(own))], None, passage).await);
        if let (Err(_), Some(session), false) = (&reply, &agent.session, was_subscribed) {
            // A subscription that failed must not count.
            session.uris.remove(&uri);
        }
        reply?;
    }
    if let Some(session) = &agent.session {
        let change = match relayed_as {
            Relayed::Unsubscribe => SessionChange::Unsubscribed(&uri),
            Relayed::ReadResource | Relayed::GetPrompt | Relayed::Complete | Relayed::Subscribe | Relayed::SetLevel => {
                SessionChange::Subscribed(&uri)
            }
        };
        replicas::share_if_possible(state, session, change).await;
    }
    Ok("{}".to_owned())
}

/// Checks the `Mcp-Param-*` headers of a direct call against its arguments.
pub(crate) fn check_parameter_headers(
    state: &SharedState,
    agent: &ConnectedAgent,
    request: &AgentRequest,
    given: &HeaderMap,
) -> Result<(), RpcError> {
    if agent.endpoint_mode == EndpointMode::Four || &*request.method != "tools/call" {
        return Ok(());
    }
    let snapshot = state.snapshot.load();
    let name = tool_name(request).and_then(|name| agent.endpoint_mode.tool_in(&name));
    let name = name.filter(|name| agent.identity.scope.sees(name.server()));
    let Some(tool) = name.and_then(|name| snapshot.catalog.resolve(&name).cloned()) else { return Ok(()) };
    let arguments = request.param("arguments").unwrap_or("{}");
    headers::check_parameters(given, &tool.offered, arguments).map_err(|reason| RpcError::new(HEADER_MISMATCH, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_say_that_they_are_complete() {
        for result in ["{}", " { } ", r#"{"a":1}"#, "{\"content\": [ {} ] }\n", r#"{"a":"}"}"#] {
            let dressed = dress(result.to_owned(), Era::Modern);
            let (dressed, expected): (serde_json::Value, serde_json::Value) = (
                serde_json::from_str(&dressed).unwrap(),
                serde_json::from_str(&message::with_members(result, &[("resultType", "\"complete\"")])).unwrap(),
            );
            assert_eq!(dressed, expected, "{result}");
        }
        let asks = r#"{"resultType":"input_required"}"#;
        assert_eq!(dress(asks.to_owned(), Era::Modern), asks);
    }
}
