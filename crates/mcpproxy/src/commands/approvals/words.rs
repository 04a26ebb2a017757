//! Formats fields of approval requests for people.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mcpproxy_core::{ApprovalState, RiskLevel};
use mcpproxy_gateway::SaidBy;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::terminal::output::line;
use crate::terminal::style::Tone;
use crate::terminal::time::local_time;

pub(super) const NONE: &str = "-";
const TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Returns a member as one escaped line, or a dash if it is missing.
pub(super) fn text(value: &Value, name: &str) -> String {
    crate::terminal::output::member(value, name)
}

pub(super) fn array<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn state(approval: &Value) -> Option<ApprovalState> {
    ApprovalState::parse(approval.get("state")?.as_str()?)
}

/// Returns an icon and a word.
pub(super) fn state_words(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending => "… pending",
        ApprovalState::Approved => "✓ approved",
        ApprovalState::Consumed => "✓ consumed",
        ApprovalState::Denied => "✗ denied",
        ApprovalState::Expired => "✗ expired",
        ApprovalState::Cancelled => "✗ cancelled",
    }
}

/// Returns an icon and a word for the risk level. A server's own risk level can raise the warning, never lower it.
pub(super) fn risk_words(approval: &Value) -> String {
    let given = approval.get("risk").and_then(Value::as_str);
    let is_claim = said_by(approval, "risk") == Some(SaidBy::Server);
    let words = level_words(given, is_claim);
    if said_by(approval, "risk") == Some(SaidBy::Draft) { format!("{words} (draft, not reviewed)") } else { words }
}

fn level_words(given: Option<&str>, is_claim: bool) -> String {
    match given.map(|risk| (RiskLevel::parse(risk), risk)) {
        Some((Some(RiskLevel::Low | RiskLevel::Medium), risk)) if is_claim => {
            format!("? unclassified (server says {risk})")
        }
        Some((Some(RiskLevel::High), _)) if is_claim => "▲ high (server says)".to_owned(),
        Some((Some(RiskLevel::Critical | RiskLevel::Forbidden), risk)) if is_claim => {
            format!("■ {risk} (server says)")
        }
        None => "? unclassified".to_owned(),
        Some((Some(RiskLevel::Low), _)) => "○ low".to_owned(),
        Some((Some(RiskLevel::Medium), _)) => "◆ medium".to_owned(),
        Some((Some(RiskLevel::High), _)) => "▲ high".to_owned(),
        Some((Some(RiskLevel::Critical | RiskLevel::Forbidden), risk)) => format!("■ {risk}"),
        Some((None, other)) => line(other),
    }
}

/// Returns the tone of the risk level. Without a level of the operator, the call needs attention.
pub(super) fn of_risk(approval: &Value) -> Tone {
    match approval.get("risk").and_then(Value::as_str).and_then(RiskLevel::parse) {
        Some(RiskLevel::High | RiskLevel::Critical | RiskLevel::Forbidden) => Tone::Bad,
        Some(RiskLevel::Low | RiskLevel::Medium) if said_by(approval, "risk") != Some(SaidBy::Server) => Tone::Plain,
        Some(RiskLevel::Low | RiskLevel::Medium) | None => Tone::Warning,
    }
}

/// Returns the source of a part of an approval request. An unknown source never counts as the operator.
pub(super) fn said_by(approval: &Value, name: &str) -> Option<SaidBy> {
    let word = approval.get(format!("{name}_said_by"))?.as_str()?;
    Some(SaidBy::parse(word).unwrap_or(SaidBy::Server))
}

pub(super) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Returns a time of the REST API in milliseconds.
pub(super) fn time_ms(value: &Value, name: &str) -> Option<i64> {
    let time: Timestamp = value.get(name)?.as_str()?.parse().ok()?;
    Some(time.as_millisecond())
}

/// Formats a time of the REST API in the local time zone.
pub(super) fn time(value: &Value, name: &str) -> String {
    time_ms(value, name).map_or(NONE.to_owned(), local_time)
}

/// Formats the time that is left, such as `9m` or `45s`. Returns a dash if none is left.
pub(super) fn left(until_ms: i64, now_ms: i64) -> String {
    match (until_ms - now_ms) / 1000 {
        ..=0 => NONE.to_owned(),
        seconds @ 1..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}

pub(super) fn query(path: &str, pairs: &[(&str, Option<&str>)]) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("{path}?{}", query.finish())
}

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: Option<SignedDuration> = text.parse().ok();
    let duration = span.and_then(|span| Duration::try_from(span).ok());
    duration
        .filter(|duration| *duration <= TIMEOUT_MAX)
        .ok_or_else(|| "expected a time such as 30s, 10m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left() {
        let check = |seconds: i64, expected: &str| assert_eq!(left(seconds * 1000, 0), expected, "{seconds}");
        check(-5, "-");
        check(0, "-");
        check(45, "45s");
        check(119, "119s");
        check(120, "2m");
        check(599, "9m");
        check(86_400, "24h");
    }

    #[test]
    fn levels_and_states() {
        let check = |risk: Value, expected: &str| assert_eq!(risk_words(&json!({"risk": risk})), expected);
        check(Value::Null, "? unclassified");
        check(json!("critical"), "■ critical");
        check(json!("new\u{1b}"), "new\\u{1b}");
        let claim = |risk: &str| risk_words(&json!({"risk": risk, "risk_said_by": "server"}));
        assert_eq!(claim("low"), "? unclassified (server says low)");
        assert_eq!(claim("critical"), "■ critical (server says)");
        let drafted = json!({"risk": "high", "risk_said_by": "draft"});
        assert_eq!(risk_words(&drafted), "▲ high (draft, not reviewed)");
        let words = ApprovalState::ALL.map(state_words).join(", ");
        assert_eq!(words, "… pending, ✓ approved, ✓ consumed, ✗ denied, ✗ expired, ✗ cancelled");
    }

    #[test]
    fn times_to_wait() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(parse_duration(text).ok(), seconds.map(Duration::from_secs), "{text}");
        };
        check("10m", Some(600));
        check("1h30m", Some(5400));
        check("0s", Some(0));
        check("-1s", None);
        check("8000h", None);
        check("soon", None);
        check("", None);
    }
}
