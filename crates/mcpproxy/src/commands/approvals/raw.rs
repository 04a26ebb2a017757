//! The parts of an approval whose numbers must be shown with the digits they came with.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Exact {
    pub(super) changes: Vec<Change>,
    pub(super) attached: Option<Box<RawValue>>,
    pub(super) dry_run: Option<DryRun>,
    pub(super) arguments: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Change {
    pub(super) pointer: String,
    pub(super) change: String,
    /// What it was is not known.
    #[serde(default)]
    pub(super) hidden: bool,
    pub(super) before: Option<Box<RawValue>>,
    pub(super) after: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DryRun {
    pub(super) native: bool,
    pub(super) preview: Box<RawValue>,
}
