//! Reloads settings, contracts and policies while the gateway runs.
//!
//! Three things make the gateway compare fingerprints of the operator's files, and of the files that the settings refer
//! to with `${file:PATH}`:
//!
//! - **An event** in one of their folders ([`FileEvents`]): a finished write, a rename, a removal. The files are read as
//!   soon as two comparisons in a row, a few milliseconds apart, show the same. An edit is active within 100 ms.
//! - **The clock**, every 250 ms. It finds what events miss: network disks, and a writer that keeps its file open. Two
//!   comparisons in a row must show the same change here too, so that a half-written file is not read.
//! - **A request** over REST (`mcpproxy_gateway::Reloader`). A command that edits a file returns when its edit is
//!   active, so that the next call is already checked against it. The files are read at once, because the command has
//!   finished writing.
//!
//! If all files are valid, they take effect together: the gateway builds a new snapshot, and calls that already started
//! keep the old one. Unchanged parts keep their `Arc`, so that servers and policies are not rebuilt. If any file is
//! invalid, nothing changes. The terminal and `GET /api/v1/status` show the error until the next change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::settings::{self, Warning};
use mcpproxy_gateway::{Files, Gateway, ReloadRequests, Reloaded};
use mcpproxy_web::Guard;
use tokio::task::JoinError;

use super::file_events::{FileEvents, POLL_INTERVAL};
use crate::operator_files::settings_file::warning_lines;
use crate::operator_files::{self, FileStamps};
use crate::terminal::output::tell;

/// Time between two comparisons after an event. Programs write several files, or one in several steps, without a longer
/// pause than this.
const SETTLE: Duration = Duration::from_millis(15);
/// Comparisons after an event until the clock takes over.
const SETTLE_MAX: usize = 20;
/// A read that takes longer, for example from an unresponsive disk, is logged.
const SLOW_READ: Duration = Duration::from_secs(30);

/// Watches the operator's files and reloads them.
pub(crate) struct Reload {
    pub(crate) path: PathBuf,
    /// Files that the settings refer to.
    pub(crate) referenced: Vec<PathBuf>,
    /// Taken before `current` was read, so that no change in between is missed.
    pub(crate) seen: FileStamps,
    pub(crate) current: Files,
    pub(crate) gateway: Gateway,
    pub(crate) guard: Guard,
    pub(crate) requests: ReloadRequests,
}

/// The reason for a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trigger {
    Clock,
    Event,
    Request,
}

impl Reload {
    /// Watches until dropped.
    pub(crate) async fn run(mut self) {
        let events = FileEvents::new();
        let mut last = self.seen.clone();
        events.watch(&last.folders());
        loop {
            let (trigger, request) = tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => (Trigger::Clock, None),
                () = events.next() => (Trigger::Event, None),
                request = self.requests.next() => (Trigger::Request, Some(request)),
            };
            let before = last.clone();
            // Disks can be slow, and a large catalog takes time to build. Calls continue meanwhile.
            let looked = run_blocking(move || {
                let now = self.look(&before, trigger);
                (self, now)
            });
            let now = match looked.await {
                Ok(looked) => {
                    self = looked.0;
                    looked.1
                }
                Err(error) => return tracing::error!(%error, "the gateway no longer reloads the settings"),
            };
            if now != last {
                // Folders may be new, or replaced by others of the same name.
                events.watch(&now.folders());
                last = now;
            }
            if let Some(request) = request {
                let result = self.gateway.reload_error().map_or(Reloaded::Applied, Reloaded::Refused);
                // The command may have disconnected.
                let _ = request.send(result);
            }
        }
    }

    /// Compares fingerprints, and reads the files if they changed and are finished. Returns the newest fingerprints.
    fn look(&mut self, last: &FileStamps, trigger: Trigger) -> FileStamps {
        let mut now = operator_files::inspect(&self.path, &self.referenced);
        let is_finished = match trigger {
            Trigger::Clock => now == *last,
            Trigger::Request => true,
            Trigger::Event if now == self.seen => false,
            Trigger::Event => (0..SETTLE_MAX).any(|_| {
                std::thread::sleep(SETTLE);
                let before = std::mem::replace(&mut now, operator_files::inspect(&self.path, &self.referenced));
                before == now
            }),
        };
        if is_finished && now != self.seen {
            self.changed(&now);
        } else if trigger == Trigger::Request {
            self.reload(trigger);
        }
        now
    }

    fn changed(&mut self, now: &FileStamps) {
        let before = std::mem::replace(&mut self.seen, now.clone());
        if before.has_settings() && !now.has_settings() {
            // An editor may be about to write it again. Either way, the previous settings remain active.
            let path = self.path.display();
            tracing::warn!(%path, "The settings file is gone. The previous settings remain active.");
        }
        if now.ignored != before.ignored {
            now.warn_of_ignored();
        }
        if now.stamps != before.stamps {
            self.reload(Trigger::Event);
        }
    }

    fn reload(&mut self, trigger: Trigger) {
        let read = operator_files::read(&self.path, Some(&self.current.settings));
        let error = self.gateway.reload_error();
        match read.and_then(|read| read.keeps(&self.current).map(|()| read)) {
            Ok(read) => {
                self.referenced = read.referenced;
                let new = self.with_old(read.files);
                if error.is_none() && self.is_current(&new) {
                    return;
                }
                let changes = settings::diff(&self.current.settings, &new.settings);
                for key in &changes.restart_needed {
                    tracing::warn!("The new value of `{key}` takes effect after a restart.");
                }
                let before = &self.current.settings.warnings;
                let is_new = |warning: &&Warning| !before.iter().any(|old| old.message == warning.message);
                let new_warnings: Vec<Warning> = new.settings.warnings.iter().filter(is_new).cloned().collect();
                warning_lines(&self.path, &new_warnings).iter().for_each(|warning| tell(warning));
                tracing::info!(path = %self.path.display(), "reloaded settings, contracts and policies");
                self.guard.allow(&new.settings.allowed_hosts, &new.settings.allowed_origins);
                self.current = new.clone();
                self.gateway.reload(new);
            }
            Err(failure) => {
                let message = failure.to_string();
                // A request finds what an event has reported already.
                if trigger != Trigger::Request || error.as_ref() != Some(&message) {
                    self.gateway.reload_failed(message);
                }
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

    fn is_current(&self, new: &Files) -> bool {
        let Files { settings, contracts, policies } = &self.current;
        Arc::ptr_eq(settings, &new.settings)
            && Arc::ptr_eq(contracts, &new.contracts)
            && Arc::ptr_eq(policies, &new.policies)
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
