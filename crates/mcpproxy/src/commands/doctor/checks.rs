//! The checks: one row each, in the order in which a person would look.
//!
//! A code never changes its meaning, because scripts match it. A check returns at least one finding: `ok` if nothing is
//! wrong, and `skipped` if it could not look.

use serde::Serialize;
use serde_json::Value;

use super::facts::{ChainState, Facts, GatewayFacts, PortState};
use crate::terminal::output::{counted, line};
use crate::terminal::style::Tone;
use crate::terminal::time::local_time;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// An unused token is suspicious after this time.
const UNUSED_MS: i64 = 7 * DAY_MS;
/// No person reads an approval request and denies it in less time.
const UNREAD_MS: i64 = 1000;

/// A check with its stable code.
pub(crate) struct Check {
    pub(crate) code: &'static str,
    pub(crate) title: &'static str,
    pub(crate) run: fn(&Facts) -> Vec<Finding>,
    /// `status` shows the findings too.
    pub(crate) is_in_status: bool,
}

/// The result of a check, or one problem that it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) result: Outcome,
    /// The server, agent or file that the finding is about.
    pub(crate) subject: Option<String>,
    /// The meaning, for a person.
    pub(crate) message: String,
    /// The next step.
    pub(crate) next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Outcome {
    #[serde(rename = "ok")]
    Ok,
    #[serde(rename = "skipped")]
    Skipped,
    #[serde(rename = "warn")]
    Warning,
    #[serde(rename = "error")]
    Error,
}

impl Outcome {
    /// Returns a mark and a word.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Ok => "✓ ok",
            Self::Skipped => "- skip",
            Self::Warning => "! warn",
            Self::Error => "✗ error",
        }
    }

    pub(crate) fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Skipped => Tone::Dim,
            Self::Warning => Tone::Warning,
            Self::Error => Tone::Bad,
        }
    }
}

pub(crate) const CHECKS: &[Check] = &[
    Check { code: "settings_invalid", title: "Settings, contracts and policies", run: settings, is_in_status: true },
    Check { code: "settings_refused", title: "Settings of the running gateway", run: refused, is_in_status: true },
    Check { code: "file_mode", title: "Permissions of files", run: file_modes, is_in_status: false },
    Check { code: "gateway_stopped", title: "Running gateway", run: gateway, is_in_status: false },
    Check { code: "port_in_use", title: "Port", run: port, is_in_status: true },
    Check { code: "storage_unreachable", title: "Database", run: storage, is_in_status: true },
    Check { code: "log_unavailable", title: "Activity log", run: log, is_in_status: true },
    Check { code: "chain_damaged", title: "Chain of the activity log", run: chain, is_in_status: false },
    Check { code: "server_misconfigured", title: "Settings of servers", run: misconfigured, is_in_status: true },
    Check { code: "server_down", title: "Connections to servers", run: down, is_in_status: true },
    Check { code: "tool_hidden", title: "Tools that are not offered", run: hidden_tools, is_in_status: true },
    Check { code: "no_approver", title: "User accounts", run: users, is_in_status: true },
    Check { code: "approval_waiting", title: "Approval requests", run: approvals, is_in_status: false },
    Check { code: "elicitation_declined", title: "Prompts in clients", run: elicitation, is_in_status: false },
    Check { code: "client_revision", title: "Connected clients", run: clients, is_in_status: false },
    Check { code: "client_not_connected", title: "Installed clients", run: installed, is_in_status: false },
    Check { code: "token_revoked", title: "Token of the local agent", run: local_token, is_in_status: true },
    Check { code: "token_unused", title: "Agent tokens", run: tokens, is_in_status: false },
];

fn ok(message: impl Into<String>) -> Vec<Finding> {
    vec![Finding { result: Outcome::Ok, subject: None, message: message.into(), next: None }]
}

fn skipped(message: impl Into<String>) -> Vec<Finding> {
    vec![Finding { result: Outcome::Skipped, subject: None, message: message.into(), next: None }]
}

fn found(result: Outcome, message: impl Into<String>, next: impl Into<String>) -> Finding {
    Finding { result, subject: None, message: message.into(), next: Some(next.into()) }
}

fn about(subject: &str, finding: Finding) -> Finding {
    Finding { subject: Some(line(subject)), ..finding }
}

/// Returns the findings, or `ok` if there are none.
fn or_ok(findings: Vec<Finding>, message: impl Into<String>) -> Vec<Finding> {
    if findings.is_empty() { ok(message) } else { findings }
}

/// Runs a check that needs the running gateway.
fn with_gateway(facts: &Facts, run: impl Fn(&GatewayFacts) -> Vec<Finding>) -> Vec<Finding> {
    match &facts.gateway {
        Ok(Some(gateway)) => run(gateway),
        Ok(None) => skipped("needs a running gateway"),
        Err(_) => skipped("needs a gateway that answers"),
    }
}

