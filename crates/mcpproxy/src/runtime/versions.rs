//! Looks for the newest published version, for a gateway with `operator_files: "database"`.
//!
//! PostgreSQL delivers the news of a version within milliseconds (`Gateway::version_announced`). News can get lost, for
//! example while the connection is away, so the gateway also looks every few seconds. A database that does not answer changes
//! nothing: the version in force stays. A version that cannot be read is reported like an invalid file.

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_store::{ConfigVersion, Store, StoreError};
use tokio::time::{Instant, timeout};

use super::reload::{Trigger, WatchedFiles};
use crate::operator_files::Source;

/// Time between two looks without news.
const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// A reload of other files must not wait longer for the database.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct NewestVersion {
    store: Store,
    next: Instant,
    /// True while the database does not answer.
    is_away: bool,
}

impl NewestVersion {
    pub(super) fn new(store: &Store) -> Self {
        Self { store: store.clone(), next: Instant::now(), is_away: false }
    }

    /// Makes another version the source of the files. Returns true if there is one.
    pub(super) async fn look(&mut self, files: &mut WatchedFiles, trigger: Trigger) -> bool {
        let Source::Database(known) = &files.source else { return false };
        let is_asked = match trigger {
            Trigger::Version | Trigger::Request => true,
            Trigger::Clock | Trigger::Event => false,
        };
        if !is_asked && Instant::now() < self.next {
            return false;
        }
        let found = timeout(PATIENCE, find(&self.store, known.as_deref())).await.unwrap_or(Err(StoreError::NoAnswer));
        self.next = Instant::now() + POLL_INTERVAL;
        let was_away = std::mem::take(&mut self.is_away);
        match found {
            Ok(None) => false,
            Ok(Some(version)) => {
                files.source = Source::Database(Some(Arc::new(version)));
                true
            }
            Err(error @ StoreError::Corrupt { .. }) => {
                let message = error.to_string();
                if files.gateway.reload_error().as_ref() != Some(&message) {
                    files.gateway.reload_failed(message);
                }
                false
            }
            Err(error) => {
                self.is_away = true;
                if !was_away {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "could not look for new settings in the database; those in force stay");
                }
                false
            }
        }
    }
}

/// Returns the newest version if it is another one than `known`. `None` if there is none: versions do not disappear.
pub(super) async fn find(store: &Store, known: Option<&ConfigVersion>) -> Result<Option<ConfigVersion>, StoreError> {
    let Some(newest) = store.newest_version().await? else { return Ok(None) };
    if known.is_some_and(|known| known.head == newest) {
        return Ok(None);
    }
    store.find_version(newest.number).await
}
