//! The MCP revisions the gateway speaks, and the name it gives itself.

use std::sync::LazyLock;

use rmcp::model::{Implementation, ProtocolVersion};

/// The stateless revision: no handshake, everything in each request.
pub(crate) const MODERN_VERSION: &str = "2026-07-28";
/// The newest revision with a handshake and sessions.
pub(crate) const LEGACY_VERSION: &str = "2025-11-25";

/// Every revision that agents may use, newest first.
pub(crate) static VERSIONS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| ProtocolVersion::KNOWN_VERSIONS.iter().rev().map(ProtocolVersion::as_str).collect());

/// Name and version of the gateway, as raw JSON, for servers and agents alike.
pub(crate) static IMPLEMENTATION: LazyLock<String> = LazyLock::new(|| {
    let implementation = Implementation::new("mcpproxy", env!("CARGO_PKG_VERSION"));
    serde_json::to_string(&implementation).unwrap_or_default()
});

/// The two kinds of the protocol: with a handshake and sessions, or stateless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2024-11-05 to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
}
