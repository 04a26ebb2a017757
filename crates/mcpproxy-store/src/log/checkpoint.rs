//! Checkpoints: signed statements that a chain had a certain hash at a certain position.
//!
//! The hash chain alone does not stop an attacker who can write to the database: they can change a record and recompute
//! every hash after it. A checkpoint fixes the hash of one position with a key that is not in the database, and so
//! fixes every position before it. The gateway signs one at least every minute or 1000 lines while it writes
//! (`keeper.rs`), and copies it to files outside the database (`copies.rs`).
//!
//! The signed text has four lines. `signature.rs` describes the signature below it.
//!
//! ```text
//! mcpproxy/2f1b6c0d9e8a7b6c5d4e                     name of the chain
//! 1234                                              position
//! 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=      hash at this position, base64
//! 2026-01-31T12:00:00.000Z                          time of signing
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::line::Hash;
use super::signature::{SigningKey, Verifier};
use crate::text::rfc3339;
use crate::{NoteError, StoreError};

/// A position of a chain, and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub chain: String,
    pub seq: i64,
    pub(crate) hash: Hash,
    /// The time of signing, in RFC 3339 and UTC.
    pub time: String,
}

impl Checkpoint {
    pub(crate) fn sign(key: &SigningKey, seq: i64, hash: &Hash, time_ms: i64) -> String {
        let chain = key.verifier().chain();
        let time = rfc3339(time_ms);
        key.sign(&format!("mcpproxy/{chain}\n{seq}\n{}\n{time}\n", BASE64.encode(hash)))
    }

    /// Checks the signature of a note and reads it.
    pub fn open(note: &str, verifier: &Verifier) -> Result<Self, StoreError> {
        let text = verifier.open(note).map_err(|source| StoreError::Checkpoint { source })?;
        Self::read(text)
            .filter(|found| found.chain == verifier.chain())
            .ok_or_else(|| StoreError::Checkpoint { source: NoteError::Form })
    }

    /// The name of the chain in a note, before its signature is checked.
    pub fn claimed_chain(note: &str) -> Option<&str> {
        note.lines().next()?.strip_prefix("mcpproxy/")
    }

    /// The time in a note, before its signature is checked. At most as long as a time, and only visible ASCII.
    pub(crate) fn claimed_time(note: &str) -> String {
        let time = note.lines().nth(3).unwrap_or_default();
        time.chars().filter(char::is_ascii_graphic).take("2000-01-01T00:00:00.000Z".len()).collect()
    }

    /// Splits a file to which notes were appended.
    pub fn notes(text: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = String::new();
        for line in text.lines() {
            if note.is_empty() && line.is_empty() {
                continue;
            }
            note.push_str(line);
            note.push('\n');
            if line.starts_with("— ") {
                notes.push(std::mem::take(&mut note));
            }
        }
        if !note.is_empty() {
            notes.push(note);
        }
        notes
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let chain = lines.next()?.strip_prefix("mcpproxy/")?.to_owned();
        let seq = lines.next()?.parse().ok()?;
        let hash = BASE64.decode(lines.next()?).ok()?.try_into().ok()?;
        let time = lines.next()?.to_owned();
        lines.next().is_none().then_some(Self { chain, seq, hash, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_checkpoint_round_trips() {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let note = Checkpoint::sign(&key, 1234, &[9; 32], 1_700_000_000_123);
        let read = Checkpoint::open(&note, key.verifier()).unwrap();
        let time = "2023-11-14T22:13:20.123Z".to_owned();
        assert_eq!(read, Checkpoint { chain: key.verifier().chain().into(), seq: 1234, hash: [9; 32], time });
        assert_eq!(Checkpoint::claimed_chain(&note), Some(key.verifier().chain()));
        assert!(Checkpoint::open("", key.verifier()).is_err());
        assert!(Checkpoint::open(&key.sign("mcpproxy/other\n1\nAA==\nx\n"), key.verifier()).is_err());
        assert_eq!(Checkpoint::notes(&format!("{note}{note}\n{note}")), [note.clone(), note.clone(), note]);
    }
}
