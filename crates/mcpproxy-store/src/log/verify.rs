//! Verifies the log: every chain from its first line to its last, against its hashes and signed checkpoints.
//!
//! For each chain, `verify` checks in this order and stops at the first damage:
//!
//! 1. The stored key matches the name of the chain, and the trusted key if the caller passed one.
//! 2. Missing records at the start have a signed removal (`removal.rs`).
//! 3. Every position exists once, its line has the stored hash, ids are in order, and payloads match their digests.
//! 4. Checkpoints match, both those in the database and those that the caller kept outside.
//! 5. The chain reaches the last signed position, so that nothing was cut off at the end.
//! 6. A checkpoint of a history that a restore replaced needs a signed record of that restore (`restore.rs`).
//!
//! Hashes alone prove nothing against an attacker who rewrites the whole database. The proof comes from outside: a
//! saved [`Verifier`] and saved checkpoints. Lines after the last checkpoint are consistent, but not signed yet.
//!
//! The gateway may write while this runs. New records are left out, because the end of each chain is read first.
//! Retention may remove records, too. So before damage is reported, the removal is read again; if it moved, the check
//! continues after it. Memory stays bounded: positions are read in ranges, which shrink while rows carry much text. The
//! next range is read while a blocking task hashes the current one.

use std::collections::BTreeMap;

use crate::log::positions::{ChainWalk, Positions, WalkCounts};
use crate::log::restore::RecordedRestore;
use crate::log::sql::{ChainRow, Nearest, Stretch};
use crate::log::succession::{Predecessor, Succession};
use crate::{Checkpoint, Damage, DamageKind, NoteError, Store, StoreError, Verifier};

/// Positions to read at a time. The range shrinks while rows carry much text.
const STRETCH_MAX: i64 = 2_000;
const STRETCH_MIN: i64 = 16;
const STRETCH_BYTES: usize = 8 * 1024 * 1024;
const PROGRESS_LINES: u64 = 10_000;

#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Checkpoints that were kept outside the database.
    pub checkpoints: Vec<String>,
    /// Trusted keys. Their chains must exist and be signed with them.
    pub trusted: Vec<Verifier>,
}

/// The number of lines done, of about `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// The result of verifying a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainVerdict {
    pub chain: String,
    /// The number of checked positions.
    pub lines: i64,
    /// The number of positions before these that retention removed.
    pub removed: i64,
    pub records: u64,
    pub checkpoints: u64,
    pub payloads: u64,
    /// Payloads that were erased.
    pub erased: u64,
    /// The last position with a valid checkpoint.
    pub last_signed: Option<i64>,
    /// `true` if its key is a trusted key.
    pub is_trusted: bool,
    /// The restores that its records tell of, oldest first.
    pub restores: Vec<RecordedRestore>,
    pub damage: Option<Damage>,
}

/// A chain as the database describes it, unverified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainInfo {
    pub number: u16,
    pub name: String,
    pub verifier: String,
    pub created_ms: i64,
    /// The last position.
    pub lines: i64,
    pub removed_seq: i64,
    pub checkpoints: u64,
    /// Its claimed position and time.
    pub newest_checkpoint: Option<(i64, String)>,
}

impl Store {
    pub async fn chains(&self) -> Result<Vec<ChainInfo>, StoreError> {
        let database = self.database();
        let rows = database.chain_rows().await?;
        let ends: BTreeMap<_, _> = database.chain_ends().await?.into_iter().map(|end| (end.chain, end.seq)).collect();
        let mut chains = Vec::with_capacity(rows.len());
        for row in rows {
            let newest = database.checkpoint(row.number, Nearest::UpTo(i64::MAX)).await?;
            chains.push(ChainInfo {
                number: row.number,
                lines: ends.get(&row.number).copied().unwrap_or(0),
                removed_seq: row.removed_seq,
                created_ms: row.created_ms,
                checkpoints: database.checkpoint_count(row.number).await?,
                newest_checkpoint: newest.map(|(seq, note)| (seq, Checkpoint::claimed_time(&note))),
                name: row.name,
                verifier: row.verifier,
            });
        }
        Ok(chains)
    }

