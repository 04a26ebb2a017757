//! Invalid messages over HTTP: each gets its status, code and message, and none becomes a call.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::Value;

use crate::agent::with_meta;
use crate::rig::{Answer, Rig, post, settings};

const ROWS: &str = include_str!("../data/framing.jsonl");
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

async fn check(rig: &Rig, row: &str, request: http::Request<Body>, expected: &str) -> Answer {
    let answer = rig.send(request).await;
    assert_eq!(format!("{} {}", answer.status.as_u16(), answer.body), expected, "{row}");
    answer
}

#[tokio::test]
async fn text_that_is_no_message() {
    let rig = Rig::start(settings([])).await;
    let token = rig.token("a").await;
    for row in ROWS.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let (id, input, expected) = (&row["id"], row["input"].as_str().unwrap(), row["expected"].as_str().unwrap());
        for (era, headers) in [("older", vec![]), ("newer", vec![("mcp-protocol-version", "2026-07-28")])] {
            check(&rig, &format!("{id} {era}"), post("/mcp", &token, &headers, input.to_owned()), expected).await;
        }
    }
    let mut not_utf8 = LIST.as_bytes().to_vec();
    not_utf8[12] = 0xFF;
    let expected = r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: invalid UTF-8 at line 1, column 13"}}"#;
    check(&rig, "B016", post("/mcp", &token, &[], not_utf8), expected).await;
    assert_eq!(rig.records().await, Vec::<String>::new(), "none of this is a call");
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let rig = Rig::start(settings([])).await;
    let token = rig.token("a").await;
    let too_large = "413 request body exceeds 4194304 bytes\n";
    let padded = |bytes: usize| format!("{LIST}{}", " ".repeat(bytes - LIST.len()));
    let at_limit = rig.send(post("/mcp", &token, &[], padded(BODY_MAX_BYTES))).await;
    assert_eq!(at_limit.status, StatusCode::OK);
    let answer = check(&rig, "B014", post("/mcp", &token, &[], padded(BODY_MAX_BYTES + 1)), too_large).await;
    assert_eq!(answer.headers["connection"], "close");
    check(&rig, "announced", post("/mcp", &token, &[("content-length", "4194305")], Body::empty()), too_large).await;

    // The gateway reads an endless body only up to the limit.
    let (read, counter) = (std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)), 64 * 1024);
    let counting = std::sync::Arc::clone(&read);
    let endless = futures::stream::repeat_with(move || {
        counting.fetch_add(counter, std::sync::atomic::Ordering::Relaxed);
        Ok::<_, std::io::Error>(vec![b' '; counter])
    });
    check(&rig, "B015", post("/mcp", &token, &[], Body::from_stream(endless)), too_large).await;
    assert!(read.load(std::sync::atomic::Ordering::Relaxed) < 5 * 1024 * 1024);
}

