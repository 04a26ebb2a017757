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
mod rejected_tokens;
mod session;
mod tokens;
mod usage;

use std::sync::Arc;

use mcpproxy_core::Agent;

pub(crate) use budget::{Charge, settle};
pub(crate) use channel::{AgentChannel, Event, LogLevel};
pub(crate) use endpoint_mode::EndpointMode;
pub(crate) use in_flight::{InFlight, OnDrop, Step};
pub(crate) use listeners::{ListKind, Listener, Listeners, Topics};
pub(crate) use parked::{Parked, subject};
pub(crate) use rejected_tokens::RejectedTokens;
pub(crate) use session::{OpenRequest, Session, Sessions};
pub(crate) use tokens::TokenCache;
pub(crate) use usage::{AgentKey, InUse, OverLimit, SubscribedUris, Usages};

use crate::protocol::Era;

/// Name of the agent without a token, where the settings allow one.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// An agent that sent a request, and what its connection supports.
#[derive(Clone)]
pub(crate) struct ConnectedAgent {
    /// The agent that the token belongs to.
    pub(crate) identity: Arc<Agent>,
    /// Name and version of the client program, as it reports them.
    pub(crate) client: Option<String>,
    pub(crate) era: Era,
    pub(crate) endpoint_mode: EndpointMode,
    /// The client's MCP capabilities, as raw JSON.
    pub(crate) capabilities: Arc<str>,
    pub(crate) log_level: Option<LogLevel>,
    /// `None` for the stateless revision, and for simple clients that open no session.
    pub(crate) session: Option<Arc<Session>>,
}

impl ConnectedAgent {
    /// Returns when the session began. A client of the stateless revision has none.
    pub(crate) fn session_began_ms(&self) -> Option<i64> {
        self.session.as_ref().map(|session| session.began_ms)
    }
}
