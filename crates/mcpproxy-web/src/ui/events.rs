//! Notifies open pages of changes with Server-Sent Events. The pages then fetch their new content.
//!
//! A page says what it shows (`?about=calls`). Under load, records are written all the time. The more pages are open, the
//! less often each of them hears about it, so that all pages together cost about the same as twenty.

use std::convert::Infallible;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::Uri;
use http::header::{self, HeaderValue};
use mcpproxy_gateway::GatewayEvent;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
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
/// Combines changes. Approval requests are urgent.
const APPROVALS_PAUSE: Duration = Duration::from_millis(200);
const CALLS_PAUSE: Duration = Duration::from_secs(1);
/// Added for each open page. 200 pages fetch their content every ten seconds.
const PAUSE_PER_PAGE: Duration = Duration::from_millis(50);
/// The lifetime of a stream. It equals the idle timeout of a session, after which the browser has to authenticate
/// again.
const LENGTH: Duration = Duration::from_secs(15 * 60);

/// The changes that a page wants to hear of. All pages hear of approval requests, because the navigation counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Approvals,
    /// Records of the activity log.
    Calls,
    /// States and definitions of servers, reloads.
    Servers,
}

impl Topic {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Calls => "calls",
            Self::Servers => "servers",
        }
    }

    fn of(query: Option<&str>) -> Self {
        let word = query.and_then(|query| query.strip_prefix("about="));
        let topics = [Self::Calls, Self::Servers];
        topics.into_iter().find(|topic| word == Some(topic.as_str())).unwrap_or(Self::Approvals)
    }
}

/// Counts the pages that listen for records.
static LISTENING: AtomicU32 = AtomicU32::new(0);

struct Counted;

impl Counted {
    fn new() -> Self {
        LISTENING.fetch_add(1, Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LISTENING.fetch_sub(1, Relaxed);
    }
}

struct Listener {
    approvals: watch::Receiver<u64>,
    calls: Option<(watch::Receiver<u64>, Counted)>,
    servers: Option<broadcast::Receiver<GatewayEvent>>,
    stopping: CancellationToken,
    ends: Instant,
    is_greeted: bool,
}

async fn follow(State(app): State<AppState>, uri: Uri) -> Response {
    let topic = Topic::of(uri.query());
    let listener = Listener {
        approvals: app.web.gateway.approvals().changed(),
        calls: (topic == Topic::Calls).then(|| (app.web.ledger.committed(), Counted::new())),
        servers: (topic == Topic::Servers).then(|| app.web.gateway.events()),
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
        let pause = tokio::select! {
            biased;
            () = self.stopping.cancelled() => return None,
            () = sleep_until(self.ends) => return None,
            changed = self.approvals.changed() => {
                changed.ok()?;
                APPROVALS_PAUSE
            }
            () = written(self.calls.as_mut()) => CALLS_PAUSE.max(PAUSE_PER_PAGE * LISTENING.load(Relaxed)),
            () = happened(self.servers.as_mut()) => APPROVALS_PAUSE,
            () = sleep(KEEP_ALIVE) => return Some(": keep-alive\n\n"),
        };
        tokio::select! {
            () = self.stopping.cancelled() => return None,
            () = sleep(pause) => {}
        }
        self.approvals.mark_unchanged();
        if let Some((calls, _)) = &mut self.calls {
            calls.mark_unchanged();
        }
        if let Some(servers) = &mut self.servers {
            *servers = servers.resubscribe();
        }
        Some("event: change\ndata: {}\n\n")
    }
}

/// Waits for the next written record.
async fn written(calls: Option<&mut (watch::Receiver<u64>, Counted)>) {
    let is_open = match calls {
        Some((calls, _)) => calls.changed().await.is_ok(),
        None => false,
    };
    if !is_open {
        std::future::pending::<()>().await;
    }
}

/// Waits for the next event of a server. Missed events count as one.
async fn happened(servers: Option<&mut broadcast::Receiver<GatewayEvent>>) {
    let received = match servers {
        Some(servers) => servers.recv().await,
        None => std::future::pending().await,
    };
    if matches!(received, Err(RecvError::Closed)) {
        std::future::pending::<()>().await;
    }
}
