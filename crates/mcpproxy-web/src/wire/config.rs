//! Changes of the operator's files that wait for a user.

use mcpproxy_gateway::HeldChanges as Held;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Changes in one answer. The others are counted.
const CHANGES_MAX: usize = 200;

/// Changes that weaken contracts, policies or settings. They are not in force until a user applies them, or until the gateway
/// restarts.
#[derive(Serialize, ToSchema)]
pub(crate) struct HeldChanges {
    /// Identifies the files. Send it to apply the changes.
    pub(crate) digest: String,
    /// True if applying the changes needs a second factor: a tool is forbidden or needs one now, or a policy or setting is
    /// weaker.
    pub(crate) needs_step_up: bool,
    /// The changes, such as `mail:send: riskLevel critical → low (contracts/mail.yaml:3)`.
    pub(crate) changes: Vec<String>,
    /// The number of changes that are not listed.
    pub(crate) more: usize,
}

impl From<&Held> for HeldChanges {
    fn from(held: &Held) -> Self {
        let mut changes = held.weaker.lines();
        let more = changes.len().saturating_sub(CHANGES_MAX);
        changes.truncate(CHANGES_MAX);
        Self { digest: held.digest.clone(), needs_step_up: held.weaker.needs_step_up, changes, more }
    }
}

/// Applies changes that wait for a user.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyConfig {
    /// `digest` of the changes that you have read.
    pub(crate) digest: String,
    /// A fresh code from an authenticator app, if a second factor is required.
    pub(crate) totp: Option<String>,
    /// `page_key` from the answer to signing in. Required without `totp`.
    pub(crate) page_key: Option<String>,
}

/// The changes that are in force now.
#[derive(Serialize, ToSchema)]
pub(crate) struct AppliedConfig {
    pub(crate) applied: Vec<String>,
}
