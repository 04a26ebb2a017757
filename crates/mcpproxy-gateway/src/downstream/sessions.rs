//! HTTP requests about a session itself: its stream for notifications, its end, and messages that need no answer.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode};
use mcpproxy_core::Agent;
use mcpproxy_store::SessionChange;

use super::dispatch::AgentRequest;
use super::http::not_allowed;
use super::{handshake, respond};
use crate::agents::{Authenticated, EndpointMode, Listener, Listeners, Session, Topics};
use crate::headers;
use crate::message::{self, ID_MAX_BYTES, INTERNAL_ERROR, INVALID_REQUEST, RpcError, member};
use crate::protocol::Era;
use crate::replicas::{self, NoSession};
use crate::state::SharedState;

const UNAVAILABLE: &str = "sessions cannot be checked at the moment\n";

/// Opens a session. Its sealed id works on every gateway with the same database.
pub(super) async fn initialize(
    state: &SharedState,
    endpoint_mode: EndpointMode,
    agent: Arc<Agent>,
    id: &str,
    request: &AgentRequest,
) -> Response {
    let (session, result) = match handshake::initialize(state, &endpoint_mode, &agent, request) {
        Ok(welcome) => welcome,
        Err(error) => return respond::rejected(Some(id), error),
    };
    let session = match replicas::seal(state, session).await {
        Ok(Some(session)) => session,
        Ok(None) => return not_created(id),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "could not read the keys of sessions");
            return respond::plain(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE);
        }
    };
    let session = match state.sessions.open(session) {
        Ok(session) => session,
        Err(limit) => return respond::too_many(Some(id), limit.into()),
    };
    let mut response = respond::answer(id, &Ok(result), Era::Legacy, true, None);
    match HeaderValue::from_str(&session.id) {
        Ok(value) => drop(response.headers_mut().insert(headers::SESSION, value)),
        Err(_) => return not_created(id),
    }
    response
}

fn not_created(id: &str) -> Response {
    respond::rejected(Some(id), RpcError::new(INTERNAL_ERROR, "the session could not be created"))
}

/// Finds the session that a request names. A request may name none, but not one that is gone.
pub(super) async fn find(
    state: &SharedState,
    endpoint_mode: &EndpointMode,
    agent: &Agent,
    headers: &HeaderMap,
) -> Result<Option<Arc<Session>>, Box<Response>> {
    let Some(id) = headers.get(headers::SESSION) else { return Ok(None) };
    let found = match id.to_str() {
        Ok(id) => replicas::find(state, id, agent, endpoint_mode).await,
        Err(_) => Err(NoSession::Ended),
    };
    match found {
        Ok(session) => Ok(Some(session)),
        Err(NoSession::Ended) => Err(Box::new(respond::json(
            StatusCode::NOT_FOUND,
            message::response("null", &Err(RpcError::new(INVALID_REQUEST, "the session has ended; initialize again"))),
        ))),
        Err(NoSession::OverLimit(limit)) => Err(Box::new(respond::too_many(None, limit.into()))),
        Err(NoSession::Unknown) => Err(Box::new(respond::plain(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE))),
    }
}

/// Opens the stream for notifications of a session.
pub(super) async fn get(
    state: &Arc<SharedState>,
    endpoint_mode: EndpointMode,
    sender: Authenticated,
    headers: &HeaderMap,
) -> Response {
    let Authenticated { agent, lifetime } = sender;
    match find(state, &endpoint_mode, &agent, headers).await {
        Err(response) => *response,
        Ok(None) => not_allowed(),
        Ok(Some(session)) => {
            let in_use = match state.usages.of(&agent.name).open_stream() {
                Ok(in_use) => in_use,
                Err(limit) => return respond::too_many(None, limit.into()),
            };
            let (send, receive) = Listeners::channel();
            session.stands_on(send.clone(), Arc::clone(&agent));
            let topics = Topics { tools: true, prompts: true, resources: true, uris: Arc::clone(&session.uris) };
            state.listeners.join(Listener { agent, endpoint_mode, topics, subscription: None, send });
            replicas::subscribe_here(state, &session);
            if !state.bus.is_alone() {
                // Others then pass notifications on to this gateway. The stream itself does not wait for that.
                let (state, session) = (Arc::clone(state), Arc::clone(&session));
                tokio::spawn(async move {
                    let here = SessionChange::StreamAt(state.bus.name());
                    replicas::share_if_possible(&state, &session, here).await;
                });
            }
            respond::standing(None, (receive, in_use), lifetime, session.ended.clone(), state.stopping.clone())
        }
    }
}

/// Ends a session on all gateways.
pub(super) async fn delete(
    state: &SharedState,
    endpoint_mode: &EndpointMode,
    agent: &Agent,
    headers: &HeaderMap,
) -> Response {
    match find(state, endpoint_mode, agent, headers).await {
        Err(response) => *response,
        Ok(None) => not_allowed(),
        Ok(Some(session)) => {
            if let Err(error) = replicas::share(state, &session, SessionChange::Ended).await {
                tracing::error!(error = &error as &dyn std::error::Error, "could not store the end of a session");
                return respond::plain(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the session cannot be ended at the moment; try again\n",
                );
            }
            state.sessions.close(&session);
            respond::empty(StatusCode::NO_CONTENT)
        }
    }
}

/// Takes a notification of an agent. Only cancellations matter.
pub(super) async fn take_notification(
    state: &SharedState,
    session: Option<Arc<Session>>,
    (method, params): (&str, Option<&str>),
) -> Response {
    let request = params.and_then(|params| member(params, "requestId")).filter(|id| id.len() <= ID_MAX_BYTES);
    if let (Some(session), "notifications/cancelled", Some(request)) = (session, method, request)
        && !session.cancel(request)
        && let Err(limit) = replicas::cancel(state, &session, request).await
    {
        return respond::too_many(None, limit.into());
    }
    respond::empty(StatusCode::ACCEPTED)
}

/// Takes the agent's answer to a request of a server, here or for the gateway that asked.
pub(super) async fn take_response(
    state: &SharedState,
    session: Option<Arc<Session>>,
    id: &str,
    outcome: Result<&str, &str>,
) -> Response {
    let not_open = || respond::rejected(Some(id), RpcError::new(INVALID_REQUEST, "no request with this id is open"));
    let Some(session) = session else { return not_open() };
    let taken = match session.asked_at(id) {
        None => Ok(session.answer(id, outcome)),
        Some(gateway) => replicas::answer(state, &session, (gateway, id), outcome).await,
    };
    match taken {
        Ok(true) => respond::empty(StatusCode::ACCEPTED),
        Ok(false) => not_open(),
        Err(error) => respond::rejected(Some(id), error),
    }
}
