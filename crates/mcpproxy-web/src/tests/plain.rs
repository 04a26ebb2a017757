//! Health, status, servers and tools: the endpoints for operators.

use http::{Method, StatusCode};
use mcpproxy_store::{Health, WaitFor};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use super::{Fixture, KEY, code, refusal};

#[tokio::test]
async fn what_the_admin_sees() {
    let fixture = Fixture::new().await;
    let check = async |method: Method, path: &str, expected: (StatusCode, Value)| {
        let mut answer = fixture.ask(method, path, &[("x-api-key", KEY)]).await;
        for name in ["pid", "uptime_ms"] {
            if let Some(value) = answer.1.get_mut(name) {
                *value = json!("some");
            }
        }
        assert_eq!(answer, expected, "{path}");
    };
    let no_server = json!({"error": {
        "code": "server_not_found",
        "message": "no such server",
        "hint": "GET /api/v1/servers lists all servers"
    }});
    check(Method::GET, "/healthz", (StatusCode::OK, json!({"status": "ok"}))).await;
    check(Method::GET, "/readyz", (StatusCode::OK, json!({"ready": true}))).await;
    check(
        Method::GET,
        "/api/v1/status",
        (
            StatusCode::OK,
            json!({
                "version": "1.2.3", "pid": "some", "address": "127.0.0.1:8080", "tls": null, "uptime_ms": "some",
                "ui_url": "http://localhost:8080/ui/",
                "servers": {"ready": 0, "connecting": 0, "failed": 0, "disabled": 0, "misconfigured": 0, "needs_sign_in": 0},
                "unready_servers": [], "tools": 0, "quarantined": 0, "to_review": 0,
                "settings": {
                    "path": "/data/mcp_config.json", "exists": false, "version": null, "error": null, "mistakes": [], "warnings": [], "held": null
                },
                "approvals": {"waiting": 0, "has_users": false},
                "cluster": {"shared": false, "running": 1, "lost": 0, "drift": []},
                "log": {"state": "ok", "reason": null, "since": null},
                "export": null,
                "encoder": {"encoded": 0, "tools": 0}
            }),
        ),
    )
    .await;
    check(Method::GET, "/api/v1/servers", (StatusCode::OK, json!({"servers": []}))).await;
    check(Method::GET, "/api/v1/tools", (StatusCode::OK, json!({"tools": []}))).await;
    check(Method::GET, "/api/v1/servers/none/logs", (StatusCode::NOT_FOUND, no_server.clone())).await;
    check(Method::GET, "/api/v1/servers/A%20B/logs", (StatusCode::NOT_FOUND, no_server.clone())).await;
    check(Method::POST, "/api/v1/servers/none/restart", (StatusCode::NOT_FOUND, no_server.clone())).await;
    check(Method::GET, "/api/v1/tools?server=none", (StatusCode::NOT_FOUND, no_server)).await;
    let sentences = format!("/api/v1/tools/search?q={}", "find+a+tool.+".repeat(200));
    for path in ["/api/v1/tools/search?q=x", "/api/v1/tools/search?q=x&explain=true", sentences.as_str()] {
        let (status, answer) = fixture.ask(Method::GET, path, &[("x-api-key", KEY)]).await;
        assert_eq!((status, &answer["tools"]), (StatusCode::OK, &json!([])));
        assert!(answer["note"].is_string(), "nothing is never without a reason");
    }
    let (status, answer) = fixture.ask(Method::GET, "/api/v1/tools/search", &[("x-api-key", KEY)]).await;
    assert_eq!((status, code(&answer)), (StatusCode::BAD_REQUEST, Some("bad_query")));
    let (status, answer) = fixture.ask(Method::GET, "/api/v1/tools/none/x", &[("x-api-key", KEY)]).await;
    assert_eq!((status, code(&answer)), (StatusCode::NOT_FOUND, Some("tool_not_found")));
    fixture.stop().await;
}

#[tokio::test]
async fn answers_are_neither_kept_nor_guessed_at() {
    let fixture = Fixture::new().await;
    for headers in [&[][..], &[("x-api-key", KEY)]] {
        let response = fixture.send(Method::GET, "/api/v1/status", headers).await;
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!((header("cache-control"), header("x-content-type-options")), (Some("no-store"), Some("nosniff")));
        assert_eq!(header("www-authenticate"), headers.is_empty().then_some("X-API-Key"));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_told() {
    let fixture = Fixture::new().await;
    let url = format!("sqlite:{}", fixture.folder.path().join("mcpproxy.db").display());
    let mut behind = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("ALTER TABLE records RENAME TO elsewhere").execute(&mut behind).await.unwrap();
    for tried in 0.. {
        assert!(tried < 20, "the log is found to be broken");
        assert!(fixture.ledger.append(refusal(0), WaitFor::Disk).await.is_err());
        if fixture.ledger.health() != Health::Well {
            break;
        }
    }
    let answer = fixture.ask(Method::GET, "/readyz", &[]).await;
    assert_eq!(answer, (StatusCode::SERVICE_UNAVAILABLE, json!({"ready": false})));
    let status = fixture.get("/api/v1/status").await;
    let reason = status["log"]["reason"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("no such table")), "{status}");
    let expected = json!({"state": "unavailable", "reason": reason, "since": "2027-01-15T08:00:00.000Z"});
    assert_eq!(status["log"], expected);
    assert_eq!(fixture.get("/healthz").await, json!({"status": "ok"}));

    sqlx::query("ALTER TABLE elsewhere RENAME TO records").execute(&mut behind).await.unwrap();
    for tried in 0.. {
        assert!(tried < 20, "it works again");
        let _slow = fixture.ledger.append(refusal(0), WaitFor::Disk).await;
        if fixture.ledger.health() == Health::Well {
            break;
        }
    }
    assert_eq!(fixture.get("/readyz").await, json!({"ready": true}));
    fixture.stop().await;
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_told() {
    let fixture = Fixture::new().await;
    fixture.store.close().await;
    for path in ["activity", "activity/01HF", "activity/summary", "activity/export", "events"] {
        let (status, answer) = fixture.ask(Method::GET, &format!("/api/v1/{path}"), &[("x-api-key", KEY)]).await;
        assert_eq!((status, code(&answer)), (StatusCode::SERVICE_UNAVAILABLE, Some("log_unreadable")), "{path}");
    }
    fixture.stop().await;
}
