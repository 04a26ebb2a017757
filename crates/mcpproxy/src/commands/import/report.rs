//! The output of `import`: the servers of all clients, the preview of an import, and its result.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::agent_clients::FileFormat;
use crate::agent_clients::document::{self, Shown};
use crate::exit::Failure;
use crate::home::Home;
use crate::imports::plan::Plan;
use crate::imports::source::{Entry, Found};
use crate::terminal::output::{counted, line};
use crate::terminal::shell;

pub(super) fn found_json(found: &[Found]) -> Value {
    let clients = found.iter().map(|found| {
        let (servers, error): (&[Entry], Option<&Failure>) = match &found.entries {
            Ok(entries) => (entries, None),
            Err(failure) => (&[], Some(failure)),
        };
        json!({
            "client": found.client.id,
            "title": found.client.title,
            "file": found.path.display().to_string(),
            "servers": servers.iter().map(Entry::name).collect::<Vec<_>>(),
            "error": error.map(ToString::to_string),
        })
    });
    json!({ "clients": clients.collect::<Vec<_>>() })
}

pub(super) fn found_text(home: &Home, found: &[Found]) -> String {
    let mut text = String::new();
    for found in found {
        text.push_str(&format!("{} ({})\n  {}\n", found.client.title, found.client.id, line(&shown(&found.path))));
        match &found.entries {
            Ok(entries) if entries.is_empty() => text.push_str("  no servers\n"),
            Ok(entries) => {
                let names: Vec<String> = entries.iter().map(|entry| line(entry.name())).collect();
                text.push_str(&format!("  {}: {}\n", counted(entries.len(), "server"), names.join(", ")));
            }
            Err(failure) => text.push_str(&format!("  cannot be read: {failure}\n")),
        }
    }
    let with_servers = found.iter().find(|found| found.entries.as_ref().is_ok_and(|entries| !entries.is_empty()));
    match with_servers {
        Some(found) => {
            let command = home.command("mcpproxy", &format!("import {}", found.client.id));
            text.push_str(&format!("\nImport the servers of a client with: {command}\n"));
        }
        None => text.push_str("No client on this machine has servers. Name a file: mcpproxy import PATH\n"),
    }
    text
}

/// Describes what will change, with a difference of the settings in which secrets are masked.
pub(super) fn preview(home: &Home, plan: &Plan) -> String {
    let mut text = String::new();
    for server in &plan.servers {
        let original = line(&server.original);
        let named = if original == server.name.as_str() { String::new() } else { format!(" as {}", server.name) };
        text.push_str(&format!("import {original}{named}\n"));
        if let Some(wanted) = &server.wanted {
            text.push_str(&format!("  {wanted} exists already with other settings\n"));
        }
        for secret in &server.secrets {
            text.push_str(&format!("  {} is copied to {}\n", line(&secret.place), line(&secret.path)));
        }
    }
    for server in &plan.present {
        text.push_str(&format!("skip {}: the settings have it already as {}\n", line(&server.original), server.name));
    }
    for skipped in &plan.skipped {
        text.push_str(&format!("skip {}: {}\n", line(&skipped.original), skipped.reason));
    }
    for warning in &plan.warnings {
        text.push_str(&format!("warning: {}\n", line(&warning.message)));
    }
    if plan.servers.is_empty() {
        text.push_str(&format!("Nothing to import from {}.\n", plan.source.title()));
    } else {
        text.push_str(&format!("\n{}", difference(&home.settings(), plan)));
    }
    text
}

/// Returns a unified difference. Only the new servers are shown in clear text, and their secrets are references.
fn difference(path: &Path, plan: &Plan) -> String {
    let paths = plan.servers.iter().map(|server| vec!["mcpServers".to_owned(), server.name.to_string()]).collect();
    let new = Shown { paths, texts: Vec::new() };
    let unified = document::diff(path, plan.before.as_deref(), Some(&plan.after), FileFormat::Json, &new);
    unified.lines().map(|text| line(text) + "\n").collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The result of an import.
pub(super) struct Report<'p> {
    home: &'p Home,
    plan: &'p Plan,
    is_dry_run: bool,
    has_removed: bool,
    backup: Option<PathBuf>,
    states: Option<Value>,
}

impl<'p> Report<'p> {
    pub(super) fn new(home: &'p Home, plan: &'p Plan, is_dry_run: bool) -> Self {
        Self { home, plan, is_dry_run, has_removed: false, backup: None, states: None }
    }

    pub(super) fn removed(&mut self, backup: Option<PathBuf>) {
        self.has_removed = true;
        self.backup = backup;
    }

