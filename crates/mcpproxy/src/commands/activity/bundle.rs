//! Writes and verifies signed bundles of records.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use mcpproxy_store::{
    BundleError, BundleVerdict, ExportError, Filter, KeyFrom, Selection, Store, Verifier, verify_bundle,
};
use serde::Serialize;

use super::destination::Destination;
use super::no_record;
use super::words::{counted, grouped};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{self, Format, line};
use crate::terminal::progress::{Output, Progress};

/// The records of a bundle.
pub(super) enum Selected<'a> {
    /// One record, by its id or a prefix.
    Record(&'a str),
    Matching {
        filter: Filter,
        /// The chain, if `--chain` names one.
        chain: Option<&'a str>,
    },
}

/// Writes a bundle and returns its number of records.
pub(super) async fn export(
    home: &Home,
    store: &Store,
    selected: Selected<'_>,
    out: &mut Destination,
    output: Output,
) -> anyhow::Result<u64> {
    let key = home.existing_signing_key()?;
    let chains = store.chains().await?;
    let own = key.as_ref().map(|key| key.verifier().chain());
    let own = own.filter(|own| chains.iter().any(|chain| chain.name == *own));
    let others = chains.len().saturating_sub(1);
    if let (Selected::Matching { chain: None, .. }, Some(own), 1..) = (&selected, own, others) {
        output::tell(&format!(
            "note: A bundle covers one chain, here {own}. {} not included. Choose another with --chain NAME.",
            if others == 1 { "1 other chain is".to_owned() } else { format!("{others} other chains are") }
        ));
    }
    let (filter, id, chain) = match selected {
        Selected::Record(id) => {
            let record = store.find(id).await?.ok_or_else(|| no_record(id))?.record;
            let chain = chains.iter().find(|chain| chain.number == record.chain);
            (Filter::default(), Some(record.id), chain.map(|chain| chain.name.clone()))
        }
        Selected::Matching { filter, chain } => (filter, None, chain.or(own).map(str::to_owned)),
    };
    // This gateway's key signs only its own chain. Other chains are proven by their own checkpoints.
    let key = key.as_ref().filter(|key| chain.as_deref() == Some(key.verifier().chain()));
    let newest = key.and_then(|_| std::fs::read_to_string(home.checkpoint()).ok());
    let selection = Selection { filter, id, chain, key, newest, now_ms: Timestamp::now().as_millisecond() };
    let mut progress = Progress::new("lines", output);
    let done = store.export_signed(&selection, out, &mut |now| progress.show(now.done, Some(now.total))).await;
    Ok(done.map_err(refused)?.records)
}

fn refused(error: ExportError) -> anyhow::Error {
    let message = error.to_string();
    match error {
        ExportError::Nothing => Failure::new(Exit::Failed, "No record matches, so there is nothing to sign.").into(),
        ExportError::WhichChain { .. } | ExportError::NoSuchChain { .. } => Failure::new(Exit::Usage, message)
            .hint("list the chains with `mcpproxy activity verify` and choose one with --chain")
            .into(),
        ExportError::Damaged { source } => Failure::new(Exit::Failed, format!("{message}: {source}"))
            .hint("see the details with `mcpproxy activity verify`")
            .into(),
        other => other.into(),
    }
}

