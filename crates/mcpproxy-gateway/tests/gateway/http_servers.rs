//! Servers over HTTP: request headers, lost sessions and broken connections.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::{Method, StatusCode};
use mcpproxy_core::settings::ServerSettings;
use mcpproxy_gateway::StateName;
use tokio::sync::{Notify, mpsc};

use crate::agent::{Agent, WAYS, Way};
use crate::peer::{READ_ONLY, Script, Speaks, text_result, tool};
use crate::peer_http::{HttpPeer, Verdict, empty, events};
use crate::rig::{Rig, settings};

fn done(speaks: Speaks) -> Script {
    let mut script = Script::new(speaks, &format!("[{}]", tool("work", READ_ONLY)));
    script.call = |_| Some(text_result("done"));
    script
}

const WORK: &str = r#"{"name":"fx:work"}"#;

#[tokio::test]
async fn a_server_without_sessions_gets_its_headers() {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let writing = Arc::clone(&heard);
    let mut script = done(Speaks::Modern);
    script.tools = r#"[{"name":"work","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}},"annotations":{"readOnlyHint":true}}]"#.to_owned();
    let peer = HttpPeer::judged(
        script,
        Arc::new(move |parts, _| {
            let own = parts.headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-"));
            let mut own: Vec<String> =
                own.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
            own.sort();
            writing.lock().unwrap().push(own.join(", "));
            Verdict::Usual
        }),
    )
    .await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Stateless, "a").await;
    let arguments = r#"{"name":"fx:work","args":{"region":"é"}}"#;
    assert_eq!(agent.call(&rig, "call_tool_read", arguments).await.brief(), "done");
    let call = heard.lock().unwrap().pop().unwrap();
    let expected =
        "mcp-method: tools/call, mcp-name: work, mcp-param-region: =?base64?w6k=?=, mcp-protocol-version: 2026-07-28";
    assert_eq!(call, expected);
}

#[tokio::test]
async fn a_forgotten_session_is_opened_again_and_the_call_runs_once() {
    let current = Arc::new(Mutex::new("s1".to_owned()));
    let valid = Arc::clone(&current);
    let peer = HttpPeer::judged(
        done(Speaks::Legacy),
        Arc::new(move |parts, message| {
            let given = parts.headers.get("mcp-session-id").map(|value| value.to_str().unwrap().to_owned());
            let valid = valid.lock().unwrap().clone();
            match message["method"].as_str() {
                Some("initialize") => Verdict::With("mcp-session-id", valid),
                Some("server/discover") => Verdict::Usual,
                _ if given.as_ref() == Some(&valid) => Verdict::Usual,
                _ => Verdict::Instead(empty(StatusCode::NOT_FOUND)),
            }
        }),
    )
    .await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut expected = 0;
    for (round, way) in WAYS.into_iter().enumerate() {
        let mut agent = Agent::new(&rig, way, &format!("{way:?}")).await;
        *current.lock().unwrap() = format!("round-{round}");
        for _ in 0..2 {
            assert_eq!(agent.call(&rig, "call_tool_read", WORK).await.brief(), "done", "{way:?}");
            expected += 1;
            assert_eq!(peer.calls().len(), expected);
        }
    }
    assert_eq!(rig.records().await.len(), expected);
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_the_outcome_open() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let peer = HttpPeer::judged(
            done(speaks),
            Arc::new(|_, message| match message["method"].as_str() {
                Some("tools/call") => {
                    let broken = futures::stream::iter([
                        Ok(Bytes::from_static(b"{\"jsonrpc\"")),
                        Err(std::io::Error::other("the cable was cut")),
                    ]);
                    Verdict::Instead(
                        http::Response::builder()
                            .header("content-type", "application/json")
                            .body(Body::from_stream(broken))
                            .unwrap(),
                    )
                }
                _ => Verdict::Usual,
            }),
        )
        .await;
        let rig = Rig::start(settings([peer.settings("fx")])).await;
        let mut agent = Agent::new(&rig, Way::Session, "a").await;
        let found = agent.call(&rig, "call_tool_read", WORK).await.brief();
        let expected = "upstream_unavailable The call to 'fx:work' failed: the connection was lost before the server responded. The server may have run it, so check before you repeat the call.";
        assert_eq!(found, expected, "{speaks:?}");
        let records = rig.records().await;
        let [record] = records.as_slice() else { panic!("{records:?}") };
        assert!(record.starts_with("call error a fx:work read upstream_unavailable: "), "{record}");
        assert!(record.ends_with("; the server may have run the call"), "{record}");
    }
}

