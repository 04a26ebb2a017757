//! Pages, single records and summaries of the log.

use std::time::Instant;

use http::{Method, StatusCode};
use mcpproxy_core::{RiskLevel, Variant, mask};
use mcpproxy_store::{Kind, NewRecord, PAYLOAD_MAX_BYTES, Payload, Status, WaitFor};
use serde_json::{Value, json};

use crate::rest::activity::JUST_NAMED;

use super::{Fixture, HOUR_MS, KEY, NOW_MS, code, refusal};

fn ids(page: &Value) -> Vec<&str> {
    page["activities"].as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_record_is_shown_whole() {
    let fixture = Fixture::new().await;
    let refused = fixture.note(refusal(2)).await;
    let call = NewRecord { kind: Kind::Call, code: None, message: None, ..refusal(1) };
    let called = fixture.call(call, "{\"ok\":\n1.10}").await;
    let mut expected = json!({
        "id": called.to_string(), "time": "2027-01-15T07:00:00.000Z", "type": "call", "status": "success",
        "agent": "cursor", "client": "Cursor 1.2", "server": "demo", "tool": "delete_user",
        "intent_type": "destructive", "risk": "high", "code": null, "message": null, "duration_ms": 1.5,
        "metadata": {
            "tool_variant": "call_tool_destructive", "intent": {"operation_type": "destructive"}, "attempts": 2
        },
        "chain": 0, "seq": 2, "end_seq": 3,
        "arguments_bytes": 11, "arguments_sha256": "51fedabde565f4715b5e62d574d2a73090654b62259f8d9211cfc5ee99e5612d",
        "result_bytes": 12, "result_sha256": "4fe4a6f0daf8f44ffd0282615434e65377a49bc1fea9ed6fb2a549a152d5988c",
    });
    let page = fixture.get("/api/v1/activity").await;
    assert_eq!(ids(&page), [called.to_string(), refused.to_string()]);
    assert_eq!((&page["next"], &page["searched_to"]), (&Value::Null, &Value::Null));
    let shown = &page["activities"][0];
    assert_eq!(*shown, expected);

    for (name, value) in [
        ("arguments", json!({"id": "1"})),
        ("result", json!({"ok": 1.10})),
        ("arguments_cut", json!(false)),
        ("result_cut", json!(false)),
    ] {
        expected[name] = value;
    }
    assert_eq!(fixture.get(&format!("/api/v1/activity/{called}")).await, expected);
    let beginning: String = called.to_string().to_lowercase().chars().take(20).collect();
    assert_eq!(fixture.get(&format!("/api/v1/activity/{beginning}")).await["id"], expected["id"]);
    let text =
        super::text(fixture.send(Method::GET, &format!("/api/v1/activity/{called}"), &[("x-api-key", KEY)]).await);
    assert!(text.await.contains("\"result\":{\"ok\":\n1.10}"), "payloads keep their own bytes");
    fixture.stop().await;
}

#[tokio::test]
async fn what_was_cut_is_a_text() {
    let fixture = Fixture::new().await;
    let long = "1".repeat(PAYLOAD_MAX_BYTES + 10);
    let args = Some(Payload::of(mask(&long, &[]), long.len()));
    let id = fixture.note(NewRecord { args, ..refusal(1) }).await;
    let record = fixture.get(&format!("/api/v1/activity/{id}")).await;
    assert_eq!(record["arguments"].as_str().map(str::len), Some(PAYLOAD_MAX_BYTES));
    assert_eq!((&record["arguments_cut"], &record["arguments_bytes"]), (&json!(true), &json!(long.len())));
    let broken = "{\"a\": ";
    let args = Some(Payload::of(mask(broken, &[]), broken.len()));
    let id = fixture.note(NewRecord { args, ..refusal(0) }).await;
    let record = fixture.get(&format!("/api/v1/activity/{id}")).await;
    assert_eq!((&record["arguments"], &record["arguments_cut"]), (&json!(broken), &json!(false)));
    assert_eq!((&record["result"], &record["result_bytes"]), (&Value::Null, &Value::Null));
    fixture.stop().await;
}

#[tokio::test]
async fn a_record_is_found_as_soon_as_it_is_named() {
    let fixture = Fixture::new().await;
    let mut found = 0;
    for _ in 0..20 {
        let id = fixture.ledger.append(refusal(0), WaitFor::Queue).await.unwrap();
        let asked = Instant::now();
        let (status, _) = fixture.ask(Method::GET, &format!("/api/v1/activity/{id}"), &[("x-api-key", KEY)]).await;
        assert!(status == StatusCode::OK || asked.elapsed() >= JUST_NAMED, "it is waited for");
        found += usize::from(status == StatusCode::OK);
    }
    assert!(found > 0);
    fixture.stop().await;
}

#[tokio::test]
async fn a_record_that_cannot_be_named() {
    let fixture = Fixture::new().await;
    let check = async |id: &str, expected: (StatusCode, &str, &str)| {
        let (status, answer) = fixture.ask(Method::GET, &format!("/api/v1/activity/{id}"), &[("x-api-key", KEY)]).await;
        let message = answer.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
        assert_eq!((status, code(&answer).unwrap_or_default(), message), expected, "{id}");
    };
    let none = (StatusCode::NOT_FOUND, "record_not_found", "no such activity record");
    fixture.note(refusal(2)).await;
    fixture.note(refusal(1)).await;
    for id in ["nope", "01ZZZZZZZZZZZZZZZZZZZZZZZZ", "%27%20OR%201=1--", "%25", "01HF_", "%C3%A9", "..%2f..", "7Z"] {
        check(id, none).await;
    }
    check(&"0".repeat(4000), none).await;
    let ambiguous = "several records have ids that start with `01`; use more characters of the id";
    check("01", (StatusCode::BAD_REQUEST, "ambiguous_id", ambiguous)).await;
    fixture.stop().await;
}

#[tokio::test]
async fn every_filter_filters() {
    let fixture = Fixture::new().await;
    let plain = refusal(0);
    let old = fixture.note(NewRecord { time_ms: NOW_MS - 48 * HOUR_MS, ..plain.clone() }).await;
    let read = fixture.note(NewRecord { intent_type: Some(Variant::Read), ..refusal(9) }).await;
    let event = fixture.note(NewRecord { kind: Kind::Server, ..refusal(8) }).await;
    let failed = fixture.note(NewRecord { status: Status::Error, ..refusal(7) }).await;
    let other = fixture.note(NewRecord { server: Some("fx' OR 1=1--".into()), ..refusal(6) }).await;
    let echo = fixture.note(NewRecord { tool: Some("echo".into()), ..refusal(5) }).await;
    let claude = fixture.note(NewRecord { agent: Some("claude".into()), ..refusal(4) }).await;
    let low = fixture.note(NewRecord { risk: Some(RiskLevel::Low), ..refusal(3) }).await;
    let worded = fixture.note(NewRecord { message: Some("Because 100% SURE".into()), ..refusal(2) }).await;
    let check = async |query: &str, expected: &[mcpproxy_store::RecordId]| {
        let page = fixture.get(&format!("/api/v1/activity?{query}")).await;
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(ids(&page), expected, "{query}");
    };
    check("", &[worded, low, claude, echo, other, failed, event, read, old]).await;
    check("intent_type=read", &[read]).await;
    check("intent_type=write", &[]).await;
    check("type=server", &[event]).await;
    check("status=error", &[failed]).await;
    check("server=fx'%20OR%201=1--", &[other]).await;
    check("server=fx", &[]).await;
    check("server=x'%20OR%201=1--", &[]).await;
    check("tool=echo", &[echo]).await;
    check("tool=demo:echo", &[echo]).await;
    check("tool=other:echo", &[]).await;
    check("server=demo&tool=demo:echo", &[echo]).await;
    check("agent=claude", &[claude]).await;
    check("risk=low", &[low]).await;
    check("q=100%25+sure", &[worded]).await;
    check("q=100_", &[]).await;
    check("until=24h", &[old]).await;
    check("to=24h", &[old]).await;
    check("since=24h&tool=delete_user&agent=cursor&risk=high&q=because", &[worded]).await;
    check("since=2027-01-15T04:00:00Z&until=2027-01-15T05:00:00Z", &[low, claude]).await;
    check("since=2027-01-15T06:00:00%2B02:00&until=2027-01-15T06:00:00+02:00", &[claude]).await;
    check("from=2h30m", &[worded]).await;
    check("since=2030-01-01T00:00:00Z", &[]).await;
    fixture.stop().await;
}

#[tokio::test]
async fn pages_lead_to_the_end() {
    let fixture = Fixture::new().await;
    let mut written = Vec::new();
    for _ in 0..23 {
        written.push(fixture.note(refusal(1)).await.to_string());
    }
    written.reverse();
    for limit in [1, 5, 22, 23, 24, 500] {
        let mut seen = Vec::new();
        let mut query = format!("limit={limit}");
        for round in 0.. {
            assert!(round < 30, "an end is reached");
            let page = fixture.get(&format!("/api/v1/activity?{query}")).await;
            assert!(ids(&page).len() <= limit);
            seen.extend(ids(&page).into_iter().map(str::to_owned));
            let Some(next) = page["next"].as_str() else { break };
            query = format!("limit={limit}&cursor={next}");
        }
        assert_eq!(seen, written, "{limit}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_summary_counts() {
    let fixture = Fixture::new().await;
    fixture.note(refusal(30)).await;
    fixture.note(refusal(2)).await;
    let call = NewRecord { kind: Kind::Call, tool: Some("echo".into()), risk: None, ..refusal(1) };
    fixture.call(NewRecord { intent_type: Some(Variant::Read), ..call }, "{}").await;
    let all = fixture.get("/api/v1/activity/summary").await;
    assert_eq!((&all["total"], &all["from"]), (&json!(3), &json!("2027-01-14T02:00:00.000Z")));
    let summary = fixture.get("/api/v1/activity/summary?since=24h&until=0.5h").await;
    let p50 = summary["duration"]["p50_ms"].as_f64().unwrap();
    assert!((1.3..1.7).contains(&p50), "{summary}");
    let count = |name: &str, refused: u64, took: Value| json!({"name": name, "count": 1, "errors": 0, "refused": refused, "dry_runs": 0, "replayed": 0, "p50_ms": took, "p95_ms": took});
    let took = json!(p50);
    let expected = json!({
        "from": "2027-01-14T08:00:00.000Z", "to": "2027-01-15T08:00:00.000Z", "total": 2,
        "duration": {"p50_ms": took, "p95_ms": took},
        "by_type": [{"name": "call", "count": 1}, {"name": "refusal", "count": 1}],
        "by_status": [count("refused", 1, Value::Null), count("success", 0, took.clone())],
        "by_intent": [count("destructive", 1, Value::Null), count("read", 0, took.clone())],
        "by_risk": [count("high", 1, Value::Null)],
        "by_server": [{"name": "demo", "count": 2, "errors": 0, "refused": 1, "dry_runs": 0, "replayed": 0, "p50_ms": took, "p95_ms": took}],
        "by_tool": [count("demo:delete_user", 1, Value::Null), count("demo:echo", 0, took.clone())],
    });
    assert_eq!(summary, expected);
    fixture.stop().await;
}