pub(super) fn verify(path: &Path, format: Format, keys: &[Verifier]) -> anyhow::Result<Exit> {
    let ([] | [_]) = keys else {
        return Err(
            Failure::new(Exit::Usage, "A bundle is signed by one gateway, so --key can be used only once.").into()
        );
    };
    let file = File::open(path).with_context(|| format!("could not read `{}`", path.display()))?;
    let mut progress = Progress::new("lines", Output::Elsewhere);
    let verdict = verify_bundle(BufReader::new(file), keys.first(), &mut |now| {
        progress.show(now.done, Some(now.total).filter(|total| *total > 0));
    });
    drop(progress);
    match verdict {
        Ok(verdict) => {
            let intact = Intact::from(&verdict);
            format.print(&intact, || intact.text())?;
            if !verdict.is_sealed {
                output::tell("warning: The bundle has no seal. Its records are genuine, but some may be missing.");
            }
            if verdict.key_from == KeyFrom::Bundle {
                output::tell(&format!(
                    "warning: The key comes from the bundle itself, so anyone could have signed it.\n\
                     key: {}\n\
                     hint: compare it with the output of `mcpproxy activity key` on the gateway, or use --key",
                    line(&verdict.verifier)
                ));
            }
            Ok(Exit::Done)
        }
        Err(error @ BundleError::Read { .. }) => {
            Err(anyhow::Error::from(error).context(format!("could not read `{}`", path.display())))
        }
        Err(error) => {
            let damaged = Damaged::from(&error);
            let text = || format!("bundle {}: DAMAGED\n  {}\n", path.display(), line(&damaged.damage.what));
            format.print(&damaged, text)?;
            Ok(Exit::Failed)
        }
    }
}

/// The proof of an intact bundle.
#[derive(Serialize)]
struct Intact {
    intact: bool,
    chain: String,
    key: String,
    /// True if the key is the one of `--key`.
    key_trusted: bool,
    first: i64,
    last: i64,
    records: Vec<String>,
    lines: u64,
    digests: u64,
    payloads_checked: u64,
    payloads_erased: u64,
    checkpoints: u64,
    first_signed: String,
    last_signed: String,
    exported: String,
    /// True if the whole bundle is signed, not only its checkpoints.
    sealed: bool,
}

#[derive(Serialize)]
struct Damaged {
    intact: bool,
    damage: BundleDamage,
}

/// The first damage in a bundle, and its position.
#[derive(Serialize)]
struct BundleDamage {
    line: Option<u64>,
    seq: Option<i64>,
    id: Option<String>,
    what: String,
}

impl Intact {
    fn text(&self) -> String {
        let signed = if self.first_signed == self.last_signed {
            format!("signed {}", line(&self.last_signed))
        } else {
            format!("signed from {} to {}", line(&self.first_signed), line(&self.last_signed))
        };
        format!(
            "bundle of chain {}: intact\n  {}, positions {} to {} without a gap\n  {}, {signed}\n",
            line(&self.chain),
            counted(self.records.len() as u64, "record"),
            grouped(self.first),
            grouped(self.last),
            counted(self.checkpoints, "checkpoint"),
        )
    }
}

impl From<&BundleVerdict> for Intact {
    fn from(verdict: &BundleVerdict) -> Self {
        Self {
            intact: true,
            chain: verdict.chain.clone(),
            key: verdict.verifier.clone(),
            key_trusted: verdict.key_from == KeyFrom::Outside,
            first: verdict.first,
            last: verdict.last,
            records: verdict.ids.iter().map(ToString::to_string).collect(),
            lines: verdict.lines,
            digests: verdict.digests,
            payloads_checked: verdict.payloads,
            payloads_erased: verdict.erased,
            checkpoints: verdict.checkpoints,
            first_signed: verdict.first_signed.clone(),
            last_signed: verdict.last_signed.clone(),
            exported: verdict.exported.clone(),
            sealed: verdict.is_sealed,
        }
    }
}

impl From<&BundleError> for Damaged {
    fn from(error: &BundleError) -> Self {
        let (line, seq, id) = match error {
            BundleError::Read { .. } | BundleError::OtherKey { .. } => (None, None, None),
            BundleError::Form { line, .. } => (Some(*line), None, None),
            BundleError::Position { line, seq, .. } => (Some(*line), Some(*seq), None),
            BundleError::Record { line, seq, id, .. } => (Some(*line), Some(*seq), Some(id.to_string())),
        };
        Self { intact: false, damage: BundleDamage { line, seq, id, what: error.to_string() } }
    }
}
