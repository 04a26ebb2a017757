//! Agents in: over HTTP and standard input, both kinds of the protocol, through one of three doors.

mod dispatch;
mod endpoint_mode;
mod flight;
mod four;
mod http;
mod lists;
mod park;
mod respond;
mod revision;
mod session;
mod stdio;

use std::sync::Arc;

use mcpproxy_core::Agent;

pub(crate) use endpoint_mode::EndpointMode;
pub(crate) use http::ANONYMOUS;
pub use http::router;
pub use stdio::serve_stdio;

use crate::back::LogLevel;
use crate::upstream::Era;

/// Who asks, and how they speak.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) agent: Arc<Agent>,
    /// The program behind the agent, by its own account.
    pub(crate) client: Option<String>,
    pub(crate) era: Era,
    pub(crate) endpoint_mode: EndpointMode,
    /// What the agent can be asked, as raw JSON.
    pub(crate) capabilities: Arc<str>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) session: Option<Arc<session::Session>>,
}

/// What the doors remember between requests.
#[derive(Default)]
pub(crate) struct EndpointModes {
    pub(crate) sessions: session::Sessions,
    pub(crate) parked: park::Parked,
}
