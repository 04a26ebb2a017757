//! Agents with access tokens of an identity provider: discovery, refusals, mapping of claims, and the end of tokens.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use mcpproxy_core::settings::{ServerSettings, Settings, Unresolved, parse};
use serde_json::{Value, json};

use crate::agent::{Agent, Events, Way, request_text};
use crate::issuer::{Issuer, SigningKey, now};
use crate::peer::{READ_ONLY, Script, Speaks, text_result, tool};
use crate::peer_http::{HttpPeer, Verdict};
use crate::rig::{Answer, Rig, demo, post, settings, within};

const AUDIENCE: &str = "https://gateway.example/mcp";
const METADATA: &str = "http://localhost:8080/.well-known/oauth-protected-resource";

/// Settings that accept tokens of this issuer. `more` are further members of `agents.oauth`.
fn accepting(issuer: &str, more: &str, servers: impl IntoIterator<Item = ServerSettings>) -> Settings {
    let text = format!(r#"{{"agents": {{"oauth": {{"issuer": "{issuer}", "audience": "{AUDIENCE}"{more}}}}}}}"#);
    Settings { agents: parse(&text, &Unresolved).unwrap().agents, ..settings(servers) }
}

struct Desk {
    rig: Rig,
    issuer: Issuer,
    key: SigningKey,
}

impl Desk {
    async fn new(more: &str) -> Self {
        let key = SigningKey::new("k1");
        let issuer = Issuer::start(&[&key]).await;
        let rig = Rig::start(accepting(&issuer.url, more, [demo("demo")])).await;
        Self { rig, issuer, key }
    }

    /// Signs the usual claims with changes. `null` removes a claim.
    fn token(&self, changes: Value) -> String {
        let mut claims = self.issuer.claims();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.key.sign(&claims)
    }

    async fn send(&self, token: &str) -> Answer {
        let body = request_text(1, "ping", "{}");
        self.rig.send(post("/mcp", token, &[("host", "localhost:8080")], body)).await
    }

    async fn find(&self, path: &str) -> Answer {
        let request = Request::get(path).header("host", "localhost:8080").body(Body::empty()).unwrap();
        self.rig.send(request).await
    }
}

fn challenge(answer: &Answer) -> &str {
    answer.headers.get("www-authenticate").map_or("-", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn clients_find_the_identity_provider() {
    let desk = Desk::new(r#", "scopes": ["mcp"]"#).await;
    let expected = json!({
        "resource": AUDIENCE, "authorization_servers": [desk.issuer.url], "bearer_methods_supported": ["header"],
        "resource_name": "mcpproxy", "scopes_supported": ["mcp"],
    });
    for path in ["", "/mcp", "/mcp/direct", "/mcp/s/demo", "/mcp/s/unknown"] {
        let answer = desk.find(&format!("/.well-known/oauth-protected-resource{path}")).await;
        assert_eq!(serde_json::from_str::<Value>(&answer.body).unwrap(), expected, "{path}");
    }
    for path in ["/api", "/mcp/", "/mcp/s/", "/mcp/s/A%20B", "/mcp/x"] {
        let answer = desk.find(&format!("/.well-known/oauth-protected-resource{path}")).await;
        assert_eq!((answer.status, answer.body.as_str()), (StatusCode::NOT_FOUND, "not found\n"), "{path}");
    }
    for path in ["/mcp", "/mcp/direct", "/mcp/s/demo"] {
        let answer = desk.find(path).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        let expected = format!(r#"Bearer scope="mcp", resource_metadata="{METADATA}{path}""#);
        assert_eq!(challenge(&answer), expected);
    }
}

#[tokio::test]
async fn without_the_setting_nothing_of_it_exists() {
    let rig = Rig::start(settings([demo("demo")])).await;
    for path in ["", "/mcp"] {
        let request = Request::get(format!("/.well-known/oauth-protected-resource{path}")).body(Body::empty());
        let answer = rig.send(request.unwrap()).await;
        assert_eq!((answer.status, answer.body.as_str()), (StatusCode::NOT_FOUND, "not found\n"));
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
    for token in ["mcp_0000", "eyJhbGciOiJub25lIn0.e30."] {
        let answer = rig.send(post("/mcp", token, &[], request_text(1, "ping", "{}"))).await;
        assert_eq!((answer.status, challenge(&answer)), (StatusCode::UNAUTHORIZED, "Bearer"));
    }
}

/// Every way in which a token can be wrong, with the whole answer.
#[tokio::test]
async fn tokens_that_are_refused() {
    let desk =
        Desk::new(r#", "claims": {"allow": [{"claim": "groups", "contains": "devs"}]}, "blocked": ["mallory"]"#).await;
    let good = json!({"groups": ["devs"]});
    assert_eq!(desk.send(&desk.token(good.clone())).await.status, StatusCode::OK);
    let stranger = SigningKey::new("k1");
    let unknown = SigningKey::new("k2");
    let mut shared = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
    shared.kid = Some("k1".to_owned());
    let public = desk.key.public.to_string();
    let secret = jsonwebtoken::EncodingKey::from_secret(public.as_bytes());
    let with_public_key = jsonwebtoken::encode(&shared, &desk.issuer.claims(), &secret).unwrap();
    let unsigned = "eyJhbGciOiJub25lIiwia2lkIjoiazEifQ.eyJzdWIiOiJhIn0.".to_owned();
    let change = |changes: Value| desk.token(changes);
    let rows = [
        (change(json!({"iss": "https://other.example"})), "the token has another issuer"),
        (change(json!({"aud": "https://other.example/mcp"})), "the token is for another audience"),
        (change(json!({"aud": null})), "the token lacks a required claim"),
        (change(json!({"exp": null})), "the token lacks a required claim"),
        (change(json!({"exp": now() - 61})), "the token has expired"),
        (change(json!({"nbf": now() + 120})), "the token is not valid yet"),
        (unsigned, "the token is signed with an algorithm that is not accepted"),
        (with_public_key, "the token is signed with a key that the issuer does not publish"),
        (unknown.sign(&desk.issuer.claims()), "the token is signed with a key that the issuer does not publish"),
        (stranger.sign(&desk.issuer.claims()), "the signature of the token is not valid"),
        ("a".repeat(100_000), "the token is not a valid JWT"),
        (format!("{}.{}.c", "a".repeat(50_000), "b".repeat(50_000)), "the token is not a valid JWT"),
        ("e30.e30.e30".to_owned(), "the token is signed with an algorithm that is not accepted"),
        ("..".to_owned(), "the token is signed with an algorithm that is not accepted"),
        ("hello".to_owned(), "the token is not a valid JWT"),
    ];
    for (token, reason) in rows {
        let answer = desk.send(&token).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{reason}");
        assert_eq!(
            challenge(&answer),
            format!(
                r#"Bearer error="invalid_token", error_description="{reason}", resource_metadata="{METADATA}/mcp""#
            )
        );
        assert_eq!(answer.body, format!("{reason}; get a new one from {}\n", desk.issuer.url));
    }
    let answer = desk.send(&change(json!({"groups": ["staff"]}))).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let reason = "no entry of `agents.oauth.claims.allow` matches the token";
    let expected = format!(
        r#"Bearer error="insufficient_scope", error_description="{reason}", resource_metadata="{METADATA}/mcp""#
    );
    assert_eq!(challenge(&answer), expected);
    assert_eq!(answer.body, format!("{reason}; ask the operator of this gateway for access\n"));
    for (changes, reason) in [
        (json!({"sub": "mallory", "groups": ["devs"]}), "the operator has blocked this agent (`agents.oauth.blocked`)"),
        (
            json!({"sub": null, "groups": ["devs"]}),
            "the token has no usable claim `sub` to name its agent (`agents.oauth.claims.name`)",
        ),
    ] {
        let answer = desk.send(&change(changes)).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert_eq!(challenge(&answer), format!(r#"Bearer resource_metadata="{METADATA}/mcp""#));
        assert_eq!(answer.body, format!("{reason}; ask the operator of this gateway for access\n"));
    }
    let answer = desk.send("mcp_0000").await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert!(challenge(&answer).starts_with(r#"Bearer error="invalid_token", "#), "{}", challenge(&answer));
    let records = desk.rig.all_records().await;
    let refused: Vec<_> = records.iter().filter(|record| record.kind == mcpproxy_store::Kind::Auth).collect();
    assert!((1..=3).contains(&refused.len()), "at most one record a second: {}", refused.len());
}

#[tokio::test]
async fn while_the_provider_is_away_known_tokens_work_and_others_are_not_judged() {
    let key = SigningKey::new("k1");
    let issuer = Issuer::start(&[&key]).await;
    let rig = Rig::start(accepting(&issuer.url, "", [demo("demo")])).await;
    let desk = Desk { rig, issuer, key };
    // Keys that are not JSON, or far too large, are as good as none.
    for document in ["down for maintenance".to_owned(), format!(r#"{{"keys": "{}"}}"#, "a".repeat(2 << 20))] {
        let away = Desk::new("").await;
        away.issuer.publish_text("/keys", document);
        let answer = away.send(&away.token(json!({}))).await;
        assert_eq!((answer.status, challenge(&answer)), (StatusCode::SERVICE_UNAVAILABLE, "-"));
        let start = "the token cannot be checked at the moment: the keys of the issuer could not be read: ";
        assert!(answer.body.starts_with(start), "{}", answer.body);
    }
    let token = desk.token(json!({}));
    assert_eq!(desk.send(&token).await.status, StatusCode::OK);
    desk.issuer.publish_text("/keys", "gone".to_owned());
    assert_eq!(desk.send(&token).await.status, StatusCode::OK);
    assert_eq!(desk.send(&desk.token(json!({"sub": "another"}))).await.status, StatusCode::OK);
    let requests = desk.issuer.requests();
    for number in 0..20 {
        assert_eq!(desk.send(&desk.token(json!({"sub": format!("agent-{number}")}))).await.status, StatusCode::OK);
    }
    assert_eq!(desk.issuer.requests(), requests, "keys are not read for every token");
}

/// The gateway starts and serves its own tokens while nothing listens at the issuer.
#[tokio::test]
async fn a_gateway_starts_without_its_provider() {
    let rig = Rig::start(accepting("http://127.0.0.1:9", "", [demo("demo")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "local").await;
    assert!(agent.call(&rig, "call_tool_read", r#"{"name":"demo:list_projects"}"#).await.brief().contains("p_website"));
    let key = SigningKey::new("k1");
    let token = key.sign(&json!({"iss": "http://127.0.0.1:9", "aud": AUDIENCE, "sub": "a", "exp": now() + 60}));
    let answer = rig.send(post("/mcp", &token, &[], request_text(1, "ping", "{}"))).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.body);
}

#[tokio::test]
async fn an_agent_may_do_what_its_claims_are_mapped_to() {
    let allow = r#", "claims": {"name": "email", "allow": [
        {"claim": "groups", "contains": "devs", "servers": ["demo"], "operations": ["read", "write"],
         "permissions": ["projects:*"]},
        {"servers": []}
    ]}"#;
    let (way, path) = (Way::Session, "/mcp");
    let desk = Desk::new(allow).await;
    let dev = desk.token(json!({"email": "anna@example.com", "groups": ["devs"]}));
    let other = desk.token(json!({"email": "ben@example.com"}));
    let (mut dev, mut other) =
        (Agent::bearing(&desk.rig, way, &dev, path).await, Agent::bearing(&desk.rig, way, &other, path).await);
    let read = r#"{"name":"demo:list_projects"}"#;
    assert!(dev.call(&desk.rig, "call_tool_read", read).await.brief().contains("p_website"));
    let refused = other.call(&desk.rig, "call_tool_read", read).await.brief();
    assert!(refused.starts_with("tool_not_found"), "{refused}");
    let refused = dev.call(&desk.rig, "call_tool_destructive", read).await.brief();
    assert!(refused.starts_with("permission_denied"), "{refused}");
    let records = desk.rig.records().await;
    let label = desk.issuer.url.trim_start_matches("http://");
    assert!(records[0].contains(&format!(" anna@example.com@{label} demo:list_projects")), "{records:?}");
}

#[tokio::test]
async fn without_a_mapping_an_agent_reads() {
    let mut script = Script::new(
        Speaks::Legacy,
        &format!("[{},{}]", tool("work", READ_ONLY), tool("change", r#"{"readOnlyHint":false}"#)),
    );
    script.call = |_| Some(text_result("done"));
    let peer = HttpPeer::new(script).await;
    let key = SigningKey::new("k1");
    let issuer = Issuer::start(&[&key]).await;
    let rig = Rig::start(accepting(&issuer.url, "", [peer.settings("fx")])).await;
    let mut agent = Agent::bearing(&rig, Way::Session, &key.sign(&issuer.claims()), "/mcp").await;
    assert_eq!(agent.call(&rig, "call_tool_read", r#"{"name":"fx:work"}"#).await.brief(), "done");
    for variant in ["call_tool_write", "call_tool_destructive"] {
        let refused = agent.call(&rig, variant, r#"{"name":"fx:change"}"#).await.brief();
        assert!(refused.starts_with("permission_denied"), "{refused}");
    }
    let names: Vec<String> = rig.gateway.provider_agents().iter().map(|agent| agent.name.clone()).collect();
    assert_eq!(names, [format!("agent-7@{}", issuer.url.trim_start_matches("http://"))]);
}

/// A session belongs to an agent. The same name among the gateway's own tokens is another agent.
#[tokio::test]
async fn agents_of_the_provider_are_apart_from_others() {
    let desk = Desk::new("").await;
    let session = |agent: &Agent| agent.session().to_owned();
    let of_provider = Agent::bearing(&desk.rig, Way::Session, &desk.token(json!({"sub": "ci"})), "/mcp").await;
    let stored = Agent::new(&desk.rig, Way::Session, "ci").await;
    let renewed = desk.token(json!({"sub": "ci", "jti": "2"}));
    for (token, session, expected) in [
        (&stored.token, session(&of_provider), StatusCode::NOT_FOUND),
        (&of_provider.token, session(&stored), StatusCode::NOT_FOUND),
        (&renewed, session(&of_provider), StatusCode::OK),
        (&desk.token(json!({"sub": "other"})), session(&of_provider), StatusCode::NOT_FOUND),
    ] {
        let headers = [("mcp-session-id", session.as_str())];
        let answer = desk.rig.send(post("/mcp", token, &headers, request_text(1, "ping", "{}"))).await;
        assert_eq!(answer.status, expected);
    }
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_so_do_its_streams() {
    let desk = Desk::new("").await;
    // A token counts a minute longer than it says, for clocks that differ.
    let token = desk.token(json!({"exp": now() - 57}));
    let agent = Agent::bearing(&desk.rig, Way::Session, &token, "/mcp").await;
    let listen = Request::get("/mcp")
        .header("authorization", format!("Bearer {token}"))
        .header("mcp-session-id", agent.session())
        .header("accept", "text/event-stream");
    let response = desk.rig.open(listen.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    let stateless = Agent::bearing(&desk.rig, Way::Stateless, &token, "/mcp").await;
    let mut listening = stateless.stream(&desk.rig, 3, "subscriptions/listen", r#"{"notifications":{}}"#).await;
    assert!(listening.next().await.unwrap().contains("acknowledged"));
    let mut events = Events::new(response.into_body());
    while events.next().await.is_some() {}
    while listening.next().await.is_some() {}
    let answer = desk.send(&token).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", answer.body);
}

#[tokio::test]
async fn a_withdrawn_key_ends_its_tokens() {
    let desk = Desk::new("").await;
    let token = desk.token(json!({}));
    assert_eq!(desk.send(&token).await.status, StatusCode::OK);
    let next = SigningKey::new("k2");
    desk.issuer.publish_keys(&[&next]);
    // A token with the new key makes the gateway read the keys again, at most every ten seconds.
    let renewed = next.sign(&desk.issuer.claims());
    let rotated = async {
        while desk.send(&renewed).await.status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    within(rotated).await;
    assert_eq!(desk.send(&token).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_reload_takes_effect_at_once() {
    let desk = Desk::new("").await;
    let token = desk.token(json!({}));
    let agent = Agent::bearing(&desk.rig, Way::Session, &token, "/mcp").await;
    let stateless = Agent::bearing(&desk.rig, Way::Stateless, &token, "/mcp").await;
    let mut listening = stateless.stream(&desk.rig, 3, "subscriptions/listen", r#"{"notifications":{}}"#).await;
    assert!(listening.next().await.unwrap().contains("acknowledged"));
    let requests = desk.issuer.requests();
    desk.rig.gateway.reload(accepting(
        &desk.issuer.url,
        r#", "claims": {"allow": [{"operations": []}]}"#,
        [demo("demo")],
    ));
    // It stood on the old settings.
    while listening.next().await.is_some() {}
    let ended = desk.rig.send(agent.http(1, "ping", "{}")).await;
    assert_eq!(ended.status, StatusCode::NOT_FOUND, "the client connects again: {}", ended.body);
    let mut agent = Agent::bearing(&desk.rig, Way::Stateless, &token, "/mcp").await;
    let refused = agent.call(&desk.rig, "call_tool_read", r#"{"name":"demo:list_projects"}"#).await.brief();
    assert!(!refused.contains("p_website"), "{refused}");
    desk.rig.gateway.reload(accepting(&desk.issuer.url, r#", "blocked": ["agent-7"]"#, [demo("demo")]));
    assert_eq!(desk.send(&token).await.status, StatusCode::FORBIDDEN);
    assert_eq!(desk.issuer.requests(), requests, "the keys of the same issuer stay known");
    desk.rig.gateway.reload(settings([demo("demo")]));
    let answer = desk.send(&token).await;
    assert_eq!((answer.status, challenge(&answer)), (StatusCode::UNAUTHORIZED, "Bearer"));
}

/// No header and no byte that a server gets contains the token of an agent.
#[tokio::test]
async fn a_token_is_never_passed_to_a_server() {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let writing = Arc::clone(&heard);
    let mut script = Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)));
    script.call = |_| Some(text_result("done"));
    let judge = move |parts: &http::request::Parts, message: &Value| {
        writing.lock().unwrap().push(format!("{:?} {} {message}", parts.headers, parts.uri));
        Verdict::Usual
    };
    let peer = HttpPeer::judged(script, Arc::new(judge)).await;
    let key = SigningKey::new("k1");
    let issuer = Issuer::start(&[&key]).await;
    let rig = Rig::start(accepting(&issuer.url, "", [peer.settings("fx")])).await;
    let token = key.sign(&issuer.claims());
    for way in [Way::Session, Way::Stateless] {
        let mut agent = Agent::bearing(&rig, way, &token, "/mcp").await;
        assert_eq!(agent.call(&rig, "call_tool_read", r#"{"name":"fx:work"}"#).await.brief(), "done");
        let mut direct = Agent::bearing(&rig, way, &token, "/mcp/s/fx").await;
        assert_eq!(direct.call(&rig, "work", "{}").await.brief(), "done");
    }
    let heard = heard.lock().unwrap().join("\n");
    let signature = token.rsplit('.').next().unwrap();
    assert!(heard.contains("tools/call") && !heard.contains(signature) && !heard.contains("authorization"), "{heard}");
}
