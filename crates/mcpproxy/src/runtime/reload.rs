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
//! The gateway's own certificate counts as settings. If only its files changed, new connections get the new one, and nothing
//! else happens.
//!
//! With `operator_files: "database"`, the texts come from the newest version that a user published. [`versions`] looks for it
//! after news of another gateway, every few seconds, and on request. The user confirmed it, so it takes effect as a whole.
//! The files of the data folder are still compared: they have the settings of this machine.
//!
//! [`watched_files`] compares and reads the files, and says which part takes effect. This file says when.
//!
//! A panic here must not leave a gateway that never reloads again: the operator would revoke a permission in vain.
//! Everything that reads files works on a copy of the state. If it panics, that state is as before, the error is shown
//! like that of an invalid file, and the next comparison follows after [`CRASH_PAUSE`]. A panic in `Gateway::reload`
//! itself keeps the previous snapshot, but servers may have been started or stopped already. The next attempt replaces
//! the ones that it starts again, so that no process is left behind.

mod watched_files;

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_gateway::{Confirmation, Confirmed, ReloadRequest, ReloadRequests, Reloaded};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Instant;

use super::file_events::{FileEvents, POLL_INTERVAL};
use super::versions::NewestVersion;
use watched_files::Checked;

pub(crate) use watched_files::{ListenerFacts, WatchedFiles};

/// Shortest time between a comparison and the next one because of an event. A program that changes files in one of the
/// folders all the time, for example an editor's backups, costs twenty comparisons per second and not more.
const EVENT_PAUSE: Duration = Duration::from_millis(50);
/// Time between a comparison that panicked and the next one.
const CRASH_PAUSE: Duration = Duration::from_secs(3);
/// A read that takes longer, for example from an unresponsive disk, is logged.
const SLOW_READ: Duration = Duration::from_secs(30);

/// Watches the operator's files and reloads them.
pub(crate) struct Reload {
    pub(crate) files: WatchedFiles,
    pub(crate) requests: ReloadRequests,
    /// Looks for published versions.
    pub(crate) newest: NewestVersion,
}

/// The place for the result of a request.
enum Answer {
    Reload(oneshot::Sender<Reloaded>),
    Apply(oneshot::Sender<Confirmed>),
    Check(oneshot::Sender<Checked>),
}

/// The work of a request, besides a reload.
enum Task {
    None,
    Confirm(Confirmation),
    Check(Vec<(String, String)>),
}

/// The result of a [`Task`].
enum Done {
    None,
    Confirmed(Confirmed),
    Checked(Checked),
}

/// The reason for a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    Clock,
    Event,
    /// There may be a new version in the database.
    Version,
    Request,
}

impl Reload {
    /// Watches until dropped.
    pub(crate) async fn run(self) {
        let Self { mut files, mut requests, mut newest } = self;
        let gateway = files.gateway.clone();
        let events = Arc::new(FileEvents::new());
        let mut last = files.seen.clone();
        let (watching, stamps) = (Arc::clone(&events), last.clone());
        let _watched = run_blocking(move || watching.watch(&stamps.folders())).await;
        // Neither events nor the clock start a comparison before this time. A request always does.
        let mut rest_until = Instant::now();
        loop {
            // Starts again after every comparison. An event's comparison finds everything that the clock would find.
            let next_tick = (Instant::now() + POLL_INTERVAL).max(rest_until);
            let next_event = async {
                tokio::time::sleep_until(rest_until).await;
                events.next().await;
            };
            let (trigger, request) = tokio::select! {
                () = tokio::time::sleep_until(next_tick) => (Trigger::Clock, None),
                () = next_event => (Trigger::Event, None),
                () = gateway.version_announced() => (Trigger::Version, None),
                request = requests.next() => (Trigger::Request, Some(request)),
            };
            let (answer, task) = match request {
                None => (None, Task::None),
                Some(ReloadRequest::Reload(answer)) => (Some(Answer::Reload(answer)), Task::None),
                Some(ReloadRequest::Apply(by, answer)) => (Some(Answer::Apply(answer)), Task::Confirm(by)),
                Some(ReloadRequest::Check(files, answer)) => (Some(Answer::Check(answer)), Task::Check(files)),
            };
            let has_version = newest.look(&mut files, trigger).await;
            let (mut copy, before, watching) = (files.clone(), last.clone(), Arc::clone(&events));
            // Disks can be slow, and a large catalog takes time to build. Calls continue meanwhile.
            let looked = run_blocking(move || {
                if has_version {
                    copy.reload(Trigger::Version);
                }
                let now = copy.look(&before, trigger);
                if now != before {
                    // Folders may be new, or replaced by others of the same name.
                    watching.watch(&now.folders());
                }
                let done = match task {
                    Task::None => Done::None,
                    Task::Confirm(confirmation) => Done::Confirmed(copy.confirm(&confirmation)),
                    Task::Check(files) => Done::Checked(copy.check(&files)),
                };
                (copy, now, done)
            });
            let (rest, done) = match looked.await {
                Ok((copy, now, done)) => {
                    (files, last) = (copy, now);
                    (EVENT_PAUSE, done)
                }
                Err(error) => {
                    files.crashed(&error);
                    (CRASH_PAUSE, Done::None)
                }
            };
            rest_until = Instant::now() + rest;
            if let Some(answer) = answer {
                answer.send(files.gateway.reload_error(), done);
            }
        }
    }
}

impl Answer {
    fn send(self, error: Option<String>, done: Done) {
        // The command may have disconnected.
        match (self, done) {
            (Self::Reload(answer), _) => drop(answer.send(error.map_or(Reloaded::Applied, Reloaded::Refused))),
            (Self::Apply(answer), Done::Confirmed(confirmed)) => drop(answer.send(confirmed)),
            (Self::Check(answer), Done::Checked(checked)) => drop(answer.send(checked)),
            // The comparison panicked.
            (Self::Apply(answer), Done::None | Done::Checked(_)) => {
                drop(answer.send(Confirmed::Refused(error.unwrap_or_default())));
            }
            (Self::Check(answer), Done::None | Done::Confirmed(_)) => {
                drop(answer.send(Err(error.unwrap_or_default())));
            }
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

#[cfg(test)]
mod tests;
