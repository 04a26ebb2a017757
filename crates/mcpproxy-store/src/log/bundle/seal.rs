//! The seal of a bundle: a signature over all of it, so that nothing in it can be withheld or added on its way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use crate::log::checkpoint::rfc3339;
use crate::{SigningKey, Verifier};

const WORD: &str = "bundle";

/// Takes in the bytes of a bundle, up to its seal.
#[derive(Default)]
pub(super) struct Wax {
    hashed: Sha256,
}

impl Wax {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.hashed.update(bytes);
    }

    pub(super) fn seal(self, key: &SigningKey, now_ms: i64) -> String {
        key.sign(&format!("{}{}\n", self.text(key.verifier()), rfc3339(now_ms)))
    }

    /// Whether this note seals what was taken in.
    pub(super) fn fits(self, note: &str, verifier: &Verifier) -> bool {
        let Ok(signed) = verifier.open(note) else { return false };
        signed.strip_prefix(&self.text(verifier)).is_some_and(|time| time.ends_with('\n') && time.lines().count() == 1)
    }

    fn text(self, verifier: &Verifier) -> String {
        format!("mcpproxy/{}\n{WORD}\n{}\n", verifier.chain(), BASE64.encode(self.hashed.finalize()))
    }
}
