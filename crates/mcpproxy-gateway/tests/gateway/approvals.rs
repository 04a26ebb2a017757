//! Approvals of single calls: each covers exactly one call of one agent, once, and expires.

use std::time::Duration;

use futures::future::join_all;
use mcpproxy_core::settings::ApprovalSettings;
use mcpproxy_core::{Agent as Identity, ApprovalId, ApprovalState, Scope};
use mcpproxy_gateway::NotDecided;
use serde_json::{Value, json};

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, HIGH, OTHER_ARGS, SAME_ARGS, Stage, never_held, send, with_approval};
use crate::rig::within;

const NOT_THERE: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

async fn stage() -> (Stage, Agent) {
    let stage = Stage::new(HIGH, never_held()).await;
    let agent = Agent::new(&stage.rig, Way::Session, "a").await;
    (stage, agent)
}

#[tokio::test]
async fn an_agent_learns_how_a_user_can_approve() {
    for way in [Way::Session, Way::Stateless, Way::Line] {
        let stage = Stage::new(HIGH, never_held()).await;
        let mut agent = Agent::new(&stage.rig, way, "a").await;
        let got = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
        let id = got.id();
        let found = stage.find(&id).await;
        let url = format!("http://localhost:8080/ui/approvals/{id}");
        let expires_at = got.details()["expires_at"].as_str().unwrap().to_owned();
        let in_ms = expires_at.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        assert_eq!(in_ms, found.expires_ms, "{way:?}");
        assert_eq!(found.expires_ms - found.created_ms, 600_000);
        let message = format!(
            "A user must approve this call of 'fx:send' (risk level high). Ask the user to open \
             {url}. Then repeat exactly this call with approval_id={id}. Do not change the arguments."
        );
        let details = json!({
            "tool": "fx:send", "risk_level": "high", "needs": ["confirmation"], "approval_id": id.as_str(), "approve_url": url,
            "expires_at": expires_at, "side_effects": ["A mail leaves."],
            "retry": {"same_call": true, "add": {"approval_id": id.as_str()}},
        });
        let error = json!({"code": "confirmation_required", "message": message, "details": details});
        assert_eq!(got.result()["structuredContent"]["error"], error, "{way:?}");
        assert_eq!((got.text(), &got.result()["isError"]), (message.as_str(), &Value::from(true)));
        assert_eq!(stage.sent(), [""; 0], "{way:?}");
    }
}

#[tokio::test]
async fn what_was_approved_is_what_is_sent_once() {
    for (name, retry) in [("same", ARGS), ("other words", SAME_ARGS)] {
        let (stage, mut agent) = stage().await;
        let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
        let named = send(retry, &with_approval(&id));
        assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "confirmation_required", "{name}");
        stage.approve(&id).await.unwrap();
        assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "sent", "{name}");
        assert_eq!(stage.sent(), [ARGS], "{name}: the bytes that a user saw");
        let used = Got::of(&mut agent, &stage.rig, &named).await;
        let record = stage.find(&id).await.record.unwrap().to_string();
        assert_eq!(used.code(), "approval_already_used");
        assert_eq!(used.details(), &json!({"record": record, "outcome": "success"}));
        assert_eq!(stage.sent().len(), 1, "{name}");
    }
}

/// An agent need not repeat the approval id. The gateway finds the approval by the call.
#[tokio::test]
async fn an_approved_call_without_the_id_runs_too() {
    let (stage, mut agent) = stage().await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    stage.approve(&id).await.unwrap();
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(SAME_ARGS, "")).await.code(), "sent");
    assert_eq!((stage.sent(), stage.state(&id).await), (vec![ARGS.to_owned()], ApprovalState::Consumed));
    let next = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
    assert_eq!(next.code(), "confirmation_required");
    assert_ne!(next.id(), id, "the next one is another question");
}

