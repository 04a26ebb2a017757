//! Lets a request apply the operator's files now, instead of when the file watcher notices them.
//!
//! A command that edits the settings or a contract must not return before the gateway enforces the edit. Otherwise the
//! next call still runs under the old contract. The command therefore writes the file and then asks the gateway to
//! reload.
//!
//! The task that watches the files also answers these requests, so that two reloads never run at once. [`Reloader`] is
//! the sending half, which the REST interface holds. [`ReloadRequests`] is the receiving half, which the watcher holds.

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

/// Asks the watcher to reload.
#[derive(Clone, Debug)]
pub struct Reloader {
    sender: mpsc::Sender<oneshot::Sender<Reloaded>>,
}

/// Receives the requests of every [`Reloader`] of one channel.
#[derive(Debug)]
pub struct ReloadRequests {
    receiver: mpsc::Receiver<oneshot::Sender<Reloaded>>,
}

impl Reloader {
    pub fn channel() -> (Self, ReloadRequests) {
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        (Self { sender }, ReloadRequests { receiver })
    }

    /// Reads the operator's files again. Returns when they are active or refused.
    pub async fn reload(&self) -> Reloaded {
        let (answer, answered) = oneshot::channel();
        if self.sender.send(answer).await.is_err() {
            return Reloaded::Stopping;
        }
        answered.await.unwrap_or(Reloaded::Stopping)
    }
}

impl ReloadRequests {
    /// Waits for a request and returns where to send its result. Never returns once every [`Reloader`] is gone.
    pub async fn next(&mut self) -> oneshot::Sender<Reloaded> {
        match self.receiver.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}
