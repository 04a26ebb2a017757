//! The standing stream of a server with sessions: messages outside of any answer.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use super::{HttpLink, RESUME_WAIT, RESUME_WAIT_MAX};
use crate::event_stream::{EventError, EventReader};
use crate::upstream::allowance::Excess;

/// Shortest pause before the standing stream is opened again.
const RESUME_WAIT_MIN: Duration = Duration::from_millis(100);

impl HttpLink {
    /// Follows the server's standing stream until it ends for good, or the link does. Many servers have none.
    pub(crate) async fn stand(self: Arc<Self>) {
        tokio::select! {
            () = self.follow_standing() => {}
            () = self.ended.cancelled() => {}
        }
    }

    async fn follow_standing(self: &Arc<Self>) {
        let mut last_event: Option<String> = None;
        while let Ok(stream) = self.listen(last_event.as_deref()).await {
            let mut events = EventReader::new(stream.boxed(), self.limit);
            let mut wait = RESUME_WAIT;
            loop {
                let event = match events.next().await {
                    Ok(Some(event)) => event,
                    Err(EventError::TooLarge(limit)) => {
                        self.disconnect(Excess::Endless(limit));
                        return;
                    }
                    Ok(None) | Err(_) => break,
                };
                if let Some(retry) = event.retry_ms {
                    wait = Duration::from_millis(retry).min(RESUME_WAIT_MAX);
                }
                last_event = event.id.or(last_event);
                let (reader, user) = (self.open_calls.sole_reader(), self.open_calls.sole_user());
                if self.said(0, &event.data, reader.as_ref(), user.as_ref()).await.is_err() {
                    return;
                }
            }
            // Otherwise a server that sets `retry: 0` and closes each stream would keep a core busy.
            tokio::time::sleep(wait.max(RESUME_WAIT_MIN)).await;
        }
    }
}
