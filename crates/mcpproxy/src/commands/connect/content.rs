//! The entries and rules that belong into the files of a client.

use std::path::PathBuf;

use crate::agent_clients::document::{Edit, KeyPath};
use crate::agent_clients::{Client, ENTRY, EntryValues, FileFormat, Machine, Permissions, RuleContent, RuleEdit};

/// The transport by which a client reaches the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Http,
    Stdio,
}

/// A file and its changes.
pub(super) struct FileContent {
    pub(super) path: PathBuf,
    pub(super) format: FileFormat,
    pub(super) change: Change,
}

pub(super) enum Change {
    Edits(Vec<Edit>),
    /// A file that belongs to mcpproxy alone.
    Whole(&'static str),
}

/// Returns the path of the entry in the client's file.
pub(super) fn entry_path(client: &Client) -> KeyPath {
    keys(client.config.servers).into_iter().chain([ENTRY.to_owned()]).collect()
}

/// Returns all files of a client. Edits of the same file are joined.
pub(super) fn of_client(
    client: &Client,
    machine: &Machine,
    transport: Transport,
    values: &EntryValues,
    with_rules: bool,
) -> Vec<FileContent> {
    let shape = match (transport, &client.http) {
        (Transport::Http, Some(http)) => http,
        (Transport::Http, None) | (Transport::Stdio, _) => &client.stdio,
    };
    let entry = Edit::Set { path: entry_path(client), value: shape.fill(values) };
    let mut files = Vec::new();
    if let Some(path) = client.config_path(machine) {
        files.push(FileContent { path, format: client.config.format, change: Change::Edits(vec![entry]) });
    }
    if let (true, Permissions::Rules { files: rules, .. }) = (with_rules, &client.permissions) {
        for rule in rules.iter() {
            if let Some(path) = rule.places.path(machine) {
                add(&mut files, path, &rule.content, values);
            }
        }
    }
    files
}

fn add(files: &mut Vec<FileContent>, path: PathBuf, content: &RuleContent, values: &EntryValues) {
    match content {
        RuleContent::Whole { format, text } => {
            files.push(FileContent { path, format: *format, change: Change::Whole(text) });
        }
        RuleContent::Edits { format, edits } => {
            let edits = edits.iter().map(|edit| edit_of(edit, values));
            match files.iter_mut().find(|file| file.path == path).map(|file| &mut file.change) {
                Some(Change::Edits(all)) => all.extend(edits),
                Some(Change::Whole(_)) | None => {
                    files.push(FileContent { path, format: *format, change: Change::Edits(edits.collect()) });
                }
            }
        }
    }
}

fn edit_of(edit: &RuleEdit, values: &EntryValues) -> Edit {
    match edit {
        RuleEdit::Set { path, value } => Edit::Set { path: keys(path), value: value.fill(values) },
        RuleEdit::AddToList { path, values } => Edit::AddToList { path: keys(path), values: keys(values) },
    }
}

fn keys(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}
