//! Sessions, closed connections and cancellation: each agent can end only its own requests.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use http::{Method, StatusCode};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::agent::{Agent, Way, request_text, with_meta};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, post, settings, within};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const CALL: &str = r#"{"name":"call_tool_read","arguments":{"name":"fx:work"}}"#;

async fn fx() -> (Peer, Rig) {
    let peer = Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)))).await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    (peer, rig)
}

#[tokio::test]
async fn a_session_belongs_to_one_agent_and_endpoint() {
    let (_peer, rig) = fx().await;
    let owner = Agent::new(&rig, Way::Session, "owner").await;
    let other = rig.token("other").await;
    let over = r#"404 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the session has ended; initialize again"}}"#;
    let check = async |method: Method, path: &str, token: &str, session: &str, expected: &str| {
        let mut request = post(path, token, &[("mcp-session-id", session)], LIST);
        *request.method_mut() = method.clone();
        let answer = rig.send(request).await;
        let found = format!("{} {}", answer.status.as_u16(), answer.body);
        assert!(found == expected || expected == "200" && answer.status == StatusCode::OK, "{method} {path}: {found}");
    };
    let session = owner.session();
    check(Method::POST, "/mcp", &owner.token, session, "200").await;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        check(method.clone(), "/mcp", &owner.token, "0123456789abcdef", over).await;
        check(method.clone(), "/mcp", &other, session, over).await;
        check(method, "/mcp/s/fx", &owner.token, session, over).await;
    }
    check(Method::POST, "/mcp", &owner.token, session, "200").await;
    check(Method::DELETE, "/mcp", &owner.token, session, "204 ").await;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        check(method, "/mcp", &owner.token, session, over).await;
    }
}

#[tokio::test]
async fn a_standing_stream_ends_with_its_session() {
    let (_peer, rig) = fx().await;
    let agent = Agent::new(&rig, Way::Session, "a").await;
    let with_session = |method: Method| {
        let mut request = post("/mcp", &agent.token, &[("mcp-session-id", agent.session())], "");
        *request.method_mut() = method;
        request
    };
    let mut standing = crate::agent::Events::new(rig.open(with_session(Method::GET)).await.into_body());
    assert_eq!(rig.send(with_session(Method::DELETE)).await.status, StatusCode::NO_CONTENT);
    assert_eq!(standing.next().await, None);
}

#[tokio::test]
async fn a_call_that_is_taken_back_is_taken_back_at_the_server() {
    for way in [Way::Session, Way::Line] {
        let (mut peer, rig) = fx().await;
        let mut agent = Agent::new(&rig, way, "a").await;
        let take_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let text = match way {
            Way::Line => {
                agent.write(&request_text(1, "tools/call", CALL)).await;
                let call = peer.next().await;
                agent.tell(&rig, take_back).await;
                check_told(&mut peer, &call.message["id"]).await;
                agent.read().await
            }
            Way::Session | Way::Stateless => {
                let waiting = rig.send(agent.http(1, "tools/call", CALL));
                let (answer, ()) = tokio::join!(waiting, async {
                    let call = peer.next().await;
                    // Another agent's request with the same id must not be cancelled.
                    let mut other = Agent::new(&rig, way, "other").await;
                    assert_eq!(other.tell(&rig, take_back).await, StatusCode::ACCEPTED);
                    assert_eq!(agent.tell(&rig, take_back).await, StatusCode::ACCEPTED);
                    check_told(&mut peer, &call.message["id"]).await;
                });
                answer.body
            }
        };
        let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the call was cancelled"}}"#;
        assert_eq!(text, expected, "{way:?}");
        assert_eq!(rig.records().await, ["call cancelled a fx:work read cancelled: the call was cancelled"]);
    }
}

