//! Formats an approval request as a page of text: everything that helps a user to decide.

use mcpproxy_core::json::{quote, string_value};
use mcpproxy_core::{ApprovalState, Assurance, canonical};
use mcpproxy_gateway::SaidBy;
use serde_json::Value;
use serde_json::value::RawValue;

use super::raw;
use super::view::View;
use super::words::{NONE, array, left, risk_words, said_by, state, state_words, text as member, time, time_ms};
use crate::commands::activity::indented;
use crate::terminal::output::{line, lines};

const NAME_CHARS: usize = 11;

/// Formats the request in the order of the approval page. Each part names its source.
pub(super) fn text(whole: &View, now_ms: i64) -> String {
    let view = &whole.value;
    let mut out = String::new();
    facts(&mut out, view, now_ms);
    said(&mut out, view, SaidBy::Operator, "What happens, according to the operator");
    said(&mut out, view, SaidBy::Draft, "What happens, according to a draft (not reviewed)");
    said(&mut out, view, SaidBy::Server, "What the server says (not verified)");
    let exact = whole.exact();
    dry_run(&mut out, view, exact.dry_run.as_ref());
    arguments(&mut out, view, &exact);
    attached(&mut out, exact.attached.as_deref());
    section(&mut out, "What the agent says (not verified)", &words_of_agent(view));
    section(&mut out, "Why approval is required", &list(view, "asked_by"));
    out
}

fn facts(out: &mut String, view: &Value, now_ms: i64) {
    let state = state(view);
    let factor = if view.get("needs_step_up") == Some(&Value::Bool(true)) { ", requires a second factor" } else { "" };
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
        ("Agent", member(view, "agent")),
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
    match view.get("given").and_then(Value::as_str).and_then(Assurance::parse) {
        None => "",
        Some(Assurance::Form) => ", in the agent's client",
        Some(Assurance::Session) => ", signed in",
        Some(Assurance::Factor) => ", with a second factor",
    }
}

fn said(out: &mut String, view: &Value, who: SaidBy, heading: &str) {
    let is_theirs = |name: &str| said_by(view, name).unwrap_or(SaidBy::Server) == who;
    let list = |name: &str| if is_theirs(name) { list(view, name) } else { Vec::new() };
    let one = |name: &str| view.get(name).and_then(Value::as_str).filter(|_| is_theirs(name));
    let description = one("description").map(lines).unwrap_or_default();
    let mut rows: Vec<String> = description.lines().map(str::to_owned).collect();
    rows.extend(list("side_effects").into_iter().map(|effect| format!("• {effect}")));
    rows.extend(one("audit_event").map(|event| format!("Audit event: {}", line(event))));
    let permissions = list("permissions");
    if !permissions.is_empty() {
        rows.push(format!("Permissions: {}", permissions.join(", ")));
    }
    section(out, heading, &rows);
}

