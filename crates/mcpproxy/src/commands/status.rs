//! `status`: one screen with what runs, what is wrong, and the next command.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::doctor::checks::{CHECKS, Finding, Outcome};
use super::doctor::facts::{Depth, Facts, GatewayFacts};
use crate::client::no_gateway;
use crate::client::state::state_word;
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, counted, line, tell};
use crate::terminal::size::prose_columns;
use crate::terminal::style::{Colours, Tone};
use crate::terminal::wrap::hanging;

/// Width of the names in the first column.
const LABELS: usize = 11;
const RUNNING: &str = "✓ running";
const STOPPED: &str = "✗ not running";
const NEXT: &str = "Next:";

/// Show what runs, what is wrong, and the next command
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy status
  mcpproxy status -o json

The exit code is 0 while a gateway runs, and 7 if none runs. `mcpproxy doctor` checks more.")]
pub(crate) struct Status {}

#[derive(Serialize)]
struct Report<'a> {
    running: bool,
    home: String,
    /// The answer of `GET /api/v1/status`.
    gateway: Option<&'a Value>,
    agents: Option<Agents>,
    users: Option<usize>,
    /// Users with a second factor. Only they can approve.
    approvers: Option<usize>,
    problems: Vec<Problem>,
    next: String,
}

#[derive(Serialize)]
struct Agents {
    /// Agents with a valid token.
    valid: usize,
    /// Agents with a valid token that was never used.
    unused: usize,
}

#[derive(Serialize)]
struct Problem {
    code: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

impl Problem {
    /// Returns whether a gateway should not start before this is corrected. A misconfigured server beside a good one
    /// stops nothing.
    fn blocks_start(&self, facts: &Facts) -> bool {
        self.finding.result == Outcome::Error && !(self.code == "server_misconfigured" && facts.can_start)
    }
}

pub(crate) async fn run(home: &Home, format: Format) -> anyhow::Result<Exit> {
    let facts = Facts::collect(home, Depth::Summary).await;
    let report = report(&facts);
    format.print(&report, || text(&report, prose_columns(), Colours::of(&std::io::stdout())))?;
    if report.running {
        return Ok(Exit::Done);
    }
    if let Err(error) = &facts.gateway {
        tell(&format!("error: The gateway does not answer: {}", line(error)));
        return Ok(Exit::Failed);
    }
    // Starting a gateway is no use before these errors are corrected.
    let is_blocked = report.problems.iter().any(|problem| problem.blocks_start(&facts));
    Err(if is_blocked { no_gateway(home).hint(&report.next) } else { no_gateway(home) }.into())
}

fn report(facts: &Facts) -> Report<'_> {
    let mut problems: Vec<Problem> = Vec::new();
    for check in CHECKS.iter().filter(|check| check.is_in_status) {
        let findings = (check.run)(facts).into_iter().filter(|finding| finding.result >= Outcome::Warning);
        problems.extend(findings.map(|finding| Problem { code: check.code, finding }));
    }
    let gateway = facts.gateway.as_ref().ok().and_then(Option::as_ref);
    let storage = facts.storage.facts();
    let agents = storage.map(|storage| {
        let valid: Vec<_> = storage.tokens.iter().filter(|token| token.revoked_ms.is_none()).collect();
        Agents { valid: valid.len(), unused: valid.iter().filter(|token| token.last_used_ms.is_none()).count() }
    });
    Report {
        running: gateway.is_some(),
        home: facts.home.folder().display().to_string(),
        gateway: gateway.map(|gateway| &gateway.status),
        agents,
        users: storage.map(|storage| storage.users),
        approvers: storage.map(|storage| storage.approvers),
        next: next(facts, gateway, &problems),
        problems,
    }
}

/// Chooses the one step that helps most now: the first error, then approval requests, then the first warning. If only
/// single servers have mistakes, a stopped gateway comes first, because it runs the others.
fn next(facts: &Facts, gateway: Option<&GatewayFacts>, problems: &[Problem]) -> String {
    let command = |rest: &str| facts.command(rest);
    let first = |result: Outcome| problems.iter().find(|problem| problem.finding.result == result);
    let should_start = matches!(facts.gateway, Ok(None)) && !problems.iter().any(|problem| problem.blocks_start(facts));
    if let Some(error) = first(Outcome::Error).filter(|_| !should_start) {
        // `config check` lists all mistakes at once, with their positions.
        let is_in_files = ["settings_invalid", "settings_refused"].contains(&error.code);
        return error.finding.next.clone().filter(|_| !is_in_files).unwrap_or_else(|| command("config check"));
    }
    let Some(gateway) = gateway else {
        return match &facts.gateway {
            Ok(_) => command("serve"),
            Err(_) => command("doctor"),
        };
    };
    let number = |pointer: &str| gateway.status.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    if number("/approvals/waiting") > 0 {
        command("approvals list")
    } else if let Some(next) = first(Outcome::Warning).and_then(|warning| warning.finding.next.clone()) {
        next
    } else if number("/tools") == 0 {
        command("servers add NAME -- COMMAND")
    } else {
        command("tools list")
    }
}

