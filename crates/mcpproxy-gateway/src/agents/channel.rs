//! The way back to an agent while its request is open: what a server says meanwhile, and what it asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::message::RpcError;

/// Messages for the agent of one open request.
#[derive(Clone)]
pub(crate) struct AgentChannel {
    events: mpsc::Sender<Box<Event>>,
    /// The agent's own progress token, as raw JSON.
    progress_token: Option<Arc<str>>,
    /// The lowest level of log messages the agent wants; none means none.
    log_level: Option<LogLevel>,
    /// What the agent can be asked, as raw JSON.
    capabilities: Arc<str>,
    /// Where the agent still listens when the request is done.
    later: Option<mpsc::Sender<String>>,
    /// Set while the agent does not take what waits for it.
    is_deaf: Arc<AtomicBool>,
    /// Questions of servers that the agent has not answered yet.
    open_requests: Arc<AtomicUsize>,
}

pub(crate) enum Event {
    /// A whole notification, as JSON text.
    Notify(String),
    Ask(ServerRequest),
}

/// A request of a server to the agent (elicitation, sampling), waiting for its answer.
pub(crate) struct ServerRequest {
    pub(crate) method: String,
    pub(crate) params: String,
    pub(crate) answer: oneshot::Sender<Result<String, RpcError>>,
}

/// Syslog levels, mildest first, as the protocol orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// How many messages may wait for a slow agent before its server waits too, and how long it does. Other agents wait for
/// the same server, so after that the slow one misses what comes on top.
const EVENTS_WAITING: usize = 64;
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest wait for an answer to a question.
const ANSWER_MAX: Duration = Duration::from_secs(600);

impl AgentChannel {
    pub(crate) fn new(
        progress_token: Option<Arc<str>>,
        log_level: Option<LogLevel>,
        capabilities: Arc<str>,
        later: Option<mpsc::Sender<String>>,
    ) -> (Self, mpsc::Receiver<Box<Event>>) {
        // Boxed, because a channel sets room aside for many at once, and most requests send none.
        let (events, receiver) = mpsc::channel(EVENTS_WAITING);
        (
            Self {
                events,
                progress_token,
                log_level,
                capabilities,
                later,
                is_deaf: Arc::default(),
                open_requests: Arc::default(),
            },
            receiver,
        )
    }

    pub(crate) fn progress_token(&self) -> Option<&str> {
        self.progress_token.as_deref()
    }

    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        self.log_level
    }

    pub(crate) fn capabilities(&self) -> &str {
        &self.capabilities
    }

    /// Whether both lead to the same agent, as far as it listens between requests.
    pub(crate) fn is_same_agent(&self, other: &Self) -> bool {
        self.later.as_ref().zip(other.later.as_ref()).is_some_and(|(one, two)| one.same_channel(two))
    }

    pub(crate) async fn notify(&self, notification: String) {
        let unsent = match self.events.try_send(Box::new(Event::Notify(notification))) {
            Ok(()) => return self.is_deaf.store(false, Ordering::Relaxed),
            Err(TrySendError::Full(_)) if self.is_deaf.load(Ordering::Relaxed) => return,
            Err(TrySendError::Full(event)) => match tokio::time::timeout(PATIENCE, self.events.send(event)).await {
                Ok(Ok(())) => return,
                Ok(Err(mpsc::error::SendError(event))) => event,
                Err(_) => return self.is_deaf.store(true, Ordering::Relaxed),
            },
            Err(TrySendError::Closed(event)) => event,
        };
        // An agent that hung up misses notifications; its call goes on and is recorded.
        if let (Event::Notify(text), Some(later)) = (*unsent, &self.later) {
            let _missed_or_gone = later.try_send(text);
        }
    }

    /// Asks for a server, which need not be quicker than the agent.
    pub(crate) async fn ask(&self, method: &str, params: &str) -> Result<String, RpcError> {
        self.open_requests.fetch_add(1, Ordering::AcqRel);
        let answer = self.ask_for_gateway(method, params).await;
        self.open_requests.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    /// Asks for ourselves: no server waits for the answer.
    pub(crate) async fn ask_for_gateway(&self, method: &str, params: &str) -> Result<String, RpcError> {
        let (answer, answered) = oneshot::channel();
        let request = ServerRequest { method: method.to_owned(), params: params.to_owned(), answer };
        let gone = || RpcError::new(crate::message::INTERNAL_ERROR, "the agent went away before it answered");
        self.events.send(Box::new(Event::Ask(request))).await.map_err(|_| gone())?;
        tokio::time::timeout(ANSWER_MAX, answered)
            .await
            .map_err(|_| RpcError::new(crate::message::INTERNAL_ERROR, "the agent did not answer in time"))?
            .map_err(|_| gone())?
    }

    /// Whether the agent, and perhaps a user behind it, is thinking about an answer.
    pub(crate) fn is_asking(&self) -> bool {
        self.open_requests.load(Ordering::Acquire) > 0
    }
}

impl LogLevel {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Debug, "debug"),
        (Self::Info, "info"),
        (Self::Notice, "notice"),
        (Self::Warning, "warning"),
        (Self::Error, "error"),
        (Self::Critical, "critical"),
        (Self::Alert, "alert"),
        (Self::Emergency, "emergency"),
    ];

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, name)| *name == word).map(|(level, _)| level)
    }

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.into_iter().find(|(level, _)| *level == self).map_or("debug", |(_, name)| name)
    }
}
