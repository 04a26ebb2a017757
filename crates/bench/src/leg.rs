//! The paths that are compared.

use clap::ValueEnum;

use crate::case::{Agent, Case, Operation, Server, Setup};

/// One path from the load generator to the echo server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum)]
pub(crate) enum Leg {
    /// Straight to the echo server
    Direct,
    /// Through a plain nginx `proxy_pass`
    Nginx,
    /// Through `mcp-proxy` 0.6, another gateway in Rust; needs --mcp-proxy
    Peer,
    /// Through mcpproxy at `/mcp`, with `call_tool_read` or `call_tool_write`
    Mcp,
    /// Through mcpproxy at `/mcp/s/NAME`, with the tool's own name
    Server,
}

impl Leg {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Leg::Direct => "direct",
            Leg::Nginx => "nginx",
            Leg::Peer => "mcp-proxy",
            Leg::Mcp => "mcpproxy /mcp",
            Leg::Server => "mcpproxy /mcp/s",
        }
    }

    /// Tells whether this leg exists for a case. nginx cannot reach a server over stdio, and does not translate.
    pub(crate) fn fits(self, case: &Case) -> bool {
        let search = case.operation == Operation::Search;
        match self {
            Leg::Direct | Leg::Nginx => !search && case.server != Server::Stdio && case.setup == Setup::Plain,
            Leg::Peer => !search && case.setup == Setup::Plain && case.agent == Agent::Sessions,
            Leg::Mcp => true,
            Leg::Server => !search,
        }
    }
}
