//! Servers over Streamable HTTP: one request, one answer, with whatever the server says in between.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use mcpproxy_core::settings::Secret;
use reqwest::Url;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::callers::Callers;
use super::duplex::{ask_agent, say_log, say_progress};
use super::error::UpstreamError;
use super::events::SseReader;
use super::{Notice, Reply};
use crate::back::Back;
use crate::headers;
use crate::message::{self, Message, RpcError};

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
/// How often an interrupted answer is asked for again, and how long to wait when the server does not say.
const RESUMES_MAX: usize = 5;
const RESUME_WAIT: Duration = Duration::from_millis(1000);
const RESUME_WAIT_MAX: Duration = Duration::from_secs(30);

pub(crate) struct HttpLink {
    client: reqwest::Client,
    url: Url,
    operator_headers: HeaderMap,
    session: OnceLock<HeaderValue>,
    /// The revision agreed on in an `initialize` handshake.
    version: OnceLock<HeaderValue>,
    next_id: AtomicU64,
    limit: usize,
    notices: mpsc::UnboundedSender<Notice>,
    /// Whose calls are open, for what a server says on its standing stream.
    callers: Callers,
    lost_session: AtomicBool,
    pub(crate) ended: CancellationToken,
}

type Headers = Vec<(HeaderName, HeaderValue)>;

