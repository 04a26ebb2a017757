//! What a running gateway tells about itself.

use mcpproxy_core::ServerName;

#[derive(Clone, Debug)]
pub struct ServerStatus {
    pub name: ServerName,
    /// `stdio`, `http`, `sse` or `demo`.
    pub transport: &'static str,
    pub state: StateName,
    /// Why it is not ready, in words for a user.
    pub reason: Option<String>,
    pub tools: usize,
    pub prompts: usize,
    pub resources: usize,
    /// The protocol revision spoken with it.
    pub protocol: Option<String>,
    pub pid: Option<u32>,
    pub restarts: u64,
    /// Tools that were offered but cannot be, with the reason.
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
