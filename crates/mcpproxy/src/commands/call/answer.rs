//! What came of a call: the result on standard output, and why there is none on standard error.

#[cfg(test)]
mod tests;

use mcpproxy_core::{ApprovalId, Variant};
use serde_json::Value;

use super::asked::Asked;
use crate::client::jsonrpc::Envelope;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, Format, line, lines, member};
use crate::terminal::shell;

/// JSON-RPC's "something broke inside".
const INTERNAL_ERROR: i64 = -32603;

pub(super) fn print(format: Format, answer: &Envelope, asked: &Asked<'_>) -> anyhow::Result<Exit> {
    if let Some(error) = &answer.error {
        let exit = if error.code == INTERNAL_ERROR { Exit::Failed } else { Exit::Refused };
        return Err(Failure::new(exit, line(&error.message)).into());
    }
    let raw = answer.result.as_ref().map_or("null", |result| result.get());
    let result: Value = serde_json::from_str(raw)?;
    let failure = failure(&result, asked);
    match format {
        Format::Json => output::print(raw)?,
        Format::Yaml => format.print(&result, String::new)?,
        // A refusal's text is the failure's message, which goes to standard error.
        Format::Table if gateways_error(&result).is_none() => output::print(&text(&result))?,
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

/// What the gateway says beside an answer that is not that of a call it has just made.
fn note(result: &Value) -> Option<String> {
    let meta = result.get("_meta")?;
    if meta.get("mcpproxy/replayed") == Some(&Value::Bool(true)) {
        let first = meta.get("mcpproxy/first_record").and_then(Value::as_str);
        let first = first.map(|id| format!(" (record {})", line(id))).unwrap_or_default();
        return Some(format!("this call was made before, and this is its answer{first}; nothing was sent"));
    }
    let dry_run = meta.get("mcpproxy/dry_run")?;
    Some(match dry_run.get("by").and_then(Value::as_str) {
        Some("server") => "a dry run, made by the server itself; nothing was changed".to_owned(),
        _ => "a dry run, made from the contract; nothing was sent".to_owned(),
    })
}

/// The gateway's own error, if this is one. The gateway marks its own, and drops such a mark from a server's answer.
fn gateways_error(result: &Value) -> Option<(&str, &str)> {
    result.pointer("/_meta/mcpproxy~1error")?;
    let error = result.pointer("/structuredContent/error")?;
    Some((error.get("code")?.as_str()?, error.get("message")?.as_str()?))
}

fn detail<'r>(result: &'r Value, name: &str) -> Option<&'r Value> {
    result.pointer("/structuredContent/error/details")?.get(name)
}

