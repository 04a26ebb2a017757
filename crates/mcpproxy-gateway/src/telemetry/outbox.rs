//! The queue of one signal, and the task that sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use url::Url;

use super::otlp;
use super::settings::{Endpoint, OtlpSettings};
use crate::pace::Pace;
use crate::upstream::Client;

/// Items that wait to be sent. A call has about six spans.
const QUEUE_MAX: usize = 4096;
const BATCH_MAX: usize = 512;
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const ANSWER_MAX_BYTES: usize = 64 * 1024;
/// A gateway that stops waits this long for its last spans and messages.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// A kind of data that OTLP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Logs,
}

/// The queue of one signal. Clones share it.
#[derive(Clone)]
pub struct Outbox {
    queue: mpsc::Sender<Item>,
    dropped: Arc<AtomicU64>,
}

enum Item {
    Text(String),
    /// Answered when everything before it was sent.
    Flush(oneshot::Sender<()>),
}

/// The task that sends.
struct Courier {
    signal: Signal,
    endpoint: Endpoint,
    resource: Vec<(String, String)>,
    delay: Duration,
    timeout: Duration,
    dropped: Arc<AtomicU64>,
    /// Spaces out warnings about an endpoint that fails.
    pace: Pace,
}

impl Outbox {
    pub(super) fn start(signal: Signal, endpoint: Endpoint, settings: &OtlpSettings) -> Self {
        let (queue, items) = mpsc::channel(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let courier = Courier {
            signal,
            endpoint,
            resource: settings.resource.clone(),
            delay: settings.delay,
            timeout: settings.timeout,
            dropped: Arc::clone(&dropped),
            pace: Pace::default(),
        };
        tokio::spawn(courier.run(items));
        Self { queue, dropped }
    }

    /// Queues a record of the program's log. `severity` is the number of OTLP and its name.
    pub fn log(&self, severity: (u8, &str), message: &str, fields: &[(String, String)]) {
        self.send(otlp::log_record(severity, message, fields));
    }

    /// Queues an item, or drops it if the endpoint is too slow.
    pub(super) fn send(&self, item: String) {
        if self.queue.try_send(Item::Text(item)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        let flushed = async {
            if self.queue.send(Item::Flush(done)).await.is_ok() {
                let _sender_is_gone = is_done.await;
            }
        };
        let _too_late = tokio::time::timeout(FLUSH_MAX, flushed).await;
    }
}

impl Courier {
    async fn run(mut self, mut items: mpsc::Receiver<Item>) {
        while let Some(first) = items.recv().await {
            let (batch, flushed) = self.gather(first, &mut items).await;
            if !batch.is_empty()
                && let Err(reason) = self.deliver(&batch).await
            {
                self.dropped.fetch_add(u64::try_from(batch.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
                self.warn(&reason);
            }
            if let Some(flushed) = flushed {
                let _nobody_waits = flushed.send(());
            }
        }
    }

    /// Takes what comes within the delay, up to a full batch.
    async fn gather(
        &self,
        first: Item,
        items: &mut mpsc::Receiver<Item>,
    ) -> (Vec<String>, Option<oneshot::Sender<()>>) {
        let until = Instant::now() + self.delay;
        let (mut batch, mut next) = (Vec::new(), Some(first));
        while let Some(item) = next {
            match item {
                Item::Text(text) => batch.push(text),
                Item::Flush(done) => return (batch, Some(done)),
            }
            if batch.len() >= BATCH_MAX {
                break;
            }
            next = tokio::time::timeout_at(until, items.recv()).await.unwrap_or_default();
        }
        (batch, None)
    }

    async fn deliver(&self, batch: &[String]) -> Result<(), String> {
        let body = Bytes::from(otlp::request(self.signal, &self.resource, batch));
        let mut pause = FIRST_PAUSE;
        let mut tries = 1;
        loop {
            let sent = tokio::time::timeout(self.timeout, self.post(body.clone())).await;
            let reason = match sent {
                Ok(Ok(status)) if status.is_success() => return Ok(()),
                Ok(Ok(status)) if !may_pass(status) => return Err(format!("it answered {status}")),
                Ok(Ok(status)) => format!("it answered {status}"),
                Ok(Err(reason)) => reason,
                Err(_) => format!("no answer within {} ms", self.timeout.as_millis()),
            };
            if tries == TRIES {
                return Err(reason);
            }
            tokio::time::sleep(pause).await;
            (tries, pause) = (tries + 1, pause * 2);
        }
    }

    async fn post(&self, body: Bytes) -> Result<StatusCode, String> {
        let url: &Url = &self.endpoint.url;
        let client = Client::new(url).map_err(|error| error.to_string())?;
        let mut headers: HeaderMap = self.endpoint.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("mcpproxy/", env!("CARGO_PKG_VERSION"))));
        let answer = client.send(Method::POST, url, headers, body).await.map_err(|error| error.to_string())?;
        let status = answer.status;
        let _rest = answer.body(ANSWER_MAX_BYTES).await;
        Ok(status)
    }

    fn warn(&mut self, reason: &str) {
        let now = Instant::now();
        if self.pace.is_due(now) {
            self.pace.step(now);
            let (to, dropped) =
                (self.endpoint.url.origin().ascii_serialization(), self.dropped.load(Ordering::Relaxed));
            tracing::warn!(target: EXPORT_TARGET, to, reason, dropped, "could not export over OTLP");
        }
    }
}

/// The target of messages about the export itself, which must not be exported.
pub const EXPORT_TARGET: &str = "mcpproxy::otlp";

/// Returns true for answers that OTLP calls temporary.
fn may_pass(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}
