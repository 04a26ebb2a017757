//! The check before a chain is continued: is this its key, and is its end as it was written?
//!
//! `mcpproxy activity verify` reads the whole log, which takes minutes for a large one. A gateway must start in seconds.
//! So the check reads the *tail*: it begins at a signed checkpoint at least [`TAIL_LINES`] lines before the end, and
//! follows the chain from there, with payloads and checkpoints, exactly as `verify` does. An attacker could have deleted
//! the checkpoints, so it never begins more than [`TAIL_LINES_MAX`] lines before the end. What this finds is what new
//! records would otherwise hide: an end that was cut off, replaced or rewritten, and a key that is not the chain's.
//!
//! ```text
//! 1 ───────────────────────── checkpoint ──────────────── checkpoint ───── end
//!   only `verify` reads this  │◀──────── at least 1,000 lines ────────────▶│
//! ```
//!
//! Two files outside the database tell what it should contain. `checkpoint.txt` names the chain and its last signed
//! position. `signing.key` names the chain by its public key. An unreadable `checkpoint.txt` only causes a warning:
//! whoever can write nonsense into it can also delete it.
//!
//! `file_damage` of the store (SQLite's `integrity_check`) is not part of this, because it reads the whole file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::positions::ChainWalk;
use super::sql::{ChainRow, Nearest};
use super::verify::{Check, Progress, ProgressMeter};
use crate::error::with_causes;
use crate::sql::Dialect;
use crate::{Checkpoint, Damage, DamageKind, Store, StoreError, Verifier};

/// Lines before the end that are always checked. A gateway that was killed leaves about as many without a signature.
const TAIL_LINES: i64 = 1_000;
const TAIL_LINES_MAX: i64 = 4_000;

impl Store {
    /// Checks that a data folder has the key of the chain that it wrote before. `None` is a folder without a key.
    ///
    /// A SQLite database belongs to one data folder, so its chains tell, too. In PostgreSQL, they may belong to other
    /// gateways, and only the checkpoint tells.
    pub async fn check_key(&self, key: Option<&Verifier>, newest: &Path) -> Result<(), StoreError> {
        let note = read_note(newest)?;
        let mut written = note.as_deref().and_then(chain_of).map(str::to_owned);
        if self.database().dialect() == Dialect::Sqlite {
            let chains = self.database().chain_rows().await?;
            let is_known = key.is_some_and(|key| chains.iter().any(|chain| chain.name == key.chain()));
            if !is_known {
                written = written.or(chains.into_iter().max_by_key(|chain| chain.created_ms).map(|chain| chain.name));
            }
        }
        match (written, key) {
            (None, _) => Ok(()),
            (Some(chain), None) => Err(StoreError::KeyMissing { chain }),
            (Some(chain), Some(key)) if chain == key.chain() || self.succeeds(&chain, key).await? => Ok(()),
            (Some(chain), Some(_)) => Err(StoreError::KeyReplaced { chain }),
        }
    }

    /// Checks the end of the chain of this key, also against the newest checkpoint outside the database.
    pub(super) async fn check_chain(&self, key: &Verifier, newest: Option<&Path>) -> Result<(), StoreError> {
        let note = newest.map(read_note).transpose()?.flatten();
        let other = note.as_deref().and_then(chain_of).filter(|chain| *chain != key.chain());
        let is_older = match other {
            // A rotation of the key was interrupted before the new chain had a checkpoint.
            Some(chain) if self.succeeds(chain, key).await? => true,
            Some(chain) => return Err(StoreError::KeyReplaced { chain: chain.to_owned() }),
            None => false,
        };
        let signed = note.filter(|_| !is_older).and_then(|note| {
            let opened = Checkpoint::open(&note, key);
            opened.inspect_err(|e| tracing::warn!(error = with_causes(e), "ignoring an unusable checkpoint.txt")).ok()
        });
        match self.tail_damage(key, signed).await? {
            None => Ok(()),
            Some(damage) => Err(StoreError::Damaged { chain: key.chain().to_owned(), damage: damage.to_string() }),
        }
    }

