//! Notifications and requests of a server during a call: they reach the call's agent, in the agent's protocol revision.

use serde_json::{Value, json};

use crate::agent::{ALL_CAPABILITIES, Agent, Reply, Way, request_text, split_record};
use crate::peer::{Heard, Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, settings};

const CALL: &str = r#"{"name":"call_tool_read","arguments":{"name":"fx:work","args":{"n":1}}}"#;
const FORM: &str = r#"{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"x-new":1.0}"#;
const ACCEPTED: &str = r#"{"action":"accept","content":{"name":"Ada"}}"#;

async fn fx(speaks: Speaks) -> (Peer, Rig) {
    let peer = Peer::new(Script::new(speaks, &format!("[{}]", tool("work", READ_ONLY)))).await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    (peer, rig)
}

async fn ask(call: &Heard) {
    call.send(&format!(r#"{{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{FORM}}}"#)).await;
}

#[tokio::test]
async fn progress_goes_to_its_own_agent_under_its_own_token() {
    for way in [Way::Session, Way::Stateless] {
        let (mut peer, rig) = fx(Speaks::Legacy).await;
        let params = r#"{"name":"call_tool_read","arguments":{"name":"fx:work"},"_meta":{"progressToken":"t"}}"#;
        let mut streams = Vec::new();
        for (name, step) in [("a", 1), ("b", 2)] {
            let agent = Agent::new(&rig, way, name).await;
            let (stream, call) = tokio::join!(agent.stream(&rig, 1, "tools/call", params), async {
                let call = peer.next().await;
                say_progress(&call, step).await;
                call
            });
            streams.push((stream, call));
        }
        let tokens: Vec<&Value> = streams.iter().map(|(_, call)| &call.message["params"]["_meta"]).collect();
        assert_ne!(tokens[0], tokens[1], "the server must be able to tell them apart");
        for (step, (stream, call)) in (1..).zip(&mut streams) {
            say_progress(call, step * 10).await;
            call.answer_text("done").await;
            for expected in [step, step * 10] {
                let expected = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"t","progress":{expected},"x-new":1.0}}}}"#
                );
                assert_eq!(stream.next().await.unwrap(), expected, "{way:?}");
            }
            assert!(stream.next().await.unwrap().contains(r#""result""#));
            assert_eq!(stream.next().await, None);
        }
    }
}

async fn say_progress(call: &Heard, step: i32) {
    let token = &call.message["params"]["_meta"]["progressToken"];
    let params = format!(r#"{{"progressToken":{token},"progress":{step},"x-new":1.0}}"#);
    call.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)).await;
}

