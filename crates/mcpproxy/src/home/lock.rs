//! `gateway.lock`: one gateway per data folder, and the address of that gateway.
//!
//! A gateway takes an exclusive lock on the file and then writes its process id and address into it. Other commands try
//! to take a shared lock. If they get it, no gateway runs. If not, they read the address.
//!
//! The kernel releases the lock when the process ends, even after a crash, so a stale file never blocks a start. That
//! is why the content alone proves nothing: only the lock does. A pid file without a lock would have to guess whether
//! the process with that id is still a gateway.
//!
//! [`hold`] is the same for commands that change a file: whoever reads, edits and writes it holds a lock all the while, so
//! that no change is lost.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::Home;
use super::secret::SECRET_MODE;
use crate::exit::{Exit, Failure};

/// Other commands hold a shared lock for a moment, so the gateway tries more than once.
const LOCK_ATTEMPTS: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(30);
/// Attempts to read the address of a gateway that has just taken the lock.
const START_PAUSES: u32 = 100;
/// Attempts to get a lock that another command holds, for 6 seconds in total.
const HOLD_ATTEMPTS: u32 = 200;

impl Home {
    /// Locks the data folder for this process until the lock is dropped. Refuses a folder that is half restored.
    pub(crate) fn take_lock(&self) -> anyhow::Result<Lock> {
        let lock = self.take_lock_to_restore()?;
        if self.restore_pending().exists() {
            let message = format!("A restore into `{}` has not finished.", self.folder.display());
            let restore = self.command("mcpproxy", "restore FILE --force");
            return Err(Failure::new(Exit::Failed, message).hint(format!("run `{restore}` again")).into());
        }
        Ok(lock)
    }

    /// Locks the data folder, also if an earlier restore has not finished.
    pub(crate) fn take_lock_to_restore(&self) -> anyhow::Result<Lock> {
        let path = self.lock();
        let file = open(&path)?;
        for _ in 0..LOCK_ATTEMPTS {
            match file.try_lock() {
                Ok(()) => {
                    file.set_len(0)?;
                    return Ok(Lock { file, running: None });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("could not lock `{}`", path.display()));
                }
            }
        }
        let folder = self.folder.display();
        let message = match read_running(&file) {
            Some(Running { pid, address, certificate, .. }) => {
                let scheme = if certificate.is_some() { "https" } else { "http" };
                format!("A gateway already runs at {scheme}://{address}. It keeps `{folder}` locked by pid {pid}.")
            }
            None => format!("Another gateway is starting or stopping, and keeps `{folder}` locked."),
        };
        let status = self.command("mcpproxy", "status");
        let hint = format!("use that gateway (`{status}`), stop it, or choose another data folder with --home DIR");
        Err(Failure::new(Exit::Failed, message).hint(hint).into())
    }

    /// Waits until no other command changes the settings file. The data folder must exist.
    pub(crate) fn lock_settings(&self) -> anyhow::Result<HeldLock> {
        hold(&self.folder.join("settings.lock"), "Another command is changing the settings.")
    }

    /// Returns the gateway that runs on this folder, if any. Waits for one that is just starting.
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
                    return Err(error).with_context(|| format!("could not lock `{}`", path.display()));
                }
            }
            file.rewind()?;
            if let Some(running) = read_running(&file) {
                return Ok(Some(Running { lock: path, ..running }));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Ok(None)
    }
}

/// The content of `gateway.lock`: the process that holds it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    pub(crate) address: String,
    /// The base of links for users.
    pub(crate) url: String,
    /// The SHA-256 of the gateway's own certificate. `None` if it speaks plain HTTP.
    pub(crate) certificate: Option<String>,
    /// The path of `gateway.lock`.
    #[serde(skip)]
    pub(crate) lock: PathBuf,
}

/// The lock of the running gateway. The kernel releases it when the process ends.
pub(crate) struct Lock {
    file: File,
    /// The content of the file.
    running: Option<Running>,
}

impl Lock {
    /// Writes the address and the certificate of the gateway into the file, for other commands.
    pub(crate) fn announce(&mut self, address: &str, url: &str, certificate: Option<&str>) -> anyhow::Result<()> {
        self.running = Some(Running {
            pid: std::process::id(),
            address: address.to_owned(),
            url: url.to_owned(),
            certificate: certificate.map(str::to_owned),
            lock: PathBuf::new(),
        });
        self.write()
    }

    /// Writes another certificate into the file.
    pub(crate) fn announce_certificate(&mut self, sha256: &str) -> anyhow::Result<()> {
        if let Some(running) = &mut self.running {
            running.certificate = Some(sha256.to_owned());
        }
        self.write()
    }

    /// Readers try again if they find half a text.
    fn write(&mut self) -> anyhow::Result<()> {
        let text = serde_json::to_string(&self.running)? + "\n";
        self.file.rewind()?;
        let written = self.file.write_all(text.as_bytes()).and_then(|()| {
            // The text before may have been longer.
            let end = self.file.stream_position()?;
            self.file.set_len(end)
        });
        written.context("could not write the address into gateway.lock")
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _released_anyway = self.file.set_len(0);
    }
}

/// A lock that a command holds while it changes files. The kernel releases it when the process ends.
pub(crate) struct HeldLock {
    _file: File,
}

/// Waits a few seconds until no other command holds the lock. `busy` says what it does.
pub(crate) fn hold(path: &Path, busy: &str) -> anyhow::Result<HeldLock> {
    let file = open(path)?;
    for _ in 0..HOLD_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(HeldLock { _file: file }),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("could not lock `{}`", path.display()));
            }
        }
    }
    Err(Failure::new(Exit::Failed, format!("{busy} Nothing was changed."))
        .hint("wait until it ends, and run the command again")
        .into())
}

fn open(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(SECRET_MODE)
        .open(path)
        .with_context(|| format!("could not open `{}`", path.display()))
}

/// Reads what a gateway wrote, without a look at its lock. Tries again if the gateway is just writing.
pub(crate) fn read_announced(path: &Path) -> Option<Running> {
    for _ in 0..LOCK_ATTEMPTS {
        if let Some(running) = File::open(path).ok().and_then(|file| read_running(&file)) {
            return Some(running);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    None
}

fn read_running(mut file: &File) -> Option<Running> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
