//! Streamable HTTP for agents of both eras, at `/mcp`, `/mcp/s/NAME` and `/mcp/direct`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcpproxy_core::ServerName;
use mcpproxy_core::json::{self, string_value};

use super::challenge::{self, Target};
use super::dispatch::{self, AgentRequest};
use super::receive::{authenticate, expected_bytes, receive};
use super::respond::{self, ServerRequestRoute};
use super::revision::{self, Modern};
use super::{listen, sessions};
use crate::agents::{
    Authenticated, ConnectedAgent, EndpointMode, Event, InFlight, LogLevel, OnDrop, RetryOf, Session, Step, subject,
};
use crate::gateway::Gateway;
use crate::headers;
use crate::message::{self, Members, Message, RpcError, id_of};
use crate::offload;
use crate::protocol::{Era, MODERN_VERSION};
use crate::replicas;
use crate::state::SharedState;

/// Routes of all three endpoint modes. The web crate mounts them and checks `Host` and `Origin`.
pub fn router(gateway: &Gateway) -> Router {
    Router::new()
        .route(
            "/mcp",
            any(|State(state): State<Arc<SharedState>>, request: Request| enter(state, EndpointMode::Four, request)),
        )
        .route(
            "/mcp/direct",
            any(|State(state): State<Arc<SharedState>>, request: Request| enter(state, EndpointMode::Direct, request)),
        )
        .route("/mcp/s/{name}", any(at_server))
        .route("/.well-known/oauth-protected-resource", any(challenge::metadata))
        .route("/.well-known/oauth-protected-resource/{*path}", any(challenge::metadata))
        .with_state(Arc::clone(&gateway.state))
}

async fn at_server(State(state): State<Arc<SharedState>>, Path(name): Path<String>, request: Request) -> Response {
    let sender = match authenticate(&state, target(&request)).await {
        Ok(sender) => sender,
        Err(response) => return *response,
    };
    if !state.snapshot.load().settings.direct_mode {
        return direct_mode_is_off();
    }
    // A disabled server, or one outside the token's scope, is answered like one that does not exist.
    let known = ServerName::parse(&name).ok().filter(|name| {
        let snapshot = state.snapshot.load();
        sender.agent.scope.sees(name) && snapshot.servers.get(name).is_some_and(|server| server.settings.enabled)
    });
    match known {
        Some(name) => by_method(state, EndpointMode::Server(name), sender, request).await,
        None => respond::plain(StatusCode::NOT_FOUND, "no such server; `mcpproxy servers list` shows the names\n"),
    }
}

async fn enter(state: Arc<SharedState>, endpoint_mode: EndpointMode, request: Request) -> Response {
    match authenticate(&state, target(&request)).await {
        Ok(_) if endpoint_mode == EndpointMode::Direct && !state.snapshot.load().settings.direct_mode => {
            direct_mode_is_off()
        }
        Ok(sender) => by_method(state, endpoint_mode, sender, request).await,
        Err(response) => *response,
    }
}

fn target(request: &Request) -> Target<'_> {
    Target { headers: request.headers(), uri: request.uri() }
}

fn direct_mode_is_off() -> Response {
    respond::plain(StatusCode::NOT_FOUND, "the operator has turned direct mode off (`direct_mode`); connect to /mcp\n")
}

async fn by_method(
    state: Arc<SharedState>,
    endpoint_mode: EndpointMode,
    sender: Authenticated,
    request: Request,
) -> Response {
    let is_modern = request.headers().get(headers::VERSION).is_some_and(|version| version == MODERN_VERSION);
    match *request.method() {
        Method::POST => post(state, endpoint_mode, sender, request).await,
        Method::GET if !is_modern => sessions::get(&state, endpoint_mode, sender, request.headers()).await,
        Method::DELETE if !is_modern => {
            sessions::delete(&state, &endpoint_mode, &sender.agent, request.headers()).await
        }
        _ => not_allowed(),
    }
}

