//! Servers over Streamable HTTP.
//!
//! Each request is a POST. The server answers with one JSON message, or with an event stream that ends with the answer
//! and may contain notifications and requests to the agent before it. `client.rs` does the HTTP below this.
//!
//! - **Interrupted streams are resumed.** If a stream breaks and its events had ids, the link asks for the rest with
//!   `Last-Event-ID`, up to `RESUMES_MAX` times. Without ids the outcome of the call is unknown, and nothing is sent
//!   again.
//! - **Sessions.** With a handshake, the server may give a session id, which every request then repeats. A 404 means
//!   that the server lost the session: the link ends, and the supervisor makes a new handshake.
//! - **Standing stream.** A server with sessions may also speak on a GET stream, outside of any answer. The gateway
//!   shares one connection between agents, so such a message is passed on only if exactly one agent can be meant
//!   (`open_calls.rs`). In doubt it is dropped: an agent must not read what belongs to another.
//! - **Cancelling.** If the gateway stops waiting, a server with sessions gets `notifications/cancelled`. Without
//!   sessions, closing the stream says the same.
//!
//! The operator's headers (`headers` in the settings) are marked as sensitive and go only to the configured URL.
//! Redirects are not followed, because they could carry credentials to another host.

mod standing;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use mcpproxy_core::settings::Secret;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::Notice;
use super::allowance::{Allowance, CANCELLATIONS_MAX, Excess};
use super::authorized::{self, Outgoing};
use super::client::{Answer, Client};
use super::duplex::{ask_agent, say_log, say_progress};
use super::error::UpstreamError;
use super::notices::Notices;
use super::open_calls::OpenCalls;
use crate::agents::AgentChannel;
use crate::event_stream::{EventError, EventReader};
use crate::headers;
use crate::message::{self, Message, Reply, RpcError};
use crate::oauth::{SignInRequired, Tokens};

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
/// Attempts to resume an interrupted stream, and the pause before each unless the server sets one.
const RESUMES_MAX: usize = 5;
const RESUME_WAIT: Duration = Duration::from_millis(1000);
const RESUME_WAIT_MAX: Duration = Duration::from_secs(30);

pub(crate) struct HttpLink {
    client: Arc<Client>,
    url: Url,
    operator_headers: HeaderMap,
    /// The access token, if the server may ask for OAuth.
    tokens: Option<Arc<Tokens>>,
    session: OnceLock<HeaderValue>,
    /// The revision agreed on in an `initialize` handshake.
    version: OnceLock<HeaderValue>,
    next_id: AtomicU64,
    limit: usize,
    notices: Arc<Notices>,
    /// Open calls, to find the agent of a message on the standing stream.
    open_calls: OpenCalls,
    lost_session: AtomicBool,
    allowance: Arc<Allowance>,
    cancellations: Arc<Semaphore>,
    /// The limit that the server exceeded, if that ended the link.
    excess: OnceLock<Excess>,
    /// Set if the link ended because a user has to sign in.
    sign_in: OnceLock<Box<SignInRequired>>,
    pub(crate) ended: CancellationToken,
}

type Headers = Vec<(HeaderName, HeaderValue)>;

impl HttpLink {
    pub(crate) fn new(
        url: &str,
        operator_headers: &[(String, Secret)],
        tokens: Option<Arc<Tokens>>,
        limit: usize,
        notices: Arc<Notices>,
    ) -> Result<Arc<Self>, UpstreamError> {
        let bad = |error: &dyn std::fmt::Display| UpstreamError::Http(error.to_string());
        let url = Url::parse(url).map_err(|error| bad(&error))?;
        Ok(Arc::new(Self {
            client: Client::new(&url)?,
            url,
            operator_headers: header_map(operator_headers)?,
            tokens,
            session: OnceLock::new(),
            version: OnceLock::new(),
            next_id: AtomicU64::new(1),
            limit,
            notices,
            open_calls: OpenCalls::default(),
            lost_session: AtomicBool::new(false),
            allowance: Allowance::new(Instant::now()),
            cancellations: Arc::new(Semaphore::new(CANCELLATIONS_MAX)),
            excess: OnceLock::new(),
            sign_in: OnceLock::new(),
            ended: CancellationToken::new(),
        }))
    }

