//! Undoes a connection: restores each file, or removes only what mcpproxy wrote.
//!
//! | the file is now | undo |
//! |---|---|
//! | as `connect` wrote it | restores the backup byte for byte, or removes a file that did not exist |
//! | as it was before | nothing to do |
//! | gone | nothing to do |
//! | changed, and the entry is as `connect` wrote it | removes the entry, or puts the previous one back |
//! | changed, and the entry too | refuses, and names the backup |

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::journal::{FileRecord, Journal, Record, Step, value_digest};
use super::plan::bad_file;
use super::report::{ClientReport, FileChange, FileReport, State};
use super::token::Tokens;
use crate::agent_clients::document::{self, Edit, Shown};
use crate::agent_clients::file::{ClientFile, digest, private};
use crate::agent_clients::{Client, FileFormat, Permissions, RuleContent};
use crate::exit::{Exit, Failure};

/// Everything that undoing would change.
pub(super) struct Plan {
    pub(super) client: &'static Client,
    record: Record,
    files: Vec<PlannedUndo>,
}

struct PlannedUndo {
    file: ClientFile,
    change: FileChange,
    /// The text after the undo. `None` removes the file.
    new_text: Option<String>,
    mode: u32,
    created_folders: Vec<std::path::PathBuf>,
    diff: String,
}

impl Plan {
    pub(super) fn make(client: &'static Client, journal: &Journal) -> Result<Self, Failure> {
        let record = journal.load(client)?.ok_or_else(|| not_connected(client))?;
        let files = record.files.iter().map(|file| planned(client, file)).collect::<Result<_, _>>()?;
        Ok(Self { client, record, files })
    }

    pub(super) fn diffs(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.diff.as_str())
    }

    pub(super) async fn execute(&self, journal: &Journal, tokens: &mut Tokens<'_>) -> anyhow::Result<()> {
        let _lock = journal.lock()?;
        journal.check_unchanged(self.client, Some(&self.record))?;
        for planned in &self.files {
            planned.file.check_unchanged()?;
        }
        for planned in self.files.iter().filter(|planned| planned.change != FileChange::Unchanged) {
            planned.file.replace_with_mode(planned.new_text.as_deref(), planned.mode)?;
            // Only empty folders can be removed, so nothing of the client is lost.
            for folder in planned.created_folders.iter().rev() {
                let _not_empty = fs::remove_dir(folder);
            }
        }
        if let Some(agent) = &self.record.agent {
            tokens.revoke(agent).await?;
        }
        journal.remove(self.client, &self.record)
    }

    pub(super) fn report(&self, state: State) -> ClientReport {
        let is_changed = self.files.iter().any(|planned| planned.change != FileChange::Unchanged);
        let files = self.files.iter().map(|planned| FileReport {
            path: planned.file.path.display().to_string(),
            change: planned.change,
            backup: None,
            diff: planned.diff.clone(),
        });
        ClientReport {
            client: self.client.id,
            title: self.client.title,
            state,
            transport: None,
            url: None,
            agent: self.record.agent.clone(),
            files: files.collect(),
            notes: Vec::new(),
            // A file that stays as it is need not be read again.
            restart: is_changed.then_some(self.client.restart),
            check: None,
        }
    }
}

fn planned(client: &Client, known: &FileRecord) -> Result<PlannedUndo, Failure> {
    let file = ClientFile::read(&known.path)?;
    let now = file.digest();
    let unchanged = |file: ClientFile| PlannedUndo {
        new_text: file.text.clone(),
        mode: file.mode,
        file,
        change: FileChange::Unchanged,
        created_folders: Vec::new(),
        diff: String::new(),
    };
    if file.text.is_none() || (now == known.sha256_before && known.is_restorable) {
        return Ok(unchanged(file));
    }
    let (change, new_text) = if now.as_deref() == Some(known.sha256_after.as_str()) && known.is_restorable {
        match &known.backup {
            Some(backup) => (FileChange::Restored, Some(read_backup(backup, known)?)),
            None => (FileChange::Removed, None),
        }
    } else {
        (FileChange::EntryRemoved, Some(without_steps(client, &file, known)?))
    };
    if new_text == file.text {
        return Ok(unchanged(file));
    }
    let shown = Shown { paths: known.steps.iter().map(|step| step.path().to_vec()).collect(), texts: Vec::new() };
    let format = format_of(client, &known.path);
    let diff = document::diff(&file.target, file.text.as_deref(), new_text.as_deref(), format, &shown);
    let created_folders = if change == FileChange::Removed { known.created_folders.clone() } else { Vec::new() };
    let mode = match known.mode_before {
        Some(before) if file.mode == private(before) => before,
        // Somebody else has changed the mode, or it was private before.
        Some(_) | None => file.mode,
    };
    Ok(PlannedUndo { file, change, new_text, mode, created_folders, diff })
}

