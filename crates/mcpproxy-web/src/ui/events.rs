//! Notifies open pages of changes with Server-Sent Events. The pages then fetch their new content.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::header::{self, HeaderValue};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::page::{Page, PageAccess};
use crate::auth::identity::AppState;
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[Page {
    name: "events",
    method: Verb::Get,
    path: "/ui/events",
    access: PageAccess::User,
    decides: false,
    sent_from: None,
    is_stream: true,
    handler: |method| on(method, follow),
}];

/// Proxies close idle connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Combines changes under load.
const PAUSE: Duration = Duration::from_millis(200);
/// The lifetime of a stream. It equals the idle timeout of a session, after which the browser has to authenticate
/// again.
const LENGTH: Duration = Duration::from_secs(15 * 60);

struct Listener {
    changed: watch::Receiver<u64>,
    stopping: CancellationToken,
    ends: Instant,
    is_greeted: bool,
}

async fn follow(State(app): State<AppState>) -> Response {
    let listener = Listener {
        changed: app.web.gateway.approvals().changed(),
        stopping: app.web.stopping.clone(),
        ends: Instant::now() + LENGTH,
        is_greeted: false,
    };
    let events = futures::stream::unfold(listener, |mut listener| async move {
        let said = listener.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from_static(said.as_bytes())), listener))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Listener {
    /// Returns the next event, or `None` at the end.
    async fn next(&mut self) -> Option<&'static str> {
        if !std::mem::replace(&mut self.is_greeted, true) {
            // Covers changes between loading the page and opening the stream.
            return Some("retry: 2000\nevent: change\ndata: {}\n\n");
        }
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => None,
            () = sleep_until(self.ends) => None,
            changed = self.changed.changed() => {
                changed.ok()?;
                sleep(PAUSE).await;
                self.changed.mark_unchanged();
                Some("event: change\ndata: {}\n\n")
            }
            () = sleep(KEEP_ALIVE) => Some(": keep-alive\n\n"),
        }
    }
}
