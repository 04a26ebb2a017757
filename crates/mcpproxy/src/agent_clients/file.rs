//! Reads and replaces a file of a client, or refuses with a reason.
//!
//! A client's file belongs to another program, so this module is careful in both directions:
//!
//! - [`ClientFile::read`] follows a symbolic link to its target. It refuses what it cannot replace later: a folder, a
//!   pipe, a file of another user, a read-only file or folder, a broken link.
//! - [`ClientFile::replace`] writes a temporary file beside the target and renames it. It first compares the file with
//!   what was read, so that a change by the client in between is never lost.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::exit::{Exit, Failure};
use crate::terminal::shell::plain_word;

/// Larger than any real file. Claude Code's file grows to some megabytes.
const FILE_MAX_BYTES: u64 = 32 * 1024 * 1024;
const NEW_FILE_MODE: u32 = 0o600;
const NEW_FOLDER_MODE: u32 = 0o700;

/// A client's file as it was read.
#[derive(Clone, Debug)]
pub(crate) struct ClientFile {
    /// The path that the client uses.
    pub(crate) path: PathBuf,
    /// The file itself, if the path is a symbolic link.
    pub(crate) target: PathBuf,
    /// `None` if the file does not exist.
    pub(crate) text: Option<String>,
    /// The permissions of the file, or of a new one.
    pub(crate) mode: u32,
}

impl ClientFile {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let link = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check_folder(&path)?;
                return Ok(Self { target: path.clone(), path, text: None, mode: NEW_FILE_MODE });
            }
            Err(error) => return Err(unreadable(&path, &error)),
        };
        check_owner(&path, &link)?;
        let target = if link.is_symlink() { follow(&path)? } else { path.clone() };
        let file =
            open(&target).map_err(|error| not_regular(&target).unwrap_or_else(|| unreadable(&target, &error)))?;
        let metadata = file.metadata().map_err(|error| unreadable(&target, &error))?;
        if let Some(refused) = not_regular(&target) {
            return Err(refused);
        }
        check_owner(&target, &metadata)?;
        if metadata.mode() & 0o200 == 0 {
            return Err(Failure::new(Exit::Failed, format!("`{}` is read-only.", target.display()))
                .hint(format!("make it writable with `chmod u+w {}`", word(&target))));
        }
        check_folder(&target)?;
        let text = read_text(&target, file)?;
        Ok(Self { path, target, text: Some(text), mode: metadata.mode() & 0o7777 })
    }

    pub(crate) fn is_link(&self) -> bool {
        self.path != self.target
    }

    /// Returns the digest of the text, or `None` for a missing file.
    pub(crate) fn digest(&self) -> Option<String> {
        self.text.as_deref().map(digest)
    }

    /// Checks that the file is still as it was read.
    pub(crate) fn check_unchanged(&self) -> Result<(), Failure> {
        let now = Self::read(&self.path)?;
        if now.text == self.text && now.target == self.target {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Failed,
            format!("`{}` changed after the preview. Nothing was written.", self.path.display()),
        )
        .hint("run the command again to see the new difference"))
    }

    /// Writes a new text and keeps the permissions. Returns the folders that it created.
    pub(crate) fn replace(&self, text: &str) -> Result<Vec<PathBuf>, Failure> {
        self.replace_with_mode(Some(text), self.mode)
    }

    /// Writes a new text with these permissions, or removes the file. Returns the folders that it created.
    pub(crate) fn replace_with_mode(&self, text: Option<&str>, mode: u32) -> Result<Vec<PathBuf>, Failure> {
        let failed = |error: &io::Error| {
            Failure::new(Exit::Failed, format!("could not write `{}`: {error}", self.target.display()))
                .hint("check the permissions of the file and its folder")
        };
        self.check_unchanged()?;
        let Some(text) = text else {
            return fs::remove_file(&self.target).map(|()| Vec::new()).map_err(|error| failed(&error));
        };
        let folder = self.target.parent().unwrap_or(Path::new("/"));
        let created = create_folders(folder).map_err(|error| failed(&error))?;
        self.persist(folder, text, mode).map_err(|error| failed(&error))?;
        Ok(created)
    }

    fn persist(&self, folder: &Path, text: &str, mode: u32) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        if let Ok(before) = self.target.metadata() {
            // Not every user may give a file to another group. The file is then in the user's own group.
            let _only_wanted = std::os::unix::fs::fchown(file.as_file(), None, Some(before.gid()));
        }
        file.as_file().sync_all()?;
        match self.text {
            Some(_) => file.persist(&self.target)?,
            None => file.persist_noclobber(&self.target)?,
        };
        File::open(folder)?.sync_all()
    }
}