    /// Returns true if the link ended because the server lost the session, which a new handshake repairs.
    pub(crate) fn lost_session(&self) -> bool {
        self.lost_session.load(Ordering::Acquire)
    }

    /// Returns why the link has ended.
    pub(crate) fn end_reason(&self) -> UpstreamError {
        match (self.sign_in.get(), self.excess.get()) {
            (Some(required), _) => UpstreamError::SignIn(required.clone()),
            (None, Some(excess)) => UpstreamError::Excess(*excess),
            (None, None) => UpstreamError::Closed,
        }
    }

    /// Ends the link, because the server exceeded a limit.
    fn disconnect(&self, excess: Excess) -> UpstreamError {
        let excess = *self.excess.get_or_init(|| excess);
        self.ended.cancel();
        UpstreamError::Excess(excess)
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Sets the revision that an `initialize` handshake agreed on. Every request names it.
    pub(crate) fn speak(&self, version: &str) {
        if let Ok(version) = HeaderValue::from_str(version) {
            self.version.get_or_init(|| version);
        }
    }

    pub(crate) async fn request(
        self: &Arc<Self>,
        id: u64,
        text: String,
        headers: Headers,
        channel: Option<&AgentChannel>,
    ) -> Result<Reply, UpstreamError> {
        let is_session = self.version.get().is_some();
        let mut guard = Abandon { link: is_session.then(|| Arc::clone(self)), id };
        if let (true, Some(channel)) = (is_session, channel) {
            self.open_calls.begin(id, channel.clone());
        }
        let reply = self.exchange(id, text, headers, channel).await;
        if is_session {
            self.open_calls.end(id);
        }
        guard.link = None;
        reply
    }

    async fn exchange(
        self: &Arc<Self>,
        id: u64,
        text: String,
        headers: Headers,
        channel: Option<&AgentChannel>,
    ) -> Result<Reply, UpstreamError> {
        let response = self.post(text, headers).await?;
        let status = response.status;
        if let Some(session) = response.headers.get(headers::SESSION) {
            self.session.get_or_init(|| session.clone());
        }
        if status == StatusCode::NOT_FOUND && self.session.get().is_some() {
            self.lost_session.store(true, Ordering::Release);
            self.ended.cancel();
            return Err(UpstreamError::SessionLost);
        }
        if response.content_type() == Some(EVENT_STREAM) && status.is_success() {
            return self.follow(id, response, channel).await;
        }
        let body = response.body(self.limit).await?;
        match read_reply(&body, id) {
            Some(reply) => Ok(reply),
            None if status.is_success() => {
                Err(UpstreamError::Protocol("the response is not a JSON-RPC message".to_owned()))
            }
            None => Err(status_error(status, self.tokens.as_deref())),
        }
    }

    /// Sends a notification, or the answer to a request of the server.
    pub(crate) async fn send(&self, text: String, headers: Headers) -> Result<(), UpstreamError> {
        let response = self.post(text, headers).await?;
        let status = response.status;
        // Reading to the end makes the connection reusable.
        response.body(self.limit).await?;
        if status.is_success() { Ok(()) } else { Err(status_error(status, self.tokens.as_deref())) }
    }

    async fn post(&self, text: String, headers: Headers) -> Result<Answer, UpstreamError> {
        let mut map = self.own_headers();
        map.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        map.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        map.extend(headers);
        let sent = self.authorized(Method::POST, map, text.into()).await;
        if let Err(UpstreamError::Unreachable(_)) = &sent {
            // The server is gone. The supervisor should know at once.
            self.ended.cancel();
        }
        sent
    }

    /// Sends a request with the access token, if there is one. Ends the link if only a user can help.
    async fn authorized(&self, method: Method, headers: HeaderMap, body: Bytes) -> Result<Answer, UpstreamError> {
        let outgoing = Outgoing { method, url: &self.url, headers, body };
        let sent = authorized::send(&self.client, self.tokens.as_ref(), outgoing).await;
        if let Err(UpstreamError::SignIn(required)) = &sent
            && required.need.ends_connection()
        {
            self.sign_in.get_or_init(|| required.clone());
            self.ended.cancel();
        }
        sent
    }

    /// Returns the headers of every request: the operator's, the revision and the session.
    fn own_headers(&self) -> HeaderMap {
        let mut map = self.operator_headers.clone();
        for (name, value) in [(headers::VERSION, self.version.get()), (headers::SESSION, self.session.get())] {
            if let Some(value) = value {
                map.insert(name, value.clone());
            }
        }
        map
    }

    /// Follows an event stream until the answer comes. Resumes a stream that breaks.
    async fn follow(
        self: &Arc<Self>,
        id: u64,
        response: Answer,
        channel: Option<&AgentChannel>,
    ) -> Result<Reply, UpstreamError> {
        let mut last_event = None;
        let mut wait = RESUME_WAIT;
        let mut events = EventReader::new(response.chunks().boxed(), self.limit);
        for _ in 0..=RESUMES_MAX {
            let broken = loop {
                let event = match events.next().await {
                    Ok(Some(event)) => event,
                    Ok(None) => break UpstreamError::Closed,
                    Err(error @ EventError::TooLarge(_)) => return Err(error.into()),
                    Err(error) => break error.into(),
                };
                if let Some(retry) = event.retry_ms {
                    wait = Duration::from_millis(retry).min(RESUME_WAIT_MAX);
                }
                last_event = event.id.or(last_event);
                if let Some(reply) = self.said(id, &event.data, channel, channel).await? {
                    return Ok(reply);
                }
            };
            let Some(last_event) = &last_event else { return Err(broken) };
            tokio::time::sleep(wait).await;
            events = EventReader::new(Box::pin(self.listen(Some(last_event))).await?.boxed(), self.limit);
        }
        Err(UpstreamError::Closed)
    }

    /// Takes a message of a stream. Returns the answer to `id`, passes notifications on to the reader, and asks the user.
    async fn said(
        self: &Arc<Self>,
        id: u64,
        data: &str,
        reader: Option<&AgentChannel>,
        user: Option<&AgentChannel>,
    ) -> Result<Option<Reply>, UpstreamError> {
        let count = || self.allowance.take(data.len(), Instant::now()).map_err(|excess| self.disconnect(excess));
        let message = message::read_server(data.as_bytes()).ok().and_then(|text| Message::parse(text).ok());
        match message {
            Some(Message::Response { id: answered, outcome }) if answered.parse() == Ok(id) => {
                return Ok(Some(message::owned_reply(outcome)));
            }
            Some(Message::Response { .. }) | None => count()?,
            Some(Message::Notification { method, params }) => {
                count()?;
                let params = params.unwrap_or("{}");
                if let Some(notice) = Notice::parse(&method, params) {
                    self.notices.add(notice);
                } else if let Some(channel) = reader {
                    match method.as_ref() {
                        "notifications/progress" => say_progress(channel, params).await,
                        "notifications/message" => say_log(channel, params).await,
                        _ => {}
                    }
                }
            }
            Some(Message::Request { id, method, params }) => {
                let unanswered = self.allowance.begin(data.len(), Instant::now());
                let unanswered = unanswered.map_err(|excess| self.disconnect(excess))?;
                let (link, id, channel) = (Arc::clone(self), id.to_owned(), user.cloned());
                let (method, params) = (method.into_owned(), params.unwrap_or("{}").to_owned());
                tokio::spawn(async move {
                    let _unanswered = unanswered;
                    let answer = async {
                        let outcome = asked(channel.as_ref(), &method, &params).await;
                        let _lost = link.send(message::response(&id, &outcome), Vec::new()).await;
                    };
                    tokio::select! {
                        () = answer => {}
                        // Nobody is left to read the answer.
                        () = link.ended.cancelled() => {}
                    }
                });
            }
        }
        Ok(None)
    }

    /// Opens the standing stream, or resumes an interrupted one.
    async fn listen(
        &self,
        last_event: Option<&str>,
    ) -> Result<impl Stream<Item = Result<Bytes, UpstreamError>> + use<>, UpstreamError> {
        let mut map = self.own_headers();
        map.insert(header::ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Some(value) = last_event.and_then(|id| HeaderValue::from_str(id).ok()) {
            map.insert(headers::LAST_EVENT, value);
        }
        let response = self.authorized(Method::GET, map, Bytes::new()).await?;
        let is_stream = response.status.is_success() && response.content_type() == Some(EVENT_STREAM);
        if is_stream { Ok(response.chunks()) } else { Err(status_error(response.status, self.tokens.as_deref())) }
    }

    /// Ends the session at the server.
    pub(crate) async fn close(&self) {
        self.ended.cancel();
        if self.session.get().is_some() {
            let mut headers = self.own_headers();
            if let Some(token) = self.tokens.as_ref().and_then(|tokens| tokens.token()) {
                headers.insert(header::AUTHORIZATION, token);
            }
            let ending = self.client.send(Method::DELETE, &self.url, headers, Bytes::new());
            let _lost = tokio::time::timeout(RESUME_WAIT, ending).await;
        }
    }
}

pub(crate) fn header_map(headers: &[(String, Secret)]) -> Result<HeaderMap, UpstreamError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bad = || UpstreamError::Http(format!("header `{name}` in the settings is not valid"));
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
        value.set_sensitive(true);
        map.insert(HeaderName::try_from(name.as_str()).map_err(|_| bad())?, value);
    }
    Ok(map)
}

