//! Encodes the tools of the sets, and keeps their vectors in a file of the build folder.
//!
//! Encoding all sets takes minutes. The gateway keeps vectors in its store by the hash of the text, and this file does
//! the same. It is a list of keys and vectors. A damaged or missing one is computed again.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcpproxy_core::{Index, PendingTool, ToolVector, VectorKey};

use super::progress;
use super::spread::spread;

/// Tools that are encoded before the file is written again.
const AT_ONCE: usize = 500;

/// Returns the index with the encoder, after supplying the vectors of all tools.
pub(super) fn encoded(index: Index, root: &Path) -> anyhow::Result<Index> {
    let index = index.with_encoder();
    let path = file(root);
    let known = read(&fs::read(&path).unwrap_or_default());
    let pending = index.pending(usize::MAX);
    let (found, missing): (Vec<&PendingTool>, Vec<&PendingTool>) =
        pending.iter().partition(|tool| known.contains_key(&tool.key()));
    for tool in found {
        known.get(&tool.key()).into_iter().for_each(|vector| tool.supply(vector.clone()));
    }
    for (number, tools) in missing.chunks(AT_ONCE).enumerate() {
        progress(&format!("encoding tools: {} of {}", number * AT_ONCE, missing.len()))?;
        let vectors = spread(tools, |tool| tool.encode())?;
        let mut bytes = Vec::new();
        for (tool, vector) in tools.iter().zip(vectors) {
            let vector = vector.context("the model could not be read")?;
            bytes.extend(tool.key().0);
            bytes.extend(vector.to_bytes(&tool.key()));
            tool.supply(vector);
        }
        append(&path, &bytes)?;
    }
    Ok(index)
}

/// Returns the file of vectors, beside what Cargo builds.
fn file(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("search-vectors")
}

fn read(bytes: &[u8]) -> HashMap<VectorKey, ToolVector> {
    let records = bytes.chunks(RECORD_BYTES);
    let record = |record: &[u8]| {
        let (key, vector) = record.split_first_chunk::<KEY_BYTES>()?;
        let key = VectorKey(*key);
        Some((key, ToolVector::from_bytes(&key, vector)?))
    };
    records.filter_map(record).collect()
}

const KEY_BYTES: usize = 32;
const RECORD_BYTES: usize = KEY_BYTES + ToolVector::STORED_BYTES;

/// Appends whole records. An earlier run that was interrupted may have left a part of one at the end, which would shift
/// all later ones.
fn append(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().context("the build folder has no parent")?;
    fs::create_dir_all(folder)?;
    let file = fs::File::options().create(true).append(true).open(path);
    let mut file = file.with_context(|| format!("could not open `{}`", path.display()))?;
    let length = file.metadata()?.len();
    file.set_len(length - length % RECORD_BYTES as u64)?;
    Ok(file.write_all(bytes)?)
}
