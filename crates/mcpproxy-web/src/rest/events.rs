//! Streams records as Server-Sent Events. A client can resume where the connection broke.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use mcpproxy_core::{ApprovalId, ApprovalState, RiskLevel, Untrusted};
use mcpproxy_store::{Feed, FeedCursor, Filter, Kind, Record};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::endpoint::{Answer, Endpoint, Group, LOG_UNREADABLE};
use super::export::one_line;
use super::filters::with_filters;
use super::parameters::{self, AFTER, QueryValues};
use crate::auth::access::Access;
use crate::auth::identity::Identity;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "events",
    method: Verb::Get,
    path: "/api/v1/events",
    access: Access::Operator,
    decides: false,
    parameters: with_filters!([AFTER], []),
    body: None,
    group: Group::Activity,
    summary: "Stream records as they are written",
    description: "Server-Sent Events named `activity`. Each event holds a record as the list shows it. A call appears when it starts and again when it ends, or once if it is already over. The `id` of an event is the position to resume from.",
    answers: &[Answer::text("The events. The stream ends when either side closes it.", &["text/event-stream"])],
    errors: &[LOG_UNREADABLE],
    handler: |method| on(method, follow),
}];

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Records per read. The next batch is read when the client has received this one.
const BATCH_RECORDS: usize = 100;
/// Other gateways write to the same log without notifying this one.
const POLL: Duration = Duration::from_secs(1);
/// Combines commits under load.
const PAUSE: Duration = Duration::from_millis(50);
/// The lifetime of a stream for a user. After that the client reconnects, and a signed-out user is refused.
const SIGNED_IN: Duration = Duration::from_secs(60);
/// Proxies close idle connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

async fn follow(
    State(web): State<Arc<Web>>,
    Extension(query): Extension<QueryValues>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // A reconnecting client repeats its first address. The header is newer.
    let after = match headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        Some(id) => Some(parameters::event_id("Last-Event-ID", id.to_str().unwrap_or_default())?),
        None => query.event_id(),
    };
    let after = match after {
        Some(after) => after,
        None => web.store.feed_end().await?,
    };
    let commits = web.ledger.committed();
    // A user must still be signed in to reconnect.
    let until = matches!(identity, Identity::User(_)).then(|| Instant::now() + SIGNED_IN);
    let follower = Follower {
        until,
        web,
        filter: query.filter()?,
        after,
        commits,
        looked: None,
        said: Instant::now(),
        stage: Stage::Greeting,
    };
    let events = futures::stream::unfold(follower, |mut follower| async move {
        let said = follower.next().await?;
        Some((Ok::<_, Infallible>(said), follower))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The state of one stream. It is polled when the connection has room, so that a slow client delays no other.
struct Follower {
    /// The end of the stream.
    until: Option<Instant>,
    web: Arc<Web>,
    filter: Filter,
    after: FeedCursor,
    commits: watch::Receiver<u64>,
    /// The time of the last read.
    looked: Option<Instant>,
    /// The time of the last output.
    said: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was sent yet.
    Greeting,
    /// More records are waiting.
    Behind,
    Waiting,
    /// The last read failed, and the client was told.
    Failing,
}

impl Follower {
    /// Returns the next output, or `None` when the gateway stops.
    async fn next(&mut self) -> Option<Bytes> {
        if self.stage == Stage::Greeting {
            self.stage = Stage::Behind;
            // The id alone lets a client resume even if the connection breaks before the first event.
            return self.say(format!("retry: 2000\nid: {}\n\n", self.after));
        }
        loop {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            let stopping = self.web.stopping.clone();
            let wake = tokio::select! {
                biased;
                () = stopping.cancelled() => return None,
                wake = self.wake() => wake,
            };
            match wake {
                Wake::KeepAlive => return self.say(format!(": keep-alive\nid: {}\n\n", self.after)),
                Wake::Look => {}
            }
            self.looked = Some(Instant::now());
            self.commits.mark_unchanged();
            match self.web.store.feed(&self.after, &self.filter, BATCH_RECORDS).await {
                Ok(feed) => {
                    self.stage = if feed.has_more { Stage::Behind } else { Stage::Waiting };
                    if let Some(events) = self.events(feed) {
                        return self.say(events);
                    }
                }
                // The log may recover, and the position is still valid.
                Err(_) if self.stage == Stage::Failing => {}
                Err(error) => {
                    self.stage = Stage::Failing;
                    let reason: &dyn std::error::Error = &error;
                    tracing::warn!(error = reason, "could not read the activity log for a listener");
                    return self.say(": the activity log cannot be read right now\n\n".to_owned());
                }
            }
        }
    }

    /// Waits for new records, or for the next keep-alive.
    async fn wake(&mut self) -> Wake {
        let Some(looked) = self.looked.filter(|_| self.stage != Stage::Behind) else { return Wake::Look };
        let is_failing = self.stage == Stage::Failing;
        let commits = &mut self.commits;
        let committed = async {
            // Without a writer nothing wakes us. A failing log is only polled.
            if is_failing || commits.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            sleep_until(looked + PAUSE).await;
        };
        tokio::select! {
            () = committed => Wake::Look,
            () = sleep_until(looked + POLL) => Wake::Look,
            () = sleep_until(self.said + KEEP_ALIVE) => Wake::KeepAlive,
        }
    }

    /// Formats records as events. Each has the position behind it as its id, so that a client resumes exactly there.
    fn events(&mut self, feed: Feed) -> Option<String> {
        self.after = feed.next;
        let events = feed.records.into_iter().zip(feed.cursors).map(|(record, place)| {
            let approval = approval_event(&record)
                .map(|event| format!("id: {place}\nevent: approval\ndata: {}\n\n", one_line(&event)));
            let activity = one_line(&wire::Activity::from(record));
            format!("id: {place}\nevent: activity\ndata: {activity}\n\n{}", approval.unwrap_or_default())
        });
        Some(events.collect()).filter(|events: &String| !events.is_empty())
    }

    fn say(&mut self, text: String) -> Option<Bytes> {
        self.said = Instant::now();
        Some(text.into())
    }
}

/// Returns the change of an approval request that a record describes. Returns `None` for records about standing
/// approvals.
fn approval_event(record: &Record) -> Option<wire::ApprovalEvent> {
    let state = match record.code.as_ref().map(|code| code.for_json())? {
        "approval_requested" => ApprovalState::Pending,
        "approval_approved" => ApprovalState::Approved,
        "approval_denied" => ApprovalState::Denied,
        "approval_expired" => ApprovalState::Expired,
        "approval_cancelled" => ApprovalState::Cancelled,
        _ => return None,
    };
    let metadata: serde_json::Value = serde_json::from_str(record.metadata.for_json()).ok()?;
    let id = metadata.get("approval_id").and_then(serde_json::Value::as_str).and_then(ApprovalId::parse)?;
    let name = |word: &Option<Untrusted>| word.as_ref().map(|word| word.for_json().to_owned()).unwrap_or_default();
    (record.kind == Kind::Approval).then(|| wire::ApprovalEvent {
        id: id.to_string(),
        state: state.as_str(),
        tool: format!("{}:{}", name(&record.server), name(&record.tool)),
        agent: record.agent.clone(),
        risk: record.risk.map(RiskLevel::as_str),
    })
}

enum Wake {
    Look,
    KeepAlive,
}
