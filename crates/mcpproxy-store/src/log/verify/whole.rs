//! Verifies the log and its database file, and keeps the result for the next time.
//!
//! The command `activity verify` and the console both use this. A verification reads every line, or only those since the
//! last verification (`resume.rs`). Only one that reads every line also checks the database file, and only such a one
//! counts as a full verification.
//!
//! Damage marks the state, so the next verification reads everything again. Its checkpoints stay, because they may be the
//! only evidence of the damage. If the mark cannot be written, such as on a full disk, the file is removed instead:
//! reading everything matters more than the evidence. A run that finds no damage never removes the mark of another run
//! that ended in the meantime.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use super::resume::Previous;
use super::state::{VerifiedState, digest_of, forget_verification};
use super::{ChainVerdict, Progress, VerifyOptions, Walked};
use crate::error::with_causes;
use crate::{Store, StoreError};

/// A chain with at most so many lines is read in full each time. That takes seconds.
const SMALL_CHAIN_LINES: i64 = 200_000;

/// Returns the number of lines up to which a chain is read in full each time. In a debug build,
/// `MCPPROXY_SMALL_CHAIN_LINES` sets it, so that a test of the command needs no large log.
pub fn small_chain_lines() -> i64 {
    let set = std::env::var("MCPPROXY_SMALL_CHAIN_LINES").ok().filter(|_| cfg!(debug_assertions));
    set.and_then(|lines| lines.parse().ok()).unwrap_or(SMALL_CHAIN_LINES)
}

/// The lines to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyExtent {
    Everything,
    /// The lines since the last verification, if it may be continued.
    SinceLast,
}

/// A verification of the log.
pub struct VerifyRun {
    /// Keys and checkpoints from outside the database. Read them before the log.
    pub evidence: VerifyOptions,
    /// `verified.json` in the data folder. Without it, everything is read, and nothing is kept.
    pub file: Option<PathBuf>,
    pub extent: VerifyExtent,
    pub now_ms: i64,
    /// The result of [`small_chain_lines`], except in tests of this crate.
    pub small_lines: i64,
}

/// The result of verifying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedLog {
    pub chains: Vec<ChainVerdict>,
    /// Damage of the file and its indexes, as SQLite reports it.
    pub database_damage: Vec<String>,
    /// Says why the chains could not be read, if the file is damaged.
    pub unread: Option<String>,
    /// The reason why every line was read. `None` if only lines since the last verification were.
    pub full: Option<FullReason>,
    /// The time of the last full verification that found no damage.
    pub last_full_ms: Option<i64>,
    /// Set if the result could not be kept for the next verification.
    pub not_kept: Option<NotKept>,
}

/// The result of a verification could not be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// An intact result. The next verification continues an older one, or reads everything.
    Older { why: String },
    /// Damage. The state was removed, so the next verification reads everything.
    Removed { why: String },
    /// Damage. The state of an earlier verification is still there and says nothing of it.
    Unnoted { why: String },
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Older { why } => write!(f, "The next verification reads these lines again: {why}"),
            Self::Removed { why } => {
                write!(f, "The next verification reads every line, without `verified.json`: {why}")
            }
            Self::Unnoted { why } => write!(
                f,
                "Use `activity verify --full` until the damage is repaired, because it could not be noted: {why}"
            ),
        }
    }
}

/// The reason for a full verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FullReason {
    Asked,
    NoState,
    Unreadable { why: String },
    OtherDatabase,
    OtherProgram,
    Old,
    Turned,
    CheckpointGone { chain: String },
    OtherCheckpoints { chain: String },
    Misplaced { chain: String },
    Damaged,
    DamagedBefore,
    Small,
}

impl fmt::Display for FullReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("everything was asked for"),
            Self::NoState => f.write_str("no earlier verification is known"),
            Self::Unreadable { why } => write!(f, "`verified.json` cannot be used: {why}"),
            Self::OtherDatabase => f.write_str("the last verification was of another database"),
            Self::OtherProgram => f.write_str("the last verification was by another version of mcpproxy"),
            Self::Old => f.write_str("the last full verification was not within the last 7 days"),
            Self::Turned => f.write_str("the records about restores and rotated keys have changed"),
            Self::CheckpointGone { chain } => {
                write!(f, "the checkpoint of the last verification is missing or different in chain {chain}")
            }
            Self::OtherCheckpoints { chain } => {
                write!(f, "other checkpoints of chain {chain} were given than at the last verification")
            }
            Self::Misplaced { chain } => {
                write!(f, "a new record of chain {chain} has the position of an old one")
            }
            Self::Damaged => f.write_str("damage was found"),
            Self::DamagedBefore => f.write_str("the last verification found damage"),
            Self::Small => f.write_str("at most 200,000 lines of each chain were verified before"),
        }
    }
}

impl VerifiedLog {
    /// Tells if no damage was found in what was read.
    pub fn is_intact(&self) -> bool {
        self.database_damage.is_empty() && self.chains.iter().all(|chain| chain.damage.is_none())
    }

