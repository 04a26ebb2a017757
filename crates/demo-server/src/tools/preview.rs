//! The answer of a dry run: a preview of what the call would do.

use schemars::JsonSchema;
use serde::Serialize;

/// The answer of a tool that supports dry runs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Outcome<D, S> {
    /// The call was carried out.
    Done(D),
    /// The result of a dry run.
    Preview(Preview<S>),
}

/// The preview of a call.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preview<S> {
    /// Always true: nothing was changed.
    #[schemars(extend("const" = true))]
    dry_run: bool,
    #[serde(flatten)]
    subject: S,
    /// Warnings to consider before you approve the call.
    warnings: Vec<String>,
    /// Permissions the real call would lack.
    missing_permissions: Vec<String>,
    /// Effects that the real call would have.
    expected_side_effects: Vec<String>,
    /// Estimated duration of the real call, in milliseconds.
    estimated_duration_ms: u64,
}

impl<S> Preview<S> {
    pub(super) fn of(subject: S) -> Self {
        Self {
            dry_run: true,
            subject,
            warnings: Vec::new(),
            missing_permissions: Vec::new(),
            expected_side_effects: Vec::new(),
            estimated_duration_ms: 0,
        }
    }

    pub(super) fn warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    pub(super) fn missing_permissions(mut self, missing: Vec<String>) -> Self {
        self.missing_permissions = missing;
        self
    }

    pub(super) fn side_effects(mut self, effects: impl IntoIterator<Item = String>) -> Self {
        self.expected_side_effects.extend(effects);
        self
    }

    pub(super) fn duration_ms(mut self, duration_ms: u64) -> Self {
        self.estimated_duration_ms = duration_ms;
        self
    }
}

/// Formats a sentence about `count` things. Returns nothing for 0.
pub(super) fn about(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {many}")),
    }
}