#[tokio::test]
async fn a_server_request_reaches_an_agent_with_a_session() {
    let (mut peer, rig) = fx(Speaks::Legacy).await;
    let mut agent = Agent::at(&rig, Way::Session, "a", "/mcp", ALL_CAPABILITIES).await;
    let (mut stream, call) = tokio::join!(agent.stream(&rig, 1, "tools/call", CALL), async {
        let call = peer.next().await;
        ask(&call).await;
        call
    });
    let asked = stream.next().await.unwrap();
    assert_eq!(
        asked,
        format!(r#"{{"jsonrpc":"2.0","id":"mcpproxy-1","method":"elicitation/create","params":{FORM}}}"#)
    );
    let answer = format!(r#"{{"jsonrpc":"2.0","id":"mcpproxy-1","result":{ACCEPTED}}}"#);
    // Another agent cannot answer the server's request.
    let mut other = Agent::at(&rig, Way::Session, "other", "/mcp", ALL_CAPABILITIES).await;
    assert_eq!(other.tell(&rig, &answer).await, http::StatusCode::BAD_REQUEST);
    assert_eq!(agent.tell(&rig, &answer).await, http::StatusCode::ACCEPTED);
    assert_eq!(agent.tell(&rig, &answer).await, http::StatusCode::BAD_REQUEST, "a question is answered once");
    check_answered(&mut peer, ACCEPTED).await;
    call.answer_text("Hello Ada").await;
    assert!(stream.next().await.unwrap().contains("Hello Ada"));
    assert_eq!(rig.records().await, ["call success a fx:work read -: -"]);
}

async fn check_answered(peer: &mut Peer, result: &str) {
    let expected = format!(r#"{{"jsonrpc":"2.0","id":"q1","result":{result}}}"#);
    assert_eq!(peer.next().await.text, expected);
}

#[tokio::test]
async fn a_server_request_reaches_an_agent_on_stdio() {
    let (mut peer, rig) = fx(Speaks::Legacy).await;
    let mut agent = Agent::at(&rig, Way::Line, "a", "/mcp", ALL_CAPABILITIES).await;
    agent.write(&request_text(1, "tools/call", CALL)).await;
    let call = peer.next().await;
    ask(&call).await;
    let asked = agent.read().await;
    assert_eq!(
        asked,
        format!(r#"{{"jsonrpc":"2.0","id":"mcpproxy-1","method":"elicitation/create","params":{FORM}}}"#)
    );
    agent.write(&format!(r#"{{"jsonrpc":"2.0","id":"mcpproxy-1","result":{ACCEPTED}}}"#)).await;
    check_answered(&mut peer, ACCEPTED).await;
    call.answer_text("Hello Ada").await;
    assert!(agent.read().await.contains("Hello Ada"));
}

#[tokio::test]
async fn a_server_gets_an_error_if_the_agent_cannot_answer() {
    for way in [Way::Session, Way::Stateless, Way::Line] {
        let (mut peer, rig) = fx(Speaks::Legacy).await;
        let mut agent = Agent::new(&rig, way, "a").await;
        let (reply, ()) = tokio::join!(agent.request(&rig, "tools/call", CALL), async {
            let call = peer.next().await;
            ask(&call).await;
            let error = json!({"code": -32601, "message": "the agent of this call does not support elicitation"});
            assert_eq!(peer.next().await.message, json!({"jsonrpc": "2.0", "id": "q1", "error": error}));
            call.answer_text("without a name").await;
        });
        assert_eq!(reply.brief(), "without a name", "{way:?}");
    }
}

#[tokio::test]
async fn a_server_request_with_several_open_calls_fails() {
    let (mut peer, rig) = fx(Speaks::Legacy).await;
    let mut one = Agent::at(&rig, Way::Session, "one", "/mcp", ALL_CAPABILITIES).await;
    let mut two = Agent::at(&rig, Way::Session, "two", "/mcp", ALL_CAPABILITIES).await;
    let serve = async {
        let calls = [peer.next().await, peer.next().await];
        ask(&calls[0]).await;
        let message = "several calls are running, so it is unclear which agent to ask";
        let error = json!({"code": -32603, "message": message});
        assert_eq!(peer.next().await.message, json!({"jsonrpc": "2.0", "id": "q1", "error": error}));
        for call in calls {
            call.answer_text("done").await;
        }
    };
    let (one, two, ()) =
        tokio::join!(one.request(&rig, "tools/call", CALL), two.request(&rig, "tools/call", CALL), serve);
    assert_eq!((one.brief(), two.brief()), ("done".to_owned(), "done".to_owned()));
}

/// Builds the retry that resumes a parked call.
fn retry(call: &str, state: &str, response: &str) -> String {
    let call = call.strip_suffix('}').unwrap();
    format!(r#"{call},"inputResponses":{{"question":{response}}},"requestState":"{state}"}}"#)
}

#[tokio::test]
async fn an_agent_without_a_session_is_asked_by_a_result_and_answers_by_a_retry() {
    let (mut peer, rig) = fx(Speaks::Legacy).await;
    let mut agent = Agent::at(&rig, Way::Stateless, "a", "/mcp", ALL_CAPABILITIES).await;
    let (parked, call) = tokio::join!(rig.send(agent.http(1, "tools/call", CALL)), async {
        let call = peer.next().await;
        ask(&call).await;
        call
    });
    let message: Value = serde_json::from_str(&parked.body).unwrap();
    let state = message["result"]["requestState"].as_str().unwrap();
    let question = format!(r#"{{"question":{{"method":"elicitation/create","params":{FORM}}}}}"#);
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"input_required","inputRequests":{question},"requestState":"{state}"}}}}"#
    );
    assert_eq!(parked.body, expected);

    let error = r#"{"code":-32602,"message":"this requestState is unknown, used or expired; call again without it"}"#;
    let refused = || Reply::Error(error.to_owned());
    let mut other = Agent::at(&rig, Way::Stateless, "other", "/mcp", ALL_CAPABILITIES).await;
    let stolen = other.request(&rig, "tools/call", &retry(CALL, state, ACCEPTED)).await;
    assert_eq!(stolen, refused(), "another agent cannot answer");
    let changed = retry(&CALL.replace(r#""n":1"#, r#""n":2"#), state, ACCEPTED);
    assert_eq!(agent.request(&rig, "tools/call", &changed).await, refused(), "what goes on is what was asked about");
    let params = retry(CALL, state, ACCEPTED);
    let (reply, ()) = tokio::join!(agent.request(&rig, "tools/call", &params), async {
        check_answered(&mut peer, ACCEPTED).await;
        call.answer_text("Hello Ada").await;
    });
    assert_eq!(reply.brief(), "Hello Ada");
    assert_eq!(agent.request(&rig, "tools/call", &params).await, refused(), "an answer is used once");
    assert_eq!(peer.calls().len(), 1);
    assert_eq!(rig.records().await, ["call success a fx:work read -: -"]);
}

#[tokio::test]
async fn an_input_required_result_is_bridged_to_an_agent_with_a_session() {
    let (mut peer, rig) = fx(Speaks::Modern).await;
    let mut agent = Agent::at(&rig, Way::Session, "a", "/mcp", ALL_CAPABILITIES).await;
    let (mut stream, ()) = tokio::join!(agent.stream(&rig, 1, "tools/call", CALL), async {
        let call = peer.next().await;
        assert!(
            call.params()
                .contains(r#""io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{}}"#)
        );
        call.answer(&input_required()).await;
    });
    let asked = stream.next().await.unwrap();
    assert_eq!(
        asked,
        format!(r#"{{"jsonrpc":"2.0","id":"mcpproxy-1","method":"elicitation/create","params":{FORM}}}"#)
    );
    agent.tell(&rig, &format!(r#"{{"jsonrpc":"2.0","id":"mcpproxy-1","result":{ACCEPTED}}}"#)).await;
    let (last, ()) = tokio::join!(stream.next(), async {
        let again = peer.next().await;
        let expected = format!(
            r#"{{"name":"work","arguments":{{"n":1}},"inputResponses":{{"who":{ACCEPTED}}},"requestState":"s\u00e9","_meta":"#
        );
        assert!(again.params().starts_with(&expected), "{}", again.params());
        again.answer(r#"{"content":[{"type":"text","text":"Hello Ada"}],"resultType":"complete"}"#).await;
    });
    let expected = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Hello Ada"}]}}"#;
    assert_eq!(split_record(&last.unwrap()).0, expected);
    assert_eq!(rig.records().await, ["call success a fx:work read -: -"]);
}

fn input_required() -> String {
    format!(
        r#"{{"resultType":"input_required","inputRequests":{{"who":{{"method":"elicitation/create","params":{FORM}}}}},"requestState":"s\u00e9"}}"#
    )
}

#[tokio::test]
async fn between_stateless_peers_an_input_request_passes_unchanged() {
    let (mut peer, rig) = fx(Speaks::Modern).await;
    let agent = Agent::at(&rig, Way::Stateless, "a", "/mcp", ALL_CAPABILITIES).await;
    let (answer, ()) = tokio::join!(rig.send(agent.http(1, "tools/call", CALL)), async {
        peer.next().await.answer(&input_required()).await;
    });
    assert_eq!(split_record(&answer.body).0, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, input_required()));
    let params = CALL.strip_suffix('}').unwrap();
    let params = format!(r#"{params},"inputResponses":{{"who":{ACCEPTED}}},"requestState":"s\u00e9"}}"#);
    let (answer, ()) = tokio::join!(rig.send(agent.http(1, "tools/call", &params)), async {
        let again = peer.next().await;
        let expected = format!(
            r#"{{"name":"work","arguments":{{"n":1}},"inputResponses":{{"who":{ACCEPTED}}},"requestState":"s\u00e9","#
        );
        assert!(again.params().starts_with(&expected), "{}", again.params());
        again.answer(r#"{"content":[],"resultType":"complete"}"#).await;
    });
    let expected = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}"#;
    assert_eq!(split_record(&answer.body).0, expected);
}