/// Words an answer that is no MCP message. `tokens` are given for a server that a user may sign in to.
pub(crate) fn status_error(status: StatusCode, tokens: Option<&Tokens>) -> UpstreamError {
    UpstreamError::Http(match (status, tokens) {
        // A server that asks for OAuth names its provider here. Some forget to, and still publish it.
        (StatusCode::UNAUTHORIZED, Some(tokens)) => format!(
            "the server rejected the credentials ({status}) and does not ask for a sign-in; check `headers` for this \
             server, or try `mcpproxy servers login {}`",
            tokens.server()
        ),
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
            format!("the server rejected the credentials ({status}); check `headers` for this server")
        }
        (status, _) if status.is_redirection() => {
            format!(
                "the server redirects ({status}), and mcpproxy does not follow redirects; set `url` to the final address"
            )
        }
        (status, _) => format!("the server answered {status}"),
    })
}

fn read_reply(body: &[u8], id: u64) -> Option<Reply> {
    match Message::parse(message::read_server(body).ok()?).ok()? {
        Message::Response { id: answered, outcome } if answered.parse() == Ok(id) || outcome.is_err() => {
            Some(message::owned_reply(outcome))
        }
        Message::Response { .. } | Message::Request { .. } | Message::Notification { .. } => None,
    }
}

async fn asked(channel: Option<&AgentChannel>, method: &str, params: &str) -> Result<String, RpcError> {
    match (method, channel) {
        ("ping", _) => Ok("{}".to_owned()),
        ("elicitation/create" | "sampling/createMessage", Some(channel)) => ask_agent(channel, method, params).await,
        _ => Err(RpcError::method_not_found(method)),
    }
}

/// Cancels a request at a server with sessions when the gateway stops waiting for it.
struct Abandon {
    link: Option<Arc<HttpLink>>,
    id: u64,
}

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.open_calls.end(self.id);
            let params =
                format!("{{\"requestId\":{},\"reason\":\"the agent no longer waits for the result\"}}", self.id);
            let Ok(waiting) = Arc::clone(&link.cancellations).try_acquire_owned() else { return };
            tokio::spawn(async move {
                let _waiting = waiting;
                tokio::select! {
                    _lost = link.send(message::notification("notifications/cancelled", &params), Vec::new()) => {}
                    () = link.ended.cancelled() => {}
                }
            });
        }
    }
}
