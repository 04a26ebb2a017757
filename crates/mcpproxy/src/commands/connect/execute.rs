//! Writes a planned connection: all of its files, or none.
//!
//! If a step fails, everything of this run is taken back: files, folders, backups, the record and the token. A file is
//! restored only if its text is still the one that this run wrote. Otherwise the record and the backups stay, so that
//! `--undo` can remove the rest.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::content::Change;
use super::journal::{FileRecord, Journal, Record, Step, value_digest};
use super::plan::{Plan, PlannedFile};
use super::token::{TokenPlan, Tokens};
use crate::agent_clients::document::{self, Edit};
use crate::agent_clients::file::{ClientFile, digest, private};
use crate::agent_clients::{Client, backup};
use crate::exit::{Exit, Failure};
use crate::terminal::output::warn;
use crate::terminal::time::now_ms;

/// Connects a client. Returns the backup of each file.
pub(super) async fn connect(
    plan: &Plan,
    journal: &Journal,
    tokens: &mut Tokens<'_>,
) -> anyhow::Result<Vec<Option<String>>> {
    let _lock = journal.lock()?;
    // Another run may have connected the client since this one read its record. The plan would then create a second
    // token, and replace an entry that it takes for nobody's.
    journal.check_unchanged(plan.client, plan.record.as_ref())?;
    for planned in &plan.files {
        planned.file.check_unchanged()?;
    }
    let mut attempt = Attempt::default();
    let record = match attempt.run(plan, journal, tokens).await {
        Ok(record) => record,
        Err(error) => return Err(attempt.take_back(plan, journal, tokens, error).await),
    };
    if let Some(agent) = plan.agent_to_revoke() {
        tokens.revoke(agent).await?;
        // Saved last: if this process ends before, the next run still knows which token to revoke.
        journal.save(plan.client, &Record { agent: None, ..record })?;
    }
    Ok(attempt.shown_backups)
}

/// Everything that a run has written so far.
#[derive(Default)]
struct Attempt<'p> {
    backups: Vec<PathBuf>,
    /// The backup of each file, also from an earlier run.
    shown_backups: Vec<Option<String>>,
    files: Vec<WrittenFile<'p>>,
    has_created_token: bool,
}

struct WrittenFile<'p> {
    before: &'p ClientFile,
    text: String,
    created_folders: Vec<PathBuf>,
}

impl<'p> Attempt<'p> {
    async fn run(&mut self, plan: &'p Plan, journal: &Journal, tokens: &mut Tokens<'_>) -> anyhow::Result<Record> {
        let mut record = plan.record.clone().unwrap_or_default();
        plan.client.id.clone_into(&mut record.client);
        record.connected = crate::commands::token::universal_time(now_ms());
        record.permissions = plan.has_rules;
        let token = match &plan.token {
            TokenPlan::NotNeeded => String::new(),
            TokenPlan::Keep { secret, .. } => secret.clone(),
            TokenPlan::Create { agent } => {
                // Saved first: if this process ends now, the next run knows whose token it is.
                record.agent = Some(agent.clone());
                journal.save(plan.client, &record)?;
                let secret = tokens.create(agent, plan.recorded_agent() == Some(agent)).await?;
                self.has_created_token = true;
                secret
            }
        };
        self.write(plan, journal, record, token)
    }

    fn write(
        &mut self,
        plan: &'p Plan,
        journal: &Journal,
        mut record: Record,
        token: String,
    ) -> anyhow::Result<Record> {
        let texts = plan.texts(token)?;
        for ((planned, text), change) in plan.files.iter().zip(&texts).zip(plan.edits()) {
            let known = record.files.iter().position(|known| known.path == planned.file.path);
            let known = known.map(|index| record.files.remove(index));
            let new = file_record(planned, text, &change, known, |old| {
                let backup = journal.back_up(plan.client, &planned.file.path, old)?;
                self.backups.push(backup.clone());
                Ok(backup)
            })?;
            let shown = new.backup.as_ref().filter(|_| planned.is_changed());
            self.shown_backups.push(shown.map(|path| path.display().to_string()));
            record.files.push(new);
        }
        journal.save(plan.client, &record)?;
        for (planned, text) in plan.files.iter().zip(texts) {
            if !planned.differs_from(&text) {
                continue;
            }
            let created_folders = planned.file.replace_with_mode(Some(&text), planned.mode)?;
            if let Some(file) = record.files.iter_mut().find(|file| file.path == planned.file.path) {
                file.created_folders.extend(created_folders.iter().cloned());
            }
            self.files.push(WrittenFile { before: &planned.file, text, created_folders });
        }
        journal.save(plan.client, &record)?;
        Ok(record)
    }

    /// Takes everything back after an error, so that a client is never half connected. Returns the error.
    async fn take_back(
        self,
        plan: &Plan,
        journal: &Journal,
        tokens: &mut Tokens<'_>,
        error: anyhow::Error,
    ) -> anyhow::Error {
        // Without a token of this run, one with the same name belongs to the user.
        if let (TokenPlan::Create { agent }, true) = (&plan.token, self.has_created_token)
            && let Err(error) = tokens.revoke(agent).await
        {
            warn(&format!("The token of agent `{agent}` is still valid: {error:#}"));
        }
        let failures: Vec<Failure> = self.files.iter().filter_map(|file| file.restore(plan.client).err()).collect();
        if !failures.is_empty() {
            return Failure::all([Failure::new(Exit::Failed, format!("{error:#}"))].into_iter().chain(failures)).into();
        }
        let restored = match &plan.record {
            Some(before) => journal.save(plan.client, before),
            None => journal.remove(plan.client, &Record::default()),
        };
        match restored {
            Ok(()) => self.backups.iter().for_each(|path| backup::remove(path)),
            Err(error) => warn(&format!("{error:#}")),
        }
        error
    }
}