fn text(report: &Report<'_>, room: usize, colours: Colours) -> String {
    let mut text = String::new();
    let mut row = |label: &str, value: &str| {
        let label = colours.paint(Tone::Dim, &format!("{label:<LABELS$}"));
        text.push_str(&format!("{label}{}\n", hanging(value, room, LABELS)));
    };
    match report.gateway {
        Some(status) => {
            row("Gateway", &format!("{RUNNING} {}", gateway_words(status)));
            row("Settings", &settings_words(status));
            row("Servers", &server_words(status));
            row("Approvals", &approval_words(status));
            row("Reviews", &review_words(status));
            row("Search", &search_words(status));
            row("Log", &log_words(status));
            if let Some(words) = cluster_words(status) {
                row("Gateways", &words);
            }
            let page = status.get("ui_url").and_then(Value::as_str).unwrap_or("-");
            row("Console", &line(page));
        }
        None => {
            row("Gateway", STOPPED);
            row("Data", &report.home);
        }
    }
    if let Some(agents) = &report.agents {
        let unused = if agents.unused > 0 { format!(", {} never used", agents.unused) } else { String::new() };
        row("Agents", &format!("{}{unused}", counted(agents.valid, "valid token")));
    }
    if let (Some(users), Some(approvers)) = (report.users, report.approvers) {
        row("Users", &user_words(users, approvers));
    }
    for problem in &report.problems {
        let finding = &problem.finding;
        let subject = finding.subject.as_ref().map(|subject| format!(" {subject}")).unwrap_or_default();
        let mark = colours.paint(finding.result.tone(), finding.result.words());
        let name = hanging(&format!("{}{subject}", problem.code), room, 2);
        text.push_str(&format!("\n{mark} {name}\n"));
        text.push_str(&format!("  {}\n", hanging(&finding.message, room, 2)));
        if let Some(next) = &finding.next {
            text.push_str(&format!("  next: {}\n", hanging(next, room.saturating_sub(6), 2)));
        }
    }
    // Colours come last, because they would count as columns.
    let text = text.replacen(RUNNING, &colours.paint(Tone::Good, RUNNING), 1);
    let text = text.replacen(STOPPED, &colours.paint(Tone::Warning, STOPPED), 1);
    // A command stays on one line, so that it can be copied.
    let is_command = report.next.starts_with("mcpproxy ");
    let next = if is_command { report.next.clone() } else { hanging(&report.next, room, NEXT.len() + 1) };
    format!("{text}\n{} {}\n", colours.paint(Tone::Dim, NEXT), colours.paint(Tone::Strong, &next))
}

fn user_words(users: usize, approvers: usize) -> String {
    match (users, approvers) {
        (0, _) => "none, so nobody can approve calls".to_owned(),
        (_, 0) => format!("{}, none with a second factor, so nobody can approve calls", counted(users, "user")),
        (_, _) => format!("{}, {approvers} can approve calls", counted(users, "user")),
    }
}

fn gateway_words(status: &Value) -> String {
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or("-");
    let pid = status.get("pid").and_then(Value::as_u64).unwrap_or_default();
    let uptime_ms = status.get("uptime_ms").and_then(Value::as_u64).unwrap_or_default();
    // Plain HTTP is only for this machine, so that the address alone says enough.
    let scheme = if status.get("tls").is_some_and(Value::is_object) { "https://" } else { "" };
    let (version, address) = (line(text("version")), line(text("address")));
    format!("version {version} on {scheme}{address}, pid {pid}, for {}", span(uptime_ms / 1000))
}

