//! Access control: wrong credentials, the guard, and the errors for rejected requests.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Fixture, KEY, code, path, text};
use crate::auth::access::Access;
use crate::rest::endpoints;
use crate::ui::all_pages;

/// Probes come by address, so their `Host` can be anything.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

#[tokio::test]
async fn what_is_no_key_opens_nothing() {
    let fixture = Fixture::new().await;
    let agent = ("authorization", "Bearer mcp_0123");
    for endpoint in endpoints().filter(|endpoint| endpoint.access == Access::Operator) {
        let check = async |headers: &[(&str, &str)], query: &str, expected: (StatusCode, &str)| {
            let response = fixture.send(endpoint.method.method(), &(path(endpoint) + query), headers).await;
            let status = response.status();
            let asks = response.headers().get("www-authenticate").map(|key| key.to_str().unwrap().to_owned());
            assert_eq!(asks.as_deref(), (status == StatusCode::UNAUTHORIZED).then_some("X-API-Key"), "{endpoint:?}");
            let answer: Value = serde_json::from_str(&text(response).await).unwrap_or_default();
            assert_eq!((status, code(&answer)), (expected.0, Some(expected.1)), "{endpoint:?} {headers:?} {query}");
        };
        let nobody = (StatusCode::UNAUTHORIZED, "unauthenticated");
        check(&[], "", nobody).await;
        check(&[], &format!("?apikey={KEY}"), nobody).await;
        check(&[("x-api-key", "")], "", nobody).await;
        check(&[("x-api-key", "0123456789abcdeF")], "", nobody).await;
        check(&[("x-api-key", "0123456789abcdef0")], "", nobody).await;
        check(&[("cookie", "mcpproxy_session=0123456789abcdef")], "", nobody).await;
        let refusal = if endpoint.decides { "permission_denied" } else { "agent_not_allowed" };
        check(&[agent], "", (StatusCode::FORBIDDEN, refusal)).await;
        check(&[agent, ("x-api-key", KEY)], "", (StatusCode::FORBIDDEN, refusal)).await;
    }
    fixture.stop().await;
}

#[tokio::test]
async fn the_guard_stands_before_every_route() {
    let fixture = Fixture::new().await;
    let pages = all_pages().map(|page| (page.method.method(), page.path.replace(['{', '}'], "")));
    let known = endpoints().map(|endpoint| (endpoint.method.method(), path(endpoint))).chain(pages);
    let more = [(Method::POST, "/mcp"), (Method::GET, "/mcp/direct"), (Method::GET, "/nowhere")];
    for (method, path) in known.chain(more.map(|(method, path)| (method, path.to_owned()))) {
        for (headers, expected) in [
            ([("host", "evil.example:8080"), ("x-api-key", KEY)], "host not allowed"),
            ([("origin", "https://evil.example"), ("x-api-key", KEY)], "origin not allowed"),
            ([("origin", "null"), ("x-api-key", KEY)], "origin not allowed"),
        ] {
            let (status, answer) = fixture.ask(method.clone(), &path, &headers).await;
            if expected == "host not allowed" && PROBES.contains(&path.as_str()) {
                assert_eq!(status, StatusCode::OK, "{path} {headers:?}");
                continue;
            }
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
        ["/uis", "/apis", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"]
    {
        let (status, answer) = fixture.ask(Method::GET, path, &[]).await;
        assert_eq!((status, answer), (StatusCode::NOT_FOUND, json!("not found\n")), "{path}");
    }
    let nowhere = json!({"error": {
        "code": "not_found", "message": "no such path", "hint": "GET /api/v1/docs lists all paths"
    }});
    for path in
        ["/api", "/api/", "/api/v1", "/api/v1/no", "/api/v2/activity", "/api/v1/activity/", "/api/v1/activity/a/b"]
    {
        let answer = fixture.ask(Method::GET, path, &[]).await;
        assert_eq!(answer, (StatusCode::NOT_FOUND, nowhere.clone()), "{path}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_one() {
    let fixture = Fixture::new().await;
    for endpoint in endpoints() {
        let response = fixture.send(Method::PATCH, &path(endpoint), &[("x-api-key", KEY)]).await;
        let allowed = response.headers().get("allow").map(|allow| allow.to_str().unwrap().to_owned());
        let same_path = endpoints().filter(|other| other.path == endpoint.path);
        let words = same_path.map(|other| match other.method.method() {
            Method::GET => "GET,HEAD".to_owned(),
            method => method.to_string(),
        });
        let expected = words.collect::<Vec<_>>().join(",");
        assert_eq!(
            (response.status(), allowed.as_deref()),
            (StatusCode::METHOD_NOT_ALLOWED, Some(expected.as_str())),
            "{endpoint:?}"
        );
        let answer: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(code(&answer), Some("method_not_allowed"), "{endpoint:?}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn every_error_has_the_one_shape() {
    let fixture = Fixture::new().await;
    let key = ("x-api-key", KEY);
    for (method, path, headers, expected) in [
        (Method::GET, "/api/v1/activity", vec![], 401),
        (Method::GET, "/api/v1/activity", vec![("authorization", "Bearer mcp_0")], 403),
        (Method::GET, "/api/v1/status", vec![("host", "evil.example:8080")], 403),
        (Method::GET, "/healthz", vec![("origin", "https://evil.example")], 403),
        (Method::GET, "/healthz?x=1", vec![], 400),
        (Method::GET, "/api/v1/nowhere", vec![], 404),
        (Method::GET, "/api/v1/activity/nope", vec![key], 404),
        (Method::GET, "/api/v1/activity/%ff", vec![key], 404),
        (Method::GET, "/api/v1/servers/%ff/logs", vec![key], 404),
        (Method::GET, "/api/v1/tools/%ff/%fe", vec![key], 404),
        (Method::GET, "/api/v1/contracts/%ff/%fe", vec![key], 404),
        (Method::GET, "/api/v1/contracts/lint/x", vec![key], 404),
        (Method::GET, "/api/v1/servers/none/contracts/draft", vec![key], 404),
        (Method::PUT, "/api/v1/activity", vec![key], 405),
        (Method::PUT, "/healthz", vec![], 405),
        (Method::GET, "/api/v1/activity?limit=0", vec![key], 400),
        (Method::POST, "/api/v1/policy/explain", vec![key], 400),
    ] {
        let (status, answer) = fixture.ask(method, path, &headers).await;
        assert_eq!(status.as_u16(), expected, "{path} {answer}");
        let body = answer.as_object().filter(|body| body.len() == 1).and_then(|body| body["error"].as_object());
        let members: Vec<&str> = body.into_iter().flat_map(|error| error.keys().map(String::as_str)).collect();
        assert_eq!(members, ["code", "message", "hint"], "{path} {answer}");
        assert!(body.unwrap().values().all(|value| value.as_str().is_some_and(|text| !text.is_empty())), "{answer}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_body_has_an_end() {
    let fixture = Fixture::new().await;
    let request = Request::post("/api/v1/policy/explain").header("host", "localhost:8080").header("x-api-key", KEY);
    let request = request.body(Body::from(vec![b' '; 3 << 20])).unwrap();
    let response = fixture.app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let answer: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(code(&answer), Some("body_too_large"));
    fixture.stop().await;
}
