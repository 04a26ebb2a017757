//! Records as people and as programs see them.

use mcpproxy_core::{Untrusted, Variant};
use mcpproxy_store::{Kind, Page, Record};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::local_time;
use crate::commands::token::universal_time;
use crate::output::{self, lines, member};

/// Enough of a ULID to tell records apart that were made in the same millisecond.
const ID_CHARS: usize = 14;
/// So wide that the sections of a record line up.
const NAME_CHARS: usize = 11;
const NONE: &str = "-";

#[derive(Serialize)]
pub(super) struct Activities {
    activities: Vec<Activity>,
    next: Option<String>,
}

#[derive(Serialize)]
struct Activity {
    id: String,
    time: String,
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    agent: Option<String>,
    client: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    intent_type: Option<&'static str>,
    code: Option<String>,
    message: Option<String>,
    duration_ms: Option<f64>,
    metadata: Box<RawValue>,
}

#[derive(Serialize)]
pub(super) struct Whole {
    #[serde(flatten)]
    activity: Activity,
    arguments: Option<Box<RawValue>>,
    arguments_bytes: Option<u64>,
    result: Option<Box<RawValue>>,
    result_bytes: Option<u64>,
}

pub(super) fn page(page: &Page) -> Activities {
    Activities { activities: page.records.iter().map(activity).collect(), next: page.next.map(|next| next.to_string()) }
}

pub(super) fn whole(record: &Record) -> Whole {
    Whole {
        activity: activity(record),
        arguments: record.args.as_ref().map(json),
        arguments_bytes: record.args_bytes,
        result: record.result.as_ref().map(json),
        result_bytes: record.result_bytes,
    }
}

fn activity(record: &Record) -> Activity {
    let text = |text: &Option<Untrusted>| text.as_ref().map(|text| text.for_json().to_owned());
    Activity {
        id: record.id.to_string(),
        time: universal_time(record.time_ms),
        kind: record.kind.as_str(),
        status: record.status.as_str(),
        agent: record.agent.clone(),
        client: text(&record.client),
        server: text(&record.server),
        tool: text(&record.tool),
        intent_type: record.intent_type.map(Variant::operation),
        code: text(&record.code),
        message: text(&record.message),
        duration_ms: record.duration_us.map(milliseconds),
        metadata: json(&record.metadata),
    }
}

/// JSON as it was recorded, digit for digit; text that was cut, and so is no JSON any more, is text.
fn json(text: &Untrusted) -> Box<RawValue> {
    RawValue::from_string(text.for_json().to_owned())
        .or_else(|_| to_raw_value(text.for_json()))
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
}

pub(super) fn table(records: &[Record]) -> String {
    if records.is_empty() {
        return "no records\n".to_owned();
    }
    let rows = records.iter().map(|record| {
        vec![
            record.id.to_string().chars().take(ID_CHARS).collect(),
            local_time(record.time_ms),
            word(&record.server),
            subject(record),
            record.intent_type.map_or(NONE.to_owned(), intent),
            record.status.as_str().to_owned(),
            record.duration_us.map_or(NONE.to_owned(), duration),
        ]
    });
    output::table(&["ID", "TIME", "SERVER", "TOOL", "INTENT", "STATUS", "DURATION"], rows)
}

/// The tool, or in its place what else a record is about.
fn subject(record: &Record) -> String {
    match record.kind {
        Kind::Call | Kind::Refusal => word(&record.tool),
        Kind::Server | Kind::Settings | Kind::Auth => format!("({})", record.kind.as_str()),
    }
}

/// One record as a page of text: facts, intent, arguments, result.
pub(super) fn text(record: &Record) -> String {
    let client = record.client.as_ref().map(|client| format!(" ({})", client.for_terminal())).unwrap_or_default();
    let mut out = String::new();
    section(
        &mut out,
        None,
        &[
            ("Id", record.id.to_string()),
            ("Time", local_time(record.time_ms)),
            ("Type", record.kind.as_str().to_owned()),
            ("Status", record.status.as_str().to_owned()),
            ("Agent", format!("{}{client}", record.agent.as_deref().unwrap_or(NONE))),
            ("Server", word(&record.server)),
            ("Tool", word(&record.tool)),
            ("Duration", record.duration_us.map_or(NONE.to_owned(), duration)),
            ("Code", word(&record.code)),
            ("Message", word(&record.message)),
        ],
    );
    let metadata: Value = serde_json::from_str(record.metadata.for_json()).unwrap_or_default();
    let declared = metadata.get("intent").unwrap_or(&Value::Null);
    section(
        &mut out,
        Some("Intent"),
        &[
            ("Operation", record.intent_type.map_or(NONE.to_owned(), intent)),
            ("Called with", member(&metadata, "tool_variant")),
            ("Sensitivity", member(declared, "data_sensitivity")),
            ("Reason", member(declared, "reason")),
        ],
    );
    let rest = metadata.as_object().into_iter().flatten();
    let rest: Vec<(&str, String)> = rest
        .filter(|(name, _)| !matches!(name.as_str(), "intent" | "tool_variant"))
        .map(|(name, _)| (name.as_str(), member(&metadata, name)))
        .collect();
    section(&mut out, Some("Notes"), &rest);
    payload(&mut out, "Arguments", record.args.as_ref(), record.args_bytes);
    payload(&mut out, "Result", record.result.as_ref(), record.result_bytes);
    out
}

/// A heading and its facts; those that say nothing are left out.
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
    for (name, value) in facts {
        out.push_str(&format!("{indent}{:<width$}  {value}\n", output::line(name)));
    }
}

fn payload(out: &mut String, heading: &str, text: Option<&Untrusted>, bytes: Option<u64>) {
    let Some(text) = text else { return };
    let kept = text.for_json();
    let cut = match bytes {
        Some(bytes) if bytes > kept.len() as u64 => format!(", of which {} are kept", kept.len()),
        _ => String::new(),
    };
    out.push_str(&format!("\n{heading} ({} bytes{cut})\n", bytes.unwrap_or(kept.len() as u64)));
    for line in lines(kept).lines() {
        out.push_str(&format!("  {line}\n"));
    }
}

/// An icon and a word: neither colour nor shape alone may carry it.
fn intent(variant: Variant) -> String {
    match variant {
        Variant::Read => "○ read",
        Variant::Write => "✎ write",
        Variant::Destructive => "✖ destructive",
    }
    .to_owned()
}

fn word(text: &Option<Untrusted>) -> String {
    text.as_ref().map_or(NONE.to_owned(), |text| text.for_terminal().into_owned())
}

#[expect(clippy::cast_precision_loss, reason = "a duration of more than 142 years may lose its last microsecond")]
fn milliseconds(duration_us: u64) -> f64 {
    duration_us as f64 / 1000.0
}

fn duration(duration_us: u64) -> String {
    match duration_us {
        ..10_000 => format!("{:.1}ms", milliseconds(duration_us)),
        10_000..10_000_000 => format!("{:.0}ms", milliseconds(duration_us)),
        _ => format!("{:.1}s", milliseconds(duration_us) / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |duration_us: u64, expected: &str| assert_eq!(duration(duration_us), expected);
        check(90, "0.1ms");
        check(1_234, "1.2ms");
        check(245_300, "245ms");
        check(12_340_000, "12.3s");
    }
}
