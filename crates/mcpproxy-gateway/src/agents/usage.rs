//! Counts the requests, streams and subscriptions of each agent, and enforces their limits.
//!
//! Limits belong to an agent, not to one of its connections. So all sessions and requests with one token share one
//! [`Usage`]. Requests without a token, where the settings allow them, are one agent too, because nothing tells them
//! apart.
//!
//! Counting is by guard: [`Usage::begin_request`] and [`Usage::open_stream`] return an [`InUse`], which stops counting
//! when it is dropped. An agent at a limit gets an [`OverLimit`], which becomes 429 with `Retry-After`. Nothing of
//! another agent is ended or delayed for it. Sessions are counted by their table, in `session.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mcpproxy_core::ErrorCode;
use serde_json::json;

use super::budget::{Budget, Charge};
use super::patience::Patience;
use crate::message::{AGENT_LIMIT, RpcError};

/// Requests that one agent may have open, over all connections.
const REQUESTS_MAX: usize = 1000;
/// Streams of notifications that one agent may have open.
const STREAMS_MAX: usize = 128;
/// Messages of one agent that may be on their way to other gateways.
const FORWARDING_MAX: usize = 32;
/// Resources that one agent may be subscribed to, over all sessions and streams.
const SUBSCRIPTIONS_MAX: usize = 1000;
/// Bytes of their URIs.
const URI_BYTES_MAX: usize = 256 * 1024;
/// Agents in the table, beyond which those that use nothing are forgotten.
const REMEMBERED: usize = 1024;

/// The usage of all agents, by name.
pub(crate) struct Usages {
    budget: Budget,
    table: Mutex<Table>,
}

/// Bounded by the number of tokens, and by `REMEMBERED` for agents that use nothing.
#[derive(Default)]
struct Table {
    agents: HashMap<String, Arc<Usage>>,
    next_key: u64,
}

/// A small name of an agent in this process, for pools that agents share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AgentKey(u64);

pub(crate) struct Usage {
    agent: String,
    key: AgentKey,
    budget: Budget,
    requests: AtomicUsize,
    streams: AtomicUsize,
    forwarding: AtomicUsize,
    subscriptions: Mutex<Subscriptions>,
    patience: Patience,
    /// Held while a refused body is read.
    discarding: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Subscriptions {
    count: usize,
    uri_bytes: usize,
}

/// A limit that an agent has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverLimit {
    #[error("this agent already has {} open requests. Wait until some are answered, then try again", REQUESTS_MAX)]
    Requests,
    #[error("this agent already has {} open streams of notifications. Close some, then try again", STREAMS_MAX)]
    Streams,
    #[error(
        "this agent may be subscribed to {} resources, with {} bytes of URIs. Unsubscribe from some, or end sessions, \
         then try again",
        SUBSCRIPTIONS_MAX,
        URI_BYTES_MAX
    )]
    Subscriptions,
    #[error("all sessions of this agent have open requests. Wait until some are answered, then try again")]
    Sessions,
    #[error(
        "{} messages of this agent are already on their way to other gateways. Wait a moment, then try again",
        FORWARDING_MAX
    )]
    Forwarding,
    #[error("requests of this agent already wait for memory. Wait until some are answered, then try again")]
    Bytes,
}

impl From<OverLimit> for RpcError {
    fn from(limit: OverLimit) -> Self {
        Self::new(AGENT_LIMIT, limit.to_string()).with_data(&json!({"code": ErrorCode::AgentLimit.as_str()}))
    }
}

/// One open request or stream. Dropping it stops counting it.
pub(crate) struct InUse {
    usage: Arc<Usage>,
    counter: fn(&Usage) -> &AtomicUsize,
}

/// URIs of resources that a session or stream is subscribed to. They count for the agent until this is dropped.
pub(crate) struct SubscribedUris {
    usage: Arc<Usage>,
    uris: Mutex<HashSet<String>>,
}

#[cfg(test)]
impl Default for Usages {
    fn default() -> Self {
        Self::new(mcpproxy_core::settings::LimitSettings::default().memory_bytes)
    }
}

