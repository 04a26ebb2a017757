//! Held calls: a decision or a shutdown releases them, agents receive progress, and the approval request survives.

use std::time::Duration;

use mcpproxy_core::ApprovalState;
use mcpproxy_core::settings::ApprovalSettings;
use mcpproxy_store::{Kind, VerifyOptions};
use serde_json::{Value, json};

use crate::agent::{Agent, Way, request_text};
use crate::asked::{ARGS, Got, HIGH, OTHER_ARGS, Person, Stage, decided, files, held, never_held, send, with_approval};
use crate::rig::{Rig, within};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Approved,
    Denied,
    /// The gateway stops.
    Stopped,
}

#[tokio::test]
async fn a_held_call_is_let_go_by_a_decision_or_by_the_end() {
    for way in [Way::Session, Way::Stateless, Way::Line] {
        for (release, expected) in [
            (Release::Approved, "sent"),
            (Release::Denied, "approval_denied"),
            (Release::Stopped, "confirmation_required"),
        ] {
            let stage = Stage::new(HIGH, held()).await;
            let mut agent = Agent::new(&stage.rig, way, "a").await;
            let params = send(ARGS, "");
            let (got, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
                let id = stage.pending().await.id;
                match release {
                    Release::Approved => drop(stage.approve(&id).await.unwrap()),
                    Release::Denied => drop(stage.deny(&id, Some("no")).await.unwrap()),
                    Release::Stopped => within(stage.rig.gateway.stop()).await,
                }
            });
            assert_eq!(got.code(), expected, "{way:?} {release:?}");
            let sent = usize::from(release == Release::Approved);
            assert_eq!(stage.sent().len(), sent, "{way:?} {release:?}");
        }
    }
}

/// Without an account that could approve, waiting is in vain. The answer comes at once and says what to do.
#[tokio::test]
async fn a_call_is_not_held_if_nobody_can_approve_it() {
    let mut script = crate::peer::Script::new(crate::peer::Speaks::Legacy, &format!("[{}]", crate::asked::SEND));
    script.call = |_| Some(crate::peer::text_result("sent"));
    let peer = crate::peer::Peer::new(script).await;
    let forever = ApprovalSettings { wait: Duration::from_secs(3600), ..held() };
    let rig = Rig::start(files(&peer, HIGH, forever)).await;
    let check = async |expected: &str, lacks: &str| {
        for way in [Way::Session, Way::Stateless, Way::Line] {
            let mut agent = Agent::new(&rig, way, &format!("{way:?}{lacks}").to_lowercase()).await;
            let got = within(Got::of(&mut agent, &rig, &send(ARGS, ""))).await;
            assert_eq!(got.code(), "confirmation_required", "{way:?}");
            assert!(got.text().contains(expected), "{way:?}: {}", got.text());
            assert_eq!(got.details()["approver_lacks"], lacks, "{way:?}");
            // The request is there for the user who comes later.
            let stored = rig.store.find_approval(&got.id()).await.unwrap().unwrap();
            assert_eq!(stored.state, ApprovalState::Pending);
        }
    };
    check("No approver account exists yet.", "account").await;
    let now = crate::asked::now_ms();
    let invitation = rig.store.invite([9; 32], None, now, 60_000).await.unwrap();
    assert!(rig.store.create_user(&invitation, "ada", "no hash", now).await.unwrap());
    check("No approver account has a second factor yet.", "second_factor").await;
}

/// Two held calls wait for one approval request. The approval covers only one of them.
#[tokio::test]
async fn of_two_held_calls_one_uses_the_approval() {
    let stage = Stage::new(HIGH, held()).await;
    let agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let params = send(ARGS, "");
    let call = |id| stage.rig.send(agent.http(id, "tools/call", &params));
    let (one, two, ()) = tokio::join!(call(1), call(2), async {
        let id = stage.pending().await.id;
        stage.approve(&id).await.unwrap();
    });
    let mut codes = [one, two].map(|answer| Got(serde_json::from_str(&answer.body).unwrap()).code());
    codes.sort();
    assert_eq!((codes, stage.sent().len()), (["approval_already_used".to_owned(), "sent".to_owned()], 1));
}

#[tokio::test]
async fn a_call_is_held_as_long_as_is_safe_and_no_longer() {
    let short = ApprovalSettings { wait: Duration::from_millis(300), ..held() };
    let stage = Stage::new(HIGH, short).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let began = std::time::Instant::now();
    let got = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
    assert_eq!(got.code(), "confirmation_required");
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    assert_eq!(stage.state(&got.id()).await, ApprovalState::Pending);
}

