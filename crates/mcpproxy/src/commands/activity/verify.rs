//! `activity verify` and `activity key`: verifies the log and prints its public key.
//!
//! Two checks together cover what the other commands read. The chain proves the table of records. SQLite's
//! `integrity_check` proves that the indexes, which filters use, have every row of the table.
//!
//! A large log is not read again from its start each time: the command goes on after the lines of the last
//! verification, and says so. The store decides when it may.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use mcpproxy_store::{
    ChainVerdict, Checkpoint, Damage, NotKept, RecordedRestore, Restore, VerifiedBefore, VerifiedLog, Verifier,
    VerifyExtent, VerifyOptions, VerifyRun, small_chain_lines, verified_checkpoints,
};
use serde::Serialize;

use super::words::{counted, grouped};
use super::{bundle, open};
use crate::database::location;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{self, Format, fitted, line};
use crate::terminal::progress::{Output, Progress};
use crate::terminal::time::{local_time, now_ms};

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Signed bundle to verify [default: the log of the data folder]
    bundle: Option<PathBuf>,
    /// File with checkpoints from outside the database; repeatable
    #[arg(long = "checkpoint", value_name = "FILE", conflicts_with = "bundle")]
    checkpoints: Vec<PathBuf>,
    /// Public key that must have signed, from `mcpproxy activity key`; repeatable
    #[arg(long = "key", value_name = "KEY", value_parser = parse_key)]
    keys: Vec<Verifier>,
    /// Read every line, also those of the last verification
    #[arg(long, conflicts_with = "bundle")]
    full: bool,
}

pub(super) async fn run(home: &Home, format: Format, verify: &Verify) -> anyhow::Result<Exit> {
    match &verify.bundle {
        Some(path) => bundle::verify(path, format, &verify.keys),
        None => log(home, format, verify).await,
    }
}

