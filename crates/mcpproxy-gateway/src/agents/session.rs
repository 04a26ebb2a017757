//! Sessions of agents that connected with an `initialize` handshake.
//!
//! A session remembers what the handshake agreed on, and connects requests that arrive separately: the agent's answer
//! to a server's request comes in an HTTP request of its own, and so does `notifications/cancelled`.
//!
//! Invariants:
//!
//! - **An id is not a credential.** `find` compares agent and endpoint mode too, and the id is sealed for both
//!   (`session_id.rs`). A stolen id is worth nothing without the token it was opened with.
//! - **Everything is bounded, and the bound belongs to the agent.** An agent has at most `SESSIONS_PER_AGENT` sessions.
//!   When it opens more, its own session that was idle the longest ends, and never one of another agent. Only at
//!   `SESSIONS_MAX` in all, the agent that has the most loses one. A session without requests ends after `IDLE_MAX`.
//!   One with an open request is never idle, and is not ended for another.
//! - **Request ids are compared as raw JSON**, because MCP lets a client use both `1` and `"1"`.
//!
//! This table is a cache. The sealed id carries what the handshake agreed on, so a gateway that does not have a session in
//! memory rebuilds it (`replicas.rs`): after a restart, or when another gateway opened it. What truly lives in one process
//! is found through the database: [`Session::asked_at`] names the gateway that asked the agent something, and
//! [`Session::later`] the one that holds the stream for notifications.
//!
//! On standard input there is one session at most, and a second one that only tracks open requests
//! (`downstream/stdio.rs`).

mod shared;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mcpproxy_core::Agent;
use mcpproxy_core::settings::is_provider_agent;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::channel::{LogLevel, ServerRequest};
use super::endpoint_mode::EndpointMode;
use super::session_id::{self, SessionContent};
use super::usage::{OverLimit, SubscribedUris, Usage};
use crate::bus::Bus;
use crate::message::{self, RpcError};

const SESSIONS_PER_AGENT: usize = 100;
const SESSIONS_MAX: usize = 10_000;
/// Time without requests after which a session ends.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

#[derive(Default)]
pub(crate) struct Sessions {
    /// By uid.
    open: Mutex<HashMap<String, Arc<Session>>>,
    /// Sessions of agents of the identity provider that began before this time have ended.
    provider_since_ms: AtomicI64,
    /// Counts messages of other gateways about changed sessions.
    news: AtomicU64,
}

pub(crate) struct Session {
    /// The sealed id that the agent sends. On standard input, the uid.
    pub(crate) id: String,
    /// Names the session in tables and in messages between gateways.
    pub(crate) uid: String,
    pub(crate) agent: String,
    pub(crate) endpoint_mode: EndpointMode,
    pub(crate) client: Option<String>,
    pub(crate) capabilities: Arc<str>,
    /// The MCP revision that the handshake agreed on. Empty where there was none.
    pub(crate) revision: String,
    /// Milliseconds since 1970.
    pub(crate) began_ms: i64,
    /// URIs of resources that the agent subscribed to.
    pub(crate) uris: Arc<SubscribedUris>,
    level: Mutex<Option<LogLevel>>,
    /// The agent's GET stream for notifications, while it has one here.
    standing: Mutex<Option<Standing>>,
    /// Another gateway that holds the agent's GET stream.
    stream_at: Mutex<Option<String>>,
    /// Subscriptions that another gateway took, and of which servers here were not told. Bounded like `uris`.
    untold_uris: Mutex<Vec<String>>,
    /// The way to other gateways. `None` without any.
    bus: Option<Arc<Bus>>,
    used: Mutex<Instant>,
    next_server_request: AtomicU64,
    server_requests: Mutex<HashMap<String, oneshot::Sender<Result<String, RpcError>>>>,
    /// Open requests by raw id, so that they can be cancelled.
    open_requests: Mutex<HashMap<String, CancellationToken>>,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
}

/// The agent's stream for notifications on this gateway.
struct Standing {
    send: mpsc::Sender<String>,
    agent: Arc<Agent>,
}

