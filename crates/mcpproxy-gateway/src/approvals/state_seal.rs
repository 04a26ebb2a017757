//! The seal of a request state, and what is in it.
//!
//! ```text
//! mcpproxy-approval. TAG . SEALED             TAG names the key
//!                          └─ APPROVAL SENT_MS {"requestState":…}     sealed for one agent and one call
//! ```
//!
//! A client gets the state and sends it back, so every byte of it may be forged. The seal is an HMAC over the content,
//! the expiry, the name of the agent and the digest of the arguments. [`StateContent::parse`] reads only what a gateway
//! with the same key has sealed.

use std::time::Duration;

use mcpproxy_core::{Agent, ApprovalId, Digest};
use rmcp::model::{RequestStateCodec, SealOptions};

/// Prefix of the gateway's states, which tells them from states of servers. A tag of the key follows, because a server
/// may itself be an mcpproxy.
const PREFIX: &str = "mcpproxy-approval.";
const TAG_CHARS: usize = 16;
/// Domain separation for the tag of the key. Changing this text invalidates states that are out.
const TAG_OF: &[u8] = b"the name of a key for request states";

/// Seals and opens states with one key.
pub(super) struct StateSealer {
    codec: RequestStateCodec,
    prefix: String,
}

/// The content of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateContent {
    pub(super) approval: ApprovalId,
    /// Time at which the prompt was sent to the client. States of an earlier version have none.
    pub(super) sent_ms: Option<i64>,
    /// Members of `params` that the first request had for the server, as a JSON object.
    pub(super) carried: Option<String>,
}

/// Returns true if a gateway has sealed the state, this one or another.
pub(super) fn is_of_a_gateway(state: &str) -> bool {
    state.starts_with(PREFIX)
}

impl StateSealer {
    pub(super) fn new(key: [u8; 32]) -> Self {
        let tag: String = Digest::of(&[TAG_OF, &key].concat()).to_string().chars().take(TAG_CHARS).collect();
        // The type of the key guarantees its length.
        Self { codec: RequestStateCodec::new_unchecked(key), prefix: format!("{PREFIX}{tag}.") }
    }

    /// Seals a content for one agent and one call.
    pub(super) fn seal(&self, agent: &Agent, arguments: &Digest, content: &StateContent, lasts: Duration) -> String {
        let bound_to = bound_to(agent, arguments);
        let options = SealOptions::new().associated_data(bound_to.as_bytes()).ttl(lasts);
        format!("{}{}", self.prefix, self.codec.seal_with(content.text().as_bytes(), &options))
    }

    /// Returns the sealed part of a state with this key. Any other state is for a server.
    pub(super) fn sealed_part<'s>(&self, state: &'s str) -> Option<&'s str> {
        state.strip_prefix(&self.prefix)
    }

    /// Opens the sealed part of a state. Returns `None` if it was changed, has expired, or is for another agent or call.
    pub(super) fn open(&self, agent: &Agent, arguments: &Digest, sealed: &str) -> Option<StateContent> {
        let bound_to = bound_to(agent, arguments);
        let opened = self.codec.open_with(sealed, bound_to.as_bytes()).ok()?;
        StateContent::parse(std::str::from_utf8(&opened).ok()?)
    }
}

impl StateContent {
    fn text(&self) -> String {
        let sent_ms = self.sent_ms.map(|ms| ms.to_string()).unwrap_or_default();
        format!("{}{sent_ms}{}", self.approval, self.carried.as_deref().unwrap_or_default())
    }

    fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.split_at_checked(ApprovalId::CHARS)?;
        let (sent, carried) = rest.split_at_checked(rest.find('{').unwrap_or(rest.len()))?;
        let carried = (!carried.is_empty()).then(|| carried.to_owned());
        Some(Self { approval: ApprovalId::parse(id)?, sent_ms: sent.parse().ok(), carried })
    }
}

/// Builds the associated data of a seal.
fn bound_to(agent: &Agent, arguments: &Digest) -> String {
    format!("{}|{arguments}", agent.name)
}
