//! Sessions of agents that connected with an `initialize` handshake.
//!
//! A session remembers what the handshake agreed on, and connects requests that arrive separately: the agent's answer
//! to a server's request comes in an HTTP request of its own, and so does `notifications/cancelled`.
//!
//! Invariants:
//!
//! - **An id is not a credential.** `find` compares agent and endpoint mode too. A stolen id is worth nothing without
//!   the token it was opened with.
//! - **Everything is bounded, and the bound belongs to the agent.** An agent has at most `SESSIONS_PER_AGENT` sessions.
//!   When it opens more, its own session that was idle the longest ends, and never one of another agent. Only at
//!   `SESSIONS_MAX` in all, the agent that has the most loses one. A session without requests ends after `IDLE_MAX`.
//!   One with an open request is never idle, and is not ended for another.
//! - **Request ids are compared as raw JSON**, because MCP lets a client use both `1` and `"1"`.
//!
//! Sessions live in memory only. After a restart a client gets 404 for its session id and initializes again, as the
//! protocol asks for. Storing them would not help, because their streams are gone in any case.
//!
//! On standard input there is one session at most, and a second one that only tracks open requests
//! (`downstream/stdio.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mcpproxy_core::settings::is_provider_agent;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::channel::{LogLevel, ServerRequest};
use super::endpoint_mode::EndpointMode;
use super::usage::{OverLimit, SubscribedUris, Usage};
use crate::message::{self, RpcError};

const SESSIONS_PER_AGENT: usize = 100;
const SESSIONS_MAX: usize = 10_000;
/// Time without requests after which a session ends.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<String, Arc<Session>>>,
}

pub(crate) struct Session {
    pub(crate) id: String,
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
    /// The agent's GET stream for notifications, while it has one.
    standing: Mutex<Option<mpsc::Sender<String>>>,
    used: Mutex<Instant>,
    next_server_request: AtomicU64,
    server_requests: Mutex<HashMap<String, oneshot::Sender<Result<String, RpcError>>>>,
    /// Open requests by raw id, so that they can be cancelled.
    open_requests: Mutex<HashMap<String, CancellationToken>>,
    /// Cancelled when the session ends.
    pub(crate) ended: CancellationToken,
}

impl Sessions {
    /// Opens a session. It may take the place of an idle one of the same agent.
    pub(crate) fn open(&self, session: Session) -> Result<Arc<Session>, OverLimit> {
        let session = Arc::new(session);
        let mut open = self.table();
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
        open.insert(session.id.clone(), Arc::clone(&session));
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
            .get(id)
            .filter(|session| session.agent == agent && session.endpoint_mode == *endpoint_mode)
            .cloned()?;
        *lock(&session.used) = Instant::now();
        Some(session)
    }

    pub(crate) fn close(&self, session: &Session) {
        self.table().remove(&session.id);
        session.ended.cancel();
    }

    /// Closes the sessions of all direct addresses.
    pub(crate) fn close_direct(&self) {
        for session in self.list().iter().filter(|session| session.endpoint_mode != EndpointMode::Four) {
            self.close(session);
        }
    }

