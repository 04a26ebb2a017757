//! A lock for commands that change clients' files, so that two of them never write the same file at once.
//!
//! The lock is a file in the data folder. Clients do not know it, so it cannot keep a client from writing its own file.
//! `ClientFile` notices that.

use crate::home::Home;
use crate::home::lock::{HeldLock, hold};
use crate::home::secret::create_folder;

/// Waits until no other command of this data folder writes clients' files.
pub(crate) fn lock(home: &Home) -> anyhow::Result<HeldLock> {
    let folder = home.folder().join("connect");
    create_folder(&folder)?;
    hold(&folder.join("lock"), "Another `mcpproxy connect` or `import` is writing.")
}