    async fn tail_damage(&self, key: &Verifier, signed: Option<Checkpoint>) -> Result<Option<Damage>, StoreError> {
        let database = self.database();
        let whole_chain = |what| Some(Damage { seq: 0, id: None, what });
        let row = database.chain_rows().await?.into_iter().find(|row| row.name == key.chain());
        let Some(row) = row else {
            // A new chain, unless it was signed before.
            let truncated = |signed: Checkpoint| DamageKind::Truncated { signed: signed.seq };
            return Ok(signed.map(truncated).map(|what| Damage { seq: 1, id: None, what }));
        };
        if row.verifier != key.to_string() {
            return Ok(whole_chain(DamageKind::WrongKey));
        }
        // In this order: a gateway signs only what is written.
        let signed_seq = row.signed_seq.max(signed.as_ref().map(|signed| signed.seq));
        let ends = database.chain_ends().await?;
        let end = ends.iter().find(|end| end.chain == row.number).map_or(0, |end| end.seq);
        let Some(removal) = database.removal(row.number).await? else {
            return Ok(whole_chain(DamageKind::ChainGone));
        };
        let walk = match ChainWalk::begin(&row, removal, key) {
            Ok(walk) => walk,
            Err(damage) => return Ok(Some(damage)),
        };
        let notes: BTreeMap<_, _> = signed.into_iter().map(|signed| (signed.seq, vec![signed])).collect();
        let mut check = Check { removed: walk.seq, chain: row, walk, end, notes, before: None, damage: None };
        check.start(self).await?;
        check.skip_to_tail(self).await?;
        check.run(self, &mut ProgressMeter::new(&mut |_: Progress| {}, 0)).await?;
        let truncated = |signed| Damage { seq: end + 1, id: None, what: DamageKind::Truncated { signed } };
        Ok(check.damage.or(signed_seq.filter(|signed| *signed > end).map(truncated)))
    }
}

impl Check {
    /// Moves the walk to the beginning of the tail.
    async fn skip_to_tail(&mut self, store: &Store) -> Result<(), StoreError> {
        let database = store.database();
        let newest = self.notes.keys().next_back().map_or(i64::MAX, |seq| seq - 1);
        let ChainRow { number, .. } = self.chain;
        let begin = self.end.saturating_sub(TAIL_LINES).min(newest);
        if self.damage.is_some() {
            return Ok(());
        }
        let stored = database.checkpoint(number, Nearest::UpTo(begin)).await?;
        if let Some((seq, note)) = stored.filter(|(seq, _)| *seq > self.walk.seq) {
            match Checkpoint::open(&note, &self.walk.verifier).ok().filter(|checkpoint| checkpoint.seq == seq) {
                Some(checkpoint) => (self.walk.seq, self.walk.hash) = (seq, checkpoint.hash),
                None => self.damage = Some(Damage { seq, id: None, what: DamageKind::WrongCheckpoint }),
            }
        }
        let farthest = self.end.saturating_sub(TAIL_LINES_MAX);
        if self.walk.seq < farthest
            && let Some((seq, hash)) = database.line_up_to(number, farthest).await?
            && seq > self.walk.seq
        {
            (self.walk.seq, self.walk.hash) = (seq, hash);
        }
        Ok(())
    }
}

/// Reads `checkpoint.txt`, if it exists. Bytes that are no text do not matter: no signature fits them.
fn read_note(path: &Path) -> Result<Option<String>, StoreError> {
    match std::fs::read(path) {
        Ok(note) => Ok(Some(String::from_utf8_lossy(&note).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::Open { path: path.to_owned(), source: Arc::new(source) }),
    }
}

/// The chain that a note claims, if that is the name of a chain.
fn chain_of(note: &str) -> Option<&str> {
    Checkpoint::claimed_chain(note).filter(|chain| Verifier::is_chain_name(chain))
}
