//! Invalid queries: every invalid parameter is rejected with a hint, and none is ignored.

use http::{Method, StatusCode};
use serde_json::Value;

use super::{Fixture, KEY};

const TIME_HINT: &str = "write a time such as 2026-01-31T10:00:00Z, or an age such as 24h or 7d";
const SPELLING_HINT: &str = "use percent-encoded UTF-8 without NUL bytes, and `%25` for `%`";

#[tokio::test]
async fn bad_values() {
    let fixture = Fixture::new().await;
    let check = async |query: &str, message: &str, hint: &str| {
        let path = format!("/api/v1/{query}");
        let (status, answer) = fixture.ask(Method::GET, &path, &[("x-api-key", KEY)]).await;
        let said = |name: &str| answer.pointer(&format!("/error/{name}")).and_then(Value::as_str).unwrap_or_default();
        assert_eq!(
            (status, said("code"), said("message"), said("hint")),
            (StatusCode::BAD_REQUEST, "bad_query", message, hint),
            "{query}"
        );
    };
    let intents = "intent_type must be read, write or destructive";
    check("activity?intent_type=delete", intents, "leave `intent_type` out for all").await;
    check("activity?intent_type=Read", intents, "did you mean `read`?").await;
    check("activity?intent_type=destuctive", intents, "did you mean `destructive`?").await;
    check("events?intent_type=delete", intents, "leave `intent_type` out for all").await;
    check("activity/export?intent_type=delete", intents, "leave `intent_type` out for all").await;
    let kinds = "type must be call, refusal, approval, server, settings or auth";
    check("activity?type=tool_call", kinds, "leave `type` out for all").await;
    let statuses = "status must be started, success, error, refused, cancelled or interrupted";
    check("activity?status=ok", statuses, "leave `status` out for all").await;
    let risks = "risk must be low, medium, high, critical or forbidden";
    check("activity?risk=hig", risks, "did you mean `high`?").await;
    for limit in ["-1", "0", "501", "1000000", "1e2", "%2B5", "05", "5.0", "٣", "99999999999999999999999"] {
        check(&format!("activity?limit={limit}"), "limit must be a number from 1 to 500", "the default is 50").await;
    }
    let cursor_hint = "copy `next` of an answer unchanged, or leave it out for the newest records";
    check("activity?cursor=x", "cursor: not a cursor of an earlier page", cursor_hint).await;
    check("activity?cursor=%%%", "`cursor` is not encoded correctly", SPELLING_HINT).await;
    check("activity?server=%ff", "`server` is not encoded correctly", SPELLING_HINT).await;
    check("activity?q=a%00b", "`q` is not encoded correctly", SPELLING_HINT).await;
    check("activity?since=2026-13-45", "since: not an RFC 3339 time", TIME_HINT).await;
    check("activity?from=2026-13-45", "from: not an RFC 3339 time", TIME_HINT).await;
    check("activity?until=yesterday", "until: not an RFC 3339 time", TIME_HINT).await;
    check("activity/summary?to=1", "to: not an RFC 3339 time", TIME_HINT).await;
    check("activity?since=1h&until=2h", "`since` is later than `until`", "swap the two").await;
    check("activity?since=1h&from=2h", "`since` and `from` mean the same", "give `since` alone").await;
    check("activity/summary?until=1h&to=2h", "`until` and `to` mean the same", "give `until` alone").await;
    let servers = "`server` and `tool` name two different servers";
    check("activity?server=a&tool=b:c", servers, "give the tool without its server, or leave `server` out").await;
    check("activity?limit=5&limit=5", "`limit` is given more than once", "give each parameter once").await;
    check("activity?server=", "`server` is empty", "leave `server` out, or give it a value").await;
    check("activity?server", "`server` is empty", "leave `server` out, or give it a value").await;
    let long = format!("activity?q={}", "x".repeat(257));
    check(&long, "q must have at most 256 characters", "`q` finds parts of a text, and no name is longer").await;
    check("activity/export?format=xml", "format must be jsonl or csv", "leave `format` out for all").await;
    check("activity/export?payloads=yes", "payloads must be true or false", "leave it out for the default").await;
    let place_hint = "copy the `id` of an event unchanged, or leave it out to start now";
    check("events?after=x", "after: not the id of an event", place_hint).await;
    check("servers/demo/logs?lines=0", "lines must be a number from 1 to 10000", "the default is 100").await;
    check("tools/search?q=x&limit=51", "limit must be a number from 1 to 50", "the default is 10").await;
    check("tools/search?q=x&explain=yes", "explain must be true or false", "leave it out for the default").await;
    check("tools/search?q=", "`q` is empty", "give it a value").await;
    let long = format!("tools/search?q={}", "x".repeat(4097));
    let hint = "a few sentences are enough";
    check(&long, "q must have at most 4096 characters", hint).await;
    check("tools/search", "`q` is missing", "A description of the tool.").await;
    fixture.stop().await;
}

#[tokio::test]
async fn unknown_parameters() {
    let fixture = Fixture::new().await;
    let check = async |query: &str, message: &str, hint: &str| {
        let path = format!("/api/v1/{query}");
        let (status, answer) = fixture.ask(Method::GET, &path, &[("x-api-key", KEY)]).await;
        let said = |name: &str| answer.pointer(&format!("/error/{name}")).and_then(Value::as_str).unwrap_or_default();
        assert_eq!((status, said("message"), said("hint")), (StatusCode::BAD_REQUEST, message, hint), "{query}");
    };
    check("activity?intent=read", "unknown parameter `intent`", ALL).await;
    check("activity?intenttype=read", "unknown parameter `intenttype`", "did you mean `intent_type`?").await;
    check("activity?Limit=5", "unknown parameter `Limit`", "did you mean `limit`?").await;
    check("activity?%1b[2J=5", "unknown parameter `\\u{1b}[2J`", ALL).await;
    check("activity/01HF?limit=5", "unknown parameter `limit`", "this path takes no parameters").await;
    check("activity/summary?limit=5", "unknown parameter `limit`", "this path takes since, until, from, to").await;
    check("status?verbose=1", "unknown parameter `verbose`", "this path takes no parameters").await;
    check("servers?x", "unknown parameter `x`", "this path takes no parameters").await;
    check("contracts?server=demo", "unknown parameter `server`", "this path takes no parameters").await;
    check("contracts/lint?strict", "unknown parameter `strict`", "this path takes no parameters").await;
    check("contracts/demo/echo?x=1", "unknown parameter `x`", "this path takes no parameters").await;
    check("servers/demo/contracts/draft?x=1", "unknown parameter `x`", "this path takes no parameters").await;
    check("openapi.json?x=1", "unknown parameter `x`", "this path takes no parameters").await;
    let events = "this path takes after, intent_type, type, status, server, tool, agent, risk, sensitivity, category, code, dry_run, replayed, q";
    check("events?since=1h", "unknown parameter `since`", events).await;
    fixture.stop().await;
}

const ALL: &str = "this path takes intent_type, type, status, server, tool, agent, risk, sensitivity, category, code, dry_run, replayed, q, since, until, from, to, limit, cursor";
