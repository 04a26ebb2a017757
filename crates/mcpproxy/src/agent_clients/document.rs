//! Edits a client's file and keeps everything else: comments, order, indentation, line endings and the byte order mark.
//!
//! Three editors know the formats: [`json`] and [`toml`] change a syntax tree, [`yaml`] changes lines. None of them is
//! trusted. [`apply`] first computes the expected content with plain values, in [`change`]. Then it edits the text,
//! parses the result and compares. If they differ, the file stays as it is, and the error says so. So a bug in an
//! editor, or a file that it does not understand, cannot damage settings.
//!
//! Line endings work the same way for all formats. The editors see `\n` only. Afterwards, lines that did not change get
//! their old ending back, and new lines get the ending of the first line.

mod change;
mod diff;
mod json;
mod masked;
mod toml;
mod yaml;

use std::fmt;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::FileFormat;

pub(crate) use diff::diff;
pub(crate) use masked::Shown;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Keys that lead to a value.
pub(crate) type KeyPath = Vec<String>;

/// One change in a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    /// Sets a value, and creates the tables that lead to it.
    Set { path: KeyPath, value: Value },
    /// Adds texts that the list does not have. Creates the list.
    AddToList { path: KeyPath, values: Vec<String> },
    /// Removes a value, if it exists.
    Remove { path: KeyPath },
    /// Removes texts from a list, if they exist.
    RemoveFromList { path: KeyPath, values: Vec<String> },
}

impl Edit {
    fn path(&self) -> &[String] {
        match self {
            Self::Set { path, .. }
            | Self::AddToList { path, .. }
            | Self::Remove { path }
            | Self::RemoveFromList { path, .. } => path,
        }
    }
}

/// A file that cannot be read or edited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DocumentError {
    Syntax {
        line: usize,
        column: usize,
        message: String,
    },
    /// A value on the way is no table, or no list.
    WrongKind {
        path: String,
        expected: &'static str,
    },
    Duplicate {
        key: String,
    },
    /// The editor cannot change this text safely.
    TooUnusual,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, column, message } => write!(f, "line {line}, column {column}: {message}"),
            Self::WrongKind { path, expected } => write!(f, "`{path}` is not {expected}"),
            Self::Duplicate { key } => {
                write!(f, "the key `{key}` occurs twice, so it is unclear which one the client reads")
            }
            Self::TooUnusual => f.write_str("the file is written in a way that mcpproxy cannot edit without loss"),
        }
    }
}

/// Parses a file. An empty file is an empty table.
pub(crate) fn read(text: &str, format: FileFormat) -> Result<Value, DocumentError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let value = match format {
        FileFormat::Json => json::read(text),
        FileFormat::Toml => toml::read(text),
        FileFormat::Yaml => yaml::read(text),
    }?;
    Ok(if value.is_null() { Value::Object(serde_json::Map::new()) } else { value })
}

/// Returns the value at a path.
pub(crate) fn get<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.as_object()?.get(key))
}

/// Returns the edited text. Leaves everything else as it is.
pub(crate) fn apply(text: &str, format: FileFormat, edits: &[Edit]) -> Result<String, DocumentError> {
    let before = read(text, format)?;
    let mut expected = before.clone();
    for edit in edits {
        change::apply(&mut expected, edit)?;
    }
    if expected == before {
        return Ok(text.to_owned());
    }
    let (mark, body) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(body) => (BYTE_ORDER_MARK, body),
        None => ("", text),
    };
    let plain = body.replace("\r\n", "\n");
    let edited = match format {
        FileFormat::Json => json::apply(&plain, edits),
        FileFormat::Toml => toml::apply(&plain, edits),
        FileFormat::Yaml => yaml::apply(&plain, edits),
    }?;
    let edited = format!("{mark}{}", with_line_endings(body, &plain, &edited));
    if read(&edited, format).is_ok_and(|read| read == expected) { Ok(edited) } else { Err(DocumentError::TooUnusual) }
}

/// Gives unchanged lines their old ending, and new lines the ending of the first line.
fn with_line_endings(original: &str, plain: &str, edited: &str) -> String {
    if !original.contains("\r\n") {
        return edited.to_owned();
    }
    let ending = match original.split_inclusive('\n').next() {
        Some(line) if line.ends_with("\r\n") => "\r\n",
        Some(_) | None => "\n",
    };
    let mut kept = original.split_inclusive('\n');
    let mut out = String::with_capacity(edited.len() + 64);
    for change in TextDiff::from_lines(plain, edited).iter_all_changes() {
        match change.tag() {
            ChangeTag::Equal => out.push_str(kept.next().unwrap_or_default()),
            ChangeTag::Delete => drop(kept.next()),
            ChangeTag::Insert => match change.value().strip_suffix('\n') {
                Some(line) => out.extend([line, ending]),
                None => out.push_str(change.value()),
            },
        }
    }
    out
}

#[cfg(test)]
mod tests;
