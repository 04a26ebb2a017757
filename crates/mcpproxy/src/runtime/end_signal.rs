//! Waits for SIGTERM, SIGINT or SIGHUP.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop a command: SIGTERM, SIGINT and SIGHUP.
pub(crate) struct EndSignal {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl EndSignal {
    /// Takes over signal handling. The default action would end the process and leave server processes behind.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn wait(mut self) {
        self.next().await;
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
