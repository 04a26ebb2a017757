//! Calls that wait for an answer of a stateless client.
//!
//! A server may ask the agent something during a call. A stateless client cannot receive requests, so the call is
//! parked and the client gets an `input_required` result. It sends the same request again with the answer, which
//! resumes the call.
//!
//! The retry may arrive at another gateway. So a `requestState` names the gateway that has the call, after a tag that only
//! gateways with the same database know: `mcpproxy-parked-TAG.GATEWAY-RANDOM`. Without the tag, a state of a server that is
//! itself an mcpproxy would look like one of ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mcpproxy_core::json::{quote, string_value};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::channel::ServerRequest;
use super::in_flight::InFlight;
use crate::message::{self, Members, RpcError, field, member, object};

const PREFIX: &str = "mcpproxy-parked-";
/// Key of the server's request in `inputRequests`, and of its answer in `inputResponses`.
const QUESTION: &str = "question";
/// Limit per agent. A parked call keeps its slot at the server.
const PARKED_PER_AGENT: usize = 8;
const PARKED_MAX: usize = 1000;
const WAIT_MAX: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub(crate) struct Parked {
    waiting: Arc<Mutex<HashMap<String, Waiting>>>,
    /// The name of this process. It is random, because a server may itself be an mcpproxy.
    gateway: Arc<str>,
    /// The tag of all gateways that share the database. Unknown until the database was asked.
    tag: Arc<OnceLock<String>>,
}

/// The call that a request continues.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RetryOf {
    /// It is no retry of a parked call.
    Nothing,
    Here,
    /// Another gateway has parked the call.
    Elsewhere(String),
}

struct Waiting {
    agent: String,
    /// The request without what a retry adds. Only the same request can resume the call.
    subject: String,
    answer: oneshot::Sender<Result<String, RpcError>>,
    in_flight: InFlight,
    _expiry: Expiry,
}

/// The task that drops a parked call when its time is up. It ends with the call. Otherwise, the tasks of all calls of
/// the last ten minutes would stay in memory.
struct Expiry(AbortHandle);

impl Drop for Expiry {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Parked {
    pub(crate) fn new(gateway: &Arc<str>) -> Self {
        Self { waiting: Arc::default(), gateway: Arc::clone(gateway), tag: Arc::default() }
    }

    /// Sets the tag of all gateways that share the database.
    pub(crate) fn set_tag(&self, tag: String) {
        let _same = self.tag.set(tag);
    }

    /// Parks a call and returns the result with the server's request.
    pub(crate) fn park(&self, in_flight: InFlight, asked: ServerRequest, agent: &str, subject: String) -> String {
        let shared = self.tag.get().map(|tag| format!("{tag}.")).unwrap_or_default();
        let state = format!("{PREFIX}{shared}{}-{:032x}", self.gateway, rand::random::<u128>());
        let request = object([("method", quote(&asked.method).as_str()), ("params", &asked.params)]);
        let _expiry = self.expire(state.clone());
        let waiting = Waiting { agent: agent.to_owned(), subject, answer: asked.answer, in_flight, _expiry };
        let _dropped = {
            let mut table = self.table();
            let own: Vec<&String> = table.iter().filter(|(_, w)| w.agent == agent).map(|(key, _)| key).collect();
            let dropped = match own.first() {
                // An agent that parks too many calls loses its own first.
                Some(first) if own.len() >= PARKED_PER_AGENT || table.len() >= PARKED_MAX => Some((*first).clone()),
                None if table.len() >= PARKED_MAX => table.keys().next().cloned(),
                Some(_) | None => None,
            };
            table.insert(state.clone(), waiting);
            dropped.and_then(|key| table.remove(&key))
        };
        let requests = object([(QUESTION, request.as_str())]);
        object([("resultType", "\"input_required\""), ("inputRequests", &requests), ("requestState", &quote(&state))])
    }

    /// Resumes a parked call, if this request is its retry.
    pub(crate) fn resume(&self, params: &Members<'_>, agent: &str) -> Option<InFlight> {
        let state = field(params, "requestState").and_then(string_value)?;
        let answer = member(field(params, "inputResponses")?, QUESTION)?.to_owned();
        let mut table = self.table();
        let is_same = table.get(state.as_ref()).is_some_and(|w| w.agent == agent && w.subject == subject(params));
        let waiting = if is_same { table.remove(state.as_ref()) } else { None }?;
        drop(table);
        let _gone = waiting.answer.send(Ok(answer));
        Some(waiting.in_flight)
    }

