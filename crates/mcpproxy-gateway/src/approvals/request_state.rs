//! Request states: what a stateless client sends back with its answer to an approval prompt.
//!
//! The state names the approval, and is sealed for one agent and one call. It also carries the members of `params` that
//! the client cannot send twice, because the answer takes their place.

use std::time::Duration;

use mcpproxy_core::json::{members, string_value};
use mcpproxy_core::{Agent, ApprovalId, Arguments, Attached, Digest};
use mcpproxy_store::{Store, StoreError, StoredApproval};
use rmcp::model::{RequestStateCodec, SealOptions};
use tokio::sync::OnceCell;

use crate::message::{self, member};
use crate::record::now_ms;
use crate::upstream::Passage;

/// Prefix of the gateway's states, which tells them from states of servers. A tag of the key follows, because a server
/// may itself be an mcpproxy.
const PREFIX: &str = "mcpproxy-approval.";
const TAG_CHARS: usize = 16;
/// Key of the prompt in `inputRequests`, and of its answer in `inputResponses`.
pub(crate) const INPUT_KEY: &str = "approval";
const SECRET: &str = "request_state";
/// Domain separation for the tag of the key. Changing this text invalidates states that are out.
const TAG_OF: &[u8] = b"the name of a key for request states";

/// Seals and opens request states. The key is the same on every replica, so it comes from the store.
pub(crate) struct RequestStates {
    store: Store,
    sealer: OnceCell<Sealer>,
}

struct Sealer {
    codec: RequestStateCodec,
    prefix: String,
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

/// The content of a state.
struct Opened {
    approval: ApprovalId,
    sent_ms: Option<i64>,
    carried: Option<String>,
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
        let Some(state) = find("requestState").and_then(string_value).filter(|state| state.starts_with(PREFIX)) else {
            return Ok(None);
        };
        let sealer = self.sealer().await?;
        let Some(state) = state.strip_prefix(&sealer.prefix) else { return Ok(None) };
        let response = find("inputResponses").and_then(|all| member(all, INPUT_KEY)).unwrap_or("null").to_owned();
        let opened = sealer.open(agent, state, arguments);
        passage.others.retain(|(key, _)| !is_of_state(key));
        Ok(Some(match opened {
            Some(Opened { approval, sent_ms, carried }) => {
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
        let Sealer { codec, prefix } = self.sealer().await?;
        let sent_ms = now_ms();
        let lasts = u64::try_from(approval.expires_ms - sent_ms).unwrap_or(1).max(1);
        let bound_to = bound_to(agent, &approval.args_digest);
        let options = SealOptions::new().associated_data(bound_to.as_bytes()).ttl(Duration::from_millis(lasts));
        let carried = carried(attached).unwrap_or_default();
        Ok(format!("{prefix}{}", codec.seal_with(format!("{}{sent_ms}{carried}", approval.id).as_bytes(), &options)))
    }

    async fn sealer(&self) -> Result<&Sealer, StoreError> {
        let make = || async {
            let key = self.store.shared_secret(SECRET, rand::random()).await?;
            let tag: String = Digest::of(&[TAG_OF, &key].concat()).to_string().chars().take(TAG_CHARS).collect();
            // The type of the key guarantees its length.
            Ok(Sealer { codec: RequestStateCodec::new_unchecked(key), prefix: format!("{PREFIX}{tag}.") })
        };
        self.sealer.get_or_try_init(make).await
    }
}

impl Sealer {
    /// Opens a state: the approval, the time of the prompt, and what the first request had for the server. A state of an
    /// earlier version has no time.
    fn open(&self, agent: &Agent, state: &str, arguments: &Arguments) -> Option<Opened> {
        let bound_to = bound_to(agent, &arguments.digest());
        let opened = String::from_utf8(self.codec.open_with(state, bound_to.as_bytes()).ok()?).ok()?;
        let (id, rest) = opened.split_at_checked(ApprovalId::CHARS)?;
        let (sent, carried) = rest.split_at_checked(rest.find('{').unwrap_or(rest.len()))?;
        let carried = (!carried.is_empty()).then(|| carried.to_owned());
        Some(Opened { approval: ApprovalId::parse(id)?, sent_ms: sent.parse().ok(), carried })
    }
}

/// Returns what the client cannot send again with its answer, because the answer uses the same members.
fn carried(attached: &Attached) -> Option<String> {
    let all = attached.as_str().and_then(members)?;
    let of_state = all.iter().filter(|(key, _)| is_of_state(key)).map(|(key, value)| (key.as_ref(), *value));
    let of_state: Vec<(&str, &str)> = of_state.collect();
    (!of_state.is_empty()).then(|| message::object(of_state))
}

/// Builds the associated data of a seal.
fn bound_to(agent: &Agent, arguments: &Digest) -> String {
    format!("{}|{arguments}", agent.name)
}