#[tokio::test]
async fn methods_and_parameters_that_do_not_fit() {
    let rig = Rig::start(settings([])).await;
    let token = rig.token("a").await;
    let check = async |row: &str, method: &str, params: &str, older: &str, newer: &str| {
        let text = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let error = |expected: &str| {
            let (status, rest) = expected.split_once(' ').unwrap();
            let (code, message) = rest.split_once(' ').unwrap();
            format!(r#"{status} {{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"{message}"}}}}"#)
        };
        self::check(&rig, row, post("/mcp", &token, &[], text(params)), &error(older)).await;
        if params.starts_with('{') {
            let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
            let request = post("/mcp", &token, &headers, text(&with_meta(params, "{}")));
            self::check(&rig, row, request, &error(newer)).await;
        }
    };
    let no_method = "404 -32601 Method not found: tools/destroy";
    check("B021", "tools/destroy", "{}", no_method, no_method).await;
    check("B022", "tools/call", "[1,2]", "400 -32602 params must be an object", "").await;
    let no_name = "-32602 params.name is required";
    check("B023", "tools/call", r#"{"arguments":{}}"#, &format!("400 {no_name}"), &format!("200 {no_name}")).await;
    let no_page = "-32602 params.cursor is not a cursor of this gateway";
    check("cursor", "tools/list", r#"{"cursor":"x"}"#, &format!("400 {no_page}"), &format!("200 {no_page}")).await;
    let no_discover = "404 -32601 Method not found: prompts/listen";
    check("no such method", "prompts/listen", "{}", no_discover, no_discover).await;
}

#[tokio::test]
async fn headers_that_do_not_fit() {
    let rig = Rig::start(settings([])).await;
    let token = rig.token("a").await;
    let modern = |params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}}"#, with_meta(params, "{}"))
    };
    let check = async |row: &str, headers: &[(&str, &str)], body: &str, expected: &str| {
        check(&rig, row, post("/mcp", &token, headers, body.to_owned()), expected).await;
    };
    check("B026", &[("content-type", "text/plain")], LIST, "415 Content-Type must be application/json\n").await;
    let not_acceptable = "406 Accept must name application/json and text/event-stream\n";
    check("B027", &[("accept", "text/html")], LIST, not_acceptable).await;
    check("B027", &[("accept", "application/json")], LIST, not_acceptable).await;
    check("B027", &[("accept", "")], LIST, not_acceptable).await;
    let unsupported = r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"1999-01-01"}}}"#;
    check("B029", &[("mcp-protocol-version", "1999-01-01")], LIST, unsupported).await;
    let error = |code: i64, message: &str| {
        format!(r#"400 {{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":{}}}}}"#, Value::from(message))
    };
    let version = ("mcp-protocol-version", "2026-07-28");
    let missing = error(-32602, r#"params._meta["io.modelcontextprotocol/protocolVersion"] is required"#);
    check("B033", &[version, ("mcp-method", "tools/list")], LIST, &missing).await;
    let only_version = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let missing = error(-32602, r#"params._meta["io.modelcontextprotocol/clientCapabilities"] is required"#);
    check("no capabilities", &[version, ("mcp-method", "tools/list")], only_version, &missing).await;
    let missing = error(-32020, "missing required MCP-Protocol-Version header");
    check("no version header", &[], &modern("{}"), &missing).await;
    let mismatch =
        error(-32020, r#"MCP-Protocol-Version header does not match _meta["io.modelcontextprotocol/protocolVersion"]"#);
    check("two versions", &[("mcp-protocol-version", "2025-11-25")], &modern("{}"), &mismatch).await;
    check("no method header", &[version], &modern("{}"), &error(-32020, "missing required Mcp-Method header")).await;
    let mismatch = error(-32020, "Mcp-Method header does not match body method `tools/list`");
    check("two methods", &[version, ("mcp-method", "tools/call")], &modern("{}"), &mismatch).await;
}

#[tokio::test]
async fn other_verbs_and_no_token() {
    let rig = Rig::start(settings([])).await;
    let token = rig.token("a").await;
    for (row, version) in [("B028", "2026-07-28"), ("no session", "2025-11-25")] {
        for method in [Method::GET, Method::DELETE, Method::PUT] {
            let mut request = post("/mcp", &token, &[("mcp-protocol-version", version)], Body::empty());
            *request.method_mut() = method;
            let answer = check(&rig, row, request, "405 this endpoint takes POST\n").await;
            assert_eq!(answer.headers["allow"], "POST");
        }
    }
    let unknown = "401 this token is unknown or was revoked; create one with `mcpproxy token create NAME`\n";
    for path in ["/mcp", "/mcp/direct", "/mcp/s/fx"] {
        let answer = check(&rig, path, post(path, "mcp_00", &[], LIST), unknown).await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    let none = "401 send `Authorization: Bearer TOKEN`; create a token with `mcpproxy token create NAME`\n";
    check(&rig, "another scheme", post("/mcp", &token, &[("authorization", "Basic eA==")], LIST), none).await;
    let records = rig.all_records().await;
    assert!(records.iter().all(|record| crate::rig::line(record).starts_with("auth refused - -:- - unauthorized: ")));
    assert!((1..=2).contains(&records.len()), "one a second: {}", records.len());
}
