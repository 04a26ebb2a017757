//! Successions: the old signing key signs the new one, so that trust in one key leads to the next.
//!
//! A chain is named after its key, so a new key begins a new chain. Two records connect the chains:
//!
//! ```text
//! old chain   … ─── key_rotated                    signed by the old key: names the new key, with a signed note
//!                        │
//! new chain          key_continues ─── …           signed by the new key: names the old chain, its end and its hash
//! ```
//!
//! The note is a signed text of its own. Bundles carry it, so that an auditor who trusts the old key can verify a bundle
//! of the new chain without the database:
//!
//! ```text
//! mcpproxy/2f1b6c0d9e8a7b6c5d4e                     the old chain
//! rotated
//! mcpproxy/5039d96ca1b5169d3481+a1b2c3d4+AQ…        the new key
//! 2026-01-31T12:00:00.000Z
//! ```
//!
//! The second record works backwards: whoever trusts the new key knows where the old chain ends, so that nobody can cut it
//! off, even with the old key.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::restore::hash_at;
use super::signature::{SigningKey, Verifier};
use crate::sql::{Statement, Value};
use crate::text::{from_hex, hex, rfc3339};
use crate::{Checkpoint, Kind, NewRecord, NoteError, Status, Store, StoreError};

const WORD: &str = "rotated";
const ROTATED: &str = "key_rotated";
const CONTINUES: &str = "key_continues";
const DOING: &str = "read the successions of signing keys";
/// A longer history of keys is not followed.
const KEYS_MAX: usize = 1_000;

/// A key that signed another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Succession {
    pub(crate) old: Verifier,
    pub(crate) new: Verifier,
    pub(crate) note: String,
}

/// The metadata of the first record of a chain that continues another.
#[derive(Deserialize, Serialize)]
struct Continues {
    old_key: String,
    old_seq: i64,
    old_hash: String,
}

/// The end of an older chain, as the first record of the next chain says it.
pub(crate) struct Predecessor {
    /// The chain with that record, and its position.
    pub(crate) by: String,
    pub(crate) seq: i64,
    pub(crate) old: Verifier,
    pub(crate) end: Checkpoint,
}

/// Signs the new key with the old one.
fn sign(old: &SigningKey, new: &Verifier, now_ms: i64) -> String {
    old.sign(&format!("mcpproxy/{}\n{WORD}\n{new}\n{}\n", old.verifier().chain(), rfc3339(now_ms)))
}

/// Checks a note of the old key, and returns the new one.
pub(crate) fn open(note: &str, old: &Verifier) -> Result<Verifier, NoteError> {
    let text = old.open(note)?;
    let mut lines = text.lines();
    let is_ours = lines.next().and_then(|line| line.strip_prefix("mcpproxy/")) == Some(old.chain());
    let is_rotation = lines.next() == Some(WORD);
    let new = lines.next().and_then(Verifier::parse);
    let _time = lines.next();
    new.filter(|_| is_ours && is_rotation && lines.next().is_none()).ok_or(NoteError::Form)
}

impl SigningKey {
    /// The record that hands over to a new key. It belongs to the chain of this key.
    pub fn rotated_to(&self, new: &Verifier, now_ms: i64, random: u64) -> NewRecord {
        let note = sign(self, new, now_ms);
        NewRecord {
            code: Some(ROTATED.to_owned()),
            message: Some(format!("the signing key was rotated; chain {} continues this log", new.chain())),
            metadata: json!({ "new_key": new.to_string(), "note": note }).to_string(),
            ..NewRecord::blank(Kind::Settings, Status::Success, now_ms, random)
        }
    }
}

impl Store {
    /// The first record of a chain whose key succeeds another one. `None` if the key has no predecessor, or if its chain
    /// has begun.
    pub async fn continues(&self, key: &Verifier, now_ms: i64, random: u64) -> Result<Option<NewRecord>, StoreError> {
        let chains = self.chains().await?;
        if chains.iter().any(|chain| chain.name == key.chain() && chain.lines > 0) {
            return Ok(None);
        }
        let successions = self.successions().await?;
        let Some(old) = successions.into_iter().rev().find(|found| found.new == *key).map(|found| found.old) else {
            return Ok(None);
        };
        let Some(chain) = chains.iter().find(|chain| chain.name == old.chain()) else { return Ok(None) };
        let hash = hash_at(self.database(), chain.number, chain.lines).await?;
        let hash = hash.ok_or_else(|| StoreError::corrupt("a chain without its last hash"))?;
        let continues = Continues { old_key: old.to_string(), old_seq: chain.lines, old_hash: hex(&hash) };
        Ok(Some(NewRecord {
            code: Some(CONTINUES.to_owned()),
            message: Some(format!("this chain continues chain {} after position {}", old.chain(), chain.lines)),
            metadata: serde_json::to_string(&continues).unwrap_or_else(|_| "{}".to_owned()),
            ..NewRecord::blank(Kind::Settings, Status::Success, now_ms, random)
        }))
    }

    /// The chains that a gateway exports: those of its older keys, oldest first, and its own.
    pub async fn export_chains(&self, key: &Verifier, own: u16) -> Result<Vec<u16>, StoreError> {
        let rows = self.database().chain_rows().await?;
        let number = |found: &Succession| rows.iter().find(|row| row.name == found.old.chain()).map(|row| row.number);
        let older = path(&self.successions().await?, key);
        Ok(older.iter().filter_map(number).chain([own]).collect())
    }

