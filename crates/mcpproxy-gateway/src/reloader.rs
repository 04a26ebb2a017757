//! Lets a request apply the operator's files now, instead of when the file watcher notices them.
//!
//! A command that edits the settings or a contract must not return before the gateway enforces the edit. Otherwise the
//! next call still runs under the old contract. The command therefore writes the file and then asks the gateway to
//! reload.
//!
//! The task that watches the files also answers these requests, so that two reloads never run at once. [`Reloader`] is
//! the sending half, which the REST interface holds. [`ReloadRequests`] is the receiving half, which the watcher holds.
//!
//! A reload that would weaken contracts or policies waits until a user confirms it. [`Reloader::apply`] takes the proof
//! that a user is present, so that neither an agent nor the admin key can do that.

use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_store::{PresenceProof, StepUpProof};
use tokio::sync::{mpsc, oneshot};

/// Limit on requests that wait for the watcher. Commands typed by hand never reach it.
const REQUESTS_MAX: usize = 16;

/// The result of a requested reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The files are active, whether or not they had changed.
    Applied,
    /// A file is invalid. The previous settings, contracts and policies remain active.
    Refused(String),
    /// No watcher is running: the gateway is stopping.
    Stopping,
}

/// A user's confirmation of the changes that they have read.
#[derive(Debug)]
pub struct Confirmation {
    /// Of the files that the user has seen the differences of.
    digest: String,
    user: String,
    has_step_up: bool,
}

impl Confirmation {
    /// A step-up proof counts if it is of the same user, and for these files.
    pub fn new(digest: &str, presence: &PresenceProof, step_up: Option<&StepUpProof>) -> Self {
        let user = presence.user();
        let is_for_this = |proof: &&StepUpProof| proof.user() == user && proof.purpose() == digest;
        let has_step_up = step_up.filter(is_for_this).is_some();
        Self { digest: digest.to_owned(), user: user.name().to_owned(), has_step_up }
    }

    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    pub fn has_step_up(&self) -> bool {
        self.has_step_up
    }
}

/// Files that a user may publish, as this gateway would take them over.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedFiles {
    /// Rules that are weaker than those in force.
    pub weaker: Weaker,
}

/// The result of a confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// The files are active.
    Applied,
    /// Nothing waits for a confirmation.
    NothingWaits,
    /// The files changed after the user read the differences.
    Changed,
    /// The changes lift something that needs a second factor, or that nobody may do.
    StepUpRequired,
    /// A file is invalid.
    Refused(String),
    /// No watcher is running: the gateway is stopping.
    Stopping,
}

/// A request to the watcher, with the place for its result.
#[derive(Debug)]
pub enum ReloadRequest {
    Reload(oneshot::Sender<Reloaded>),
    Apply(Confirmation, oneshot::Sender<Confirmed>),
    /// Names and texts of files to check, and the place for their mistakes.
    Check(Vec<(String, String)>, oneshot::Sender<Result<CheckedFiles, String>>),
}

/// Asks the watcher to reload.
#[derive(Clone, Debug)]
pub struct Reloader {
    sender: mpsc::Sender<ReloadRequest>,
}

/// Receives the requests of every [`Reloader`] of one channel.
#[derive(Debug)]
pub struct ReloadRequests {
    receiver: mpsc::Receiver<ReloadRequest>,
}

impl Reloader {
    pub fn channel() -> (Self, ReloadRequests) {
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        (Self { sender }, ReloadRequests { receiver })
    }

    /// Reads the operator's files again. Returns when they are active or refused. Changes that weaken contracts or
    /// policies may wait for a confirmation: see `Gateway::held`.
    pub async fn reload(&self) -> Reloaded {
        let (answer, answered) = oneshot::channel();
        if self.sender.send(ReloadRequest::Reload(answer)).await.is_err() {
            return Reloaded::Stopping;
        }
        answered.await.unwrap_or(Reloaded::Stopping)
    }

    /// Applies the changes that a user has confirmed.
    pub async fn apply(&self, confirmation: Confirmation) -> Confirmed {
        let (answer, answered) = oneshot::channel();
        if self.sender.send(ReloadRequest::Apply(confirmation, answer)).await.is_err() {
            return Confirmed::Stopping;
        }
        answered.await.unwrap_or(Confirmed::Stopping)
    }

    /// Checks files that a user may publish: returns their mistakes, or what is weaker than the files in force. Changes
    /// nothing. Returns `None` if the gateway is stopping.
    pub async fn check(&self, files: Vec<(String, String)>) -> Option<Result<CheckedFiles, String>> {
        let (answer, answered) = oneshot::channel();
        self.sender.send(ReloadRequest::Check(files, answer)).await.ok()?;
        answered.await.ok()
    }
}

impl ReloadRequests {
    /// Waits for a request. Never returns once every [`Reloader`] is gone.
    pub async fn next(&mut self) -> ReloadRequest {
        match self.receiver.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}