pub(super) fn print_key(home: &Home, format: Format) -> anyhow::Result<Exit> {
    let key = home.existing_signing_key()?.ok_or_else(|| {
        Failure::new(Exit::NoGateway, "The data folder has no signing key yet.")
            .hint("start the gateway once to create it: mcpproxy serve")
    })?;
    let verifier = key.verifier();
    let printed = Key { chain: verifier.chain().to_owned(), key: verifier.to_string() };
    format.print(&printed, || verifier.to_string())?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Key {
    chain: String,
    key: String,
}

#[derive(Serialize)]
struct Log {
    /// True if no damage was found in what was read.
    intact: bool,
    /// True if every line was read.
    full: bool,
    /// The reason for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_reason: Option<String>,
    /// The time of the last full verification, if this one was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_full: Option<String>,
    chains: Vec<Chain>,
    /// Damage of the file and its indexes, as SQLite reports it.
    database_damage: Vec<String>,
}

#[derive(Serialize)]
struct Chain {
    chain: String,
    intact: bool,
    /// True if the key comes from outside the database.
    key_trusted: bool,
    /// The lines that this verification read.
    lines: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified_before: Option<Before>,
    lines_removed: i64,
    records: u64,
    checkpoints: u64,
    signed_to: Option<i64>,
    payloads_checked: u64,
    payloads_erased: u64,
    /// Restores from backups that the log tells of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restores: Vec<ChainRestore>,
    damage: Option<ChainDamage>,
}

/// The lines that were not read again.
#[derive(Serialize)]
struct Before {
    lines: i64,
    /// The last of them.
    position: i64,
    /// The time of the verification that read them.
    time: String,
}

/// A restore from a backup.
#[derive(Serialize)]
struct ChainRestore {
    seq: i64,
    time: String,
    backup: String,
    records_gone: Option<u64>,
    #[serde(skip)]
    text: String,
}

/// The first damage of a chain.
#[derive(Serialize)]
struct ChainDamage {
    seq: i64,
    id: Option<String>,
    what: String,
}

async fn log(home: &Home, format: Format, verify: &Verify) -> anyhow::Result<Exit> {
    // Read checkpoints before the log. A running gateway signs only records that are already written.
    let notes = checkpoints(home, &verify.checkpoints)?;
    let mut trusted = verify.keys.clone();
    match home.existing_signing_key() {
        Ok(key) => trusted.extend(key.map(|key| key.verifier().clone())),
        // An auditor may be allowed to read the log but not the signing key.
        Err(error) => output::tell(&format!("note: This gateway's key is not used: {error:#}")),
    }
    let Some(store) = open(home).await? else {
        let kept = verified_checkpoints(&home.verified(), &location(home)?);
        return nothing(format, notes.iter().chain(&kept));
    };
    let mut progress = Progress::new("lines", Output::Elsewhere);
    let run = VerifyRun {
        evidence: VerifyOptions { checkpoints: notes, trusted },
        file: Some(home.verified()),
        extent: if verify.full { VerifyExtent::Everything } else { VerifyExtent::SinceLast },
        now_ms: now_ms(),
        small_lines: small_chain_lines(),
    };
    let found = store.verify_log(run, &mut |done| progress.show(done.done, Some(done.total))).await?;
    drop(progress);
    if let Some(error) = &found.unread {
        output::tell(&format!("note: The chains cannot be verified: {error}"));
    }
    let log = Log::from(&found);
    format.print(&log, || match (log.chains.as_slice(), log.database_damage.as_slice()) {
        ([], []) => "No records.\n".to_owned(),
        (chains, found) => chains.iter().map(text).chain(database_text(found)).collect(),
    })?;
    tell_extent(home, &found);
    if !log.database_damage.is_empty() {
        output::tell(
            "hint: restore the database from a backup; if only indexes are damaged, stop the gateway and run \
             `sqlite3 mcpproxy.db REINDEX`",
        );
    }
    for chain in log.chains.iter().filter(|chain| chain.intact && !chain.key_trusted) {
        output::tell(&format!(
            "warning: The key of chain {} comes from the database itself.\n\
             hint: pass the output of `mcpproxy activity key` on that gateway with --key",
            line(&chain.chain)
        ));
    }
    Ok(exit(log.intact))
}

/// Reports a missing log: fine for a new folder, damage if a checkpoint proves that there was one.
fn nothing<'n>(format: Format, mut notes: impl Iterator<Item = &'n String>) -> anyhow::Result<Exit> {
    if let Some(chain) = notes.find_map(|note| Checkpoint::claimed_chain(note)) {
        let message = format!(
            "The log is gone. There are no records, but a checkpoint says that chain {} had some.",
            line(chain)
        );
        return Err(Failure::new(Exit::Failed, message).hint("restore the database from a backup").into());
    }
    let log = Log {
        intact: true,
        full: true,
        full_reason: None,
        last_full: None,
        chains: Vec::new(),
        database_damage: Vec::new(),
    };
    format.print(&log, || "No records.\n".to_owned())?;
    Ok(Exit::Done)
}

/// Says what was not read, and what could not be kept.
fn tell_extent(home: &Home, found: &VerifiedLog) {
    if !found.is_full() {
        let last = found.last_full_ms.map(local_time).unwrap_or_default();
        output::tell(&format!(
            "note: Lines of earlier verifications were not read again. Every line was last read at {last}.\n\
             hint: to read every line now, run `{}`",
            home.command("mcpproxy", "activity verify --full")
        ));
    }
    if let Some(not_kept) = &found.not_kept {
        let word = match not_kept {
            NotKept::Older { .. } | NotKept::Removed { .. } => "note",
            NotKept::Unnoted { .. } => "warning",
        };
        output::tell(&format!("{word}: {not_kept}"));
    }
}

/// Returns all checkpoints from outside the database.
fn checkpoints(home: &Home, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let newest = home.checkpoint();
    let mut notes = Vec::new();
    // The newest first: a gateway appends a checkpoint to the file with all of them before it replaces the newest.
    for path in newest.exists().then_some(&newest).into_iter().chain(files) {
        let text = std::fs::read_to_string(path).with_context(|| format!("could not read `{}`", path.display()))?;
        let found = Checkpoint::notes(&text);
        if found.is_empty() {
            return Err(Failure::new(Exit::Failed, format!("`{}` contains no checkpoint", path.display())).into());
        }
        notes.extend(found);
    }
    Ok(notes)
}

