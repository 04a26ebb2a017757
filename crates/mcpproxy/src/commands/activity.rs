//! `activity`: what agents did, as a list, one by one, live, in numbers, as a file, and proven.

mod args;
mod bundle;
mod columns;
mod destination;
mod export;
mod progress;
mod show;
mod summary;
mod verify;
mod watch;
mod words;

use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use mcpproxy_store::{Cursor, LIMIT_MAX, Location, Page, Store, StoreError};
use mcpproxy_web::records::{Activities, WholeActivity};

use self::args::{Matching, Within};
use crate::database::{location, not_opened};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{self, Format, line};
use crate::terminal::time::local_time;

pub(crate) use self::show::indented;

/// See what agents did
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy activity list --intent-type destructive
  mcpproxy activity show 01JG2ABCDEF
  mcpproxy activity watch
  mcpproxy activity summary --since 7d
  mcpproxy activity export --signed --out proof.jsonl 01JG2ABCDEF
  mcpproxy activity verify proof.jsonl")]
pub(crate) enum ActivityCommand {
    /// List records, newest first
    #[command(after_help = "\
Examples:
  mcpproxy activity list
  mcpproxy activity list --intent-type destructive --since 7d
  mcpproxy activity list --server github --status refused -o json
  mcpproxy activity list --agent ci --risk high --since 2026-01-31 --until 2026-02-01
  mcpproxy activity list -q invoice")]
    List(List),
    /// Show one record with its intent, arguments and result
    #[command(after_help = "\
Examples:
  mcpproxy activity show 01JG2ABCDEF
  mcpproxy activity show 01JG2ABCDEF -o json

The id is in the first column of `mcpproxy activity list`, and in every answer to an agent
(_meta, `mcpproxy/record`). What stands as *** was a secret and was never written down.")]
    Show {
        /// The record's id, or as much of its beginning as is needed
        id: String,
    },
    /// Print the last records, then new ones as they come
    #[command(after_help = "\
Examples:
  mcpproxy activity watch
  mcpproxy activity watch --intent-type destructive -n 0
  mcpproxy activity watch --status error -o json

A call that takes its time appears when it begins and again when it ends. Ctrl-C ends it.")]
    Watch(watch::Watch),
    /// Count records by status, intent, type, risk, server and tool
    #[command(after_help = "\
Examples:
  mcpproxy activity summary
  mcpproxy activity summary --since 7d
  mcpproxy activity summary --since 2026-01-01 --until 2026-02-01 -o json

Whole hours are counted; the first line says which. Durations are right to one part in 16.")]
    Summary(summary::Summarize),
    /// Write records to a file, or make a signed bundle of them
    #[command(after_help = "\
Examples:
  mcpproxy activity export --since 30d > records.jsonl
  mcpproxy activity export --format csv --payloads --out records.csv
  mcpproxy activity export --signed --out proof.jsonl 01JG2ABCDEF
  mcpproxy activity export --signed --intent-type destructive --since 7d --out proof.jsonl

A signed bundle is proven by `mcpproxy activity verify proof.jsonl`, on any machine.")]
    Export(export::Export),
    /// Prove that the log, or a signed bundle of it, is as it was written
    #[command(after_help = "\
Examples:
  mcpproxy activity verify
  mcpproxy activity verify --checkpoint /mnt/elsewhere/checkpoints.txt
  mcpproxy activity verify proof.jsonl --key \"$(cat key-of-that-gateway.txt)\"

Exit code 0 means intact, 1 means damaged. A log that somebody cut short is found with a checkpoint
from outside: `checkpoint.txt` in the data folder is used by itself, and `activity.checkpoints_to`
in the settings keeps copies where nobody who can change the log can reach them.")]
    Verify(verify::Verify),
    /// Print the key that others check this gateway's bundles with
    #[command(after_help = "\
Examples:
  mcpproxy activity key > key-of-this-gateway.txt
  mcpproxy activity verify proof.jsonl --key \"$(cat key-of-this-gateway.txt)\"

It is no secret. Give it to whoever checks your bundles, in another way than the bundles.")]
    Key,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    matching: Matching,
    #[command(flatten)]
    within: Within,
    /// At most so many records
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = parse_limit)]
    limit: usize,
    /// Where the page before this one said the next begins
    #[arg(long, value_name = "CURSOR", value_parser = Cursor::parse)]
    cursor: Option<Cursor>,
}

pub(crate) async fn run(home: &Home, format: Format, command: ActivityCommand) -> anyhow::Result<Exit> {
    match command {
        ActivityCommand::List(list) => self::list(home, format, &list).await,
        ActivityCommand::Show { id } => show(home, format, &id).await,
        ActivityCommand::Watch(watch) => watch::run(home, format, &watch).await,
        ActivityCommand::Summary(summarize) => summary::run(home, format, &summarize).await,
        ActivityCommand::Export(export) => export::run(home, format, &export).await,
        ActivityCommand::Verify(verify) => verify::run(home, format, &verify).await,
        ActivityCommand::Key => verify::print_key(home, format),
    }
}

async fn list(home: &Home, format: Format, list: &List) -> anyhow::Result<Exit> {
    let filter = list.matching.filter(&list.within)?;
    let page = match open(home).await? {
        Some(store) => store.list(&filter, list.cursor, list.limit).await?,
        None => Page { records: Vec::new(), next: None, searched_to_ms: None },
    };
    let table = columns::list(&page.records, columns::terminal_width());
    let (next, searched_to_ms) = (page.next, page.searched_to_ms);
    format.print(&Activities::from(page), || table)?;
    if let Some(next) = next.filter(|_| format == Format::Table) {
        output::tell(&match searched_to_ms {
            Some(time_ms) => format!("looked back to {}; go on with --cursor {next}", local_time(time_ms)),
            None => format!("more: add --cursor {next}"),
        });
    }
    Ok(Exit::Done)
}

async fn show(home: &Home, format: Format, id: &str) -> anyhow::Result<Exit> {
    let store = open(home).await?.ok_or_else(|| no_record(id))?;
    let whole = store.find(id).await?.ok_or_else(|| no_record(id))?;
    let chains = store.chains().await?;
    let chain = chains.iter().find(|chain| chain.number == whole.record.chain);
    let chain = chain.map_or("-", |chain| chain.name.as_str());
    let activity = WholeActivity::from(whole.clone());
    format.print(&activity, || show::text(&whole, &activity.activity, chain))?;
    Ok(Exit::Done)
}

fn no_record(id: &str) -> Failure {
    Failure::new(Exit::Failed, format!("no record begins with `{}`", line(id)))
        .hint("`mcpproxy activity list` shows the ids")
}

/// A running gateway gathers the records of reads for a moment before it writes them. Whoever looks right after a call
/// should see it.
const GATHERED: Duration = Duration::from_millis(30);

/// Nothing for a folder where no gateway ever ran: it has no records, which is an answer and not an error.
async fn open(home: &Home) -> anyhow::Result<Option<Store>> {
    let location = location(home)?;
    if let Location::Sqlite(path) = &location
        && !path.try_exists().with_context(|| format!("could not look for `{}`", path.display()))?
    {
        return Ok(None);
    }
    if home.running()?.is_some() {
        tokio::time::sleep(GATHERED).await;
    }
    match Store::open_read_only(&location).await {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::NotReady { .. }) => Ok(None),
        Err(error) => Err(not_opened(home, &location, error)),
    }
}

fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(limit),
        _ => Err(format!("expected a number from 1 to {LIMIT_MAX}")),
    }
}
