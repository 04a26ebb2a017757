//! The parts of an approval request whose numbers are shown with their original digits.

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
    /// The previous value is not known.
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
