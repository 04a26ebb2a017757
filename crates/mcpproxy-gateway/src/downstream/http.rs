//! The endpoint: Streamable HTTP for agents of both kinds, at `/mcp`, `/mcp/s/NAME` and `/mcp/direct`.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use mcpproxy_core::json::{self, members, string_value};
use mcpproxy_core::{Agent, Scope, ServerName};

use super::dispatch::{self, Question};
use super::flight::{Flight, OnDrop, Step};
use super::park::{self, Parked};
use super::respond::{self, Asking};
use super::revision::{self, Modern};
use super::session::Session;
use super::{Caller, EndpointMode};
use crate::back::{Event, LogLevel};
use crate::gateway::{Gateway, Inner};
use crate::headers;
use crate::message::{
    self, INTERNAL_ERROR, INVALID_REQUEST, Members, Message, PARSE_ERROR, RpcError, id_of, member, params_of,
};
use crate::record;
use crate::upstream::Era;
use crate::{MODERN_VERSION, audience};

/// The agent without a token, where the settings allow one.
pub(crate) const ANONYMOUS: &str = "anonymous";
/// Largest message an agent may send.
pub(crate) const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// All three doors. Host and Origin are for whoever mounts this to check.
pub fn router(gateway: &Gateway) -> Router {
    let state = Arc::clone(&gateway.inner);
    Router::new()
        .route(
            "/mcp",
            any(|State(gateway): State<Arc<Inner>>, request: Request| enter(gateway, EndpointMode::Four, request)),
        )
        .route(
            "/mcp/direct",
            any(|State(gateway): State<Arc<Inner>>, request: Request| enter(gateway, EndpointMode::Direct, request)),
        )
        .route("/mcp/s/{name}", any(at_server))
        .with_state(state)
}

async fn at_server(State(gateway): State<Arc<Inner>>, Path(name): Path<String>, request: Request) -> Response {
    let agent = match authenticate(&gateway, request.headers()).await {
        Ok(agent) => agent,
        Err(response) => return *response,
    };
    // A server that is disabled or outside the token's scope is as absent as one that does not exist.
    let known = ServerName::parse(&name).ok().filter(|name| {
        let snapshot = gateway.snapshot.load();
        agent.scope.sees(name) && snapshot.servers.get(name).is_some_and(|server| server.settings.enabled)
    });
    match known {
        Some(name) => by_method(gateway, EndpointMode::Server(name), agent, request).await,
        None => respond::plain(StatusCode::NOT_FOUND, "no such server; `mcpproxy servers list` shows the names\n"),
    }
}

async fn enter(gateway: Arc<Inner>, endpoint_mode: EndpointMode, request: Request) -> Response {
    match authenticate(&gateway, request.headers()).await {
        Ok(agent) => by_method(gateway, endpoint_mode, agent, request).await,
        Err(response) => *response,
    }
}

async fn by_method(gateway: Arc<Inner>, endpoint_mode: EndpointMode, agent: Arc<Agent>, request: Request) -> Response {
    let is_modern = request.headers().get(headers::VERSION).is_some_and(|version| version == MODERN_VERSION);
    match *request.method() {
        Method::POST => post(gateway, endpoint_mode, agent, request).await,
        Method::GET if !is_modern => get(&gateway, endpoint_mode, agent, request.headers()),
        Method::DELETE if !is_modern => delete(&gateway, &endpoint_mode, &agent, request.headers()),
        _ => not_allowed(),
    }
}

