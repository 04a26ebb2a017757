//! `activity export`: writes records to a file, plain or signed.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mcpproxy_store::{Filter, LIMIT_MAX, Record, Store, WholeRecord};
use mcpproxy_web::records::{self, Activity, WholeActivity};

use super::args::{Matching, Within};
use super::destination::Destination;
use super::words::counted;
use super::{bundle, open};
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
    let end = EndSignal::listen()?;
    tokio::select! {
        // The partial file has no name yet, and is deleted when this returns.
        () = end.wait() => Err(Failure::new(Exit::Failed, "The export was stopped before it was complete.").into()),
        done = write(home, export, filter) => done.map(|()| Exit::Done),
    }
}

async fn write(home: &Home, export: &Export, filter: Filter) -> anyhow::Result<()> {
    let store = open(home).await?;
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

/// Returns the target of the data. Progress messages must not mix with data on standard output.
fn whereabouts(export: &Export) -> Output {
    if export.out.is_some() { Output::Elsewhere } else { Output::ToStandardOutput }
}

/// Writes records page by page, newest first, and returns their number.
async fn plain(store: Option<&Store>, export: &Export, filter: &Filter, out: &mut Destination) -> anyhow::Result<u64> {
    let payloads = if export.payloads { Payloads::With } else { Payloads::Without };
    let format = export.format.unwrap_or(FileFormat::Jsonl);
    let header = match (format, payloads) {
        (FileFormat::Jsonl, _) => String::new(),
        (FileFormat::Csv, Payloads::With) => records::head_with_payloads(),
        (FileFormat::Csv, Payloads::Without) => records::head(),
    };
    out.write_all(header.as_bytes())?;
    let Some(store) = store else { return Ok(0) };
    let mut progress = Progress::new("records", whereabouts(export));
    let (mut written, mut before) = (0, None);
    loop {
        let page = store.list(filter, before, LIMIT_MAX).await?;
        for whole in with_payloads(store, page.records, payloads).await? {
            let text = match (format, payloads) {
                (FileFormat::Csv, Payloads::With) => records::row_with_payloads(&whole.into()),
                (FileFormat::Csv, Payloads::Without) => records::row(&whole.record.into()),
                (FileFormat::Jsonl, Payloads::With) => visible::json(&WholeActivity::from(whole))? + "\n",
                (FileFormat::Jsonl, Payloads::Without) => visible::json(&Activity::from(whole.record))? + "\n",
            };
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