impl Usages {
    /// Starts to count. All agents together have this much memory for requests and answers in flight.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self { budget: Budget::new(memory_bytes), table: Mutex::default() }
    }

    pub(crate) fn resize(&self, memory_bytes: usize) {
        self.budget.resize(memory_bytes);
    }

    /// Returns the bytes of requests and of answers that count against the memory.
    pub(crate) fn bytes_in_flight(&self) -> (usize, usize) {
        self.budget.held()
    }

    /// Returns the usage of an agent. It is the same for as long as anything of the agent is open.
    pub(crate) fn of(&self, agent: &str) -> Arc<Usage> {
        let table = &mut *lock(&self.table);
        if let Some(usage) = table.agents.get(agent) {
            return Arc::clone(usage);
        }
        if table.agents.len() >= REMEMBERED {
            // Whatever an agent has open holds a clone.
            table.agents.retain(|_, usage| Arc::strong_count(usage) > 1);
        }
        let usage = Arc::new(Usage {
            agent: agent.to_owned(),
            key: AgentKey(table.next_key),
            budget: self.budget.clone(),
            requests: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            forwarding: AtomicUsize::new(0),
            subscriptions: Mutex::default(),
            patience: Patience::new(Instant::now()),
            discarding: tokio::sync::Mutex::default(),
        });
        table.next_key += 1;
        table.agents.insert(agent.to_owned(), Arc::clone(&usage));
        usage
    }
}

impl Usage {
    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    pub(crate) fn key(&self) -> AgentKey {
        self.key
    }

    /// Returns the time that servers still wait for this agent to read.
    pub(crate) fn patience(&self) -> &Patience {
        &self.patience
    }

    pub(crate) fn begin_request(self: &Arc<Self>) -> Result<InUse, OverLimit> {
        self.count(|usage| &usage.requests, REQUESTS_MAX).ok_or(OverLimit::Requests)
    }

    pub(crate) fn open_stream(self: &Arc<Self>) -> Result<InUse, OverLimit> {
        self.count(|usage| &usage.streams, STREAMS_MAX).ok_or(OverLimit::Streams)
    }

    pub(crate) fn begin_forwarding(self: &Arc<Self>) -> Result<InUse, OverLimit> {
        self.count(|usage| &usage.forwarding, FORWARDING_MAX).ok_or(OverLimit::Forwarding)
    }

    /// Waits until no other refused body of this agent is read.
    pub(crate) async fn discard_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.discarding.lock().await
    }

    /// Waits for room for a request of this size, before its body is read.
    pub(crate) async fn receive(&self, bytes: usize) -> Result<Option<Charge>, OverLimit> {
        self.budget.receive(self.key, bytes).await
    }

    /// Counts a request that is in memory already, without waiting.
    pub(crate) fn take_request(&self, bytes: usize) -> Result<Option<Charge>, OverLimit> {
        self.budget.take_request(self.key, bytes)
    }

    /// Waits until the answers of this agent leave room for one more.
    pub(super) async fn expect_answer(&self) -> Charge {
        self.budget.expect_answer(self.key).await
    }

    /// Counts an answer without waiting.
    pub(super) fn take_answer(&self, bytes: usize) -> Charge {
        self.budget.take_answer(self.key, bytes)
    }

    fn count(self: &Arc<Self>, counter: fn(&Self) -> &AtomicUsize, max: usize) -> Option<InUse> {
        // The guard exists before the check, so that it also undoes a count that was one too many.
        let before = counter(self).fetch_add(1, Ordering::Relaxed);
        let in_use = InUse { usage: Arc::clone(self), counter };
        (before < max).then_some(in_use)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        (self.counter)(&self.usage).fetch_sub(1, Ordering::Relaxed);
    }
}

impl SubscribedUris {
    pub(crate) fn new(usage: &Arc<Usage>) -> Self {
        Self { usage: Arc::clone(usage), uris: Mutex::default() }
    }

    pub(crate) fn insert(&self, uri: &str) -> Result<(), OverLimit> {
        let mut uris = lock(&self.uris);
        if uris.contains(uri) {
            return Ok(());
        }
        {
            let mut all = lock(&self.usage.subscriptions);
            let uri_bytes = all.uri_bytes.saturating_add(uri.len());
            if all.count >= SUBSCRIPTIONS_MAX || uri_bytes > URI_BYTES_MAX {
                return Err(OverLimit::Subscriptions);
            }
            *all = Subscriptions { count: all.count + 1, uri_bytes };
        }
        uris.insert(uri.to_owned());
        Ok(())
    }

