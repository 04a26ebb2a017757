//! Formats a record as a page of text: facts, intent, arguments, result and position in the log.

use mcpproxy_core::{RiskLevel, Untrusted};
use mcpproxy_store::{PayloadFacts, WholeRecord};
use mcpproxy_web::records::Activity;
use serde_json::Value;

use super::words::{NONE, counted, duration, grouped, intent, word};
use crate::terminal::output::{self, lines, member};
use crate::terminal::size::columns;
use crate::terminal::time::local;
use crate::terminal::wrap;

/// Width of the labels, so that the sections line up.
const NAME_CHARS: usize = 11;

/// Formats a record. `activity` is its JSON form, and `chain` the name of its chain.
pub(super) fn text(whole: &WholeRecord, activity: &Activity, chain: &str) -> String {
    let record = &whole.record;
    let client = record.client.as_ref().map(|client| format!(" ({})", client.for_terminal())).unwrap_or_default();
    let agent = record.agent.as_deref().map_or(NONE.to_owned(), output::line);
    let metadata: Value = serde_json::from_str(activity.metadata.get()).unwrap_or_default();
    let mut out = String::new();
    section(
        &mut out,
        None,
        &[
            ("Id", record.id.to_string()),
            ("Time", local(record.time_ms(), "%Y-%m-%d %H:%M:%S%.3f %Z")),
            ("Type", record.kind.as_str().to_owned()),
            ("Status", record.status.as_str().to_owned()),
            ("Agent", format!("{agent}{client}")),
            ("Approved by", member(&metadata, "approved_by")),
            ("Server", word(&record.server)),
            ("Tool", word(&record.tool)),
            ("Risk", record.risk.map_or(NONE, RiskLevel::as_str).to_owned()),
            ("Duration", record.duration_us.map_or(NONE.to_owned(), duration)),
            ("Code", word(&record.code)),
            ("Message", word(&record.message)),
            ("Category", member(&metadata, "category")),
            ("Event", member(&metadata, "audit_event")),
            ("Failure", metadata.get("failure").map_or(NONE.to_owned(), failure)),
        ],
    );
    let declared = metadata.get("intent").unwrap_or(&Value::Null);
    // Only where it is no operation. Otherwise the line above says the same.
    let written = member(declared, "operation_type");
    let is_same = record.intent_type.is_some_and(|variant| variant.operation() == written);
    let written = if is_same { NONE.to_owned() } else { written };
    section(
        &mut out,
        Some("Intent"),
        &[
            ("Operation", record.intent_type.map_or(NONE, intent).to_owned()),
            ("Declared", written),
            ("Expected", member(metadata.get("expected").unwrap_or(&Value::Null), "operation_type")),
            ("Called with", called_with(&metadata)),
            ("Sensitivity", member(declared, "data_sensitivity")),
            ("Reason", member(declared, "reason")),
        ],
    );
    let rest = metadata.as_object().into_iter().flatten();
    let rest: Vec<(&str, String)> = rest
        .filter(|(name, _)| !SHOWN.contains(&name.as_str()))
        .map(|(name, _)| (name.as_str(), member(&metadata, name)))
        .collect();
    section(&mut out, Some("Notes"), &rest);
    payload(&mut out, "Arguments", whole.args.as_ref(), record.args);
    payload(&mut out, "Result", whole.result.as_ref(), record.result);
    let position = match record.end_seq {
        Some(end) => format!("{}, end at {}", grouped(record.seq), grouped(end)),
        None => grouped(record.seq),
    };
    let has_payloads = record.args.is_some() || record.result.is_some();
    let digest = |digest: &Option<String>| digest.as_deref().unwrap_or(NONE).to_owned();
    section(
        &mut out,
        Some(if has_payloads { "In the log (SHA-256 of arguments and result)" } else { "In the log" }),
        &[
            ("Chain", output::line(chain)),
            ("Position", position),
            ("Arguments", digest(&activity.arguments_sha256)),
            ("Result", digest(&activity.result_sha256)),
        ],
    );
    for (name, what) in [("approval_id", "approval"), ("grant_id", "grant")] {
        if let Some(id) = metadata.get(name).and_then(Value::as_str) {
            out.push_str(&format!(
                "\nAll records of this {what}: mcpproxy activity list --query {}\n",
                output::line(id)
            ));
        }
    }
    out
}

