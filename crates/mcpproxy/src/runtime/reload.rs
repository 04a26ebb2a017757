//! Reloads settings, contracts and policies while the gateway runs.
//!
//! Every 250 ms the gateway compares fingerprints of the operator's files. When two comparisons in a row show the same
//! change, the editor has finished writing, and the gateway reads all files:
//!
//! - If all files are valid, they take effect together: the gateway builds a new snapshot, and calls that already
//!   started keep the old one. Unchanged parts keep their `Arc`, so that servers and policies are not rebuilt.
//! - If any file is invalid, nothing changes. The log and `GET /api/v1/status` show the error until the next change.
//!
//! A command that edits a file requests a reload over REST (`mcpproxy_gateway::Reloader`). It returns when its edit is
//! active, so that the next call is already checked against it. Such a request reads the files at once, because the
//! command has finished writing.
//!
//! Polling is deliberate. A watch on the data folder would fire on every database write, that is on every call. Watches
//! also miss changes behind symbolic links and on network disks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::settings;
use mcpproxy_gateway::{Files, Gateway, ReloadRequests, Reloaded};
use mcpproxy_web::Guard;
use tokio::task::JoinError;

use crate::operator_files::{self, FileStamps};

/// Time between two comparisons.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// A read that takes longer, for example from an unresponsive disk, is logged.
const SLOW_READ: Duration = Duration::from_secs(30);

/// Polls the operator's files and reloads them.
pub(crate) struct Reload {
    pub(crate) path: PathBuf,
    /// Taken before `current` was read, so that no change in between is missed.
    pub(crate) seen: FileStamps,
    pub(crate) current: Files,
    pub(crate) gateway: Gateway,
    pub(crate) guard: Guard,
    pub(crate) requests: ReloadRequests,
}

impl Reload {
    /// Polls until dropped.
    pub(crate) async fn run(mut self) {
        let mut last = self.seen.clone();
        loop {
            let request = tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => None,
                request = self.requests.next() => Some(request),
            };
            let is_requested = request.is_some();
            // Disks can be slow, and a large catalog takes time to build. Calls continue meanwhile.
            let looked = run_blocking(move || {
                let now = operator_files::inspect(&self.path);
                // Two equal fingerprints in a row mean that the editor has finished writing. So does a request.
                if now != self.seen && (now == last || is_requested) {
                    self.changed(&now);
                }
                (self, now)
            });
            match looked.await {
                Ok(looked) => (self, last) = looked,
                Err(error) => return tracing::error!(%error, "the gateway no longer reloads the settings"),
            }
            if let Some(request) = request {
                let result = self.gateway.reload_error().map_or(Reloaded::Applied, Reloaded::Refused);
                // The command may have disconnected.
                let _ = request.send(result);
            }
        }
    }

    fn changed(&mut self, now: &FileStamps) {
        let before = std::mem::replace(&mut self.seen, now.clone());
        if before.has_settings() && !now.has_settings() {
            // An editor may be about to write it again. Either way, the previous settings remain active.
            let path = self.path.display();
            tracing::warn!(%path, "The settings file is gone. The previous settings remain active.");
        }
        now.warn_of_ignored();
        if now.stamps != before.stamps {
            self.reload();
        }
    }

    fn reload(&mut self) {
        let read = operator_files::read(&self.path, Some(&self.current.settings));
        match read.and_then(|read| read.keeps(&self.current).map(|()| read.files)) {
            Ok(files) => {
                let new = self.with_old(files);
                let changes = settings::diff(&self.current.settings, &new.settings);
                for key in &changes.restart_needed {
                    tracing::warn!("The new value of `{key}` takes effect after a restart.");
                }
                tracing::info!(path = %self.path.display(), "reloaded settings, contracts and policies");
                self.guard.allow(&new.settings.allowed_hosts, &new.settings.allowed_origins);
                self.current = new.clone();
                self.gateway.reload(new);
            }
            Err(failure) => {
                let message = failure.to_string();
                tracing::warn!(
                    "Settings not reloaded: {}. The previous settings, contracts and policies remain active.",
                    message.replace('\n', "; ")
                );
                self.gateway.reload_failed(message);
            }
        }
    }

    /// Keeps the old `Arc` of every unchanged part, so that nothing is rebuilt because of it.
    fn with_old(&self, new: Files) -> Files {
        let Files { settings, contracts, policies } = new;
        let old = &self.current;
        Files {
            settings: if settings == old.settings { Arc::clone(&old.settings) } else { settings },
            contracts: if contracts == old.contracts { Arc::clone(&old.contracts) } else { contracts },
            policies: if policies == old.policies { Arc::clone(&old.policies) } else { policies },
        }
    }
}

/// Runs blocking work on its own thread, and logs if it is slow.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let mut work = tokio::task::spawn_blocking(work);
    if let Ok(done) = tokio::time::timeout(SLOW_READ, &mut work).await {
        return done;
    }
    tracing::warn!(
        "Reading settings, contracts and policies takes longer than {SLOW_READ:?}. Changes take effect afterwards."
    );
    work.await
}