fn words_of_agent(view: &Value) -> Vec<String> {
    let words = [("Reason", "reason"), ("Data sensitivity", "sensitivity"), ("Client name", "client")];
    let words = words.map(|(name, member)| (name, self::member(view, member)));
    words.into_iter().filter(|(_, word)| word != NONE).map(|(name, word)| format!("{name}: {word}")).collect()
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

/// Lists the arguments and marks those that differ from the last approved call. If there are too many to list one by
/// one, the whole JSON follows.
fn arguments(out: &mut String, view: &Value, exact: &raw::Exact) {
    let heading = match member(view, "previous").as_str() {
        NONE => "Arguments (no earlier call of this agent to compare with)".to_owned(),
        previous => format!("Arguments, compared with the last approved call ({previous})"),
    };
    let is_masked = view.get("masked") != Some(&Value::Bool(false));
    let rows: Vec<String> = exact.changes.iter().map(|change| row(change, is_masked)).collect();
    section(out, &heading, &rows);
    let left_out = view.get("changes_left_out").and_then(Value::as_u64).unwrap_or_default();
    if let Some(all) = exact.arguments.as_ref().filter(|_| left_out > 0) {
        let all = lines(&indented(all.get()));
        let rows: Vec<String> = all.lines().map(str::to_owned).collect();
        section(out, &format!("All arguments ({left_out} values are not in the list above)"), &rows);
    }
}

fn row(change: &raw::Change, is_masked: bool) -> String {
    let place = if change.pointer.is_empty() { "all".to_owned() } else { line(&change.pointer) };
    let value = |value: &Option<Box<RawValue>>| shown(value.as_ref().map_or("null", |value| value.get()));
    let (before, after) = (value(&change.before), value(&change.after));
    match change.change.as_str() {
        "added" => format!("+ {place}: {after}"),
        "removed" => format!("- {place}: {before}"),
        "changed" if change.hidden && is_masked => {
            format!("~ {place}: {after} (hidden; differs from the last approved call)")
        }
        "changed" if change.hidden => {
            format!("~ {place}: {after} (differs from the last approved call, whose value is not stored)")
        }
        "changed" => format!("~ {place}: {before} → {after}"),
        "unknown" => format!("? {place}: {after} (hidden; may differ from the last approved call)"),
        _ => format!("  {place}: {after}"),
    }
}

/// Lists the answers to the server's prompts, and everything else that the agent sends with the call.
fn attached(out: &mut String, exact: Option<&RawValue>) {
    let Some(exact) = exact else { return };
    let rows: Vec<String> = lines(&indented(&canonical(exact.get()))).lines().map(str::to_owned).collect();
    section(out, "Also sent to the server (inputResponses answer prompts of the server)", &rows);
}

/// Removes unnecessary escapes: `\u0061` reads as `a`, so that escapes cannot hide text.
fn shown(value: &str) -> String {
    line(&string_value(value).map_or_else(|| value.to_owned(), |text| quote(&text)))
}

fn dry_run(out: &mut String, view: &Value, exact: Option<&raw::DryRun>) {
    let Some(exact) = exact else { return };
    let time = view.get("dry_run").map_or(NONE.to_owned(), |dry_run| time(dry_run, "time"));
    let by = match (exact.native, said_by(view, "side_effects")) {
        (true, _) => "by the server (not verified)",
        (false, Some(SaidBy::Server)) => "made from the server's contract (not verified)",
        (false, Some(SaidBy::Draft)) => "made from a draft contract (not reviewed)",
        (false, Some(SaidBy::Operator) | None) => "made from the contract",
    };
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
            "tool": "mail:send_external", "risk": "critical", "risk_said_by": "operator", "call_with": "call_tool_destructive", "least": "factor",
            "needs_step_up": true, "created": "1970-01-01T00:00:00Z", "expires": "1970-01-01T00:10:00Z", "decided": null,
            "decided_by": null, "given": null, "comment": null, "record": null, "consumed": null,
            "url": "http://localhost:8080/ui/approvals/01HF7YAT00ZZZZZZZZZZZZZZZZ",
            "description": "Sends an e-mail.\nTo anybody.", "description_said_by": "server",
            "side_effects": ["An e-mail leaves."], "side_effects_said_by": "operator", "audit_event": null,
            "permissions": ["emails:send"], "permissions_said_by": "operator", "asked_by": ["contract risk level critical (contracts/mail.yaml:12)"],
            "reason": "She asked\u202e\nfor it", "sensitivity": "private", "arguments": {}, "arguments_sha256": "00",
            "previous": "01HF7YAS00ZZZZZZZZZZZZZZZZ", "changes": [
                {"pointer": "to/0", "change": "unchanged", "before": null, "after": "anna@example.com"},
                {"pointer": "to/1", "change": "added", "before": null, "after": "\u0065ve\u202e@example.com"},
                {"pointer": "cc", "change": "removed", "before": null, "after": null},
                {"pointer": "bcc/0", "change": "changed", "hidden": true, "before": null, "after": "***"},
                {"pointer": "bcc/1", "change": "unknown", "hidden": true, "before": null, "after": "***"},
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
Risk         ■ critical, requires a second factor
Tool         mail:send_external
Call with    call_tool_destructive
Agent        local
Asked        CREATED
Expires      EXPIRES (9m left)
Page         http://localhost:8080/ui/approvals/01HF7YAT00ZZZZZZZZZZZZZZZZ

What happens, according to the operator
  • An e-mail leaves.
  Permissions: emails:send

What the server says (not verified)
  Sends an e-mail.
  To anybody.

Dry run, by the server (not verified), TRIED
  {
    \"wouldSend\": 2.50
  }

Arguments, compared with the last approved call (01HF7YAS00ZZZZZZZZZZZZZZZZ)
    to/0: \"anna@example.com\"
  + to/1: \"eve\\u{202e}@example.com\"
  - cc: null
  ~ bcc/0: \"***\" (hidden; differs from the last approved call)
  ? bcc/1: \"***\" (hidden; may differ from the last approved call)
  ~ amount: 1.0 → 12345678901234567890.10

Also sent to the server (inputResponses answer prompts of the server)
  {
    \"inputResponses\": {
      \"sure\": \"y\\u{202e}s\"
    },
    \"n\": 1.0
  }

What the agent says (not verified)
  Reason: She asked\\u{202e}\\nfor it
  Data sensitivity: private
  Client name: cursor\\u{1b} 1.2

Why approval is required
  contract risk level critical (contracts/mail.yaml:12)
"
        );
    }

    #[test]
    fn a_draft_is_not_the_operators_word() {
        let drafted = view(
            r#"{"id": "01", "state": "pending", "agent": "local", "tool": "a:b", "risk": "high", "risk_said_by": "draft",
            "side_effects": ["A mail leaves."], "side_effects_said_by": "draft", "permissions": ["emails:send"],
            "permissions_said_by": "draft", "changes": [],
            "dry_run": {"native": false, "time": "1970-01-01T00:01:00Z", "preview": {}}}"#,
        );
        let shown = text(&drafted, 0);
        for expected in [
            "Risk         ▲ high (draft, not reviewed)\n",
            "What happens, according to a draft (not reviewed)\n  • A mail leaves.\n  Permissions: emails:send\n",
            "Dry run, made from a draft contract (not reviewed), ",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(!shown.contains("according to the operator"), "{shown}");
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
        assert!(shown.contains(", with a second factor\nCall         mcpproxy activity show 01R\n"), "{shown}");
    }
}
