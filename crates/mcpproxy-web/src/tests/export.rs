//! Exports: they contain the same records as the list, and an incomplete export is recognizable.

use http::Method;
use http_body_util::BodyExt as _;
use mcpproxy_core::mask;
use mcpproxy_store::{Kind, NewRecord, Payload, WaitFor};
use serde_json::Value;

use super::{Fixture, KEY, PATIENCE, refusal, text};

/// More than one page.
const MANY: usize = 1_100;

impl Fixture {
    async fn write_many(&self) {
        for n in 0..MANY {
            let record = NewRecord { message: Some(format!("number {n}")), ..refusal(1) };
            // The queue of the ledger is limited, so wait for the disk from time to time.
            if n % 100 == 0 || n + 1 == MANY {
                self.note(record).await;
            } else {
                self.ledger.append(record, WaitFor::Queue).await.unwrap();
            }
        }
    }

    async fn export(&self, query: &str) -> (Vec<String>, String) {
        let path = format!("/api/v1/activity/export{query}");
        let response = self.send(Method::GET, &path, &[("x-api-key", KEY)]).await;
        let headers = ["content-type", "content-disposition", "cache-control"];
        let headers = headers.map(|name| response.headers()[name].to_str().unwrap().to_owned());
        (headers.to_vec(), text(response).await)
    }
}

#[tokio::test]
async fn an_export_equals_the_list() {
    let fixture = Fixture::new().await;
    fixture.write_many().await;
    let mut listed: Vec<Value> = Vec::new();
    let mut query = "limit=500".to_owned();
    for _ in 0..10 {
        let page = fixture.get(&format!("/api/v1/activity?{query}")).await;
        listed.extend(page["activities"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { break };
        query = format!("limit=500&cursor={next}");
    }
    assert_eq!(listed.len(), MANY);
    let (headers, lines) = fixture.export("").await;
    assert_eq!(headers, ["application/x-ndjson", "attachment; filename=\"activity.jsonl\"", "no-store"]);
    let exported: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(exported == listed && lines.ends_with('\n'));
    let (_, none) = fixture.export("?intent_type=read").await;
    assert_eq!(none, "");
    let (_, one) = fixture.export("?q=NUMBER+17&format=jsonl&payloads=false").await;
    assert_eq!(one.lines().count(), 11, "17 and 170 to 179");

    let (headers, table) = fixture.export("?format=csv").await;
    assert_eq!(headers, ["text/csv; charset=utf-8", "attachment; filename=\"activity.csv\"", "no-store"]);
    let mut rows = table.split_terminator("\r\n");
    let columns: Vec<&str> = rows.next().unwrap().split(',').collect();
    let members: Vec<&str> = listed[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(columns, members);
    let ids: Vec<&str> = rows.map(|row| row.split(',').next().unwrap()).collect();
    assert_eq!(ids, listed.iter().map(|record| record["id"].as_str().unwrap()).collect::<Vec<_>>());
    fixture.stop().await;
}

#[tokio::test]
async fn payloads_are_exported_if_asked_for() {
    let fixture = Fixture::new().await;
    let mut written = Vec::new();
    for n in 0..70 {
        let args = format!("{{\"n\":\n{n}}}");
        let args = Some(Payload::of(mask(&args, &[]), args.len()));
        written.push(fixture.call(NewRecord { kind: Kind::Call, args, ..refusal(1) }, "{\"done\":\r\n true}").await);
    }
    let none = fixture.note(NewRecord { args: None, ..refusal(1) }).await;
    let (_, lines) = fixture.export("?payloads=true").await;
    let exported: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(exported.len(), 71);
    for (line, id) in exported.iter().zip(written.iter().chain([&none]).rev()) {
        assert_eq!(*line, fixture.get(&format!("/api/v1/activity/{id}")).await);
    }
    let (_, table) = fixture.export("?payloads=true&format=csv").await;
    let head = table.lines().next().unwrap();
    let members: Vec<&str> = exported[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(head.split(',').collect::<Vec<_>>(), members);
    assert!(table.contains("\"{\"\"n\"\":\\n69}\",\"{\"\"done\"\":\\r\\n true}\",false,false\r\n"), "{table}");
    fixture.stop().await;
}

#[tokio::test]
async fn an_export_that_fails_is_not_taken_for_whole() {
    for stop in ["the log breaks", "the gateway stops"] {
        let fixture = Fixture::new().await;
        fixture.write_many().await;
        let response = fixture.send(Method::GET, "/api/v1/activity/export", &[("x-api-key", KEY)]).await;
        let mut body = response.into_body();
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap();
        }
        match stop {
            "the log breaks" => fixture.store.close().await,
            _ => fixture.stopping.cancel(),
        }
        let rest = tokio::time::timeout(PATIENCE, body.collect()).await.unwrap();
        assert!(rest.is_err(), "{stop}");
        fixture.stop().await;
    }
}
