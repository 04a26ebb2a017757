//! The MCP session of one client, and its recovery after a restart of the gateway.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::Value;

use super::{INTERNAL_ERROR, Out, lock};
use crate::client::events::Events;
use crate::client::jsonrpc::{ENDPOINT, Envelope, PROTOCOL_VERSION, SESSION_ID, agent_headers};
use crate::client::{Http, SendError, is_event_stream, read_body};
use crate::home::Home;
use crate::home::lock::Running;

const LISTEN_PAUSE: Duration = Duration::from_secs(1);
const END_TIMEOUT: Duration = Duration::from_secs(2);
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const GONE: &str = "The gateway has stopped. Restart this MCP server in your client to start it again.";

pub(super) struct Session {
    home: Home,
    headers: HeaderMap,
    pub(super) out: Out,
    state: Mutex<State>,
    /// Held by the one failed request that recovers the session for all others.
    reviving: tokio::sync::Mutex<()>,
}

struct State {
    http: Http,
    /// Counts the sessions, so that a recovered session is not recovered twice.
    generation: u64,
    id: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    /// The client's `initialize`, to repeat it after a restart of the gateway.
    initialize: Option<String>,
}

/// An error without an answer to forward.
enum SendFailure {
    /// The gateway does not know the session or has moved. It processed nothing, so a retry is safe.
    Lost,
    Failed(String),
}

impl Session {
    pub(super) fn new(home: Home, running: &Running, out: Out) -> anyhow::Result<Self> {
        let headers = agent_headers(&home.existing_agent_token()?)?;
        let state = State { http: Http::new(running)?, generation: 0, id: None, revision: None, initialize: None };
        Ok(Self { home, headers, out, state: Mutex::new(state), reviving: tokio::sync::Mutex::default() })
    }

    /// Starts a session and forwards the answer.
    pub(super) async fn initialize(&self, text: &str, envelope: &Envelope) {
        let forgotten = { lock(&self.state).id.take() };
        if forgotten.is_some() {
            lock(&self.state).revision = None;
        }
        lock(&self.state).initialize = Some(text.to_owned());
        self.exchange(text, Some(envelope)).await;
    }

    /// Sends a message and forwards everything that comes back.
    pub(super) async fn exchange(&self, text: &str, envelope: Option<&Envelope>) {
        let generation = lock(&self.state).generation;
        let mut outcome = self.attempt(text, envelope).await;
        if let Err(SendFailure::Lost) = outcome {
            outcome = match self.revive(generation, envelope).await {
                Ok(()) => self.attempt(text, envelope).await,
                Err(trouble) => Err(trouble),
            };
        }
        let message = match outcome {
            Ok(()) => return,
            Err(SendFailure::Lost) => GONE.to_owned(),
            Err(SendFailure::Failed(message)) => message,
        };
        let id = envelope.filter(|envelope| envelope.method.is_some()).and_then(|envelope| envelope.id.as_deref());
        match id {
            Some(id) => self.out.error(Some(id), INTERNAL_ERROR, &message).await,
            None => tracing::warn!("lost a message of the client: {message}"),
        }
    }

    async fn attempt(&self, text: &str, envelope: Option<&Envelope>) -> Result<(), SendFailure> {
        let revision = envelope.and_then(Envelope::revision);
        let (http, mut headers) = self.state_for_request();
        let has_session = match (&revision, envelope) {
            (Some(revision), Some(envelope)) => {
                headers = self.headers.clone();
                headers.extend(envelope.routing_headers(revision));
                false
            }
            _ => headers.contains_key(SESSION_ID),
        };
        let response = match http.send(Method::POST, ENDPOINT, headers, Bytes::from(text.to_owned())).await {
            Ok(response) => response,
            Err(SendError::NotConnected | SendError::NotTheGateway) => return Err(SendFailure::Lost),
            Err(other) => return Err(SendFailure::Failed(format!("{:#}", anyhow::Error::from(other)))),
        };
        if response.status() == StatusCode::NOT_FOUND && has_session {
            return Err(SendFailure::Lost);
        }
        let is_initialize = envelope.is_some_and(|envelope| envelope.method.as_deref() == Some("initialize"));
        if is_initialize && let Some(id) = response.headers().get(SESSION_ID) {
            lock(&self.state).id = Some(id.clone());
        }
        let wanted = envelope.filter(|envelope| envelope.method.is_some()).and_then(|envelope| envelope.id.as_deref());
        let answer = self.forward(response, wanted.map(|id| id.get())).await?;
        if is_initialize {
            self.note_revision(answer.as_deref());
        }
        Ok(())
    }

