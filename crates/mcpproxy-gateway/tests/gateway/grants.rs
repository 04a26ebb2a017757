//! Standing approvals: a user approves similar calls in advance, for some minutes and a number of uses.

use futures::future::join_all;
use mcpproxy_core::{ApprovalId, ApprovalState, Digest};
use mcpproxy_gateway::{Decider, NotDecided, NotGranted, StandingResult, WantedStandingApproval};
use mcpproxy_store::{Kind, NewStandingApproval, Step, StoredStandingApproval};
use serde_json::{Value, json};

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, HIGH, OTHER_ARGS, Person, SEND, Stage, files, never_held, now_ms, send};
use crate::rig::within;

const TO_ADA: &str = r#"{"properties":{"to":{"const":"ada"}},"required":["to"]}"#;

async fn stage(contract: &str) -> (Stage, Agent, ApprovalId) {
    let stage = Stage::new(contract, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    (stage, agent, id)
}

fn wanted(from: &ApprovalId, schema: &str, minutes: u32, uses: u32) -> WantedStandingApproval {
    WantedStandingApproval { from: from.clone(), schema: schema.to_owned(), minutes, uses }
}

async fn grant(stage: &Stage, wanted: &WantedStandingApproval) -> Result<StoredStandingApproval, NotGranted> {
    let fresh = stage.ada.fresh(&stage.rig, &wanted.from).await;
    match stage.rig.gateway.approvals().grant(wanted, &stage.ada.user, &fresh).await.unwrap() {
        StandingResult::Created(created) => Ok(*created),
        StandingResult::NotCreated(reason) => Err(reason),
    }
}

#[tokio::test]
async fn a_standing_approval_covers_matching_calls_only() {
    let (stage, mut agent, id) = stage(HIGH).await;
    let made = grant(&stage, &wanted(&id, TO_ADA, 15, 3)).await.unwrap();
    assert_eq!(made.expires_ms - made.created_ms, 15 * 60_000);
    // The requested call is approved as well, and consumes no use.
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent");
    assert_eq!(stage.state(&id).await, ApprovalState::Consumed);
    let mut other = Agent::new(&stage.rig, Way::Session, "b").await;
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, "")).await.code(), "confirmation_required");
    assert_eq!(Got::of(&mut other, &stage.rig, &send(ARGS, "")).await.code(), "confirmation_required");
    for n in 0..3 {
        let args = format!(r#"{{"to":"ada","n":{n}}}"#);
        assert_eq!(Got::of(&mut agent, &stage.rig, &send(&args, "")).await.code(), "sent", "{n}");
        assert_eq!(stage.rig.store.find_standing_approval(&made.id).await.unwrap().unwrap().uses_left, 2 - n);
    }
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "confirmation_required");
    assert_eq!(stage.sent().len(), 4);
    // Each use is on the record of its call. The standing approval has a record of its own.
    let records = stage.rig.all_records().await;
    let metadata = |one: &mcpproxy_store::Record| serde_json::from_str::<Value>(one.metadata.for_json()).unwrap();
    let uses = records.iter().filter(|one| one.kind == Kind::Call && metadata(one)["grant_id"] == made.id.as_str());
    assert_eq!(uses.count(), 3);
    let created =
        records.iter().find(|one| one.code.as_ref().is_some_and(|code| code.for_json() == "grant_created")).unwrap();
    let expected = json!({"intent": {"operation_type": "write"}, "tool_variant": "call_tool_write", "grant_id": made.id, "approval_id": id.as_str(), "by": "ada", "given": "factor", "minutes": 15, "uses": 3, "schema_sha256": Digest::of(TO_ADA.as_bytes()).to_string()});
    assert_eq!((metadata(created), created.agent.as_deref()), (expected, Some("a")));
}

