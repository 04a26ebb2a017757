//! What a call takes along when its client is asked, and brings back: sealed, for this agent and this very call.

use std::time::Duration;

use mcpproxy_core::json::{members, string_value};
use mcpproxy_core::{ApprovalId, Arguments, Attached, Digest};
use mcpproxy_store::{StoreError, StoredApproval};
use rmcp::model::{RequestStateCodec, SealOptions};
use tokio::sync::OnceCell;

use crate::downstream::Caller;
use crate::gateway::Inner;
use crate::message::{self, member};
use crate::upstream::Passage;

/// Begins our states, so that they are told from those of servers, which pass through. What follows names the key, because
/// a server may be a gateway of the same kind.
const PREFIX: &str = "mcpproxy-approval.";
const TAG_CHARS: usize = 16;
/// The one request for input, by the name under which it is answered.
pub(super) const INPUT: &str = "approval";
const SECRET: &str = "request_state";
/// What is hashed with the key is nothing else's hash.
const TAG_OF: &[u8] = b"the name of a key for request states";

/// The key for seals is the same on every replica, so it comes from the store.
#[derive(Default)]
pub(crate) struct Seals {
    made: OnceCell<Made>,
}

struct Made {
    codec: RequestStateCodec,
    prefix: String,
}

/// A call that comes back.
pub(crate) struct Returned {
    /// The approval it comes back for; `None` if that cannot be told.
    pub(super) approval: Option<ApprovalId>,
    /// What the client answered, as JSON.
    pub(super) response: String,
    /// What the call brought for the server when its client was asked, as raw JSON: it takes the place of what is ours.
    pub(crate) carried: Option<String>,
}

/// The members of a request that goes on where another ended.
const OF_STATE: [&str; 2] = ["inputResponses", "requestState"];

fn is_of_state(key: &str) -> bool {
    OF_STATE.contains(&key)
}

impl Returned {
    /// Takes our state and the answer out of what travels on to the server.
    pub(crate) async fn take(
        gateway: &Inner,
        caller: &Caller,
        arguments: &Arguments,
        passage: &mut Passage<'_>,
    ) -> Result<Option<Self>, StoreError> {
        let find = |wanted: &str| passage.others.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        let Some(state) = find("requestState").and_then(string_value).filter(|state| state.starts_with(PREFIX)) else {
            return Ok(None);
        };
        let made = gateway.seals.made(gateway).await?;
        let Some(state) = state.strip_prefix(&made.prefix) else { return Ok(None) };
        let response = find("inputResponses").and_then(|all| member(all, INPUT)).unwrap_or("null").to_owned();
        let (approval, carried) = made.open(caller, state, arguments).unzip();
        passage.others.retain(|(key, _)| !is_of_state(key));
        Ok(Some(Self { approval, response, carried: carried.flatten() }))
    }
}

impl Seals {
    /// A state that only the same agent can bring back, and only with the same call.
    pub(super) async fn seal(
        &self,
        gateway: &Inner,
        caller: &Caller,
        approval: &StoredApproval,
        attached: &Attached,
    ) -> Result<String, StoreError> {
        let Made { codec, prefix } = self.made(gateway).await?;
        let lasts = u64::try_from(approval.expires_ms - crate::record::now_ms()).unwrap_or(1).max(1);
        let about = about(&caller.agent.name, &approval.args_digest);
        let options = SealOptions::new().associated_data(about.as_bytes()).ttl(Duration::from_millis(lasts));
        let carried = carried(attached).unwrap_or_default();
        Ok(format!("{prefix}{}", codec.seal_with(format!("{}{carried}", approval.id).as_bytes(), &options)))
    }

    async fn made(&self, gateway: &Inner) -> Result<&Made, StoreError> {
        let make = || async {
            let key = gateway.store.shared_secret(SECRET, rand::random()).await?;
            let tag: String = Digest::of(&[TAG_OF, &key].concat()).to_string().chars().take(TAG_CHARS).collect();
            // Its type says that the key is as long as it has to be.
            Ok(Made { codec: RequestStateCodec::new_unchecked(key), prefix: format!("{PREFIX}{tag}.") })
        };
        self.made.get_or_try_init(make).await
    }
}

impl Made {
    /// Which approval a call comes back for, and what it brought for the server.
    fn open(&self, caller: &Caller, state: &str, arguments: &Arguments) -> Option<(ApprovalId, Option<String>)> {
        let about = about(&caller.agent.name, &arguments.digest());
        let opened = String::from_utf8(self.codec.open_with(state, about.as_bytes()).ok()?).ok()?;
        let (id, carried) = opened.split_at_checked(ApprovalId::CHARS)?;
        Some((ApprovalId::parse(id)?, (!carried.is_empty()).then(|| carried.to_owned())))
    }
}

/// What the client cannot send again when it answers us, because our own words take its place.
fn carried(attached: &Attached) -> Option<String> {
    let all = attached.as_str().and_then(members)?;
    let of_state = all.iter().filter(|(key, _)| is_of_state(key)).map(|(key, value)| (key.as_ref(), *value));
    let of_state: Vec<(&str, &str)> = of_state.collect();
    (!of_state.is_empty()).then(|| message::object(of_state))
}

fn about(agent: &str, arguments: &Digest) -> String {
    format!("{agent}|{arguments}")
}