fn text(chain: &Chain) -> String {
    // Records after the damage are not verified.
    let signed = match (chain.signed_to, &chain.damage) {
        (Some(seq), _) => format!("signed up to {}", grouped(seq)),
        (None, Some(_)) => "none signed".to_owned(),
        (None, None) => "not signed yet".to_owned(),
    };
    let good = if chain.damage.is_some() { "valid line" } else { "line" };
    let mut facts = vec![match &chain.verified_before {
        Some(before) => {
            format!("{} after position {}", counted(chain.lines.unsigned_abs(), good), grouped(before.position))
        }
        None => counted(chain.lines.unsigned_abs(), good),
    }];
    if chain.lines_removed > 0 {
        facts.push(format!("{} older removed by retention", grouped(chain.lines_removed)));
    }
    facts.extend([counted(chain.checkpoints, "checkpoint"), signed]);
    let name = line(&chain.chain);
    let (result, damage) = match (&chain.damage, &chain.verified_before) {
        (None, None) => ("intact", None),
        (None, Some(_)) => ("intact since then", None),
        (Some(damage), _) => ("DAMAGED", Some(line(&damage.what))),
    };
    let indented = |text: &str| format!("  {}\n", fitted(text, 2));
    let mut text = format!("{}\n", fitted(&format!("chain {name}: {}: {result}", facts.join(", ")), 2));
    text.extend(damage.as_deref().map(indented));
    if let Some(before) = &chain.verified_before {
        let lines = counted(before.lines.unsigned_abs(), "line");
        text.push_str(&indented(&format!("not read again: {lines}, verified {}", before.time)));
    }
    for restore in &chain.restores {
        text.push_str(&indented(&format!("{}: {}", line(&restore.time), line(&restore.text))));
    }
    text
}

fn database_text(found: &[String]) -> Option<String> {
    let lines: String = found.iter().map(|found| format!("  {}\n", line(found))).collect();
    (!found.is_empty()).then(|| format!("database: DAMAGED\n{lines}"))
}

fn exit(is_intact: bool) -> Exit {
    if is_intact { Exit::Done } else { Exit::Failed }
}

fn parse_key(text: &str) -> Result<Verifier, String> {
    Verifier::parse(text).ok_or_else(|| "expected a key from `mcpproxy activity key`".to_owned())
}

impl From<&VerifiedLog> for Log {
    fn from(found: &VerifiedLog) -> Self {
        Self {
            intact: found.is_intact(),
            full: found.is_full(),
            full_reason: found.full.as_ref().map(ToString::to_string),
            last_full: found.last_full_ms.filter(|_| !found.is_full()).map(rfc3339),
            chains: found.chains.iter().map(Chain::from).collect(),
            database_damage: found.database_damage.clone(),
        }
    }
}

impl From<VerifiedBefore> for Before {
    fn from(VerifiedBefore { seq, lines, time_ms }: VerifiedBefore) -> Self {
        Self { lines, position: seq, time: rfc3339(time_ms) }
    }
}

fn rfc3339(time_ms: i64) -> String {
    Timestamp::from_millisecond(time_ms).map(|time| format!("{time:.3}")).unwrap_or_default()
}

impl From<&ChainVerdict> for Chain {
    fn from(verdict: &ChainVerdict) -> Self {
        Self {
            chain: verdict.chain.clone(),
            intact: verdict.damage.is_none(),
            key_trusted: verdict.is_trusted,
            lines: verdict.lines,
            verified_before: verdict.verified_before.map(Before::from),
            lines_removed: verdict.removed,
            records: verdict.records,
            checkpoints: verdict.checkpoints,
            signed_to: verdict.last_signed,
            payloads_checked: verdict.payloads,
            payloads_erased: verdict.erased,
            restores: verdict.restores.iter().map(ChainRestore::from).collect(),
            damage: verdict.damage.as_ref().map(ChainDamage::from),
        }
    }
}

impl From<&RecordedRestore> for ChainRestore {
    fn from(RecordedRestore { seq, restore }: &RecordedRestore) -> Self {
        let Restore { time, backup, records_gone, .. } = restore.clone();
        Self { seq: *seq, time, backup, records_gone, text: restore.to_string() }
    }
}

impl From<&Damage> for ChainDamage {
    fn from(damage: &Damage) -> Self {
        Self { seq: damage.seq, id: damage.id.map(|id| id.to_string()), what: damage.to_string() }
    }
}