impl WrittenFile<'_> {
    fn restore(&self, client: &Client) -> Result<(), Failure> {
        let before = self.before;
        let now = ClientFile::read(&before.path)?;
        if now.text.as_ref() != Some(&self.text) {
            let message = format!("`{}` has changed since, so it was not restored.", before.path.display());
            return Err(
                Failure::new(Exit::Failed, message).hint(format!("run `mcpproxy connect {} --undo`", client.id))
            );
        }
        now.replace_with_mode(before.text.as_deref(), before.mode)?;
        for folder in self.created_folders.iter().rev() {
            // Only empty folders can be removed, so nothing of the client is lost.
            let _not_empty = fs::remove_dir(folder);
        }
        Ok(())
    }
}

fn file_record(
    planned: &PlannedFile,
    text: &str,
    change: &Change,
    known: Option<FileRecord>,
    back_up: impl FnOnce(&str) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<FileRecord> {
    let before = planned.file.digest();
    let steps = steps(planned, text, change, known.as_ref());
    let sha256_after = digest(text);
    let mode_before = mode_before(planned, known.as_ref());
    if let Some(known) = known {
        // Nobody else changed the file since then, so the first backup is still the right one.
        let is_ours = before.as_deref() == Some(known.sha256_after.as_str()) || before == known.sha256_before;
        if is_ours {
            return Ok(FileRecord { sha256_after, mode_before, steps, ..known });
        }
        let backup = planned.file.text.as_deref().map(back_up).transpose()?;
        let is_restorable = !holds_any(planned, &known.steps);
        let sha256_before = before;
        return Ok(FileRecord { sha256_before, mode_before, sha256_after, backup, is_restorable, steps, ..known });
    }
    Ok(FileRecord {
        path: planned.file.path.clone(),
        backup: planned.file.text.as_deref().map(back_up).transpose()?,
        sha256_before: before,
        mode_before,
        sha256_after,
        is_restorable: true,
        created_folders: Vec::new(),
        steps,
    })
}

/// Returns the permissions to restore. If the file has those that an earlier run set, they are the ones from before.
fn mode_before(planned: &PlannedFile, known: Option<&FileRecord>) -> Option<u32> {
    let now = planned.file.text.as_ref().map(|_| planned.file.mode);
    match known.and_then(|known| known.mode_before) {
        Some(before) if now == Some(private(before)) => Some(before),
        Some(_) | None => now,
    }
}

/// Checks whether the file still has something that an earlier run wrote. Restoring it would then not be an undo.
fn holds_any(planned: &PlannedFile, steps: &[Step]) -> bool {
    let text = planned.file.text.as_deref().unwrap_or_default();
    let value = document::read(text, planned.format).unwrap_or(Value::Null);
    steps.iter().any(|step| match step {
        Step::Set { path, .. } => document::get(&value, path).is_some(),
        Step::List { path, values } => {
            let list = document::get(&value, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            list.iter().any(|item| values.iter().any(|value| item.as_str() == Some(value)))
        }
    })
}

/// Returns the single changes of a file. A change inside another one is not listed.
fn steps(planned: &PlannedFile, text: &str, change: &Change, known: Option<&FileRecord>) -> Vec<Step> {
    let Change::Edits(edits) = change else { return Vec::new() };
    let read = |text: &str| document::read(text, planned.format).unwrap_or(Value::Null);
    let (before, after) = (read(planned.file.text.as_deref().unwrap_or_default()), read(text));
    let mut steps: Vec<Step> = Vec::new();
    for edit in edits {
        let known = |path: &[String]| known.and_then(|known| known.steps.iter().find(|step| step.path() == path));
        match edit {
            Edit::Set { path, .. } => {
                let is_inside = steps.iter().any(|step| path.starts_with(step.path()));
                if let (Some(value), false) = (document::get(&after, path), is_inside) {
                    let previous = match known(path) {
                        Some(Step::Set { previous, .. }) => previous.clone(),
                        Some(Step::List { .. }) | None => document::get(&before, path).cloned(),
                    };
                    steps.push(Step::Set { path: path.clone(), sha256: value_digest(value), previous });
                }
            }
            Edit::AddToList { path, values } => {
                let ours = match known(path) {
                    Some(Step::List { values, .. }) => values.clone(),
                    Some(Step::Set { .. }) | None => Vec::new(),
                };
                let had = document::get(&before, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let is_new = |value: &&String| {
                    ours.contains(value) || !had.iter().any(|item| item.as_str() == Some(value.as_str()))
                };
                let values = values.iter().filter(is_new).cloned().collect();
                steps.push(Step::List { path: path.clone(), values });
            }
            Edit::Remove { .. } | Edit::RemoveFromList { .. } => {}
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent_clients::find;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_restored_only_if_nobody_else_changed_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let before = ClientFile::read(&path).unwrap();
        let created_folders = before.replace_with_mode(Some("ours"), 0o600).unwrap();
        let written = WrittenFile { before: &before, text: "ours".to_owned(), created_folders };
        let client = find("cursor").unwrap();

        fs::write(&path, "theirs").unwrap();
        let failure = written.restore(client).unwrap_err();
        assert!(failure.to_string().ends_with("has changed since, so it was not restored."), "{failure}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");

        fs::write(&path, "ours").unwrap();
        written.restore(client).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    }
}