    /// Forwards the messages of a response, and returns the answer to `wanted`.
    async fn forward(&self, response: Response<Incoming>, wanted: Option<&str>) -> Result<Option<String>, SendFailure> {
        let failed = |error: anyhow::Error| SendFailure::Failed(format!("{error:#}"));
        let status = response.status();
        let mut answer = None;
        if is_event_stream(&response) {
            let mut events = Events::of(response);
            while let Some(data) = events.next().await.map_err(failed)? {
                self.out.message(&data).await;
                if wanted.is_some_and(|wanted| answers(&data, wanted)) {
                    answer = Some(data);
                }
            }
        } else {
            let body = read_body(response).await.map_err(failed)?;
            let text = String::from_utf8_lossy(&body).into_owned();
            // An HTTP error is not an MCP message, and does not name the request that it is about.
            if status.is_success() || wanted.is_some_and(|wanted| answers(&text, wanted)) {
                if !text.trim().is_empty() {
                    self.out.message(&text).await;
                    answer = Some(text);
                }
            } else {
                return Err(SendFailure::Failed(format!("the gateway answered {status}: {}", reason(&text))));
            }
        }
        match (wanted, &answer) {
            (Some(_), None) => Err(SendFailure::Failed("the gateway ended the stream before it answered".to_owned())),
            _ => Ok(answer),
        }
    }

    /// Forwards notifications of the gateway until dropped.
    pub(super) async fn listen(&self) {
        loop {
            let (http, headers) = self.state_for_request();
            if headers.contains_key(SESSION_ID)
                && let Ok(response) = http.send(Method::GET, ENDPOINT, headers, Bytes::new()).await
            {
                if response.status() == StatusCode::METHOD_NOT_ALLOWED {
                    return;
                }
                if is_event_stream(&response)
                    && let Err(SendFailure::Failed(message)) = self.forward(response, None).await
                {
                    tracing::debug!("the gateway's stream ended: {message}");
                }
            }
            tokio::time::sleep(LISTEN_PAUSE).await;
        }
    }

    /// Finds the gateway again and starts a new session. `generation` is the one that failed.
    async fn revive(&self, generation: u64, envelope: Option<&Envelope>) -> Result<(), SendFailure> {
        let _one_at_a_time = self.reviving.lock().await;
        if lock(&self.state).generation != generation {
            return Ok(());
        }
        let home = self.home.clone();
        let running = tokio::task::spawn_blocking(move || home.running()).await;
        let Ok(Ok(Some(running))) = running else { return Err(SendFailure::Failed(GONE.to_owned())) };
        let http = Http::new(&running).map_err(|error| SendFailure::Failed(format!("{error:#}")))?;
        let initialize = {
            let mut state = lock(&self.state);
            state.http = http;
            state.generation += 1;
            state.id = None;
            state.initialize.clone()
        };
        let is_initialize = envelope.is_some_and(|envelope| envelope.method.as_deref() == Some("initialize"));
        let Some(initialize) = initialize.filter(|_| !is_initialize) else { return Ok(()) };
        self.replay(&initialize).await
    }

    /// Repeats the client's `initialize`. The client already has an answer, so this one is dropped.
    async fn replay(&self, initialize: &str) -> Result<(), SendFailure> {
        let failed = |error: anyhow::Error| SendFailure::Failed(format!("{error:#}"));
        let http = lock(&self.state).http.clone();
        let body = Bytes::from(initialize.to_owned());
        let sent = http.send(Method::POST, ENDPOINT, self.headers.clone(), body).await;
        let response = sent.map_err(|error| failed(error.into()))?;
        let id = response.headers().get(SESSION_ID).cloned();
        let answer = if is_event_stream(&response) {
            Events::of(response).next().await.map_err(failed)?
        } else {
            read_body(response).await.map(|body| Some(String::from_utf8_lossy(&body).into_owned())).map_err(failed)?
        };
        lock(&self.state).id = id;
        self.note_revision(answer.as_deref());
        let (http, headers) = self.state_for_request();
        let sent = http.send(Method::POST, ENDPOINT, headers, Bytes::from_static(INITIALIZED.as_bytes())).await;
        sent.map(|_| ()).map_err(|error| failed(error.into()))
    }

    /// Ends the session, if there is one.
    pub(super) async fn end(&self) {
        let (http, headers) = self.state_for_request();
        if headers.contains_key(SESSION_ID) {
            let delete = http.send(Method::DELETE, ENDPOINT, headers, Bytes::new());
            let _gateway_forgets_it_anyway = tokio::time::timeout(END_TIMEOUT, delete).await;
        }
    }

    fn note_revision(&self, answer: Option<&str>) {
        let answer: Option<Value> = answer.and_then(|answer| serde_json::from_str(answer).ok());
        let revision = answer.as_ref().and_then(|answer| answer.pointer("/result/protocolVersion")?.as_str());
        lock(&self.state).revision = revision.and_then(|revision| HeaderValue::from_str(revision).ok());
    }

    fn state_for_request(&self) -> (Http, HeaderMap) {
        let state = lock(&self.state);
        let mut headers = self.headers.clone();
        for (name, value) in [(SESSION_ID, &state.id), (PROTOCOL_VERSION, &state.revision)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        (state.http.clone(), headers)
    }
}

fn answers(text: &str, wanted: &str) -> bool {
    Envelope::parse(text)
        .is_ok_and(|envelope| envelope.method.is_none() && envelope.id.is_some_and(|id| id.get() == wanted))
}

/// Returns the message of an error answer, as JSON-RPC or REST.
fn reason(text: &str) -> String {
    let value: Option<Value> = serde_json::from_str(text).ok();
    let message = value.as_ref().and_then(|value| value.pointer("/error/message")?.as_str());
    message.unwrap_or(text.trim()).chars().take(300).collect()
}
