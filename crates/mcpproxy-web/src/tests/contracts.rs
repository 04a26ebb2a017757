//! The contract endpoints, with an operator's contracts and servers that cannot be started.

use std::sync::Arc;

use http::{Method, StatusCode};
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::settings::{self, Outside};
use mcpproxy_gateway::Files;
use serde_json::{Value, json};

use super::{Fixture, KEY};

struct Nothing;

impl Outside for Nothing {
    fn env(&self, _name: &str) -> Option<String> {
        None
    }

    fn file(&self, _path: &str) -> Result<String, String> {
        Err("no".to_owned())
    }
}

/// Builds an operator's files with this contract, and a server that cannot be started.
fn files(contract: &str) -> Files {
    let text = r#"{"mcpServers": {"gone": {"command": "/no/such/program"}}}"#;
    let contracts = Contracts::parse(&[("contracts/mine.yaml".to_owned(), contract.to_owned())]).unwrap();
    Files {
        settings: Arc::new(settings::parse(text, &Nothing).unwrap()),
        contracts: Arc::new(contracts),
        ..Files::default()
    }
}

#[tokio::test]
async fn what_is_doubtful() {
    let fixture = Fixture::new().await;
    let none = fixture.get("/api/v1/contracts/lint").await;
    assert_eq!(none, json!({"findings": [], "errors": 0, "warnings": 0, "hints": 0, "version": none["version"]}));
    fixture.gateway.reload(files("tool: nowhere:send\nriskLevel: low\n"));
    let some = fixture.get("/api/v1/contracts/lint").await;
    assert_eq!(
        some,
        json!({
            "findings": [{
                "code": "C001", "severity": "warning", "subject": "nowhere:send",
                "file": "contracts/mine.yaml", "line": 2,
                "message": "no server `nowhere` is connected",
                "fix": "correct the name before the colon, or connect the server",
            }],
            "errors": 0, "warnings": 1, "hints": 0, "version": some["version"],
        })
    );
    assert!(none["version"].is_string() && none["version"] != some["version"], "{none} {some}");
    fixture.stop().await;
}

#[tokio::test]
async fn what_is_not_there() {
    let fixture = Fixture::new().await;
    fixture.gateway.reload(files("tool: gone:send\nriskLevel: low\n"));
    fixture.gateway.ready().await;
    let check = async |path: &str, expected: (StatusCode, Value)| {
        let (status, answer) = fixture.ask(Method::GET, path, &[("x-api-key", KEY)]).await;
        let answer = if status.is_success() { answer } else { answer["error"]["code"].clone() };
        assert_eq!((status, answer), expected, "{path}");
    };
    check("/api/v1/contracts", (StatusCode::OK, json!({"tools": [], "totals": [], "fields_percent": null}))).await;
    let no_tool = (StatusCode::NOT_FOUND, json!("tool_not_found"));
    check("/api/v1/contracts/gone/send", no_tool.clone()).await;
    check("/api/v1/contracts/A%20B/send", no_tool.clone()).await;
    check("/api/v1/contracts/gone/%00", no_tool).await;
    check("/api/v1/servers/none/contracts/draft", (StatusCode::NOT_FOUND, json!("server_not_found"))).await;
    let unreached = (StatusCode::SERVICE_UNAVAILABLE, json!("upstream_unavailable"));
    check("/api/v1/servers/gone/contracts/draft", unreached).await;
    fixture.stop().await;
}