#[tokio::test]
async fn a_server_that_turns_us_away_waits_with_its_reason() {
    let check = async |status: StatusCode, reason: &str| {
        let peer = HttpPeer::judged(done(Speaks::Legacy), Arc::new(move |_, _| Verdict::Instead(empty(status)))).await;
        let rig = Rig::start(settings([peer.settings("fx")])).await;
        let found = rig.server("fx");
        assert_eq!((found.state, found.reason.as_deref()), (StateName::Waiting, Some(reason)), "{status}");
    };
    let unauthorized = "the server rejected the credentials (401 Unauthorized) and does not ask for a sign-in; check \
                        `headers` for this server, or try `mcpproxy servers login fx`";
    check(StatusCode::UNAUTHORIZED, unauthorized).await;
    check(
        StatusCode::FOUND,
        "the server redirects (302 Found), and mcpproxy does not follow redirects; set `url` to the final address",
    )
    .await;
    check(StatusCode::BAD_GATEWAY, "the server answered 502 Bad Gateway").await;
}

/// A server with sessions sends notifications on its standing stream. After a call timed out, they go to the next call
/// only.
#[tokio::test]
async fn a_call_given_up_no_longer_listens() {
    let (speak, spoken) = mpsc::unbounded_channel::<String>();
    let spoken = Arc::new(Mutex::new(Some(spoken)));
    let called = Arc::new(Notify::new());
    let calling = Arc::clone(&called);
    let listening = Arc::new(Notify::new());
    let opened = Arc::clone(&listening);
    let peer = HttpPeer::judged(
        done(Speaks::Legacy),
        Arc::new(move |parts, message| match (&parts.method, message["method"].as_str()) {
            (&Method::GET, _) => {
                opened.notify_one();
                let spoken = spoken.lock().unwrap().take();
                let following = futures::stream::unfold(spoken, |spoken| async move {
                    let mut spoken = spoken?;
                    let text = spoken.recv().await?;
                    Some((Ok::<_, std::io::Error>(format!("data: {text}\n\n")), Some(spoken)))
                });
                Verdict::Instead(events(Body::from_stream(following)))
            }
            (_, Some("tools/call")) => {
                calling.notify_one();
                Verdict::Instead(events(Body::from_stream(futures::stream::pending::<std::io::Result<Bytes>>())))
            }
            _ => Verdict::Usual,
        }),
    )
    .await;
    let server = ServerSettings { call_timeout: Duration::from_millis(300), ..peer.settings("fx") };
    let rig = Rig::start(settings([server])).await;
    crate::rig::within(listening.notified()).await;
    let mut agent = Agent::new(&rig, Way::Session, "first").await;
    assert!(agent.call(&rig, "call_tool_read", WORK).await.brief().starts_with("upstream_timeout"));
    called.notified().await;
    let params = r#"{"name":"call_tool_read","arguments":{"name":"fx:work"}}"#;
    let said = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"now"}}"#;
    let (mut stream, ()) = tokio::join!(agent.stream(&rig, 1, "tools/call", params), async {
        crate::rig::within(called.notified()).await;
        speak.send(said.to_owned()).unwrap();
    });
    assert_eq!(stream.next().await.unwrap(), said);
}
