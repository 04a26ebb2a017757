//! The pipe to a server process: messages are written whole, and closing it ends every waiting call.

use futures::future::join_all;

use crate::agent::{Agent, Way};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, post, settings, within};

/// Number and size of calls. Each is far larger than a pipe's buffer.
const CALLS: usize = 6;
const ARGUMENT_BYTES: usize = 1_000_000;

async fn fx() -> (Peer, Rig) {
    let peer = Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)))).await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    (peer, rig)
}

#[tokio::test]
async fn a_message_is_whole_or_absent() {
    let (mut peer, rig) = fx().await;
    peer.read(false);
    let agent = Agent::new(&rig, Way::Session, "a").await;
    let arguments = format!(r#"{{"text":"{}"}}"#, "x".repeat(ARGUMENT_BYTES));
    let params = format!(r#"{{"name":"call_tool_read","arguments":{{"name":"fx:work","args":{arguments}}}}}"#);
    let calls = (0..CALLS as u64).map(|id| rig.send(agent.http(id, "tools/call", &params)));
    let calls = join_all(calls);
    // A request can only be cancelled once it has started, so cancel in a loop until all calls have ended.
    let take_back = async {
        loop {
            for id in 0..CALLS {
                let text =
                    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
                rig.send(post("/mcp", &agent.token, &[("mcp-session-id", agent.session())], text)).await;
            }
            tokio::task::yield_now().await;
        }
    };
    let answers = tokio::select! {
        answers = within(calls) => answers,
        () = take_back => unreachable!("it goes on until all calls have ended"),
    };
    assert!(answers.iter().all(|answer| answer.body.contains("the call was cancelled")));
    peer.read(true);
    // Two messages on one line are invalid JSON, at which the peer would stop.
    let mut other = Agent::new(&rig, Way::Session, "other").await;
    let (reply, ()) = tokio::join!(other.call(&rig, "call_tool_read", r#"{"name":"fx:work"}"#), async {
        loop {
            let heard = peer.next().await;
            if heard.method() == "tools/call" && heard.text.len() < ARGUMENT_BYTES {
                return heard.answer_text("done").await;
            }
        }
    });
    assert_eq!(reply.brief(), "done");
}

#[tokio::test]
async fn a_gateway_that_stops_ends_its_calls() {
    let (mut peer, rig) = fx().await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let (reply, ()) = tokio::join!(agent.call(&rig, "call_tool_read", r#"{"name":"fx:work"}"#), async {
        peer.next().await;
        within(rig.gateway.stop()).await;
    });
    let expected = "upstream_unavailable The call to 'fx:work' failed: the connection was lost before the server responded. The server may have run it, so check before you repeat the call.";
    assert_eq!(reply.brief(), expected);
    let expected =
        "call error a fx:work read upstream_unavailable: the connection was closed; the server may have run the call";
    assert_eq!(rig.records().await, [expected]);
}

/// A server that does not read its input cannot block the shutdown of the gateway.
#[tokio::test]
async fn a_full_line_does_not_keep_a_gateway_from_stopping() {
    let (peer, rig) = fx().await;
    peer.read(false);
    let agent = Agent::new(&rig, Way::Session, "a").await;
    let arguments = format!(r#"{{"text":"{}"}}"#, "x".repeat(ARGUMENT_BYTES));
    let params = format!(r#"{{"name":"call_tool_read","arguments":{{"name":"fx:work","args":{arguments}}}}}"#);
    let calls = (0..CALLS as u64).map(|id| rig.send(agent.http(id, "tools/call", &params)));
    let (answers, ()) = tokio::join!(join_all(calls), async {
        tokio::task::yield_now().await;
        within(rig.gateway.stop()).await;
    });
    assert_eq!(answers.len(), CALLS);
}
