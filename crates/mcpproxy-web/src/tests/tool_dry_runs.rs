//! Dry runs on the page of a tool, at a server that takes part: presence, records, results and hostile text.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::settings::{self, Unresolved};
use mcpproxy_core::trust::{Definition, DefinitionKind};
use mcpproxy_gateway::Files;
use serde_json::{Value, json};

use super::people::{Person, has, post};
use super::{Fixture, PATIENCE, text};
use crate::auth::password::Passwords;

const PATH: &str = "/ui/tools/fx/send/dry-run";
const CONTRACTS: &str = "\
- tool: fx:send
  riskLevel: medium
  sensitive: [/pin]
  dryRun: { mode: required, parameter: dryRun }
- tool: fx:plain
  riskLevel: critical
  sideEffects: [A mail leaves.]
- tool: fx:wipe
  riskLevel: forbidden
";
const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\u{202E}\u{1b}[2J";

/// The arguments of every `tools/call` that the server got.
#[derive(Clone, Default)]
struct Sent {
    arguments: Arc<Mutex<Vec<Value>>>,
    calls: Arc<AtomicUsize>,
}

fn tools() -> Vec<Value> {
    let schema = json!({"type": "object", "properties": {
        "to": {"type": "string"}, "pin": {"type": "string"}, "dryRun": {"type": "boolean"},
    }});
    let hints = json!({"readOnlyHint": false, "destructiveHint": false});
    let tool = |name: &str| {
        let (description, schema, hints) = ("Sends mail.", schema.clone(), hints.clone());
        json!({"name": name, "description": description, "inputSchema": schema, "annotations": hints})
    };
    ["send", "plain", "wipe"].map(tool).into()
}

async fn answer(State(sent): State<Sent>, Json(request): Json<Value>) -> Response {
    let result = match request["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "fx", "version": "1"}}),
        Some("tools/list") => json!({"tools": tools()}),
        Some("tools/call") => {
            let arguments = request["params"]["arguments"].clone();
            sent.arguments.lock().unwrap().push(arguments.clone());
            sent.calls.fetch_add(1, Ordering::Relaxed);
            match arguments["to"].as_str() {
                Some("fail") => json!({"content": [{"type": "text", "text": HOSTILE}], "isError": true}),
                Some("hostile") => json!({"content": [], "structuredContent": {
                    "dryRun": true, "warnings": [HOSTILE], HOSTILE: HOSTILE, "list": [{"a": HOSTILE}],
                }}),
                Some("huge") => json!({"content": [{"type": "text", "text": HOSTILE.repeat(16_384)}]}),
                _ => json!({"content": [], "structuredContent": {"dryRun": true, "recipients": 3, "pin": "4711"}}),
            }
        }
        Some("ping") => json!({}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

/// Starts a gateway with the server `fx`, a user with a password, and the agent `cursor`.
async fn fixture() -> (Fixture, Person, Sent) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, sent) = (listener.local_addr().unwrap(), Sent::default());
    let router = axum::Router::new().fallback(axum::routing::post(answer)).with_state(sent.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let text = json!({
        "trust": {"first_sight": "accept"},
        "mcpServers": {"fx": {"url": format!("http://{address}/mcp")}},
    });
    let settings = settings::parse(&text.to_string(), &Unresolved).unwrap();
    let fixture = Fixture::new().await;
    let definition =
        |tool: Value| Definition::new(DefinitionKind::Tool, tool["name"].as_str().unwrap(), &tool.to_string());
    let definitions: Vec<Definition> = tools().into_iter().map(definition).collect();
    fixture.list(settings.servers[0].identity.key(), &definitions, &[], "{}").await;
    let contracts = Contracts::parse(&[("contracts/fx.yaml".to_owned(), CONTRACTS.to_owned())]).unwrap();
    fixture.gateway.reload(Files { settings: Arc::new(settings), contracts: Arc::new(contracts), ..Files::default() });
    fixture.gateway.ready().await;
    let hash = Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    let person = fixture.person("anna", &hash).await;
    fixture.agent("cursor").await;
    (fixture, person, sent)
}

impl Sent {
    fn all(&self) -> Vec<Value> {
        self.arguments.lock().unwrap().clone()
    }
}

fn form(agent: &str, arguments: &str) -> String {
    format!("variant=write&agent={agent}&arguments={}", crate::visible::url_part(arguments))
}

/// Waits for this many records of calls and refusals, and returns them, oldest first.
async fn records(fixture: &Fixture, count: usize) -> Vec<Value> {
    let mut commits = fixture.ledger.committed();
    loop {
        commits.mark_unchanged();
        let page = fixture.get("/api/v1/activity?limit=200").await;
        let all = page["activities"].as_array().unwrap().iter().rev();
        let of_calls: Vec<Value> = all.filter(|one| !one["tool"].is_null()).cloned().collect();
        if of_calls.len() >= count && of_calls.iter().all(|one| one["status"] != "started") {
            assert_eq!(of_calls.len(), count, "{of_calls:?}");
            return of_calls;
        }
        tokio::time::timeout(PATIENCE, commits.changed()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_server_simulates_the_call_for_a_user_who_is_present() {
    let (fixture, person, sent) = fixture().await;
    let fields = form("cursor", r#"{"to":"max","pin":"4711"}"#);
    for (more, why) in [
        ("", "Enter your password"),
        ("&page_key=page_0", "Enter your password"),
        ("&password=wrong", "The password is wrong"),
    ] {
        let refused = fixture.post_plainly(&person, PATH, &format!("{fields}{more}")).await;
        assert_eq!(refused.status(), 403, "a cookie alone is not enough: {more}");
        has(&text(refused).await, &[why, "<div data-presence data-asks>", "id=\"run-password\"", "&#34;max&#34;"]);
    }
    assert_eq!(sent.all(), [] as [Value; 0]);
    records(&fixture, 0).await;

    let (status, html) = post(&fixture, &person, PATH, &fields).await;
    assert_eq!(status, 200, "{html}");
    has(&html, &["from the server, not verified", "recipients", "Raw JSON", "in the name of agent", "Open the record"]);
    assert!(!html.contains("4711\"") && html.contains("***"), "masked as in the record: {html}");
    assert_eq!(sent.all(), [json!({"to": "max", "pin": "4711", "dryRun": true})]);
    let typed = format!("{fields}&password=correct+horse");
    assert_eq!(fixture.post_plainly(&person, PATH, &typed).await.status(), 200, "without JavaScript");

    let records = records(&fixture, 2).await;
    let metadata = &records[0]["metadata"];
    assert_eq!(records[0]["agent"], "cursor");
    assert_eq!([&metadata["user"], &metadata["dry_run"], &metadata["endpoint_mode"]], ["anna", "server", "console"]);
    let page = format!("/ui/activity/{}", records[0]["id"].as_str().unwrap());
    let page = fixture.request(http::Method::GET, &page, &[("cookie", &person.cookie)], String::new()).await;
    let page = text(page).await;
    has(&page, &["<em>anna</em> tried out <em>fx:<wbr>send</em>", " in the name of agent <em>cursor</em>", "Made by"]);
    fixture.stop().await;
}

#[tokio::test]
async fn a_contract_without_a_parameter_gives_a_preview() {
    let (fixture, person, sent) = fixture().await;
    let (status, html) = post(&fixture, &person, "/ui/tools/fx/plain/dry-run", &form("cursor", "")).await;
    assert_eq!(status, 200, "{html}");
    has(&html, &["from the contract", "A mail leaves.", "confirmation and step up", "without sending anything"]);
    assert_eq!(sent.all(), [] as [Value; 0]);
    fixture.stop().await;
}

#[tokio::test]
async fn what_is_not_run_says_what_to_do() {
    let (fixture, person, sent) = fixture().await;
    for (fields, expected) in [
        (form("", "{}"), "Choose an agent for the dry run."),
        (form("nobody", "{}"), "no agent with that name"),
        (form("cursor", "{"), "not valid JSON"),
        (form("cursor", r#"{},"name":"fx:wipe""#), "not valid JSON"),
    ] {
        let (status, html) = post(&fixture, &person, PATH, &fields).await;
        assert_eq!(status, 422, "{fields}");
        has(&html, &[expected]);
    }
    let gone = post(&fixture, &person, "/ui/tools/fx/gone/dry-run", &form("cursor", "{}")).await;
    assert_eq!(gone.0, 404);
    records(&fixture, 0).await;

    // The gateway's refusals come with the checks, and are recorded.
    let (status, html) = post(&fixture, &person, PATH, &form("cursor", r#"{"to":7}"#)).await;
    assert_eq!(status, 200, "{html}");
    has(&html, &["Nothing was sent to the server.", "Correct the arguments, and run it again.", "Refused here"]);
    let (_, html) = post(&fixture, &person, "/ui/tools/fx/wipe/dry-run", &form("cursor", "{}")).await;
    has(&html, &["Nothing was sent to the server.", "The tool is forbidden."]);
    let codes: Vec<(Value, Value)> =
        records(&fixture, 2).await.iter().map(|one| (one["code"].clone(), one["metadata"]["user"].clone())).collect();
    assert_eq!(
        codes,
        [(json!("invalid_arguments"), json!("anna")), (json!("forbidden_attempt"), json!("anna"))],
        "{codes:?}"
    );
    assert_eq!(sent.all(), [] as [Value; 0]);
    fixture.stop().await;
}

#[tokio::test]
async fn hostile_results_and_arguments_stay_inert() {
    let (fixture, person, sent) = fixture().await;
    for to in ["hostile", "huge", "fail"] {
        let arguments = json!({"to": to, HOSTILE: HOSTILE}).to_string();
        let (status, html) = post(&fixture, &person, PATH, &form("cursor", &arguments)).await;
        assert_eq!(status, 200, "{html}");
        // The form keeps what the user typed, as data. Everything else shows it.
        let shown = html.split("class=\"what-if-result\"").nth(1).unwrap();
        for (text, bad) in [(&*html, "<script>alert"), (&html, "<img src=x"), (shown, "\u{202E}"), (shown, "\u{1b}")] {
            assert!(!text.contains(bad), "{to} {bad:?}");
        }
        has(&html, &["&lt;script&gt;"]);
        assert!(html.len() < 500_000, "{to}: {} bytes", html.len());
        let expected = if to == "fail" { "What the server answered" } else { "from the server, not verified" };
        has(&html, &[expected]);
    }
    assert_eq!(sent.calls.load(Ordering::Relaxed), 3);
    let huge = format!(r#"{{"to":"{}"}}"#, "x".repeat(1024 * 1024));
    let refused = post(&fixture, &person, PATH, &form("cursor", &huge)).await;
    assert_eq!(refused.0, 413);
    assert_eq!(sent.calls.load(Ordering::Relaxed), 3);
    fixture.stop().await;
}
