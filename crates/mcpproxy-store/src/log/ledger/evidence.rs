//! Evidence about a log from outside its database: the key and the newest checkpoint of the gateway that writes it.

use std::path::PathBuf;

use super::Ledger;
use crate::{Checkpoint, VERIFIED_FILE, VerifyOptions};

impl Ledger {
    /// Returns the gateway's own key, and the newest checkpoint in the data folder. Read it before the log, because a
    /// checkpoint signs only what is already written.
    pub fn evidence(&self) -> VerifyOptions {
        let file = self.shared.newest_checkpoint.as_ref();
        let text = file.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        VerifyOptions { checkpoints: Checkpoint::notes(&text), trusted: vec![self.shared.verifier.clone()] }
    }

    /// Returns the file with the last verification. It is in the data folder, next to the newest checkpoint.
    pub fn verified_file(&self) -> Option<PathBuf> {
        self.shared.newest_checkpoint.as_ref().map(|path| path.with_file_name(VERIFIED_FILE))
    }
}
