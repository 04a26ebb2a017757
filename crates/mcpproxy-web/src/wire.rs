//! The JSON of the REST interface: the only types here that serialize.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mcpproxy_core::Variant;
use mcpproxy_core::policy::{self, Verdict};
use mcpproxy_gateway::ServerStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Serialize)]
pub(crate) struct Health {
    pub(crate) status: &'static str,
}

#[derive(Serialize)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    /// The servers that have neither connected nor failed yet.
    pub(crate) connecting: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Status {
    pub(crate) version: &'static str,
    pub(crate) pid: u32,
    pub(crate) address: String,
    pub(crate) uptime_ms: u64,
    pub(crate) servers: ServerCounts,
    pub(crate) tools: usize,
    pub(crate) settings: SettingsState,
}

#[derive(Default, Serialize)]
pub(crate) struct ServerCounts {
    pub(crate) ready: usize,
    pub(crate) connecting: usize,
    pub(crate) failed: usize,
    pub(crate) disabled: usize,
}

#[derive(Serialize)]
pub(crate) struct SettingsState {
    pub(crate) path: String,
    /// Why the newest settings file was not taken; the one before is still in force.
    pub(crate) error: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Servers {
    pub(crate) servers: Vec<Server>,
}

#[derive(Serialize)]
pub(crate) struct Server {
    name: String,
    transport: &'static str,
    state: &'static str,
    reason: Option<String>,
    tools: usize,
    prompts: usize,
    resources: usize,
    protocol: Option<String>,
    pid: Option<u32>,
    restarts: u64,
    hidden_tools: Vec<HiddenTool>,
}

#[derive(Serialize)]
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

#[derive(Serialize)]
pub(crate) struct Log {
    pub(crate) lines: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Restart {
    pub(crate) name: String,
    pub(crate) state: &'static str,
}

#[derive(Serialize)]
pub(crate) struct Tools {
    pub(crate) tools: Vec<Value>,
}

/// Every error of the interface: `{"error": {"code", "message", "hint"}}`.
#[derive(Serialize)]
pub(crate) struct Error {
    error: ErrorBody,
}

#[derive(Serialize)]
struct ErrorBody {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

impl Error {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { error: ErrorBody { code, message: message.into(), hint: None } }
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.error.hint = Some(hint);
        self
    }

    pub(crate) fn response(self, status: StatusCode) -> Response {
        (status, Json(self)).into_response()
    }
}

/// A call to explain.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainCall {
    pub(crate) variant: String,
    /// Whose token counts; none is one that covers everything.
    pub(crate) agent: Option<String>,
    /// The parameters of the `call_tool_*`, as an agent would send them.
    pub(crate) parameters: Box<RawValue>,
}

#[derive(Serialize)]
pub(crate) struct Explanation {
    /// `allow` or `deny`.
    decision: &'static str,
    variant: &'static str,
    /// The variant the tool asks for, if there is such a tool.
    call_with: Option<&'static str>,
    intent_verified: Option<bool>,
    error: Option<ExplainedError>,
    checks: Vec<ExplainedCheck>,
}

#[derive(Serialize)]
struct ExplainedError {
    code: &'static str,
    message: String,
    details: Value,
}

#[derive(Serialize)]
struct ExplainedCheck {
    check: &'static str,
    /// `passed`, `warned`, `failed` or `not_reached`.
    verdict: &'static str,
    why: String,
}

impl From<(Variant, policy::Explanation)> for Explanation {
    fn from((variant, explanation): (Variant, policy::Explanation)) -> Self {
        let denial = explanation.denial();
        let error = denial.map(|denial| ExplainedError {
            code: denial.code(),
            message: denial.message(),
            details: denial.details(),
        });
        Self {
            decision: if denial.is_some() { "deny" } else { "allow" },
            variant: variant.tool(),
            call_with: explanation.call_with.map(Variant::tool),
            intent_verified: explanation.is_verified,
            error,
            checks: explanation.findings.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<policy::Finding> for ExplainedCheck {
    fn from(finding: policy::Finding) -> Self {
        let (verdict, why) = match finding.verdict {
            Verdict::Passed(why) => ("passed", why),
            Verdict::Warned(warnings) => {
                let messages: Vec<String> = warnings.into_iter().map(|warning| warning.message).collect();
                ("warned", messages.join("; "))
            }
            Verdict::Failed(denial) => ("failed", denial.message()),
            Verdict::NotReached => ("not_reached", String::new()),
        };
        Self { check: finding.check.words(), verdict, why }
    }
}
