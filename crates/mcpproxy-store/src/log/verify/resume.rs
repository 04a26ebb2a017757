//! Decides if a verification may continue the last one, and from where.
//!
//! A verification that continues does not read again what the last one read. So it may do so only if nothing speaks
//! against it, and the answer is for all chains together:
//!
//! ```text
//! 1 ──────────── verified then ──────────── checkpoint ──── new lines ──── end
//!   not read again                          │ same key, same hash          │ read as always
//! ```
//!
//! | condition | otherwise |
//! |---|---|
//! | the database has the same checkpoint at that position, and the line there has its hash | the log was changed or set back |
//! | the chain exists, with the same key | somebody replaced the chain |
//! | every given checkpoint before the position was compared then | a new witness must be heard in full |
//! | the records about restores and rotated keys are the same | they excuse checkpoints and extend trust, without being read again |
//! | the last verification found no damage | damage must not be forgotten |
//! | no record at an earlier position has a later key | a forged record would be the newest in every list, unread |
//! | the last full verification is at most a week old, and by this version | lines that are never read again rot unnoticed |
//!
//! The lines themselves give no hint: `restored` and `key_continues` are read from rows before anything is verified. In a
//! full verification, the walk proves those rows afterwards. One that continues does not, so their digest must be the one
//! of the last time.
//!
//! A chain with few lines is always read in full. It costs little, and then tampering with it is always found.

use sha2::{Digest as _, Sha256};

use super::state::{VerifiedChain, VerifiedState};
use super::whole::FullReason;
use super::{OpenChain, Prepared, VerifiedBefore};
use crate::log::positions::Anchor;
use crate::log::restore::hash_at;
use crate::log::sql::Nearest;
use crate::record::id::Key;
use crate::sql::{Statement, Value};
use crate::text::hex;
use crate::{Checkpoint, Store, StoreError, Verifier};

/// A full verification is due after a week.
pub(super) const FULL_EVERY_MS: i64 = 7 * 24 * 60 * 60 * 1000;
const DOING: &str = "read the restores and the rotated keys of the log";
const COMPARING: &str = "compare the new records with their positions";
/// Codes of records that `verify` believes before it has read the chain.
const TURNS: [&str; 3] = ["restored", "key_rotated", "key_continues"];

/// The last verification of this database.
pub(super) struct Previous {
    state: VerifiedState,
    /// The reason not to continue it.
    full: Option<FullReason>,
    /// A chain with at most so many lines is always read in full.
    small_lines: i64,
}

impl Previous {
    /// Compares the state with what is known before a chain is read.
    pub(super) fn new(
        state: VerifiedState,
        asked: Option<FullReason>,
        turns: &str,
        now_ms: i64,
        small_lines: i64,
    ) -> Self {
        let age_ms = now_ms.saturating_sub(state.full_ms);
        let full = if asked.is_some() {
            asked
        } else if state.damaged {
            Some(FullReason::DamagedBefore)
        } else if !state.is_of_this_program() {
            Some(FullReason::OtherProgram)
        } else if !(0..=FULL_EVERY_MS).contains(&age_ms) || state.time_ms > now_ms {
            Some(FullReason::Old)
        } else if state.turns != turns {
            Some(FullReason::Turned)
        } else {
            None
        };
        Self { state, full, small_lines }
    }

    pub(super) fn full_ms(&self) -> i64 {
        self.state.full_ms
    }

    /// The state after damage was found: still evidence, but nothing may be skipped.
    pub(super) fn damaged(self) -> VerifiedState {
        self.state.with_damage()
    }

    /// The checkpoints of the chain with this key, each with its text.
    pub(super) fn checkpoints(&self, key: &Verifier) -> Vec<(Checkpoint, String)> {
        let chain = self.state.chains.iter().find(|chain| chain.verifier().as_ref() == Some(key));
        let notes = chain.into_iter().flat_map(VerifiedChain::notes);
        notes.filter_map(|note| Some((Checkpoint::open(note, key).ok()?, note.to_owned()))).collect()
    }

    /// The names of all chains, with the newest checkpoint of each.
    pub(super) fn notes(&self) -> impl Iterator<Item = (String, String)> {
        let named =
            |chain: &VerifiedChain| Some((chain.verifier()?.chain().to_owned(), chain.newest_note().to_owned()));
        self.state.chains.iter().filter_map(named)
    }

    /// Moves each chain to its verified checkpoint: all of them, or none. Returns the reason if nothing was moved.
    pub(super) async fn resume(
        &self,
        store: &Store,
        chains: &mut [Prepared],
    ) -> Result<Option<FullReason>, StoreError> {
        if self.full.is_some() {
            return Ok(self.full.clone());
        }
        for (name, _) in self.notes() {
            if !chains.iter().any(|chain| chain.name() == name) {
                return Ok(Some(FullReason::CheckpointGone { chain: name }));
            }
        }
        let mut starts = Vec::new();
        for (index, chain) in chains.iter().enumerate() {
            let open = match chain {
                Prepared::Open(open) if open.check.damage.is_none() => open,
                Prepared::Open(_) | Prepared::Damaged(_) => return Ok(Some(FullReason::Damaged)),
            };
            match self.start_of(store, open).await? {
                Start::There(start) => starts.push((index, start)),
                Start::AtTheBeginning => {}
                Start::Suspicious(reason) => return Ok(Some(reason)),
            }
        }
        if starts.is_empty() {
            return Ok(Some(FullReason::Small));
        }
        for (index, (verified, checkpoint)) in starts {
            if let Some(Prepared::Open(open)) = chains.get_mut(index) {
                open.move_to(verified, &checkpoint, self.state.time_ms);
            }
        }
        Ok(None)
    }

