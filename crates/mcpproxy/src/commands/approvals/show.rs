//! One approval as a page of text: everything that helps a person to decide.

use mcpproxy_core::{ApprovalState, Given};
use serde_json::Value;
use serde_json::value::RawValue;

use super::raw;
use super::view::View;
use super::words::{NONE, array, left, risk_words, state, state_words, text as member, time, time_ms};
use crate::commands::activity::indented;
use crate::output::{line, lines};

const NAME_CHARS: usize = 11;
/// The gateway gives no more than so many values one by one.
const CHANGES_MAX: usize = 400;

pub(super) fn text(whole: &View, now_ms: i64) -> String {
    let view = &whole.value;
    let mut out = String::new();
    facts(&mut out, view, now_ms);
    section(&mut out, "What will happen", &happens(view));
    section(&mut out, "Who asks", &list(view, "asked_by"));
    section(&mut out, "Permissions", &list(view, "permissions"));
    let reason = member(view, "reason");
    if reason != NONE {
        section(&mut out, "Reason, as the agent gives it (not verified)", &[reason]);
    }
    let exact = whole.exact();
    arguments(&mut out, view, &exact.changes);
    attached(&mut out, exact.attached.as_deref());
    dry_run(&mut out, view, exact.dry_run.as_ref());
    out
}

fn facts(out: &mut String, view: &Value, now_ms: i64) {
    let client = member(view, "client");
    let client = if client == NONE { String::new() } else { format!(" ({client})") };
    let state = state(view);
    let factor = if view.get("needs_step_up") == Some(&Value::Bool(true)) { ", takes a fresh factor" } else { "" };
    let is_open = matches!(state, Some(ApprovalState::Pending | ApprovalState::Approved));
    let left = time_ms(view, "expires").filter(|_| is_open).map(|until| format!(" ({} left)", left(until, now_ms)));
    let record = member(view, "record");
    let decided = match member(view, "decided_by").as_str() {
        NONE => NONE.to_owned(),
        by => format!("by {by}, {}{}", time(view, "decided"), given(view)),
    };
    for (name, value) in [
        ("Id", member(view, "id")),
        ("State", state.map_or_else(|| member(view, "state"), |state| state_words(state).to_owned())),
        ("Risk", format!("{}{factor}", risk_words(view))),
        ("Tool", member(view, "tool")),
        ("Call with", member(view, "call_with")),
        ("Agent", format!("{}{client}", member(view, "agent"))),
        ("Sensitivity", member(view, "sensitivity")),
        ("Asked", time(view, "created")),
        ("Expires", time(view, "expires") + &left.unwrap_or_default()),
        ("Decided", decided),
        ("Comment", member(view, "comment")),
        ("Call", if record == NONE { record } else { format!("mcpproxy activity show {record}") }),
        ("Page", member(view, "url")),
    ] {
        if value != NONE {
            out.push_str(&format!("{name:<NAME_CHARS$}  {value}\n"));
        }
    }
}

fn given(view: &Value) -> &'static str {
    match view.get("given").and_then(Value::as_str).and_then(Given::parse) {
        None => "",
        Some(Given::Form) => ", in the agent's client",
        Some(Given::Session) => ", signed in",
        Some(Given::Factor) => ", with a fresh factor",
    }
}

fn happens(view: &Value) -> Vec<String> {
    let description = view.get("description").and_then(Value::as_str).map(lines).unwrap_or_default();
    let effects = list(view, "side_effects").into_iter().map(|effect| format!("• {effect}"));
    description.lines().map(str::to_owned).chain(effects).collect()
}

fn list(view: &Value, name: &str) -> Vec<String> {
    array(view, name).iter().filter_map(Value::as_str).map(line).collect()
}

fn section(out: &mut String, heading: &str, rows: &[String]) {
    if rows.is_empty() {
        return;
    }
    out.push_str(&format!("\n{heading}\n"));
    for row in rows {
        out.push_str(&format!("  {row}\n"));
    }
}

/// Each value, with a mark for what differs from the last call of this kind that was approved and made.
fn arguments(out: &mut String, view: &Value, changes: &[raw::Change]) {
    let heading = match member(view, "previous").as_str() {
        NONE => "Arguments (this agent had no such call approved before)".to_owned(),
        previous => format!("Arguments, with what changed since the last approved call ({previous})"),
    };
    let mut rows: Vec<String> = changes.iter().map(row).collect();
    if rows.len() >= CHANGES_MAX {
        rows.push("… and more; -o json has all of them".to_owned());
    }
    section(out, &heading, &rows);
}

fn row(change: &raw::Change) -> String {
    let place = if change.pointer.is_empty() { "all".to_owned() } else { line(&change.pointer) };
    let value = |value: &Option<Box<RawValue>>| line(value.as_ref().map_or("null", |value| value.get()));
    let (before, after) = (value(&change.before), value(&change.after));
    match change.change.as_str() {
        "added" => format!("+ {place}: {after}"),
        "removed" => format!("- {place}: {before}"),
        "changed" => format!("~ {place}: {before} → {after}"),
        _ => format!("  {place}: {after}"),
    }
}

/// Answers to questions of the server, and whatever else the agent sends with the call.
fn attached(out: &mut String, exact: Option<&RawValue>) {
    let Some(exact) = exact else { return };
    let rows: Vec<String> = lines(&indented(exact.get())).lines().map(str::to_owned).collect();
    section(out, "Sent besides the arguments (inputResponses are answers to questions of the server)", &rows);
}

