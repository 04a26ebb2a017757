//! The journal of `connect`: one record per client in the data folder, and backups of the files.
//!
//! ```text
//! connect/cursor.json                 the record
//! connect/backups/cursor-1-mcp.json   the file before
//! connect/lock                        held while files are written
//! ```
//!
//! A record is saved before the files are written. So whatever happens in between, `--undo` knows what to look for: a
//! file that still has its old digest needs no undo. Backups may hold the secrets of other servers, so everything has
//! mode 0600, and `--undo` deletes the backups that it no longer needs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent_clients::document::KeyPath;
use crate::agent_clients::file::digest;
use crate::agent_clients::{self, CLIENTS, Client, backup};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::lock::HeldLock;
use crate::home::secret::{Readers, replace_file};

/// The files and the token of one connected client.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Record {
    pub(super) client: String,
    pub(super) connected: String,
    /// The agent whose token is in the file. `None` for `mcpproxy stdio`.
    pub(super) agent: Option<String>,
    /// True if the client's own rules were written too.
    pub(super) permissions: bool,
    pub(super) files: Vec<FileRecord>,
}

/// One written file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct FileRecord {
    pub(super) path: PathBuf,
    /// The file before. `None` if it did not exist.
    pub(super) backup: Option<PathBuf>,
    pub(super) sha256_before: Option<String>,
    /// The permissions of the file before, which it loses while it holds a token. `None` if it did not exist.
    #[serde(default)]
    pub(super) mode_before: Option<u32>,
    pub(super) sha256_after: String,
    /// False if the backup already has an entry of mcpproxy. Then only the entry is removed.
    pub(super) is_restorable: bool,
    pub(super) created_folders: Vec<PathBuf>,
    /// The single changes, to undo them in a file that others changed too.
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    Set { path: KeyPath, sha256: String, previous: Option<Value> },
    List { path: KeyPath, values: Vec<String> },
}

impl Step {
    pub(super) fn path(&self) -> &[String] {
        match self {
            Self::Set { path, .. } | Self::List { path, .. } => path,
        }
    }
}

/// Returns a digest of a value that does not depend on the order of its members.
pub(super) fn value_digest(value: &Value) -> String {
    digest(&sorted(value).to_string())
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let pairs = names.into_iter().filter_map(|name| Some((name.clone(), sorted(members.get(name)?))));
            Value::Object(pairs.collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The folder `connect/` of a data folder.
pub(super) struct Journal {
    home: Home,
    folder: PathBuf,
}

impl Journal {
    pub(super) fn of(home: &Home) -> Self {
        Self { home: home.clone(), folder: home.folder().join("connect") }
    }

    fn record_path(&self, client: &Client) -> PathBuf {
        self.folder.join(format!("{}.json", client.id))
    }

    /// Returns the clients that have a record.
    pub(super) fn clients(&self) -> anyhow::Result<Vec<&'static Client>> {
        let has_record = |client: &&Client| self.record_path(client).exists();
        Ok(CLIENTS.iter().filter(has_record).filter_map(|client| agent_clients::find(client.id)).collect())
    }

    pub(super) fn load(&self, client: &Client) -> Result<Option<Record>, Failure> {
        let path = self.record_path(client);
        let shown = path.display();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::new(Exit::Failed, format!("could not read `{shown}`: {error}"))),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            Failure::new(Exit::Failed, format!("`{shown}` is damaged: {error}")).hint(format!(
                "remove `{shown}`, and edit the client's file by hand; backups are in `{}`",
                self.folder.join("backups").display()
            ))
        })
    }

    /// Checks that a record is still as it was read. Needs the lock.
    pub(super) fn check_unchanged(&self, client: &Client, record: Option<&Record>) -> Result<(), Failure> {
        if self.load(client)?.as_ref() == record {
            return Ok(());
        }
        let message = format!("The connection of {} changed after the preview. Nothing was written.", client.title);
        Err(Failure::new(Exit::Failed, message).hint("run the command again to see the new difference"))
    }

    pub(super) fn save(&self, client: &Client, record: &Record) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(record)? + "\n";
        replace_file(&self.record_path(client), &text, Readers::OnlyUs)
    }

    /// Removes a record and its backups.
    pub(super) fn remove(&self, client: &Client, record: &Record) -> anyhow::Result<()> {
        let path = self.record_path(client);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("could not remove `{}`", path.display()));
            }
            Ok(()) | Err(_) => {}
        }
        for backup in record.files.iter().filter_map(|file| file.backup.as_ref()) {
            backup::remove(backup);
        }
        Ok(())
    }

    /// Copies a text into the data folder, readable for this user only.
    pub(super) fn back_up(&self, client: &Client, path: &Path, text: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join("backups");
        backup::write(&folder, client.id, path, text)
    }

    /// Waits until no other command of this data folder writes clients' files.
    pub(super) fn lock(&self) -> anyhow::Result<HeldLock> {
        self.home.create()?;
        agent_clients::lock(&self.home)
    }
}
