//! `activity watch`: prints the last records, then follows new ones.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use mcpproxy_store::{Filter, LIMIT_MAX, Record, RecordId, Store, StoreError};
use mcpproxy_web::records::Activity;

use super::args::{Matching, Within};
use super::columns::Stream;
use super::open;
use crate::exit::Exit;
use crate::home::Home;
use crate::runtime::EndSignal;
use crate::terminal::listing::Layout;
use crate::terminal::output::{self, Format};
use crate::terminal::visible;

/// Time between two queries.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Number of earlier records to print first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(..=500))]
    lines: u16,
    #[command(flatten)]
    matching: Matching,
}

pub(super) async fn run(home: &Home, format: Format, watch: &Watch) -> anyhow::Result<Exit> {
    let filter = watch.matching.filter(&Within::default())?;
    let end = EndSignal::listen()?;
    tokio::select! {
        () = end.wait() => Ok(Exit::Done),
        failed = follow(home, &filter, watch.lines.into(), Printer::new(format)) => failed.map(|()| Exit::Done),
    }
}

async fn follow(home: &Home, filter: &Filter, lines: usize, mut printer: Printer) -> anyhow::Result<()> {
    let store = wait_for_store(home).await?;
    // Find the end first. A record that arrives in between is then in both answers, instead of in none.
    let mut cursor = store.feed_end().await?;
    // A call that ends between the queries can be in both answers with the same state.
    let mut seen: HashMap<RecordId, Option<i64>> = HashMap::new();
    if lines > 0 {
        let page = store.list(filter, None, lines).await?;
        for record in page.records.iter().rev() {
            printer.print(record)?;
        }
        seen.extend(page.records.iter().map(state));
    }
    printer.begin()?;
    let mut outage = Outage::default();
    loop {
        let is_behind = match store.feed(&cursor, filter, LIMIT_MAX).await {
            Ok(feed) => {
                outage.is_over();
                for record in feed.records.iter().filter(|record| seen.get(&record.id) != Some(&record.end_seq)) {
                    printer.print(record)?;
                }
                if !feed.records.is_empty() {
                    seen = feed.records.iter().map(state).collect();
                }
                cursor = feed.next;
                feed.has_more
            }
            Err(error) => {
                outage.goes_on(error)?;
                false
            }
        };
        if !is_behind {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns the id of a record and its end, which changes when the call ends.
fn state(record: &Record) -> (RecordId, Option<i64>) {
    (record.id, record.end_seq)
}

/// Waits for the first gateway that runs on the data folder.
async fn wait_for_store(home: &Home) -> anyhow::Result<Store> {
    let mut was_told = false;
    loop {
        if let Some(store) = open(home).await? {
            return Ok(store);
        }
        if !was_told {
            output::tell("No records yet. Waiting for the first one.");
            was_told = true;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reports an unreachable database once, and its return.
#[derive(Default)]
struct Outage {
    was_told: bool,
}

impl Outage {
    fn goes_on(&mut self, error: StoreError) -> anyhow::Result<()> {
        if !matches!(error, StoreError::Database { .. } | StoreError::NoAnswer) {
            return Err(error.into());
        }
        if !self.was_told {
            output::tell(&format!("{:#}. Trying again.", anyhow::Error::from(error)));
            self.was_told = true;
        }
        Ok(())
    }

    fn is_over(&mut self) {
        if self.was_told {
            output::tell("The database is reachable again.");
            self.was_told = false;
        }
    }
}

/// Prints records one at a time.
struct Printer {
    format: Format,
    /// The current columns. `None` before the first row.
    stream: Option<Stream>,
}

impl Printer {
    fn new(format: Format) -> Self {
        Self { format, stream: None }
    }

    /// Prints the names of the columns before the first row.
    fn begin(&mut self) -> anyhow::Result<()> {
        match self.format {
            Format::Table => self.columns().map(drop),
            Format::Json | Format::Yaml => Ok(()),
        }
    }

    fn print(&mut self, record: &Record) -> anyhow::Result<()> {
        let text = match self.format {
            Format::Table => self.columns()?.row(record, Layout::of_stdout()),
            Format::Json => visible::json(&Activity::from(record.clone()))?,
            Format::Yaml => format!("---\n{}", visible::yaml(&Activity::from(record.clone()))?),
        };
        output::print(&text)
    }

    /// Returns the columns for the current terminal width, and prints their names whenever they change.
    fn columns(&mut self) -> anyhow::Result<Stream> {
        let layout = Layout::of_stdout();
        let now = Stream::new(layout.room);
        if self.stream != Some(now) {
            output::print(&now.header(layout))?;
        }
        Ok(*self.stream.insert(now))
    }
}
