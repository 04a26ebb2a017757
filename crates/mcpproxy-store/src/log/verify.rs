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
//! `Store::verify` reads every line. `Store::verify_log` (`verify/whole.rs`) may continue after the lines of the last
//! verification instead. `verify/resume.rs` decides when it may.
//!
//! Hashes alone prove nothing against an attacker who rewrites the whole database. The proof comes from outside: a
//! saved [`Verifier`] and saved checkpoints. Lines after the last checkpoint are consistent, but not signed yet.
//!
//! The gateway may write while this runs. New records are left out, because the end of each chain is read first.
//! Retention may remove records, too. So before damage is reported, the removal is read again; if it moved, the check
//! continues after it. Memory stays bounded: positions are read in ranges, which shrink while rows carry much text. The
//! next range is read while a blocking task hashes the current one.

mod check;
mod evidence;
mod resume;
pub(crate) mod state;
pub(crate) mod whole;

use std::collections::BTreeMap;

pub(super) use self::check::{Check, ProgressMeter};
use self::evidence::{Evidence, Notes, excuse, opened};
use self::resume::Previous;
use self::state::VerifiedChain;
use self::whole::FullReason;
use crate::log::positions::ChainWalk;
use crate::log::restore::RecordedRestore;
use crate::log::sql::{ChainRow, Nearest};
use crate::{Checkpoint, Damage, DamageKind, Store, StoreError, Verifier};

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
    /// The number of positions that this verification checked.
    pub lines: i64,
    /// The positions before these that it did not read again.
    pub verified_before: Option<VerifiedBefore>,
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

