//! `activity`: lists, shows, counts, exports and verifies the records of the activity log.

mod args;
mod bundle;
mod columns;
mod destination;
mod export;
mod rotate;
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
use crate::database::{check_not_gone, location, not_opened};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::listing::Layout;
use crate::terminal::output::{self, Format, line};
use crate::terminal::time::local_time;

pub(crate) use self::args::parse_time;
pub(crate) use self::show::indented;

/// List, export and verify the activity log
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
  mcpproxy activity list --sensitivity private --dry-run=false
  mcpproxy activity list --agent ci --since 2026-01-31 --until 2026-02-01
  mcpproxy activity list -q invoice")]
    List(List),
    /// Show a record with its intent, arguments and result
    #[command(after_help = "\
Examples:
  mcpproxy activity show 01JG2ABCDEF
  mcpproxy activity show 01JG2ABCDEF -o json

The id is in the first column of `mcpproxy activity list`, and in `_meta[\"mcpproxy/record\"]` of every \
result. *** replaces a secret, which the log never contains.")]
    Show {
        /// Id of the record, or an unambiguous prefix
        id: String,
    },
    /// Print the last records, then follow new ones
    #[command(after_help = "\
Examples:
  mcpproxy activity watch
  mcpproxy activity watch --intent-type destructive -n 0
  mcpproxy activity watch --status error -o json

A slow call is printed when it starts and again when it ends. Press Ctrl-C to stop.")]
    Watch(watch::Watch),
    /// Count records by status, intent, type, risk, server and tool
    #[command(after_help = "\
Examples:
  mcpproxy activity summary
  mcpproxy activity summary --since 7d
  mcpproxy activity summary --since 2026-01-01 --until 2026-02-01 -o json

The period is rounded to whole hours, shown in the first line. Durations are accurate to about 6 %.")]
    Summary(summary::Summarize),
    /// Export records as JSON Lines, CSV or a signed bundle
    #[command(after_help = "\
Examples:
  mcpproxy activity export --since 30d > records.jsonl
  mcpproxy activity export --format csv --payloads --out records.csv
  mcpproxy activity export --signed --out proof.jsonl 01JG2ABCDEF
  mcpproxy activity export --signed --intent-type destructive > proof.jsonl
  mcpproxy activity export --continue --out /mnt/archive/records.jsonl
  mcpproxy activity export --after f0-1200 > new.jsonl

With --continue, each run appends the records since the last one. `FILE.position` keeps the position. With --after, \
the command prints the position for the next run. Both write the oldest record of each chain first, and a call when it \
has ended. Anyone can check a signed bundle with `mcpproxy activity verify proof.jsonl`, on any machine.")]
    Export(export::Export),
    /// Verify that the log or a signed bundle is unchanged
    #[command(after_help = "\
Examples:
  mcpproxy activity verify
  mcpproxy activity verify --full
  mcpproxy activity verify --checkpoint /mnt/elsewhere/checkpoints.txt
  mcpproxy activity verify proof.jsonl --key \"$(cat key.txt)\"

The exit code is 0 if no damage is found and 1 if the log is damaged. Of a log with more than 200,000 lines, the command \
reads only the lines since its last run, and says so. It does not notice a change of an earlier line then. With --full, \
after 7 days, and whenever something is in doubt, it reads every line. In a SQLite database, it then also compares the \
indexes with the records. A checkpoint from outside the database \
detects a log whose end was cut off. The command uses `checkpoint.txt` in the data folder. To keep copies \
where an attacker cannot change them, set `activity.checkpoints_to` in the settings.")]
    Verify(verify::Verify),
    /// Print the public key that verifies this gateway's bundles
    #[command(after_help = "\
Examples:
  mcpproxy activity key > key.txt
  mcpproxy activity verify proof.jsonl --key \"$(cat key.txt)\"

The key is not a secret. Give it to the people who verify your bundles, but do not send it together with a bundle.")]
    Key {
        #[command(subcommand)]
        command: Option<KeyCommand>,
    },
}

/// Commands on the signing key. Without one, `activity key` prints the public key.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Replace the signing key; the old key signs the new one
    #[command(after_help = "\
Examples:
  mcpproxy activity key rotate
  mcpproxy activity key

Stop the gateway first. The log goes on in a new chain, whose first record states the end of the old chain. Bundles and \
`activity verify` accept the old public key for the new chain. If the command is interrupted, run it again.")]
    Rotate,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    matching: Matching,
    #[command(flatten)]
    within: Within,
    /// Maximum number of records
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = parse_limit)]
    limit: usize,
    /// Cursor from the previous page
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
        ActivityCommand::Key { command: None } => verify::print_key(home, format),
        ActivityCommand::Key { command: Some(KeyCommand::Rotate) } => rotate::run(home, format).await,
    }
}

async fn list(home: &Home, format: Format, list: &List) -> anyhow::Result<Exit> {
    let filter = list.matching.filter(&list.within)?;
    let page = match open(home).await? {
        Some(store) => store.list(&filter, list.cursor, list.limit).await?,
        None => Page { records: Vec::new(), next: None, searched_to_ms: None },
    };
    let table = columns::list(&page.records, Layout::of_stdout());
    let (next, searched_to_ms) = (page.next, page.searched_to_ms);
    format.print(&Activities::from(page), || table)?;
    if let Some(next) = next.filter(|_| format == Format::Table) {
        output::tell(&match searched_to_ms {
            Some(time_ms) => format!("Searched back to {}. To continue, add --cursor {next}", local_time(time_ms)),
            None => format!("More records: add --cursor {next}"),
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
    Failure::new(Exit::Failed, format!("No record starts with `{}`.", line(id)))
        .hint("list the ids with `mcpproxy activity list`")
}

/// A running gateway batches the records of read calls for this long. Waiting makes a call visible right after it.
const BATCH_DELAY: Duration = Duration::from_millis(30);

/// Opens the database, or returns `None` if no gateway has ever run on this folder.
pub(crate) async fn open(home: &Home) -> anyhow::Result<Option<Store>> {
    let location = location(home)?;
    if let Location::Sqlite(path) = &location
        && !path.try_exists().with_context(|| format!("could not access `{}`", path.display()))?
    {
        check_not_gone(home, &location)?;
        return Ok(None);
    }
    if home.running()?.is_some() {
        tokio::time::sleep(BATCH_DELAY).await;
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
