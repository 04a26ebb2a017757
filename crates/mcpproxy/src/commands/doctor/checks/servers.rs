//! Checks of the servers behind the gateway.

use serde_json::Value;

use super::{Finding, NEEDS_SETTINGS, Outcome, about, found, or_ok, skipped, text, with_gateway};
use crate::client::state;
use crate::commands::doctor::facts::{Facts, GatewayFacts};
use crate::terminal::output::{counted, line, sentence};

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