    async fn start_of(&self, store: &Store, open: &OpenChain) -> Result<Start, StoreError> {
        let (check, chain) = (&open.check, &open.check.chain);
        let name = || chain.name.clone();
        let is_named = |one: &&VerifiedChain| one.verifier().is_some_and(|key| key.chain() == chain.name);
        let Some(verified) = self.state.chains.iter().find(is_named) else { return Ok(Start::AtTheBeginning) };
        let Some(checkpoint) = verified.checkpoint().filter(|_| verified.key == chain.verifier) else {
            return Ok(Start::Suspicious(FullReason::CheckpointGone { chain: name() }));
        };
        let seq = checkpoint.seq;
        if seq <= check.walk.seq {
            // Retention has removed these lines, and signed that.
            return Ok(Start::AtTheBeginning);
        }
        if !is_stored(store, open, &checkpoint).await? {
            return Ok(Start::Suspicious(FullReason::CheckpointGone { chain: name() }));
        }
        let is_outside = |seq: i64| open.outside.contains_key(&seq);
        let is_known = verified.knows(&open.outside) && check.notes.range(..seq).all(|(seq, _)| is_outside(*seq));
        if !is_known {
            return Ok(Start::Suspicious(FullReason::OtherCheckpoints { chain: name() }));
        }
        if check.end - check.walk.seq <= self.small_lines {
            return Ok(Start::AtTheBeginning);
        }
        // Without a record before it, there is no time to compare with.
        let Some(last_key) = verified.last_key else { return Ok(Start::AtTheBeginning) };
        if has_misplaced(store, chain.number, last_key, seq).await? {
            return Ok(Start::Suspicious(FullReason::Misplaced { chain: name() }));
        }
        Ok(Start::There((verified.clone(), checkpoint)))
    }
}

/// The place where the walk over a chain starts.
enum Start {
    AtTheBeginning,
    There((VerifiedChain, Checkpoint)),
    /// Nothing may be skipped, in no chain.
    Suspicious(FullReason),
}

/// Tells if the database still has this checkpoint, and a line with its hash.
async fn is_stored(store: &Store, open: &OpenChain, checkpoint: &Checkpoint) -> Result<bool, StoreError> {
    let (check, seq) = (&open.check, checkpoint.seq);
    let (database, number) = (store.database(), check.chain.number);
    let stored = database.checkpoint(number, Nearest::UpTo(seq)).await?.filter(|(stored, _)| *stored == seq);
    let stored = stored.and_then(|(_, note)| Checkpoint::open(&note, &check.walk.verifier).ok());
    let is_same = stored.is_some_and(|stored| stored.seq == seq && stored.hash == checkpoint.hash);
    let is_stub = check.walk.stubs.iter().any(|(stub, _)| *stub == seq);
    let has_line = is_stub || hash_at(database, number, seq).await? == Some(checkpoint.hash);
    let is_undisputed = check.notes.get(&seq).into_iter().flatten().all(|note| note.hash == checkpoint.hash);
    Ok(is_same && has_line && is_undisputed && seq <= check.end)
}

/// Tells if a record after this key claims a position that is not read again. Ids of a chain are in order, so no honest
/// one does. Lists show records by their keys, and the walk reads them by their positions, so it would not see this one.
async fn has_misplaced(store: &Store, chain: u16, last_key: i64, seq: i64) -> Result<bool, StoreError> {
    // The sums keep the index of positions out, which has all the old rows. The primary key has only the new ones.
    let sql = "SELECT seq FROM records WHERE key > $1 AND chain + 0 = $2 AND seq + 0 <= $3 LIMIT 1";
    let values = vec![Value::int(last_key), Value::int(chain.into()), Value::int(seq)];
    let rows = store.database().fetch(Statement::new(sql, values), COMPARING).await?;
    Ok(!rows.is_empty())
}

impl OpenChain {
    fn move_to(&mut self, verified: VerifiedChain, checkpoint: &Checkpoint, time_ms: i64) {
        let walk = &mut self.check.walk;
        let last_key = verified.last_key.map(Key);
        let lines = checkpoint.seq - walk.seq;
        self.check.before = Some(VerifiedBefore { seq: checkpoint.seq, lines, time_ms });
        walk.anchor = Some(Anchor { seq: checkpoint.seq, note: verified.note.clone(), last_key });
        (walk.seq, walk.hash, walk.last_key) = (checkpoint.seq, checkpoint.hash, last_key);
        walk.counts.last_signed = Some(checkpoint.seq);
        self.from = Some(verified);
    }
}

impl Store {
    /// Digest of the records that `verify` believes before it has read the chain.
    pub(super) async fn turns(&self) -> Result<String, StoreError> {
        let sql = "SELECT chain, seq, metadata FROM records WHERE kind = 'settings' AND kind <> 'call' AND code = $1 \
                   ORDER BY kind, key";
        let mut hashed = Sha256::new();
        for code in TURNS {
            for row in self.database().fetch(Statement::new(sql, vec![Value::text(code)]), DOING).await? {
                let int = |column| row.int(column).ok().flatten().unwrap_or(-1);
                let metadata = row.text(2).ok().flatten().unwrap_or_default();
                hashed.update(format!("{code} {} {} {}\n{metadata}\n", int(0), int(1), metadata.len()));
            }
        }
        Ok(hex(&hashed.finalize()))
    }
}
