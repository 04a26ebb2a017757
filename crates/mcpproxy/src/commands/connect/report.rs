//! The result of `connect`, for people and for programs.

use serde::Serialize;

use crate::agent_clients::Client;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::line;
use crate::terminal::size::columns;
use crate::terminal::wrap::hanging;

/// The columns before the value of a row.
const ROW_INDENT: usize = 12;
/// Longer lines are hard to read.
const COLUMNS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    Connect,
    Undo,
}

/// The result for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Connected,
    AlreadyConnected,
    /// Nothing was written: a dry run, or the user said no.
    WouldConnect,
    Disconnected,
    WouldDisconnect,
}

/// The result for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileChange {
    Created,
    Changed,
    Unchanged,
    Restored,
    Removed,
    EntryRemoved,
}

#[derive(Serialize)]
pub(super) struct Report {
    action: Action,
    dry_run: bool,
    clients: Vec<ClientReport>,
    /// Known clients that `--all` left out.
    pub(super) not_installed: Vec<&'static str>,
    failures: Vec<ClientFailure>,
    /// Steps to take at the gateway.
    pub(super) next: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct ClientReport {
    pub(super) client: &'static str,
    pub(super) title: &'static str,
    pub(super) state: State,
    pub(super) transport: Option<&'static str>,
    pub(super) url: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) files: Vec<FileReport>,
    pub(super) notes: Vec<String>,
    pub(super) restart: Option<&'static str>,
    pub(super) check: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct FileReport {
    pub(super) path: String,
    pub(super) change: FileChange,
    pub(super) backup: Option<String>,
    /// A unified diff with masked values.
    pub(super) diff: String,
}

#[derive(Serialize)]
struct ClientFailure {
    client: &'static str,
    error: String,
    #[serde(skip)]
    title: &'static str,
    #[serde(skip)]
    cause: anyhow::Error,
}

impl Report {
    pub(super) fn new(action: Action, dry_run: bool) -> Self {
        Self { action, dry_run, clients: Vec::new(), not_installed: Vec::new(), failures: Vec::new(), next: Vec::new() }
    }

    pub(super) fn add(&mut self, client: ClientReport) {
        self.clients.push(client);
    }

    pub(super) fn fail(&mut self, client: &Client, cause: anyhow::Error) {
        let outcome = Err(cause);
        let (_, text) = crate::exit::report(&outcome);
        let error = text.unwrap_or_default();
        let Err(cause) = outcome else { return };
        self.failures.push(ClientFailure { client: client.id, error, title: client.title, cause });
    }

    /// Returns true if the only client that the user named has failed.
    pub(super) fn is_single_failure(&self, named: &[String]) -> bool {
        named.len() == 1 && self.failures.len() == 1
    }

    pub(super) fn into_failure(mut self) -> anyhow::Error {
        self.failures.pop().map_or_else(|| Failure::new(Exit::Failed, "unknown error").into(), |failure| failure.cause)
    }

    pub(super) fn has_connected(&self) -> bool {
        self.clients.iter().any(|client| matches!(client.state, State::Connected | State::AlreadyConnected))
    }

    pub(super) fn exit(&self) -> Exit {
        if self.failures.is_empty() { Exit::Done } else { Exit::Failed }
    }

    pub(super) fn text(&self, home: &Home) -> String {
        let mut text = String::new();
        for client in &self.clients {
            text.push_str(&client.text(home));
        }
        for failure in &self.failures {
            text.push_str(&format!("\n{}: failed\n", failure.title));
            for line in failure.error.lines() {
                text.push_str(&format!("  {}\n", wrapped(line, 2)));
            }
        }
        if !self.not_installed.is_empty() {
            let text_of = format!("Not installed: {}", self.not_installed.join(", "));
            text.push_str(&format!("\n{}\n", wrapped(&text_of, 2)));
        }
        for step in &self.next {
            text.push_str(&format!("\n{}\n", wrapped(step, 0)));
        }
        text.trim_start_matches('\n').to_owned()
    }
}

impl ClientReport {
    fn text(&self, home: &Home) -> String {
        let agent = self.agent.as_deref().unwrap_or("local");
        let how = match (self.transport, &self.url) {
            (Some("http"), Some(url)) => format!("over HTTP ({url}) as agent `{agent}`"),
            (Some(_) | None, _) => format!("over stdio as agent `{agent}`"),
        };
        let state = match self.state {
            State::Connected => format!("connected {how}"),
            State::AlreadyConnected => format!("already connected {how}"),
            State::WouldConnect => format!("not connected yet: would connect {how}"),
            State::Disconnected => "disconnected".to_owned(),
            State::WouldDisconnect => "still connected: would disconnect".to_owned(),
        };
        let mut text = format!("\n{}\n", wrapped(&format!("{}: {state}", self.title), 2));
        // A path or command stays on one line, so that it can be copied.
        let mut row = |label: &str, value: &str| text.push_str(&format!("  {label:<9} {value}\n"));
        let prose = |value: &str| wrapped(&line(value), ROW_INDENT);
        for file in &self.files {
            let is_plan = matches!(self.state, State::WouldConnect | State::WouldDisconnect);
            let label = match (file.change, is_plan) {
                (FileChange::Created, false) => "created",
                (FileChange::Created, true) => "create",
                (FileChange::Changed, false) => "changed",
                (FileChange::Changed, true) => "change",
                (FileChange::Unchanged, _) => "unchanged",
                (FileChange::Restored, false) => "restored",
                (FileChange::Restored, true) => "restore",
                (FileChange::Removed, false) => "removed",
                (FileChange::Removed, true) => "remove",
                (FileChange::EntryRemoved, false) => "edited",
                (FileChange::EntryRemoved, true) => "edit",
            };
            row(label, &line(&file.path));
            if let Some(backup) = &file.backup {
                row("backup", &line(backup));
            }
        }
        for note in &self.notes {
            row("note", &prose(note));
        }
        match self.state {
            State::Connected => {
                row("restart", &prose(self.restart.unwrap_or_default()));
                row("check", &prose(self.check.unwrap_or_default()));
                row("undo", &line(&home.command("mcpproxy", &format!("connect {} --undo", self.client))));
            }
            State::AlreadyConnected => row("check", &prose(self.check.unwrap_or_default())),
            State::Disconnected => {
                if let Some(agent) = &self.agent {
                    row("revoked", &line(&format!("the token of agent `{agent}`")));
                }
                if let Some(restart) = self.restart {
                    row("restart", &prose(restart));
                }
            }
            State::WouldConnect | State::WouldDisconnect => {}
        }
        text
    }
}

/// Wraps a text for the terminal. Where nobody has set a width, such as in a pipe, every text stays on one line.
fn wrapped(text: &str, indent: usize) -> String {
    match columns() {
        Some(columns) => hanging(text, columns.min(COLUMNS_MAX), indent),
        None => text.to_owned(),
    }
}
