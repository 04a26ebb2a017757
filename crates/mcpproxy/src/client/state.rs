//! Words the state of the running gateway for commands: one server after a change, and what is wrong with all of them.

use http::Method;
use serde_json::Value;

use super::Rest;
use crate::home::Home;
use crate::operator_files::CONTRACTS;
use crate::terminal::output::{self, counted, counted_as, line, member};
use crate::terminal::shell::plain_word;

/// Servers that one warning names.
const NAMED_MAX: usize = 3;

/// Prints a warning on standard error if something is wrong with the gateway. Commands that list things end with it.
pub(crate) async fn warn(home: &Home, rest: &Rest) {
    // The list itself was printed. A status that cannot be read is no reason to fail.
    let Ok(status) = rest.ask(Method::GET, "/api/v1/status").await else { return };
    let problems = problems(&status);
    if !problems.is_empty() {
        output::warn(&format!("{}. Run `{}`.", problems.join(". "), home.command("mcpproxy", "status")));
    }
}

/// Lists what is wrong according to `GET /api/v1/status`, each in a few words and without a full stop. `status` has the
/// reasons and the next steps.
fn problems(status: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if status.pointer("/settings/error").is_some_and(Value::is_string) {
        problems.push("The newest settings are invalid and not in force".to_owned());
    }
    let unready = status.get("unready_servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let wrong: Vec<String> = unready.iter().filter(|server| is_wrong(server)).map(|s| member(s, "name")).collect();
    if !wrong.is_empty() {
        let named = wrong.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if wrong.len() > NAMED_MAX { ", …" } else { "" };
        problems.push(format!("{} not ready ({named}{more})", counted_as(wrong.len(), "server is", "servers are")));
    }
    if status.pointer("/log/reason").is_some_and(Value::is_string) {
        problems.push("The activity log cannot be written, so no call is sent".to_owned());
    }
    problems
}

/// Counts the changes of contracts, policies and settings that wait for a user, in `GET /api/v1/status`.
pub(crate) fn held_changes(status: &Value) -> usize {
    let Some(changes) = status.pointer("/settings/held/changes").and_then(Value::as_array) else { return 0 };
    let more = status.pointer("/settings/held/more").and_then(Value::as_u64).unwrap_or_default();
    changes.len().saturating_add(usize::try_from(more).unwrap_or(usize::MAX))
}

/// Asks a running gateway how many changes wait for a user. Returns 0 if none runs on the data folder, or if it does
/// not answer: for the commands that ask, this is only a note.
pub(crate) async fn held_now(home: &Home) -> usize {
    if !matches!(home.running(), Ok(Some(_))) {
        return 0;
    }
    let Ok(rest) = Rest::connect(home) else { return 0 };
    rest.ask(Method::GET, "/api/v1/status").await.map_or(0, |status| held_changes(&status))
}

/// Says that changes wait: `1 change waits for a user`.
pub(crate) fn held_words(count: usize) -> String {
    format!("{} for a user", counted_as(count, "change waits", "changes wait"))
}

/// Returns whether something is wrong with a server. A server that connects for the first time has no reason yet, and
/// nothing is wrong with it.
pub(crate) fn is_wrong(server: &Value) -> bool {
    match server.get("state").and_then(Value::as_str) {
        Some("ready" | "disabled") => false,
        Some("connecting") => server.get("reason").is_some_and(Value::is_string),
        Some(_) | None => true,
    }
}

/// Words a state of the REST API for people. A server between two attempts is `waiting` there, and counted as `failed`.
/// For people it is down, as in the messages of `serve` and in the code `server_down`.
pub(crate) fn state_word(state: &str) -> String {
    match state {
        "waiting" | "failed" => "down".to_owned(),
        "needs_sign_in" => "needs sign-in".to_owned(),
        other => line(other),
    }
}

/// Describes a server of `GET /api/v1/servers` or of a reload: its state, its tools, and the ones that nobody is asked
/// about.
pub(crate) fn describe(home: &Home, answer: &Value, name: &str) -> String {
    let servers = answer.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(server) = servers.iter().find(|server| member(server, "name") == name) else {
        return format!("The running gateway no longer has a server {name}.");
    };
    let reason = server.get("reason").and_then(Value::as_str).map(line);
    let hint = server.get("hint").and_then(Value::as_str).map(|hint| format!("\nhint: {}", line(hint)));
    let hint = hint.unwrap_or_default();
    match (state_word(&member(server, "state")).as_str(), reason) {
        ("ready", _) => {
            let waiting = waiting(home, server).map(|text| format!("\n{text}")).unwrap_or_default();
            ready(home, server, name) + &unannotated(home, server) + &waiting
        }
        ("disabled", _) => format!("{name} is disabled in the running gateway."),
        ("needs sign-in", Some(reason)) => format!("{name} needs a sign-in: {reason}{hint}"),
        (state, Some(reason)) => format!("{name} is {state}: {reason}{hint}"),
        (state, None) => {
            format!("{name} is {state}. Follow it with `{}`.", home.command("mcpproxy", "servers list"))
        }
    }
}

/// Returns true if a server of `GET /api/v1/servers` or of a reload is connected.
pub(crate) fn is_ready(answer: &Value, name: &str) -> bool {
    let mut servers = answer.get("servers").and_then(Value::as_array).into_iter().flatten();
    servers.any(|server| member(server, "name") == name && member(server, "state") == "ready")
}

/// Says how many definitions of a server wait for a review, and how to read them. Returns `None` if there are none.
pub(crate) fn waiting(home: &Home, server: &Value) -> Option<String> {
    let count = to_review(server);
    let (name, wait) = (server.get("name")?.as_str()?, counted_as(count, "definition waits", "definitions wait"));
    let command = home.command("mcpproxy", &format!("servers review {}", line(name)));
    (count > 0).then(|| format!("{wait} for review: {command}"))
}

/// Returns the number of definitions of a server that wait for a review.
pub(crate) fn to_review(server: &Value) -> usize {
    let count = server.get("to_review").and_then(Value::as_u64).unwrap_or_default();
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn ready(home: &Home, server: &Value, name: &str) -> String {
    let count = |member: &str| {
        usize::try_from(server.get(member).and_then(Value::as_u64).unwrap_or_default()).unwrap_or(usize::MAX)
    };
    let tools = counted(count("tools"), "tool");
    let (destructive, unasked) = (count("destructive_tools"), count("unasked_destructive_tools"));
    match (destructive, unasked) {
        (0, _) => format!("{name} is ready: {tools}."),
        (_, 0) => format!("{name} is ready: {tools}, {destructive} of them destructive."),
        (_, _) => {
            let those = match (destructive == unasked, unasked) {
                (true, 1) => format!("{destructive} of them destructive: nobody is asked before it runs"),
                (true, _) => format!("{destructive} of them destructive: nobody is asked before they run"),
                (false, 1) => format!("{destructive} of them destructive: for 1, nobody is asked before it runs"),
                (false, _) => {
                    format!("{destructive} of them destructive: for {unasked}, nobody is asked before they run")
                }
            };
            format!("{name} is ready: {tools}, {those}.\nTo change that, {}.", next_step(home, name))
        }
    }
}

/// Says that tools can be called as reads although nothing says that they only read, and how to require a write.
fn unannotated(home: &Home, server: &Value) -> String {
    let (tools, them) = match server.get("unannotated_tools").and_then(Value::as_u64).unwrap_or_default() {
        0 => return String::new(),
        1 => ("1 tool has".to_owned(), "it"),
        count => (format!("{count} tools have"), "them"),
    };
    format!(
        "\n{tools} no `readOnlyHint`, so agents can call {them} as reads. To require a write call, set\n  \
         \"intent_declaration\": {{ \"unannotated\": \"require_write\" }}\nin {}.",
        home.settings().display()
    )
}

/// Names the command that classifies the tools of a server, or the file that should.
pub(crate) fn next_step(home: &Home, name: &str) -> String {
    let file = CONTRACTS.beside(&home.settings()).join(format!("{name}.yaml"));
    if file.exists() {
        return format!("set `riskLevel: high` for them in {}", file.display());
    }
    let rest = format!("contract draft {name} --to {}", plain_word(&file.display().to_string()));
    format!("run `{}`", home.command("mcpproxy", &rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_wrong() {
        let server =
            |name: &str, state: &str, reason: Option<&str>| json!({"name": name, "state": state, "reason": reason});
        assert!(
            problems(&json!({"settings": {"error": null}, "unready_servers": [server("a", "connecting", None)]}))
                .is_empty()
        );
        let one = json!({"unready_servers": [server("a\u{1b}[2J", "waiting", Some("gone"))]});
        assert_eq!(problems(&one), ["1 server is not ready (a\\u{1b}[2J)"]);
        let status = json!({
            "settings": {"error": "mcp_config.json:1:2: bad.\nmcp_config.json:3:4: worse"},
            "unready_servers": [
                server("a", "misconfigured", Some("line 1, column 2: no")),
                server("b", "waiting", Some("gone")),
                server("c", "connecting", Some("gone.")),
                server("d", "waiting", Some("gone")),
            ],
            "log": {"state": "unavailable", "reason": "disk full"},
        });
        assert_eq!(
            problems(&status),
            [
                "The newest settings are invalid and not in force",
                "4 servers are not ready (a, b, c, …)",
                "The activity log cannot be written, so no call is sent",
            ]
        );
    }
}