/// Who the token belongs to. No token is a read-only agent where the settings allow it.
async fn authenticate(gateway: &Inner, headers: &HeaderMap) -> Result<Arc<Agent>, Box<Response>> {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match token {
        Some((_, token)) => match gateway.agents.find(token.trim()).await {
            Ok(Some(agent)) => Ok(agent),
            Ok(None) => Err(unauthorized(
                gateway,
                "this token is unknown or was revoked; make one with `mcpproxy token create NAME`\n",
            )
            .await),
            Err(error) => {
                tracing::error!(%error, "could not look a token up");
                Err(Box::new(respond::plain(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "tokens cannot be checked at the moment\n",
                )))
            }
        },
        None if given.is_none() && gateway.snapshot.load().settings.allow_anonymous_loopback => {
            Ok(Arc::new(Agent { name: ANONYMOUS.to_owned(), scope: Scope::read_only() }))
        }
        None => Err(unauthorized(
            gateway,
            "send `Authorization: Bearer TOKEN`; make a token with `mcpproxy token create NAME`\n",
        )
        .await),
    }
}

async fn unauthorized(gateway: &Inner, text: &'static str) -> Box<Response> {
    if let Some(unrecorded) = gateway.turned_away.count() {
        let more = if unrecorded > 0 { format!(" ({unrecorded} more since the last record)") } else { String::new() };
        let record = mcpproxy_store::NewRecord {
            message: Some(format!("{}{more}", text.trim())),
            code: Some("unauthorized".to_owned()),
            ..record::blank(mcpproxy_store::Kind::Auth, mcpproxy_store::Status::Refused)
        };
        record::note(&gateway.ledger, record).await;
    }
    let mut response = respond::plain(StatusCode::UNAUTHORIZED, text);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Box::new(response)
}

async fn post(gateway: Arc<Inner>, endpoint_mode: EndpointMode, agent: Arc<Agent>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = match receive(&parts.headers, body).await {
        Ok(bytes) => bytes,
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
            let question = Question { method: method.as_ref().into(), params: params.map(Into::into) };
            let modern = params_of(params).and_then(|params| revision::of_http(&parts.headers, &method, &params));
            match modern {
                Ok(Some(modern)) => {
                    take_modern(gateway, endpoint_mode, agent, (id, modern), question, &parts.headers).await
                }
                Ok(None) => take_legacy(gateway, endpoint_mode, agent, id, question, &parts.headers).await,
                Err(error) => respond::rejected(Some(id), error),
            }
        }
        Ok(Message::Notification { method, params }) => {
            match find_session(&gateway, &endpoint_mode, &agent, &parts.headers) {
                Err(response) => *response,
                Ok(session) => {
                    if let (Some(session), "notifications/cancelled") = (session, method.as_ref())
                        && let Some(id) = params.and_then(|params| member(params, "requestId"))
                    {
                        session.cancel(id);
                    }
                    respond::empty(StatusCode::ACCEPTED)
                }
            }
        }
        Ok(Message::Response { id, outcome }) => match find_session(&gateway, &endpoint_mode, &agent, &parts.headers) {
            Err(response) => *response,
            Ok(Some(session)) if session.answer(id, outcome) => respond::empty(StatusCode::ACCEPTED),
            Ok(_) => respond::rejected(Some(id), RpcError::new(INVALID_REQUEST, "nobody asked for this response")),
        },
    }
}

/// The body, if the headers announce what we take and it stays within the limit.
async fn receive(headers: &HeaderMap, body: Body) -> Result<Bytes, Box<Response>> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let content_type = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    if !content_type.eq_ignore_ascii_case("application/json") {
        return Err(Box::new(respond::plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json\n",
        )));
    }
    let accept = text(header::ACCEPT);
    let takes = |kind: &str| {
        accept.split(',').any(|part| part.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(kind)))
    };
    if !(takes("*/*") || takes("application/json") && takes("text/event-stream")) {
        let text = "Accept must name application/json and text/event-stream\n";
        return Err(Box::new(respond::plain(StatusCode::NOT_ACCEPTABLE, text)));
    }
    let announced = text(header::CONTENT_LENGTH).parse::<usize>().unwrap_or(0);
    if announced > BODY_MAX_BYTES {
        return Err(too_large());
    }
    match Limited::new(body, BODY_MAX_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Box::new(respond::rejected(None, RpcError::new(PARSE_ERROR, "the request ended early")))),
    }
}

