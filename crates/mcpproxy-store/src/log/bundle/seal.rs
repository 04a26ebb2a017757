//! The seal of a bundle: a signature over the whole file, so that nothing can be removed or added later.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use crate::text::rfc3339;
use crate::{SigningKey, Verifier};

const WORD: &str = "bundle";

/// Hashes the bytes of a bundle, up to its seal.
#[derive(Default)]
pub(super) struct SealHasher {
    hashed: Sha256,
}

impl SealHasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.hashed.update(bytes);
    }

    pub(super) fn seal(self, key: &SigningKey, now_ms: i64) -> String {
        key.sign(&format!("{}{}\n", self.text(key.verifier()), rfc3339(now_ms)))
    }

    /// Returns `true` if this note is a valid seal of the hashed bytes.
    pub(super) fn verifies(self, note: &str, verifier: &Verifier) -> bool {
        let Ok(signed) = verifier.open(note) else { return false };
        signed.strip_prefix(&self.text(verifier)).is_some_and(|time| time.ends_with('\n') && time.lines().count() == 1)
    }

    fn text(self, verifier: &Verifier) -> String {
        format!("mcpproxy/{}\n{WORD}\n{}\n", verifier.chain(), BASE64.encode(self.hashed.finalize()))
    }
}