async fn post(
    state: Arc<SharedState>,
    endpoint_mode: EndpointMode,
    sender: Authenticated,
    request: Request,
) -> Response {
    if offload::is_large(expected_bytes(request.body())) {
        // Boxed, because the future of every small request would have room for it.
        return Box::pin(offload::at_low_priority(take_message(state, endpoint_mode, sender, request))).await;
    }
    take_message(state, endpoint_mode, sender, request).await
}

/// Reads a message and answers it.
async fn take_message(
    state: Arc<SharedState>,
    endpoint_mode: EndpointMode,
    sender: Authenticated,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let (bytes, charge) = match receive(&state, &sender.agent, &parts.headers, body).await {
        Ok(received) => received,
        Err(response) => return *response,
    };
    let text = match json::read(&bytes) {
        Ok(text) => text,
        Err(error) => {
            let id = std::str::from_utf8(&bytes).ok().filter(|_| !error.kind.is_syntax()).and_then(id_of);
            return respond::rejected(id, RpcError::from_read(&error));
        }
    };
    match Message::parse(text) {
        Err(error) => respond::rejected(id_of(text), error),
        Ok(Message::Request { id, method, params }) => {
            let read = AgentRequest::new(&method, params).and_then(|request| {
                let modern = revision::of_http(&parts.headers, &method, &request.params())?;
                Ok((request.charged(charge), modern))
            });
            match read {
                Ok((request, Some(modern))) => {
                    take_modern(state, endpoint_mode, sender, (id, modern), request, &parts.headers).await
                }
                Ok((request, None)) => take_legacy(state, endpoint_mode, sender, id, request, &parts.headers).await,
                Err(error) => respond::rejected(Some(id), error),
            }
        }
        Ok(Message::Notification { method, params }) => {
            match sessions::find(&state, &endpoint_mode, &sender.agent, &parts.headers).await {
                Err(response) => *response,
                Ok(session) => sessions::take_notification(&state, session, (method.as_ref(), params)).await,
            }
        }
        Ok(Message::Response { id, outcome }) => {
            match sessions::find(&state, &endpoint_mode, &sender.agent, &parts.headers).await {
                Err(response) => *response,
                Ok(session) => sessions::take_response(&state, session, id, outcome).await,
            }
        }
    }
}

/// Takes a stateless request.
async fn take_modern(
    state: Arc<SharedState>,
    endpoint_mode: EndpointMode,
    sender: Authenticated,
    (id, modern): (&str, Modern),
    request: AgentRequest,
    headers: &HeaderMap,
) -> Response {
    let Modern { client, capabilities, log_level } = modern;
    let agent = ConnectedAgent {
        identity: sender.agent,
        lifetime: sender.lifetime,
        client,
        era: Era::Modern,
        endpoint_mode,
        capabilities: capabilities.into(),
        log_level,
        session: None,
        user: None,
    };
    if &*request.method == "subscriptions/listen" {
        return match listen::listen(&state, &agent, id, &request) {
            Ok((acknowledged, receive, in_use)) => {
                let notifications = (receive, in_use);
                respond::standing(
                    Some(acknowledged),
                    notifications,
                    agent.lifetime,
                    Default::default(),
                    state.stopping.clone(),
                )
            }
            Err(error) => respond::answer(id, &Err(error), Era::Modern, false, None),
        };
    }
    if let Err(error) = dispatch::check_parameter_headers(&state, &agent, &request, headers) {
        return respond::rejected(Some(id), error);
    }
    let kept = request.clone();
    let params = kept.params();
    let in_flight = match state.parked.retry_of(&params) {
        RetryOf::Nothing => Some(dispatch::begin(&state, agent.clone(), request, OnDrop::Cancel, None)),
        RetryOf::Here => state.parked.resume(&params, &agent.identity.name),
        RetryOf::Elsewhere(gateway) => {
            let text = message::object(params.iter().map(|(key, value)| (key.as_ref(), *value)));
            let reply = Box::pin(replicas::resume(&state, &agent.identity.name, &gateway, text)).await;
            return respond::answer(id, &reply, Era::Modern, false, None);
        }
    };
    let Some(in_flight) = in_flight else {
        let error = RpcError::new(
            message::INVALID_PARAMS,
            "this requestState is unknown, used or expired; call again without it",
        );
        return respond::answer(id, &Err(error), Era::Modern, false, None);
    };
    follow_modern(&state, &agent, id, &params, in_flight).await
}

