//! The storage and the chains of the activity log, and their verification.

use mcpproxy_core::Untrusted;
use mcpproxy_gateway::{Verification, fully_verified_ms};
use mcpproxy_store::{ChainInfo, ChainVerdict, DatabaseSize, Health, Record, Status, VerifiedLog};
use serde_json::Value;

use crate::ui::pages::amount::{grouped, one_line, size};
use crate::ui::pages::labels::Time;
use crate::visible::Visible;

/// Chains on the page. Each data folder that ever wrote has one.
const CHAINS_MAX: usize = 50;
const DAMAGE_CHARS: usize = 600;

#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) facts: Vec<(&'static str, Visible)>,
    pub(crate) chains: Vec<ChainRow>,
}

#[derive(Debug)]
pub(crate) struct ChainRow {
    pub(crate) name: Visible,
    pub(crate) is_own: bool,
    pub(crate) lines: String,
    /// The position and time of the newest checkpoint, as the database claims them.
    pub(crate) signed: Option<(String, Time)>,
}

impl Storage {
    pub(crate) fn new(
        measured: DatabaseSize,
        limit: Option<u64>,
        health: &Health,
        (chains, own): (&[ChainInfo], &str),
        now_ms: i64,
    ) -> Self {
        let mut facts = vec![("Database", Visible::of(measured.kind))];
        facts.extend(measured.bytes.map(|bytes| ("Size on disk", Visible::of(&size(bytes)))));
        if let Some(used) = measured.used_bytes {
            let of = match limit {
                Some(limit) => {
                    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
                    format!("{} of {} ({percent} %)", size(used), size(limit))
                }
                None => format!("{}, without a limit", size(used)),
            };
            facts.push(("Content and limits.disk", Visible::of(&of)));
        } else {
            facts.push(("limits.disk", Visible::of("not measured for PostgreSQL")));
        }
        let state = match health {
            Health::Well => "written".to_owned(),
            Health::Failing { reason, .. } => format!("cannot be written: {reason}"),
        };
        facts.push(("Activity log", Visible::of(&one_line(&state, DAMAGE_CHARS))));
        let chains = chains.iter().take(CHAINS_MAX).map(|chain| ChainRow::new(chain, own, now_ms)).collect();
        Self { facts, chains }
    }
}

impl ChainRow {
    fn new(chain: &ChainInfo, own: &str, now_ms: i64) -> Self {
        let number = |number: i64| grouped(number.max(0).unsigned_abs());
        let signed = chain.newest_checkpoint.as_ref().map(|(seq, time)| {
            (number(*seq), crate::time::parse(time, now_ms).map(|at| Time::new(at, now_ms)).unwrap_or_default())
        });
        Self {
            name: Visible::of(&chain.name),
            is_own: chain.name == own,
            lines: number(chain.lines - chain.removed_seq),
            signed,
        }
    }
}

/// The state of the verification.
#[derive(Debug)]
pub(crate) enum VerifyView {
    Never,
    Running {
        by: Visible,
        done: u64,
        total: u64,
        words: String,
    },
    /// Failed without a result.
    Failed {
        why: Visible,
    },
    Ended(Box<VerifyResult>),
}

#[derive(Debug)]
pub(crate) struct VerifyResult {
    pub(crate) is_intact: bool,
    /// False if only lines since the last verification were read.
    pub(crate) is_full: bool,
    /// The time of the last full verification, if this one was none.
    pub(crate) last_full: Option<Time>,
    pub(crate) by: Visible,
    pub(crate) time: Time,
    pub(crate) summary: Visible,
    /// Details of a verification since the gateway started.
    pub(crate) chains: Vec<VerdictRow>,
    pub(crate) database_damage: Vec<Visible>,
}

#[derive(Debug)]
pub(crate) struct VerdictRow {
    pub(crate) name: Visible,
    pub(crate) lines: String,
    /// The lines that were not read again.
    pub(crate) before: Option<String>,
    pub(crate) checkpoints: String,
    pub(crate) is_trusted: bool,
    pub(crate) damage: Option<Visible>,
}

impl VerifyView {
    /// `last` is the record of the last verification, also from before the gateway started.
    pub(crate) fn new(verification: &Verification, last: Option<&Record>, now_ms: i64) -> Self {
        match verification {
            Verification::Running { by, progress, .. } => Self::Running {
                by: Visible::of(by),
                done: progress.done,
                total: progress.total,
                words: match progress.total {
                    0 => "Reading the log.".to_owned(),
                    total if progress.done >= total => "Checking the database file.".to_owned(),
                    total => format!("{} of {} lines.", grouped(progress.done), grouped(total)),
                },
            },
            Verification::Ended { result: Err(why), .. } => {
                Self::Failed { why: Visible::of(&one_line(why, DAMAGE_CHARS)) }
            }
            Verification::Ended { by, ended_ms, result: Ok(found) } => {
                Self::Ended(Box::new(VerifyResult::new(found, by, *ended_ms, now_ms)))
            }
            Verification::None => {
                last.map_or(Self::Never, |last| Self::Ended(Box::new(VerifyResult::of_record(last, now_ms))))
            }
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }
}

impl VerifyResult {
    fn new(found: &VerifiedLog, by: &str, ended_ms: i64, now_ms: i64) -> Self {
        let last_full_ms = found.last_full_ms.filter(|_| !found.is_full());
        Self {
            is_intact: found.is_intact(),
            is_full: found.is_full(),
            last_full: last_full_ms.map(|at| Time::new(at, now_ms)),
            by: Visible::of(by),
            time: Time::new(ended_ms, now_ms),
            summary: Visible::of(&one_line(&found.summary(), DAMAGE_CHARS)),
            chains: found.chains.iter().take(CHAINS_MAX).map(VerdictRow::new).collect(),
            database_damage: found
                .database_damage
                .iter()
                .map(|text| Visible::of(&one_line(text, DAMAGE_CHARS)))
                .collect(),
        }
    }

    fn of_record(record: &Record, now_ms: i64) -> Self {
        let metadata: Value = serde_json::from_str(record.metadata.for_json()).unwrap_or_default();
        let message = record.message.as_ref().map(Untrusted::for_json).unwrap_or_default();
        let is_full = metadata.get("full").and_then(Value::as_bool).unwrap_or(true);
        let last_full_ms = fully_verified_ms(record).filter(|_| !is_full);
        Self {
            is_intact: record.status == Status::Success,
            is_full,
            last_full: last_full_ms.map(|at| Time::new(at, now_ms)),
            by: Visible::of(metadata.get("user").and_then(Value::as_str).unwrap_or_default()),
            time: Time::new(record.time_ms(), now_ms),
            summary: Visible::of(&one_line(message, DAMAGE_CHARS)),
            chains: Vec::new(),
            database_damage: Vec::new(),
        }
    }
}

impl VerdictRow {
    fn new(verdict: &ChainVerdict) -> Self {
        Self {
            name: Visible::of(&verdict.chain),
            lines: grouped(verdict.lines.max(0).unsigned_abs()),
            before: verdict.verified_before.map(|before| grouped(before.lines.max(0).unsigned_abs())),
            checkpoints: grouped(verdict.checkpoints),
            is_trusted: verdict.is_trusted,
            damage: verdict.damage.as_ref().map(|damage| Visible::of(&one_line(&damage.to_string(), DAMAGE_CHARS))),
        }
    }
}