/// The first progress message contains the address of the approval page, so that the agent can show it to its user.
#[tokio::test]
async fn progress_says_the_address_first() {
    let stage = Stage::new(HIGH, held()).await;
    let with_token = |params: &str| {
        let params = params.strip_suffix('}').unwrap();
        format!(r#"{params},"_meta":{{"progressToken":"t"}}}}"#)
    };
    for way in [Way::Session, Way::Stateless] {
        let agent = Agent::new(&stage.rig, way, &format!("{way:?}")).await;
        let mut stream = agent.stream(&stage.rig, 1, "tools/call", &with_token(&send(ARGS, ""))).await;
        let first: Value = serde_json::from_str(&stream.next().await.unwrap()).unwrap();
        let id = stage.pending().await.id;
        let message = format!("Open http://localhost:8080/ui/approvals/{id} to approve or deny this call.");
        let params = json!({"progressToken": "t", "progress": 1, "message": message});
        assert_eq!(first, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}), "{way:?}");
        stage.approve(&id).await.unwrap();
        let got = Got(serde_json::from_str(&stream.next().await.unwrap()).unwrap());
        assert_eq!(got.code(), "sent", "{way:?}");
    }
}

#[tokio::test]
async fn a_cancelled_call_leaves_its_request_open() {
    let stage = Stage::new(HIGH, held()).await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let mut teller = Agent::new(&stage.rig, Way::Line, "line").await;
    let params = send(ARGS, "");
    let (answer, id) = tokio::join!(stage.rig.send(agent.http(1, "tools/call", &params)), async {
        let id = stage.pending().await.id;
        let headers = [("mcp-session-id", agent.session())];
        stage.rig.send(crate::rig::post("/mcp", &agent.token, &headers, cancel)).await;
        id
    });
    assert!(answer.body.contains("the call was cancelled"), "{}", answer.body);
    assert_eq!(stage.state(&id).await, ApprovalState::Pending);
    stage.approve(&id).await.unwrap();
    assert_eq!(Got::of(&mut agent, &stage.rig, &params).await.code(), "sent");

    teller.write(&request_text(1, "tools/call", &params)).await;
    let id = stage.pending().await.id;
    teller.write(cancel).await;
    assert!(teller.read().await.contains("the call was cancelled"));
    assert_eq!(stage.state(&id).await, ApprovalState::Pending);
    assert_eq!(stage.sent().len(), 1);
}

/// A stateless agent cancels its call by closing the connection.
#[tokio::test]
async fn an_agent_that_disconnects_leaves_its_request_open_and_nothing_is_sent() {
    let stage = Stage::new(HIGH, held()).await;
    let agent = Agent::new(&stage.rig, Way::Stateless, "a").await;
    let params = send(ARGS, "");
    let id = tokio::select! {
        _ = stage.rig.send(agent.http(1, "tools/call", &params)) => panic!("it was held"),
        found = stage.pending() => found.id,
    };
    stage.approve(&id).await.unwrap();
    assert_eq!((stage.state(&id).await, stage.sent()), (ApprovalState::Approved, Vec::new()));
}

#[tokio::test]
async fn approvals_outlive_the_gateway() {
    for approved_before in [false, true] {
        let stage = Stage::new(HIGH, held()).await;
        let mut agent = Agent::new(&stage.rig, Way::Stateless, "a").await;
        let params = send(ARGS, "");
        let (got, id) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
            let id = stage.pending().await.id;
            within(stage.rig.gateway.stop()).await;
            id
        });
        assert_eq!(got.id(), id, "the agent knows what to come back with");
        let Stage { peer, rig, ada } = stage;
        let rig = rig.again(files(&peer, HIGH, never_held())).await;
        let approve =
            async |rig: &Rig| decided(rig.gateway.approvals().approve(&id, &ada.present, None).await.unwrap()).unwrap();
        let rig = if approved_before {
            approve(&rig).await;
            rig.again(files(&peer, HIGH, never_held())).await
        } else {
            let got = Got::of(&mut agent, &rig, &send(ARGS, &with_approval(&id))).await;
            assert_eq!(got.id(), id, "it still waits");
            approve(&rig).await;
            rig
        };
        let named = send(ARGS, &with_approval(&id));
        assert_eq!(Got::of(&mut agent, &rig, &named).await.code(), "sent", "{approved_before}");
        let rig = rig.again(files(&peer, HIGH, never_held())).await;
        assert_eq!(Got::of(&mut agent, &rig, &named).await.code(), "approval_already_used");
        assert_eq!(peer.calls().len(), 1);
    }
}

