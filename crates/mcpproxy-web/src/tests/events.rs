//! The event stream: every record once and in order, even for clients that reconnect.

use axum::body::{Body, BodyDataStream};
use futures::StreamExt as _;
use http::{Method, Response, StatusCode};
use mcpproxy_core::Variant;
use mcpproxy_store::{Kind, Ledger, NewRecord, Outcome, Status, WaitFor};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Fixture, KEY, PATIENCE, code, ledger_options, refusal};

/// Reads a stream as a browser does.
struct Listener {
    body: BodyDataStream,
    unread: String,
    last_id: String,
}

impl Listener {
    async fn new(fixture: &Fixture, query: &str, last_id: Option<&str>) -> Self {
        let mut headers = vec![("x-api-key", KEY)];
        headers.extend(last_id.map(|id| ("last-event-id", id)));
        let response = fixture.send(Method::GET, &format!("/api/v1/events{query}"), &headers).await;
        Self::of(response)
    }

    fn of(response: Response<Body>) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), unread: String::new(), last_id: String::new() }
    }

    /// Reads the next block of lines, which may be a comment. Returns `None` at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.unread.split_once("\n\n") {
                let block = block.to_owned();
                self.unread = rest.to_owned();
                if let Some(id) = block.lines().find_map(|line| line.strip_prefix("id: ")) {
                    self.last_id = id.to_owned();
                }
                return Some(block);
            }
            let chunk = timeout(PATIENCE, self.body.next()).await.expect("something is said in time")?;
            self.unread.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
    }

    async fn record(&mut self) -> Value {
        loop {
            let block = self.block().await.expect("the stream goes on");
            let data = block.lines().find_map(|line| line.strip_prefix("data: "));
            if let Some(data) = data {
                assert!(block.lines().any(|line| line == "event: activity"), "{block}");
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn what_is_written_is_told() {
    let fixture = Fixture::new().await;
    let before = fixture.note(refusal(3)).await;
    let mut listener = Listener::new(&fixture, "", None).await;
    let mut reads = Listener::new(&fixture, "?intent_type=read&type=call", None).await;
    assert_eq!(listener.block().await.unwrap().lines().next(), Some("retry: 2000"));
    let after = fixture.note(refusal(2)).await;
    let told = listener.record().await;
    assert_eq!(told["id"], after.to_string());
    assert_eq!(told, fixture.get("/api/v1/activity?limit=1").await["activities"][0]);

    let read = NewRecord { kind: Kind::Call, intent_type: Some(Variant::Read), ..refusal(1) };
    let open = fixture.open(read).await;
    let id = json!(open.id().to_string());
    for listener in [&mut listener, &mut reads] {
        let began = listener.record().await;
        assert_eq!((&began["id"], &began["status"]), (&id, &json!("started")));
    }
    fixture.close(open, Outcome::bare(Status::Success)).await;
    for listener in [&mut listener, &mut reads] {
        let ended = listener.record().await;
        assert_eq!((&ended["id"], &ended["status"]), (&id, &json!("success")));
    }
    let mut all = Listener::new(&fixture, "?after=f", None).await;
    assert_eq!(all.record().await["id"], before.to_string());
    fixture.stop().await;
}

#[tokio::test]
async fn a_resumed_stream_misses_and_repeats_nothing() {
    const RECORDS: usize = 400;
    let fixture = Fixture::new().await;
    let mut listener = Listener::new(&fixture, "", None).await;
    listener.block().await.unwrap();
    let ledger = fixture.ledger.clone();
    let writing = tokio::spawn(async move {
        let mut written = Vec::new();
        let mut commits = ledger.committed();
        for n in 0..RECORDS {
            written.push(ledger.append(refusal(1), WaitFor::Queue).await.unwrap().to_string());
            // Write some records one at a time, and some in batches.
            if n % 7 == 0 {
                commits.changed().await.unwrap();
            }
        }
        written
    });
    let mut seen = Vec::new();
    while seen.len() < RECORDS {
        seen.push(listener.record().await["id"].as_str().unwrap().to_owned());
        // Break the connection from time to time, in the middle of a message.
        if seen.len() % 9 == 0 {
            let last_id = listener.last_id.clone();
            listener = Listener::new(&fixture, "?after=f", Some(&last_id)).await;
            listener.last_id = last_id;
        }
    }
    assert_eq!(seen, writing.await.unwrap());
    fixture.stop().await;
}

#[tokio::test]
async fn what_another_gateway_writes_is_told_too() {
    let fixture = Fixture::new().await;
    let mut listener = Listener::new(&fixture, "", None).await;
    listener.block().await.unwrap();
    let other = Ledger::start(&fixture.store, ledger_options(8)).await.unwrap();
    let theirs = other.append(refusal(1), WaitFor::Queue).await.unwrap();
    assert_eq!(listener.record().await["id"], theirs.to_string());
    let ours = fixture.note(refusal(1)).await;
    assert_eq!(listener.record().await["id"], ours.to_string());
    let mut back = Listener::new(&fixture, "?after=f", None).await;
    let mut both = [back.record().await["id"].clone(), back.record().await["id"].clone()];
    both.sort_by_key(ToString::to_string);
    let mut expected = [json!(theirs.to_string()), json!(ours.to_string())];
    expected.sort_by_key(ToString::to_string);
    assert_eq!(both, expected);
    other.finish().await.unwrap();
    fixture.stop().await;
}

#[tokio::test]
async fn a_stream_ends_when_the_gateway_stops() {
    let fixture = Fixture::new().await;
    let mut listener = Listener::new(&fixture, "", None).await;
    listener.block().await.unwrap();
    fixture.stopping.cancel();
    assert_eq!(listener.block().await, None);
    let mut late = Listener::new(&fixture, "", None).await;
    late.block().await.unwrap();
    assert_eq!(late.block().await, None);
    fixture.stop().await;
}

#[tokio::test]
async fn a_place_that_is_none() {
    let fixture = Fixture::new().await;
    for id in ["x", "f1", "f1-1 OR 1"] {
        let headers = [("x-api-key", KEY), ("last-event-id", id)];
        let (status, answer) = fixture.ask(Method::GET, "/api/v1/events", &headers).await;
        assert_eq!((status, code(&answer)), (StatusCode::BAD_REQUEST, Some("bad_query")), "{id}");
        assert_eq!(answer["error"]["message"], "Last-Event-ID: not the id of an event");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_log_that_breaks_is_told_and_the_stream_stays() {
    let fixture = Fixture::new().await;
    let mut listener = Listener::new(&fixture, "", None).await;
    listener.block().await.unwrap();
    fixture.store.close().await;
    assert_eq!(listener.block().await.as_deref(), Some(": the activity log cannot be read right now"));
    fixture.stopping.cancel();
    assert_eq!(listener.block().await, None);
    fixture.stop().await;
}