/// Members of the metadata that have a line of their own.
const SHOWN: [&str; 9] = [
    "intent",
    "expected",
    "tool_variant",
    "variant_inferred",
    "endpoint_mode",
    "category",
    "audit_event",
    "failure",
    "approved_by",
];

/// Names the variant and, for a direct call, the endpoint mode by which the gateway chose it.
fn called_with(metadata: &Value) -> String {
    let variant = member(metadata, "tool_variant");
    match (metadata.get("endpoint_mode").and_then(Value::as_str), metadata.get("variant_inferred").is_some()) {
        (Some("server"), true) => format!("{variant}, inferred at /mcp/s/NAME"),
        (Some("direct"), true) => format!("{variant}, inferred at /mcp/direct"),
        (_, _) => variant,
    }
}

/// Formats a server's error under the tool's contract.
fn failure(failure: &Value) -> String {
    let code = member(failure, "code");
    match (failure.get("declared").and_then(Value::as_bool), member(failure, "original").as_str()) {
        (Some(true), _) => format!("{code}, declared in the contract"),
        (_, NONE) => format!("{code}: not declared in the contract"),
        (_, original) => format!("{code}: {original} is not declared in the contract"),
    }
}

/// Formats a section. Facts without a value are left out.
fn section(out: &mut String, heading: Option<&str>, facts: &[(&str, String)]) {
    let facts: Vec<_> = facts.iter().filter(|(_, value)| value != NONE).collect();
    if facts.is_empty() {
        return;
    }
    if let Some(heading) = heading {
        out.push_str(&format!("\n{heading}\n"));
    }
    let indent = if heading.is_some() { "  " } else { "" };
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().max(NAME_CHARS);
    let value_at = indent.len() + width + 2;
    for (name, value) in facts {
        let value = fitted_value(value, value_at, columns());
        out.push_str(&format!("{indent}{:<width$}  {value}\n", output::line(name)));
    }
}

/// Fits a value into the columns after its name. Prose is wrapped. JSON has hardly a space to wrap at, so it is printed
/// on several lines.
fn fitted_value(value: &str, at: usize, columns: Option<usize>) -> String {
    let Some(room) = columns.map(|columns| columns.saturating_sub(at)).filter(|room| wrap::width(value) > *room) else {
        return value.to_owned();
    };
    let is_json = value.starts_with(['{', '[']) && serde_json::from_str::<Value>(value).is_ok();
    let text = if is_json { indented(value) } else { value.to_owned() };
    let wrapped = |line: &str| {
        let deep = line.len() - line.trim_start().len();
        let line = wrap::hanging(line, room.saturating_sub(deep), 2);
        line.lines().map(|line| format!("{:deep$}{line}", "")).collect::<Vec<_>>()
    };
    text.lines().flat_map(wrapped).collect::<Vec<_>>().join(&format!("\n{:at$}", ""))
}

fn payload(out: &mut String, heading: &str, text: Option<&Untrusted>, facts: Option<PayloadFacts>) {
    let Some(facts) = facts else { return };
    let size = counted(facts.bytes, "byte");
    let Some(text) = text.map(Untrusted::for_json) else {
        out.push_str(&format!("\n{heading} ({size}): erased\n"));
        return;
    };
    let is_cut = facts.digests.kept.is_some();
    let cut = if is_cut { format!(", cut to {}", grouped(text.len() as u64)) } else { String::new() };
    out.push_str(&format!("\n{heading} ({size}{cut})\n"));
    let shown = if is_cut { text.to_owned() } else { indented(text) };
    for line in lines(&shown).lines() {
        out.push_str(&format!("  {line}\n"));
    }
}

