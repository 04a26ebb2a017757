//! Builds the records of the activity log: calls, refusals, servers, settings.

mod metadata;

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use mcpproxy_core::json::{members, quote, string_value};
use mcpproxy_core::{
    ApprovalRef, Declared, Denial, ErrorCode, Intent, ParameterPlace, Permit, RiskLevel, ServerName, Tool, ToolName,
    Variant, Warning, WrittenIntent,
};
use mcpproxy_store::{Kind, Ledger, NewRecord, Payload, RecordId, Status, WaitFor};

use crate::agents::ConnectedAgent;
use crate::contract_changes::Reload;
use crate::message::{INTENT_KEY, member};
use crate::sensitive::Sensitive;
use crate::snapshot::Snapshot;
use crate::upstream::UpstreamError;
use metadata::{Metadata, NamedContract};

pub(crate) use metadata::{DRY_RUN, REPLAYED_FROM, RISK_SAID_BY};

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
    NewRecord::blank(kind, status, now_ms(), rand::random())
}

/// Builds the record of a call that starts. The contract's `auditEvent` is not in it: nothing has happened yet.
pub(crate) fn of_permit(permit: &Permit, agent: &ConnectedAgent, sensitive: &Sensitive) -> NewRecord {
    let tool = permit.tool();
    let approval = permit.approval().map(|approval| match approval {
        ApprovalRef::Approval(id) => ("approval_id", quote(id.as_str())),
        ApprovalRef::StandingApproval(id) => ("grant_id", quote(id)),
    });
    let dry_run = permit.is_dry_run().then(|| (DRY_RUN, "\"server\"".to_owned()));
    let claim = permit.claim().map(|claim| ("idempotency_key", quote(&claim.key)));
    let mut metadata = Metadata::of_call(permit.intent(), agent, &NamedContract::of_tool(tool));
    metadata.add("intent_verified", if permit.is_verified() { "true" } else { "false" });
    if !permit.warnings().is_empty() {
        metadata.add("warnings", &warnings_json(permit.warnings()));
    }
    for (name, value) in approval.into_iter().chain(dry_run).chain(claim) {
        metadata.add(name, &value);
    }
    NewRecord {
        status: Status::Started,
        args: Some(sensitive.arguments(permit.arguments().as_str())),
        ..with_tool(tool, permit.intent(), agent, metadata)
    }
}

/// Builds the record of a call that succeeded without being sent.
pub(crate) fn of_tool(tool: &Tool, intent: &Intent, agent: &ConnectedAgent) -> NewRecord {
    with_tool(tool, intent, agent, Metadata::of_call(intent, agent, &NamedContract::of_tool(tool)))
}

fn with_tool(tool: &Tool, intent: &Intent, agent: &ConnectedAgent, metadata: Metadata) -> NewRecord {
    NewRecord {
        agent: Some(agent.identity.name.clone()),
        client: agent.client.clone(),
        server: Some(tool.name.server().to_string()),
        tool: Some(tool.name.tool().to_owned()),
        is_known_tool: true,
        intent_type: Some(intent.variant),
        risk: tool.contract.risk(),
        metadata: metadata.finish(),
        ..blank(Kind::Call, Status::Success)
    }
}

/// Builds the record of a call whose server was never reached. Of its contract, only the operator's part is known.
pub(crate) fn of_unavailable(
    declared: &Declared,
    error: &UpstreamError,
    agent: &ConnectedAgent,
    snapshot: &Snapshot,
) -> NewRecord {
    let contract = snapshot.written_contract(&declared.name);
    let sensitive = Sensitive::new(snapshot.sensitive(&declared.name), "{}");
    NewRecord {
        agent: Some(agent.identity.name.clone()),
        client: agent.client.clone(),
        server: Some(declared.name.server().to_string()),
        tool: Some(declared.name.tool().to_owned()),
        intent_type: Some(declared.intent.variant),
        code: Some(error.code().to_owned()),
        message: Some(error.to_string()),
        metadata: Metadata::of_call(&declared.intent, agent, &NamedContract::new(&contract)).finish(),
        args: Some(sensitive.arguments(declared.arguments.as_str())),
        ..blank(Kind::Call, Status::Error)
    }
}