async fn follow_modern(
    state: &SharedState,
    agent: &ConnectedAgent,
    id: &str,
    params: &Members<'_>,
    mut in_flight: InFlight,
) -> Response {
    match in_flight.next().await {
        Step::Done(reply) => respond::answer(id, &reply, Era::Modern, false, in_flight.take_charge(&reply)),
        Step::Event(Event::Notify(first)) => {
            let (parked, agent) = (state.parked.clone(), agent.identity.name.clone());
            let subject = subject(params);
            respond::stream(first, in_flight, id.to_owned(), ServerRequestRoute::ByReturn { parked, agent, subject })
        }
        Step::Event(Event::Ask(asked)) => {
            let result = state.parked.park(in_flight, asked, &agent.identity.name, subject(params));
            respond::answer(id, &Ok(result), Era::Modern, false, None)
        }
    }
}

/// Takes a request with a session, or without one from simple clients.
async fn take_legacy(
    state: Arc<SharedState>,
    endpoint_mode: EndpointMode,
    sender: Authenticated,
    id: &str,
    request: AgentRequest,
    headers: &HeaderMap,
) -> Response {
    if &*request.method == "initialize" {
        return Box::pin(sessions::initialize(&state, endpoint_mode, sender.agent, id, &request)).await;
    }
    let session = match sessions::find(&state, &endpoint_mode, &sender.agent, headers).await {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let agent = legacy_agent(sender, endpoint_mode, session.clone());
    let mut in_flight = dispatch::begin(&state, agent, request, OnDrop::Finish, Some(id));
    let route = |session: Option<Arc<Session>>| session.map_or(ServerRequestRoute::Never, ServerRequestRoute::OnStream);
    loop {
        match in_flight.next().await {
            Step::Done(reply) => {
                return respond::answer(id, &reply, Era::Legacy, session.is_some(), in_flight.take_charge(&reply));
            }
            Step::Event(Event::Notify(first)) => {
                return respond::stream(first, in_flight, id.to_owned(), route(session));
            }
            Step::Event(Event::Ask(asked)) => {
                // Without a session the agent cannot answer. Dropping the request tells the server so.
                if let Some(session) = &session {
                    let first = session.ask(asked);
                    return respond::stream(
                        first,
                        in_flight,
                        id.to_owned(),
                        ServerRequestRoute::OnStream(Arc::clone(session)),
                    );
                }
            }
        }
    }
}

pub(crate) fn legacy_agent(
    sender: Authenticated,
    endpoint_mode: EndpointMode,
    session: Option<Arc<Session>>,
) -> ConnectedAgent {
    let (client, capabilities, log_level) = match &session {
        Some(session) => {
            // Until the agent sets a level, the gateway may choose.
            let level = session.level().unwrap_or(LogLevel::Info);
            (session.client.clone(), Arc::clone(&session.capabilities), Some(level))
        }
        None => (None, "{}".into(), None),
    };
    let Authenticated { agent: identity, lifetime } = sender;
    let era = Era::Legacy;
    ConnectedAgent { identity, lifetime, client, era, endpoint_mode, capabilities, log_level, session, user: None }
}

pub(super) fn not_allowed() -> Response {
    let mut response = respond::plain(StatusCode::METHOD_NOT_ALLOWED, "this endpoint takes POST\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Reads the `name` of a call, for checks before it begins.
pub(crate) fn tool_name(request: &AgentRequest) -> Option<String> {
    request.param("name").and_then(string_value).map(std::borrow::Cow::into_owned)
}