/// Formats JSON on several lines, with every string and number as recorded.
pub(crate) fn indented(json: &str) -> String {
    if serde_json::from_str::<&serde_json::value::RawValue>(json).is_err() {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let (mut in_string, mut is_escaped) = (false, false);
    let mut significant = json.chars().peekable();
    while let Some(c) = significant.next() {
        if in_string {
            out.push(c);
            in_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' => {
                while significant.next_if(char::is_ascii_whitespace).is_some() {}
                out.push(c);
                if let Some(end) = significant.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line_break(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line_break(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line_break(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                out.push(c);
                in_string = true;
            }
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// Limits the indentation of deeply nested JSON.
const DEPTH_MAX: usize = 16;

fn line_break(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth.min(DEPTH_MAX)));
}

#[cfg(test)]
mod tests {
    use mcpproxy_store::Digests;

    use super::*;

    #[test]
    fn what_is_not_kept_is_said() {
        let check = |text: Option<&str>, kept: Option<[u8; 32]>, expected: &str| {
            let facts = PayloadFacts { bytes: 70_000, digests: Digests { whole: [1; 32], kept } };
            let mut out = String::new();
            payload(&mut out, "Result", text.map(Untrusted::new).as_ref(), Some(facts));
            assert_eq!(out, expected);
        };
        check(None, None, "\nResult (70,000 bytes): erased\n");
        check(Some("{\"a\": \"b\u{1b}"), Some([2; 32]), "\nResult (70,000 bytes, cut to 9)\n  {\"a\": \"b\\u{1b}\n");
        check(Some("[1]"), None, "\nResult (70,000 bytes)\n  [\n    1\n  ]\n");
    }

    #[test]
    fn long_values_fit_the_terminal() {
        let check = |value: &str, columns: Option<usize>, expected: &str| {
            assert_eq!(fitted_value(value, 13, columns), expected, "{value} {columns:?}");
        };
        check("short", Some(40), "short");
        check(
            "{\"a\":[1,2],\"b\":\"one two three four five six\"}",
            None,
            "{\"a\":[1,2],\"b\":\"one two three four five six\"}",
        );
        check(
            "one two three four five six seven eight",
            Some(40),
            "one two three four five\n               six seven eight",
        );
        check(
            "{\"a\":[1,2],\"b\":\"one two three four five six\"}",
            Some(40),
            "{\n               \"a\": [\n                 1,\n                 2\n               ],\n               \
             \"b\": \"one two three\n                 four five six\"\n             }",
        );
    }

    #[test]
    fn failures_as_the_contract_sees_them() {
        let check = |value: Value, expected: &str| assert_eq!(failure(&value), expected);
        check(serde_json::json!({"code": "no_user", "declared": true}), "no_user, declared in the contract");
        check(
            serde_json::json!({"code": "undeclared_failure", "declared": false, "original": "x\u{1b}"}),
            "undeclared_failure: x\\u{1b} is not declared in the contract",
        );
        check(
            serde_json::json!({"code": "undeclared_failure", "declared": false, "original": null}),
            "undeclared_failure: not declared in the contract",
        );
    }

    #[test]
    fn json_is_indented_and_nothing_else() {
        let check = |json: &str, expected: &str| assert_eq!(indented(json), expected);
        check("{}", "{}");
        check("[ ]", "[]");
        check("12345678901234567890.10e3", "12345678901234567890.10e3");
        check("\"a,{\\\"b\\\\\"", "\"a,{\\\"b\\\\\"");
        check(
            "{\"a\":[1, 2.0],\"b\" : {\"c\":null}}",
            "{\n  \"a\": [\n    1,\n    2.0\n  ],\n  \"b\": {\n    \"c\": null\n  }\n}",
        );
        check("{\"cut", "{\"cut");
        check("plain, text", "plain, text");
    }
}