/// Builds the record of a refused call. It says what the agent declared, even if that is the reason for the refusal.
pub(crate) fn of_denial(
    denial: &Denial,
    agent: &ConnectedAgent,
    requested: &RequestedCall<'_>,
    snapshot: &Snapshot,
) -> NewRecord {
    let name = requested.name();
    let (server, tool_name) = name.as_deref().map_or((None, None), |name| match name.split_once(':') {
        Some((server, tool)) => (Some(server.to_owned()), Some(tool.to_owned())),
        None => (None, Some(name.to_owned())),
    });
    // The tool, even if the call was refused before it was looked up. A tool that the agent may not see is not counted.
    let visible = name.as_deref().and_then(|name| ToolName::parse(name).ok());
    let visible = visible.filter(|name| agent.identity.scope.sees(name.server()));
    let tool = visible.as_ref().and_then(|name| snapshot.catalog.resolve(name));
    let is_missing = matches!(denial, Denial::NoSuchTool { .. });
    let forbidden = visible.as_ref().filter(|name| is_missing && snapshot.catalog.is_forbidden(name));
    let is_forbidden = forbidden.is_some();
    let is_quarantined =
        is_missing && visible.as_ref().is_some_and(|name| snapshot.catalog.quarantined(name).is_some());
    let forbidden = forbidden.and_then(|name| snapshot.catalog.forbidden().find(|tool| tool.name == *name));
    let contract = tool.or(forbidden).map(|tool| NamedContract::of_tool(tool));
    let place = agent.endpoint_mode.parameters();
    let declared = requested.declared(place);
    let variant = requested.variant.or_else(|| tool.map(|tool| tool.call_with()));
    NewRecord {
        agent: Some(agent.identity.name.clone()),
        client: agent.client.clone(),
        server,
        tool: tool_name,
        is_known_tool: tool.is_some(),
        intent_type: declared.operation().or(variant),
        risk: if is_forbidden { Some(RiskLevel::Forbidden) } else { tool.and_then(|tool| tool.contract.risk()) },
        // The agent learns only that there is no such tool. The log says what it tried.
        code: Some(match (is_forbidden, is_quarantined) {
            (true, _) => FORBIDDEN_ATTEMPT.to_owned(),
            (false, true) => ErrorCode::ToolQuarantined.as_str().to_owned(),
            (false, false) => denial.code().to_owned(),
        }),
        message: Some(denial.message_in(place)),
        metadata: Metadata::of_refusal(&declared, variant, agent, contract.as_ref()).finish(),
        args: Some(requested.payload(snapshot)),
        ..blank(Kind::Refusal, Status::Refused)
    }
}

/// Builds the record of a `tools/call` for a name that is not offered.
pub(crate) fn of_unknown(
    name: &str,
    requested: &RequestedCall<'_>,
    message: &str,
    agent: &ConnectedAgent,
    snapshot: &Snapshot,
) -> NewRecord {
    let declared = requested.declared(agent.endpoint_mode.parameters());
    NewRecord {
        agent: Some(agent.identity.name.clone()),
        client: agent.client.clone(),
        tool: Some(name.to_owned()),
        intent_type: declared.operation(),
        code: Some("tool_not_found".to_owned()),
        message: Some(message.to_owned()),
        metadata: Metadata::of_refusal(&declared, None, agent, None).finish(),
        args: Some(parameters(Some(name), requested.arguments, snapshot)),
        ..blank(Kind::Refusal, Status::Refused)
    }
}

/// A call as the agent requested it, for the record of a refusal.
pub(crate) struct RequestedCall<'a> {
    /// The variant that the agent used. `None` for a direct call, whose tool decides.
    pub(crate) variant: Option<Variant>,
    /// The tool of a direct call, which is not among the arguments.
    pub(crate) direct: Option<ToolName>,
    pub(crate) arguments: &'a str,
    /// The `_meta` of a direct call, which has its intent. Otherwise the intent is among the arguments.
    pub(crate) meta: Option<&'a str>,
}

impl<'a> RequestedCall<'a> {
    /// Reads the intent that the agent declared, as far as it can be read.
    fn declared(&self, place: ParameterPlace) -> WrittenIntent {
        let declared = match place {
            ParameterPlace::Arguments => members(self.arguments).map(|fields| WrittenIntent::of_parameters(&fields)),
            ParameterPlace::Meta => self.meta.and_then(|meta| member(meta, INTENT_KEY)).map(WrittenIntent::of_value),
        };
        declared.unwrap_or_default()
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

/// Records that the tools of a connected server cannot be read again. The previous list remains in force.
pub(crate) async fn note_unread_tools(ledger: &Ledger, server: &ServerName, reason: &str) {
    let record = NewRecord {
        server: Some(server.to_string()),
        code: Some("tools_refresh_failed".to_owned()),
        message: Some(format!("could not read the tools again: {reason}")),
        ..blank(Kind::Server, Status::Error)
    };
    note(ledger, record).await;
}

/// Records a reload: the changes, or the reason why the new files are invalid.
pub(crate) async fn note_settings(ledger: &Ledger, outcome: Result<Reload, String>) {
    let (status, message, metadata) = match outcome {
        Ok(reload) => (Status::Success, reload.message(), reload.metadata()),
        Err(reason) => (Status::Error, reason, "{}".to_owned()),
    };
    note(ledger, NewRecord { message: Some(message), metadata, ..blank(Kind::Settings, status) }).await;
}

/// Writes a record that nothing depends on. Returns its id.
pub(crate) async fn note(ledger: &Ledger, record: NewRecord) -> Option<RecordId> {
    let noted = ledger.append(record, WaitFor::Queue).await;
    noted.inspect_err(|error| tracing::debug!(%error, "could not write to the activity log")).ok()
}

pub(crate) fn warnings_json(warnings: &[Warning]) -> String {
    let each: Vec<String> = warnings
        .iter()
        .map(|warning| format!("{{\"code\":\"{}\",\"message\":{}}}", warning.code, quote(&warning.message)))
        .collect();
    format!("[{}]", each.join(","))
}