async fn check_told(peer: &mut Peer, id: &serde_json::Value) {
    let told = peer.next().await;
    let params = json!({"requestId": id, "reason": "the agent no longer waits for the result"});
    assert_eq!(told.message, json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
}

/// Serves the gateway on a real socket, and signals when a request is dropped unanswered.
async fn listen(rig: &Rig) -> (std::net::SocketAddr, Arc<Notify>) {
    struct Bell(Arc<Notify>);
    impl Drop for Bell {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let dropped = Arc::new(Notify::new());
    let ring = Arc::clone(&dropped);
    let router = rig.router().layer(from_fn(move |request: Request, next: Next| {
        let bell = Bell(Arc::clone(&ring));
        async move {
            let response = next.run(request).await;
            std::mem::forget(bell);
            response
        }
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, dropped)
}

async fn dial(address: std::net::SocketAddr, token: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn hanging_up_takes_a_call_back_only_without_sessions() {
    let (mut peer, rig) = fx().await;
    let (address, dropped) = listen(&rig).await;
    let token = rig.token("a").await;

    let older = dial(address, &token, "", &request_text(1, "tools/call", CALL)).await;
    let call = peer.next().await;
    drop(older);
    within(dropped.notified()).await;
    call.answer_text("finished all the same").await;

    let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: call_tool_read\r\n";
    let body = request_text(2, "tools/call", &with_meta(CALL, "{}"));
    let newer = dial(address, &token, headers, &body).await;
    let call = peer.next().await;
    assert_eq!(call.method(), "tools/call", "the first call was not taken back");
    drop(newer);
    within(dropped.notified()).await;
    check_told(&mut peer, &call.message["id"]).await;
    assert_eq!(
        rig.records().await,
        ["call success a fx:work read -: -", "call cancelled a fx:work read cancelled: the call was cancelled"]
    );
}

/// `initialize` with capabilities, for a client that opens many sessions.
fn hello(capabilities: &str) -> String {
    let client = r#"{"name":"test","version":"1"}"#;
    let params = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{client}}}"#);
    request_text(0, "initialize", &params)
}

#[tokio::test]
async fn an_agent_that_opens_many_sessions_displaces_its_own_only() {
    let (_peer, rig) = fx().await;
    let (stranger, greedy) = (Agent::new(&rig, Way::Session, "stranger").await, rig.token("greedy").await);
    let mut ids = Vec::new();
    for _ in 0..102 {
        let answer = rig.send(post("/mcp", &greedy, &[], hello("{}"))).await;
        assert_eq!(answer.status, StatusCode::OK);
        ids.push(answer.headers["mcp-session-id"].to_str().unwrap().to_owned());
    }
    let status = async |token: &str, session: &str| {
        rig.send(post("/mcp", token, &[("mcp-session-id", session)], LIST)).await.status
    };
    let open = || rig.gateway.clients().iter().filter(|client| client.agent == "greedy").count();
    assert_eq!(open(), 100);
    // A session that left the memory returns with its id, and displaces another one of the same agent.
    for id in &ids[..3] {
        assert_eq!(status(&greedy, id).await, StatusCode::OK);
    }
    assert_eq!(open(), 100);
    assert_eq!(status(&stranger.token, stranger.session()).await, StatusCode::OK);
}

#[tokio::test]
async fn capabilities_and_subscriptions_have_a_size_limit() {
    let (_peer, rig) = fx().await;
    let token = rig.token("greedy").await;
    let large = format!(r#"{{"experimental":{{"x":"{}"}}}}"#, "x".repeat(16 * 1024));
    let answer = rig.send(post("/mcp", &token, &[], hello(&large))).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.body.contains("and the limit is 16384; send fewer"), "{}", answer.body);

    let agent = Agent::new(&rig, Way::Session, "subscriber").await;
    let subscribe = |uri: &str| agent.http(1, "resources/subscribe", &json!({"uri": uri}).to_string());
    let long = subscribe(&format!("mcpproxy://fx/memo://{}", "x".repeat(256 * 1024)));
    let answer = rig.send(long).await;
    assert_eq!((answer.status, &answer.headers["retry-after"]), (StatusCode::TOO_MANY_REQUESTS, &"1".parse().unwrap()));
    assert!(answer.body.contains(r#""code":"agent_limit""#), "{}", answer.body);
    assert_eq!(rig.send(subscribe("mcpproxy://fx/memo://short")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn streams_of_one_agent_are_limited_and_count_until_they_close() {
    let (_peer, rig) = fx().await;
    let agent = Agent::new(&rig, Way::Session, "greedy").await;
    let stream = || {
        let mut request = post("/mcp", &agent.token, &[("mcp-session-id", agent.session())], "");
        *request.method_mut() = Method::GET;
        request
    };
    let mut open = Vec::new();
    for _ in 0..128 {
        let response = rig.open(stream()).await;
        assert_eq!(response.status(), StatusCode::OK);
        open.push(response);
    }
    assert_eq!(rig.open(stream()).await.status(), StatusCode::TOO_MANY_REQUESTS);
    let other = Agent::new(&rig, Way::Session, "other").await;
    let mut of_other = post("/mcp", &other.token, &[("mcp-session-id", other.session())], "");
    *of_other.method_mut() = Method::GET;
    assert_eq!(rig.open(of_other).await.status(), StatusCode::OK);
    open.pop();
    assert_eq!(rig.open(stream()).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_new() {
    let (_peer, rig) = fx().await;
    let unknown = rig.send(post("/mcp", "mcp_unknown", &[], LIST)).await;
    assert_eq!(unknown.status, StatusCode::UNAUTHORIZED);
    let agent = Agent::new(&rig, Way::Session, "a").await;
    rig.revoke("a").await;
    let reached = async {
        while rig.send(agent.http(1, "tools/list", "{}")).await.status != StatusCode::UNAUTHORIZED {
            tokio::task::yield_now().await;
        }
    };
    within(reached).await;
}

/// A session id carries the session, so another gateway with the same database serves it, and so does one that restarted.
#[tokio::test]
async fn a_session_continues_on_another_gateway() {
    let (peer, rig) = fx().await;
    let there = rig.beside(settings([peer.settings("fx")])).await;
    let agent = Agent::at(&rig, Way::Session, "a", "/mcp", r#"{"elicitation":{"form":{}},"experimental":{}}"#).await;
    let other = rig.token("other").await;
    let send = async |rig: &Rig, method: Method, path: &str, token: &str| {
        let mut request = post(path, token, &[("mcp-session-id", agent.session())], LIST);
        *request.method_mut() = method;
        rig.open(request).await.status()
    };
    assert_eq!(send(&there, Method::POST, "/mcp", &other).await, StatusCode::NOT_FOUND, "another agent");
    assert_eq!(send(&there, Method::POST, "/mcp/s/fx", &agent.token).await, StatusCode::NOT_FOUND, "another endpoint");
    assert_eq!(there.gateway.clients().len(), 0, "refused ids leave nothing behind");
    assert_eq!(send(&there, Method::POST, "/mcp", &agent.token).await, StatusCode::OK);
    let clients = there.gateway.clients();
    assert_eq!(clients.len(), 1);
    let client = &clients[0];
    assert_eq!((client.agent.as_str(), client.client.as_deref()), ("a", Some("test 1")));
    assert_eq!((client.protocol.as_str(), client.elicitation), ("2025-11-25", true));

    rig.revoke("a").await;
    there.gateway.forget_tokens();
    assert_eq!(
        send(&there, Method::POST, "/mcp", &agent.token).await,
        StatusCode::UNAUTHORIZED,
        "no token, no session"
    );
}

#[tokio::test]
async fn a_session_that_ended_is_not_rebuilt() {
    let (peer, rig) = fx().await;
    let there = rig.beside(settings([peer.settings("fx")])).await;
    let agent = Agent::new(&rig, Way::Session, "a").await;
    let send = async |rig: &Rig, method: Method| {
        let mut request = post("/mcp", &agent.token, &[("mcp-session-id", agent.session())], LIST);
        *request.method_mut() = method;
        rig.open(request).await.status()
    };
    assert_eq!(send(&rig, Method::DELETE).await, StatusCode::NO_CONTENT);
    for rig in [&rig, &there] {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            assert_eq!(send(rig, method).await, StatusCode::NOT_FOUND);
        }
    }
}
