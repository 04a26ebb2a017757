//! Notices that the files of an open SQLite database were removed or replaced.
//!
//! An open file can be unlinked. Every write to it still succeeds, and is lost when the process ends. So whoever writes
//! compares the file behind the path with the file that was opened, by device and inode. The write-ahead log counts,
//! too: a commit is in there until it is copied to the database.
//!
//! SQLite itself never replaces these files while a connection is open. The last connection removes the write-ahead log
//! when it closes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Location, StoreError};

/// A file, whatever path leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

/// The files behind an open connection. Empty for PostgreSQL.
pub(crate) struct OpenFiles {
    files: Vec<(PathBuf, FileIdentity)>,
}

/// Tells the pool which of its connections have another file open than the path leads to now.
pub(super) struct FileWatch {
    path: PathBuf,
    state: Mutex<Watched>,
}

struct Watched {
    identity: FileIdentity,
    /// The time at which another file was found.
    changed: Option<Instant>,
}

impl OpenFiles {
    /// Remembers the files of a connection that has read already, so that its write-ahead log exists.
    pub(crate) fn of(location: &Location) -> Result<Self, StoreError> {
        let Location::Sqlite(path) = location else {
            return Ok(Self { files: Vec::new() });
        };
        let mut files = Vec::with_capacity(2);
        files.push((path.clone(), FileIdentity::of(path).map_err(|_| StoreError::Gone)?));
        let mut wal: OsString = path.clone().into();
        wal.push("-wal");
        let wal = PathBuf::from(wal);
        if let Ok(identity) = FileIdentity::of(&wal) {
            files.push((wal, identity));
        }
        Ok(Self { files })
    }

    /// Fails if one of the files is not where it was opened.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let is_there = |(path, identity): &(PathBuf, FileIdentity)| match FileIdentity::of(path) {
            Ok(found) => found == *identity,
            // A folder that cannot be read at the moment says nothing about the file.
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if self.files.iter().all(is_there) { Ok(()) } else { Err(StoreError::Gone) }
    }
}

impl FileWatch {
    /// The file must exist.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let state = Watched { identity: FileIdentity::of(path)?, changed: None };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// Tells if a connection of this age has the file open to which the path leads now.
    pub(super) fn is_current(&self, age: Duration) -> bool {
        let Ok(found) = FileIdentity::of(&self.path) else { return false };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if found != state.identity {
            *state = Watched { identity: found, changed: Some(Instant::now()) };
        }
        state.changed.is_none_or(|changed| age <= changed.elapsed())
    }
}

impl FileIdentity {
    #[cfg(unix)]
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = fs::metadata(path)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }

    /// Other systems do not remove an open file.
    #[cfg(not(unix))]
    fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|_| Self { device: 0, inode: 0 })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_removed_or_replaced_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, wal, aside] = ["x.db", "x.db-wal", "aside"].map(|name| folder.path().join(name));
        fs::write(&path, "").unwrap();
        fs::write(&wal, "").unwrap();
        let files = OpenFiles::of(&Location::Sqlite(path.clone())).unwrap();
        files.check().unwrap();
        for file in [&path, &wal] {
            fs::rename(file, &aside).unwrap();
            assert!(matches!(files.check(), Err(StoreError::Gone)), "removed");
            fs::write(file, "").unwrap();
            assert!(matches!(files.check(), Err(StoreError::Gone)), "replaced");
            fs::rename(&aside, file).unwrap();
            files.check().unwrap();
        }
    }

    #[test]
    fn connections_to_a_replaced_file_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let [path, aside] = ["x.db", "aside"].map(|name| folder.path().join(name));
        fs::write(&path, "").unwrap();
        let watch = FileWatch::new(&path).unwrap();
        let (old, new) = (Duration::from_secs(3600), Duration::ZERO);
        assert!(watch.is_current(old) && watch.is_current(new));
        fs::rename(&path, &aside).unwrap();
        assert!(!watch.is_current(old) && !watch.is_current(new), "there is no file");
        fs::write(&path, "").unwrap();
        assert!(!watch.is_current(old), "opened before the change");
        assert!(watch.is_current(new));
    }
}
