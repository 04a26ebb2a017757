//! Request states: what a stateless client sends back with its answer to an approval prompt.
//!
//! The state names the approval, and is sealed for one agent and one call. It also carries the members of `params` that
//! the client cannot send twice, because the answer takes their place.

use std::time::Duration;

use mcpproxy_core::json::{members, string_value};
use mcpproxy_core::{Agent, ApprovalId, Arguments, Attached};
use mcpproxy_store::{Store, StoreError, StoredApproval};
use tokio::sync::OnceCell;

use super::state_seal::{self, StateContent, StateSealer};
use crate::message::{self, member};
use crate::record::now_ms;
use crate::upstream::Passage;

/// Key of the prompt in `inputRequests`, and of its answer in `inputResponses`.
pub(crate) const INPUT_KEY: &str = "approval";
const SECRET: &str = "request_state";

/// Seals and opens request states. The key is the same on every replica, so it comes from the store.
pub(crate) struct RequestStates {
    store: Store,
    sealer: OnceCell<StateSealer>,
}

/// A call that was sent again with the client's answer to a prompt.
#[derive(Clone)]
pub(crate) struct ReturnedCall {
    /// The approval it is for. `None` if the state is invalid.
    pub(crate) approval: Option<ApprovalId>,
    /// The client's answer, as JSON.
    pub(crate) response: String,
    /// Members of `params` that the first request had for the server, as raw JSON.
    pub(crate) carried: Option<String>,
    /// Time at which the prompt was sent to the client.
    pub(crate) sent_ms: Option<i64>,
}

/// Members of a request that continues an earlier one.
const OF_STATE: [&str; 2] = ["inputResponses", "requestState"];

fn is_of_state(key: &str) -> bool {
    OF_STATE.contains(&key)
}

impl RequestStates {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, sealer: OnceCell::new() }
    }

    /// Takes the gateway's own state and the client's answer out of what travels on to the server.
    pub(crate) async fn take(
        &self,
        agent: &Agent,
        arguments: &Arguments,
        passage: &mut Passage<'_>,
    ) -> Result<Option<ReturnedCall>, StoreError> {
        let find = |wanted: &str| passage.others.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        let state = find("requestState").and_then(string_value).filter(|state| state_seal::is_of_a_gateway(state));
        let Some(state) = state else { return Ok(None) };
        let sealer = self.sealer().await?;
        let Some(sealed) = sealer.sealed_part(&state) else { return Ok(None) };
        let response = find("inputResponses").and_then(|all| member(all, INPUT_KEY)).unwrap_or("null").to_owned();
        let opened = sealer.open(agent, &arguments.digest(), sealed);
        passage.others.retain(|(key, _)| !is_of_state(key));
        Ok(Some(match opened {
            Some(StateContent { approval, sent_ms, carried }) => {
                ReturnedCall { approval: Some(approval), response, carried, sent_ms }
            }
            None => ReturnedCall { approval: None, response, carried: None, sent_ms: None },
        }))
    }

    /// Seals a state that only the same agent can send back, and only with the same call.
    pub(crate) async fn seal(
        &self,
        agent: &Agent,
        approval: &StoredApproval,
        attached: &Attached,
    ) -> Result<String, StoreError> {
        let sent_ms = now_ms();
        let lasts = u64::try_from(approval.expires_ms - sent_ms).unwrap_or(1).max(1);
        let content =
            StateContent { approval: approval.id.clone(), sent_ms: Some(sent_ms), carried: carried(attached) };
        Ok(self.sealer().await?.seal(agent, &approval.args_digest, &content, Duration::from_millis(lasts)))
    }

    async fn sealer(&self) -> Result<&StateSealer, StoreError> {
        let make = || async { Ok(StateSealer::new(self.store.shared_secret(SECRET, rand::random()).await?)) };
        self.sealer.get_or_try_init(make).await
    }
}

/// Returns what the client cannot send again with its answer, because the answer uses the same members.
fn carried(attached: &Attached) -> Option<String> {
    let all = attached.as_str().and_then(members)?;
    let of_state = all.iter().filter(|(key, _)| is_of_state(key)).map(|(key, value)| (key.as_ref(), *value));
    let of_state: Vec<(&str, &str)> = of_state.collect();
    (!of_state.is_empty()).then(|| message::object(of_state))
}
