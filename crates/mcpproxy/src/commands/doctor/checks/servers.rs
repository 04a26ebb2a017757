//! Checks of the servers behind the gateway.

use serde_json::Value;

use super::{Finding, NEEDS_SETTINGS, Outcome, about, found, ok, or_ok, skipped, text, with_gateway};
use crate::client::state;
use crate::commands::doctor::facts::{Facts, GatewayFacts};
use crate::terminal::output::{counted, counted_as, line, sentence};

/// Servers that one finding names.
const NAMED_MAX: usize = 3;

fn servers<'f>(gateway: &'f GatewayFacts, states: &[&str]) -> Vec<&'f Value> {
    let servers = gateway.servers.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let has_state = |server: &&Value| server.get("state").and_then(Value::as_str).is_some_and(|s| states.contains(&s));
    servers.iter().filter(has_state).collect()
}

pub(super) fn misconfigured(facts: &Facts) -> Vec<Finding> {
    let finding = |name: &str, reason: &str, hint: Option<&str>| {
        let next = hint.map_or_else(|| format!("correct `{}` in {}", line(name), facts.settings_path), line);
        about(name, found(Outcome::Error, line(reason), next))
    };
    let findings: Vec<Finding> = match &facts.gateway {
        // The gateway may have another environment, and its view decides what runs.
        Ok(Some(gateway)) => servers(gateway, &["misconfigured"])
            .into_iter()
            .map(|server| {
                let reason = text(server, "reason").unwrap_or("its settings have a mistake");
                finding(text(server, "name").unwrap_or_default(), reason, text(server, "hint"))
            })
            .collect(),
        Ok(None) | Err(_) if facts.settings.is_err() => return skipped(NEEDS_SETTINGS),
        Ok(None) | Err(_) => facts.misconfigured.iter().map(|(name, reason)| finding(name, reason, None)).collect(),
    };
    or_ok(findings, "the settings of all servers are valid")
}

/// Finds servers that ask for OAuth and have no valid sign-in.
pub(super) fn sign_ins(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let findings = servers(gateway, &["needs_sign_in"]).into_iter().map(|server| {
            let name = text(server, "name").unwrap_or_default();
            let message = text(server, "reason").map_or_else(|| "The server asks for a sign-in.".to_owned(), line);
            about(name, found(Outcome::Error, message, facts.command(&format!("servers login {}", line(name)))))
        });
        or_ok(findings.collect(), "no server needs a sign-in")
    })
}

pub(super) fn down(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let unready = servers(gateway, &["waiting", "connecting"]);
        let (wrong, starting): (Vec<&Value>, Vec<&Value>) =
            unready.into_iter().partition(|server| state::is_wrong(server));
        let findings = wrong.into_iter().map(|server| {
            let name = text(server, "name").unwrap_or_default();
            let logs = facts.command(&format!("servers logs {name}"));
            let mut message = text(server, "reason").map_or_else(|| "The server is not reachable.".to_owned(), line);
            // The reason may already contain the line that explains it.
            if let Some(said) = gateway.last_lines.get(name).filter(|said| is_news(said, &message)) {
                message = format!("{} It last wrote: {said}", sentence(&message));
            }
            let next = text(server, "hint").map_or(logs, line);
            about(name, found(Outcome::Error, message, next))
        });
        let ready = servers(gateway, &["ready"]).len();
        let starting = match starting.len() {
            0 => String::new(),
            starting => format!(", {starting} still connecting"),
        };
        or_ok(findings.collect(), format!("{} connected{starting}", counted(ready, "server")))
    })
}

/// Counts servers with a mistake in their settings, as the running gateway sees them, or else this command.
pub(super) fn misconfigured_count(facts: &Facts) -> usize {
    match &facts.gateway {
        Ok(Some(gateway)) => servers(gateway, &["misconfigured"]).len(),
        Ok(None) | Err(_) => facts.misconfigured.len(),
    }
}

/// Returns whether a line of a server says more than the reason. The gateway writes its own reasons there too.
fn is_news(said: &str, reason: &str) -> bool {
    !reason.contains(said) && !said.contains(reason)
}

pub(super) fn hidden_tools(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let all = gateway.servers.get("servers").and_then(Value::as_array).into_iter().flatten();
        let findings = all.filter_map(|server| {
            let hidden = server.get("hidden_tools").and_then(Value::as_array).filter(|tools| !tools.is_empty())?;
            let (name, first) = (text(server, "name")?, hidden.first()?);
            let (tool, reason) = (text(first, "name").unwrap_or("-"), text(first, "reason").unwrap_or("-"));
            let count = counted(hidden.len(), "tool");
            let message = format!("{count} of this server cannot be offered, such as {}: {}", line(tool), line(reason));
            Some(about(name, found(Outcome::Warning, message, facts.command("servers list -o json"))))
        });
        or_ok(findings.collect(), "all tools of all servers are offered")
    })
}

/// Finds servers with definitions that agents do not see until a user has accepted them.
pub(super) fn to_review(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let all = gateway.servers.get("servers").and_then(Value::as_array).into_iter().flatten();
        let findings = all.filter_map(|server| {
            let count = Some(state::to_review(server)).filter(|count| *count > 0)?;
            let name = text(server, "name")?;
            let wait = counted_as(count, "definition waits", "definitions wait");
            let message = format!("{wait} for a review. Agents do not see what waits.");
            let next = facts.command(&format!("servers review {}", line(name)));
            Some(about(name, found(Outcome::Warning, message, next)))
        });
        or_ok(findings.collect(), "no definition waits for a review")
    })
}

/// Finds servers with destructive tools that run without an approval, and names all of them in one finding. A pasted
/// server has no contracts, and nobody is asked before its tools run.
pub(super) fn unasked(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let count =
            |server: &Value| server.get("unasked_destructive_tools").and_then(Value::as_u64).unwrap_or_default();
        let unasked: Vec<(&str, u64)> = servers(gateway, &["ready"])
            .into_iter()
            .filter_map(|server| Some((text(server, "name")?, count(server))))
            .filter(|(_, count)| *count > 0)
            .collect();
        let Some((first, _)) = unasked.first() else {
            return ok("each needs an approval, or a policy decides");
        };
        let total = usize::try_from(unasked.iter().map(|(_, count)| count).sum::<u64>()).unwrap_or(usize::MAX);
        let named: Vec<String> =
            unasked.iter().take(NAMED_MAX).map(|(name, count)| format!("{} ({count})", line(name))).collect();
        let more = if unasked.len() > NAMED_MAX { ", …" } else { "" };
        let tools = counted_as(total, "destructive tool runs", "destructive tools run");
        let message = format!("{tools} without asking a user: {}{more}.", named.join(", "));
        vec![found(Outcome::Warning, message, state::next_step(&facts.home, first))]
    })
}
