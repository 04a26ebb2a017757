//! The difference between two texts of a file, without its secrets.

use std::path::Path;

use similar::TextDiff;

use super::masked::{Shown, masked};
use crate::agent_clients::FileFormat;

const CONTEXT_LINES: usize = 3;

/// Returns a unified difference with masked values, or nothing if the text stays. `None` means that there is no file.
pub(crate) fn diff(
    path: &Path,
    before: Option<&str>,
    after: Option<&str>,
    format: FileFormat,
    shown: &Shown,
) -> String {
    if before == after {
        return String::new();
    }
    let path = path.display().to_string();
    let name = |text: Option<&str>| if text.is_some() { path.clone() } else { "/dev/null".to_owned() };
    let (old_name, new_name) = (name(before), name(after));
    let text = |text: Option<&str>| text.map(|text| masked(text, format, shown)).unwrap_or_default();
    let (old, new) = (text(before), text(after));
    let diff = TextDiff::from_lines(&old, &new)
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(&old_name, &new_name)
        .to_string();
    match diff.is_empty() {
        true => format!("--- {old_name}\n+++ {new_name}\n(only masked values change)\n"),
        false => diff,
    }
}