    pub(super) fn states(&mut self, answer: Option<Value>) {
        let servers = answer.as_ref().and_then(|answer| answer.get("servers")).and_then(Value::as_array);
        let is_new = |server: &&Value| {
            let name = server.get("name").and_then(Value::as_str);
            self.plan.servers.iter().any(|new| name == Some(new.name.as_str()))
        };
        self.states = servers.map(|servers| servers.iter().filter(is_new).cloned().collect());
    }

    pub(super) fn json(&self) -> Value {
        let plan = self.plan;
        let imported = plan.servers.iter().map(|server| {
            let secrets: Vec<&str> = server.secrets.iter().map(|secret| secret.path.as_str()).collect();
            let first_sight = plan.is_reviewed.then_some("review");
            json!({ "name": server.name.as_str(), "title": server.original, "secrets": secrets, "first_sight": first_sight })
        });
        let present =
            plan.present.iter().map(|server| json!({ "name": server.name.as_str(), "title": server.original }));
        let skipped = plan.skipped.iter().map(|skipped| json!({ "title": skipped.original, "reason": skipped.reason }));
        json!({
            "client": plan.source.client.map(|client| client.id),
            "file": shown(&plan.source.file.path),
            "dry_run": self.is_dry_run,
            "imported": imported.collect::<Vec<_>>(),
            "present": present.collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
            "warnings": plan.warnings.iter().map(|warning| warning.message.as_str()).collect::<Vec<_>>(),
            "removed_direct": self.has_removed,
            "backup": self.backup.as_deref().map(shown),
            "servers": self.states,
        })
    }

    pub(super) fn text(&self) -> String {
        let plan = self.plan;
        let mut text = String::new();
        if self.is_dry_run {
            return "Dry run: nothing was changed.\n".to_owned();
        }
        if !plan.servers.is_empty() {
            let count = counted(plan.servers.len(), "server");
            text.push_str(&format!("Imported {count} from {}.\n", plan.source.title()));
        }
        text.push_str(&self.review());
        if self.has_secrets() {
            let rest = if self.has_removed { "" } else { " The client's file keeps its own copy." };
            text.push_str("Secrets were copied to secrets/ of the data folder, in files that only you can read.");
            text.push_str(&format!("{rest}\n"));
        }
        if !plan.servers.is_empty() && self.states.is_none() {
            text.push_str("Start the gateway with `mcpproxy serve` to use them.\n");
        }
        text.push_str(&self.direct());
        text
    }

    /// Says that agents do not see the tools of the new servers yet.
    fn review(&self) -> String {
        let (tools, name) = match self.plan.servers.as_slice() {
            [] => return String::new(),
            [one] => ("Its tools", one.name.as_str()),
            _ => ("Their tools", "NAME"),
        };
        let command = self.home.command("mcpproxy", &format!("servers review {name}"));
        if self.plan.is_reviewed { format!("{tools} wait for your review: {command}\n") } else { String::new() }
    }

    fn has_secrets(&self) -> bool {
        self.plan.servers.iter().any(|server| !server.secrets.is_empty())
    }

    /// Describes the direct entries in the client's file, and the next step.
    fn direct(&self) -> String {
        let plan = self.plan;
        let file = line(&shown(&plan.source.file.path));
        let count = plan.direct_paths().len();
        if let Some(backup) = &self.backup {
            let (backup, word) = (shell::plain_word(&shown(backup)), shell::plain_word(&shown(&plan.source.file.path)));
            let removed = format!(
                "Removed {} from {file}.\nTo restore that file: cp {backup} {word}\nThe backup has everything that the \
                 file had, secrets included.\n",
                these(count)
            );
            return removed + &self.next_step();
        }
        if self.has_removed || count == 0 {
            return String::new();
        }
        let (who, given) = match plan.source.client {
            Some(client) => (client.title, client.id.to_owned()),
            None => ("its client", shell::plain_word(&shown(&plan.source.file.path))),
        };
        let command = self.home.command("mcpproxy", &format!("import {given} --remove-direct"));
        format!(
            "{file} still has {} too. Once {who} uses mcpproxy, it sees each tool twice.\nTo remove {}: {command}\n",
            these(count),
            if count == 1 { "it" } else { "them" }
        )
    }

    /// A client that lost its servers needs the gateway, or it has none at all.
    fn next_step(&self) -> String {
        match self.plan.source.client {
            Some(client) if self.plan.is_connected => format!("{}\n", client.restart),
            Some(client) => {
                let command = self.home.command("mcpproxy", &format!("connect {}", client.id));
                format!("{} does not use mcpproxy yet. Connect it: {command}\n", client.title)
            }
            None => String::new(),
        }
    }
}

fn these(count: usize) -> String {
    if count == 1 { "this server".to_owned() } else { format!("these {count} servers") }
}