impl Standing {
    /// Returns the stream, unless it was closed.
    fn open(standing: &Option<Self>) -> Option<&Self> {
        standing.as_ref().filter(|standing| !standing.send.is_closed())
    }
}

impl Sessions {
    /// Opens a session, or returns the one that is open already. It may take the place of an idle one of the same agent.
    pub(crate) fn open(&self, session: Session) -> Result<Arc<Session>, OverLimit> {
        let session = Arc::new(session);
        let mut open = self.table();
        if let Some(known) = open.get(&session.uid).filter(|known| known.id == session.id) {
            return Ok(Arc::clone(known));
        }
        open.retain(|_, session| {
            let is_kept = session.idle() < IDLE_MAX;
            if !is_kept {
                // Its stream would stay open, and count.
                session.ended.cancel();
            }
            is_kept
        });
        let own = open.values().filter(|other| other.agent == session.agent).count();
        if own >= SESSIONS_PER_AGENT {
            end_longest_idle(&mut open, &session.agent)?;
        } else if open.len() >= SESSIONS_MAX
            && let Some(agent) = agent_with_most(&open)
        {
            end_longest_idle(&mut open, &agent)?;
        }
        open.insert(session.uid.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Lists all sessions that are not idle for too long, by agent and client.
    pub(crate) fn list(&self) -> Vec<Arc<Session>> {
        let mut open: Vec<Arc<Session>> =
            self.table().values().filter(|session| session.idle() < IDLE_MAX).cloned().collect();
        open.sort_by(|a, b| (&a.agent, &a.client, &a.id).cmp(&(&b.agent, &b.client, &b.id)));
        open
    }

    /// Finds a session by id, if it belongs to this agent and endpoint mode.
    pub(crate) fn find(&self, id: &str, agent: &str, endpoint_mode: &EndpointMode) -> Option<Arc<Session>> {
        let session = self
            .table()
            .get(session_id::uid_of(id)?)
            .filter(|session| session.id == id && session.agent == agent && session.endpoint_mode == *endpoint_mode)
            .cloned()?;
        *lock(&session.used) = Instant::now();
        Some(session)
    }

    /// Finds a session by its uid, for a message of another gateway.
    pub(crate) fn find_uid(&self, uid: &str) -> Option<Arc<Session>> {
        self.table().get(uid).cloned()
    }

    /// Counts a message about a changed session.
    pub(crate) fn count_news(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of messages about changed sessions so far.
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// Returns true if a session that is not in memory may be rebuilt.
    pub(crate) fn may_return(&self, agent: &str, began_ms: i64) -> bool {
        !is_provider_agent(agent) || began_ms > self.provider_since_ms.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self, session: &Session) {
        self.table().remove(&session.uid);
        session.ended.cancel();
    }

    /// Forgets sessions that do nothing now. Their next request rebuilds them from what is stored. Returns the others.
    pub(crate) fn forget_quiet(&self) -> Vec<Arc<Session>> {
        self.count_news();
        let mut open = self.table();
        open.retain(|_, session| session.has_open_request() || Standing::open(&lock(&session.standing)).is_some());
        open.values().cloned().collect()
    }

    /// Closes the sessions of all direct addresses.
    pub(crate) fn close_direct(&self) {
        for session in self.list().iter().filter(|session| session.endpoint_mode != EndpointMode::Four) {
            self.close(session);
        }
    }

    /// Closes the sessions of all agents that came with a token of the identity provider.
    pub(crate) fn close_of_provider(&self) {
        self.provider_since_ms.store(Timestamp::now().as_millisecond(), Ordering::Release);
        for session in self.list().iter().filter(|session| is_provider_agent(&session.agent)) {
            self.close(session);
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        lock(&self.open)
    }
}

impl Session {
    pub(crate) fn new(
        usage: &Arc<Usage>,
        endpoint_mode: EndpointMode,
        client: Option<String>,
        capabilities: Arc<str>,
    ) -> Self {
        let uid = session_id::new_uid();
        let content = SessionContent {
            uid: uid.clone(),
            revision: String::new(),
            began_ms: Timestamp::now().as_millisecond(),
            client: client.as_deref().map(session_id::kept_client),
            capabilities: session_id::kept_capabilities(&capabilities).into(),
        };
        Self::of(usage, endpoint_mode, uid, content, None)
    }

    /// Builds a session from the content of its id.
    pub(crate) fn of(
        usage: &Arc<Usage>,
        endpoint_mode: EndpointMode,
        id: String,
        content: SessionContent,
        bus: Option<Arc<Bus>>,
    ) -> Self {
        let SessionContent { uid, revision, began_ms, client, capabilities } = content;
        Self {
            id,
            uid,
            agent: usage.agent().to_owned(),
            endpoint_mode,
            client,
            capabilities,
            revision,
            began_ms,
            uris: Arc::new(SubscribedUris::new(usage)),
            level: Mutex::default(),
            standing: Mutex::default(),
            stream_at: Mutex::default(),
            untold_uris: Mutex::default(),
            bus,
            used: Mutex::new(Instant::now()),
            next_server_request: AtomicU64::new(1),
            server_requests: Mutex::default(),
            open_requests: Mutex::default(),
            ended: CancellationToken::new(),
        }
    }

    pub(crate) fn level(&self) -> Option<LogLevel> {
        *lock(&self.level)
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        *lock(&self.level) = Some(level);
    }

    pub(crate) fn stands_on(&self, send: mpsc::Sender<String>, agent: Arc<Agent>) {
        *lock(&self.standing) = Some(Standing { send, agent });
    }

    /// Registers a server's request until its answer comes, and returns the message for the agent.
    pub(crate) fn ask(&self, request: ServerRequest) -> String {
        let number = self.next_server_request.fetch_add(1, Ordering::Relaxed);
        // The answer may arrive at any gateway, so the id names the one that waits for it.
        let id = match &self.bus {
            Some(bus) => format!("\"mcpproxy-{number}@{}\"", bus.name()),
            None => format!("\"mcpproxy-{number}\""),
        };
        let text = message::request(&id, &request.method, &request.params);
        let mut requests = lock(&self.server_requests);
        // A client may never answer. Requests that the gateway no longer waits for must not pile up.
        requests.retain(|_, answer| !answer.is_closed());
        requests.insert(id, request.answer);
        text
    }

    /// Takes the answer to a server's request. Returns `false` if there is no such request.
    pub(crate) fn answer(&self, id: &str, outcome: Result<&str, &str>) -> bool {
        let waiting = lock(&self.server_requests).remove(id);
        waiting.is_some_and(|answer| answer.send(message::owned_reply(outcome)).is_ok())
    }

    /// Registers an open request until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, id: &str, cancel: CancellationToken) -> OpenRequest {
        lock(&self.open_requests).insert(id.to_owned(), cancel);
        OpenRequest { session: Arc::clone(self), id: id.to_owned() }
    }

    /// Cancels an open request. Returns false if it is not open here.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        let found = lock(&self.open_requests).get(id).cloned();
        found.inspect(CancellationToken::cancel).is_some()
    }

    fn has_open_request(&self) -> bool {
        !lock(&self.open_requests).is_empty()
    }

    pub(crate) fn idle(&self) -> Duration {
        if !self.has_open_request() { lock(&self.used).elapsed() } else { Duration::ZERO }
    }
}

/// Ends the session of an agent that was idle the longest.
fn end_longest_idle(open: &mut HashMap<String, Arc<Session>>, agent: &str) -> Result<(), OverLimit> {
    let idle = open.values().filter(|session| session.agent == agent && !session.has_open_request());
    let longest = idle.max_by_key(|session| session.idle()).map(|session| session.uid.clone());
    let ended = longest.and_then(|uid| open.remove(&uid)).ok_or(OverLimit::Sessions)?;
    ended.ended.cancel();
    Ok(())
}

fn agent_with_most(open: &HashMap<String, Arc<Session>>) -> Option<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for session in open.values() {
        *counts.entry(&session.agent).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(agent, _)| agent.to_owned())
}

/// Guard of an open request. Dropping it removes the request from its session.
pub(crate) struct OpenRequest {
    session: Arc<Session>,
    id: String,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        lock(&self.session.open_requests).remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
