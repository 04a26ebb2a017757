//! The channel to an agent while its request is open: notifications of the server, and its requests to the agent.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use mcpproxy_core::Agent;

use super::ANONYMOUS;
use super::budget::{Charge, is_large, recount};
use super::session::Session;
use super::usage::{AgentKey, Usage};
use crate::bus::{Bus, BusMessage};
use crate::message::RpcError;

/// Sends messages to the agent of one open request.
#[derive(Clone)]
pub(crate) struct AgentChannel {
    events: mpsc::Sender<Box<Event>>,
    /// The agent's own progress token, as raw JSON.
    progress_token: Option<Arc<str>>,
    /// Lowest level of log messages for the agent. `None` sends none.
    log_level: Option<LogLevel>,
    /// The client's MCP capabilities, as raw JSON.
    capabilities: Arc<str>,
    /// The agent that the token belongs to.
    agent: Arc<Agent>,
    usage: Arc<Usage>,
    session: Option<Arc<Session>>,
    /// The session's standing stream, for messages that come after the answer.
    later: Option<Later>,
    progress: Arc<Progress>,
}

/// State of one open request that all clones of its channel share.
#[derive(Default)]
pub(crate) struct Progress {
    /// Set while the agent does not read its messages.
    is_deaf: AtomicBool,
    /// Number of server requests that the agent has not answered.
    open_requests: AtomicUsize,
    /// Memory of the newest answer.
    answer: Mutex<Option<Charge>>,
}

impl Progress {
    /// Takes the memory of a large answer, to hold it until the agent has read the answer.
    pub(crate) fn take_charge(&self, reply_bytes: usize) -> Option<Charge> {
        self.answer().take().filter(|_| is_large(reply_bytes))
    }

    fn answer(&self) -> MutexGuard<'_, Option<Charge>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server request that the agent has not answered.
struct Asking<'a>(&'a Progress);