/// A decision at one replica releases a call that another replica holds.
#[tokio::test]
async fn a_call_held_by_one_gateway_is_let_go_by_a_decision_at_another() {
    let stage = Stage::new(HIGH, held()).await;
    let second = stage.rig.beside(files(&stage.peer, HIGH, held())).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let params = send(ARGS, "");
    let (got, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        let id = stage.pending().await.id;
        decided(second.gateway.approvals().approve(&id, &stage.ada.present, None).await.unwrap()).unwrap();
    });
    assert_eq!((got.code(), stage.sent().len()), ("sent".to_owned(), 1));
    within(second.gateway.stop()).await;
}

#[tokio::test]
async fn every_step_is_on_the_record() {
    let short = ApprovalSettings { expire: Duration::from_millis(600), ..never_held() };
    let stage = Stage::new(HIGH, never_held()).await;
    let bob = Person::invited(&stage.rig, "bob", Some(&stage.ada.user)).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let made = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    decided(stage.rig.gateway.approvals().approve(&made, &bob.present, None).await.unwrap()).unwrap();
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, &with_approval(&made))).await.code(), "sent");
    let denied = Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, "")).await.id();
    let key = mcpproxy_gateway::Decider::AdminKey;
    decided(stage.rig.gateway.approvals().deny(&denied, &key, Some("no")).await.unwrap()).unwrap();
    stage.rig.gateway.reload(files(&stage.peer, HIGH, short));
    let expired = Got::of(&mut agent, &stage.rig, &send("{}", "")).await.id();
    let mut changed = stage.rig.gateway.approvals().changed();
    while stage.state(&expired).await != ApprovalState::Expired {
        within(changed.changed()).await.unwrap();
    }
    stage.rig.gateway.reload(files(&stage.peer, HIGH, never_held()));
    let cancelled = Got::of(&mut agent, &stage.rig, &send(r#"{"n":1}"#, "")).await.id();
    stage.rig.gateway.reload(files(&stage.peer, "riskLevel: high", never_held()));
    let named = send(r#"{"n":1}"#, &with_approval(&cancelled));
    assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "approval_stale");

    let record = stage.find(&made).await.record.unwrap();
    let verdicts = verify(&stage.rig).await;
    assert!(verdicts.iter().all(|verdict| verdict.damage.is_none()), "{verdicts:?}");
    let records = stage.rig.all_records().await;
    let call = records.iter().find(|one| one.id == record).unwrap();
    let metadata: Value = serde_json::from_str(call.metadata.for_json()).unwrap();
    assert_eq!(metadata["approval_id"], made.as_str());
    assert_eq!(
        (call.agent.as_deref(), &metadata["approved_by"]),
        (Some("a"), &json!("bob")),
        "it ran for a, by bob's word"
    );
    let steps: Vec<Value> = records
        .iter()
        .filter(|one| one.kind == Kind::Approval)
        .map(|one| {
            assert_eq!(crate::rig::line(one).split(' ').nth(3), Some("fx:send"));
            assert_eq!((one.agent.as_deref(), one.risk.map(|risk| risk.as_str())), (Some("a"), Some("high")));
            assert_eq!(one.intent_type.unwrap().to_string(), "write");
            let mut metadata: Value = serde_json::from_str(one.metadata.for_json()).unwrap();
            let metadata_fields = metadata.as_object_mut().unwrap();
            // Each step repeats what the call declared.
            assert_eq!(metadata_fields.remove("intent"), Some(json!({"operation_type": "write"})));
            assert_eq!(metadata_fields.remove("tool_variant"), Some(json!("call_tool_write")));
            json!([one.code.as_ref().unwrap().for_json(), one.status.as_str(), metadata])
        })
        .collect();
    let asked = |id| json!(["approval_requested", "success", {"approval_id": id, "least": "form"}]);
    let expected = [
        asked(made.as_str()),
        json!(["approval_approved", "success", {"approval_id": made.as_str(), "by": "bob", "given": "session"}]),
        asked(denied.as_str()),
        json!(["approval_denied", "refused", {"approval_id": denied.as_str(), "by": "admin key", "comment": "no"}]),
        asked(expired.as_str()),
        json!(["approval_expired", "cancelled", {"approval_id": expired.as_str()}]),
        asked(cancelled.as_str()),
        json!(["approval_cancelled", "cancelled", {"approval_id": cancelled.as_str()}]),
    ];
    assert_eq!(steps, expected);
}

async fn verify(rig: &Rig) -> Vec<mcpproxy_store::ChainVerdict> {
    rig.store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap()
}
