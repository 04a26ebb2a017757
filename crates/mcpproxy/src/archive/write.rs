//! Writes an archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use mcpproxy_store::{ChainHead, Location, SigningKey, Snapshot, Store};

use super::tar::TarWriter;
use super::{ChainEnd, DATA, Entry, FILES, FORMAT, MANIFEST, Manifest, VERSION, files};
use crate::exit::{Exit, Failure};
use crate::home::Home;

/// Rows of a table are split into entries of about this size.
const ENTRY_BYTES: usize = 8 * 1024 * 1024;

/// Handling of an existing file with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    Refuse,
    Replace,
}

/// Writes a backup of a data folder and its database. The file appears when it is complete.
pub(crate) async fn write(
    home: &Home,
    (store, location): (&Store, &Location),
    path: &Path,
    overwrite: Overwrite,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> anyhow::Result<Manifest> {
    let doing = || format!("could not write `{}`", path.display());
    if overwrite == Overwrite::Refuse && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    let key = key(home)?;
    // Before the snapshot: its checkpoint signs only what the snapshot contains.
    let kept = files::read(home)?;
    let mut snapshot = store.snapshot().await?;
    let now = Timestamp::now();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A temporary file has mode 0600.
    let part = tempfile::Builder::new().prefix(&format!("{name}.")).suffix(".part").tempfile_in(folder);
    let part = part.with_context(doing)?;
    let time_s = u64::try_from(now.as_second()).unwrap_or(0);
    let mut out = Out { tar: TarWriter::new(BufWriter::new(part), time_s), entries: Vec::new() };
    let tables = tables(&mut out, &mut snapshot, progress).await.with_context(doing)?;
    for (name, bytes) in &kept {
        out.add(&format!("{FILES}{name}"), bytes).with_context(doing)?;
    }
    let end = |ChainHead { chain, seq, hash }: ChainHead| ChainEnd { chain, position: seq, hash };
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        schema: snapshot.schema(),
        created: format!("{now:.3}"),
        database: match location {
            Location::Sqlite(_) => "sqlite".to_owned(),
            Location::Postgres(_) => "postgres".to_owned(),
        },
        chain: key.verifier().chain().to_owned(),
        chains: snapshot.heads().await?.into_iter().map(end).collect(),
        tables,
        entries: std::mem::take(&mut out.entries),
    };
    snapshot.close().await?;
    let text = serde_json::to_string_pretty(&manifest)? + "\n";
    out.tar.add(MANIFEST, text.as_bytes()).with_context(doing)?;
    keep(out, path, overwrite).with_context(doing)?;
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(doing)?;
    Ok(manifest)
}

/// Returns the key of the log. Without one, there is nothing to back up.
pub(crate) fn key(home: &Home) -> anyhow::Result<SigningKey> {
    let missing = || {
        let folder = home.folder().display();
        Failure::new(Exit::Failed, format!("`{folder}` has no activity log yet, so there is nothing to back up."))
            .hint("start the gateway once with `mcpproxy serve`, or name another data folder with --home DIR")
    };
    Ok(home.existing_signing_key()?.ok_or_else(missing)?)
}

/// Gives the complete file its name.
fn keep(out: Out, path: &Path, overwrite: Overwrite) -> anyhow::Result<()> {
    let part = out.tar.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    part.as_file().sync_all()?;
    match overwrite {
        Overwrite::Refuse => part.persist_noclobber(path).map(drop).map_err(|_| exists(path)),
        Overwrite::Replace => Ok(part.persist(path).map(drop)?),
    }
}

fn exists(path: &Path) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("`{}` exists already.", path.display()))
        .hint("choose another name, or add --force to replace it")
        .into()
}

struct Out {
    tar: TarWriter<BufWriter<tempfile::NamedTempFile>>,
    entries: Vec<Entry>,
}

impl Out {
    fn add(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.entries.push(Entry::of(name, bytes));
        self.tar.add(name, bytes)
    }
}

/// Writes the rows of all tables. Returns their numbers.
async fn tables(
    out: &mut Out,
    snapshot: &mut Snapshot,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> anyhow::Result<BTreeMap<String, u64>> {
    let total = snapshot.count().await?;
    let mut counts = BTreeMap::<String, u64>::new();
    let (mut table, mut text, mut number, mut done) = (String::new(), String::new(), 1, 0);
    loop {
        let batch = snapshot.next().await?;
        let is_same = batch.as_ref().is_some_and(|batch| batch.table == table);
        if !text.is_empty() && (!is_same || text.len() >= ENTRY_BYTES) {
            out.add(&format!("{DATA}{table}.{number:05}.jsonl"), text.as_bytes())?;
            text.clear();
            number += 1;
        }
        let Some(batch) = batch else { return Ok(counts) };
        if !is_same {
            (table, number) = (batch.table.clone(), 1);
        }
        *counts.entry(batch.table).or_default() += batch.rows;
        text.push_str(&batch.text);
        done += batch.rows;
        progress(done, total);
    }
}