/// The part of a chain that an earlier verification checked, and this one did not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedBefore {
    /// Its last position.
    pub seq: i64,
    pub lines: i64,
    /// The time of the earlier verification.
    pub time_ms: i64,
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

    /// Verifies all lines of all chains as they are now. Records that a gateway writes meanwhile are left out.
    pub async fn verify(
        &self,
        options: VerifyOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Vec<ChainVerdict>, StoreError> {
        Ok(self.verify_after(options, None, progress).await?.verdicts)
    }

    /// Verifies all chains. If an earlier verification may be continued, its lines are not read again.
    async fn verify_after(
        &self,
        options: VerifyOptions,
        previous: Option<&Previous>,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Walked, StoreError> {
        let database = self.database();
        // In this order: there are no records before their chain, no checkpoint before what it signs.
        let numbers = database.chains_of_records().await?;
        let rows = database.chain_rows().await?;
        let ends: BTreeMap<_, _> = database.chain_ends().await?.into_iter().map(|end| (end.chain, end.seq)).collect();
        let mut evidence = Evidence::new(options)?;
        evidence.follow_keys(self, &rows).await?;
        let known: Vec<i64> = rows.iter().map(|row| row.number.into()).collect();
        let mut chains = Vec::with_capacity(rows.len());
        for row in rows {
            let end = ends.get(&row.number).copied().unwrap_or(0);
            chains.push(self.prepare(row, end, &mut evidence, previous).await?);
        }
        if let Some(previous) = previous {
            evidence.remember(previous, &chains);
        }
        let full = match previous {
            Some(previous) => previous.resume(self, &mut chains).await?,
            None => None,
        };
        let total: i64 = chains.iter().map(Prepared::lines).sum();
        let mut meter = ProgressMeter::new(progress, total.max(0).unsigned_abs());
        let mut walked = Walked { verdicts: Vec::new(), verified: Vec::new(), full };
        for chain in chains {
            match chain {
                Prepared::Damaged(verdict) => walked.verdicts.push(*verdict),
                Prepared::Open(open) => {
                    let (verdict, verified) = open.finish(self, &mut meter).await?;
                    walked.verdicts.push(verdict);
                    walked.verified.extend(verified);
                }
            }
        }
        for number in numbers.into_iter().filter(|number| !known.contains(number)) {
            let first = database.first_row(number).await?;
            let (seq, id) = first.map_or((1, None), |row| (row.seq.unwrap_or(1).max(1), row.id));
            let damage = Damage { seq, id, what: DamageKind::NoSuchChain };
            walked.verdicts.push(ChainVerdict::damaged(format!("number {number}"), damage));
        }
        walked.verdicts.extend(evidence.missing());
        meter.tell();
        Ok(walked)
    }

    /// Checks the key of a chain and the position where it starts, and collects its checkpoints from outside.
    async fn prepare(
        &self,
        row: ChainRow,
        end: i64,
        evidence: &mut Evidence,
        previous: Option<&Previous>,
    ) -> Result<Prepared, StoreError> {
        let notes = evidence.notes.remove(&row.name).unwrap_or_default();
        let trusted = evidence.trusted.remove(&row.name);
        let verifier = Verifier::parse(&row.verifier).filter(|verifier| verifier.chain() == row.name);
        let verifier = verifier.filter(|verifier| trusted.as_ref().is_none_or(|trusted| trusted == verifier));
        let damaged_by = |damage| Prepared::Damaged(Box::new(ChainVerdict::damaged(row.name.clone(), damage)));
        let damaged = |what| damaged_by(Damage { seq: 0, id: None, what });
        let Some(verifier) = verifier else { return Ok(damaged(DamageKind::WrongKey)) };
        let restores = self.restores(row.number).await?;
        let mut outside = opened(&notes, &verifier)?;
        let mut excused = excuse(&mut outside, &restores);
        let mut notes = outside.clone();
        // The last verification is evidence, too: its checkpoints were kept outside the database.
        let mut kept_note = None;
        for (checkpoint, note) in previous.map(|previous| previous.checkpoints(&verifier)).unwrap_or_default() {
            let mut kept = Notes::from([(checkpoint.seq, vec![checkpoint])]);
            excused = excused.max(excuse(&mut kept, &restores));
            for (seq, kept) in kept {
                notes.entry(seq).or_default().extend(kept);
                kept_note = kept_note.max(Some((seq, note.clone())));
            }
        }
        for end in evidence.ends.remove(&row.name).into_iter().flatten() {
            notes.entry(end.seq).or_default().push(end);
        }
        let signed = row.signed_seq.max(notes.keys().next_back().copied());
        let Some(removal) = self.database().removal(row.number).await? else {
            return Ok(damaged(DamageKind::ChainGone));
        };
        let mut walk = match ChainWalk::begin(&row, removal, &verifier) {
            Ok(walk) => walk,
            Err(damage) => return Ok(damaged_by(damage)),
        };
        // A later checkpoint may be missing from the copies outside that were read before.
        walk.anchor_max = outside.keys().next_back().copied().unwrap_or(i64::MAX);
        let mut check = Check { removed: walk.seq, chain: row, walk, end, notes, before: None, damage: None };
        check.start(self).await?;
        let is_trusted = trusted.is_some();
        let open = OpenChain { check, outside, excused, signed, is_trusted, restores, from: None, kept_note };
        Ok(Prepared::Open(Box::new(open)))
    }
}

/// The result of walking over all chains.
struct Walked {
    verdicts: Vec<ChainVerdict>,
    /// The checkpoints from which the next verification may continue.
    verified: Vec<VerifiedChain>,
    /// The reason why every line was read, if the last verification was not continued.
    full: Option<FullReason>,
}

/// A chain before its lines are read.
enum Prepared {
    Damaged(Box<ChainVerdict>),
    Open(Box<OpenChain>),
}

impl Prepared {
    /// The number of lines to read.
    fn lines(&self) -> i64 {
        match self {
            Self::Damaged(_) => 0,
            Self::Open(open) => open.check.end - open.check.walk.seq,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Damaged(verdict) => &verdict.chain,
            Self::Open(open) => &open.check.chain.name,
        }
    }
}

/// A chain that is about to be read.
struct OpenChain {
    check: Check,
    /// Checkpoints that the caller kept outside, without those that a restore excuses.
    outside: Notes,
    /// The last position that must be signed for that.
    excused: Option<i64>,
    /// The last position that anybody signed.
    signed: Option<i64>,
    is_trusted: bool,
    restores: Vec<RecordedRestore>,
    /// The checkpoint that the walk continues from.
    from: Option<VerifiedChain>,
    /// The newest checkpoint of the last verification, with its position.
    kept_note: Option<(i64, String)>,
}

impl OpenChain {
    /// Reads the lines. Returns the verdict, and the checkpoint from which the next verification may continue.
    async fn finish(
        self,
        store: &Store,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<(ChainVerdict, Option<VerifiedChain>), StoreError> {
        let Self { mut check, outside, excused, signed, is_trusted, restores, from, kept_note } = self;
        check.run(store, meter).await?;
        let end = check.end;
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
        let verified = VerifiedChain::after(&check.walk, &outside, from, kept_note);
        Ok((check.verdict(is_trusted, restores), verified))
    }
}

impl ChainVerdict {
    fn damaged(chain: String, damage: Damage) -> Self {
        Self {
            chain,
            lines: 0,
            verified_before: None,
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
