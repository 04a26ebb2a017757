//! Publishes versions of settings, contracts and policies, for all gateways of the database.
//!
//! REST and the pages publish in the same two steps:
//!
//! 1. A [`Candidate`] has the files, those of the newest version, and the result of checking the files at this gateway. The user
//!    reads the differences, and what is weaker.
//! 2. The user confirms what they have [`Read`]. The candidate is built again, and [`Candidate::publish`] stores its files only if
//!    they are still those that the user has read, after the version that they were compared with.
//!
//! A weaker version applies at once on all gateways. So this file, and no caller, demands the second factor for it.

use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_gateway::Reloaded;
use mcpproxy_store::{ConfigFiles, Kind, NewRecord, NewVersion, PresenceProof, StepUpProof, StoreError, files_digest};
use serde_json::json;

use crate::auth::identity::AppState;
use crate::auth::records;

/// Files in the summary of a version. More are counted.
const SUMMARY_MAX: usize = 4;
/// Weaker rules in a record.
const RECORDED_MAX: usize = 200;

/// The code of the record about a published version.
pub(crate) const VERSION_PUBLISHED: &str = "version_published";

/// Files that a user may publish.
pub(crate) struct Candidate {
    /// The number of the newest version. 0 if there is none.
    pub(crate) newest: i64,
    /// The files of the newest version.
    pub(crate) before: ConfigFiles,
    pub(crate) files: ConfigFiles,
    /// Identifies the files.
    pub(crate) digest: String,
    /// The result of checking the files: rules that become weaker than those in force at this gateway, or mistakes.
    pub(crate) checked: Result<Weaker, String>,
    /// The earlier version with these files.
    back_to: Option<i64>,
}

/// The candidate that the user has read.
#[derive(Clone, Copy)]
pub(crate) struct Read<'r> {
    /// The number of the version that the files were compared with.
    pub(crate) after: i64,
    pub(crate) digest: &'r str,
}

/// A version that is stored.
pub(crate) struct Published {
    pub(crate) version: i64,
    /// False for a gateway that reads its folder, or that could not take the version over.
    pub(crate) in_force: bool,
    /// The reason why this gateway could not take it over.
    pub(crate) error: Option<String>,
}

/// The reason why nothing was published.
#[derive(Debug)]
pub(crate) enum PublishError {
    /// SQLite serves one gateway.
    NotShared,
    NoVersion,
    /// Another version came first, or the files are not those that the user has read.
    Outdated,
    /// The files change a version that is not the newest. This gateway has not taken over the newest one yet.
    Behind {
        newest: i64,
    },
    /// The files lift something that needs a second factor.
    StepUpRequired,
    /// The mistakes in the files.
    Invalid(String),
    Stopping,
    Store(StoreError),
}

impl From<StoreError> for PublishError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns true if the database has versions: several gateways can share it, or this one takes its files from there.
pub(crate) fn has_versions(app: &AppState) -> bool {
    app.web.store.is_shared() || app.web.gateway.version().is_some()
}

impl Candidate {
    pub(crate) async fn of_files(app: &AppState, files: ConfigFiles) -> Result<Self, PublishError> {
        if has_versions(app) { Self::of(app, files, None).await } else { Err(PublishError::NotShared) }
    }

    /// Goes back to the files of an earlier version.
    pub(crate) async fn of_version(app: &AppState, number: i64) -> Result<Self, PublishError> {
        if !has_versions(app) {
            return Err(PublishError::NotShared);
        }
        let version = app.web.store.find_version(number).await?.ok_or(PublishError::NoVersion)?;
        Self::of(app, version.files, Some(number)).await
    }

    async fn of(app: &AppState, files: ConfigFiles, back_to: Option<i64>) -> Result<Self, PublishError> {
        let (newest, before) = newest(app).await?;
        let checked = match app.web.reloader.check(files.clone()).await {
            Some(checked) => checked.map(|checked| checked.weaker),
            None => return Err(PublishError::Stopping),
        };
        Ok(Self { newest, before, digest: files_digest(&files), files, checked, back_to })
    }

    /// Checks files that somebody drafted from a version. Another one may have been published since.
    pub(crate) async fn of_draft(app: &AppState, after: i64, files: ConfigFiles) -> Result<Self, PublishError> {
        let candidate = Self::of_files(app, files).await?;
        match &candidate.checked {
            _ if candidate.newest != after => Err(PublishError::Behind { newest: candidate.newest }),
            Err(mistakes) => Err(PublishError::Invalid(mistakes.clone())),
            Ok(_) => Ok(candidate),
        }
    }

    /// Returns true if this is what the user has read.
    pub(crate) fn is(&self, read: Read<'_>) -> bool {
        self.newest == read.after && self.digest == read.digest
    }

