//! The key and the checkpoint of a damaged log, which `serve --accept-damage` moves out of the way of a new chain.
//!
//! They are evidence, so nothing here overwrites a file. Each damaged log gets the first pair of names that is free.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use mcpproxy_store::{Checkpoint, distrust_verification};

use super::Home;
use crate::exit::{Exit, Failure};

/// The names under which the key and the checkpoint of a damaged log are set aside: the first pair that is free. A key
/// that is overwritten can never again prove what it signed.
pub(super) const SET_ASIDE: [(&str, &str); 9] = [
    ("signing.key.old", "checkpoint.old.txt"),
    ("signing.key.old.2", "checkpoint.old.2.txt"),
    ("signing.key.old.3", "checkpoint.old.3.txt"),
    ("signing.key.old.4", "checkpoint.old.4.txt"),
    ("signing.key.old.5", "checkpoint.old.5.txt"),
    ("signing.key.old.6", "checkpoint.old.6.txt"),
    ("signing.key.old.7", "checkpoint.old.7.txt"),
    ("signing.key.old.8", "checkpoint.old.8.txt"),
    ("signing.key.old.9", "checkpoint.old.9.txt"),
];

/// Returns the names under which checkpoints of damaged logs are set aside.
pub(crate) fn set_aside_checkpoints() -> impl Iterator<Item = &'static str> {
    SET_ASIDE.into_iter().map(|(_, checkpoint)| checkpoint)
}

/// Files of a damaged log that were moved out of the way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SetAside {
    /// The text of the old checkpoint.
    pub(crate) checkpoint: Option<String>,
    /// The new names.
    pub(crate) names: Vec<&'static str>,
}

impl Home {
    /// Moves the signing key and the checkpoint of a damaged log aside, so that a new chain can begin.
    pub(crate) fn set_log_aside(&self) -> anyhow::Result<SetAside> {
        let checkpoint = match fs::read(self.checkpoint()) {
            Ok(note) => Some(String::from_utf8_lossy(&note).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(error).with_context(|| format!("could not read `{}`", self.checkpoint().display()));
            }
        };
        let is_free = |name: &str| self.folder.join(name).symlink_metadata().is_err();
        let free = SET_ASIDE.into_iter().find(|(key, checkpoint)| is_free(key) && is_free(checkpoint));
        let (key, note) = free.ok_or_else(|| no_name_left(&self.folder))?;
        self.leave_evidence_of_others(checkpoint.as_deref())?;
        let mut names = Vec::new();
        // The key first: with a checkpoint and without its key, a start is refused.
        for (from, to) in [(self.signing_key(), key), (self.checkpoint(), note)] {
            match fs::rename(&from, self.folder.join(to)) {
                Ok(()) => names.push(to),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| format!("could not rename `{}`", from.display())),
            }
        }
        Ok(SetAside { checkpoint, names })
    }

    /// Makes the next verification read every line. What the last one knows of the chains of other gateways stays.
    fn leave_evidence_of_others(&self, checkpoint: Option<&str>) -> anyhow::Result<()> {
        let key = self.existing_signing_key().ok().flatten();
        let own = key.as_ref().map(|key| key.verifier().chain());
        let own = own.or_else(|| checkpoint.and_then(Checkpoint::claimed_chain));
        let path = self.verified();
        distrust_verification(&path, own).with_context(|| format!("could not replace `{}`", path.display()))
    }
}

fn no_name_left(folder: &Path) -> Failure {
    let message = format!("`{}` already keeps the files of {} damaged logs.", folder.display(), SET_ASIDE.len());
    Failure::new(Exit::Failed, message).hint(
        "move the files `signing.key.old*` and `checkpoint.old*.txt` to a safe place outside the data folder, then try again",
    )
}

#[cfg(test)]
mod tests {
    use mcpproxy_store::SigningKey;

    use super::*;

    #[test]
    fn a_damaged_log_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(folder.path().join("data"))).unwrap();
        home.create().unwrap();
        assert_eq!(home.set_log_aside().unwrap(), SetAside::default());
        // The last verification is kept, because it may be evidence of the chains of other gateways.
        fs::write(home.verified(), "of another version").unwrap();
        assert_eq!(home.set_log_aside().unwrap(), SetAside::default());
        assert!(!home.verified().exists() && home.folder().join("verified.old.json").exists());
        let mut old = Vec::new();
        for (key, checkpoint) in SET_ASIDE {
            old.push(home.new_signing_key().unwrap().verifier().clone());
            fs::write(home.checkpoint(), key).unwrap();
            let expected = SetAside { checkpoint: Some(key.to_owned()), names: vec![key, checkpoint] };
            assert_eq!(home.set_log_aside().unwrap(), expected);
            assert!(home.existing_signing_key().unwrap().is_none() && !home.checkpoint().exists());
        }
        let verifier = |name: &str| {
            let aside = fs::read_to_string(home.folder().join(name)).unwrap();
            SigningKey::from_hex(&aside).unwrap().verifier().clone()
        };
        assert_eq!(SET_ASIDE.map(|(key, _)| verifier(key)).as_slice(), old, "none is overwritten");
        let newest = home.new_signing_key().unwrap();
        let refused = home.set_log_aside().unwrap_err().to_string();
        assert!(refused.ends_with("already keeps the files of 9 damaged logs."), "{refused}");
        assert_eq!(home.existing_signing_key().unwrap().unwrap().verifier(), newest.verifier(), "nothing was moved");
    }
}
