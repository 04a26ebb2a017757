//! The answer of a dry run: what would happen, without anything happening.

use schemars::JsonSchema;
use serde::Serialize;

/// What a tool with a dry run answers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Outcome<D, S> {
    /// The call was carried out.
    Done(D),
    /// Only a dry run was asked for.
    Preview(Preview<S>),
}

/// What would happen.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preview<S> {
    /// Always true: nothing was changed.
    #[schemars(extend("const" = true))]
    dry_run: bool,
    #[serde(flatten)]
    subject: S,
    /// What somebody should know before saying yes.
    warnings: Vec<String>,
    /// Permissions the real call would lack.
    missing_permissions: Vec<String>,
    /// What the real call would do.
    expected_side_effects: Vec<String>,
    /// How long the real call would take, in milliseconds.
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

/// A sentence about `count` things; none for no thing.
pub(super) fn about(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {many}")),
    }
}
