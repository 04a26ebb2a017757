//! The way from a call to the server's connection: the live one, a new attempt, or the twin for agents with sessions.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Server, Twin};
use crate::protocol::Era;
use crate::status::StateName;
use crate::upstream::connect::reach_legacy;
use crate::upstream::connection::{Connection, Link};
use crate::upstream::error::UpstreamError;

/// Shortest time between two attempts to connect that calls ask for.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Longest wait of a call for a server that is being connected again.
const RETRY_WAIT: Duration = Duration::from_secs(10);

impl Server {
    /// Returns the connection that suits an agent of this era.
    pub(in crate::upstream) async fn connection(&self, era: Era) -> Result<Arc<Connection>, UpstreamError> {
        let connection = match self.live_connection() {
            Some(connection) => connection,
            None => Box::pin(self.connect_again()).await.ok_or_else(|| self.unavailable())?,
        };
        let may_have_twin =
            era == Era::Legacy && connection.era == Era::Modern && matches!(connection.link, Link::Http(_));
        if !may_have_twin {
            return Ok(connection);
        }
        Ok(Box::pin(self.twin_or(connection)).await)
    }

    /// Returns the connection, unless it has ended.
    fn live_connection(&self) -> Option<Arc<Connection>> {
        self.connection.load_full().filter(|connection| !connection.ended().is_cancelled())
    }

    /// Asks the supervisor to connect now instead of after its backoff, and waits for the result. Without an attempt in
    /// the last second this is the next one. Otherwise the call fails at once, so that calls cannot start processes
    /// faster than that.
    async fn connect_again(&self) -> Option<Arc<Connection>> {
        let mut attempts = self.attempts.subscribe();
        let ended = async {
            loop {
                if self.live_connection().is_some() || !self.is_worth_waiting() || attempts.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            _late = tokio::time::timeout(RETRY_WAIT, ended) => {}
            // The supervisor connects no more, and a stopping gateway waits for this call.
            () = self.stop.cancelled() => {}
        }
        self.live_connection()
    }

    /// Returns true if an attempt to connect runs, or begins now because of this call.
    fn is_worth_waiting(&self) -> bool {
        // Locked to the end, so that an attempt that begins meanwhile is not taken for one that has failed.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.name {
            StateName::Disabled | StateName::Misconfigured | StateName::NeedsSignIn => false,
            StateName::Waiting if self.may_retry(Instant::now()) => {
                self.wanted.notify_one();
                true
            }
            StateName::Waiting => false,
            // The first attempt has a wait of its own, in `SharedState::snapshot_for`.
            StateName::Connecting | StateName::Ready => self.was_tried(),
        }
    }

    fn may_retry(&self, now: Instant) -> bool {
        let attempted_at = *self.attempted_at.lock().unwrap_or_else(PoisonError::into_inner);
        attempted_at.is_none_or(|at| now.saturating_duration_since(at) >= RETRY_PAUSE)
    }

    /// Returns the connection for agents with a session to a server that speaks both eras, and opens it if there is
    /// none.
    async fn twin_or(&self, connection: Arc<Connection>) -> Arc<Connection> {
        let mut twin = self.twin.lock().await;
        if let Twin::Open(open) = &*twin
            && open.ended().is_cancelled()
        {
            *twin = Twin::Unopened;
        }
        if let Twin::Unopened = &*twin {
            *twin = match tokio::time::timeout(
                self.settings.connect_timeout,
                reach_legacy(&self.settings, self.tokens.as_ref()),
            )
            .await
            {
                Ok(Ok(open)) => {
                    if let Link::Http(link) = &open.link {
                        tokio::spawn(Arc::clone(link).stand());
                    }
                    Twin::Open(Arc::new(open))
                }
                Ok(Err(_)) | Err(_) => Twin::Absent,
            };
        }
        match &*twin {
            Twin::Open(open) => Arc::clone(open),
            Twin::Unopened | Twin::Absent => connection,
        }
    }

    /// Waits until there is a connection other than one that has ended.
    pub(in crate::upstream) async fn reconnected(&self) {
        loop {
            let connected = self.connected.notified();
            if self.connection.load().as_ref().is_some_and(|connection| !connection.ended().is_cancelled()) {
                return;
            }
            connected.await;
        }
    }

    pub(in crate::upstream) async fn close_twin(&self) {
        let twin = std::mem::replace(&mut *self.twin.lock().await, Twin::Unopened);
        if let Twin::Open(open) = twin
            && let Link::Http(link) = &open.link
        {
            link.close().await;
        }
    }
}
