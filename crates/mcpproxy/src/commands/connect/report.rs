//! The result of `connect`, for people and for programs.

use serde::Serialize;

use crate::agent_clients::Client;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::line;

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
            text.push_str(&format!("\n{}: failed\n  {}\n", failure.title, failure.error.replace('\n', "\n  ")));
        }
        if !self.not_installed.is_empty() {
            text.push_str(&format!("\nNot installed: {}\n", self.not_installed.join(", ")));
        }
        for step in &self.next {
            text.push_str(&format!("\n{step}\n"));
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
        let mut text = format!("\n{}: {state}\n", self.title);
        let mut row = |label: &str, value: &str| text.push_str(&format!("  {label:<9} {}\n", line(value)));
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
            row(label, &file.path);
            if let Some(backup) = &file.backup {
                row("backup", backup);
            }
        }
        for note in &self.notes {
            row("note", note);
        }
        match self.state {
            State::Connected => {
                row("restart", self.restart.unwrap_or_default());
                row("check", self.check.unwrap_or_default());
                row("undo", &home.command("mcpproxy", &format!("connect {} --undo", self.client)));
            }
            State::AlreadyConnected => row("check", self.check.unwrap_or_default()),
            State::Disconnected => {
                if let Some(agent) = &self.agent {
                    row("revoked", &format!("the token of agent `{agent}`"));
                }
                row("restart", self.restart.unwrap_or_default());
            }
            State::WouldConnect | State::WouldDisconnect => {}
        }
        text
    }
}
