//! Prints the result of a call on standard output, or the reason for a refusal on standard error.

#[cfg(test)]
mod tests;

use mcpproxy_core::ErrorCode;
use serde_json::Value;

use super::invocation::Invocation;
use super::refusal::{self, GatewayError};
use crate::client::jsonrpc::Envelope;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, Format, line, lines, member};

/// The JSON-RPC code of an internal error.
const INTERNAL_ERROR: i64 = -32603;

pub(super) fn print(format: Format, answer: &Envelope, invocation: &Invocation<'_>) -> anyhow::Result<Exit> {
    if let Some(error) = &answer.error {
        let exit = if error.code == INTERNAL_ERROR { Exit::Failed } else { Exit::Refused };
        return Err(Failure::new(exit, line(&error.message)).into());
    }
    let raw = answer.result.as_ref().map_or("null", |result| result.get());
    let result: Value = serde_json::from_str(raw)?;
    let failure = failure(&result, invocation);
    match format {
        Format::Json => output::print(raw)?,
        Format::Yaml => format.print(&result, String::new)?,
        // A refusal's text is the failure's message, which goes to standard error.
        Format::Table if gateway_error(&result).is_none() => output::print(&text(&result))?,
        Format::Table => {}
    }
    for warning in result.pointer("/_meta/mcpproxy~1warnings").and_then(Value::as_array).into_iter().flatten() {
        output::tell(&format!("warning: {}", member(warning, "message")));
    }
    if let Some(note) = note(&result) {
        output::tell(&format!("note: {note}"));
    }
    match failure {
        None => Ok(Exit::Done),
        Some(failure) => Err(failure.into()),
    }
}

/// Returns the code of the gateway, if it says that there is no such tool or server.
pub(super) fn missing(answer: &Envelope) -> Option<ErrorCode> {
    let result: Value = serde_json::from_str(answer.result.as_ref()?.get()).ok()?;
    let code = ErrorCode::parse(gateway_error(&result)?.code)?;
    matches!(code, ErrorCode::ToolNotFound | ErrorCode::ServerNotFound).then_some(code)
}

/// Explains a result that does not come from sending this call.
fn note(result: &Value) -> Option<String> {
    let meta = result.get("_meta")?;
    if meta.get("mcpproxy/replayed") == Some(&Value::Bool(true)) {
        let first = meta.get("mcpproxy/first_record").and_then(Value::as_str);
        let first = first.map(|id| format!(" (record {})", line(id))).unwrap_or_default();
        return Some(format!("This is the result of an earlier call with the same key{first}. Nothing was sent."));
    }
    let dry_run = meta.get("mcpproxy/dry_run")?;
    Some(match dry_run.get("by").and_then(Value::as_str) {
        Some("server") => "This is a dry run by the server. Nothing was changed.".to_owned(),
        _ => "This is a dry run made from the contract. Nothing was sent.".to_owned(),
    })
}

/// Returns the gateway's own error, if the result is one.
///
/// `_meta` proves it: the gateway sets `mcpproxy/error` on its own errors and removes that key from a server's result.
fn gateway_error(result: &Value) -> Option<GatewayError<'_>> {
    result.pointer("/_meta/mcpproxy~1error")?;
    let error = result.pointer("/structuredContent/error")?;
    Some(GatewayError {
        code: error.get("code")?.as_str()?,
        message: error.get("message")?.as_str()?,
        details: error.get("details").unwrap_or(&Value::Null),
    })
}

fn failure(result: &Value, invocation: &Invocation<'_>) -> Option<Failure> {
    if result.get("resultType").and_then(Value::as_str) == Some("input_required") {
        let message =
            "The server asks for more input. The command line cannot answer; call this tool from an MCP client.";
        return Some(Failure::new(Exit::Refused, message));
    }
    if result.get("isError") != Some(&Value::Bool(true)) {
        return None;
    }
    match gateway_error(result) {
        Some(error) => Some(refusal::failure(&error, invocation)),
        None => Some(Failure::new(Exit::ServerFailed, server_error(result, invocation))),
    }
}

/// Words a server's own error, under the name its contract has for it.
fn server_error(result: &Value, invocation: &Invocation<'_>) -> String {
    let failure = result.pointer("/_meta/mcpproxy~1failure").unwrap_or(&Value::Null);
    let named = match (failure.get("declared").and_then(Value::as_bool), member(failure, "code")) {
        (Some(true), code) => format!(" that its contract declares: {code}"),
        (Some(false), code) => match member(failure, "original").as_str() {
            "-" => format!(" that its contract does not declare ({code})"),
            original => format!(" that its contract does not declare: {original} ({code})"),
        },
        (None, _) => String::new(),
    };
    format!("server `{}` returned an error{named}", invocation.tool.server())
}

/// Formats the content for a person: text as it is, a description of everything else.
fn text(result: &Value) -> String {
    let content = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if content.is_empty() {
        let structured = result.get("structuredContent").unwrap_or(&Value::Null);
        let pretty = serde_json::to_string_pretty(structured).unwrap_or_default();
        return if structured.is_null() { String::new() } else { lines(&pretty) };
    }
    content.iter().map(|part| block(part) + "\n").collect()
}

fn block(part: &Value) -> String {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    let text = |pointer: &str| part.pointer(pointer).and_then(Value::as_str);
    match kind {
        "text" => lines(text("/text").unwrap_or_default()).trim_end_matches('\n').to_owned(),
        "image" | "audio" => {
            let base64_chars = text("/data").map_or(0, str::len);
            format!("[{kind} {}, {base64_chars} characters of Base64; -o json has them]", member(part, "mimeType"))
        }
        "resource_link" => format!("[{} {}]", member(part, "name"), member(part, "uri")),
        "resource" if text("/resource/text").is_some() => lines(text("/resource/text").unwrap_or_default()),
        _ => line(&part.to_string()),
    }
}
