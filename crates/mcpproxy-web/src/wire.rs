//! The JSON of the REST interface: the only types here that serialize.

mod activity;
mod approval;
mod contract;
pub(crate) mod csv;
mod explain;
mod search;
mod summary;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mcpproxy_core::{RiskLevel, Variant};
use mcpproxy_gateway::ServerStatus;
use mcpproxy_store::{Health as LogHealth, Kind, Status as RecordStatus};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use crate::time;

pub use activity::{Activities, Activity, WholeActivity};
pub(crate) use approval::{
    Approval, ApprovalEvent, ApprovalStatus, Approvals, Approve, Deny, Grant, Grants, LogIn, LoggedIn, MakeGrant,
    Signed, WholeApproval, state_now,
};
pub(crate) use contract::{Contract, Contracts, Draft, Lint};
pub(crate) use explain::{ExplainCall, Explanation};
pub(crate) use search::FoundTools;
pub use summary::Summary;

#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    pub(crate) status: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// Whether calls are taken.
    pub(crate) ready: bool,
    /// The servers that have neither connected nor failed yet.
    pub(crate) connecting: Vec<String>,
    #[schema(schema_with = log_states)]
    pub(crate) log: &'static str,
    /// What is wrong with the log.
    pub(crate) reason: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Status {
    /// Of the gateway.
    pub(crate) version: &'static str,
    /// Of the gateway's process.
    pub(crate) pid: u32,
    /// Where it listens.
    pub(crate) address: String,
    /// How long it has been running.
    pub(crate) uptime_ms: u64,
    /// How many servers are in which state.
    pub(crate) servers: ServerCounts,
    /// How many tools the servers offer.
    pub(crate) tools: usize,
    /// The settings file, with `contracts/` and `policies/` beside it.
    pub(crate) settings: SettingsState,
    /// Whether the activity log takes records.
    pub(crate) log: LogState,
}

/// Whether the activity log takes records. While it does not, no call is sent.
#[derive(Serialize, ToSchema)]
pub(crate) struct LogState {
    #[schema(schema_with = log_states)]
    pub(crate) state: &'static str,
    /// What is wrong with it.
    pub(crate) reason: Option<String>,
    /// Since when it is unavailable.
    #[schema(format = DateTime)]
    since: Option<String>,
}

impl From<LogHealth> for LogState {
    fn from(health: LogHealth) -> Self {
        match health {
            LogHealth::Well => Self { state: LOG_STATES[0], reason: None, since: None },
            LogHealth::Failing { since_ms, reason } => {
                Self { state: LOG_STATES[1], reason: Some(reason), since: Some(time::format(since_ms)) }
            }
        }
    }
}

#[derive(Default, Serialize, ToSchema)]
pub(crate) struct ServerCounts {
    pub(crate) ready: usize,
    pub(crate) connecting: usize,
    pub(crate) failed: usize,
    pub(crate) disabled: usize,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SettingsState {
    /// Where it is, or would be.
    pub(crate) path: String,
    /// Why the newest settings, contracts or policies were not taken; those before are still in force.
    pub(crate) error: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Servers {
    pub(crate) servers: Vec<Server>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Server {
    /// As in the settings.
    name: String,
    transport: &'static str,
    state: &'static str,
    /// Why it is not ready.
    reason: Option<String>,
    tools: usize,
    prompts: usize,
    resources: usize,
    /// The revision of MCP it speaks.
    protocol: Option<String>,
    /// Of a server that is a process of ours.
    pid: Option<u32>,
    restarts: u64,
    /// Tools that are malformed, and so not offered.
    hidden_tools: Vec<HiddenTool>,
}

#[derive(Serialize, ToSchema)]
struct HiddenTool {
    name: String,
    reason: String,
}

impl From<ServerStatus> for Server {
    fn from(status: ServerStatus) -> Self {
        Self {
            name: status.name.to_string(),
            transport: status.transport,
            state: status.state.as_str(),
            reason: status.reason,
            tools: status.tools,
            prompts: status.prompts,
            resources: status.resources,
            protocol: status.protocol,
            pid: status.pid,
            restarts: status.restarts,
            hidden_tools: status.hidden_tools.into_iter().map(|(name, reason)| HiddenTool { name, reason }).collect(),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Log {
    pub(crate) lines: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Restart {
    pub(crate) name: String,
    pub(crate) state: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Tools {
    pub(crate) tools: Vec<Value>,
}

/// Every error of the interface: `{"error": {"code", "message", "hint"}}`.
#[derive(Serialize, ToSchema)]
pub(crate) struct Error {
    error: ErrorBody,
}

#[derive(Serialize, ToSchema)]
struct ErrorBody {
    /// A word for programs.
    code: &'static str,
    /// What is wrong.
    message: String,
    /// What to do about it.
    hint: String,
    /// More for programs, where there is more: `factors` of `step_up_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    details: Option<Value>,
}

impl Error {
    pub(crate) fn new(code: &'static str, message: String, hint: String) -> Self {
        Self { error: ErrorBody { code, message, hint, details: None } }
    }

    pub(crate) fn with_details(mut self, details: Option<Value>) -> Self {
        self.error.details = details;
        self
    }

    pub(crate) fn response(self, status: StatusCode) -> Response {
        (status, Json(self)).into_response()
    }
}

const LOG_STATES: [&str; 2] = ["ok", "unavailable"];

fn log_states() -> Object {
    words("`unavailable` while records cannot be written and calls are refused.", LOG_STATES)
}

fn operations() -> Object {
    words("Which `call_tool_*` would be used.", Variant::ALL.map(Variant::operation))
}

fn operations_or_null() -> Object {
    words_or_null("What the agent declared to do.", Variant::ALL.map(Variant::operation))
}

fn risks_or_null() -> Object {
    words_or_null("How much harm the tool can do.", RiskLevel::ALL.map(RiskLevel::as_str))
}

fn kinds() -> Object {
    words("What happened.", Kind::ALL.map(Kind::as_str))
}

fn statuses() -> Object {
    words("How it ended; `started` while it has not.", RecordStatus::ALL.map(RecordStatus::as_str))
}

fn words<const N: usize>(about: &str, words: [&'static str; N]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).description(Some(about)).enum_values(Some(words)).build()
}

fn words_or_null<const N: usize>(about: &str, words: [&'static str; N]) -> Object {
    let values = words.map(Value::from).into_iter().chain([Value::Null]);
    let types = SchemaType::from_iter([Type::String, Type::Null]);
    ObjectBuilder::new().schema_type(types).description(Some(about)).enum_values(Some(values)).build()
}

#[expect(clippy::cast_precision_loss, reason = "a duration of more than 142 years may lose its last microsecond")]
fn milliseconds(duration_us: u64) -> f64 {
    duration_us as f64 / 1000.0
}