impl<'a> Asking<'a> {
    fn begin(progress: &'a Progress) -> Self {
        progress.open_requests.fetch_add(1, Ordering::AcqRel);
        Self(progress)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.open_requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The standing stream of a session.
#[derive(Clone)]
pub(crate) enum Later {
    Here(mpsc::Sender<String>),
    /// Another gateway holds the stream.
    Elsewhere {
        bus: Arc<Bus>,
        gateway: String,
        session: String,
    },
}

impl Later {
    /// Sends a notification. A stream whose agent does not read misses it.
    fn say(&self, usage: &Arc<Usage>, text: String) {
        match self {
            Self::Here(send) => {
                let _missed_or_gone = send.try_send(text);
            }
            Self::Elsewhere { bus, gateway, session } => {
                // In a task, because the server's reader must not wait for the database.
                let Ok(forwarding) = usage.begin_forwarding() else { return };
                let (bus, gateway) = (Arc::clone(bus), gateway.clone());
                let message = BusMessage::Notify { session: session.clone(), text };
                tokio::spawn(async move {
                    let _missed = bus.send(Some(&gateway), &message).await;
                    drop(forwarding);
                });
            }
        }
    }
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

/// Syslog levels, lowest first, as MCP orders them.
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

/// Messages that wait for a slow agent. Then its server waits for a while (`patience.rs`), and after that the agent
/// misses messages.
const EVENTS_WAITING: usize = 64;
/// Longest wait for an agent's answer to a server request.
const ANSWER_MAX: Duration = Duration::from_secs(600);

impl AgentChannel {
    pub(crate) fn new(
        progress_token: Option<Arc<str>>,
        log_level: Option<LogLevel>,
        capabilities: Arc<str>,
        (agent, usage): (Arc<Agent>, Arc<Usage>),
        session: Option<Arc<Session>>,
    ) -> (Self, mpsc::Receiver<Box<Event>>) {
        // Boxed, because a channel reserves room for many events, and most requests send none.
        let (events, receiver) = mpsc::channel(EVENTS_WAITING);
        let later = session.as_ref().and_then(|session| session.later());
        (
            Self {
                events,
                progress_token,
                log_level,
                capabilities,
                agent,
                usage,
                session,
                later,
                progress: Arc::default(),
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

    /// Returns the key under which the agent shares pools with others.
    pub(crate) fn key(&self) -> AgentKey {
        self.usage.key()
    }

    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Waits until the agent's answers leave room for one more. Called before anything that holds a slot of a server.
    pub(crate) async fn expect_answer(&self) {
        // An earlier answer of the same request is no reason to wait.
        drop(self.progress.answer().take());
        let charge = self.usage.expect_answer().await;
        *self.progress.answer() = Some(charge);
    }

    /// Counts an answer that has arrived.
    pub(crate) fn count_answer(&self, bytes: usize) {
        let mut answer = self.progress.answer();
        match &mut *answer {
            Some(charge) if is_large(bytes) => recount(charge, bytes),
            None if is_large(bytes) => *answer = Some(self.usage.take_answer(bytes)),
            Some(_) | None => {}
        }
    }

    /// Returns true if both belong to the same session. Without sessions, the token tells who sent a request. Without a
    /// token, nothing does.
    pub(crate) fn is_same_agent(&self, other: &Self) -> bool {
        match (&self.session, &other.session) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (None, None) => self.is_same_token(other),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Returns true if both have the same token, in one session or several. Without a token, nothing tells.
    pub(crate) fn is_same_token(&self, other: &Self) -> bool {
        self.agent.name == other.agent.name && self.agent.name != ANONYMOUS
    }

    /// Returns true if the agent has a standing stream, which messages can use after the answer.
    pub(crate) fn is_reached_later(&self) -> bool {
        self.later.is_some()
    }

    pub(crate) async fn notify(&self, notification: String) {
        let unsent = match self.events.try_send(Box::new(Event::Notify(notification))) {
            Ok(()) => return self.progress.is_deaf.store(false, Ordering::Relaxed),
            Err(TrySendError::Full(_)) if self.progress.is_deaf.load(Ordering::Relaxed) => return,
            Err(TrySendError::Full(event)) => match self.send_in_time(event).await {
                Some(Ok(())) => return,
                Some(Err(mpsc::error::SendError(event))) => event,
                None => return self.progress.is_deaf.store(true, Ordering::Relaxed),
            },
            Err(TrySendError::Closed(event)) => event,
        };
        // An agent that hung up misses notifications. Its call goes on and is recorded.
        if let (Event::Notify(text), Some(later)) = (*unsent, &self.later) {
            later.say(&self.usage, text);
        }
    }

    /// Waits until the queue has room, for as long as the server has patience with the agent. Returns `None` after that.
    async fn send_in_time(&self, event: Box<Event>) -> Option<Result<(), mpsc::error::SendError<Box<Event>>>> {
        let (patience, began) = (self.usage.patience(), Instant::now());
        let allowed = patience.take(began);
        if allowed.is_zero() {
            return None;
        }
        let sent = tokio::time::timeout(allowed, self.events.send(event)).await.ok();
        patience.give_back(allowed.saturating_sub(began.elapsed()));
        sent
    }

    /// Sends a server's request to the agent. The server's timeout pauses until the answer.
    pub(crate) async fn ask(&self, method: &str, params: &str) -> Result<String, RpcError> {
        // A guard, because a server that is disconnected no longer waits. Otherwise its call would never time out.
        let _asking = Asking::begin(&self.progress);
        self.ask_for_gateway(method, params).await
    }

    /// Sends a request of the gateway itself. No server waits for the answer.
    pub(crate) async fn ask_for_gateway(&self, method: &str, params: &str) -> Result<String, RpcError> {
        let (answer, answered) = oneshot::channel();
        let request = ServerRequest { method: method.to_owned(), params: params.to_owned(), answer };
        let gone = || RpcError::new(crate::message::INTERNAL_ERROR, "the agent disconnected before it answered");
        self.events.send(Box::new(Event::Ask(request))).await.map_err(|_| gone())?;
        tokio::time::timeout(ANSWER_MAX, answered)
            .await
            .map_err(|_| RpcError::new(crate::message::INTERNAL_ERROR, "the agent did not answer in time"))?
            .map_err(|_| gone())?
    }

    /// Returns true while the agent, and perhaps its user, has a server request to answer.
    pub(crate) fn is_asking(&self) -> bool {
        self.progress.open_requests.load(Ordering::Acquire) > 0
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

#[cfg(test)]
mod tests {
    use super::super::usage::Usages;
    use super::*;
    use futures::FutureExt as _;
    use mcpproxy_core::Scope;

    /// A server that is disconnected gives up. Its call must be able to time out again.
    #[tokio::test]
    async fn a_server_request_that_is_given_up_is_not_open() {
        let agent = Arc::new(Agent { name: "anna".to_owned(), scope: Scope::everything() });
        let usage = Usages::default().of("anna");
        let (channel, _events) = AgentChannel::new(None, None, "{}".into(), (agent, usage), None);
        let mut asking = Box::pin(channel.ask("elicitation/create", "{}"));
        assert!(asking.as_mut().now_or_never().is_none());
        assert!(channel.is_asking());
        drop(asking);
        assert!(!channel.is_asking());
    }

    /// A server is shared. An agent that reads a message now and then must not hold it up for every single one.
    #[tokio::test]
    async fn a_slow_agent_delays_its_server_for_a_second_in_all() {
        let agent = Arc::new(Agent { name: "anna".to_owned(), scope: Scope::everything() });
        let usage = Usages::default().of("anna");
        let (channel, mut events) = AgentChannel::new(None, None, "{}".into(), (agent, Arc::clone(&usage)), None);
        let notify = || Box::pin(channel.notify("{}".to_owned()));
        for _ in 0..EVENTS_WAITING {
            assert!(notify().now_or_never().is_some());
        }
        let mut waiting = notify();
        assert!(waiting.as_mut().now_or_never().is_none(), "a burst waits for room");
        events.recv().await.unwrap();
        waiting.await;
        // Nothing comes back before this time.
        let later = Instant::now() + Duration::from_secs(3600);
        while !usage.patience().take(later).is_zero() {}
        assert!(notify().now_or_never().is_some(), "nothing waits any more");
        let mut received = 0;
        while events.try_recv().is_ok() {
            received += 1;
        }
        assert_eq!(received, EVENTS_WAITING, "the last one was dropped");
    }
}