fn failure(result: &Value, asked: &Asked<'_>) -> Option<Failure> {
    if result.get("resultType").and_then(Value::as_str) == Some("input_required") {
        return Some(Failure::new(Exit::Refused, "the server asks for input, which the command line cannot give"));
    }
    if result.get("isError") != Some(&Value::Bool(true)) {
        return None;
    }
    let Some((code, message)) = gateways_error(result) else {
        return Some(Failure::new(Exit::ServerFailed, servers_error(result, asked)));
    };
    let exit = match code {
        // The call was made, and what came of it is not passed on.
        "result_too_large" | "output_mismatch" => Exit::ServerFailed,
        code if code.starts_with("UPSTREAM_") => Exit::ServerFailed,
        "confirmation_required" if approval(result).is_some() => Exit::Waiting,
        _ => Exit::Refused,
    };
    let failure = Failure::new(exit, refusal(code, message, result, asked));
    Some(match right_command(result, asked).or_else(|| next_step(code, result, asked)) {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// The question that a user is asked about this call.
fn approval(result: &Value) -> Option<ApprovalId> {
    ApprovalId::parse(detail(result, "approval_id")?.as_str()?)
}

/// A server's own error, under the name its contract has for it.
fn servers_error(result: &Value, asked: &Asked<'_>) -> String {
    let failure = result.pointer("/_meta/mcpproxy~1failure").unwrap_or(&Value::Null);
    let named = match (failure.get("declared").and_then(Value::as_bool), member(failure, "code")) {
        (Some(true), code) => format!(": {code}, as its contract declares"),
        (Some(false), code) => match member(failure, "original").as_str() {
            "-" => format!(" that its contract does not declare ({code})"),
            original => format!(" that its contract does not declare: {original} ({code})"),
        },
        (None, _) => String::new(),
    };
    format!("server `{}` reports an error{named}", asked.tool.server())
}

/// The gateway's words, with a line for each thing that is wrong where there are several.
fn refusal(code: &str, message: &str, result: &Value, asked: &Asked<'_>) -> String {
    let list = |name: &str| detail(result, name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (problems, policies) = (list("problems"), list("rules"));
    let headline = match code {
        // What the message goes on to say is for a model; people get a command.
        "confirmation_required" if approval(result).is_some() => waiting(result, asked),
        // The message has all of them in one long line, which agents prefer.
        "invalid_arguments" if !problems.is_empty() => format!("Invalid arguments for '{}'", asked.tool),
        _ => line(message),
    };
    let mut text = format!("{headline} ({})", line(code));
    if detail(result, "nobody_can_approve").is_some() {
        text.push_str(
            "\n  nobody can approve yet; the gateway prints a link to become the first who can beside the question",
        );
    }
    for problem in problems {
        let place = match member(problem, "pointer").as_str() {
            "" | "-" => "the whole".to_owned(),
            pointer => pointer.to_owned(),
        };
        let words = problem.get("description").and_then(Value::as_str).map(|words| format!(" ({})", line(words)));
        let (expected, found) = (member(problem, "expected"), member(problem, "found"));
        text.push_str(&format!("\n  {place}: expected {expected}, found {found}{}", words.unwrap_or_default()));
    }
    for policy in policies.iter().skip(1) {
        let words = policy.get("message").and_then(Value::as_str).map(|words| format!(": {}", line(words)));
        text.push_str(&format!("\n  also refused by policy '{}'{}", member(policy, "rule"), words.unwrap_or_default()));
    }
    text
}

fn waiting(result: &Value, asked: &Asked<'_>) -> String {
    let level = detail(result, "risk_level").and_then(Value::as_str);
    let level = level.map(|level| format!(" (risk level {})", line(level))).unwrap_or_default();
    let needs = detail(result, "needs").and_then(Value::as_array);
    let needs_step_up = needs.is_some_and(|needs| needs.iter().any(|need| need == "step_up"));
    let factor = if needs_step_up { " with a fresh second factor" } else { "" };
    let url = detail(result, "approve_url").and_then(Value::as_str).map(line).unwrap_or_default();
    format!("a person must approve this call of '{}'{level}{factor}: {url}", asked.tool)
}

fn next_step(code: &str, result: &Value, asked: &Asked<'_>) -> Option<String> {
    let tool = asked.tool;
    Some(match code {
        "upstream_unavailable" => "`mcpproxy servers list` shows why".to_owned(),
        "permission_denied" => {
            let missing = detail(result, "missing_permissions").and_then(Value::as_array)?;
            let grants = missing.iter().filter_map(Value::as_str);
            let grants: String = grants.map(|grant| format!(" --grant {}", shell::word(grant))).collect();
            format!("a token that has them: mcpproxy token create NAME{grants}")
        }
        "policy_violation" => {
            format!("the policies that were looked at: mcpproxy policy explain {tool} --variant {}", asked.variant)
        }
        "contract_required" => format!("`mcpproxy contract draft {}` makes a first contract", tool.server()),
        "invalid_arguments" => {
            format!("`mcpproxy tools show {tool}` has the schema, `mcpproxy contract show {tool}` what a contract adds")
        }
        "confirmation_required" => match approval(result) {
            Some(id) => asked.after_approval(&id),
            None => format!("`mcpproxy contract show {tool}` shows who asks for this"),
        },
        "rate_limit_exceeded" | "output_mismatch" => {
            format!("`mcpproxy contract show {tool}` shows who asks for this")
        }
        "dry_run_required" => asked.as_dry_run(),
        "approval_expired" | "approval_stale" => format!("ask again: {}", asked.without_approval()),
        "approval_args_mismatch" => {
            let id = asked.approval.map_or("ID", ApprovalId::as_str);
            asked.command(&format!("approvals show {id}")) + " shows the call it is for"
        }
        "approval_not_found" => asked.command("approvals list --state all") + " shows all there are",
        "too_many_approvals" => format!("decide on some of them: {}", asked.command("approvals list")),
        "approval_already_used" | "outcome_unknown" => {
            let record = detail(result, "record")?.as_str()?;
            asked.command(&format!("activity show {}", shell::plain_word(record))) + " shows what is known of it"
        }
        "idempotency_conflict" => "give another call another --idempotency-key".to_owned(),
        _ => return None,
    })
}

/// The command that would be right, when the tool asks for another variant.
fn right_command(result: &Value, asked: &Asked<'_>) -> Option<String> {
    let call_with = detail(result, "call_with")?.as_str()?;
    let right = Variant::from_tool(call_with)?;
    Some(asked.with_variant(right))
}

/// The content for people: texts as they are, the rest described.
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
