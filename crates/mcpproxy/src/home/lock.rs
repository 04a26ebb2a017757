//! The lock of a data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::Home;
use super::secret::SECRET_MODE;
use crate::exit::{Exit, Failure};

/// A look at the lock holds it for a moment, so one refusal proves nothing.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(30);
/// How long a gateway may take from its lock to its address.
const START_PAUSES: u32 = 100;

impl Home {
    /// Makes this process the one gateway of the folder, until the lock is dropped.
    pub(crate) fn take_lock(&self) -> anyhow::Result<Lock> {
        let path = self.lock();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(SECRET_MODE)
            .open(&path)
            .with_context(|| format!("could not open `{}`", path.display()))?;
        for _ in 0..LOCK_ATTEMPTS {
            match file.try_lock() {
                Ok(()) => {
                    file.set_len(0)?;
                    return Ok(Lock { file });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("could not lock `{}`", path.display()));
                }
            }
        }
        let holder = match read_running(&file) {
            Some(running) => format!("data directory is locked by pid {}", running.pid),
            None => "data directory is locked by another gateway".to_owned(),
        };
        Err(Failure::new(Exit::Failed, format!("{holder} (`{}`)", self.folder.display()))
            .hint("use the gateway that runs (mcpproxy servers list), stop it, or choose another folder with --home")
            .into())
    }

    /// The gateway that runs on this folder, if one does. Waits for one that is just starting.
    pub(crate) fn running(&self) -> anyhow::Result<Option<Running>> {
        let path = self.lock();
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("could not open `{}`", path.display())),
        };
        for _ in 0..START_PAUSES {
            match file.try_lock_shared() {
                Ok(()) => return Ok(None),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("could not look at `{}`", path.display()));
                }
            }
            file.rewind()?;
            if let Some(running) = read_running(&file) {
                return Ok(Some(running));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Ok(None)
    }
}

/// What `gateway.lock` says about the process that holds it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    pub(crate) address: String,
}

/// Held for as long as the gateway runs; the kernel releases it, whatever happens to us.
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Tells other commands where the gateway listens.
    pub(crate) fn announce(&mut self, address: &str) -> anyhow::Result<()> {
        let running = Running { pid: std::process::id(), address: address.to_owned() };
        let text = serde_json::to_string(&running)? + "\n";
        self.file.rewind()?;
        self.file.write_all(text.as_bytes()).context("could not write the address into gateway.lock")
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _released_anyway = self.file.set_len(0);
    }
}

fn read_running(mut file: &File) -> Option<Running> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