fn too_large() -> Box<Response> {
    let mut response = respond::plain(StatusCode::PAYLOAD_TOO_LARGE, "request body exceeds 4194304 bytes\n");
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Box::new(response)
}

/// A request with everything in it: no session before or after.
async fn take_modern(
    gateway: Arc<Inner>,
    endpoint_mode: EndpointMode,
    agent: Arc<Agent>,
    (id, modern): (&str, Modern),
    question: Question,
    headers: &HeaderMap,
) -> Response {
    let Modern { client, capabilities, log_level } = modern;
    let caller = Caller {
        agent,
        client,
        era: Era::Modern,
        endpoint_mode,
        capabilities: capabilities.into(),
        log_level,
        session: None,
    };
    if &*question.method == "subscriptions/listen" {
        return match dispatch::listen(&gateway, &caller, id, &question) {
            Ok((acknowledged, receive)) => {
                respond::standing(Some(acknowledged), receive, Default::default(), gateway.stopping.clone())
            }
            Err(error) => respond::answer(id, &Err(error), Era::Modern, false),
        };
    }
    if let Err(error) = dispatch::check_parameter_headers(&gateway, &caller, &question, headers) {
        return respond::rejected(Some(id), error);
    }
    let params = question.params.clone();
    let params = params.as_deref().and_then(members).unwrap_or_default();
    let flight = if Parked::is_retry(&params) {
        gateway.doors.parked.resume(&params, &caller.agent.name)
    } else {
        Some(dispatch::begin(&gateway, caller.clone(), question, OnDrop::Cancel, None))
    };
    let Some(flight) = flight else {
        let error = RpcError::new(
            message::INVALID_PARAMS,
            "this requestState is unknown, used or expired; call again without it",
        );
        return respond::answer(id, &Err(error), Era::Modern, false);
    };
    follow_modern(&gateway, &caller, id, &params, flight).await
}

async fn follow_modern(
    gateway: &Inner,
    caller: &Caller,
    id: &str,
    params: &Members<'_>,
    mut flight: Flight,
) -> Response {
    match flight.next().await {
        Step::Done(reply) => respond::answer(id, &reply, Era::Modern, false),
        Step::Event(Event::Say(first)) => {
            let (parked, agent) = (gateway.doors.parked.clone(), caller.agent.name.clone());
            let subject = park::subject(params);
            respond::stream(first, flight, id.to_owned(), Asking::ByReturn { parked, agent, subject })
        }
        Step::Event(Event::Ask(asked)) => {
            let result = gateway.doors.parked.park(flight, asked, &caller.agent.name, park::subject(params));
            respond::answer(id, &Ok(result), Era::Modern, false)
        }
    }
}

/// A request of the older kind, in a session or, for simple clients, without one.
async fn take_legacy(
    gateway: Arc<Inner>,
    endpoint_mode: EndpointMode,
    agent: Arc<Agent>,
    id: &str,
    question: Question,
    headers: &HeaderMap,
) -> Response {
    if &*question.method == "initialize" {
        return initialize(&gateway, endpoint_mode, agent, id, &question);
    }
    let session = match find_session(&gateway, &endpoint_mode, &agent, headers) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let caller = legacy_caller(agent, endpoint_mode, session.clone());
    let mut flight = dispatch::begin(&gateway, caller, question, OnDrop::Finish, Some(id));
    let asking = |session: Option<Arc<Session>>| session.map_or(Asking::Never, Asking::OnStream);
    loop {
        match flight.next().await {
            Step::Done(reply) => return respond::answer(id, &reply, Era::Legacy, session.is_some()),
            Step::Event(Event::Say(first)) => return respond::stream(first, flight, id.to_owned(), asking(session)),
            Step::Event(Event::Ask(asked)) => {
                // Without a session there is no way to answer; dropping the question tells the server so.
                if let Some(session) = &session {
                    let first = session.ask(asked);
                    return respond::stream(first, flight, id.to_owned(), Asking::OnStream(Arc::clone(session)));
                }
            }
        }
    }
}

