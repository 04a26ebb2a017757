//! Removals: signed statements of what retention took out of a chain, so that nobody else can take anything out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use crate::log::checkpoint::rfc3339;
use crate::log::line::{Hash, hex};
use crate::{NoteError, SigningKey, Verifier};

const WORD: &str = "removed";

/// Everything up to a position is gone, and later positions only where a stub stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
    stubs: Hash,
}

/// The end of a call whose row is gone: its position, and the digest of its line.
pub(crate) type Stub = (i64, Hash);

impl Removal {
    /// `stubs` are all that are left of the chain, in the order of their positions.
    pub(crate) fn new(seq: i64, hash: Hash, stubs: &[Stub]) -> Self {
        Self { seq, hash, stubs: digest(stubs) }
    }

    pub(crate) fn sign(&self, key: &SigningKey, time_ms: i64) -> String {
        let chain = key.verifier().chain();
        let [hash, stubs] = [&self.hash, &self.stubs].map(|hash| BASE64.encode(hash));
        key.sign(&format!("mcpproxy/{chain}\n{WORD}\n{}\n{hash}\n{stubs}\n{}\n", self.seq, rfc3339(time_ms)))
    }

    pub(crate) fn open(note: &str, verifier: &Verifier) -> Result<Self, NoteError> {
        let text = verifier.open(note)?;
        Self::read(text, verifier.chain()).ok_or(NoteError::Form)
    }

    fn read(text: &str, chain: &str) -> Option<Self> {
        let mut lines = text.lines();
        let is_ours = lines.next()?.strip_prefix("mcpproxy/")? == chain && lines.next()? == WORD;
        let seq = lines.next()?.parse().ok()?;
        let hash = BASE64.decode(lines.next()?).ok()?.try_into().ok()?;
        let stubs = BASE64.decode(lines.next()?).ok()?.try_into().ok()?;
        let _time = lines.next()?;
        (is_ours && lines.next().is_none()).then_some(Self { seq, hash, stubs })
    }
}

fn digest(stubs: &[Stub]) -> Hash {
    let mut hashed = Sha256::new();
    for (seq, digest) in stubs {
        hashed.update(format!("{seq} {}\n", hex(digest)));
    }
    hashed.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;

    #[test]
    fn what_was_signed_is_what_is_read() {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let removal = Removal::new(7, [2; 32], &[(9, [3; 32]), (12, [4; 32])]);
        let note = removal.sign(&key, 1_700_000_000_000);
        assert_eq!(Removal::open(&note, key.verifier()), Ok(removal.clone()));
        assert_ne!(removal, Removal::new(7, [2; 32], &[(9, [3; 32])]), "every stub counts");
        assert!(Checkpoint::open(&note, key.verifier()).is_err(), "it is no checkpoint");
        let checkpoint = Checkpoint::sign(&key, 7, &[2; 32], 0);
        assert_eq!(Removal::open(&checkpoint, key.verifier()), Err(NoteError::Form));
        assert_eq!(Removal::open(&note.replace("\n7\n", "\n8\n"), key.verifier()), Err(NoteError::Signature));
    }
}
