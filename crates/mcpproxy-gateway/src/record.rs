//! Builds the records of the activity log: calls, refusals, servers, settings.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mcpproxy_core::json::{quote, string_value};
use mcpproxy_core::{
    Agent, ApprovalRef, Catalog, Declared, Denial, Intent, Permit, RiskLevel, ServerName, Tool, ToolName, Warning,
};
use mcpproxy_store::{Kind, Ledger, NewRecord, Payload, RecordId, Status, WaitFor};

use crate::agents::ConnectedAgent;
use crate::message::{member, with_members};
use crate::sensitive::Sensitive;
use crate::snapshot::Snapshot;
use crate::upstream::UpstreamError;

/// Code of a call to a forbidden tool.
const FORBIDDEN_ATTEMPT: &str = "forbidden_attempt";

/// Returns the time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    i64::try_from(since).unwrap_or(i64::MAX)
}

/// Formats a time as RFC 3339.
pub(crate) fn rfc3339(time_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(time_ms).unwrap_or_default().to_string()
}

/// Builds a record with the current time and nothing else.
pub(crate) fn blank(kind: Kind, status: Status) -> NewRecord {
    NewRecord {
        time_ms: now_ms(),
        random: rand::random(),
        kind,
        status,
        agent: None,
        client: None,
        server: None,
        tool: None,
        is_known_tool: false,
        intent_type: None,
        risk: None,
        code: None,
        message: None,
        duration_us: None,
        metadata: "{}".to_owned(),
        args: None,
    }
}

/// Builds the record of a call that starts.
pub(crate) fn of_permit(permit: &Permit, agent: &Agent, client: Option<&str>, sensitive: &Sensitive) -> NewRecord {
    let tool = permit.tool();
    let event = tool.contract.audit_event.as_ref().map(|event| event.value.as_str());
    let mut metadata = metadata(permit.intent(), Some(permit.is_verified()), permit.warnings(), event);
    let word = permit.approval().map(|word| match word {
        ApprovalRef::Approval(id) => ("approval_id", quote(id.as_str())),
        ApprovalRef::StandingApproval(id) => ("grant_id", quote(id)),
    });
    let dry_run = permit.is_dry_run().then(|| ("dry_run", "\"server\"".to_owned()));
    let claim = permit.claim().map(|claim| ("idempotency_key", quote(&claim.key)));
    for (name, value) in word.into_iter().chain(dry_run).chain(claim) {
        metadata = with_members(&metadata, &[(name, &value)]);
    }
    NewRecord {
        metadata,
        status: Status::Started,
        args: Some(sensitive.arguments(permit.arguments().as_str())),
        ..of_tool(tool, permit.intent(), agent, client)
    }
}

/// Builds the record of a call that succeeded without being sent.
pub(crate) fn of_tool(tool: &Tool, intent: &Intent, agent: &Agent, client: Option<&str>) -> NewRecord {
    NewRecord {
        agent: Some(agent.name.clone()),
        client: client.map(str::to_owned),
        server: Some(tool.name.server().to_string()),
        tool: Some(tool.name.tool().to_owned()),
        is_known_tool: true,
        intent_type: Some(intent.variant),
        risk: tool.contract.risk(),
        metadata: metadata(intent, None, &[], None),
        ..blank(Kind::Call, Status::Success)
    }
}

/// Builds the record of a call whose server was never reached.
pub(crate) fn of_unavailable(
    declared: &Declared,
    error: &UpstreamError,
    agent: &Agent,
    client: Option<&str>,
    sensitive: &Sensitive,
) -> NewRecord {
    NewRecord {
        agent: Some(agent.name.clone()),
        client: client.map(str::to_owned),
        server: Some(declared.name.server().to_string()),
        tool: Some(declared.name.tool().to_owned()),
        intent_type: Some(declared.intent.variant),
        code: Some(error.code().to_owned()),
        message: Some(error.to_string()),
        metadata: metadata(&declared.intent, None, &[], None),
        args: Some(sensitive.arguments(declared.arguments.as_str())),
        ..blank(Kind::Call, Status::Error)
    }
}

/// Builds the record of a refused call.
pub(crate) fn of_denial(
    denial: &Denial,
    agent: &Agent,
    client: Option<&str>,
    requested: &RequestedCall<'_>,
    snapshot: &Snapshot,
) -> NewRecord {
    let name = requested.name();
    let (server, tool) = name.as_deref().map_or((None, None), |name| match name.split_once(':') {
        Some((server, tool)) => (Some(server.to_owned()), Some(tool.to_owned())),
        None => (None, Some(name.to_owned())),
    });
    let contract = requested.tool.as_ref().map(|tool| &tool.contract);
    let risk = contract.and_then(|contract| contract.risk());
    let intent = requested.intent.as_ref();
    NewRecord {
        agent: Some(agent.name.clone()),
        client: client.map(str::to_owned),
        server,
        tool,
        is_known_tool: denial.names_known_tool(),
        intent_type: intent.map(|intent| intent.variant),
        risk: if requested.is_forbidden { Some(RiskLevel::Forbidden) } else { risk },
        // The agent learns only that there is no such tool. The log says what it tried.
        code: Some(if requested.is_forbidden { FORBIDDEN_ATTEMPT } else { denial.code() }.to_owned()),
        message: Some(denial.message()),
        metadata: intent.map_or_else(|| "{}".to_owned(), |intent| metadata(intent, None, &[], None)),
        args: Some(requested.payload(snapshot)),
        ..blank(Kind::Refusal, Status::Refused)
    }
}

