//! `activity export`: writes records to a file, plain or signed.

mod mark;
mod since;

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mcpproxy_store::{FeedCursor, Filter, LIMIT_MAX, Record, Store, WholeRecord};
use mcpproxy_web::records::{self, Activity, WholeActivity};

use super::args::{Matching, Within};
use super::destination::Destination;
use super::words::counted;
use super::{bundle, open};
use crate::commands::out_file::check_folder_of;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::runtime::EndSignal;
use crate::terminal::output::{self, Format};
use crate::terminal::progress::{Output, Progress};
use crate::terminal::visible;

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Id of one record, or a prefix; requires --signed
    #[arg(requires = "signed", conflicts_with_all = ["Matching", "Within"])]
    id: Option<String>,
    /// File format [default: jsonl]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "signed")]
    format: Option<FileFormat>,
    /// Write a signed bundle, for `mcpproxy activity verify`
    #[arg(long)]
    signed: bool,
    /// Chain to export, if several gateways share the database [default: this gateway's]
    #[arg(long, value_name = "NAME", requires = "signed", conflicts_with = "id")]
    chain: Option<String>,
    /// Include arguments and results; always on for a signed bundle
    #[arg(long, conflicts_with = "signed")]
    payloads: bool,
    /// Output file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only records after this position, oldest first; `f` is the beginning. Prints the next position
    #[arg(long, value_name = "POSITION", value_parser = FeedCursor::parse, conflicts_with_all = ["signed", "Within"])]
    after: Option<FeedCursor>,
    /// Append the records since the last export to FILE, oldest first
    #[arg(long = "continue", requires = "out", conflicts_with_all = ["signed", "after", "Within"])]
    go_on: bool,
    #[command(flatten)]
    matching: Matching,
    #[command(flatten)]
    within: Within,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileFormat {
    Jsonl,
    Csv,
}

/// Selects whether arguments and results are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payloads {
    With,
    Without,
}

pub(super) async fn run(home: &Home, format: Format, export: &Export) -> anyhow::Result<Exit> {
    if format != Format::Table {
        return Err(Failure::new(Exit::Usage, "--output does not apply to an export.")
            .hint("use --format jsonl, --format csv or --signed")
            .into());
    }
    let filter = export.matching.filter(&export.within)?;
    export.out.as_deref().map_or(Ok(()), check_folder_of)?;
    let end = EndSignal::listen()?;
    tokio::select! {
        // The partial file has no name yet, and is deleted when this returns.
        () = end.wait() => Err(Failure::new(Exit::Failed, "The export was stopped before it was complete.").into()),
        done = write(home, export, filter) => done.map(|()| Exit::Done),
    }
}

async fn write(home: &Home, export: &Export, filter: Filter) -> anyhow::Result<()> {
    let store = open(home).await?;
    if export.go_on || export.after.is_some() {
        return since(store.as_ref(), export, &filter).await;
    }
    let mut out = Destination::open(export.out.as_deref())?;
    let written = if export.signed {
        let store = store.ok_or_else(|| Failure::new(Exit::Failed, "There are no records to sign."))?;
        let selected = match &export.id {
            Some(id) => bundle::Selected::Record(id),
            None => bundle::Selected::Matching { filter, chain: export.chain.as_deref() },
        };
        bundle::export(home, &store, selected, &mut out, whereabouts(export)).await?
    } else {
        plain(store.as_ref(), export, &filter, &mut out).await?
    };
    out.finish()?;
    if let Some(path) = &export.out {
        output::tell(&format!("Wrote {} to {}", counted(written, "record"), path.display()));
    }
    Ok(())
}

/// Writes records that an earlier export does not have.
async fn since(store: Option<&Store>, export: &Export, filter: &Filter) -> anyhow::Result<()> {
    let Some(store) = store else { return Err(Failure::new(Exit::Failed, "There are no records yet.").into()) };
    let written = match (&export.out, &export.after) {
        (Some(path), None) => since::to_file(store, export, filter, path).await?,
        (_, after) => {
            let from = after.clone().unwrap_or_default();
            since::after(store, export, (filter, &from)).await?
        }
    };
    if let Some(path) = &export.out {
        output::tell(&format!("Wrote {} to {}", counted(written, "record"), path.display()));
    }
    Ok(())
}

/// Returns the target of the data. Progress messages must not mix with data on standard output.
fn whereabouts(export: &Export) -> Output {
    if export.out.is_some() { Output::Elsewhere } else { Output::ToStandardOutput }
}

/// Writes records page by page, newest first, and returns their number.
async fn plain(store: Option<&Store>, export: &Export, filter: &Filter, out: &mut Destination) -> anyhow::Result<u64> {
    let shape = Shape::of(export);
    out.write_all(shape.header().as_bytes())?;
    let Some(store) = store else { return Ok(0) };
    let mut progress = Progress::new("records", whereabouts(export));
    let (mut written, mut before) = (0, None);
    loop {
        let page = store.list_without_index(filter, before, LIMIT_MAX).await?;
        for text in shape.texts(store, page.records).await? {
            out.write_all(text.as_bytes())?;
            written += 1;
            progress.show(written, None);
        }
        match page.next {
            Some(next) => before = Some(next),
            None => return Ok(written),
        }
    }
}

/// The form of the lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    format: FileFormat,
    payloads: Payloads,
}

impl Shape {
    fn of(export: &Export) -> Self {
        let payloads = if export.payloads { Payloads::With } else { Payloads::Without };
        Self { format: export.format.unwrap_or(FileFormat::Jsonl), payloads }
    }

    fn header(self) -> String {
        match (self.format, self.payloads) {
            (FileFormat::Jsonl, _) => String::new(),
            (FileFormat::Csv, Payloads::With) => records::head_with_payloads(),
            (FileFormat::Csv, Payloads::Without) => records::head(),
        }
    }

    /// Returns a line for each record.
    async fn texts(self, store: &Store, records: Vec<Record>) -> anyhow::Result<Vec<String>> {
        let text = |whole: WholeRecord| -> anyhow::Result<String> {
            Ok(match (self.format, self.payloads) {
                (FileFormat::Csv, Payloads::With) => records::row_with_payloads(&whole.into()),
                (FileFormat::Csv, Payloads::Without) => records::row(&whole.record.into()),
                (FileFormat::Jsonl, Payloads::With) => visible::json(&WholeActivity::from(whole))? + "\n",
                (FileFormat::Jsonl, Payloads::Without) => visible::json(&Activity::from(whole.record))? + "\n",
            })
        };
        with_payloads(store, records, self.payloads).await?.into_iter().map(text).collect()
    }
}

async fn with_payloads(store: &Store, records: Vec<Record>, payloads: Payloads) -> anyhow::Result<Vec<WholeRecord>> {
    let mut found = match payloads {
        Payloads::With => {
            let ids: Vec<_> = records.iter().map(|record| record.id).collect();
            let found = store.payloads(&ids).await?;
            found.into_iter().map(|(id, args, result)| (id, (args, result))).collect()
        }
        Payloads::Without => std::collections::HashMap::new(),
    };
    let whole = records.into_iter().map(|record| {
        let (args, result) = found.remove(&record.id).unwrap_or_default();
        WholeRecord { record, args, result }
    });
    Ok(whole.collect())
}