    /// Tells if every line was read.
    pub fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Says in one sentence what was found.
    pub fn summary(&self) -> String {
        let sum = |of: fn(&ChainVerdict) -> i64| self.chains.iter().map(of).sum::<i64>();
        let damage = self.chains.iter().find_map(|chain| chain.damage.as_ref().map(|damage| (&chain.chain, damage)));
        match (damage, self.database_damage.first()) {
            (Some((chain, damage)), _) => format!("chain {chain} is damaged: {damage}"),
            (None, Some(damage)) => format!("the database file is damaged: {damage}"),
            (None, None) => {
                let of = |count: i64, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
                let chains = of(i64::try_from(self.chains.len()).unwrap_or_default(), "chain");
                let lines = sum(|chain| chain.lines);
                let before = sum(|chain| chain.verified_before.map_or(0, |before| before.lines));
                match self.is_full() {
                    true => format!("intact: {} in {chains}", of(lines, "line")),
                    false => format!(
                        "intact since the last verification: {} in {chains}; {} not read again",
                        of(lines, "new line"),
                        of(before, "line")
                    ),
                }
            }
        }
    }
}

impl Store {
    /// Verifies the log, and keeps the result in the file of the run.
    pub async fn verify_log(
        &self,
        run: VerifyRun,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<VerifiedLog, StoreError> {
        let database = digest_of(self.database().location());
        // Before the chains: what is recorded later is not part of this run, and makes the next one read everything.
        let turns = self.turns().await?;
        let file = run.file.as_deref();
        let asked = (run.extent == VerifyExtent::Everything).then_some(FullReason::Asked);
        let (previous, text, reason) = match file.map(VerifiedState::read) {
            None | Some(Ok(None)) => (None, None, FullReason::NoState),
            Some(Err(why)) => (None, None, FullReason::Unreadable { why }),
            Some(Ok(Some((state, _)))) if state.database != database => (None, None, FullReason::OtherDatabase),
            Some(Ok(Some((state, text)))) => {
                let previous = Previous::new(state, asked.clone(), &turns, run.now_ms, run.small_lines);
                (Some(previous), Some(text), FullReason::NoState)
            }
        };
        let walked = self.verify_after(run.evidence, previous.as_ref(), progress).await;
        let (walked, unread, database_damage) = self.with_file_damage(walked).await?;
        let full = match &previous {
            Some(_) => walked.full,
            None => asked.or(Some(reason)),
        };
        let mut log = VerifiedLog {
            chains: walked.verdicts,
            database_damage,
            unread,
            full,
            last_full_ms: previous.as_ref().map(Previous::full_ms),
            not_kept: None,
        };
        let is_intact = log.is_intact() && log.unread.is_none();
        let is_full = log.is_full();
        log.last_full_ms = if is_full { is_intact.then_some(run.now_ms) } else { log.last_full_ms };
        if let Some(file) = file {
            let full_ms = log.last_full_ms.unwrap_or(0);
            let state = VerifiedState::new(database, turns, walked.verified, run.now_ms, full_ms);
            log.not_kept = match (is_intact, previous) {
                (true, _) => keep(&state, file, text.as_deref(), is_full).err(),
                (false, Some(previous)) => note_damage(&previous.damaged(), file).err(),
                (false, None) => note_damage_to_others(&state.database, file).err(),
            };
        }
        Ok(log)
    }

    /// Checks the database file after a full verification, or if the chains could not be read.
    async fn with_file_damage(
        &self,
        walked: Result<Walked, StoreError>,
    ) -> Result<(Walked, Option<String>, Vec<String>), StoreError> {
        match walked {
            Ok(walked) if walked.full.is_none() && walked.is_continued() => Ok((walked, None, Vec::new())),
            Ok(walked) => Ok((walked, None, self.file_damage().await?)),
            Err(error) => {
                // A file with damaged pages may not be readable to the end.
                let damage = self.file_damage().await?;
                if damage.is_empty() {
                    return Err(error);
                }
                let nothing = Walked { verdicts: Vec::new(), verified: Vec::new(), full: Some(FullReason::Damaged) };
                Ok((nothing, Some(with_causes(&error)), damage))
            }
        }
    }
}

impl Walked {
    fn is_continued(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.verified_before.is_some())
    }
}

/// Writes the state of an intact run, unless another run has changed the state since `text` was read. The other one may
/// have found damage that this one did not look at, or that was done after this one had passed the place.
fn keep(state: &VerifiedState, file: &Path, text: Option<&str>, is_full: bool) -> Result<(), NotKept> {
    let now = VerifiedState::read(file).ok().flatten();
    let is_unchanged = now.as_ref().map(|(_, text)| text.as_str()) == text;
    let is_damaged = now.is_some_and(|(now, _)| now.damaged && now.database == state.database);
    if !is_unchanged && (!is_full || is_damaged) {
        return Ok(());
    }
    state.write(file).map_err(|error| NotKept::Older { why: not_written(file, &error) })
}

/// Notes that damage was found. If that fails, nothing may be left that says otherwise.
fn note_damage(state: &VerifiedState, file: &Path) -> Result<(), NotKept> {
    let Err(error) = state.write(file) else { return Ok(()) };
    let why = not_written(file, &error);
    // A file can be removed on a full disk.
    Err(match forget_verification(file) {
        Ok(()) => NotKept::Removed { why },
        Err(_) => NotKept::Unnoted { why },
    })
}

/// Notes damage in the state that another run wrote in the meantime. Without one, the next run reads everything.
fn note_damage_to_others(database: &str, file: &Path) -> Result<(), NotKept> {
    match VerifiedState::read(file) {
        Ok(Some((now, _))) if now.database == database => note_damage(&now.with_damage(), file),
        Ok(Some(_) | None) | Err(_) => Ok(()),
    }
}

fn not_written(file: &Path, error: &io::Error) -> String {
    format!("could not write `{}`: {error}", file.display())
}