fn dry_run(out: &mut String, view: &Value, exact: Option<&raw::DryRun>) {
    let Some(exact) = exact else { return };
    let time = view.get("dry_run").map_or(NONE.to_owned(), |dry_run| time(dry_run, "time"));
    let by = if exact.native { "made by the server" } else { "made from the contract" };
    let preview = lines(&indented(exact.preview.get()));
    let rows: Vec<String> = preview.lines().map(str::to_owned).collect();
    section(out, &format!("Dry run, {by}, {time}"), &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> View {
        View { value: serde_json::from_str(text).unwrap(), text: text.to_owned() }
    }

    #[test]
    fn everything_that_helps_to_decide() {
        let whole = view(
            r#"{"id": "01HF7YAT00ZZZZZZZZZZZZZZZZ", "state": "pending", "agent": "local", "client": "cursor\u001b 1.2",
            "tool": "mail:send_external", "risk": "critical", "call_with": "call_tool_destructive", "least": "factor",
            "needs_step_up": true, "created": "1970-01-01T00:00:00Z", "expires": "1970-01-01T00:10:00Z", "decided": null,
            "decided_by": null, "given": null, "comment": null, "record": null, "consumed": null,
            "url": "http://localhost:8080/ui/approvals/01HF7YAT00ZZZZZZZZZZZZZZZZ",
            "description": "Sends an e-mail.\nTo anybody.", "side_effects": ["An e-mail leaves."], "audit_event": null,
            "permissions": ["emails:send"], "asked_by": ["contract risk level critical (contracts/mail.yaml:12)"],
            "reason": "She asked\u202e\nfor it", "sensitivity": "private", "arguments": {}, "arguments_sha256": "00",
            "previous": "01HF7YAS00ZZZZZZZZZZZZZZZZ", "changes": [
                {"pointer": "to/0", "change": "unchanged", "before": null, "after": "anna@example.com"},
                {"pointer": "to/1", "change": "added", "before": null, "after": "eve\u202e@example.com"},
                {"pointer": "cc", "change": "removed", "before": null, "after": null},
                {"pointer": "amount", "change": "changed", "before": 1.0, "after": 12345678901234567890.10}],
            "attached": {"inputResponses": {"sure": "y\u202es"}, "n": 1.0},
            "dry_run": {"native": true, "time": "1970-01-01T00:01:00Z", "preview": {"wouldSend": 2.50}}}"#,
        );
        assert_eq!(
            text(&whole, 60_000)
                .replace(&time(&whole.value, "created"), "CREATED")
                .replace(&time(&whole.value, "expires"), "EXPIRES")
                .replace(&time(whole.value.get("dry_run").unwrap(), "time"), "TRIED"),
            "\
Id           01HF7YAT00ZZZZZZZZZZZZZZZZ
State        … pending
Risk         ■ critical, takes a fresh factor
Tool         mail:send_external
Call with    call_tool_destructive
Agent        local (cursor\\u{1b} 1.2)
Sensitivity  private
Asked        CREATED
Expires      EXPIRES (9m left)
Page         http://localhost:8080/ui/approvals/01HF7YAT00ZZZZZZZZZZZZZZZZ

What will happen
  Sends an e-mail.
  To anybody.
  • An e-mail leaves.

Who asks
  contract risk level critical (contracts/mail.yaml:12)

Permissions
  emails:send

Reason, as the agent gives it (not verified)
  She asked\\u{202e}\\nfor it

Arguments, with what changed since the last approved call (01HF7YAS00ZZZZZZZZZZZZZZZZ)
    to/0: \"anna@example.com\"
  + to/1: \"eve\\u202e@example.com\"
  - cc: null
  ~ amount: 1.0 → 12345678901234567890.10

Sent besides the arguments (inputResponses are answers to questions of the server)
  {
    \"inputResponses\": {
      \"sure\": \"y\\u202es\"
    },
    \"n\": 1.0
  }

Dry run, made by the server, TRIED
  {
    \"wouldSend\": 2.50
  }
"
        );
    }

    #[test]
    fn what_became_of_it() {
        let denied = view(
            r#"{"id": "01", "state": "denied", "agent": "local", "tool": "a:b", "risk": null, "decided_by": "anna",
            "decided": "1970-01-01T00:00:00Z", "comment": "no\u001b", "expires": "1970-01-01T00:00:00Z", "changes": []}"#,
        );
        let at = time(&denied.value, "decided");
        assert_eq!(
            text(&denied, 0).replace(&at, "THEN"),
            "Id           01\nState        ✗ denied\nRisk         ? unclassified\nTool         a:b\n\
             Agent        local\nExpires      THEN\nDecided      by anna, THEN\nComment      no\\u{1b}\n"
        );
        let used = view(
            r#"{"id": "01", "state": "consumed", "agent": "local", "tool": "a:b", "risk": "high", "decided_by": "anna",
            "decided": "1970-01-01T00:00:00Z", "given": "factor", "record": "01R", "changes": []}"#,
        );
        let shown = text(&used, 0);
        assert!(shown.contains(", with a fresh factor\nCall         mcpproxy activity show 01R\n"), "{shown}");
    }
}
