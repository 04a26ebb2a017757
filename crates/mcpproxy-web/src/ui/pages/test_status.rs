//! The status of a server, for tests of pages.

use mcpproxy_core::ServerName;
use mcpproxy_gateway::{ServerStatus, StateName};

/// A local server with three tools, and nothing else to tell.
pub(crate) fn server_status(name: &str, state: StateName) -> ServerStatus {
    ServerStatus {
        name: ServerName::parse(name).unwrap(),
        title: None,
        transport: "stdio",
        state,
        reason: None,
        hint: None,
        tools: 3,
        destructive_tools: 0,
        unasked_tools: 0,
        unannotated_tools: 0,
        prompts: 0,
        resources: 0,
        protocol: None,
        pid: None,
        restarts: 0,
        is_signed_in: false,
        quarantined: 0,
        to_review: 0,
        hidden_tools: Vec::new(),
        unchecked_tools: Vec::new(),
    }
}
