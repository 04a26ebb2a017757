//! Words for the parts of a record: status, intent, risk, duration, subject and reason.

use jiff::Timestamp;
use mcpproxy_core::{ErrorCode, Untrusted, Variant};
use mcpproxy_gateway::{SaidBy, StatedRisk};
use mcpproxy_store::{CallMark, Kind, Record, Status};
use serde_json::Value;

use super::bounded::line;
use super::{advice, events};
use crate::ui::pages::labels::{Risk, State};
use crate::visible::Visible;
use crate::wire::Activity;

/// Names are shown up to this length. The record page shows them in full.
pub(crate) const NAME_CHARS: usize = 80;
const REASON_CHARS: usize = 160;
/// A name, and words around it.
const SUBJECT_CHARS: usize = NAME_CHARS + 40;

/// The metadata of a record, from its start and its end.
pub(crate) fn metadata(record: &Record) -> Value {
    serde_json::from_str(Activity::from(record.clone()).metadata.get()).unwrap_or_default()
}

pub(crate) fn member<'m>(metadata: &'m Value, name: &str) -> Option<&'m str> {
    metadata.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

pub(crate) fn code(record: &Record) -> &str {
    record.code.as_ref().map_or("", Untrusted::for_json)
}

/// Returns the status with an icon. A dry run and a request for approval must not look like a call that ran.
pub(crate) fn status(record: &Record) -> State {
    let state = |class, word, icon| State { class, word, icon };
    if record.kind == Kind::Approval {
        match code(record) {
            "approval_requested" => return state("waiting", "Requested", "clock"),
            "approval_approved" => return state("ok", "Approved", "check"),
            "approval_denied" => return state("refused", "Denied", "x"),
            "approval_expired" => return state("cancelled", "Expired", "clock"),
            "approval_not_shown" => return state("error", "Not shown", "x"),
            "grant_created" => return state("ok", "Standing approval", "repeat"),
            "grant_revoked" => return state("cancelled", "Revoked", "ban"),
            _ => {}
        }
    }
    if matches!(record.kind, Kind::Server | Kind::Settings | Kind::Auth) {
        return events::status(record);
    }
    match (record.status, record.mark()) {
        (Status::Success, CallMark::DryRun) => state("dry", "Dry run", "low"),
        (Status::Success, CallMark::Replayed) => state("dry", "Repeated", "repeat"),
        (Status::Success, CallMark::Real) => state("ok", "Succeeded", "check"),
        (Status::Refused, _) if code(record) == ErrorCode::ConfirmationRequired.as_str() => {
            state("waiting", "Needs approval", "clock")
        }
        (Status::Refused, _) => state("refused", "Refused", "ban"),
        (Status::Error, CallMark::DryRun) => state("error", "Dry run failed", "x"),
        (Status::Error, _) => state("error", "Failed", "x"),
        (Status::Started, CallMark::DryRun) => state("waiting", "Dry run running", "clock"),
        (Status::Started, _) => state("waiting", "Running", "clock"),
        (Status::Cancelled, _) => state("cancelled", "Cancelled", "ban"),
        (Status::Interrupted, _) => state("error", "Unknown", "medium"),
    }
}

/// Returns the class of the colour for an intent.
pub(crate) fn fill(intent: Option<Variant>) -> &'static str {
    match intent {
        Some(Variant::Read) => "fill-read",
        Some(Variant::Write) => "fill-write",
        Some(Variant::Destructive) => "fill-destructive",
        None => "fill-other",
    }
}

/// Returns the risk of the tool, for records about calls.
pub(crate) fn risk(record: &Record, metadata: &Value) -> Option<Risk> {
    let is_about_a_call = matches!(record.kind, Kind::Call | Kind::Refusal | Kind::Approval) && record.tool.is_some();
    let said_by = member(metadata, "risk_said_by").and_then(SaidBy::parse);
    is_about_a_call.then(|| StatedRisk { risk: record.risk, said_by }.into())
}

pub(crate) fn duration(duration_us: u64) -> String {
    let tenths = |value: u64, unit: u64| (value * 10 + unit / 2) / unit;
    match duration_us {
        ..10_000 => decimal(tenths(duration_us, 1_000), "ms"),
        10_000..1_000_000 => format!("{} ms", (duration_us + 500) / 1_000),
        1_000_000..60_000_000 => decimal(tenths(duration_us, 1_000_000), "s"),
        _ => span(i64::try_from(duration_us / 1_000).unwrap_or(i64::MAX)),
    }
}

