//! Everything that runs: agents in, servers out, reloads.

mod agents;
mod approvals;
mod ask;
mod audience;
mod back;
mod call;
mod contracts_for_agents;
mod contracts_for_operators;
mod crash;
mod downstream;
mod dry_run;
mod gateway;
mod headers;
mod heavy;
mod judge;
mod message;
mod record;
mod repeats;
mod sensitive;
mod snapshot;
mod status;
mod turned_away;
mod upstream;
mod view;

use std::sync::LazyLock;

use rmcp::model::{Implementation, ProtocolVersion};

pub use approvals::{
    About, ApprovalView, Approvals, Asked, Decider, Level, NotDecided, NotGranted, SaidBy, WantedGrant,
};
pub use contracts_for_operators::{DraftError, Lint, LookedAt, version};
pub use downstream::{router, serve_stdio};
pub use gateway::{Gateway, Options};
pub use snapshot::Files;
pub use status::{ServerStatus, StateName};
pub use view::{ExplainError, Reasons, Searched};

/// The revision without handshake.
pub(crate) const MODERN_VERSION: &str = "2026-07-28";
/// The newest revision with a handshake.
pub(crate) const LEGACY_VERSION: &str = "2025-11-25";

/// Every revision spoken with agents, newest first.
pub(crate) static VERSIONS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| ProtocolVersion::KNOWN_VERSIONS.iter().rev().map(ProtocolVersion::as_str).collect());

/// Who we are, as raw JSON, to servers and agents alike.
pub(crate) static IMPLEMENTATION: LazyLock<String> = LazyLock::new(|| {
    let implementation = Implementation::new("mcpproxy", env!("CARGO_PKG_VERSION"));
    serde_json::to_string(&implementation).unwrap_or_default()
});
