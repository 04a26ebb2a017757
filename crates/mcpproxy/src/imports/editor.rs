//! Edits the servers in the settings file for users of the pages.
//!
//! A page and a command write the same text: `add` is `mcpproxy import` for a pasted text, and the rest is what
//! `mcpproxy servers` does. The file keeps its comments, secrets go into files below `secrets/`, and a text that the
//! gateway would refuse is not written.

use std::io;
use std::path::Path;

use mcpproxy_core::ServerName;
use mcpproxy_web::editor::{self as web, EditError, Edited, ServersEditor, Undo};
use serde_json::{Map, Value, json};

use super::plan::Plan;
use super::source::Source;
use super::write::{self, Written};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::operator_files::change::write_change;
use crate::operator_files::edit::Change;
use crate::operator_files::settings_file;
use crate::terminal::output::{counted, tell};

/// The settings file of a data folder.
pub(crate) struct SettingsEditor {
    home: Home,
}

impl SettingsEditor {
    pub(crate) fn new(home: &Home) -> Self {
        Self { home: home.clone() }
    }

    fn import(&self, pasted: &str, name: Option<&str>) -> Result<Edited, EditError> {
        let source = Source::pasted(pasted, name).map_err(|failure| of_failure(&failure))?;
        let locked = self.home.create().and_then(|()| self.home.lock_settings());
        let lock = locked.map_err(|error| of_error(&error))?;
        let before = settings_file::read_text(&self.home.settings()).map_err(|failure| of_failure(&failure))?;
        let plan =
            Plan::make(&self.home, source, before.map(|(_, text)| text)).map_err(|failure| of_failure(&failure))?;
        check(&self.home.settings(), &plan)?;
        let written = write::settings(&self.home, &plan, lock).map_err(|error| match is_read_only(&error) {
            true => EditError::ReadOnly { file: self.home.settings().display().to_string(), text: text_of(&plan) },
            false => of_error(&error),
        })?;
        Ok(Edited {
            names: plan.servers.iter().map(|server| server.name.clone()).collect(),
            notes: notes(&plan),
            written: web::Written::File(self.undo(written)),
        })
    }

    fn change(&self, server: &ServerName, change: Change) -> Result<Edited, EditError> {
        let written = write_change(&self.home, server, change).map_err(|error| of_error(&error))?;
        let unused = written.unused_secrets();
        let unused: Vec<&str> = unused.iter().map(String::as_str).collect();
        let note = format!(
            "Files that nothing refers to any more: {}. They may be the only copy, so they were not deleted.",
            unused.join(", ")
        );
        Ok(Edited {
            names: vec![server.clone()],
            notes: if unused.is_empty() { Vec::new() } else { vec![note] },
            written: web::Written::File(self.undo(Written::of_settings(&self.home, written.before, written.after))),
        })
    }

    fn undo(&self, written: Written) -> Undo {
        let home = self.home.clone();
        Undo::new(move || match home.lock_settings() {
            Ok(lock) => written.undo(lock),
            Err(error) => tell(&format!("warning: could not restore the settings: {error:#}")),
        })
    }
}

impl ServersEditor for SettingsEditor {
    fn add(&self, pasted: &str, name: Option<&str>) -> Result<Edited, EditError> {
        self.import(pasted, name)
    }

    fn set_enabled(&self, server: &ServerName, is_enabled: bool) -> Result<Edited, EditError> {
        self.change(server, if is_enabled { Change::Enable } else { Change::Disable })
    }

    fn remove(&self, server: &ServerName) -> Result<Edited, EditError> {
        self.change(server, Change::Remove)
    }
}

/// Refuses a plan that adds nothing, and one with a server that could not start.
pub(super) fn check(path: &Path, plan: &Plan) -> Result<(), EditError> {
    if plan.servers.is_empty() {
        let present = plan.present.iter().map(|server| format!("`{}` is already in the settings.", server.name));
        let skipped = plan.skipped.iter().map(|one| format!("`{}` was left out: {}.", one.original, one.reason));
        let all: Vec<String> = present.chain(skipped).collect();
        return Err(EditError::Invalid(format!("Nothing was added. {}", all.join(" "))));
    }
    let settings = settings_file::check_shape(path, &plan.after);
    let settings = settings.map_err(|failure| of_failure(&failure))?;
    let is_new = |name: &ServerName| plan.servers.iter().any(|server| server.name == *name);
    let mistakes = settings.misconfigured().filter(|(server, _)| is_new(&server.name)).map(|(server, mistakes)| {
        let messages: Vec<&str> = mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
        format!("Server `{}` cannot be added: {}.", server.name, messages.join("; ").trim_end_matches('.'))
    });
    let mistakes: Vec<String> = mistakes.collect();
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(EditError::Invalid(mistakes.join(" "))),
    }
}

/// Sentences about everything that differs from the pasted text.
pub(super) fn notes(plan: &Plan) -> Vec<String> {
    let renamed = plan.servers.iter().filter_map(|server| {
        let wanted = server.wanted.as_ref()?;
        Some(format!("`{wanted}` already exists, so the new server is called `{}`.", server.name))
    });
    let skipped = plan.skipped.iter().map(|one| format!("`{}` was left out: {}.", one.original, one.reason));
    let present = plan.present.iter().map(|one| format!("`{}` is already in the settings.", one.name));
    let secrets: usize = plan.servers.iter().map(|server| server.secrets.len()).sum();
    let moved = (secrets > 0).then(|| {
        format!(
            "{} moved into files below secrets/, which only the gateway's user can read.",
            counted(secrets, "secret")
        )
    });
    let warnings = plan.warnings.iter().map(|warning| sentence(&warning.message));
    renamed.chain(skipped).chain(present).chain(moved).chain(warnings).collect()
}

/// The new servers as a text to paste into the settings.
fn text_of(plan: &Plan) -> String {
    let servers: Map<String, Value> =
        plan.servers.iter().map(|server| (server.name.to_string(), server.definition.clone())).collect();
    serde_json::to_string_pretty(&json!({"mcpServers": servers})).unwrap_or_default()
}

fn is_read_only(error: &anyhow::Error) -> bool {
    let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| kinds.contains(&cause.kind()))
}

fn of_error(error: &anyhow::Error) -> EditError {
    match error.downcast_ref::<Failure>() {
        Some(failure) => of_failure(failure),
        None => EditError::Failed(format!("Nothing was changed. {}", sentence(&format!("{error:#}")))),
    }
}

/// The message and the hint as sentences. Hints name commands for a terminal, and a user of a page may have none.
pub(super) fn of_failure(failure: &Failure) -> EditError {
    match failure.exit() {
        Exit::Usage => {
            let hint = failure.hint_text().map(sentence).unwrap_or_default();
            EditError::Invalid(format!("{} {hint}", sentence(&failure.to_string())).trim_end().to_owned())
        }
        Exit::Done
        | Exit::Failed
        | Exit::Refused
        | Exit::Waiting
        | Exit::ServerFailed
        | Exit::BadSettings
        | Exit::NoGateway
        | Exit::Interrupted => EditError::Failed(format!("{} Nothing was changed.", sentence(&failure.to_string()))),
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.trim().chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    let rest = chars.as_str();
    let end = if rest.ends_with(['.', '}']) { "" } else { "." };
    format!("{first}{rest}{end}")
}

#[cfg(test)]
mod tests;
