//! Puts the files of a backup into place, and keeps those that they replace.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcpproxy_store::Location;

use crate::archive::{Archive, CHECKPOINT, SETTINGS, SIGNING_KEY};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::{Readers, create_folder, replace_file};
use crate::operator_files::edit;
use crate::terminal::time::now_ms;

/// SQLite's files of one database.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// Returns a file that shows that the data folder is in use.
pub(super) fn existing(home: &Home) -> Option<PathBuf> {
    let names = [SETTINGS, SIGNING_KEY, CHECKPOINT, "restore.pending"];
    let mut paths = names.into_iter().map(|name| home.folder().join(name)).chain([home.database()]);
    paths.find(|path| path.metadata().is_ok_and(|metadata| metadata.len() > 0))
}

/// `PATH.WORD`, in the same folder.
pub(super) fn beside(path: &Path, word: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(word);
    name.into()
}

fn remove_database(path: &Path) -> anyhow::Result<()> {
    for suffix in SUFFIXES {
        let file = with_suffix(path, suffix);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("could not remove `{}`", file.display()));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The files of the backup, in the folder `restoring` of the data folder.
pub(super) struct StagedFiles {
    folder: PathBuf,
    /// Files and folders at the top level.
    names: BTreeSet<String>,
}

impl StagedFiles {
    pub(super) fn write(home: &Home, archive: &Archive, storage: Option<&str>) -> anyhow::Result<Self> {
        let folder = home.folder().join("restoring");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("could not remove `{}`", folder.display()));
            }
            Ok(()) | Err(_) => {}
        }
        create_folder(&folder)?;
        let mut names = BTreeSet::new();
        // The restored log gets a checkpoint of its own.
        for (name, bytes) in archive.files.iter().filter(|(name, _)| *name != CHECKPOINT) {
            let path = folder.join(name);
            create_folder(path.parent().unwrap_or(&folder))?;
            write(&path, bytes)?;
            names.extend(name.split('/').next().map(str::to_owned));
        }
        if let Some(url) = storage {
            let settings = archive.files.get(SETTINGS).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let text = edit::set_storage(settings.as_deref(), url);
            let text = text.map_err(|error| Failure::new(Exit::BadSettings, error.to_string()))?;
            replace_file(&folder.join(SETTINGS), &text, Readers::OnlyUs)?;
            names.insert(SETTINGS.to_owned());
        }
        names.insert(CHECKPOINT.to_owned());
        Ok(Self { folder, names })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn settings(&self) -> PathBuf {
        self.folder.join(SETTINGS)
    }

    pub(super) fn checkpoint(&self) -> PathBuf {
        self.folder.join(CHECKPOINT)
    }
}

/// A restore that failed leaves no secrets behind. One that succeeded has moved the files.
impl Drop for StagedFiles {
    fn drop(&mut self) {
        let _nothing_there = fs::remove_dir_all(&self.folder);
    }
}

/// A database that is loaded and not yet in place. Removed when this is dropped, unless it was moved.
pub(super) struct StagedDatabase {
    path: PathBuf,
}

impl StagedDatabase {
    /// Removes what an earlier, unfinished restore left behind.
    pub(super) fn at(path: PathBuf) -> anyhow::Result<Self> {
        remove_database(&path)?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StagedDatabase {
    fn drop(&mut self) {
        let _nothing_there = remove_database(&self.path);
    }
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let doing = || format!("could not write `{}`", path.display());
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).with_context(doing)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).with_context(doing)
}

/// The destination of replaced files.
pub(super) struct Replaced {
    folder: PathBuf,
    word: String,
}

impl Replaced {
    pub(super) fn new(home: &Home) -> Self {
        let word = format!("replaced-{}", now_ms());
        Self { folder: home.folder().join(&word), word }
    }

    /// Creates the folder, and returns its path.
    pub(super) fn folder(&self) -> anyhow::Result<PathBuf> {
        create_folder(&self.folder)?;
        Ok(self.folder.clone())
    }

    /// Moves what is there aside, and the files of the backup into place. Returns the paths of what was kept.
    pub(super) fn swap(
        &self,
        home: &Home,
        files: &StagedFiles,
        target: &Location,
        staged: &Path,
    ) -> anyhow::Result<Vec<PathBuf>> {
        let mut kept = Vec::new();
        if let Location::Sqlite(path) = target {
            let aside = beside(path, &self.word);
            for suffix in SUFFIXES {
                if rename(&with_suffix(path, suffix), &with_suffix(&aside, suffix))? && suffix.is_empty() {
                    kept.push(aside.clone());
                }
            }
        }
        // Files that the backup does not have would change its meaning, such as a contract that was added since.
        let also = ["contracts", "policies", "mcpproxy.lock"].map(str::to_owned);
        for name in files.names.iter().chain(&also) {
            let path = home.folder().join(name);
            if path.symlink_metadata().is_ok() {
                rename(&path, &self.folder()?.join(name))?;
            }
        }
        for name in &files.names {
            rename(&files.folder.join(name), &home.folder().join(name))?;
        }
        if let Location::Sqlite(path) = target {
            for suffix in SUFFIXES {
                rename(&with_suffix(staged, suffix), &with_suffix(path, suffix))?;
            }
        }
        fs::File::open(home.folder()).and_then(|folder| folder.sync_all()).context("could not write to the disk")?;
        if self.folder.exists() {
            kept.push(self.folder.clone());
        }
        Ok(kept)
    }
}

/// Returns whether there was something to rename.
fn rename(from: &Path, to: &Path) -> anyhow::Result<bool> {
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("could not move `{}` to `{}`", from.display(), to.display())),
    }
}
