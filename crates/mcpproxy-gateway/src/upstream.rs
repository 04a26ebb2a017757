//! The side of the servers: one long-lived connection per server, supervised by its own task and shared by all calls.

mod admission;
mod allowance;
mod authorized;
mod client;
mod connect;
mod connection;
mod descendants;
mod diagnosis;
mod duplex;
mod error;
mod forward;
mod http;
mod http_sse;
mod lines;
mod lines_out;
mod log;
mod notices;
mod offers;
mod open_calls;
mod orphans;
mod pending;
mod response_head;
mod server;
mod stdio;
mod supervise;

pub(crate) use admission::{Admission, Origin};
pub(crate) use client::Client;
pub use descendants::end_orphans;
pub(crate) use descendants::{adopt_orphans, reap};
pub(crate) use error::UpstreamError;
pub(crate) use forward::{Passage, Relayed, forward, relay};
pub(crate) use offers::Offers;
pub(crate) use orphans::sweep;
pub(crate) use server::Server;
pub(crate) use supervise::{Change, Watch, supervise};

/// A server's notification about its own lists and resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    ToolsChanged,
    PromptsChanged,
    ResourcesChanged,
    /// One resource changed: the raw `params`.
    ResourceUpdated(String),
}

impl Notice {
    pub(crate) fn parse(method: &str, params: &str) -> Option<Self> {
        match method {
            "notifications/tools/list_changed" => Some(Self::ToolsChanged),
            "notifications/prompts/list_changed" => Some(Self::PromptsChanged),
            "notifications/resources/list_changed" => Some(Self::ResourcesChanged),
            "notifications/resources/updated" => Some(Self::ResourceUpdated(params.to_owned())),
            _ => None,
        }
    }
}
