//! Writes a planned connection: all of its files, or none.

use serde_json::Value;

use super::content::Change;
use super::journal::{FileRecord, Journal, Record, Step, value_digest};
use super::plan::{Plan, PlannedFile};
use super::token::{TokenPlan, Tokens};
use crate::agent_clients::document::{self, Edit};
use crate::agent_clients::file::{ClientFile, digest};
use crate::exit::{Exit, Failure};
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
    if journal.load(plan.client)? != plan.record {
        let message =
            format!("The connection of {} changed after the preview. Nothing was written.", plan.client.title);
        return Err(Failure::new(Exit::Failed, message).hint("run the command again to see the new difference").into());
    }
    for planned in &plan.files {
        planned.file.check_unchanged()?;
    }
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
            tokens.create(agent).await?
        }
    };
    let written = write(plan, journal, record, token);
    if let (Err(_), TokenPlan::Create { agent }) = (&written, &plan.token) {
        tokens.revoke(agent).await?;
        match &plan.record {
            Some(before) => journal.save(plan.client, before)?,
            None => journal.remove(plan.client, &Record::default())?,
        }
    }
    let backups = written?;
    if let (TokenPlan::NotNeeded, Some(agent)) =
        (&plan.token, plan.record.as_ref().and_then(|record| record.agent.as_ref()))
    {
        // The client now uses `mcpproxy stdio`, so nobody needs its token.
        tokens.revoke(agent).await?;
    }
    Ok(backups)
}

fn write(plan: &Plan, journal: &Journal, mut record: Record, token: String) -> anyhow::Result<Vec<Option<String>>> {
    let texts = plan.texts(token)?;
    let mut backups = Vec::new();
    for ((planned, text), change) in plan.files.iter().zip(&texts).zip(plan.edits()) {
        let known = record.files.iter().position(|known| known.path == planned.file.path);
        let known = known.map(|index| record.files.remove(index));
        let new =
            file_record(planned, text, &change, known, |old| journal.back_up(plan.client, &planned.file.path, old))?;
        backups.push(new.backup.as_ref().filter(|_| planned.is_changed()).map(|path| path.display().to_string()));
        record.files.push(new);
    }
    if matches!(plan.token, TokenPlan::NotNeeded) {
        record.agent = None;
    }
    journal.save(plan.client, &record)?;
    let mut done: Vec<&PlannedFile> = Vec::new();
    for (planned, text) in plan.files.iter().zip(&texts) {
        if planned.file.text.as_deref() == Some(text) {
            continue;
        }
        match planned.file.replace(Some(text)) {
            Ok(folders) => {
                if let Some(file) = record.files.iter_mut().find(|file| file.path == planned.file.path) {
                    file.created_folders.extend(folders);
                }
                done.push(planned);
            }
            Err(failure) => return Err(roll_back(&done, failure).into()),
        }
    }
    journal.save(plan.client, &record)?;
    Ok(backups)
}

/// Restores files that were already written, so that a client is never half connected.
fn roll_back(done: &[&PlannedFile], failure: Failure) -> Failure {
    for planned in done {
        let restored =
            ClientFile::read(&planned.file.path).and_then(|now| now.replace(planned.file.text.as_deref()).map(drop));
        if let Err(error) = restored {
            return Failure::all([failure, error]);
        }
    }
    failure
}

fn file_record(
    planned: &PlannedFile,
    text: &str,
    change: &Change,
    known: Option<FileRecord>,
    back_up: impl FnOnce(&str) -> anyhow::Result<std::path::PathBuf>,
) -> anyhow::Result<FileRecord> {
    let before = planned.file.digest();
    let steps = steps(planned, text, change, known.as_ref());
    let sha256_after = digest(text);
    if let Some(known) = known {
        // Nobody else changed the file since then, so the first backup is still the right one.
        let is_ours = before.as_deref() == Some(known.sha256_after.as_str()) || before == known.sha256_before;
        if is_ours {
            return Ok(FileRecord { sha256_after, steps, ..known });
        }
        let backup = planned.file.text.as_deref().map(back_up).transpose()?;
        let is_restorable = !holds_any(planned, &known.steps);
        return Ok(FileRecord { sha256_before: before, sha256_after, backup, is_restorable, steps, ..known });
    }
    Ok(FileRecord {
        path: planned.file.path.clone(),
        backup: planned.file.text.as_deref().map(back_up).transpose()?,
        sha256_before: before,
        sha256_after,
        is_restorable: true,
        created_folders: Vec::new(),
        steps,
    })
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
