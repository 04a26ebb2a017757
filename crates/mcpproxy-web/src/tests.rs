//! Every route from the outside: who gets in, and what they get.

use std::time::Instant;

use axum::body::Body;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use mcpproxy_core::settings::Settings;
use mcpproxy_gateway::{Gateway, Options};
use mcpproxy_store::Store;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use crate::endpoint::{Access, Endpoint};
use crate::{AdminKey, App, Facts, Guard, Web, app};

const KEY: &str = "0123456789abcdef";

struct Fixture {
    app: App,
    gateway: Gateway,
    _folder: TempDir,
}

impl Fixture {
    /// A gateway without servers.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("mcpproxy.db")).await.unwrap();
        let logs = folder.path().join("logs");
        let gateway = Gateway::start(Options { settings: Settings::default(), store, logs, demo_command: Vec::new() });
        let facts = Facts {
            version: "1.2.3",
            address: "127.0.0.1:8080".to_owned(),
            started: Instant::now(),
            settings_path: "/data/mcp_config.json".into(),
        };
        let guard = Guard::new(8080, &[], &[]);
        let app = app(Web { gateway: gateway.clone(), admin_key: AdminKey::new(KEY), guard, facts });
        Self { app, gateway, _folder: folder }
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header(header::HOST, "localhost:8080");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
        let response = self.send(method, path, headers).await;
        let status = response.status();
        let text = text(response).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn stop(self) {
        self.gateway.stop().await;
    }
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn method(endpoint: Endpoint) -> Method {
    match endpoint {
        Endpoint::RestartServer | Endpoint::ExplainCall => Method::POST,
        _ => Method::GET,
    }
}

fn path(endpoint: Endpoint) -> String {
    endpoint.path().replace("{name}", "demo").replace("{server}", "demo").replace("{tool}", "echo")
}

fn code(answer: &Value) -> Option<&str> {
    answer.pointer("/error/code").and_then(Value::as_str)
}

#[tokio::test]
async fn without_the_key_nobody_gets_in() {
    let fixture = Fixture::new().await;
    let agent = ("authorization", "Bearer mcp_0123");
    let mut counted = 0;
    for endpoint in Endpoint::ALL {
        counted += 1;
        let check = async |headers: &[(&str, &str)], query: &str, expected: (StatusCode, Option<&str>)| {
            let (status, answer) = fixture.ask(method(endpoint), &(path(endpoint) + query), headers).await;
            assert_eq!((status, code(&answer)), expected, "{endpoint:?} {headers:?} {query}");
        };
        match endpoint.access() {
            Access::Everybody => check(&[], "", (StatusCode::OK, None)).await,
            Access::AdminKey => {
                let nobody = (StatusCode::UNAUTHORIZED, Some("UNAUTHENTICATED"));
                check(&[], "", nobody).await;
                check(&[], &format!("?apikey={KEY}"), nobody).await;
                check(&[("x-api-key", "")], "", nobody).await;
                check(&[("x-api-key", "0123456789abcdeF")], "", nobody).await;
                check(&[("x-api-key", "0123456789abcdef0")], "", nobody).await;
                check(&[agent], "", (StatusCode::FORBIDDEN, Some("AGENT_NOT_ALLOWED"))).await;
                check(&[agent, ("x-api-key", KEY)], "", (StatusCode::FORBIDDEN, Some("AGENT_NOT_ALLOWED"))).await;
            }
        }
    }
    assert_eq!(counted, 10, "a new route needs a line in `Endpoint` and this number");
    fixture.stop().await;
}

#[tokio::test]
async fn the_guard_stands_before_every_route() {
    let fixture = Fixture::new().await;
    let known = Endpoint::ALL.map(|endpoint| (method(endpoint), path(endpoint)));
    let more = [(Method::POST, "/mcp"), (Method::GET, "/mcp/direct"), (Method::GET, "/nowhere"), (Method::GET, "/")];
    for (method, path) in known.into_iter().chain(more.map(|(method, path)| (method, path.to_owned()))) {
        for (headers, expected) in [
            ([("host", "evil.example:8080"), ("x-api-key", KEY)], "host not allowed"),
            ([("origin", "https://evil.example"), ("x-api-key", KEY)], "origin not allowed"),
            ([("origin", "null"), ("x-api-key", KEY)], "origin not allowed"),
        ] {
            let (status, answer) = fixture.ask(method.clone(), &path, &headers).await;
            let message = answer.pointer("/error/message").and_then(Value::as_str);
            assert_eq!((status, message), (StatusCode::FORBIDDEN, Some(expected)), "{path} {headers:?}");
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn unknown_paths_are_a_plain_404() {
    let fixture = Fixture::new().await;
    for path in
        ["/", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp", "/api/v1/no"]
    {
        let (status, answer) = fixture.ask(Method::GET, path, &[]).await;
        assert_eq!((status, answer), (StatusCode::NOT_FOUND, json!("not found\n")), "{path}");
    }
    fixture.stop().await;
}

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
        "code": "SERVER_NOT_FOUND",
        "message": "no such server, or it is disabled",
        "hint": "GET /api/v1/servers lists all"
    }});
    check(Method::GET, "/healthz", (StatusCode::OK, json!({"status": "ok"}))).await;
    check(Method::GET, "/readyz", (StatusCode::OK, json!({"ready": true, "connecting": []}))).await;
    check(
        Method::GET,
        "/api/v1/status",
        (
            StatusCode::OK,
            json!({
                "version": "1.2.3", "pid": "some", "address": "127.0.0.1:8080", "uptime_ms": "some",
                "servers": {"ready": 0, "connecting": 0, "failed": 0, "disabled": 0}, "tools": 0,
                "settings": {"path": "/data/mcp_config.json", "error": null}
            }),
        ),
    )
    .await;
    check(Method::GET, "/api/v1/servers", (StatusCode::OK, json!({"servers": []}))).await;
    check(Method::GET, "/api/v1/tools", (StatusCode::OK, json!({"tools": []}))).await;
    check(Method::GET, "/api/v1/tools/search?q=x", (StatusCode::OK, json!({"tools": []}))).await;
    check(Method::GET, "/api/v1/servers/none/logs", (StatusCode::NOT_FOUND, no_server.clone())).await;
    check(Method::GET, "/api/v1/servers/A%20B/logs", (StatusCode::NOT_FOUND, no_server.clone())).await;
    check(Method::POST, "/api/v1/servers/none/restart", (StatusCode::NOT_FOUND, no_server.clone())).await;
    check(Method::GET, "/api/v1/tools?server=none", (StatusCode::NOT_FOUND, no_server)).await;
    let (status, answer) = fixture.ask(Method::GET, "/api/v1/tools/search", &[("x-api-key", KEY)]).await;
    assert_eq!((status, code(&answer)), (StatusCode::BAD_REQUEST, Some("BAD_QUERY")));
    let (status, answer) = fixture.ask(Method::GET, "/api/v1/tools/none/x", &[("x-api-key", KEY)]).await;
    assert_eq!((status, code(&answer)), (StatusCode::NOT_FOUND, Some("TOOL_NOT_FOUND")));
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
