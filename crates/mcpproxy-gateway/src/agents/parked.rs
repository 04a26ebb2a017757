//! Calls that wait for an answer of a stateless client.
//!
//! A server may ask the agent something during a call. A stateless client cannot receive requests, so the call is
//! parked and the client gets an `input_required` result. It sends the same request again with the answer, which
//! resumes the call.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpproxy_core::json::{quote, string_value};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::channel::ServerRequest;
use super::in_flight::InFlight;
use crate::message::{self, Members, RpcError, field, member, object};

/// Prefix of the states of this process. It is random, because a server may itself be an mcpproxy.
static PREFIX: LazyLock<String> = LazyLock::new(|| format!("mcpproxy-parked-{:016x}-", rand::random::<u64>()));
/// Key of the server's request in `inputRequests`, and of its answer in `inputResponses`.
const QUESTION: &str = "question";
/// Limit per agent. A parked call keeps its slot at the server.
const PARKED_PER_AGENT: usize = 8;
const PARKED_MAX: usize = 1000;
const WAIT_MAX: Duration = Duration::from_secs(600);

#[derive(Clone, Default)]
pub(crate) struct Parked {
    waiting: Arc<Mutex<HashMap<String, Waiting>>>,
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
    /// Parks a call and returns the result with the server's request.
    pub(crate) fn park(&self, in_flight: InFlight, asked: ServerRequest, agent: &str, subject: String) -> String {
        let state = format!("{}{:032x}", *PREFIX, rand::random::<u128>());
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

    /// Returns true if a request claims to be the retry of a parked call.
    pub(crate) fn is_retry(params: &Members<'_>) -> bool {
        field(params, "requestState").and_then(string_value).is_some_and(|state| state.starts_with(PREFIX.as_str()))
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

    #[tokio::test]
    async fn a_resumed_call_leaves_no_task_behind() {
        let parked = Parked::default();
        for _ in 0..100 {
            let retry = park(&parked);
            assert!(parked.resume(&members(&retry).unwrap(), "agent").is_some());
        }
        assert!(parked.table().is_empty());
        tasks_fall_to(0).await;
    }
}