    /// Tells if a chain of keys leads from the key of one chain to another key.
    pub(super) async fn succeeds(&self, chain: &str, key: &Verifier) -> Result<bool, StoreError> {
        let successions = self.successions().await?;
        Ok(path(&successions, key).iter().any(|found| found.old.chain() == chain))
    }

    /// The notes that lead from the first key to this one, oldest first.
    pub(super) async fn path_to(&self, key: &Verifier) -> Result<Vec<String>, StoreError> {
        let successions = self.successions().await?;
        Ok(path(&successions, key).into_iter().map(|found| found.note).collect())
    }

    /// All successions whose note has a valid signature, oldest first.
    pub(super) async fn successions(&self) -> Result<Vec<Succession>, StoreError> {
        let mut successions = Vec::new();
        for (_, verifier, _, metadata) in self.settings_records(ROTATED).await? {
            let note = serde_json::from_str::<serde_json::Value>(&metadata).ok();
            let note = note.and_then(|metadata| metadata.get("note")?.as_str().map(str::to_owned));
            if let Some(note) = note
                && let Ok(new) = open(&note, &verifier)
            {
                successions.push(Succession { old: verifier, new, note });
            }
        }
        Ok(successions)
    }

    /// The ends of older chains, as far as records of newer chains tell of them. Not verified.
    pub(super) async fn predecessors(&self) -> Result<Vec<Predecessor>, StoreError> {
        let mut found = Vec::new();
        for (by, _, seq, metadata) in self.settings_records(CONTINUES).await? {
            let Ok(continues) = serde_json::from_str::<Continues>(&metadata) else { continue };
            let hash = from_hex(&continues.old_hash).and_then(|hash| hash.try_into().ok());
            if let (Some(old), Some(hash)) = (Verifier::parse(&continues.old_key), hash) {
                let (chain, time) = (old.chain().to_owned(), String::new());
                let end = Checkpoint { chain, seq: continues.old_seq, hash, time };
                found.push(Predecessor { by, seq, old, end });
            }
        }
        Ok(found)
    }

    /// Chain, key, position and metadata of the records with this code. A key that does not fit its chain is left out.
    async fn settings_records(&self, code: &str) -> Result<Vec<(String, Verifier, i64, String)>, StoreError> {
        let sql = "SELECT name, verifier, seq, metadata FROM records JOIN chains ON number = chain \
                   WHERE kind = 'settings' AND kind <> 'call' AND code = $1 ORDER BY kind, key";
        let mut found = Vec::new();
        for row in self.database().fetch(Statement::new(sql, vec![Value::text(code)]), DOING).await? {
            let text = |column| row.text(column).ok().flatten();
            let verifier = text(1).and_then(|verifier| Verifier::parse(&verifier));
            let record = (text(0), verifier, row.int(2).ok().flatten(), text(3));
            if let (Some(name), Some(verifier), Some(seq), Some(metadata)) = record
                && verifier.chain() == name
            {
                found.push((name, verifier, seq, metadata));
            }
        }
        Ok(found)
    }
}

/// The successions that lead to a key, oldest first.
fn path(successions: &[Succession], key: &Verifier) -> Vec<Succession> {
    let mut path: Vec<Succession> = Vec::new();
    let mut key = key.clone();
    while path.len() < KEYS_MAX {
        // A rotation that was interrupted may be recorded twice. The last one counts.
        let Some(found) = successions.iter().rev().find(|found| found.new == key) else { break };
        if path.iter().any(|known| known.old == found.old) {
            break;
        }
        key = found.old.clone();
        path.push(found.clone());
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_leads_from_the_old_key_to_the_new() {
        let [old, new] = [1, 2].map(|seed| SigningKey::from_seed(&[seed; 32]).unwrap());
        let note = sign(&old, new.verifier(), 1_700_000_000_000);
        assert_eq!(open(&note, old.verifier()), Ok(new.verifier().clone()));
        assert_eq!(open(&note, new.verifier()), Err(NoteError::OtherKey));
        assert!(Checkpoint::open(&note, old.verifier()).is_err(), "a succession is not a checkpoint");
        let checkpoint = Checkpoint::sign(&old, 7, &[2; 32], 0);
        assert_eq!(open(&checkpoint, old.verifier()), Err(NoteError::Form));
    }

    #[test]
    fn a_path_ends_even_if_keys_form_a_circle() {
        let keys = [1, 2, 3].map(|seed| SigningKey::from_seed(&[seed; 32]).unwrap());
        let step = |from: usize, to: usize| Succession {
            old: keys[from].verifier().clone(),
            new: keys[to].verifier().clone(),
            note: format!("{from}{to}"),
        };
        let notes = |successions: &[Succession]| {
            path(successions, keys[2].verifier()).into_iter().map(|found| found.note).collect::<Vec<_>>()
        };
        assert_eq!(notes(&[step(0, 1), step(1, 2)]), ["01", "12"]);
        assert_eq!(notes(&[step(1, 0)]), Vec::<String>::new());
        assert!(notes(&[step(0, 1), step(1, 2), step(2, 0)]).len() <= 3);
    }
}
