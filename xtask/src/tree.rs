//! The files of the repository, without build output and downloads.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// Folders that `.gitignore` names, and Git's own.
const SKIPPED: [&str; 8] =
    [".git", ".tools", ".venv", ".pytest_cache", "__pycache__", "node_modules", "target", ".insta"];

pub(crate) struct Tree {
    /// Sorted by path.
    pub(crate) files: Vec<File>,
}

pub(crate) struct File {
    /// The path from the root, with `/` on every system.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// One problem and its position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    path: String,
    line: usize,
    message: String,
}

impl Problem {
    /// `line` counts from 1.
    pub(crate) fn new(file: &File, line: usize, message: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, message: message.into() }
    }

    pub(crate) fn missing(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 1, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

impl Tree {
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|a: &File, b: &File| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// Builds a tree in memory.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Self { files: files.iter().map(file).collect() }
    }

    pub(crate) fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    pub(crate) fn below<'t>(&'t self, folder: &'t str) -> impl Iterator<Item = &'t File> {
        self.rust().filter(move |file| file.path.starts_with(folder))
    }
}

/// Returns true for tool lists of other servers and queries for them. These are data that others wrote.
fn is_others_words(path: &str) -> bool {
    let is_below = |folder: &str| path.starts_with(folder);
    is_below("crates/mcpproxy-core/tests/data/tools/") || (is_below("xtask/data/search/") && path.ends_with(".jsonl"))
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<File>) -> anyhow::Result<()> {
    let listed = fs::read_dir(folder).with_context(|| format!("could not list `{}`", folder.display()))?;
    for found in listed {
        let found = found?;
        let name = found.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = found.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            read_folder(&found.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && !name.ends_with(".log") && !is_others_words(&path) {
            let bytes = fs::read(found.path()).with_context(|| format!("could not read `{path}`"))?;
            // Binary files such as images have no text to check, but pages link to them.
            files.push(File { path, text: String::from_utf8(bytes).unwrap_or_default() });
        }
    }
    Ok(())
}
