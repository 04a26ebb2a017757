//! Copies of clients' files from before a change. They may hold secrets of other servers, so only this user can read
//! them.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::home::secret::create_folder;

const BACKUP_MODE: u32 = 0o600;

/// Writes a text, byte for byte, to a new file in the folder: `cursor-1-mcp.json` for the `name` cursor. Never
/// replaces an earlier backup.
pub(crate) fn write(folder: &Path, name: &str, original: &Path, text: &str) -> anyhow::Result<PathBuf> {
    create_folder(folder)?;
    let file_name = original.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let doing = || format!("could not write a backup into `{}`", folder.display());
    for number in 1_u32.. {
        let path = folder.join(format!("{name}-{number}-{file_name}"));
        let opened = fs::OpenOptions::new().write(true).create_new(true).mode(BACKUP_MODE).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error).with_context(doing),
        };
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written {
            remove(&path);
            return Err(error).with_context(doing);
        }
        return Ok(path);
    }
    anyhow::bail!("no name is free for a backup in `{}`", folder.display())
}

/// Removes a backup that nobody needs. One that is already gone is not an error.
pub(crate) fn remove(path: &Path) {
    let _gone = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn backups_are_private_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let backups = folder.path().join("connect/backups");
        let original = Path::new("/home/kim/.cursor/mcp.json");
        let first = write(&backups, "cursor", original, "one").unwrap();
        let second = write(&backups, "cursor", original, "two").unwrap();
        assert_eq!(
            (first.as_path(), second.as_path()),
            (backups.join("cursor-1-mcp.json").as_path(), backups.join("cursor-2-mcp.json").as_path())
        );
        assert_eq!(
            (fs::read_to_string(&first).unwrap(), fs::read_to_string(&second).unwrap()),
            ("one".to_owned(), "two".to_owned())
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&backups), mode(&first)), (0o700, 0o600));
        remove(&first);
        remove(&first);
        assert!(!first.exists() && second.exists());
    }
}
