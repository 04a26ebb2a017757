//! Files that are generated from the code and checked in, so that they can be used without a build.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::tree::{Problem, Tree};

/// Returns each file and its expected content.
fn files() -> [(&'static str, String); 2] {
    [
        // Exactly the output of `mcpproxy config schema`.
        ("docs/mcp_config.schema.json", format!("{:#}\n", mcpproxy_core::settings::schema())),
        ("docs/contract.schema.json", format!("{:#}\n", mcpproxy_core::contract::schema())),
    ]
}

pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let is_current = |name: &str, text: &str| tree.find(name).is_some_and(|file| file.text == text);
    let stale = files().into_iter().filter(|(name, text)| !is_current(name, text));
    stale.map(|(name, _)| Problem::missing(name, "out of date; update it with `cargo run -p xtask -- bless`")).collect()
}

/// Writes all files and returns a message.
pub(crate) fn write(root: &Path) -> anyhow::Result<String> {
    let mut said = String::new();
    for (name, text) in files() {
        let path = root.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("could not make `{}`", folder.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("could not write `{}`", path.display()))?;
        said.push_str(&format!("wrote {name}\n"));
    }
    Ok(said)
}
