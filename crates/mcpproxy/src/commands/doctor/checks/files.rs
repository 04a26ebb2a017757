//! Checks of the files in the data folder.

use serde_json::Value;

use super::servers::misconfigured_count;
use super::{Finding, Outcome, about, found, ok, or_ok, skipped, with_gateway};
use crate::client::state::{held_changes, held_words};
use crate::commands::doctor::facts::Facts;
use crate::runtime::last_run::MissingFiles;
use crate::terminal::output::{counted, line};

pub(super) fn settings(facts: &Facts) -> Vec<Finding> {
    let path = &facts.settings_path;
    match &facts.settings {
        Err(message) => message
            .lines()
            .map(|problem| {
                let next = format!("correct the file, then run `{}`", facts.command("config check"));
                found(Outcome::Error, line(problem), next)
            })
            .collect(),
        Ok(None) => ok(format!("no settings file, so the demo server runs. `mcpproxy servers add` creates {path}")),
        Ok(Some(servers)) => {
            let servers = counted(*servers, "server");
            match misconfigured_count(facts) {
                0 => ok(format!("{path} is valid, {servers}")),
                wrong => ok(format!("{path} can be read, {servers}, {wrong} misconfigured")),
            }
        }
    }
}

pub(super) fn refused(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| match gateway.status.pointer("/settings/error").and_then(Value::as_str) {
        None => ok("the newest files are in force"),
        Some(error) => {
            // The check of the files has the same mistakes, with a line for each.
            let is_told = facts.settings.as_ref().is_err_and(|told| told == error);
            let why = if is_told { ".".to_owned() } else { format!(": {}", line(error)) };
            let message = format!("The gateway keeps its previous settings, because the newest are invalid{why}");
            vec![found(Outcome::Error, message, "correct the file. The gateway reloads it by itself")]
        }
    })
}

/// Reports changes that the gateway does not apply, because they weaken contracts or policies.
pub(super) fn held(facts: &Facts) -> Vec<Finding> {
    with_gateway(facts, |gateway| {
        let changes = gateway.status.pointer("/settings/held/changes").and_then(Value::as_array);
        let Some(changes) = changes else { return ok("no change waits") };
        let first = changes.first().and_then(Value::as_str).map(line).unwrap_or_default();
        let waits = held_words(held_changes(&gateway.status));
        let message = format!("{waits}, because the new files allow more. The first: {first}");
        vec![found(Outcome::Warning, message, facts.command("config apply"))]
    })
}

/// Reports contract and policy files of the last run that are gone. `serve` refuses to start without them.
pub(super) fn missing(facts: &Facts) -> Vec<Finding> {
    let failure = match &facts.missing_files {
        MissingFiles::Found(failure) => failure,
        MissingFiles::NoneFound => return ok("no contract or policy file is missing"),
        MissingFiles::NotChecked(reason) => return skipped(*reason),
    };
    let message = failure.to_string();
    // A heading, and a line for each file and each change.
    let (heading, lines) = message.split_once('\n').unwrap_or((message.as_str(), ""));
    let lines: Vec<String> = lines.lines().map(|one| line(one.trim())).collect();
    let message = format!("{} {}", line(heading), lines.join("; "));
    vec![found(Outcome::Error, message.trim_end(), failure.hint_text().unwrap_or_default())]
}

pub(super) fn file_modes(facts: &Facts) -> Vec<Finding> {
    let findings = facts.open_files.iter().map(|(path, mode)| {
        let message = format!("Other users have access (mode {mode:03o}).");
        about(path, found(Outcome::Error, message, facts.command("doctor --fix")))
    });
    or_ok(findings.collect(), "only you can access the secrets in the data folder")
}