    pub(crate) fn remove(&self, uri: &str) {
        if let Some(uri) = lock(&self.uris).take(uri) {
            self.give_back(1, uri.len());
        }
    }

    pub(crate) fn contains(&self, uri: &str) -> bool {
        lock(&self.uris).contains(uri)
    }

    pub(crate) fn list(&self) -> Vec<String> {
        lock(&self.uris).iter().cloned().collect()
    }

    fn give_back(&self, count: usize, uri_bytes: usize) {
        let mut all = lock(&self.usage.subscriptions);
        all.count = all.count.saturating_sub(count);
        all.uri_bytes = all.uri_bytes.saturating_sub(uri_bytes);
    }
}

impl Drop for SubscribedUris {
    fn drop(&mut self) {
        let uris = std::mem::take(&mut *lock(&self.uris));
        self.give_back(uris.len(), uris.iter().map(String::len).sum());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_keeps_its_usage_while_it_uses_anything() {
        let usages = Usages::default();
        let (anna, ben) = (usages.of("anna"), usages.of("ben"));
        assert_ne!(anna.key(), ben.key());
        for number in 0..3 * REMEMBERED {
            usages.of(&format!("agent {number}"));
        }
        assert_eq!(usages.of("anna").key(), anna.key());
        assert!(lock(&usages.table).agents.len() <= REMEMBERED);
    }

    #[test]
    fn requests_and_streams_are_counted_for_each_agent_until_they_end() {
        let usages = Usages::default();
        let (anna, ben) = (usages.of("anna"), usages.of("ben"));
        let mut requests: Vec<_> = (0..REQUESTS_MAX).map(|_| anna.begin_request().unwrap()).collect();
        let streams: Vec<_> = (0..STREAMS_MAX).map(|_| anna.open_stream().unwrap()).collect();
        assert_eq!(anna.begin_request().err(), Some(OverLimit::Requests));
        assert_eq!(anna.open_stream().err(), Some(OverLimit::Streams));
        assert!(ben.begin_request().is_ok() && ben.open_stream().is_ok(), "another agent is not affected");
        requests.pop();
        assert!(anna.begin_request().is_ok());
        drop((requests, streams));
        assert_eq!((anna.requests.load(Ordering::Relaxed), anna.streams.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn subscriptions_are_counted_over_all_sessions_until_they_end() {
        let usages = Usages::default();
        let anna = usages.of("anna");
        let (one, two) = (SubscribedUris::new(&anna), SubscribedUris::new(&anna));
        for number in 0..SUBSCRIPTIONS_MAX {
            let uris = if number % 2 == 0 { &one } else { &two };
            uris.insert(&format!("memo://{number}")).unwrap();
        }
        assert_eq!(one.insert("memo://more"), Err(OverLimit::Subscriptions));
        assert_eq!(one.insert("memo://0"), Ok(()), "it is subscribed already");
        let ben = SubscribedUris::new(&usages.of("ben"));
        assert_eq!(ben.insert("memo://more"), Ok(()), "another agent is not affected");
        one.remove("memo://0");
        one.remove("memo://0");
        assert_eq!(one.insert("memo://more"), Ok(()));
        assert!(one.contains("memo://more") && !one.contains("memo://0"));
        drop((one, two));
        let all = lock(&anna.subscriptions);
        assert_eq!((all.count, all.uri_bytes), (0, 0));
    }

    #[test]
    fn bytes_of_uris_are_limited_too() {
        let uris = SubscribedUris::new(&Usages::default().of("anna"));
        assert_eq!(uris.insert(&"x".repeat(URI_BYTES_MAX + 1)), Err(OverLimit::Subscriptions));
        assert_eq!(uris.insert(&"x".repeat(URI_BYTES_MAX)), Ok(()));
        assert_eq!(uris.insert("y"), Err(OverLimit::Subscriptions));
    }
}
