//! Waits for SIGTERM, SIGINT or SIGHUP.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask us to end.
pub(crate) struct EndSignal {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl EndSignal {
    /// From here on the signals do not end us by themselves, which would leave servers behind.
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

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