fn settings(facts: &Facts) -> Vec<Finding> {
    let path = &facts.settings_path;
    match &facts.settings {
        Err(message) => message
            .lines()
            .map(|problem| {
                let next = "correct the file, then run `mcpproxy config check`";
                found(Outcome::Error, line(problem), next)
            })
            .collect(),
        Ok(None) => ok(format!("no settings file, so the demo server runs. `mcpproxy servers add` creates {path}")),
        Ok(Some(servers)) => ok(format!("{path} is valid, {}", counted(*servers, "server"))),
    }
}

fn refused(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| match gateway.status.pointer("/settings/error").and_then(Value::as_str) {
        None => ok("the newest files are in force"),
        Some(error) => {
            let message =
                format!("The gateway keeps its previous settings, because the newest are invalid: {}", line(error));
            vec![found(Outcome::Error, message, "correct the file. The gateway reloads it by itself")]
        }
    })
}

fn file_modes(facts: &Facts) -> Vec<Finding> {
    let findings = facts.open_files.iter().map(|(path, mode)| {
        let message = format!("Other users can access this file (mode {mode:03o}).");
        about(path, found(Outcome::Error, message, "mcpproxy doctor --fix"))
    });
    or_ok(findings.collect(), "only you can access the secrets in the data folder")
}

fn gateway(facts: &Facts) -> Vec<Finding> {
    match &facts.gateway {
        Ok(Some(gateway)) => {
            let text = |name: &str| gateway.status.get(name).and_then(Value::as_str).unwrap_or("-");
            ok(format!("version {} listens on {}", line(text("version")), line(text("address"))))
        }
        Ok(None) => {
            let next = format!("start it in another terminal: {}", facts.command("serve"));
            vec![found(Outcome::Warning, "No gateway is running on this data folder.", next)]
        }
        Err(error) => {
            let next = "look at the output of `mcpproxy serve`, and restart it";
            vec![found(Outcome::Error, format!("The gateway does not answer: {}", line(error)), next)]
        }
    }
}

fn port(facts: &Facts) -> Vec<Finding> {
    let address = facts.listen;
    match &facts.port {
        PortState::Ours => ok(format!("the gateway listens on {address}")),
        PortState::Free => ok(format!("{address} is free")),
        PortState::Unknown(why) => skipped(format!("could not check {address}: {why}")),
        PortState::Taken(holder) => {
            let who = holder.as_ref().map_or("another program".to_owned(), |holder| line(holder));
            let message = format!("{who} listens on {address}, so the gateway cannot start there.");
            let next = format!("stop it, or choose another port: {}", facts.command("serve --listen 127.0.0.1:PORT"));
            vec![found(Outcome::Error, message, next)]
        }
    }
}

fn storage(facts: &Facts) -> Vec<Finding> {
    match &facts.storage {
        Err(error) => {
            let next = format!("start the database, or correct `storage.url` in {}", facts.settings_path);
            vec![found(Outcome::Error, format!("The database cannot be opened: {}", line(error)), next)]
        }
        Ok(None) => ok("no database yet. The first gateway creates it"),
        Ok(Some(_)) => ok("the database answers"),
    }
}

fn log(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| match gateway.status.pointer("/log/reason").and_then(Value::as_str) {
        None => ok("records can be written"),
        Some(reason) => {
            let message = format!("Records cannot be written, so no call is sent: {}", line(reason));
            vec![found(Outcome::Error, message, "free space on the disk, or start the database")]
        }
    })
}

fn chain(facts: &Facts) -> Vec<Finding> {
    let Ok(Some(storage)) = &facts.storage else { return skipped("needs the database") };
    match &storage.chain {
        ChainState::Intact(lines) => ok(format!("{} verified", counted(*lines, "line"))),
        ChainState::NotVerified(why) => skipped(format!("{why}. Run `mcpproxy activity verify`")),
        ChainState::Damaged(what) => {
            let message = format!("The activity log was changed: {}", line(what));
            vec![found(Outcome::Error, message, "mcpproxy activity verify. Then compare with a backup")]
        }
    }
}

fn servers<'f>(gateway: &'f GatewayFacts, states: &[&str]) -> Vec<&'f Value> {
    let servers = gateway.servers.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let has_state = |server: &&Value| server.get("state").and_then(Value::as_str).is_some_and(|s| states.contains(&s));
    servers.iter().filter(has_state).collect()
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

fn misconfigured(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let findings = servers(gateway, &["misconfigured"]).into_iter().map(|server| {
            let name = text(server, "name").unwrap_or_default();
            let reason = text(server, "reason").unwrap_or("its settings have a mistake");
            let next =
                text(server, "hint").map_or_else(|| format!("correct `{name}` in {}", facts.settings_path), line);
            about(name, found(Outcome::Error, line(reason), next))
        });
        or_ok(findings.collect(), "the settings of all servers are valid")
    })
}

