//! The JSON of published versions of settings, contracts and policies.

use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_store::{ConfigFiles, VersionHead};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time;

/// Changes in one answer. The others are counted.
const CHANGES_MAX: usize = 200;

/// The versions that users published, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConfigVersions {
    /// At most 100. Older ones are removed.
    pub(crate) versions: Vec<ConfigVersion>,
}

/// A version of settings, contracts and policies.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConfigVersion {
    number: i64,
    #[schema(format = DateTime)]
    published: String,
    /// The user who published it.
    published_by: String,
    /// The files that changed.
    changes: String,
    /// SHA-256 of names and texts of its files.
    digest: String,
    /// True if this gateway has it in force.
    in_force: bool,
}

impl ConfigVersion {
    pub(crate) fn new(head: &VersionHead, in_force: Option<i64>) -> Self {
        Self {
            number: head.number,
            published: time::format(head.published_ms),
            published_by: head.published_by.clone(),
            changes: head.summary.clone(),
            digest: head.digest.clone(),
            in_force: in_force == Some(head.number),
        }
    }
}

/// A file of a version.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    /// `mcp_config.json`, or a file below `contracts/` or `policies/`.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Checks files that you want to publish. Send either `files` or `version`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckConfig {
    pub(crate) files: Option<Vec<ConfigFile>>,
    /// An earlier version to go back to.
    pub(crate) version: Option<i64>,
}

/// Valid files, and what they change.
#[derive(Serialize, ToSchema)]
pub(crate) struct CheckedConfig {
    /// The number of the newest version. 0 if there is none. Send it as `after` to publish.
    pub(crate) newest: i64,
    /// Identifies the files. Send it to publish.
    pub(crate) digest: String,
    /// The files of the newest version.
    pub(crate) before: Vec<ConfigFile>,
    pub(crate) files: Vec<ConfigFile>,
    /// What the files allow more than those in force at this gateway.
    pub(crate) weaker: Vec<String>,
    /// The number of changes that are not listed.
    pub(crate) more: usize,
    /// True if publishing needs a second factor.
    pub(crate) needs_step_up: bool,
}

impl CheckedConfig {
    pub(crate) fn new(newest: i64, digest: String, before: ConfigFiles, files: ConfigFiles, weaker: &Weaker) -> Self {
        let mut lines = weaker.lines();
        let more = lines.len().saturating_sub(CHANGES_MAX);
        lines.truncate(CHANGES_MAX);
        let shown = |files: ConfigFiles| files.into_iter().map(|(name, text)| ConfigFile { name, text }).collect();
        let needs_step_up = weaker.needs_step_up;
        Self { newest, digest, before: shown(before), files: shown(files), weaker: lines, more, needs_step_up }
    }
}

/// Publishes files as the newest version. Send either `files` or `version`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishConfig {
    /// `newest` of the check. If another version came first, nothing is published.
    pub(crate) after: i64,
    /// `digest` of the files that you have checked.
    pub(crate) digest: String,
    pub(crate) files: Option<Vec<ConfigFile>>,
    /// An earlier version to go back to.
    pub(crate) version: Option<i64>,
    /// A fresh code from an authenticator app, if a second factor is required.
    pub(crate) totp: Option<String>,
    /// `page_key` from the answer to signing in. Required without `totp`.
    pub(crate) page_key: Option<String>,
}

/// The new version.
#[derive(Serialize, ToSchema)]
pub(crate) struct PublishedConfig {
    pub(crate) version: i64,
    /// True if the answering gateway has it in force. False for a gateway that reads its folder.
    pub(crate) in_force: bool,
    /// The reason why the answering gateway could not take it over.
    pub(crate) error: Option<String>,
}
