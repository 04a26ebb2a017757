//! Checks of AI clients and their tokens.

use serde_json::Value;

use super::{Finding, Outcome, about, found, ok, or_ok, skipped, text, with_gateway, with_storage};
use crate::commands::doctor::facts::Facts;
use crate::terminal::output::{counted, line};
use crate::terminal::time::local_time;

/// An unused token is suspicious after this time.
const UNUSED_MS: i64 = 7 * 24 * 60 * 60 * 1000;

pub(super) fn clients(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let clients = gateway.clients.get("clients").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let findings = clients.iter().map(|client| {
            let name = text(client, "client").unwrap_or("an unnamed client");
            let (agent, revision) = (text(client, "agent").unwrap_or("-"), text(client, "protocol").unwrap_or("-"));
            let prompts = match client.get("elicitation").and_then(Value::as_bool) {
                Some(true) => "can show approval prompts",
                Some(false) | None => "cannot show approval prompts, so users approve on the web page",
            };
            let message = format!("agent {}, MCP {}, {prompts}", line(agent), line(revision));
            about(name, Finding { result: Outcome::Ok, subject: None, message, next: None })
        });
        or_ok(findings.collect(), "no client has an open session")
    })
}

pub(super) fn installed(facts: &Facts) -> Vec<Finding> {
    let findings = facts.clients.iter().filter_map(|client| {
        let next = facts.command(&format!("connect {}", client.id));
        let finding = match &client.is_connected {
            Ok(true) => return None,
            Ok(false) => found(Outcome::Warning, "This client is installed and does not use mcpproxy.", next),
            Err(error) => {
                let message = format!("The settings of this client cannot be read: {}", line(error));
                found(Outcome::Warning, message, format!("correct the file, then run `{next}`"))
            }
        };
        Some(about(client.title, finding))
    });
    or_ok(
        findings.collect(),
        match facts.clients.len() {
            0 => "no known client is installed".to_owned(),
            clients => format!("{} connected", counted(clients, "client")),
        },
    )
}

pub(super) fn local_token(facts: &Facts) -> Vec<Finding> {
    match facts.is_local_token_valid {
        None => skipped("needs agent.token and the database"),
        Some(true) => ok("agent.token is valid"),
        Some(false) => {
            let message = "The token in agent.token is revoked or belongs to another database. `mcpproxy call` and \
                           `mcpproxy stdio` do not work.";
            let create = facts.command("token create NAME");
            let next = format!("create a token with `{create}` and write it into agent.token");
            vec![found(Outcome::Error, message, next)]
        }
    }
}

pub(super) fn tokens(facts: &Facts) -> Vec<Finding> {
    with_storage(facts, |storage| {
        let valid = || storage.tokens.iter().filter(|token| token.revoked_ms.is_none());
        let is_unused = |age_ms: i64, last_used_ms: Option<i64>| last_used_ms.is_none() && age_ms > UNUSED_MS;
        let unused = valid().filter(|token| is_unused(facts.now_ms - token.created_ms, token.last_used_ms));
        let findings = unused.map(|token| {
            let message = format!("This token was never used since {}.", local_time(token.created_ms));
            let revoke = facts.command(&format!("token revoke {}", line(&token.name)));
            about(&token.name, found(Outcome::Warning, message, revoke))
        });
        or_ok(findings.collect(), format!("{} valid", counted(valid().count(), "token")))
    })
}
