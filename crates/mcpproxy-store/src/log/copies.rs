//! Copies of checkpoints in files. An attacker with access to the database may not be able to change these files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;

/// Checkpoints that wait for a slow disk. Each covers up to 1000 records.
const WAITING_MAX: usize = 256;

/// Files to which checkpoints are copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyPaths {
    /// Contains only the newest checkpoint.
    pub(crate) newest: Option<PathBuf>,
    /// Contains all checkpoints, appended one after the other.
    pub(crate) all: Option<PathBuf>,
}

/// Writes copies in a task of its own, so that a slow disk delays no call.
pub(crate) struct Copies {
    notes: Option<mpsc::Sender<String>>,
    task: Option<JoinHandle<()>>,
}

impl Copies {
    pub(crate) fn start(paths: CopyPaths) -> Self {
        let (notes, mut received) = mpsc::channel::<String>(WAITING_MAX);
        let task = tokio::spawn(async move {
            while let Some(note) = received.recv().await {
                let paths = paths.clone();
                let copied = tokio::task::spawn_blocking(move || copy(&paths, &note)).await;
                if let Ok(Err(error)) = copied {
                    tracing::error!(%error, "could not copy a checkpoint");
                }
            }
        });
        Self { notes: Some(notes), task: Some(task) }
    }

    pub(crate) fn send(&self, note: String) {
        if let Some(notes) = &self.notes
            && let Err(TrySendError::Full(_)) = notes.try_send(note)
        {
            // No line loses its proof: the next checkpoint covers all lines before it, too.
            tracing::error!("the disk for copies of checkpoints is too slow, so a checkpoint was not copied");
        }
    }

    pub(crate) async fn finish(&mut self) {
        self.notes = None;
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "could not finish copying checkpoints");
        }
    }
}

fn copy(paths: &CopyPaths, note: &str) -> io::Result<()> {
    if let Some(all) = &paths.all {
        let mut file = open(all, OpenOptions::new().create(true).append(true))?;
        file.write_all(format!("{note}\n").as_bytes())?;
        file.sync_data()?;
    }
    match &paths.newest {
        Some(newest) => replace(newest, note),
        None => Ok(()),
    }
}

/// Opens a file without following a symbolic link, which could lead to any other file of the owner. A pipe that nothing
/// reads is an error, and does not block.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    options.custom_flags(flags).open(path)
}

/// Replaces the file atomically: a reader sees the old content or the new, also after a power failure.
fn replace(path: &Path, note: &str) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let mut file = open(fresh.as_ref(), OpenOptions::new().create(true).write(true).truncate(true))?;
    file.write_all(note.as_bytes())?;
    file.sync_data()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_do_not_follow_links() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, newest) = (folder.path().join("precious"), folder.path().join("checkpoint.txt"));
        fs::write(&precious, "mine").unwrap();
        let check = |link: &str, paths: CopyPaths| {
            let link = folder.path().join(link);
            std::os::unix::fs::symlink(&precious, &link).unwrap();
            assert!(copy(&paths, "note").is_err(), "{paths:?}");
            assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
            fs::remove_file(&link).unwrap();
            copy(&paths, "note").unwrap();
        };
        check("checkpoint.txt.new", CopyPaths { newest: Some(newest.clone()), all: None });
        check("all.txt", CopyPaths { newest: None, all: Some(folder.path().join("all.txt")) });
        assert_eq!(fs::read_to_string(&newest).unwrap(), "note");
    }
}
