//! Limits per server: call timeouts and concurrent calls.

use std::time::Duration;

use futures::future::join_all;
use mcpproxy_core::settings::ServerSettings;
use mcpproxy_gateway::StateName;
use serde_json::json;

use crate::agent::{Agent, Events, Way, request_text, with_meta};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, post, settings, within};

async fn manual() -> Peer {
    Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)))).await
}

const WORK: &str = r#"{"name":"fx:work"}"#;

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_the_server_told() {
    let mut peer = manual().await;
    let server = ServerSettings { call_timeout: Duration::from_millis(200), ..peer.settings("fx") };
    let rig = Rig::start(settings([server])).await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let reply = agent.call(&rig, "call_tool_read", WORK).await.brief();
    assert_eq!(
        reply,
        "upstream_timeout The call to 'fx:work' failed: the server did not respond within 200 ms. The server may have run it, so check before you repeat the call."
    );
    let call = peer.next().await;
    let told = peer.next().await;
    let expected = json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": call.message["id"], "reason": "the agent no longer waits for the result"},
    });
    assert_eq!(told.message, expected);
    // An answer after the timeout is dropped.
    call.answer_text("too late").await;
    let (reply, ()) = tokio::join!(agent.call(&rig, "call_tool_read", WORK), async {
        peer.next().await.answer_text("in time").await;
    });
    assert_eq!(reply.brief(), "in time");
    assert_eq!(
        rig.records().await,
        [
            "call error a fx:work read upstream_timeout: the server did not respond within 200 ms; the server may have run the call",
            "call success a fx:work read -: -"
        ]
    );
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_their_turn() {
    let mut peer = manual().await;
    let rig = Rig::start(settings([ServerSettings { max_concurrent_calls: 2, ..peer.settings("fx") }])).await;
    let token = rig.token("a").await;
    let calls = (0..6).map(|id| {
        let params = format!(r#"{{"name":"call_tool_read","arguments":{{"name":"fx:work","args":{{"n":{id}}}}}}}"#);
        rig.send(post("/mcp", &token, &[], request_text(id, "tools/call", &params)))
    });
    let serve = async {
        let mut open = vec![peer.next().await, peer.next().await];
        for served in 2..6 {
            assert_eq!(peer.calls().len(), served, "a third call came while two were open");
            open.remove(0).answer_text("done").await;
            open.push(peer.next().await);
        }
        for call in open {
            call.answer_text("done").await;
        }
    };
    let (answers, ()) = tokio::join!(join_all(calls), serve);
    assert!(answers.iter().all(|answer| answer.body.contains("done")));
}

/// The agent's calls never end, and another agent's call to the same server is answered all the same.
#[tokio::test]
async fn slow_calls_of_one_agent_leave_a_slot_for_others() {
    let mut peer = manual().await;
    let rig = Rig::start(settings([ServerSettings { max_concurrent_calls: 4, ..peer.settings("fx") }])).await;
    let (greedy, other) = (rig.token("greedy").await, rig.token("other").await);
    let work = |token: &str, id: u64| {
        let params = format!(r#"{{"name":"call_tool_read","arguments":{{"name":"fx:work","args":{{"n":{id}}}}}}}"#);
        rig.send(post("/mcp", token, &[], request_text(id, "tools/call", &params)))
    };
    let serve = async {
        let slow = [peer.next().await, peer.next().await, peer.next().await];
        let (quick, ()) = tokio::join!(work(&other, 100), async {
            let call = peer.next().await;
            assert!(call.params().contains(r#""n":100"#), "a fourth slow call: {}", call.params());
            call.answer_text("quick").await;
        });
        assert!(quick.body.contains("quick"), "{}", quick.body);
        for call in slow {
            call.answer_text("slow").await;
        }
        for _ in 3..10 {
            peer.next().await.answer_text("slow").await;
        }
    };
    let (answers, ()) = tokio::join!(join_all((0..10).map(|id| work(&greedy, id))), serve);
    assert!(answers.iter().all(|answer| answer.body.contains("slow")));
}

/// A call that was sent must never look like one that was not. Otherwise an agent may send it again.
#[tokio::test]
async fn what_was_sent_times_out_and_what_was_not_is_busy() {
    let peer = manual().await;
    let server =
        ServerSettings { max_concurrent_calls: 1, call_timeout: Duration::from_millis(300), ..peer.settings("fx") };
    let rig = Rig::start(settings([server])).await;
    let token = rig.token("a").await;
    let calls = (0..8).map(|id| {
        let params = format!(r#"{{"name":"call_tool_read","arguments":{{"name":"fx:work","args":{{"n":{id}}}}}}}"#);
        rig.send(post("/mcp", &token, &[], request_text(id, "tools/call", &params)))
    });
    let answers = join_all(calls).await;
    rig.gateway.stop().await;
    let sent = peer.calls();
    assert!(!sent.is_empty());
    for (id, answer) in answers.iter().enumerate() {
        let was_sent = sent.iter().any(|params| params.contains(&format!(r#""n":{id}"#)));
        let (is_late, is_busy) = (answer.body.contains("upstream_timeout"), answer.body.contains("upstream_busy"));
        assert!(is_late || is_busy && !was_sent, "{id} was sent: {}", answer.body);
    }
}

#[tokio::test]
async fn a_changed_list_is_read_again_and_told_on() {
    let mut peer = manual().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut session = Agent::at(&rig, Way::Session, "session", "/mcp/s/fx", "{}").await;
    let mut get = post("/mcp/s/fx", &session.token, &[("mcp-session-id", session.session())], "");
    *get.method_mut() = http::Method::GET;
    let mut standing = Events::new(rig.open(get).await.into_body());
    let stateless = Agent::at(&rig, Way::Stateless, "stateless", "/mcp/direct", "{}").await;
    let wants = r#"{"notifications":{"toolsListChanged":true}}"#;
    let mut listening = stateless.stream(&rig, 7, "subscriptions/listen", wants).await;
    let acknowledged = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#;
    assert_eq!(listening.next().await.unwrap(), acknowledged);

    let new = format!("[{},{}]", tool("work", READ_ONLY), tool("extra", READ_ONLY));
    peer.rewrite(|script| script.tools = new.clone());
    let (reply, line) = tokio::join!(session.call(&rig, "work", "{}"), async {
        let call = peer.next().await;
        call.answer_text("done").await;
        call
    });
    assert_eq!(reply.brief(), "done");
    line.send(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#;
    assert_eq!(standing.next().await.unwrap(), changed);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#;
    assert_eq!(listening.next().await.unwrap(), changed);
    // An agent that reads the list after the notification gets the new list.
    assert_eq!(session.request(&rig, "tools/list", "{}").await.result(), format!(r#"{{"tools":{new}}}"#));
}

/// The agent of a parked call reads no messages. Messages for it must not block the server's connection.
#[tokio::test]
async fn an_agent_that_does_not_listen_delays_no_other() {
    let mut peer = manual().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let deaf = rig.token("deaf").await;
    let params = format!(r#"{{"name":"call_tool_read","arguments":{WORK},"_meta":{{"progressToken":"t"}}}}"#);
    let body = request_text(1, "tools/call", &with_meta(&params, r#"{"elicitation":{}}"#));
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "call_tool_read")];
    let (parked, call) = tokio::join!(rig.send(post("/mcp", &deaf, &headers, body)), async {
        let call = peer.next().await;
        let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Go on?","requestedSchema":{"type":"object","properties":{}}}}"#;
        call.send(question).await;
        call
    });
    assert!(parked.body.contains("input_required"), "{}", parked.body);
    let token = &call.message["params"]["_meta"]["progressToken"];
    for step in 0..500 {
        let params = json!({"progressToken": token, "progress": step});
        call.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string()).await;
    }
    let mut other = Agent::new(&rig, Way::Session, "other").await;
    let (reply, ()) = tokio::join!(other.call(&rig, "call_tool_read", WORK), async {
        peer.next().await.answer_text("done").await;
    });
    assert_eq!(reply.brief(), "done");
}

#[tokio::test]
async fn a_restart_on_request_is_a_new_process() {
    let peer = manual().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let old = rig.server("fx").pid;
    assert_eq!(rig.gateway.restart(&crate::rig::name("fx")), Ok(()));
    assert_eq!(rig.gateway.restart(&crate::rig::name("nope")), Err(mcpproxy_gateway::NotRestarted::NoServer));
    within(rig.until("fx", |status| status.state == StateName::Ready && status.pid != old)).await;
}
