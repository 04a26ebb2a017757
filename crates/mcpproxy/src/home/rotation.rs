//! The files of a rotation of the signing key: the next key, and the public parts of earlier ones.

use std::fs;

use anyhow::Context as _;
use mcpproxy_store::{SigningKey, Verifier};

use super::secret::{Readers, key_or_new, replace_file};
use super::{Home, NEXT_SIGNING_KEY};

/// Public keys of earlier signing keys.
pub(crate) const RETIRED_KEYS: &str = "retired-keys.txt";

impl Home {
    /// Returns the key to which the log is handed over. An interrupted rotation has left one.
    pub(crate) fn next_signing_key(&self) -> anyhow::Result<SigningKey> {
        let text = key_or_new(&self.folder.join(NEXT_SIGNING_KEY))?;
        self.parse_signing_key(&text)
    }

    /// Replaces the signing key by the next one. Keeps the public part of the old key.
    pub(crate) fn adopt_next_signing_key(&self, old: &Verifier) -> anyhow::Result<()> {
        let path = self.folder.join(RETIRED_KEYS);
        let known = fs::read_to_string(&path).unwrap_or_default();
        let line = format!("{old}\n");
        if !known.contains(&line) {
            replace_file(&path, &format!("{known}{line}"), Readers::AsBefore)?;
        }
        let rename = || {
            fs::rename(self.folder.join(NEXT_SIGNING_KEY), self.signing_key())?;
            fs::File::open(&self.folder)?.sync_all()
        };
        rename().with_context(|| format!("could not replace `{}`", self.signing_key().display()))
    }
}