/// The end of a standing approval says what it was given for, like its beginning.
#[tokio::test]
async fn a_revoked_standing_approval_keeps_its_intent() {
    let stage = Stage::new("riskLevel: high\ncategory: mail", never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let more = r#","intent":{"operation_type":"write","data_sensitivity":"private","reason":"a batch"}"#;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, more)).await.id();
    let made = grant(&stage, &wanted(&id, TO_ADA, 15, 9)).await.unwrap();
    assert!(stage.rig.gateway.approvals().revoke(&made.id, &Decider::AdminKey).await.unwrap());
    let records = stage.rig.all_records().await;
    let find = |code: &str| {
        let found = records.iter().find(|one| one.code.as_ref().is_some_and(|word| word.for_json() == code)).unwrap();
        (serde_json::from_str::<Value>(found.metadata.for_json()).unwrap(), found.intent_type)
    };
    let intent = json!({"operation_type": "write", "data_sensitivity": "private", "reason": "a batch"});
    let (created, revoked) = (find("grant_created"), find("grant_revoked"));
    assert_eq!(created.0["category"], "mail");
    for (metadata, intent_type) in [created, revoked] {
        assert_eq!((&metadata["intent"], &metadata["tool_variant"]), (&intent, &json!("call_tool_write")));
        assert_eq!(intent_type, Some(mcpproxy_core::Variant::Write));
    }
}

#[tokio::test]
async fn concurrent_calls_cannot_exceed_the_uses() {
    let (stage, agent, id) = stage(HIGH).await;
    grant(&stage, &wanted(&id, TO_ADA, 15, 5)).await.unwrap();
    let params: Vec<String> = (0..20).map(|n| send(&format!(r#"{{"to":"ada","n":{n}}}"#), "")).collect();
    let calls = params.iter().map(|params| stage.rig.send(agent.http(1, "tools/call", params)));
    let answers = within(join_all(calls)).await;
    let sent = answers.iter().filter(|answer| answer.body.contains(r#""text":"sent""#)).count();
    assert_eq!((sent, stage.sent().len()), (5, 5));
}

#[tokio::test]
async fn a_standing_approval_ends_when_revoked_expired_or_changed() {
    for end in ["revoked", "revoked by the key", "expired", "contract", "tool", "critical", "step-up"] {
        let (stage, mut agent, id) = stage(HIGH).await;
        let made = grant(&stage, &wanted(&id, TO_ADA, 15, 9)).await.unwrap();
        for _ in ["by the yes", "by the grant"] {
            assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent", "{end}");
        }
        let approvals = stage.rig.gateway.approvals();
        match end {
            "revoked" => {
                let ada = Decider::User(stage.ada.user.clone());
                assert!(approvals.revoke(&made.id, &ada).await.unwrap());
                assert!(!approvals.revoke(&made.id, &ada).await.unwrap(), "once");
                assert!(approvals.grants(false).await.unwrap().is_empty());
                assert_eq!(approvals.grants(true).await.unwrap().len(), 1);
            }
            "revoked by the key" => assert!(approvals.revoke(&made.id, &Decider::AdminKey).await.unwrap()),
            "expired" => {
                // The same standing approval, but expired.
                approvals.revoke(&made.id, &Decider::AdminKey).await.unwrap();
                let old = NewStandingApproval {
                    id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
                    agent: made.agent,
                    tool: made.tool,
                    pin: made.pin,
                    contract: made.contract,
                    schema: made.schema,
                    by: "ada".to_owned(),
                    reason: None,
                    intent: None,
                    created_ms: now_ms() - 10_000,
                    expires_ms: now_ms(),
                    uses: 9,
                };
                stage.write(Step::CreateStandingApproval(Box::new(old))).await;
            }
            "contract" => stage.rig.gateway.reload(files(&stage.peer, "riskLevel: high", never_held())),
            "critical" => stage.rig.gateway.reload(files(&stage.peer, "riskLevel: critical", never_held())),
            "step-up" => {
                stage.rig.gateway.reload(files(&stage.peer, "riskLevel: high\nstepUpAuth: true", never_held()))
            }
            _ => {
                stage.peer.rewrite(|script| script.tools = format!("[{}]", SEND.replace("Sends.", "Sends all.")));
                let settled = stage.rig.gateway.settled();
                assert_eq!(stage.rig.gateway.restart(&crate::rig::name("fx")), Ok(()));
                within(settled).await;
                stage.rig.until("fx", |server| server.state == mcpproxy_gateway::StateName::Ready).await;
            }
        }
        assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "confirmation_required", "{end}");
        assert_eq!(stage.sent().len(), 2, "{end}");
    }
}

#[tokio::test]
async fn refused_standing_approvals() {
    let critical = "critical calls are approved one by one and cannot have a standing approval";
    for (contract, wanted_schema, minutes, uses, expected) in [
        ("riskLevel: critical", TO_ADA, 15, 1, critical),
        ("riskLevel: critical\nstepUpAuth: false", TO_ADA, 15, 1, critical),
        ("riskLevel: high\nstepUpAuth: true", TO_ADA, 15, 1, critical),
        (HIGH, TO_ADA, 0, 1, "minutes must be 1 to 15"),
        (HIGH, TO_ADA, 16, 1, "minutes must be 1 to 15"),
        (HIGH, TO_ADA, 15, 0, "uses must be 1 to 100"),
        (HIGH, TO_ADA, 15, 101, "uses must be 1 to 100"),
    ] {
        let (stage, mut agent, id) = stage(contract).await;
        assert_eq!(
            grant(&stage, &wanted(&id, wanted_schema, minutes, uses)).await,
            Err(NotGranted::Refused(expected.to_owned()))
        );
        assert_eq!(stage.state(&id).await, ApprovalState::Pending);
        assert_eq!(stage.rig.gateway.approvals().grants(true).await.unwrap(), []);
        assert_eq!(
            Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(),
            "confirmation_required",
            "{contract}"
        );
    }
    let (stage, _, id) = stage(HIGH).await;
    for schema in ["", "{", r#"{"type":"nonsense"}"#, r#"{"a":1,"a":2}"#, r#""x""#] {
        let refused = grant(&stage, &wanted(&id, schema, 1, 1)).await.unwrap_err();
        assert!(matches!(&refused, NotGranted::Refused(why) if why.starts_with("the schema")), "{schema}: {refused:?}");
    }
    let nobody = ApprovalId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap();
    assert_eq!(grant(&stage, &wanted(&nobody, TO_ADA, 1, 1)).await, Err(NotGranted::NotDecided(NotDecided::NotFound)));
}

/// A standing approval needs a pending approval request. It cannot come from a decided one.
#[tokio::test]
async fn no_standing_approval_from_a_closed_request() {
    for over in ["approved", "consumed", "denied", "expired", "cancelled"] {
        let (stage, mut agent, id) = stage(HIGH).await;
        match over {
            "approved" => drop(stage.approve(&id).await.unwrap()),
            "consumed" => {
                stage.approve(&id).await.unwrap();
                assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent");
            }
            "denied" => drop(stage.deny(&id, None).await.unwrap()),
            "expired" => {
                let now_ms = stage.find(&id).await.expires_ms;
                stage.write(Step::Expire { id: id.clone(), now_ms }).await;
            }
            _ => stage.write(Step::Cancel { id: id.clone(), now_ms: now_ms() }).await,
        }
        let state = ApprovalState::parse(over).unwrap();
        let made = grant(&stage, &wanted(&id, TO_ADA, 15, 3)).await;
        assert_eq!(made, Err(NotGranted::NotDecided(NotDecided::Over(state))), "{over}");
        assert_eq!(stage.rig.gateway.approvals().grants(true).await.unwrap(), [], "{over}");
        let records = stage.rig.all_records().await;
        let is_grant =
            |one: &mcpproxy_store::Record| one.code.as_ref().is_some_and(|code| code.for_json() == "grant_created");
        assert!(!records.iter().any(is_grant), "{over}");
    }
}

/// If several users decide at once, one decision wins. The others create no standing approval.
#[tokio::test]
async fn approval_and_standing_approval_are_one_transaction() {
    let (stage, _, id) = stage(HIGH).await;
    let mut fresh = Vec::new();
    for _ in 0..8 {
        fresh.push(stage.ada.fresh(&stage.rig, &id).await);
    }
    let (approvals, wanted) = (stage.rig.gateway.approvals(), wanted(&id, TO_ADA, 15, 3));
    let made = fresh.iter().map(|fresh| approvals.grant(&wanted, &stage.ada.user, fresh));
    let made = join_all(made).await.into_iter().filter(|made| matches!(made, Ok(StandingResult::Created(_)))).count();
    assert_eq!((made, approvals.grants(true).await.unwrap().len()), (1, 1));
    assert_eq!(stage.state(&id).await, ApprovalState::Approved);
}

#[tokio::test]
async fn a_standing_approval_needs_its_own_fresh_factor() {
    let (stage, mut agent, id) = stage(HIGH).await;
    let other = Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, "")).await.id();
    let bob = Person::invited(&stage.rig, "bob", Some(&stage.ada.user)).await;
    let of_other = stage.ada.fresh(&stage.rig, &other).await;
    let of_bob = bob.fresh(&stage.rig, &id).await;
    for fresh in [of_other, of_bob] {
        let made = stage.rig.gateway.approvals().grant(&wanted(&id, TO_ADA, 1, 1), &stage.ada.user, &fresh).await;
        assert_eq!(
            made.unwrap(),
            NotGranted::Refused("a standing approval needs a fresh code or passkey".to_owned()).into()
        );
    }
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "confirmation_required");
    assert_eq!(stage.sent(), [""; 0]);
}

/// A denial of a call overrides a standing approval that covers it.
#[tokio::test]
async fn a_standing_approval_does_not_override_a_denial() {
    let stage = Stage::new(HIGH, never_held()).await;
    let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", r#"{"elicitation":{}}"#).await;
    let like_it = Got::of(&mut agent, &stage.rig, &send(r#"{"to":"ada","n":1}"#, "")).await;
    assert_eq!(like_it.code(), "input_required");
    let id = stage.pending().await.id;
    let asked = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
    grant(&stage, &wanted(&id, TO_ADA, 15, 3)).await.unwrap();
    let params = send(ARGS, "");
    let params = params.strip_suffix('}').unwrap();
    let no = format!(
        r#"{params},"inputResponses":{{"approval":{{"action":"decline"}}}},"requestState":{}}}"#,
        asked.result()["requestState"]
    );
    assert_eq!(Got::of(&mut agent, &stage.rig, &no).await.code(), "approval_denied");
    assert_eq!(stage.sent(), [""; 0]);
}
