//! The log as it grows: Server-Sent Events, which can be taken up again where they broke off.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use mcpproxy_core::{ApprovalId, ApprovalState, RiskLevel, Untrusted};
use mcpproxy_store::{Feed, FeedCursor, Filter, Kind, Record};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::auth::identity::Who;
use crate::problem::Problem;
use crate::rest::export::one_line;
use crate::rest::parameters::{self, Given};
use crate::{Web, wire};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// So many records are in hand at a time; the next are read when the listener has taken these.
const BATCH_RECORDS: usize = 100;
/// Other gateways write to the same log, and tell nobody.
const POLL: Duration = Duration::from_secs(1);
/// Under load, one look takes in many commits.
const PAUSE: Duration = Duration::from_millis(50);
/// A person who has signed out is listened for no longer than that.
const SIGNED_IN: Duration = Duration::from_secs(60);
/// Proxies give up on connections that say nothing.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) async fn follow(
    State(web): State<Arc<Web>>,
    Extension(given): Extension<Given>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // A client that comes back repeats the address it began with; its header knows better.
    let after = match headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        Some(id) => Some(parameters::place("Last-Event-ID", id.to_str().unwrap_or_default())?),
        None => given.place(),
    };
    let after = match after {
        Some(after) => after,
        None => web.store.feed_end().await?,
    };
    let commits = web.ledger.committed();
    // Whoever comes back must still be signed in then.
    let until = matches!(who, Who::Person(_)).then(|| Instant::now() + SIGNED_IN);
    let follower = Follower {
        until,
        web,
        filter: given.filter()?,
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

/// Somebody who listens. It is asked for more when the connection has room, so that a slow one waits for itself alone.
struct Follower {
    /// When the listener has to come again.
    until: Option<Instant>,
    web: Arc<Web>,
    filter: Filter,
    after: FeedCursor,
    commits: watch::Receiver<u64>,
    /// When the log was last looked at.
    looked: Option<Instant>,
    /// When something was last said.
    said: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was said yet.
    Greeting,
    /// There is more to read already.
    Behind,
    Waiting,
    /// The log could not be read when it was last tried, and the listener knows.
    Failing,
}

impl Follower {
    /// What to say next; none when the gateway stops.
    async fn next(&mut self) -> Option<Bytes> {
        if self.stage == Stage::Greeting {
            self.stage = Stage::Behind;
            // With the place alone, who breaks off before the first event comes back to the right one.
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
                // It may come back, and the listener's place with it.
                Err(_) if self.stage == Stage::Failing => {}
                Err(error) => {
                    self.stage = Stage::Failing;
                    let reason: &dyn std::error::Error = &error;
                    tracing::warn!(error = reason, "could not read the activity log for a listener");
                    return self.say(": the activity log cannot be read at the moment\n\n".to_owned());
                }
            }
        }
    }

    /// Waits until it is worth looking, or time to say something.
    async fn wake(&mut self) -> Wake {
        let Some(looked) = self.looked.filter(|_| self.stage != Stage::Behind) else { return Wake::Look };
        let is_failing = self.stage == Stage::Failing;
        let commits = &mut self.commits;
        let committed = async {
            // Without a writer there is nobody to wake us; and a log that cannot be read is not asked more often.
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

    /// Each record with the place behind it, so that whoever breaks off anywhere goes on exactly there.
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

/// What a record of kind `approval` says about an approval; those about grants say nothing about any.
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
