//! Reads an archive, and checks every entry against the manifest.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use mcpproxy_store::{Loader, SigningKey};

use super::tar::{self, TarReader};
use super::{CHECKPOINT, DATA, Entry, FILES, FORMAT, MANIFEST, Manifest, SIGNING_KEY, VERSION, files};
use crate::exit::{Exit, Failure};

/// An archive whose entries match its manifest.
pub(crate) struct Archive {
    path: PathBuf,
    pub(crate) manifest: Manifest,
    /// The files of the data folder, by their relative path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Archive {
    /// Reads the whole file once. Fails if an entry is missing, added or changed.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut found = Vec::new();
        let mut kept = BTreeMap::new();
        let mut manifest: Option<Manifest> = None;
        let mut reader = reader(path)?;
        while let Some((name, bytes)) = reader.next().map_err(|error| damaged(path, &error.to_string()))? {
            if manifest.is_some() {
                return Err(damaged(path, "there is more after the manifest"));
            }
            if name == MANIFEST {
                manifest =
                    Some(serde_json::from_slice(&bytes).map_err(|_| damaged(path, "its manifest is unreadable"))?);
                continue;
            }
            found.push(Entry::of(&name, &bytes));
            if let Some(name) = name.strip_prefix(FILES) {
                if !files::is_expected(name) {
                    return Err(damaged(path, &format!("`{name}` is not a file of a data folder")));
                }
                kept.insert(name.to_owned(), bytes);
            }
        }
        let manifest = manifest.ok_or_else(|| damaged(path, "it has no manifest"))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            let message = format!("`{}` has another format than this mcpproxy reads.", path.display());
            return Err(Failure::new(Exit::Failed, message).hint("install a newer mcpproxy").into());
        }
        if let Some(name) = difference(&found, &manifest.entries) {
            return Err(damaged(path, &format!("`{name}` does not match the manifest")));
        }
        Ok(Self { path: path.to_owned(), manifest, files: kept })
    }

    /// The key that signs the log of the backup.
    pub(crate) fn signing_key(&self) -> anyhow::Result<SigningKey> {
        let text = self.files.get(SIGNING_KEY).and_then(|bytes| str::from_utf8(bytes).ok());
        let key = text.and_then(SigningKey::from_hex).filter(|key| key.verifier().chain() == self.manifest.chain);
        key.ok_or_else(|| damaged(&self.path, "it does not contain the signing key of its log"))
    }

    /// The newest checkpoint outside the database, at the time of the backup.
    pub(crate) fn checkpoint(&self) -> Option<String> {
        self.files.get(CHECKPOINT).map(|note| String::from_utf8_lossy(note).into_owned())
    }

    /// Writes all rows to a new database.
    pub(crate) async fn load(
        &self,
        loader: &mut Loader,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> anyhow::Result<()> {
        let total = self.manifest.rows();
        let mut entries = self.manifest.entries.iter();
        let (mut reader, mut done) = (reader(&self.path)?, 0);
        let mut counts = BTreeMap::<String, u64>::new();
        while let Some((name, bytes)) = reader.next().map_err(|error| damaged(&self.path, &error.to_string()))? {
            // The file could have changed since it was checked.
            if name != MANIFEST && entries.next() != Some(&Entry::of(&name, &bytes)) {
                return Err(damaged(&self.path, &format!("`{name}` does not match the manifest")));
            }
            let Some(table) = name.strip_prefix(DATA).and_then(|name| name.split('.').next()) else { continue };
            let text = String::from_utf8(bytes).map_err(|_| damaged(&self.path, &format!("`{name}` is not text")))?;
            let rows = loader.add(table, &text).await?;
            *counts.entry(table.to_owned()).or_default() += rows;
            done += rows;
            progress(done, total);
        }
        if counts != self.manifest.tables {
            return Err(damaged(&self.path, "the numbers of rows do not match the manifest"));
        }
        Ok(())
    }
}

/// Fails if the file is no archive at all, such as the log of another program. Reads only its beginning.
pub(crate) fn check_kind(path: &Path) -> anyhow::Result<()> {
    reader(path).map(drop)
}

fn reader(path: &Path) -> anyhow::Result<TarReader<BufReader<File>>> {
    let unlike = |message: String| Failure::new(Exit::Failed, message).hint("name a file that `mcpproxy backup` wrote");
    let unreadable = |error: io::Error| unlike(format!("`{}` cannot be read: {error}.", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    if !tar::begins(file.fill_buf().map_err(unreadable)?) {
        return Err(unlike(format!("`{}` is not a backup.", path.display())).into());
    }
    Ok(TarReader::new(file))
}

/// The first entry that is not the same in both lists.
fn difference<'e>(found: &'e [Entry], expected: &'e [Entry]) -> Option<&'e str> {
    let longer = if found.len() > expected.len() { found } else { expected };
    let at = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    longer.get(at).map(|entry| entry.name.as_str())
}

fn damaged(path: &Path, what: &str) -> anyhow::Error {
    Failure::new(Exit::Failed, format!("`{}` is not an intact backup: {what}.", path.display()))
        .hint("use another backup; `mcpproxy backup --check FILE` checks one")
        .into()
}