/// An approval covers one call of one agent. Each call here differs from that call or names another id, and is refused.
#[tokio::test]
async fn an_approval_of_one_call_does_not_cover_another() {
    let (stage, mut agent) = stage().await;
    let mut other = Agent::new(&stage.rig, Way::Session, "b").await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    for decided in [false, true] {
        if decided {
            stage.approve(&id).await.unwrap();
        }
        let id = with_approval(&id);
        let destructive = send(ARGS, &id).replace("call_tool_write", "call_tool_destructive");
        let cases = [
            ("other arguments", send(OTHER_ARGS, &id), "approval_args_mismatch"),
            ("more arguments", send(r#"{"to":"ada","body":"hello","n":1}"#, &id), "approval_args_mismatch"),
            ("another variant", destructive, "approval_args_mismatch"),
            ("an id nobody has", send(ARGS, &format!(r#","approval_id":"{NOT_THERE}""#)), "approval_not_found"),
            ("no id at all", send(ARGS, r#","approval_id":"x""#), "approval_not_found"),
        ];
        for (name, params, expected) in cases {
            assert_eq!(Got::of(&mut agent, &stage.rig, &params).await.code(), expected, "{name} {decided}");
        }
        let stolen = Got::of(&mut other, &stage.rig, &send(ARGS, &id)).await;
        assert_eq!(stolen.code(), "approval_not_found", "another agent's {decided}");
        assert_eq!(stage.sent(), [""; 0], "{decided}");
    }
    assert_eq!(stage.state(&id).await, ApprovalState::Approved, "and it is still there for its own");
    let escaped = send(r#"{"to":"ada","body":"hell\u006f"}"#, &with_approval(&id));
    assert_eq!(Got::of(&mut agent, &stage.rig, &escaped).await.code(), "sent");
    assert_eq!(stage.sent(), [ARGS]);
}

#[tokio::test]
async fn an_approval_for_one_tool_does_not_cover_another() {
    let mut script = crate::peer::Script::new(
        crate::peer::Speaks::Legacy,
        &format!("[{},{}]", crate::asked::SEND, crate::asked::SEND.replace(r#""send""#, r#""erase""#)),
    );
    script.call = |_| Some(crate::peer::text_result("sent"));
    let contract = "riskLevel: high\n---\ntool: fx:erase\nriskLevel: high";
    let stage = Stage::with(script, contract, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    stage.approve(&id).await.unwrap();
    let erase = send(ARGS, &with_approval(&id)).replace("fx:send", "fx:erase");
    assert_eq!(Got::of(&mut agent, &stage.rig, &erase).await.code(), "approval_not_found");
    assert_eq!(stage.sent(), [""; 0]);
}

#[tokio::test]
async fn fifty_retries_of_an_approved_call_reach_the_server_once() {
    let (stage, mut agent) = stage().await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    stage.approve(&id).await.unwrap();
    let twice = stage.approve(&id).await;
    assert_eq!(twice, Err(NotDecided::Over(ApprovalState::Approved)), "approving again gives no second call");
    // Half of the attempts name the approval. The other half only repeat the call.
    let params = [send(ARGS, &with_approval(&id)), send(SAME_ARGS, "")];
    let tries = (0..50).map(|n: usize| stage.rig.send(agent.http(1, "tools/call", &params[n % 2])));
    let answers = within(join_all(tries)).await;
    let sent = answers.iter().filter(|answer| answer.body.contains(r#""text":"sent""#)).count();
    assert_eq!((sent, stage.sent()), (1, vec![ARGS.to_owned()]));
    for answer in answers {
        let got = Got(serde_json::from_str(&answer.body).unwrap());
        let is_known = ["sent", "approval_already_used", "confirmation_required"].contains(&got.code().as_str());
        assert!(is_known, "{}", got.0);
    }
}

/// A denied call is refused with the user's comment, even if the user approved it before.
#[tokio::test]
async fn ends_that_let_nothing_through() {
    for approved_first in [false, true] {
        let (stage, mut agent) = stage().await;
        let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
        if approved_first {
            stage.approve(&id).await.unwrap();
        }
        stage.deny(&id, Some("  use the\nother list  ")).await.unwrap();
        let got = Got::of(&mut agent, &stage.rig, &send(ARGS, &with_approval(&id))).await;
        assert_eq!(
            (got.code(), got.details()),
            ("approval_denied".to_owned(), &json!({"comment": "use the\nother list", "decided_by": "ada"}))
        );
        assert!(got.text().contains("other list"), "{}", got.text());
        assert_eq!(stage.approve(&id).await, Err(NotDecided::Over(ApprovalState::Denied)));
        assert_eq!((stage.sent(), stage.find(&id).await.args), (Vec::new(), None), "and the bytes are gone");
    }
    let (stage, mut agent) = stage().await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    stage.deny(&id, None).await.unwrap();
    let got = Got::of(&mut agent, &stage.rig, &send(ARGS, &with_approval(&id))).await;
    assert_eq!(
        (got.code(), got.details()),
        ("approval_denied".to_owned(), &json!({"comment": null, "decided_by": "ada"}))
    );
}

#[tokio::test]
async fn an_approval_ends_with_its_time() {
    for approved_first in [false, true] {
        let (stage, mut agent, id) = short_request(approved_first).await;
        // The approval request is expired from then on. Its record follows.
        let expired = async {
            let mut changed = stage.rig.gateway.approvals().changed();
            while stage.state(&id).await != ApprovalState::Expired {
                changed.changed().await.unwrap();
            }
        };
        within(expired).await;
        let got = Got::of(&mut agent, &stage.rig, &send(ARGS, &with_approval(&id))).await;
        assert_eq!(got.code(), "approval_expired", "{approved_first}");
        assert_eq!(stage.approve(&id).await, Err(NotDecided::Over(ApprovalState::Expired)));
        assert_eq!((stage.sent(), stage.find(&id).await.args), (Vec::new(), None));
    }
}

/// Makes an approval request that expires soon. If it expires before it can be approved, because the machine is slow,
/// the next one has twice the time.
async fn short_request(approve: bool) -> (Stage, Agent, ApprovalId) {
    for expire in [400, 800, 1_600, 3_200, 6_400].map(Duration::from_millis) {
        let stage = Stage::new(HIGH, ApprovalSettings { expire, ..never_held() }).await;
        let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
        let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
        if !approve {
            return (stage, agent, id);
        }
        match stage.approve(&id).await {
            Ok(_) => return (stage, agent, id),
            Err(NotDecided::Over(ApprovalState::Expired)) => {}
            Err(other) => panic!("not approved: {other:?}"),
        }
    }
    panic!("no request could be approved before its end");
}

#[tokio::test]
async fn identical_calls_share_one_request_and_an_agent_has_twenty_at_most() {
    let (stage, mut agent) = stage().await;
    let call = |n: usize| send(&format!(r#"{{"to":"ada","n":{n}}}"#), "");
    let first = Got::of(&mut agent, &stage.rig, &call(0)).await.id();
    let again = stage.rig.send(agent.http(1, "tools/call", &call(0)));
    let more = (0..10).map(|_| stage.rig.send(agent.http(1, "tools/call", &call(0))));
    for answer in within(join_all(more.chain([again]))).await {
        assert_eq!(Got(serde_json::from_str(&answer.body).unwrap()).id(), first);
    }
    // Send twenty calls at once where only nineteen fit.
    let many = (1..=20).map(|n| stage.rig.send(agent.http(1, "tools/call", &call(n)))).collect::<Vec<_>>();
    let answers = within(join_all(many)).await;
    let codes = answers.iter().map(|answer| Got(serde_json::from_str(&answer.body).unwrap()).code());
    let refused = codes.filter(|code| code == "too_many_approvals").count();
    assert_eq!((refused, stage.rig.store.count_pending().await.unwrap()), (1, 20));
    let got = Got::of(&mut agent, &stage.rig, &call(99)).await;
    assert_eq!((got.code(), got.details()), ("too_many_approvals".to_owned(), &json!({"pending_max": 20})));
    assert_eq!(Got::of(&mut agent, &stage.rig, &call(0)).await.id(), first, "an open one is found all the same");
    let mut other = Agent::new(&stage.rig, Way::Session, "b").await;
    assert_eq!(Got::of(&mut other, &stage.rig, &call(99)).await.code(), "confirmation_required");
    // A decided approval request makes room for another.
    stage.deny(&first, None).await.unwrap();
    assert_eq!(Got::of(&mut agent, &stage.rig, &call(99)).await.code(), "confirmation_required");
}

#[tokio::test]
async fn calls_of_headless_agents_are_not_held() {
    let stage = Stage::new(HIGH, crate::asked::held()).await;
    let scope = Scope { headless: true, ..Scope::everything() };
    for (name, capabilities) in [("plain", "{}"), ("forms", r#"{"elicitation":{"form":{},"url":{}}}"#)] {
        for way in [Way::Session, Way::Stateless] {
            let identity = Identity { name: format!("{name}-{way:?}"), scope: scope.clone() };
            let mut agent = Agent::with(&stage.rig, way, identity, "/mcp", capabilities).await;
            let got = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
            assert_eq!(got.code(), "confirmation_required", "{name} {way:?}: at once");
            let found = stage.find(&got.id()).await;
            assert_eq!(found.expires_ms - found.created_ms, 24 * 60 * 60 * 1000);
            // The approval request may stay pending for a day. The approval itself is valid for ten minutes.
            let given = stage.approve(&found.id).await.unwrap();
            assert_eq!(given.expires_ms - given.decided_ms.unwrap(), 600_000);
            let named = send(ARGS, &with_approval(&found.id));
            assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "sent", "{name} {way:?}");
        }
    }
}

#[tokio::test]
async fn what_a_page_needs_is_there() {
    let contract = "riskLevel: high\nsensitive: [/body]\ncategory: mail\npermissions: [mail:send]\nsideEffects: [A mail leaves.]\nauditEvent: mail.sent";
    let stage = Stage::new(contract, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let reason = r#","intent":{"operation_type":"write","data_sensitivity":"private","reason":"the user wants it"}"#;
    let first = Got::of(&mut agent, &stage.rig, &send(ARGS, reason)).await.id();
    let view = async |id: &ApprovalId| stage.rig.gateway.approvals().find(id).await.unwrap().unwrap();
    let seen = view(&first).await;
    assert_eq!(seen.approval.shown_args.for_json(), r#"{"to":"ada","body":"***"}"#);
    let expected = json!({
        "description": "Sends.", "category": "mail", "side_effects": ["A mail leaves."], "audit_event": "mail.sent",
        "permissions": ["mail:send"], "asked_by": ["contract risk level high (contracts/test.yaml:2)"], "needs_step_up": false,
        "call_with": "call_tool_write", "reason": "the user wants it", "sensitivity": "private",
        // Only the server has described the tool.
        "said_by": {"description": "server", "risk": "operator", "side_effects": "operator", "audit_event": "operator",
            "permissions": "operator"},
        "hidden": {"body": mcpproxy_core::Hidden::mark(&first, "\"hello\"").to_string()},
    });
    assert_eq!(serde_json::from_str::<Value>(seen.approval.about.for_json()).unwrap(), expected);
    assert_eq!((seen.previous, seen.dry_run), (None, None));
    assert_eq!(seen.url, format!("http://localhost:8080/ui/approvals/{first}"));
    assert_eq!(seen.approval.client.as_ref().unwrap().for_json(), "test 1");
    assert_eq!(seen.args_for_user.for_json(), ARGS);
    // The approved call still has its arguments, but no page shows them.
    stage.approve(&first).await.unwrap();
    let approved = view(&first).await;
    assert_eq!((approved.approval.state, approved.approval.args), (ApprovalState::Approved, None));
    assert_eq!(approved.args_for_user, approved.approval.shown_args);
    assert_eq!(stage.find(&first).await.args.as_deref(), Some(ARGS));
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent");
    // The next approval request for this tool and agent shows the last approved call. Another agent's does not.
    let second = Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, "")).await.id();
    assert_eq!(view(&second).await.previous.unwrap().id, first);
    // The page of a decided request stays as it was, also after its own call was made.
    stage.approve(&second).await.unwrap();
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, "")).await.code(), "sent");
    let used = view(&second).await;
    assert_eq!((used.approval.state, used.previous.unwrap().id), (ApprovalState::Consumed, first.clone()));
    assert_eq!((used.ran, view(&first).await.previous), (Some(mcpproxy_store::Status::Success), None));
    let mut other = Agent::new(&stage.rig, Way::Session, "b").await;
    let third = Got::of(&mut other, &stage.rig, &send(OTHER_ARGS, "")).await.id();
    assert_eq!(view(&third).await.previous, None);
}