/// Builds the record of a `tools/call` for a name that is not offered.
pub(crate) fn of_unknown(
    name: &str,
    arguments: &str,
    message: &str,
    agent: &ConnectedAgent,
    snapshot: &Snapshot,
) -> NewRecord {
    NewRecord {
        agent: Some(agent.identity.name.clone()),
        client: agent.client.clone(),
        tool: Some(name.to_owned()),
        code: Some("tool_not_found".to_owned()),
        message: Some(message.to_owned()),
        args: Some(parameters(Some(name), arguments, snapshot)),
        ..blank(Kind::Refusal, Status::Refused)
    }
}

/// A call as the agent requested it, for the record of a refusal.
pub(crate) struct RequestedCall<'a> {
    /// The intent, as far as it could be read.
    pub(crate) intent: Option<Intent>,
    /// The tool of a direct call, which is not among the arguments.
    pub(crate) direct: Option<ToolName>,
    pub(crate) arguments: &'a str,
    /// The tool, if the agent may see it.
    pub(crate) tool: Option<Arc<Tool>>,
    /// True if the name is that of a forbidden tool.
    pub(crate) is_forbidden: bool,
}

impl<'a> RequestedCall<'a> {
    pub(crate) fn of(arguments: &'a str) -> Self {
        Self { intent: None, direct: None, arguments, tool: None, is_forbidden: false }
    }

    /// Adds the result of resolving the name.
    pub(crate) fn resolved(&mut self, tool: Option<&Arc<Tool>>, declared: &Declared, catalog: &Catalog, agent: &Agent) {
        if self.direct.is_none() || tool.is_some() {
            self.intent = Some(declared.intent.clone());
        }
        let sees = agent.scope.sees(declared.name.server());
        self.tool = tool.filter(|_| sees).cloned();
        self.is_forbidden = tool.is_none() && sees && catalog.is_forbidden(&declared.name);
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        match &self.direct {
            Some(name) => Some(name.to_string().into()),
            None => member(self.arguments, "name").and_then(string_value),
        }
    }

    /// Masks the arguments, even if the call was refused before its tool was resolved.
    fn payload(&self, snapshot: &Snapshot) -> Payload {
        match &self.direct {
            Some(name) => Sensitive::new(snapshot.sensitive(name), "{}").arguments(self.arguments),
            None => parameters(None, self.arguments, snapshot),
        }
    }
}

/// Parameters in which an agent may name the tool. Two of them are common mistakes.
const NAMES: [&str; 3] = ["name", "tool", "tool_name"];

/// Masks parameters by the contracts of every tool that they, or the name of the call, may mean.
fn parameters(called: Option<&str>, text: &str, snapshot: &Snapshot) -> Payload {
    let named = NAMES.into_iter().filter_map(|key| member(text, key).and_then(string_value));
    let names = called.map(Cow::Borrowed).into_iter().chain(named);
    let pointers = names.flat_map(|name| snapshot.sensitive_of(&name)).collect();
    Sensitive::new(pointers, "{}").parameters(text)
}

pub(crate) async fn note_server(ledger: &Ledger, server: &ServerName, failure: Option<String>) {
    let status = if failure.is_some() { Status::Error } else { Status::Success };
    let message = failure.unwrap_or_else(|| "connected".to_owned());
    note(ledger, NewRecord { server: Some(server.to_string()), message: Some(message), ..blank(Kind::Server, status) })
        .await;
}

/// Records a reload: the changes, or the reason why the new files are invalid.
pub(crate) async fn note_settings(ledger: &Ledger, outcome: Result<String, String>) {
    let (status, message) = match outcome {
        Ok(changed) => (Status::Success, format!("reloaded: {changed}")),
        Err(reason) => (Status::Error, reason),
    };
    note(ledger, NewRecord { message: Some(message), ..blank(Kind::Settings, status) }).await;
}

/// Writes a record that nothing depends on. Returns its id.
pub(crate) async fn note(ledger: &Ledger, record: NewRecord) -> Option<RecordId> {
    let noted = ledger.append(record, WaitFor::Queue).await;
    noted.inspect_err(|error| tracing::debug!(%error, "could not write to the activity log")).ok()
}

fn metadata(intent: &Intent, is_verified: Option<bool>, warnings: &[Warning], audit_event: Option<&str>) -> String {
    let mut text = format!("{{\"intent\":{{\"operation_type\":\"{}\"", intent.variant);
    if let Some(sensitivity) = intent.sensitivity {
        text.push_str(&format!(",\"data_sensitivity\":\"{}\"", sensitivity.as_str()));
    }
    if let Some(reason) = &intent.reason {
        text.push_str(&format!(",\"reason\":{}", quote(reason.for_json())));
    }
    text.push_str(&format!("}},\"tool_variant\":\"{}\"", intent.variant.tool()));
    if let Some(is_verified) = is_verified {
        text.push_str(&format!(",\"intent_verified\":{is_verified}"));
    }
    if !warnings.is_empty() {
        text.push_str(&format!(",\"warnings\":{}", warnings_json(warnings)));
    }
    if let Some(audit_event) = audit_event {
        text.push_str(&format!(",\"audit_event\":{}", quote(audit_event)));
    }
    text + "}"
}

pub(crate) fn warnings_json(warnings: &[Warning]) -> String {
    let each: Vec<String> = warnings
        .iter()
        .map(|warning| format!("{{\"code\":\"{}\",\"message\":{}}}", warning.code, quote(&warning.message)))
        .collect();
    format!("[{}]", each.join(","))
}