impl HttpLink {
    pub(crate) fn new(
        url: &str,
        operator_headers: &[(String, Secret)],
        limit: usize,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> Result<Arc<Self>, UpstreamError> {
        let bad = |error: &dyn std::fmt::Display| UpstreamError::Http(error.to_string());
        Ok(Arc::new(Self {
            client: client()?,
            url: Url::parse(url).map_err(|error| bad(&error))?,
            operator_headers: header_map(operator_headers)?,
            session: OnceLock::new(),
            version: OnceLock::new(),
            next_id: AtomicU64::new(1),
            limit,
            notices,
            callers: Callers::default(),
            lost_session: AtomicBool::new(false),
            ended: CancellationToken::new(),
        }))
    }

    /// Whether the link ended because the server forgot the session, which a new handshake mends.
    pub(crate) fn lost_session(&self) -> bool {
        self.lost_session.load(Ordering::Acquire)
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// After an `initialize` handshake, every request names the revision agreed on.
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
        back: Option<&Back>,
    ) -> Result<Reply, UpstreamError> {
        let is_session = self.version.get().is_some();
        let mut guard = Abandon { link: is_session.then(|| Arc::clone(self)), id };
        if let (true, Some(back)) = (is_session, back) {
            self.callers.begin(id, back.clone());
        }
        let reply = self.exchange(id, text, headers, back).await;
        if is_session {
            self.callers.end(id);
        }
        guard.link = None;
        reply
    }

    async fn exchange(
        self: &Arc<Self>,
        id: u64,
        text: String,
        headers: Headers,
        back: Option<&Back>,
    ) -> Result<Reply, UpstreamError> {
        let response = self.post(text, headers).await?;
        let status = response.status();
        if let Some(session) = response.headers().get(headers::SESSION) {
            self.session.get_or_init(|| session.clone());
        }
        if status == StatusCode::NOT_FOUND && self.session.get().is_some() {
            self.lost_session.store(true, Ordering::Release);
            self.ended.cancel();
            return Err(UpstreamError::SessionLost);
        }
        if content_type(&response) == Some(EVENT_STREAM) && status.is_success() {
            return self.follow(id, response, back).await;
        }
        let body = self.body(response).await?;
        match read_reply(&body, id) {
            Some(reply) => Ok(reply),
            None if status.is_success() => {
                Err(UpstreamError::Protocol("the answer is no JSON-RPC response".to_owned()))
            }
            None => Err(status_error(status)),
        }
    }

    /// Sends a notification or an answer of ours.
    pub(crate) async fn send(&self, text: String, headers: Headers) -> Result<(), UpstreamError> {
        let status = self.post(text, headers).await?.status();
        if status.is_success() { Ok(()) } else { Err(status_error(status)) }
    }

    async fn post(&self, text: String, headers: Headers) -> Result<reqwest::Response, UpstreamError> {
        let mut request = reqwest::Request::new(http::Method::POST, self.url.clone());
        let map = request.headers_mut();
        map.extend(self.operator_headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        map.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        map.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        self.add_session(map);
        for (name, value) in headers {
            map.insert(name, value);
        }
        *request.body_mut() = Some(text.into());
        self.client.execute(request).await.map_err(|error| {
            if error.is_connect() {
                // Nobody is there any more: whoever watches this link should know at once.
                self.ended.cancel();
            }
            http_error(&error)
        })
    }

    fn add_session(&self, map: &mut HeaderMap) {
        for (name, value) in [(headers::VERSION, self.version.get()), (headers::SESSION, self.session.get())] {
            if let Some(value) = value {
                map.insert(name, value.clone());
            }
        }
    }

    async fn body(&self, response: reqwest::Response) -> Result<Bytes, UpstreamError> {
        let limit = self.limit;
        if response.content_length().is_some_and(|length| length <= limit as u64) {
            return response.bytes().await.map_err(|error| http_error(&error));
        }
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            body.extend_from_slice(&chunk.map_err(|error| http_error(&error))?);
            if body.len() > limit {
                return Err(UpstreamError::TooLarge(limit));
            }
        }
        Ok(body.into())
    }

    /// Follows an event stream until the answer comes. A stream that breaks off is taken up again where it stopped.
    async fn follow(
        self: &Arc<Self>,
        id: u64,
        response: reqwest::Response,
        back: Option<&Back>,
    ) -> Result<Reply, UpstreamError> {
        let mut last_event = None;
        let mut wait = RESUME_WAIT;
        let mut events = SseReader::new(response.bytes_stream().boxed(), self.limit);
        for _ in 0..=RESUMES_MAX {
            let broken = loop {
                let event = match events.next().await {
                    Ok(Some(event)) => event,
                    Ok(None) => break UpstreamError::Closed,
                    Err(error @ UpstreamError::TooLarge(_)) => return Err(error),
                    Err(error) => break error,
                };
                if let Some(retry) = event.retry_ms {
                    wait = Duration::from_millis(retry).min(RESUME_WAIT_MAX);
                }
                last_event = event.id.or(last_event);
                if let Some(reply) = self.said(id, &event.data, back).await {
                    return Ok(reply);
                }
            };
            let Some(last_event) = &last_event else { return Err(broken) };
            tokio::time::sleep(wait).await;
            events = SseReader::new(self.listen(Some(last_event)).await?.boxed(), self.limit);
        }
        Err(UpstreamError::Closed)
    }

    /// One message on a stream. An answer to `id` comes back; everything else is passed to where it belongs.
    async fn said(self: &Arc<Self>, id: u64, data: &str, back: Option<&Back>) -> Option<Reply> {
        let text = message::read_server(data.as_bytes()).ok()?;
        match Message::parse(text).ok()? {
            Message::Response { id: answered, outcome } if answered.parse() == Ok(id) => {
                return Some(outcome.map(str::to_owned).map_err(RpcError::parse));
            }
            Message::Response { .. } => {}
            Message::Notification { method, params } => {
                let params = params.unwrap_or("{}");
                if let Some(notice) = Notice::parse(&method, params) {
                    let _stopped = self.notices.send(notice);
                } else if let Some(back) = back {
                    match method.as_ref() {
                        "notifications/progress" => say_progress(back, params).await,
                        "notifications/message" => say_log(back, params).await,
                        _ => {}
                    }
                }
            }
            Message::Request { id, method, params } => {
                let (link, id, back) = (Arc::clone(self), id.to_owned(), back.cloned());
                let (method, params) = (method.into_owned(), params.unwrap_or("{}").to_owned());
                tokio::spawn(async move {
                    let outcome = asked(back.as_ref(), &method, &params).await;
                    let _lost = link.send(message::response(&id, &outcome), Vec::new()).await;
                });
            }
        }
        None
    }

    /// Opens the stream on which a server speaks unasked, or one that was interrupted.
    async fn listen(
        &self,
        last_event: Option<&str>,
    ) -> Result<impl Stream<Item = reqwest::Result<Bytes>> + use<>, UpstreamError> {
        let mut request = reqwest::Request::new(http::Method::GET, self.url.clone());
        let map = request.headers_mut();
        map.extend(self.operator_headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        map.insert(header::ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        self.add_session(map);
        if let Some(value) = last_event.and_then(|id| HeaderValue::from_str(id).ok()) {
            map.insert(headers::LAST_EVENT, value);
        }
        let response = self.client.execute(request).await.map_err(|error| http_error(&error))?;
        let is_stream = response.status().is_success() && content_type(&response) == Some(EVENT_STREAM);
        if is_stream { Ok(response.bytes_stream()) } else { Err(status_error(response.status())) }
    }

    /// Follows the server's standing stream until it ends for good; many servers have none.
    pub(crate) async fn stand(self: Arc<Self>) {
        let mut last_event: Option<String> = None;
        while let Ok(stream) = self.listen(last_event.as_deref()).await {
            let mut events = SseReader::new(stream.boxed(), self.limit);
            let mut wait = RESUME_WAIT;
            while let Ok(Some(event)) = events.next().await {
                if let Some(retry) = event.retry_ms {
                    wait = Duration::from_millis(retry).min(RESUME_WAIT_MAX);
                }
                last_event = event.id.or(last_event);
                let back = self.callers.sole();
                let _answer_to_nobody = self.said(0, &event.data, back.as_ref()).await;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Tells a server with sessions that this one is over.
    pub(crate) async fn close(&self) {
        self.ended.cancel();
        if self.session.get().is_some() {
            let mut request = reqwest::Request::new(http::Method::DELETE, self.url.clone());
            let map = request.headers_mut();
            map.extend(self.operator_headers.iter().map(|(name, value)| (name.clone(), value.clone())));
            self.add_session(map);
            let _lost = tokio::time::timeout(RESUME_WAIT, self.client.execute(request)).await;
        }
    }
}

pub(crate) fn client() -> Result<reqwest::Client, UpstreamError> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_secs(10))
        .no_proxy()
        .build()
        .map_err(|error| http_error(&error))
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

/// The cause in full: reqwest's own text stops before the part that matters. Addresses may hold secrets and stay out.
pub(crate) fn http_error(error: &reqwest::Error) -> UpstreamError {
    let mut text = if error.is_connect() { "could not connect".to_owned() } else { "the request failed".to_owned() };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.source().is_none() {
            text = format!("{text}: {cause}");
        }
        source = cause.source();
    }
    UpstreamError::Http(text)
}

pub(crate) fn status_error(status: StatusCode) -> UpstreamError {
    UpstreamError::Http(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!("the server wants another authorization ({status}); check `headers` in the settings")
        }
        status if status.is_redirection() => {
            format!("the server redirects ({status}); put the final address into `url`")
        }
        status => format!("the server answered {status}"),
    })
}

fn content_type(response: &reqwest::Response) -> Option<&str> {
    let value = response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or(value).trim())
}

fn read_reply(body: &[u8], id: u64) -> Option<Reply> {
    match Message::parse(message::read_server(body).ok()?).ok()? {
        Message::Response { id: answered, outcome } if answered.parse() == Ok(id) || outcome.is_err() => {
            Some(outcome.map(str::to_owned).map_err(RpcError::parse))
        }
        _ => None,
    }
}

async fn asked(back: Option<&Back>, method: &str, params: &str) -> Result<String, RpcError> {
    match (method, back) {
        ("ping", _) => Ok("{}".to_owned()),
        ("elicitation/create" | "sampling/createMessage", Some(back)) => ask_agent(back, method, params).await,
        _ => Err(RpcError::method_not_found(method)),
    }
}

/// Tells a server with sessions when a caller no longer waits; without sessions, the closed stream says it.
struct Abandon {
    link: Option<Arc<HttpLink>>,
    id: u64,
}

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            let params = format!("{{\"requestId\":{},\"reason\":\"the caller no longer waits\"}}", self.id);
            tokio::spawn(async move {
                let _lost = link.send(message::notification("notifications/cancelled", &params), Vec::new()).await;
            });
        }
    }
}