    /// Verifies all chains as they are now. Records that a gateway writes meanwhile are left out.
    pub async fn verify(
        &self,
        options: VerifyOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Vec<ChainVerdict>, StoreError> {
        let database = self.database();
        // In this order: there are no records before their chain, no checkpoint before what it signs.
        let numbers = database.chains_of_records().await?;
        let rows = database.chain_rows().await?;
        let ends: BTreeMap<_, _> = database.chain_ends().await?.into_iter().map(|end| (end.chain, end.seq)).collect();
        let mut evidence = Evidence::new(options)?;
        evidence.follow_keys(self, &rows).await?;
        let total = rows.iter().map(|row| ends.get(&row.number).copied().unwrap_or(0) - row.removed_seq).sum::<i64>();
        let mut meter = ProgressMeter::new(progress, total.max(0).unsigned_abs());
        let mut verdicts = Vec::new();
        let known: Vec<i64> = rows.iter().map(|row| row.number.into()).collect();
        for row in rows {
            let end = ends.get(&row.number).copied().unwrap_or(0);
            verdicts.push(self.verify_chain(row, end, &mut evidence, &mut meter).await?);
        }
        for number in numbers.into_iter().filter(|number| !known.contains(number)) {
            let first = database.first_row(number).await?;
            let (seq, id) = first.map_or((1, None), |row| (row.seq.unwrap_or(1).max(1), row.id));
            let damage = Damage { seq, id, what: DamageKind::NoSuchChain };
            verdicts.push(ChainVerdict::damaged(format!("number {number}"), damage));
        }
        verdicts.extend(evidence.missing());
        meter.tell();
        Ok(verdicts)
    }

    async fn verify_chain(
        &self,
        row: ChainRow,
        end: i64,
        evidence: &mut Evidence,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<ChainVerdict, StoreError> {
        let notes = evidence.notes.remove(&row.name).unwrap_or_default();
        let trusted = evidence.trusted.remove(&row.name);
        let verifier = Verifier::parse(&row.verifier).filter(|verifier| verifier.chain() == row.name);
        let verifier = verifier.filter(|verifier| trusted.as_ref().is_none_or(|trusted| trusted == verifier));
        let whole_chain = |what| Damage { seq: 0, id: None, what };
        let Some(verifier) = verifier else {
            return Ok(ChainVerdict::damaged(row.name, whole_chain(DamageKind::WrongKey)));
        };
        let mut notes = opened(&notes, &verifier)?;
        let restores = self.restores(row.number).await?;
        let excused = excuse(&mut notes, &restores);
        for end in evidence.ends.remove(&row.name).into_iter().flatten() {
            notes.entry(end.seq).or_default().push(end);
        }
        let signed = row.signed_seq.max(notes.keys().next_back().copied());
        let Some(removal) = self.database().removal(row.number).await? else {
            return Ok(ChainVerdict::damaged(row.name, whole_chain(DamageKind::ChainGone)));
        };
        let walk = match ChainWalk::begin(&row, removal, &verifier) {
            Ok(walk) => walk,
            Err(damage) => return Ok(ChainVerdict::damaged(row.name, damage)),
        };
        let mut check = Check { removed: walk.seq, chain: row, walk, end, notes, damage: None };
        check.start(self).await?;
        check.run(self, meter).await?;
        if check.damage.is_none()
            && let Some(signed) = signed.filter(|signed| *signed > end)
        {
            check.damage = Some(Damage { seq: end + 1, id: None, what: DamageKind::Truncated { signed } });
        }
        // A record of a restore counts only if its position is signed.
        let is_signed = |seq: i64| check.walk.counts.last_signed.is_some_and(|signed| signed >= seq);
        if check.damage.is_none()
            && let Some(seq) = excused.filter(|seq| !is_signed(*seq))
        {
            check.damage = Some(Damage { seq, id: None, what: DamageKind::UnsignedRestore });
        }
        Ok(check.verdict(trusted.is_some(), restores))
    }
}

/// The state of verifying one chain.
pub(super) struct Check {
    pub(super) chain: ChainRow,
    /// The last position that retention removed.
    pub(super) removed: i64,
    pub(super) walk: ChainWalk,
    pub(super) end: i64,
    /// Checkpoints from outside, by position.
    pub(super) notes: BTreeMap<i64, Vec<Checkpoint>>,
    pub(super) damage: Option<Damage>,
}

impl Check {
    /// Checks the position at which the chain starts now.
    pub(super) async fn start(&mut self, store: &Store) -> Result<(), StoreError> {
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

    pub(super) async fn run(&mut self, store: &Store, meter: &mut ProgressMeter<'_>) -> Result<(), StoreError> {
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
            Ok(again) if again.seq > begun.seq => self.walk = ChainWalk { counts: begun.counts, ..again },
            Ok(again) => self.walk = ChainWalk { stubs: again.stubs, ..begun },
            Err(damage) => self.damage = Some(damage),
        }
        Ok(true)
    }

    fn verdict(self, is_trusted: bool, restores: Vec<RecordedRestore>) -> ChainVerdict {
        let WalkCounts { records, payloads, erased, checkpoints, last_signed } = self.walk.counts;
        ChainVerdict {
            chain: self.chain.name,
            lines: (self.walk.seq - self.removed).max(0),
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
    notes: BTreeMap<i64, Vec<Checkpoint>>,
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

/// Checkpoints and keys from outside the database, by the name of the chain.
struct Evidence {
    notes: BTreeMap<String, Vec<String>>,
    trusted: BTreeMap<String, Verifier>,
    /// The ends of older chains, which the first record of the next chain states.
    ends: BTreeMap<String, Vec<Checkpoint>>,
}

impl Evidence {
    /// Trusts the keys that trusted keys signed, and the older keys whose chains they continue.
    async fn follow_keys(&mut self, store: &Store, rows: &[ChainRow]) -> Result<(), StoreError> {
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

    fn new(options: VerifyOptions) -> Result<Self, StoreError> {
        let mut notes = BTreeMap::<String, Vec<String>>::new();
        for note in options.checkpoints {
            let chain = Checkpoint::claimed_chain(&note).ok_or(StoreError::Checkpoint { source: NoteError::Form })?;
            notes.entry(chain.to_owned()).or_default().push(note);
        }
        let trusted = options.trusted.into_iter().map(|verifier| (verifier.chain().to_owned(), verifier)).collect();
        Ok(Self { notes, trusted, ends: BTreeMap::new() })
    }

    /// Verdicts for chains that should exist and do not.
    fn missing(self) -> Vec<ChainVerdict> {
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

pub(super) struct ProgressMeter<'p> {
    progress: &'p mut (dyn FnMut(Progress) + Send),
    now: Progress,
    told: u64,
}

impl<'p> ProgressMeter<'p> {
    pub(super) fn new(progress: &'p mut (dyn FnMut(Progress) + Send), total: u64) -> Self {
        Self { progress, now: Progress { done: 0, total }, told: 0 }
    }

    fn add(&mut self, lines: i64) {
        self.now.done += lines.max(0).unsigned_abs();
        if self.now.done - self.told >= PROGRESS_LINES {
            self.tell();
        }
    }

    fn tell(&mut self) {
        self.told = self.now.done;
        (self.progress)(self.now);
    }
}

impl ChainVerdict {
    fn damaged(chain: String, damage: Damage) -> Self {
        Self {
            chain,
            lines: 0,
            removed: 0,
            records: 0,
            checkpoints: 0,
            payloads: 0,
            erased: 0,
            last_signed: None,
            is_trusted: false,
            restores: Vec::new(),
            damage: Some(damage),
        }
    }
}

fn opened(notes: &[String], verifier: &Verifier) -> Result<BTreeMap<i64, Vec<Checkpoint>>, StoreError> {
    let mut checkpoints = BTreeMap::<i64, Vec<Checkpoint>>::new();
    for note in notes {
        let checkpoint = Checkpoint::open(note, verifier)?;
        checkpoints.entry(checkpoint.seq).or_default().push(checkpoint);
    }
    Ok(checkpoints)
}

/// Takes away the checkpoints of histories that restores replaced. Returns the last position that must be signed for that.
fn excuse(notes: &mut BTreeMap<i64, Vec<Checkpoint>>, restores: &[RecordedRestore]) -> Option<i64> {
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
