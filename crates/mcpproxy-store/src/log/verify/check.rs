//! Walks over the lines of one chain, and reports how far it is.

use super::evidence::Notes;
use super::{ChainVerdict, Progress, VerifiedBefore};
use crate::log::positions::{ChainWalk, Positions, WalkCounts};
use crate::log::restore::RecordedRestore;
use crate::log::sql::{ChainRow, Nearest, Stretch};
use crate::{Damage, DamageKind, Store, StoreError};

/// Positions to read at a time. The range shrinks while rows carry much text.
const STRETCH_MAX: i64 = 2_000;
const STRETCH_MIN: i64 = 16;
const STRETCH_BYTES: usize = 8 * 1024 * 1024;
const PROGRESS_LINES: u64 = 10_000;

/// The state of verifying one chain.
pub(in crate::log) struct Check {
    pub(in crate::log) chain: ChainRow,
    /// The last position that retention removed.
    pub(in crate::log) removed: i64,
    pub(in crate::log) walk: ChainWalk,
    pub(in crate::log) end: i64,
    /// Checkpoints from outside, by position.
    pub(in crate::log) notes: Notes,
    /// The lines that are not read again.
    pub(in crate::log) before: Option<VerifiedBefore>,
    pub(in crate::log) damage: Option<Damage>,
}

impl Check {
    /// Checks the position at which the chain starts now.
    pub(in crate::log) async fn start(&mut self, store: &Store) -> Result<(), StoreError> {
        let first = store.database().first_row(self.chain.number.into()).await?;
        if let Some((seq, id)) = first.and_then(|row| Some((row.seq?, row.id)))
            && seq <= self.walk.seq
        {
            self.damage = Some(Damage { seq, id, what: DamageKind::Inserted });
        }
        let seq = self.walk.seq;
        let stored = store.database().checkpoint(self.chain.number, Nearest::UpTo(seq)).await?;
        let mut looked = Ok(());
        if let Some((_, note)) = stored.filter(|(signed, _)| *signed == seq && seq > 0) {
            looked = self.walk.check_note(&note).map(drop);
        }
        for checkpoint in self.notes.get(&seq).into_iter().flatten() {
            looked = looked.and_then(|()| self.walk.check_checkpoint(checkpoint));
        }
        self.damage = self.damage.take().or(looked.err());
        Ok(())
    }

    pub(in crate::log) async fn run(&mut self, store: &Store, meter: &mut ProgressMeter<'_>) -> Result<(), StoreError> {
        let (database, number) = (store.database(), self.chain.number);
        let mut size = STRETCH_MAX / 4;
        let mut ahead: Option<(i64, Stretch)> = None;
        while self.damage.is_none() && self.walk.seq < self.end {
            let begun = self.walk.clone();
            let (last, stretch) = match ahead.take() {
                Some(ahead) => ahead,
                None => {
                    let last = self.end.min(begun.seq.saturating_add(size));
                    (last, database.stretch(number, begun.seq + 1, last).await?)
                }
            };
            let notes = self.notes.range(begun.seq + 1..=last).map(|(seq, notes)| (*seq, notes.clone())).collect();
            let job = Job { walk: begun.clone(), last, notes };
            // Reads the next range while this one is checked.
            let following = self.end.min(last.saturating_add(size));
            let reading = database.stretch(number, last + 1, following);
            let (checked, read) = tokio::join!(tokio::task::spawn_blocking(move || job.run(stretch)), reading);
            let Checked { walk, damage, bytes } = checked.map_err(|_| StoreError::Closed)?;
            match damage {
                None => {
                    meter.add(walk.seq - begun.seq);
                    self.walk = walk;
                    ahead = Some((following, read?));
                }
                Some(damage) => {
                    if !self.begin_again(store, begun).await? {
                        (self.walk, self.damage) = (walk, Some(damage));
                    }
                }
            }
            size = if bytes > STRETCH_BYTES { (size / 2).max(STRETCH_MIN) } else { (size * 2).min(STRETCH_MAX) };
        }
        Ok(())
    }

    /// Continues after retention removed records meanwhile, which looks like damage. Returns `false` if it did not.
    async fn begin_again(&mut self, store: &Store, begun: ChainWalk) -> Result<bool, StoreError> {
        let removal = store.database().removal(self.chain.number).await?;
        let Some(removal) = removal.filter(|removal| removal.seq != self.removed) else { return Ok(false) };
        self.removed = removal.seq;
        match ChainWalk::begin(&self.chain, removal, &begun.verifier) {
            Ok(again) if again.seq > begun.seq => {
                self.walk = ChainWalk { counts: begun.counts, anchor_max: begun.anchor_max, ..again };
            }
            Ok(again) => self.walk = ChainWalk { stubs: again.stubs, ..begun },
            Err(damage) => self.damage = Some(damage),
        }
        Ok(true)
    }

    pub(super) fn verdict(self, is_trusted: bool, restores: Vec<RecordedRestore>) -> ChainVerdict {
        let WalkCounts { records, payloads, erased, checkpoints, last_signed } = self.walk.counts;
        // Retention may have removed lines meanwhile that were not read again.
        let removed = self.removed;
        let verified_before = self.before.filter(|before| before.seq > removed);
        let verified_before = verified_before.map(|before| VerifiedBefore { lines: before.seq - removed, ..before });
        let first = verified_before.map_or(removed, |before| before.seq);
        ChainVerdict {
            chain: self.chain.name,
            lines: (self.walk.seq - first).max(0),
            verified_before,
            removed: self.removed,
            records,
            checkpoints,
            payloads,
            erased,
            last_signed,
            is_trusted,
            restores,
            damage: self.damage,
        }
    }
}

/// A range to check on a blocking thread.
struct Job {
    walk: ChainWalk,
    last: i64,
    notes: Notes,
}

struct Checked {
    walk: ChainWalk,
    damage: Option<Damage>,
    bytes: usize,
}

impl Job {
    fn run(mut self, stretch: Stretch) -> Checked {
        let positions = stretch.positions(&self.walk, self.last);
        let bytes = positions.bytes;
        let damage = self.follow(&positions).err();
        Checked { walk: self.walk, damage, bytes }
    }

    fn follow(&mut self, positions: &Positions) -> Result<(), Damage> {
        for position in &positions.list {
            self.walk.step(position)?;
            for note in positions.notes.get(&position.seq).into_iter().flatten() {
                self.walk.check_note(note)?;
            }
            for checkpoint in self.notes.get(&position.seq).into_iter().flatten() {
                self.walk.check_checkpoint(checkpoint)?;
            }
        }
        if self.walk.seq < self.last {
            return Err(Damage { seq: self.walk.seq + 1, id: None, what: DamageKind::Missing });
        }
        Ok(())
    }
}

pub(in crate::log) struct ProgressMeter<'p> {
    progress: &'p mut (dyn FnMut(Progress) + Send),
    now: Progress,
    told: u64,
}

impl<'p> ProgressMeter<'p> {
    pub(in crate::log) fn new(progress: &'p mut (dyn FnMut(Progress) + Send), total: u64) -> Self {
        Self { progress, now: Progress { done: 0, total }, told: 0 }
    }

    fn add(&mut self, lines: i64) {
        self.now.done += lines.max(0).unsigned_abs();
        if self.now.done - self.told >= PROGRESS_LINES {
            self.tell();
        }
    }

    pub(super) fn tell(&mut self) {
        self.told = self.now.done;
        (self.progress)(self.now);
    }
}
