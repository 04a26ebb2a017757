//! Agents and their connections: tokens, sessions, open requests, and subscriptions to changes.
//!
//! `downstream` implements the protocol. This module keeps the state that must outlive one HTTP request. It knows
//! nothing of servers or calls, so everything else can depend on it.

mod budget;
mod channel;
mod endpoint_mode;
mod in_flight;
mod listeners;
mod parked;
mod patience;
mod provider_tokens;
mod rejected_tokens;
mod session;
mod session_id;
mod tokens;
mod usage;
mod user_run;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mcpproxy_core::Agent;

pub(crate) use budget::{Charge, settle};
pub(crate) use channel::{AgentChannel, Event, LogLevel};
pub(crate) use endpoint_mode::EndpointMode;
pub(crate) use in_flight::{InFlight, OnDrop, Step};
pub(crate) use listeners::{ListKind, Listener, Listeners, Topics};
pub(crate) use parked::{Parked, RetryOf, subject};
pub(crate) use provider_tokens::{ProviderTokens, Rejected};
pub(crate) use rejected_tokens::RejectedTokens;
pub(crate) use session::{OpenRequest, Session, Sessions};
pub(crate) use session_id::{LIFETIME_MS, SessionIds};
pub(crate) use tokens::TokenCache;
pub(crate) use usage::{AgentKey, InUse, OverLimit, SubscribedUris, Usage, Usages};
pub(crate) use user_run::{RunResult, UserRun};

use crate::protocol::Era;

/// Name of the agent without a token, where the settings allow one.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// An agent whose credential was checked.
#[derive(Clone)]
pub(crate) struct Authenticated {
    pub(crate) agent: Arc<Agent>,
    pub(crate) lifetime: Lifetime,
}

/// The time for which a checked credential counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// The store tells when a token of the gateway is revoked.
    UntilRevoked,
    /// A token of an identity provider expires, and counts only under the settings that mapped it.
    Until { expires_ms: i64, version: u64 },
}

impl Lifetime {
    /// Completes when the credential expires.
    pub(crate) async fn expired(self) {
        match self {
            Self::UntilRevoked => std::future::pending().await,
            Self::Until { expires_ms, version: _ } => {
                let left_ms = expires_ms.saturating_sub(Timestamp::now().as_millisecond());
                tokio::time::sleep(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))).await;
            }
        }
    }
}

/// An agent that sent a request, and what its connection supports.
#[derive(Clone)]
pub(crate) struct ConnectedAgent {
    /// The agent that the token belongs to.
    pub(crate) identity: Arc<Agent>,
    pub(crate) lifetime: Lifetime,
    /// Name and version of the client program, as it reports them.
    pub(crate) client: Option<String>,
    pub(crate) era: Era,
    pub(crate) endpoint_mode: EndpointMode,
    /// The client's MCP capabilities, as raw JSON.
    pub(crate) capabilities: Arc<str>,
    pub(crate) log_level: Option<LogLevel>,
    /// `None` for the stateless revision, and for simple clients that open no session.
    pub(crate) session: Option<Arc<Session>>,
    /// Set if a user makes a dry run in the agent's name. `None` for every request of the agent itself.
    pub(crate) user: Option<Arc<UserRun>>,
}

impl ConnectedAgent {
    /// Returns when the session began. A client of the stateless revision has none.
    pub(crate) fn session_began_ms(&self) -> Option<i64> {
        self.session.as_ref().map(|session| session.began_ms)
    }
}
