//! A lock for commands that change clients' files, so that two of them never write the same file at once.
//!
//! The lock is a file in the data folder. Clients do not know it, so it cannot keep a client from writing its own file.
//! `ClientFile` notices that.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use anyhow::Context as _;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::create_folder;

const LOCK_MODE: u32 = 0o600;
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Held while files are written. The kernel releases it when the process ends.
pub(crate) struct ClientFilesLock {
    _file: File,
}

/// Waits until no other command of this data folder writes clients' files.
pub(crate) fn lock(home: &Home) -> anyhow::Result<ClientFilesLock> {
    let folder = home.folder().join("connect");
    create_folder(&folder)?;
    let path = folder.join("lock");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(LOCK_MODE)
        .open(&path)
        .with_context(|| format!("could not open `{}`", path.display()))?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(ClientFilesLock { _file: file }),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("could not lock `{}`", path.display()));
            }
        }
    }
    Err(Failure::new(Exit::Failed, "Another `mcpproxy connect` or `import` is writing. Nothing was written.")
        .hint("wait until it ends, and run the command again")
        .into())
}