/// Returns the permissions without those of other users, for a file with a token.
pub(crate) fn private(mode: u32) -> u32 {
    mode & !0o077
}

/// Returns the SHA-256 digest of a text as hexadecimal digits.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut out, byte| {
        let _infallible = write!(out, "{byte:02x}");
        out
    })
}

/// Opens a file without blocking, even if it is a pipe without a writer.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn follow(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(|error| {
        let shown = path.display();
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "its target does not exist".to_owned(),
            _ => error.to_string(),
        };
        Failure::new(Exit::Failed, format!("`{shown}` is a broken symbolic link: {reason}."))
            .hint(format!("remove the link (`rm {}`), or restore its target", word(path)))
    })
}

fn read_text(path: &Path, file: File) -> Result<String, Failure> {
    let shown = path.display();
    let mut bytes = Vec::new();
    file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        let limit = FILE_MAX_BYTES / 1024 / 1024;
        return Err(Failure::new(Exit::Failed, format!("`{shown}` is larger than {limit} MiB, so it is not edited."))
            .hint("check whether it is really the settings file of the client"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::new(Exit::Failed, format!("`{shown}`: line {line} is not UTF-8 text."))
            .hint("save the file as UTF-8, and run the command again")
    })
}

fn not_regular(path: &Path) -> Option<Failure> {
    let metadata = path.metadata().ok().filter(|metadata| !metadata.is_file())?;
    let kind = if metadata.is_dir() { "a folder" } else { "a pipe or device" };
    Some(
        Failure::new(Exit::Failed, format!("`{}` is not a file but {kind}.", path.display()))
            .hint("move it away, and run the command again"),
    )
}

fn check_owner(path: &Path, metadata: &fs::Metadata) -> Result<(), Failure> {
    let us = rustix::process::geteuid().as_raw();
    if metadata.uid() == us {
        return Ok(());
    }
    let (shown, owner) = (path.display(), metadata.uid());
    Err(Failure::new(Exit::Failed, format!("`{shown}` belongs to another user (uid {owner}, you are {us})."))
        .hint("run the command as that user"))
}

/// Checks that a file can be created or replaced in its folder.
fn check_folder(path: &Path) -> Result<(), Failure> {
    // A missing folder is created below the first one that exists.
    let existing = path.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok());
    let Some(folder) = existing else { return Ok(()) };
    let shown = folder.display();
    let metadata = folder.metadata().map_err(|error| unreadable(folder, &error))?;
    if !metadata.is_dir() {
        return Err(Failure::new(Exit::Failed, format!("`{shown}` is not a folder."))
            .hint("move it away, and run the command again"));
    }
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if is_ours && metadata.mode() & 0o200 == 0 {
        return Err(Failure::new(Exit::Failed, format!("The folder `{shown}` is read-only."))
            .hint(format!("make it writable with `chmod u+w {}`", word(folder))));
    }
    Ok(())
}

fn create_folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut missing: Vec<PathBuf> =
        folder.ancestors().take_while(|folder| folder.symlink_metadata().is_err()).map(Path::to_owned).collect();
    fs::DirBuilder::new().recursive(true).mode(NEW_FOLDER_MODE).create(folder)?;
    missing.reverse();
    Ok(missing)
}

/// Returns a path as a word of a shell command.
fn word(path: &Path) -> String {
    plain_word(&path.display().to_string())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("could not read `{}`: {error}", path.display()))
        .hint("check the permissions of the file and its folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_commands_can_be_pasted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my file.json");
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        let outcome = Err(ClientFile::read(&path).unwrap_err().into());
        let (_, text) = crate::exit::report(&outcome);
        let expected = format!("`chmod u+w '{}'`", path.display());
        assert!(text.as_ref().is_some_and(|text| text.contains(&expected)), "{text:?}");
    }
}
