//! Evidence from outside the database: checkpoints, keys, and the keys and ends that follow from them.

use std::collections::BTreeMap;

use super::resume::Previous;
use super::{ChainVerdict, Prepared, VerifyOptions};
use crate::log::restore::RecordedRestore;
use crate::log::sql::ChainRow;
use crate::log::succession::{Predecessor, Succession};
use crate::{Checkpoint, Damage, DamageKind, NoteError, Store, StoreError, Verifier};

/// Checkpoints by position.
pub(in crate::log) type Notes = BTreeMap<i64, Vec<Checkpoint>>;

/// Checkpoints and keys from outside the database, by the name of the chain.
pub(super) struct Evidence {
    pub(super) notes: BTreeMap<String, Vec<String>>,
    pub(super) trusted: BTreeMap<String, Verifier>,
    /// The ends of older chains, which the first record of the next chain states.
    pub(super) ends: BTreeMap<String, Vec<Checkpoint>>,
}

impl Evidence {
    /// Trusts the keys that trusted keys signed, and the older keys whose chains they continue.
    pub(super) async fn follow_keys(&mut self, store: &Store, rows: &[ChainRow]) -> Result<(), StoreError> {
        for Succession { old, new, .. } in store.successions().await? {
            if self.trusted.get(old.chain()) == Some(&old) && rows.iter().any(|row| row.name == new.chain()) {
                self.trusted.insert(new.chain().to_owned(), new);
            }
        }
        // The newest first: each one leads to the one before.
        for Predecessor { by, seq, old, end } in store.predecessors().await?.into_iter().rev() {
            let is_signed = rows.iter().any(|row| row.name == by && row.signed_seq.is_some_and(|signed| signed >= seq));
            if is_signed && self.trusted.contains_key(&by) {
                self.ends.entry(old.chain().to_owned()).or_default().push(end);
                self.trusted.entry(old.chain().to_owned()).or_insert(old);
            }
        }
        Ok(())
    }

    pub(super) fn new(options: VerifyOptions) -> Result<Self, StoreError> {
        let mut notes = BTreeMap::<String, Vec<String>>::new();
        for note in options.checkpoints {
            let chain = Checkpoint::claimed_chain(&note).ok_or(StoreError::Checkpoint { source: NoteError::Form })?;
            notes.entry(chain.to_owned()).or_default().push(note);
        }
        let trusted = options.trusted.into_iter().map(|verifier| (verifier.chain().to_owned(), verifier)).collect();
        Ok(Self { notes, trusted, ends: BTreeMap::new() })
    }

    /// Adds what the last verification knows of chains that are gone now.
    pub(super) fn remember(&mut self, previous: &Previous, chains: &[Prepared]) {
        for (chain, note) in previous.notes() {
            if !chains.iter().any(|prepared| prepared.name() == chain) {
                self.notes.entry(chain).or_default().push(note);
            }
        }
    }

    /// Verdicts for chains that should exist and do not.
    pub(super) fn missing(self) -> Vec<ChainVerdict> {
        let signed = |notes: &Vec<String>| notes.iter().filter_map(|note| claimed_seq(note)).max().unwrap_or(0);
        let truncated = self.notes.iter().map(|(chain, notes)| {
            let what = DamageKind::Truncated { signed: signed(notes) };
            ChainVerdict::damaged(chain.clone(), Damage { seq: 1, id: None, what })
        });
        let gone = self.trusted.keys().filter(|chain| !self.notes.contains_key(*chain)).map(|chain| {
            ChainVerdict::damaged(chain.clone(), Damage { seq: 0, id: None, what: DamageKind::ChainGone })
        });
        truncated.chain(gone).collect()
    }
}

pub(super) fn opened(notes: &[String], verifier: &Verifier) -> Result<Notes, StoreError> {
    let mut checkpoints = Notes::new();
    for note in notes {
        let checkpoint = Checkpoint::open(note, verifier)?;
        checkpoints.entry(checkpoint.seq).or_default().push(checkpoint);
    }
    Ok(checkpoints)
}

/// Takes away the checkpoints of histories that restores replaced. Returns the last position that must be signed for that.
pub(super) fn excuse(notes: &mut Notes, restores: &[RecordedRestore]) -> Option<i64> {
    let mut needed = None;
    for checkpoints in notes.values_mut() {
        checkpoints.retain(|checkpoint| {
            let restore = restores.iter().find(|restore| restore.excuses(checkpoint));
            needed = needed.max(restore.map(|restore| restore.seq));
            restore.is_none()
        });
    }
    notes.retain(|_, checkpoints| !checkpoints.is_empty());
    needed
}

fn claimed_seq(note: &str) -> Option<i64> {
    note.lines().nth(1)?.parse().ok()
}
