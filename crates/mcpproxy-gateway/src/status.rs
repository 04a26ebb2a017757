//! The status of a server, for operators.

use mcpproxy_core::ServerName;

#[derive(Clone, Debug)]
pub struct ServerStatus {
    pub name: ServerName,
    /// `stdio`, `http`, `sse` or `demo`.
    pub transport: &'static str,
    pub state: StateName,
    /// Reason why the server is not ready, for the operator.
    pub reason: Option<String>,
    pub tools: usize,
    pub prompts: usize,
    pub resources: usize,
    /// The MCP revision of the connection.
    pub protocol: Option<String>,
    pub pid: Option<u32>,
    pub restarts: u64,
    /// Tools that the gateway leaves out, with the reason.
    pub hidden_tools: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateName {
    Connecting,
    Ready,
    /// Failed, and waiting for the next attempt.
    Waiting,
    Disabled,
}

impl StateName {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Disabled => "disabled",
        }
    }
}
