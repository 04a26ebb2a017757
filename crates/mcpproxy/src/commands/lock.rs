//! `lock`: writes the definitions that agents see into a file for version control, and checks servers against it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use http::Method;
use mcpproxy_core::lock::{Lock, LockDifference};
use serde::Deserialize;
use serde_json::json;
use similar::{ChangeTag, TextDiff};

use crate::client::Rest;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::lock_file;
use crate::terminal::output::{Format, counted_as, line, tell};

/// Lines around a difference.
const CONTEXT_LINES: usize = 3;

/// Write the definitions that agents see into a lock file, or check servers against it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpproxy lock                    Write mcpproxy.lock
  mcpproxy lock --check            Fail if servers differ from it
  mcpproxy serve --locked          Accept exactly what it names

Keep the file in version control, and review its changes like code. It has every tool, prompt, resource template and \
instruction of all enabled servers, with its text and its hash. `--check` compares it with what the servers list now, \
also with what is quarantined. The gateway must be running.")]
pub(crate) struct LockArgs {
    /// The lock file
    #[arg(long, value_name = "FILE", default_value = lock_file::NAME)]
    to: PathBuf,
    /// Compare the servers with the file and write nothing; exit code 1 if they differ
    #[arg(long)]
    check: bool,
}

/// A lock file as the gateway makes it.
#[derive(Deserialize)]
struct Made {
    lock: String,
    unreached: Vec<String>,
    quarantined: usize,
}

pub(crate) async fn run(home: &Home, format: Format, args: &LockArgs) -> anyhow::Result<Exit> {
    if args.check {
        // A file that cannot be read needs no gateway.
        let text = lock_file::read_text(&args.to)?;
        let locked = lock_file::read(&args.to)?;
        let made = made(home, "?listed=true").await?;
        return check(format, &args.to, &text, &locked, &made);
    }
    let made = made(home, "").await?;
    write(format, &args.to, &made)
}

async fn made(home: &Home, query: &str) -> anyhow::Result<Made> {
    let (_, text) = Rest::connect(home)?.ask_for_text(Method::GET, &format!("/api/v1/lock{query}")).await?;
    serde_json::from_str(&text).context("the gateway sent no lock file")
}

fn write(format: Format, path: &Path, made: &Made) -> anyhow::Result<Exit> {
    if let Some(name) = made.unreached.first() {
        let names = made.unreached.join(", ");
        let message = format!("Not written, because what they offer is not known: {names} not connected.");
        return Err(Failure::new(Exit::Failed, message).hint(format!("mcpproxy servers logs {name}")).into());
    }
    write_file(path, &made.lock).with_context(|| format!("could not write {}", path.display()))?;
    let count = Lock::read(&made.lock).map(|lock| lock.count()).unwrap_or_default();
    let answer = json!({"file": path.display().to_string(), "definitions": count, "quarantined": made.quarantined});
    format.print(&answer, || {
        format!("Wrote {} to {}.\n", counted_as(count, "definition", "definitions"), path.display())
    })?;
    if made.quarantined > 0 {
        let held = counted_as(made.quarantined, "quarantined definition is", "quarantined definitions are");
        tell(&format!("{held} not in it. Review them with `mcpproxy servers review NAME`, then write it again."));
    }
    Ok(Exit::Done)
}

/// Replaces the file in one step, so that nobody reads half of it.
fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    std::fs::write(&fresh, text)?;
    std::fs::rename(&fresh, path)
}

fn check(format: Format, path: &Path, text: &str, locked: &Lock, made: &Made) -> anyhow::Result<Exit> {
    let now = Lock::read(&made.lock).map_err(|mistake| anyhow::anyhow!("the gateway sent no lock file: {mistake}"))?;
    let differences = locked.diff(&now);
    let is_same = differences.is_empty() && made.unreached.is_empty();
    let words: Vec<String> = differences.iter().map(|one| line(&one.to_string())).collect();
    let answer = json!({"same": is_same, "differences": words, "unreached": made.unreached});
    format.print(&answer, || {
        if is_same {
            return format!("The servers list exactly what {} names.\n", path.display());
        }
        told(&differences, text, &made.lock)
    })?;
    if !made.unreached.is_empty() {
        tell(&format!("Not compared, because they are not connected: {}.", made.unreached.join(", ")));
    }
    Ok(if is_same { Exit::Done } else { Exit::Failed })
}

/// Words the differences, and shows the lines of the file that would change.
fn told(differences: &[LockDifference], old: &str, new: &str) -> String {
    let mut out: String = differences.iter().map(|one| format!("{}\n", line(&one.to_string()))).collect();
    if differences.is_empty() {
        return out;
    }
    out.push('\n');
    let diff = TextDiff::from_lines(old, new);
    for (index, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if index > 0 {
            out.push_str("…\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            out.push_str(&format!("{sign} {}\n", line(change.value().trim_end_matches('\n'))));
        }
    }
    out
}