/// Formats a time span: `45 s`, `12 min`, `3 h`, `2 d`.
fn span(seconds: u64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn settings_words(status: &Value) -> String {
    let path = status.pointer("/settings/path").and_then(Value::as_str).unwrap_or("-");
    match status.pointer("/settings/exists").and_then(Value::as_bool) {
        Some(false) => format!("none ({}), so the demo server runs", line(path)),
        Some(true) | None => match status.pointer("/settings/version").and_then(Value::as_u64) {
            None => line(path),
            Some(0) => format!("{}, and nothing is published in the database yet", line(path)),
            Some(version) => format!("{}, and version {version} in the database", line(path)),
        },
    }
}

fn server_words(status: &Value) -> String {
    let counts = status.get("servers").and_then(Value::as_object);
    let states = counts.into_iter().flatten().filter_map(|(state, count)| Some((state, count.as_u64()?)));
    let states: Vec<String> =
        states.filter(|(_, count)| *count > 0).map(|(state, count)| format!("{count} {}", state_word(state))).collect();
    let tools = status.get("tools").and_then(Value::as_u64).unwrap_or_default();
    let tools = counted(usize::try_from(tools).unwrap_or(usize::MAX), "tool");
    if states.is_empty() { "none".to_owned() } else { format!("{}, {tools}", states.join(", ")) }
}

fn approval_words(status: &Value) -> String {
    match status.pointer("/approvals/waiting").and_then(Value::as_u64) {
        None => "unknown".to_owned(),
        Some(0) => "none waiting".to_owned(),
        Some(waiting) => format!("{waiting} waiting"),
    }
}

/// Counts definitions that agents do not see. A rejected definition stays hidden and waits for nobody.
fn review_words(status: &Value) -> String {
    let count = |name: &str| status.get(name).and_then(Value::as_u64);
    let (Some(waiting), Some(hidden)) = (count("to_review"), count("quarantined")) else { return "unknown".to_owned() };
    let waits = if waiting == 0 { "none waiting".to_owned() } else { format!("{waiting} waiting") };
    match hidden.saturating_sub(waiting) {
        0 => waits,
        rejected => format!("{waits}, {rejected} rejected"),
    }
}

/// Counts the gateways that share the database. A gateway with a database of its own has no such row.
fn cluster_words(status: &Value) -> Option<String> {
    let cluster = status.get("cluster").filter(|cluster| cluster.get("shared") == Some(&Value::Bool(true)))?;
    let count = |name: &str| cluster.get(name).and_then(Value::as_u64).unwrap_or_default();
    let lost = if count("lost") > 0 { format!(", {} lost", count("lost")) } else { String::new() };
    let differ = cluster.get("drift").and_then(Value::as_array).is_some_and(|drift| !drift.is_empty());
    let differ = if differ { ", not all the same" } else { "" };
    Some(format!("{} running{lost}{differ}", count("running")))
}

/// Says whether tools are compared with the encoder, and how many are encoded.
fn search_words(status: &Value) -> String {
    let count = |name: &str| status.pointer(&format!("/encoder/{name}")).and_then(Value::as_u64);
    match (count("encoded"), count("tools")) {
        (Some(encoded), Some(tools)) if encoded < tools => {
            format!("encoder, {encoded} of {tools} tools encoded, the others by the table of word meanings")
        }
        (Some(encoded), Some(_)) => {
            format!("encoder, {} encoded", counted(usize::try_from(encoded).unwrap_or(usize::MAX), "tool"))
        }
        (_, _) => "table of word meanings, because `search.encoder` is `off`".to_owned(),
    }
}

fn log_words(status: &Value) -> String {
    match status.pointer("/log/reason").and_then(Value::as_str) {
        None => "✓ writable".to_owned(),
        Some(_) => "✗ not writable, so no call is sent".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews() {
        let check = |waiting: u64, hidden: u64, expected: &str| {
            assert_eq!(review_words(&serde_json::json!({"to_review": waiting, "quarantined": hidden})), expected);
        };
        check(0, 0, "none waiting");
        check(3, 3, "3 waiting");
        check(0, 2, "none waiting, 2 rejected");
        check(3, 4, "3 waiting, 1 rejected");
    }

    #[test]
    fn encoders() {
        let check = |encoder: Value, expected: &str| {
            assert_eq!(search_words(&serde_json::json!({"encoder": encoder})), expected);
        };
        check(serde_json::json!({"encoded": 9, "tools": 9}), "encoder, 9 tools encoded");
        check(
            serde_json::json!({"encoded": 3, "tools": 9}),
            "encoder, 3 of 9 tools encoded, the others by the table of word meanings",
        );
        check(Value::Null, "table of word meanings, because `search.encoder` is `off`");
    }

    #[test]
    fn gateways() {
        let check = |cluster: Value, expected: Option<&str>| {
            assert_eq!(cluster_words(&serde_json::json!({"cluster": cluster})).as_deref(), expected);
        };
        check(Value::Null, None);
        check(serde_json::json!({"shared": false, "running": 1, "lost": 0, "drift": []}), None);
        check(serde_json::json!({"shared": true, "running": 3, "lost": 0, "drift": []}), Some("3 running"));
        let both = Some("2 running, 1 lost, not all the same");
        check(serde_json::json!({"shared": true, "running": 2, "lost": 1, "drift": [{}]}), both);
    }

    #[test]
    fn spans() {
        let check = |seconds: u64, expected: &str| assert_eq!(span(seconds), expected);
        check(0, "0 s");
        check(119, "119 s");
        check(120, "2 min");
        check(7200, "2 h");
        check(200_000, "2 d");
    }
}
