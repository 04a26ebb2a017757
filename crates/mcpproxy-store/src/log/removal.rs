//! Removals: signed statements of what retention removed from a chain. Without its signature, a gap is damage.
//!
//! Retention removes rows from the start of a chain. A call takes two positions if it ran for a while, and both belong
//! to one row. So removing a row can also take away an `end` line further on, between lines that stay. A *stub*
//! replaces it: the position and the digest of the line, which is enough to compute the hashes after it.
//!
//! A removal signs the last removed position, its hash, and the digest of all stubs. The chain is verified from there
//! on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use super::line::Hash;
use super::signature::{SigningKey, Verifier};
use crate::NoteError;
use crate::text::{hex, rfc3339};

const WORD: &str = "removed";

/// Everything up to `seq` is removed. After it, only lines with a stub are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
    stubs: Hash,
}

/// The end of a call whose row was removed: its position, and the digest of its line.
pub(crate) type Stub = (i64, Hash);

impl Removal {
    /// `stubs` are all stubs of the chain after `seq`, ordered by position.
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

/// Writes stubs as text, for a removal that takes effect later.
pub(crate) fn stubs_to_text(stubs: &[Stub]) -> String {
    stubs.iter().map(|(seq, digest)| format!("{seq} {}\n", BASE64.encode(digest))).collect()
}

/// Reads what [`stubs_to_text`] wrote. Returns `None` for other text.
pub(crate) fn stubs_from_text(text: &str) -> Option<Vec<Stub>> {
    let stub = |line: &str| {
        let (seq, digest) = line.split_once(' ')?;
        Some((seq.parse().ok()?, BASE64.decode(digest).ok()?.try_into().ok()?))
    };
    text.lines().map(stub).collect()
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
    fn stubs_round_trip_as_text() {
        for stubs in [vec![], vec![(9, [3; 32])], vec![(9, [3; 32]), (12, [4; 32])]] {
            assert_eq!(stubs_from_text(&stubs_to_text(&stubs)), Some(stubs));
        }
        for text in ["9", "x AAAA", "9 AAAA", "9 ?"] {
            assert_eq!(stubs_from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_signed_removal_round_trips() {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let removal = Removal::new(7, [2; 32], &[(9, [3; 32]), (12, [4; 32])]);
        let note = removal.sign(&key, 1_700_000_000_000);
        assert_eq!(Removal::open(&note, key.verifier()), Ok(removal.clone()));
        assert_ne!(removal, Removal::new(7, [2; 32], &[(9, [3; 32])]), "every stub is signed");
        assert!(Checkpoint::open(&note, key.verifier()).is_err(), "a removal is not a checkpoint");
        let checkpoint = Checkpoint::sign(&key, 7, &[2; 32], 0);
        assert_eq!(Removal::open(&checkpoint, key.verifier()), Err(NoteError::Form));
        assert_eq!(Removal::open(&note.replace("\n7\n", "\n8\n"), key.verifier()), Err(NoteError::Signature));
    }
}
