//! The JSON of a server.

use mcpproxy_gateway::ServerStatus;
use serde::Serialize;
use utoipa::ToSchema;

use super::server_states;

#[derive(Serialize, ToSchema)]
pub(crate) struct Server {
    /// The name in the settings.
    name: String,
    /// The name for people, such as `My Files` for `my-files`.
    title: Option<String>,
    transport: &'static str,
    #[schema(schema_with = server_states)]
    state: &'static str,
    /// Reason why it is not ready.
    reason: Option<String>,
    /// Advice, if the reason suggests a fix.
    hint: Option<String>,
    tools: usize,
    /// Tools that agents call with `call_tool_destructive`.
    destructive_tools: usize,
    /// Destructive tools that run without an approval, although no contract of the operator gives them a risk level. Tools
    /// with policies do not count.
    unasked_destructive_tools: usize,
    /// Tools that agents can call as reads although neither annotations nor a contract say that they only read. 0 if
    /// `intent_declaration.unannotated` is `require_write`.
    unannotated_tools: usize,
    prompts: usize,
    resources: usize,
    /// Tools, prompts, resource templates and instructions that agents do not see, because nobody has accepted them.
    quarantined: usize,
    /// Quarantined definitions that wait for a user. Rejected ones do not.
    to_review: usize,
    /// The MCP revision of the connection.
    protocol: Option<String>,
    /// The process id, for a server that the gateway started.
    pid: Option<u32>,
    restarts: u64,
    /// True if the gateway is signed in with OAuth.
    signed_in: bool,
    /// Tools that are malformed, or that the settings leave out. Agents cannot see them.
    hidden_tools: Vec<HiddenTool>,
    /// Tools with a schema that is not valid JSON Schema. Agents can call them. The gateway does not check values with that
    /// schema.
    unchecked_tools: Vec<UncheckedTool>,
}

#[derive(Serialize, ToSchema)]
struct HiddenTool {
    name: String,
    reason: String,
}

#[derive(Serialize, ToSchema)]
struct UncheckedTool {
    name: String,
    /// The schema and its first mistake.
    reason: String,
}

impl From<ServerStatus> for Server {
    fn from(status: ServerStatus) -> Self {
        Self {
            name: status.name.to_string(),
            title: status.title,
            transport: status.transport,
            state: status.state.as_str(),
            reason: status.reason,
            hint: status.hint,
            tools: status.tools,
            destructive_tools: status.destructive_tools,
            unasked_destructive_tools: status.unasked_tools,
            unannotated_tools: status.unannotated_tools,
            prompts: status.prompts,
            resources: status.resources,
            quarantined: status.quarantined,
            to_review: status.to_review,
            protocol: status.protocol,
            pid: status.pid,
            restarts: status.restarts,
            signed_in: status.is_signed_in,
            hidden_tools: status.hidden_tools.into_iter().map(|(name, reason)| HiddenTool { name, reason }).collect(),
            unchecked_tools: status
                .unchecked_tools
                .into_iter()
                .map(|(name, reason)| UncheckedTool { name, reason })
                .collect(),
        }
    }
}