pub(crate) fn legacy_caller(agent: Arc<Agent>, endpoint_mode: EndpointMode, session: Option<Arc<Session>>) -> Caller {
    let (client, capabilities, log_level) = match &session {
        Some(session) => {
            // Until an agent names a level, the protocol leaves it to us.
            let level = session.level().unwrap_or(LogLevel::Info);
            (session.client.clone(), Arc::clone(&session.capabilities), Some(level))
        }
        None => (None, "{}".into(), None),
    };
    Caller { agent, client, era: Era::Legacy, endpoint_mode, capabilities, log_level, session }
}

fn initialize(
    gateway: &Inner,
    endpoint_mode: EndpointMode,
    agent: Arc<Agent>,
    id: &str,
    question: &Question,
) -> Response {
    let (session, result) = match dispatch::initialize(gateway, &endpoint_mode, &agent, question) {
        Ok(welcome) => welcome,
        Err(error) => return respond::rejected(Some(id), error),
    };
    let session = gateway.doors.sessions.open(session);
    let mut response = respond::answer(id, &Ok(result), Era::Legacy, true);
    match HeaderValue::from_str(&session.id) {
        Ok(value) => drop(response.headers_mut().insert(headers::SESSION, value)),
        Err(_) => return respond::rejected(Some(id), RpcError::new(INTERNAL_ERROR, "no session could be made")),
    }
    response
}

/// The session a request names. Naming none is fine; naming one that is gone is not.
fn find_session(
    gateway: &Inner,
    endpoint_mode: &EndpointMode,
    agent: &Agent,
    headers: &HeaderMap,
) -> Result<Option<Arc<Session>>, Box<Response>> {
    let Some(id) = headers.get(headers::SESSION) else { return Ok(None) };
    let session = id.to_str().ok().and_then(|id| gateway.doors.sessions.find(id, &agent.name, endpoint_mode));
    match session {
        Some(session) => Ok(Some(session)),
        None => Err(Box::new(respond::json(
            StatusCode::NOT_FOUND,
            message::response("null", &Err(RpcError::new(INVALID_REQUEST, "the session has ended; initialize again"))),
        ))),
    }
}

/// The stream on which an agent with a session hears what it did not ask for.
fn get(gateway: &Inner, endpoint_mode: EndpointMode, agent: Arc<Agent>, headers: &HeaderMap) -> Response {
    match find_session(gateway, &endpoint_mode, &agent, headers) {
        Err(response) => *response,
        Ok(None) => not_allowed(),
        Ok(Some(session)) => {
            let (send, receive) = audience::Audience::channel();
            session.stands_on(send.clone());
            let wants =
                audience::Wants { tools: true, prompts: true, resources: true, uris: Arc::clone(&session.uris) };
            gateway.audience.join(audience::Listener { agent, endpoint_mode, wants, subscription: None, send });
            respond::standing(None, receive, session.ended.clone(), gateway.stopping.clone())
        }
    }
}

fn delete(gateway: &Inner, endpoint_mode: &EndpointMode, agent: &Agent, headers: &HeaderMap) -> Response {
    match find_session(gateway, endpoint_mode, agent, headers) {
        Err(response) => *response,
        Ok(None) => not_allowed(),
        Ok(Some(session)) => {
            gateway.doors.sessions.close(&session);
            respond::empty(StatusCode::NO_CONTENT)
        }
    }
}

fn not_allowed() -> Response {
    let mut response = respond::plain(StatusCode::METHOD_NOT_ALLOWED, "this endpoint takes POST\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

/// The `name` of a call, for checks before it begins.
pub(crate) fn tool_name(question: &Question) -> Option<String> {
    let params = question.params.as_deref()?;
    member(params, "name").and_then(string_value).map(std::borrow::Cow::into_owned)
}