fn down(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let unready = servers(gateway, &["waiting", "failed", "connecting"]);
        // A server that connects for the first time has no reason yet, and nothing is wrong with it.
        let (starting, wrong): (Vec<&Value>, Vec<&Value>) =
            unready.into_iter().partition(|s| text(s, "state") == Some("connecting") && text(s, "reason").is_none());
        let findings = wrong.into_iter().map(|server| {
            let name = text(server, "name").unwrap_or_default();
            let logs = format!("mcpproxy servers logs {name}");
            let mut message = text(server, "reason").map_or_else(|| "The server is not reachable.".to_owned(), line);
            // The reason may already contain the line that explains it.
            if let Some(said) = gateway.last_lines.get(name).filter(|said| !message.contains(said.as_str())) {
                message.push_str(&format!(" It last wrote: {said}"));
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

fn hidden_tools(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let all = gateway.servers.get("servers").and_then(Value::as_array).into_iter().flatten();
        let findings = all.filter_map(|server| {
            let hidden = server.get("hidden_tools").and_then(Value::as_array).filter(|tools| !tools.is_empty())?;
            let (name, first) = (text(server, "name")?, hidden.first()?);
            let (tool, reason) = (text(first, "name").unwrap_or("-"), text(first, "reason").unwrap_or("-"));
            let count = counted(hidden.len(), "tool");
            let message = format!("{count} of this server cannot be offered, such as {}: {}", line(tool), line(reason));
            Some(about(name, found(Outcome::Warning, message, "mcpproxy servers list -o json")))
        });
        or_ok(findings.collect(), "all tools of all servers are offered")
    })
}

fn users(facts: &Facts) -> Vec<Finding> {
    let Ok(Some(storage)) = &facts.storage else { return skipped("needs the database") };
    match storage.users {
        0 => {
            let message = "No approver account exists, so nobody can approve a call.";
            let next = "open the setup link that `mcpproxy serve` prints when it starts";
            vec![found(Outcome::Warning, message, next)]
        }
        users => ok(format!("{} can approve calls", counted(users, "user"))),
    }
}

fn approvals(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let waiting = gateway.status.pointer("/approvals/waiting").and_then(Value::as_u64).unwrap_or_default();
        match usize::try_from(waiting).unwrap_or(usize::MAX) {
            0 => ok("no call waits for an approval"),
            waiting => {
                let message = format!(
                    "{} for an approval.",
                    if waiting == 1 { "1 call waits".to_owned() } else { format!("{waiting} calls wait") }
                );
                vec![found(Outcome::Warning, message, "mcpproxy approvals list")]
            }
        }
    })
}

/// Finds clients that declined a prompt faster than a person can read it.
fn elicitation(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let denied = gateway.denied.get("approvals").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let time = |approval: &Value, name: &str| {
            text(approval, name).and_then(|time| time.parse::<jiff::Timestamp>().ok()).map(|time| time.as_millisecond())
        };
        let is_by_client = |approval: &&Value| text(approval, "decided_by").is_some_and(|by| by.contains("client"));
        let by_clients: Vec<&Value> = denied.iter().filter(is_by_client).collect();
        let mut findings: Vec<Finding> = Vec::new();
        for approval in &by_clients {
            let (Some(created), Some(decided)) = (time(approval, "created"), time(approval, "decided")) else {
                continue;
            };
            let client = text(approval, "client").or(text(approval, "agent")).unwrap_or("-");
            if decided - created >= UNREAD_MS || findings.iter().any(|f| f.subject.as_deref() == Some(&line(client))) {
                continue;
            }
            let message =
                "This client denied an approval request within a second. It probably showed nothing to a user.";
            let next = "approve on the web page instead: mcpproxy open. Check the client's own settings for prompts";
            findings.push(about(client, found(Outcome::Warning, message, next)));
        }
        or_ok(
            findings,
            match by_clients.len() {
                0 => "no client denied an approval request".to_owned(),
                count => {
                    format!("{} denied in a client, each after a second or more", counted(count, "approval request"))
                }
            },
        )
    })
}

fn clients(facts: &Facts) -> Vec<Finding> {
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

fn installed(facts: &Facts) -> Vec<Finding> {
    let findings = facts.clients.iter().filter_map(|client| {
        let next = format!("mcpproxy connect {}", client.id);
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

fn local_token(facts: &Facts) -> Vec<Finding> {
    match facts.is_local_token_valid {
        None => skipped("needs agent.token and the database"),
        Some(true) => ok("agent.token is valid"),
        Some(false) => {
            let message = "The token in agent.token is revoked or belongs to another database. `mcpproxy call` and \
                           `mcpproxy stdio` do not work.";
            let next = "create a token with `mcpproxy token create NAME` and write it into agent.token";
            vec![found(Outcome::Error, message, next)]
        }
    }
}

fn tokens(facts: &Facts) -> Vec<Finding> {
    let Ok(Some(storage)) = &facts.storage else { return skipped("needs the database") };
    let valid = || storage.tokens.iter().filter(|token| token.revoked_ms.is_none());
    let unused = valid().filter(|token| token.last_used_ms.is_none() && facts.now_ms - token.created_ms > UNUSED_MS);
    let findings = unused.map(|token| {
        let message = format!("This token was never used since {}.", local_time(token.created_ms));
        about(&token.name, found(Outcome::Warning, message, format!("mcpproxy token revoke {}", line(&token.name))))
    });
    or_ok(findings.collect(), format!("{} valid", counted(valid().count(), "token")))
}