fn decimal(tenths: u64, unit: &str) -> String {
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Formats a time between two events: `3 s`, `4 min`, `2 h 5 min`.
pub(crate) fn span(ms: i64) -> String {
    match ms / 1_000 {
        0 => format!("{} ms", ms.max(0)),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => match seconds % 60 {
            0 => format!("{} min", seconds / 60),
            rest => format!("{} min {rest} s", seconds / 60),
        },
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Formats the time of a record in UTC, as the script formats it in the zone of the viewer.
pub(crate) fn clock(time_ms: i64, now_ms: i64) -> String {
    let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or_default();
    let is_same = |part: &str| at(time_ms).strftime(part).to_string() == at(now_ms).strftime(part).to_string();
    let format = match (is_same("%F"), is_same("%Y")) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%-d %b, %H:%M:%S",
        (false, false) => "%-d %b %Y, %H:%M:%S",
    };
    at(time_ms).strftime(format).to_string()
}

/// Returns `server:tool`, or the part of it that the record has.
pub(crate) fn tool_name(record: &Record) -> Option<String> {
    let text = |text: &Option<Untrusted>| text.as_ref().map(|text| text.for_json().to_owned());
    match (text(&record.server), text(&record.tool)) {
        (Some(server), Some(tool)) => Some(format!("{server}:{tool}")),
        (None, tool) => tool,
        (Some(_), None) => None,
    }
}

/// Returns the heading of a row: the tool, or what else the record is about.
pub(crate) fn subject(record: &Record, metadata: &Value) -> Visible {
    let tool = tool_name(record);
    line(&tool.unwrap_or_else(|| events::subject(record, metadata)), SUBJECT_CHARS)
}

/// Turns a code into words: `login_failed` becomes `Login failed`.
pub(crate) fn event(code: &str) -> String {
    let words = code.replace('_', " ");
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

pub(crate) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Call => "Call",
        Kind::Refusal => "Refused call",
        Kind::Approval => "Approval",
        Kind::Server => "Server",
        Kind::Settings => "Settings",
        Kind::Auth => "Sign-in and tokens",
    }
}

/// Returns true if the code is the gateway's own. A server's code may be spelled like one.
pub(crate) fn has_own_code(record: &Record, metadata: &Value) -> bool {
    let is_about_a_call = matches!(record.kind, Kind::Call | Kind::Refusal);
    is_about_a_call && metadata.get("failure").is_none()
}

/// A line under the heading of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) text: Visible,
    /// True if it is the agent's own reason, which nobody verified.
    pub(crate) is_said: bool,
}

/// Returns why a call was refused or failed. For any other call, the reason that the agent gave.
pub(crate) fn reason(record: &Record, metadata: &Value) -> Reason {
    let message = record.message.as_ref().map(Untrusted::for_json);
    let said = metadata.get("intent").and_then(|intent| member(intent, "reason"));
    let user = events::actor(record, metadata).or(member(metadata, "by"));
    let shown = |text: &str, is_said| Reason { text: line(text, REASON_CHARS), is_said };
    match (message, said, user) {
        (Some(message), ..) if has_own_code(record, metadata) => {
            shown(&advice::in_a_line(code(record), message), false)
        }
        (Some(message), ..) => shown(message, false),
        (None, Some(said), _) => shown(said, true),
        (None, None, Some(user)) => shown(&format!("by {user}"), false),
        (None, None, None) => Reason::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_spans() {
        let check = |duration_us: u64, expected: &str| assert_eq!(duration(duration_us), expected);
        check(90, "0.1 ms");
        check(1_234, "1.2 ms");
        check(245_300, "245 ms");
        check(1_240_000, "1.2 s");
        check(125_000_000, "2 min 5 s");
        let check = |ms: i64, expected: &str| assert_eq!(span(ms), expected);
        check(-4, "0 ms");
        check(999, "999 ms");
        check(60_000, "1 min");
        check(7_500_000, "2 h 5 min");
    }

    #[test]
    fn events_are_words() {
        assert_eq!((event("login_failed").as_str(), event("").as_str()), ("Login failed", ""));
    }
}
