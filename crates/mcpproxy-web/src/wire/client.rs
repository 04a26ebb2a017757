//! The JSON of clients with an open session.

use mcpproxy_gateway::ClientStatus;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub(crate) struct Clients {
    pub(crate) clients: Vec<Client>,
}

/// A client with an open session.
#[derive(Serialize, ToSchema)]
pub(crate) struct Client {
    /// The agent whose token was used.
    agent: String,
    /// The name that the client program reported. Not verified.
    client: Option<String>,
    /// The MCP revision of the session.
    protocol: String,
    /// `true` if the client says that it can show approval prompts.
    elicitation: bool,
    /// The time since its last request.
    idle_ms: u64,
}

impl From<ClientStatus> for Client {
    fn from(status: ClientStatus) -> Self {
        let ClientStatus { agent, client, protocol, elicitation, idle } = status;
        Self { agent, client, protocol, elicitation, idle_ms: idle.as_millis().try_into().unwrap_or(u64::MAX) }
    }
}
