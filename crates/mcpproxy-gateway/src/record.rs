//! What the gateway writes down: calls, refusals, and what became of servers and settings.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcpproxy_core::json::quote;
use mcpproxy_core::{Agent, Check, Declared, Denial, Intent, Permit, ServerName, Warning, mask};
use mcpproxy_store::{Kind, Ledger, NewRecord, Outcome, Payload, RecordId, Status, Wait};

use crate::message::member;
use crate::upstream::{Reply, UpstreamError};

/// A record with the time, and nothing else yet.
pub(crate) fn blank(kind: Kind, status: Status) -> NewRecord {
    let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    NewRecord {
        time_ms: i64::try_from(time_ms).unwrap_or(i64::MAX),
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

/// The `started` line of a call.
pub(crate) fn of_permit(permit: &Permit, agent: &Agent, client: Option<&str>) -> NewRecord {
    let tool = permit.tool();
    let intent = permit.intent();
    NewRecord {
        agent: Some(agent.name.clone()),
        client: client.map(str::to_owned),
        server: Some(tool.name.server().to_string()),
        tool: Some(tool.name.tool().to_owned()),
        is_known_tool: true,
        intent_type: Some(intent.variant),
        metadata: metadata(intent, Some(permit.is_verified()), permit.warnings()),
        args: Some(payload(permit.arguments().as_str())),
        ..blank(Kind::Call, Status::Started)
    }
}

/// The line of a call for which there was no server to send it to.
pub(crate) fn of_unavailable(
    declared: &Declared,
    error: &UpstreamError,
    agent: &Agent,
    client: Option<&str>,
) -> NewRecord {
    NewRecord {
        agent: Some(agent.name.clone()),
        client: client.map(str::to_owned),
        server: Some(declared.name.server().to_string()),
        tool: Some(declared.name.tool().to_owned()),
        intent_type: Some(declared.intent.variant),
        code: Some(error.code().to_owned()),
        message: Some(error.to_string()),
        metadata: metadata(&declared.intent, None, &[]),
        args: Some(payload(declared.arguments.as_str())),
        ..blank(Kind::Call, Status::Error)
    }
}

/// The line of a call that was refused. `asked` is what the agent asked for, as far as it could be read.
pub(crate) fn of_denial(
    denial: &Denial,
    agent: &Agent,
    client: Option<&str>,
    intent: Option<&Intent>,
    asked: Asked<'_>,
) -> NewRecord {
    let (server, tool) = asked.name.map_or((None, None), |name| match name.split_once(':') {
        Some((server, tool)) => (Some(server.to_owned()), Some(tool.to_owned())),
        None => (None, Some(name.to_owned())),
    });
    NewRecord {
        agent: Some(agent.name.clone()),
        client: client.map(str::to_owned),
        server,
        tool,
        is_known_tool: match denial.check() {
            Check::Shape | Check::TwoKeys | Check::Exists => false,
            Check::Annotations | Check::Permissions => true,
        },
        intent_type: intent.map(|intent| intent.variant),
        code: Some(denial.code().to_owned()),
        message: Some(denial.message()),
        metadata: intent.map_or_else(|| "{}".to_owned(), |intent| metadata(intent, None, &[])),
        args: asked.arguments.map(payload),
        ..blank(Kind::Refusal, Status::Refused)
    }
}

/// The line of a `tools/call` for a name that is not offered.
pub(crate) fn of_unknown(name: &str, arguments: &str, message: &str, agent: &Agent, client: Option<&str>) -> NewRecord {
    NewRecord {
        agent: Some(agent.name.clone()),
        client: client.map(str::to_owned),
        tool: Some(name.to_owned()),
        code: Some("TOOL_NOT_FOUND".to_owned()),
        message: Some(message.to_owned()),
        args: Some(payload(arguments)),
        ..blank(Kind::Refusal, Status::Refused)
    }
}

/// What a refused call was about.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) arguments: Option<&'a str>,
}

pub(crate) fn outcome(answer: &Result<Reply, UpstreamError>, took: Duration) -> Outcome {
    let (status, code, message, result) = match answer {
        Ok(Ok(result)) if member(result, "isError") == Some("true") => {
            (Status::Error, None, None, Some(payload(result)))
        }
        Ok(Ok(result)) => (Status::Success, None, None, Some(payload(result))),
        Ok(Err(error)) => {
            (Status::Error, Some(error.code.to_string()), Some(error.message.clone()), Some(payload(&error.object())))
        }
        Err(error @ UpstreamError::Cancelled) => {
            (Status::Cancelled, Some(error.code().to_owned()), Some(error.to_string()), None)
        }
        Err(error) => {
            let unknown = if error.outcome_is_unknown() { "; the server may have run it" } else { "" };
            (Status::Error, Some(error.code().to_owned()), Some(format!("{error}{unknown}")), None)
        }
    };
    let duration_us = Some(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    Outcome { status, code, message, duration_us, result, metadata: None }
}

pub(crate) async fn note_server(ledger: &Ledger, server: &ServerName, failure: Option<String>) {
    let status = if failure.is_some() { Status::Error } else { Status::Success };
    let message = failure.unwrap_or_else(|| "connected".to_owned());
    note(ledger, NewRecord { server: Some(server.to_string()), message: Some(message), ..blank(Kind::Server, status) })
        .await;
}

pub(crate) async fn note_settings(ledger: &Ledger, failure: Option<String>) {
    let status = if failure.is_some() { Status::Error } else { Status::Success };
    let message = failure.unwrap_or_else(|| "reloaded".to_owned());
    note(ledger, NewRecord { message: Some(message), ..blank(Kind::Settings, status) }).await;
}

/// Writes a record that nothing depends on, and returns its id.
pub(crate) async fn note(ledger: &Ledger, record: NewRecord) -> Option<RecordId> {
    let noted = ledger.note(record, Wait::Batched).await;
    noted.inspect_err(|error| tracing::debug!(%error, "could not write to the activity log")).ok()
}

/// Arguments or a result, as the log keeps them.
fn payload(text: &str) -> Payload {
    Payload::of(mask(text, &[]), text.len())
}

fn metadata(intent: &Intent, is_verified: Option<bool>, warnings: &[Warning]) -> String {
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
    text + "}"
}

pub(crate) fn warnings_json(warnings: &[Warning]) -> String {
    let each: Vec<String> = warnings
        .iter()
        .map(|warning| format!("{{\"code\":\"{}\",\"message\":{}}}", warning.code, quote(&warning.message)))
        .collect();
    format!("[{}]", each.join(","))
}
