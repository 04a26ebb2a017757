//! Files that are made from the code and checked in, so that others can use them without building anything.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::tree::{Problem, Tree};

const SCHEMA: &str = "docs/mcp_config.schema.json";

pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    match tree.find(SCHEMA) {
        Some(file) if file.text == schema() => Vec::new(),
        _ => vec![Problem::missing(SCHEMA, "out of date; `cargo run -p xtask -- bless` writes it")],
    }
}

/// Writes them all, and says so.
pub(crate) fn write(root: &Path) -> anyhow::Result<String> {
    let path = root.join(SCHEMA);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("could not make `{}`", folder.display()))?;
    }
    fs::write(&path, schema()).with_context(|| format!("could not write `{}`", path.display()))?;
    Ok(format!("wrote {SCHEMA}\n"))
}

/// Word for word what `mcpproxy config schema` prints.
fn schema() -> String {
    format!("{:#}\n", mcpproxy_core::settings::schema())
}
