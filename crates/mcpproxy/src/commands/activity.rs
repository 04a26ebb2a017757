//! `activity`: what agents did, newest first, or one record as a whole.

mod view;

use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use mcpproxy_store::{Cursor, Filter, Kind, LIMIT_MAX, Page, Status, Store, StoreError};

use crate::commands::token::Operation;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::{self, Format, line};
use crate::runtime::database_path;

#[derive(Debug, Subcommand)]
pub(crate) enum ActivityCommand {
    /// List records, newest first
    #[command(after_help = "\
Examples:
  mcpproxy activity list
  mcpproxy activity list --intent-type destructive --since 7d
  mcpproxy activity list --server github --status refused -o json")]
    List(List),
    /// Show one record with its intent, arguments and result
    #[command(after_help = "\
Examples:
  mcpproxy activity show 01JG2ABCDEF
  mcpproxy activity show 01JG2ABCDEF -o json")]
    Show {
        /// The record's id, or as much of its beginning as is needed
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only calls with this intent
    #[arg(long, value_enum, value_name = "INTENT")]
    intent_type: Option<Operation>,
    /// Only records of this type
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kind: Option<KindArg>,
    /// Only records that ended so
    #[arg(long, value_enum, value_name = "STATUS")]
    status: Option<StatusArg>,
    /// Only what concerns this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only calls of this tool: its own name, or `server:tool`
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only what this agent did
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Not before this time: `2h`, `7d`, `2026-01-31` or `2026-01-31T10:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Not after this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
    /// At most so many records
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = parse_limit)]
    limit: usize,
    /// Where the page before this one said the next begins
    #[arg(long, value_name = "CURSOR", value_parser = Cursor::parse)]
    cursor: Option<Cursor>,
}

/// `Kind`, as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindArg {
    Call,
    Refusal,
    Server,
    Settings,
    Auth,
}

/// `Status`, as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusArg {
    Started,
    Success,
    Error,
    Refused,
    Cancelled,
    Interrupted,
}

pub(crate) async fn run(home: &Home, format: Format, command: ActivityCommand) -> anyhow::Result<Exit> {
    let path = database_path(home)?;
    match command {
        ActivityCommand::List(list) => {
            // A folder where no gateway ever ran has no records, which is an answer and not an error.
            let page = match open(home, &path).await? {
                Some(store) => store.list(&list.filter(), list.cursor, list.limit).await?,
                None => Page { records: Vec::new(), next: None },
            };
            format.print(&view::page(&page), || view::table(&page.records))?;
            if let Some(next) = page.next.filter(|_| format == Format::Table) {
                output::tell(&format!("more: add --cursor {next}"));
            }
        }
        ActivityCommand::Show { id } => {
            let record = match open(home, &path).await? {
                Some(store) => store.find(&id).await?,
                None => None,
            };
            let record = record.ok_or_else(|| {
                Failure::new(Exit::Failed, format!("no record begins with `{}`", line(&id)))
                    .hint("`mcpproxy activity list` shows the ids")
            })?;
            format.print(&view::whole(&record), || view::text(&record))?;
        }
    }
    Ok(Exit::Done)
}

/// A running gateway gathers the records of reads for a moment before it writes them. Whoever looks right after a call
/// should see it.
const GATHERED: Duration = Duration::from_millis(30);

async fn open(home: &Home, path: &std::path::Path) -> anyhow::Result<Option<Store>> {
    if !path.try_exists().with_context(|| format!("could not look for `{}`", path.display()))? {
        return Ok(None);
    }
    if home.running()?.is_some() {
        tokio::time::sleep(GATHERED).await;
    }
    match Store::open_read_only(path).await {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::NotReady { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl List {
    fn filter(&self) -> Filter {
        // Records keep the two halves of a tool's name apart.
        let (server, tool) = match self.tool.as_deref().map(|name| name.split_once(':').unwrap_or(("", name))) {
            Some(("", tool)) => (None, Some(tool)),
            Some((server, tool)) => (Some(server), Some(tool)),
            None => (None, None),
        };
        Filter {
            intent_type: self.intent_type.map(Into::into),
            kind: self.kind.map(Into::into),
            status: self.status.map(Into::into),
            server: self.server.as_deref().or(server).map(str::to_owned),
            tool: tool.map(str::to_owned),
            agent: self.agent.clone(),
            since_ms: self.since.map(Timestamp::as_millisecond),
            until_ms: self.until.map(Timestamp::as_millisecond),
        }
    }
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Call => Self::Call,
            KindArg::Refusal => Self::Refusal,
            KindArg::Server => Self::Server,
            KindArg::Settings => Self::Settings,
            KindArg::Auth => Self::Auth,
        }
    }
}

impl From<StatusArg> for Status {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Started => Self::Started,
            StatusArg::Success => Self::Success,
            StatusArg::Error => Self::Error,
            StatusArg::Refused => Self::Refused,
            StatusArg::Cancelled => Self::Cancelled,
            StatusArg::Interrupted => Self::Interrupted,
        }
    }
}

/// A time for people, where they are.
pub(crate) fn local_time(time_ms: i64) -> String {
    match Timestamp::from_millisecond(time_ms) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => "-".to_owned(),
    }
}

fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => Ok(limit),
        _ => Err(format!("expected a number from 1 to {LIMIT_MAX}")),
    }
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    time_before(text, Timestamp::now())
        .ok_or_else(|| "expected a time such as 2h, 7d, 2026-01-31 or 2026-01-31T10:00:00Z".to_owned())
}

/// A point in time, or how long before `now` it was.
fn time_before(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    if let Ok(time) = text.parse::<jiff::civil::DateTime>() {
        return time.to_zoned(TimeZone::system()).ok().map(|time| time.timestamp());
    }
    let span: Span = text.parse().ok()?;
    // Only a calendar knows how long a day is.
    now.to_zoned(TimeZone::UTC).checked_sub(span).ok().map(|time| time.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let check = |text: &str, expected: Option<&str>| {
            let time = time_before(text, now).map(|time| time.to_string());
            assert_eq!(time.as_deref(), expected, "{text}");
        };
        check("2h", Some("2026-03-10T10:00:00Z"));
        check("7d", Some("2026-03-03T12:00:00Z"));
        check("1h30m", Some("2026-03-10T10:30:00Z"));
        check("2026-01-31T10:00:00Z", Some("2026-01-31T10:00:00Z"));
        check("2026-01-31T10:00:00+02:00", Some("2026-01-31T08:00:00Z"));
        check("yesterday", None);
        check("", None);
        check("99999999999y", None);
    }
}