fn read_backup(backup: &Path, known: &FileRecord) -> Result<String, Failure> {
    let shown = backup.display();
    let text = fs::read_to_string(backup).map_err(|error| {
        Failure::new(Exit::Failed, format!("could not read the backup `{shown}`: {error}. Nothing was changed."))
            .hint(format!("remove the entry `mcpproxy` from `{}` by hand", known.path.display()))
    })?;
    if Some(digest(&text)) == known.sha256_before {
        return Ok(text);
    }
    Err(Failure::new(Exit::Failed, format!("The backup `{shown}` was changed. Nothing was restored."))
        .hint(format!("remove the entry `mcpproxy` from `{}` by hand", known.path.display())))
}

/// Returns the text without what mcpproxy wrote. Refuses if somebody changed exactly that.
fn without_steps(client: &Client, file: &ClientFile, known: &FileRecord) -> Result<String, Failure> {
    let format = format_of(client, &known.path);
    let text = file.text.as_deref().unwrap_or_default();
    let value = document::read(text, format).map_err(|error| bad_file(file, &error))?;
    let mut edits = Vec::new();
    for step in &known.steps {
        match step {
            Step::Set { path, sha256, previous } => match document::get(&value, path) {
                None => {}
                Some(now) if value_digest(now) == *sha256 => edits.push(match previous {
                    Some(previous) => Edit::Set { path: path.clone(), value: previous.clone() },
                    None => Edit::Remove { path: path.clone() },
                }),
                Some(_) => return Err(changed(file, known, &path.join("."))),
            },
            Step::List { path, values } => {
                if document::get(&value, path).is_some_and(Value::is_array) {
                    edits.push(Edit::RemoveFromList { path: path.clone(), values: values.clone() });
                }
            }
        }
    }
    if known.steps.is_empty() {
        return Err(changed(file, known, "the whole file"));
    }
    document::apply(text, format, &edits).map_err(|error| bad_file(file, &error))
}

fn changed(file: &ClientFile, known: &FileRecord, what: &str) -> Failure {
    let shown = file.path.display();
    let before = match &known.backup {
        Some(backup) => format!("the file before connecting is `{}`", backup.display()),
        None => "the file did not exist before connecting".to_owned(),
    };
    Failure::new(Exit::Failed, format!("`{shown}`: `{what}` was changed after connecting. Nothing was undone."))
        .hint(format!("edit the file by hand; {before}"))
}

/// Returns the format of one of the client's files.
fn format_of(client: &Client, path: &Path) -> FileFormat {
    let is_rules = |name: &std::ffi::OsStr| {
        let Permissions::Rules { files, .. } = &client.permissions else { return None };
        files.iter().find_map(|file| {
            let format = match file.content {
                RuleContent::Edits { format, .. } | RuleContent::Whole { format, .. } => format,
            };
            let all = [file.places.linux, file.places.macos, file.places.windows].concat();
            all.iter().any(|place| Path::new(place).file_name() == Some(name)).then_some(format)
        })
    };
    path.file_name().and_then(is_rules).unwrap_or(client.config.format)
}

fn not_connected(client: &Client) -> Failure {
    let message = format!("{} is not connected, so there is nothing to undo.", client.title);
    Failure::new(Exit::Failed, message).hint(format!("connect it with `mcpproxy connect {}`", client.id))
}