    /// Stores the files as the newest version, tells all gateways, and lets this one take it over.
    pub(crate) async fn publish(
        &self,
        app: &AppState,
        read: Read<'_>,
        present: &PresenceProof,
        fresh: Option<&StepUpProof>,
    ) -> Result<Published, PublishError> {
        if !self.is(read) {
            return Err(PublishError::Outdated);
        }
        let weaker = self.checked.as_ref().map_err(|mistakes| PublishError::Invalid(mistakes.clone()))?;
        let is_for_this = |fresh: &&StepUpProof| fresh.user() == present.user() && fresh.purpose() == self.digest;
        if weaker.needs_step_up && fresh.filter(is_for_this).is_none() {
            return Err(PublishError::StepUpRequired);
        }
        let summary = summary(&self.before, &self.files, self.back_to);
        let new = NewVersion { after: self.newest, summary: &summary, files: &self.files };
        let published = app.web.store.publish_version(&new, present, app.now_ms()).await?;
        let version = published.ok_or(PublishError::Outdated)?;
        self.record(app, present, (version, &summary), weaker).await;
        app.web.gateway.announce_version().await;
        let error = match app.web.reloader.reload().await {
            Reloaded::Refused(reason) => Some(reason),
            Reloaded::Applied | Reloaded::Stopping => None,
        };
        let in_force = app.web.gateway.version() == Some(version);
        // A gateway that reads its folder may have a mistake there, which is none of this version.
        let error = error.filter(|_| !in_force && app.web.gateway.version().is_some());
        Ok(Published { version, in_force, error })
    }

    /// Records who published what. Every gateway records by itself when it takes the version over.
    async fn record(&self, app: &AppState, user: &PresenceProof, (version, summary): (i64, &str), weaker: &Weaker) {
        let metadata = json!({
            "user": user.user().name(),
            "version": version,
            "digest": self.digest,
            "changes": summary,
            "weaker": weaker.lines().into_iter().take(RECORDED_MAX).collect::<Vec<_>>(),
        });
        let done = records::done_with(VERSION_PUBLISHED, &metadata);
        records::write(app, NewRecord { kind: Kind::Settings, ..done }).await;
    }
}

/// Returns number and files of the newest version. One whose files were changed in the database counts as empty: no gateway
/// takes it over, and a user must be able to publish another one after it.
async fn newest(app: &AppState) -> Result<(i64, ConfigFiles), StoreError> {
    let Some(head) = app.web.store.newest_version().await? else { return Ok((0, Vec::new())) };
    match app.web.store.find_version(head.number).await {
        Ok(version) => Ok((head.number, version.map(|version| version.files).unwrap_or_default())),
        Err(StoreError::Corrupt { .. }) => Ok((head.number, Vec::new())),
        Err(error) => Err(error),
    }
}

/// Names the files that differ, in a few words.
fn summary(before: &[(String, String)], files: &[(String, String)], back_to: Option<i64>) -> String {
    let find = |all: &[(String, String)], name: &str| all.iter().find(|file| file.0 == name).map(|file| file.1.clone());
    let changed = files.iter().filter_map(|(name, text)| match find(before, name) {
        None => Some(format!("{name} (new)")),
        Some(old) if old != *text => Some(name.clone()),
        Some(_) => None,
    });
    let removed = before.iter().filter(|(name, _)| find(files, name).is_none());
    let mut all: Vec<String> = changed.chain(removed.map(|(name, _)| format!("{name} (removed)"))).collect();
    let more = all.len().saturating_sub(SUMMARY_MAX);
    all.truncate(SUMMARY_MAX);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    let changes = if all.is_empty() { "no file changed".to_owned() } else { all.join(", ") };
    match back_to {
        Some(number) => format!("back to version {number}: {changes}"),
        None => changes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_says_in_a_few_words_what_changed() {
        let files = |names: &[(&str, &str)]| -> ConfigFiles {
            names.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let before = files(&[("contracts/a.yaml", "1"), ("contracts/b.yaml", "1"), ("mcp_config.json", "{}")]);
        let after = files(&[("contracts/a.yaml", "2"), ("contracts/c.yaml", "1"), ("mcp_config.json", "{}")]);
        let changes = "contracts/a.yaml, contracts/c.yaml (new), contracts/b.yaml (removed)";
        assert_eq!(summary(&before, &after, None), changes);
        assert_eq!(summary(&before, &after, Some(3)), format!("back to version 3: {changes}"));
        assert_eq!(summary(&before, &before, None), "no file changed");
        let many: Vec<String> = (0..9).map(|number| format!("contracts/{number}.yaml")).collect();
        let many: ConfigFiles = many.into_iter().map(|name| (name, String::new())).collect();
        assert!(summary(&[], &many, None).ends_with("contracts/3.yaml (new), 5 more"));
    }
}
