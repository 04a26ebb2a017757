//! The files of a data folder that a backup contains.
//!
//! Left out are files that a gateway makes again (`logs/`, `tools/`), locks, and the files of the database, whose rows the
//! archive contains.

use std::fs;
use std::io;
use std::path::{Component, Path};

use anyhow::Context as _;

use super::{CHECKPOINT, SETTINGS};
use crate::exit::{Exit, Failure};
use crate::home::rotation::RETIRED_KEYS;
use crate::home::set_aside::set_aside_checkpoints;
use crate::home::{Home, keys};
use crate::lock_file;

/// Folders whose files belong to the data folder.
const FOLDERS: [&str; 4] = ["contracts", "policies", "secrets", "connect"];
const DEPTH_MAX: usize = 8;
const FILES_MAX: usize = 50_000;

/// Reads the files, with their paths relative to the data folder.
pub(super) fn read(home: &Home) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for name in single_files() {
        let path = home.folder().join(name);
        match fs::read(&path) {
            Ok(bytes) => files.push((name.to_owned(), bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("could not read `{}`", path.display())),
        }
    }
    for name in FOLDERS {
        walk(&home.folder().join(name), name, 0, &mut files)?;
    }
    Ok(files)
}

/// The names of files in the data folder itself.
fn single_files() -> impl Iterator<Item = &'static str> {
    let own = [SETTINGS, CHECKPOINT, RETIRED_KEYS, lock_file::NAME];
    own.into_iter().chain(keys()).chain(set_aside_checkpoints())
}

fn walk(folder: &Path, name: &str, depth: usize, files: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    let doing = || format!("could not read `{}`", folder.display());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound && depth == 0 => return Ok(()),
        Err(error) => return Err(error).with_context(doing),
    };
    if depth > DEPTH_MAX || files.len() > FILES_MAX {
        let message = format!("`{}` has too many files or folders for a backup.", folder.display());
        return Err(Failure::new(Exit::Failed, message)
            .hint("move files that mcpproxy does not need elsewhere")
            .into());
    }
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>().with_context(doing)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let file_name = entry.file_name();
        let part = file_name.to_str().with_context(|| format!("the name of `{}` is not UTF-8", path.display()))?;
        let name = format!("{name}/{part}");
        // Follows links: mounted files often are links, and the backup must have their content.
        let metadata = fs::metadata(&path).with_context(|| format!("could not read `{}`", path.display()))?;
        if metadata.is_dir() {
            walk(&path, &name, depth + 1, files)?;
        } else if metadata.is_file() {
            files.push((name, fs::read(&path).with_context(|| format!("could not read `{}`", path.display()))?));
        }
    }
    Ok(())
}

/// Tells if a backup may contain a file with this path. Anything else could lead out of the data folder.
pub(super) fn is_expected(name: &str) -> bool {
    let path = Path::new(name);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let in_folder = || name.split_once('/').is_some_and(|(folder, rest)| FOLDERS.contains(&folder) && !rest.is_empty());
    is_plain && !name.contains('\0') && (single_files().any(|known| known == name) || in_folder())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_data_folder_are_restored() {
        for name in
            ["mcp_config.json", "signing.key", "signing.key.old", "retired-keys.txt", "contracts/a/b.yaml", "secrets/x"]
        {
            assert!(is_expected(name), "{name}");
        }
        for name in ["", "x", "/etc/passwd", "contracts/../../x", "../x", "contracts", "logs/x", "./signing.key/.."] {
            assert!(!is_expected(name), "{name}");
        }
    }
}