    /// Ends all parked calls. Each is carried to its end in the background and recorded.
    pub(crate) fn end_all(&self) {
        let ended = std::mem::take(&mut *self.table());
        drop(ended);
    }

    /// Tells which parked call a request claims to continue. A state of a server is not ours.
    pub(crate) fn retry_of(&self, params: &Members<'_>) -> RetryOf {
        let state = field(params, "requestState").and_then(string_value);
        let Some(rest) = state.as_deref().and_then(|state| state.strip_prefix(PREFIX)) else { return RetryOf::Nothing };
        let shared = self.tag.get().and_then(|tag| rest.strip_prefix(tag.as_str())?.strip_prefix('.'));
        match (shared.unwrap_or(rest).split_once('-'), shared) {
            (Some((gateway, _)), _) if gateway == &*self.gateway => RetryOf::Here,
            (Some((gateway, _)), Some(_)) => RetryOf::Elsewhere(gateway.to_owned()),
            (Some(_) | None, _) => RetryOf::Nothing,
        }
    }

    fn expire(&self, key: String) -> Expiry {
        let parked = self.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep(WAIT_MAX).await;
            parked.table().remove(&key);
        });
        Expiry(task.abort_handle())
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the parameters of a request without those that a retry changes.
pub(crate) fn subject(params: &Members<'_>) -> String {
    let stays = |key: &str| !matches!(key, "_meta" | "inputResponses" | "requestState");
    message::object(params.iter().filter(|(key, _)| stays(key)).map(|(key, value)| (key.as_ref(), *value)))
}

#[cfg(test)]
mod tests {
    use super::super::in_flight::OnDrop;
    use super::*;
    use mcpproxy_core::json::members;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    /// Parks a call and returns the parameters of the retry that resumes it.
    fn park(parked: &Parked) -> String {
        let work = Box::pin(async { Ok("{}".to_owned()) });
        let (cancel, events) = (CancellationToken::new(), mpsc::channel(1).1);
        let in_flight = InFlight::new(work, events, OnDrop::Finish, cancel, None);
        let (answer, _) = oneshot::channel();
        let asked = ServerRequest { method: "elicitation/create".to_owned(), params: "{}".to_owned(), answer };
        let result = parked.park(in_flight, asked, "agent", object([("name", "\"t\"")]));
        let state = member(&result, "requestState").unwrap();
        object([("name", "\"t\""), ("inputResponses", r#"{"question":{}}"#), ("requestState", state)])
    }

    /// Waits until only this many tasks are left.
    async fn tasks_fall_to(expected: usize) {
        let metrics = tokio::runtime::Handle::current().metrics();
        for _ in 0..1000 {
            if metrics.num_alive_tasks() == expected {
                return;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(metrics.num_alive_tasks(), expected);
    }

    #[test]
    fn a_state_names_the_gateway_that_has_the_call() {
        let parked = Parked::new(&"here".into());
        let check = |parked: &Parked, state: &str, expected: RetryOf| {
            let params = object([("requestState", quote(state).as_str())]);
            assert_eq!(parked.retry_of(&members(&params).unwrap()), expected, "{state}");
        };
        check(&parked, "mcpproxy-parked-here-1", RetryOf::Here);
        check(&parked, "mcpproxy-parked-tag.there-1", RetryOf::Nothing);
        parked.set_tag("tag".to_owned());
        for (state, expected) in [
            ("mcpproxy-parked-here-1", RetryOf::Here),
            ("mcpproxy-parked-tag.here-1", RetryOf::Here),
            ("mcpproxy-parked-tag.there-1", RetryOf::Elsewhere("there".to_owned())),
            ("mcpproxy-parked-there-1", RetryOf::Nothing),
            ("mcpproxy-parked-other.there-1", RetryOf::Nothing),
            ("mcpproxy-parked-tag.there", RetryOf::Nothing),
            ("of a server", RetryOf::Nothing),
        ] {
            check(&parked, state, expected);
        }
    }

    #[tokio::test]
    async fn a_resumed_call_leaves_no_task_behind() {
        let parked = Parked::new(&"here".into());
        for _ in 0..100 {
            let retry = park(&parked);
            assert!(parked.resume(&members(&retry).unwrap(), "agent").is_some());
        }
        assert!(parked.table().is_empty());
        tasks_fall_to(0).await;
    }
}
