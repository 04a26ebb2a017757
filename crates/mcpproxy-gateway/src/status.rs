//! The status of a server and of a client, for operators.

use std::time::Duration;

use mcpproxy_core::ServerName;

#[derive(Clone, Debug)]
pub struct ServerStatus {
    pub name: ServerName,
    /// The name for people, if the operator gave one.
    pub title: Option<String>,
    /// `stdio`, `http`, `sse` or `demo`.
    pub transport: &'static str,
    pub state: StateName,
    /// Reason why the server is not ready, for the operator.
    pub reason: Option<String>,
    /// A next step for the operator, where the reason suggests one.
    pub hint: Option<String>,
    pub tools: usize,
    /// Tools that agents call with `call_tool_destructive`.
    pub destructive_tools: usize,
    /// Destructive tools that run without an approval.
    pub unasked_tools: usize,
    /// Tools that agents can call as reads although neither the server nor a contract says that they only read.
    pub unannotated_tools: usize,
    pub prompts: usize,
    pub resources: usize,
    /// The MCP revision of the connection.
    pub protocol: Option<String>,
    pub pid: Option<u32>,
    pub restarts: u64,
    /// True if the gateway holds a token of an OAuth sign-in.
    pub is_signed_in: bool,
    /// Definitions that agents do not see, because nobody has accepted them.
    pub quarantined: usize,
    /// Quarantined definitions that wait for a user. Rejected ones do not.
    pub to_review: usize,
    /// Tools that the gateway leaves out, with the reason.
    pub hidden_tools: Vec<(String, String)>,
    /// Offered tools with a schema that is not valid JSON Schema, with the mistake. Nothing is checked with that schema.
    pub unchecked_tools: Vec<(String, String)>,
}

/// A client with an open session, for operators.
#[derive(Clone, Debug)]
pub struct ClientStatus {
    pub agent: String,
    /// The name that the client program reported. Not verified.
    pub client: Option<String>,
    /// The MCP revision of the session.
    pub protocol: String,
    /// True if the client says that it can show approval prompts.
    pub elicitation: bool,
    pub idle: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateName {
    Connecting,
    Ready,
    /// Failed, and waiting for the next attempt.
    Waiting,
    Disabled,
    /// Not connected, because its settings have mistakes.
    Misconfigured,
    /// It asks for OAuth, and a user has to sign in.
    NeedsSignIn,
}

impl StateName {
    pub const ALL: [Self; 6] =
        [Self::Connecting, Self::Ready, Self::Waiting, Self::Disabled, Self::Misconfigured, Self::NeedsSignIn];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Disabled => "disabled",
            Self::Misconfigured => "misconfigured",
            Self::NeedsSignIn => "needs_sign_in",
        }
    }
}