    /// Closes the sessions of all agents that came with a token of the identity provider.
    pub(crate) fn close_of_provider(&self) {
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
        Self {
            id: format!("{:032x}", rand::random::<u128>()),
            agent: usage.agent().to_owned(),
            endpoint_mode,
            client,
            capabilities,
            revision: String::new(),
            began_ms: Timestamp::now().as_millisecond(),
            uris: Arc::new(SubscribedUris::new(usage)),
            level: Mutex::default(),
            standing: Mutex::default(),
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

    pub(crate) fn standing(&self) -> Option<mpsc::Sender<String>> {
        lock(&self.standing).clone()
    }

    pub(crate) fn stands_on(&self, send: mpsc::Sender<String>) {
        *lock(&self.standing) = Some(send);
    }

    /// Registers a server's request until its answer comes, and returns the message for the agent.
    pub(crate) fn ask(&self, request: ServerRequest) -> String {
        let id = format!("\"mcpproxy-{}\"", self.next_server_request.fetch_add(1, Ordering::Relaxed));
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
        waiting.is_some_and(|answer| answer.send(outcome.map(str::to_owned).map_err(RpcError::parse)).is_ok())
    }

    /// Registers an open request until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, id: &str, cancel: CancellationToken) -> OpenRequest {
        lock(&self.open_requests).insert(id.to_owned(), cancel);
        OpenRequest { session: Arc::clone(self), id: id.to_owned() }
    }

    pub(crate) fn cancel(&self, id: &str) {
        if let Some(cancel) = lock(&self.open_requests).get(id) {
            cancel.cancel();
        }
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
    let longest = idle.max_by_key(|session| session.idle()).map(|session| session.id.clone());
    let ended = longest.and_then(|id| open.remove(&id)).ok_or(OverLimit::Sessions)?;
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
mod tests {
    use super::super::usage::Usages;
    use super::*;

    fn session(usages: &Usages, agent: &str) -> Session {
        Session::new(&usages.of(agent), EndpointMode::Four, None, "{}".into())
    }

    #[test]
    fn an_agent_with_too_many_sessions_loses_its_own_oldest() {
        let (sessions, usages) = (Sessions::default(), Usages::default());
        let stranger = sessions.open(session(&usages, "stranger")).unwrap();
        let first = sessions.open(session(&usages, "greedy")).unwrap();
        let busy = sessions.open(session(&usages, "greedy")).unwrap();
        let _open_request = busy.begin("1", CancellationToken::new());
        for _ in 0..SESSIONS_PER_AGENT * 3 {
            sessions.open(session(&usages, "greedy")).unwrap();
        }
        let is_open = |session: &Session| sessions.find(&session.id, &session.agent, &EndpointMode::Four).is_some();
        assert!(is_open(&stranger) && is_open(&busy) && !is_open(&first));
        assert!(first.ended.is_cancelled() && !stranger.ended.is_cancelled());
        assert_eq!(sessions.list().len(), SESSIONS_PER_AGENT + 1);
    }

    #[test]
    fn an_agent_whose_sessions_are_all_busy_gets_no_more() {
        let (sessions, usages) = (Sessions::default(), Usages::default());
        let open: Vec<_> =
            (0..SESSIONS_PER_AGENT).map(|_| sessions.open(session(&usages, "greedy")).unwrap()).collect();
        let _busy: Vec<_> = open.iter().map(|session| session.begin("1", CancellationToken::new())).collect();
        assert_eq!(sessions.open(session(&usages, "greedy")).err(), Some(OverLimit::Sessions));
        assert!(sessions.open(session(&usages, "other")).is_ok());
    }

    #[test]
    fn of_too_many_sessions_in_all_the_agent_with_the_most_loses_one() {
        let (sessions, usages) = (Sessions::default(), Usages::default());
        for number in 0..SESSIONS_MAX - 1 {
            // Not with `open`, which looks at all sessions each time.
            let one = session(&usages, &format!("agent {}", number / 99));
            sessions.table().insert(one.id.clone(), Arc::new(one));
        }
        let one = sessions.open(session(&usages, "one")).unwrap();
        let two = sessions.open(session(&usages, "two")).unwrap();
        assert_eq!(sessions.list().len(), SESSIONS_MAX);
        assert!(!one.ended.is_cancelled() && !two.ended.is_cancelled());
    }

    #[test]
    fn requests_that_nobody_waits_for_do_not_pile_up() {
        let session = session(&Usages::default(), "agent");
        let ask = || {
            let (answer, answered) = oneshot::channel();
            let (method, params) = ("sampling/createMessage".to_owned(), "{}".to_owned());
            (session.ask(ServerRequest { method, params, answer }), answered)
        };
        let (_, mut awaited) = ask();
        for _ in 0..1000 {
            let (_, given_up) = ask();
            drop(given_up);
        }
        assert!(lock(&session.server_requests).len() <= 2);
        assert!(session.answer("\"mcpproxy-1\"", Ok("{}")));
        assert!(awaited.try_recv().unwrap().is_ok_and(|answer| answer == "{}"));
    }
}
