//! Signed notes: short texts with an Ed25519 signature, in the C2SP signed-note format that transparency logs use.
//!
//! ```text
//! mcpproxy/2f1b6c0d9e8a7b6c5d4e          the text: here a checkpoint, see `checkpoint.rs`
//! 1234
//! …
//!
//! — mcpproxy/2f1b6c0d9e8a7b6c5d4e cGxlYXNl…     name of the key, then base64(key id + signature)
//! ```
//!
//! The gateway signs four kinds of text: checkpoints, removals (`removal.rs`), the seal of a bundle (`bundle/seal.rs`)
//! and the next key (`succession.rs`). Their second lines differ, so no signature of one kind can pass as another.
//!
//! The chain is named after its key: the first 10 bytes of SHA-256 of the public key, in hexadecimal. So an attacker
//! cannot replace the key that the database stores for a chain without also changing the name. To detect a replaced
//! *database*, compare [`Verifier`] with a copy that was saved elsewhere (`mcpproxy activity verify --key`).
//!
//! Why this format? Checkpoints can be checked with existing tools, and [`Verifier`] prints as the `NAME+KEYID+KEY`
//! that those tools read.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use crate::NoteError;
use crate::text::{from_hex, hex};

const ED25519_ALGORITHM: u8 = 1;
const CHAIN_NAME_BYTES: usize = 10;
const NOTE_MAX_BYTES: usize = 4096;

/// The key with which a gateway signs. It also names the chain of the gateway.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    verifier: Verifier,
}

/// The public key of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    chain: String,
    public: [u8; 32],
}

impl SigningKey {
    /// Returns `None` if the crypto library rejects the seed.
    pub fn from_seed(seed: &[u8; 32]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let public: [u8; 32] = pair.public_key().as_ref().try_into().ok()?;
        let chain = hex(Sha256::digest(public).get(..CHAIN_NAME_BYTES)?);
        Some(Self { pair, verifier: Verifier { chain, public } })
    }

    /// Reads the content of `signing.key`: 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let seed: [u8; 32] = from_hex(text.trim())?.try_into().ok()?;
        Self::from_seed(&seed)
    }

    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// Signs a text, which must end with a line break.
    pub(crate) fn sign(&self, text: &str) -> String {
        let signature = self.pair.sign(text.as_bytes());
        let signed: Vec<u8> = self.verifier.key_id().into_iter().chain(signature.as_ref().iter().copied()).collect();
        format!("{text}\n— {} {}\n", self.verifier.name(), BASE64.encode(signed))
    }
}

impl Verifier {
    /// The name of the chain that this key signs.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// Tells if a text has the form of the name of a chain.
    pub(crate) fn is_chain_name(text: &str) -> bool {
        text.len() == 2 * CHAIN_NAME_BYTES && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// Reads `NAME+KEYID+KEY`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.trim().split_once('+')?;
        let (key_id, key) = rest.split_once('+')?;
        let key = BASE64.decode(key).ok()?;
        let (algorithm, public) = key.split_first()?;
        let public: [u8; 32] = public.try_into().ok()?;
        let chain = hex(Sha256::digest(public).get(..CHAIN_NAME_BYTES)?);
        let verifier = Self { chain, public };
        let is_right = *algorithm == ED25519_ALGORITHM && name == verifier.name() && key_id == hex(&verifier.key_id());
        is_right.then_some(verifier)
    }

    /// Checks the signature, and returns the signed text with its last line break.
    pub(crate) fn open<'n>(&self, note: &'n str) -> Result<&'n str, NoteError> {
        if note.len() > NOTE_MAX_BYTES {
            return Err(NoteError::Form);
        }
        let (text, signatures) = note.split_once("\n\n— ").ok_or(NoteError::Form)?;
        let text = note.get(..=text.len()).ok_or(NoteError::Form)?;
        let (name, signature) =
            signatures.strip_suffix('\n').and_then(|line| line.split_once(' ')).ok_or(NoteError::Form)?;
        let signed = BASE64.decode(signature).map_err(|_| NoteError::Form)?;
        let (key_id, signature) = signed.split_at_checked(4).ok_or(NoteError::Form)?;
        if name != self.name() || key_id != self.key_id() {
            return Err(NoteError::OtherKey);
        }
        let key = UnparsedPublicKey::new(&ED25519, self.public);
        key.verify(text.as_bytes(), signature).map_err(|_| NoteError::Signature)?;
        Ok(text)
    }

    fn name(&self) -> String {
        format!("mcpproxy/{}", self.chain)
    }

    fn key_id(&self) -> [u8; 4] {
        let mut hashed = Sha256::new();
        hashed.update(self.name());
        hashed.update([b'\n', ED25519_ALGORITHM]);
        hashed.update(self.public);
        let [a, b, c, d, ..]: [u8; 32] = hashed.finalize().into();
        [a, b, c, d]
    }
}

/// Prints `NAME+KEYID+KEY`, which other tools for signed notes read.
impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: Vec<u8> = std::iter::once(ED25519_ALGORITHM).chain(self.public).collect();
        write!(f, "{}+{}+{}", self.name(), hex(&self.key_id()), BASE64.encode(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_opens_only_with_its_own_key() {
        let key = SigningKey::from_seed(&[7; 32]).unwrap();
        let other = SigningKey::from_seed(&[8; 32]).unwrap();
        let note = key.sign("one\ntwo\n");
        assert_eq!(key.verifier().open(&note), Ok("one\ntwo\n"));
        assert_eq!(other.verifier().open(&note), Err(NoteError::OtherKey));
        assert_eq!(key.verifier().open(&note.replace("two", "too")), Err(NoteError::Signature));
        for broken in ["", "one\n", "one\n\n— x\n", &note.replace("— ", "- "), note.trim_end()] {
            assert_eq!(key.verifier().open(broken), Err(NoteError::Form), "{broken}");
        }
    }

    #[test]
    fn every_changed_character_is_detected() {
        let key = SigningKey::from_seed(&[7; 32]).unwrap();
        let note = key.sign("mcpproxy/x\n12\nabc\n");
        for (at, old) in note.char_indices() {
            let new = if old == 'A' { "B" } else { "A" };
            let mut changed = note.clone();
            changed.replace_range(at..at + old.len_utf8(), new);
            assert!(key.verifier().open(&changed).is_err(), "at {at}: {changed}");
        }
    }

    #[test]
    fn a_verifier_round_trips_through_text() {
        let verifier = SigningKey::from_hex(&"07".repeat(32)).unwrap().verifier().clone();
        assert_eq!(Verifier::parse(&verifier.to_string()), Some(verifier.clone()));
        let text = verifier.to_string();
        for wrong in ["", "a+b+c", &text.replace("mcpproxy/", "other/"), text.split_at(text.len() - 2).0] {
            assert_eq!(Verifier::parse(wrong), None, "{wrong}");
        }
    }
}
