//! Attached members of `params`, such as `_meta` and `inputResponses`: an approval covers them as well as the
//! arguments.

use serde_json::json;

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, HIGH, OTHER_ARGS, SEND, Stage, never_held, send, with_approval};
use crate::peer::{Script, Speaks, text_result};

const ANSWER: &str = r#","inputResponses":{"who":{"action":"accept","content":{"to":"ada"}}}"#;
const OTHER: &str = r#","inputResponses":{"who":{"action":"accept","content":{"to":"all"}}}"#;
const STATE: &str = r#","requestState":"s1""#;
const QUESTION: &str = r#"{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}}},"requestState":"s1"}"#;

/// Adds members to the parameters of a call. Each starts with a comma.
fn with(call: &str, members: &str) -> String {
    format!("{}{members}}}", call.strip_suffix('}').unwrap())
}

async fn stage(contract: &str) -> (Stage, Agent) {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| Some(text_result("sent"));
    let stage = Stage::with(script, contract, never_held()).await;
    let agent = Agent::new(&stage.rig, Way::Session, "a").await;
    (stage, agent)
}

/// Returns the parameters after the arguments, for every call that reached the server.
fn beside(stage: &Stage) -> Vec<String> {
    let rest = |params: &String| params.split_once(&format!(r#""arguments":{ARGS}"#)).unwrap().1.to_owned();
    stage.peer.calls().iter().map(rest).collect()
}

#[tokio::test]
async fn what_was_approved_is_all_that_is_sent() {
    let meta = r#","_meta":{"account":"own","progressToken":7,"io.modelcontextprotocol/x":1}"#;
    for (members, expected) in [
        ("", "}"),
        (ANSWER, &format!("{ANSWER}}}")),
        (r#","task":{"ttl":1.0}"#, r#","task":{"ttl":1.0}}"#),
        (meta, r#","_meta":{"account":"own"}}"#),
    ] {
        let (stage, mut agent) = stage(HIGH).await;
        let id = Got::of(&mut agent, &stage.rig, &with(&send(ARGS, ""), members)).await.id();
        let named = send(ARGS, &with_approval(&id));
        for decided in [false, true] {
            if decided {
                stage.approve(&id).await.unwrap();
            }
            for other in [OTHER, STATE, r#","task":{}"#, &format!("{ANSWER}{STATE}"), &format!("{members}{STATE}")] {
                let got = Got::of(&mut agent, &stage.rig, &with(&named, other)).await;
                assert_eq!(got.code(), "approval_args_mismatch", "{members} then {other}");
            }
        }
        assert_eq!(stage.peer.calls().len(), 0, "{members}");
        // Clients number their requests in `_meta`, so a different `_meta` is still the same call. The server gets the
        // approved one.
        let again = with(&named, if members == meta { "" } else { members });
        let again = with(&again, r#","_meta":{"account":"everybody's"}"#);
        assert_eq!(Got::of(&mut agent, &stage.rig, &again).await.code(), "sent", "{members}");
        let sent = beside(&stage);
        assert!(!sent[0].contains("everybody"), "{sent:?}");
        assert_eq!(sent, [expected], "{members}");
    }
}

#[tokio::test]
async fn calls_with_other_answers_are_other_requests() {
    let (stage, mut agent) = stage(HIGH).await;
    let mut ids = Vec::new();
    for members in ["", ANSWER, OTHER, &format!("{ANSWER}{STATE}"), r#","task":{}"#] {
        let id = Got::of(&mut agent, &stage.rig, &with(&send(ARGS, ""), members)).await.id();
        assert!(!ids.contains(&id), "{members}");
        assert_eq!(Got::of(&mut agent, &stage.rig, &with(&send(ARGS, ""), members)).await.id(), id, "{members}");
        ids.push(id);
    }
    let other_meta = with(&send(ARGS, ""), r#","_meta":{"request":7}"#);
    assert_eq!(Got::of(&mut agent, &stage.rig, &other_meta).await.id(), ids[0], "the same question by another number");
    // An approval of one call covers none of the others.
    stage.approve(&ids[1]).await.unwrap();
    assert_eq!(Got::of(&mut agent, &stage.rig, &with(&send(ARGS, ""), OTHER)).await.code(), "confirmation_required");
    assert_eq!(Got::of(&mut agent, &stage.rig, &with(&send(ARGS, ""), ANSWER)).await.code(), "sent");
    assert_eq!(beside(&stage), [format!("{ANSWER}}}")]);
}

#[tokio::test]
async fn a_user_sees_what_goes_besides() {
    let (stage, mut agent) = stage("riskLevel: high\nsensitive: [/to]").await;
    let members = r#","inputResponses":{"who":{"action":"accept","content":{"to":"eve@example.org","say":"ada!"}}},"_meta":{"a":1.0}"#;
    let call = with(&send(r#"{"to":"ada!"}"#, ""), members);
    let id = Got::of(&mut agent, &stage.rig, &call).await.id();
    let view = stage.rig.gateway.approvals().find(&id).await.unwrap().unwrap();
    let exact = r#"{"inputResponses":{"who":{"action":"accept","content":{"to":"eve@example.org","say":"ada!"}}},"_meta":{"a":1.0}}"#;
    assert_eq!(view.attached_for_user.unwrap().for_json(), exact);
    let masked =
        r#"{"inputResponses":{"who":{"action":"accept","content":{"to":"***","say":"***"}}},"_meta":{"a":1.0}}"#;
    assert_eq!(view.approval.shown_attached.unwrap().for_json(), masked);
    // After the decision, only the masked version is kept.
    stage.deny(&id, None).await.unwrap();
    let view = stage.rig.gateway.approvals().find(&id).await.unwrap().unwrap();
    assert_eq!((view.approval.attached, view.attached_for_user.unwrap().for_json()), (None, masked));
}

/// Bookkeeping of the client is stored, but users do not read it, and an approved call is sent without it.
#[tokio::test]
async fn a_user_does_not_read_the_client_s_bookkeeping() {
    let (stage, mut agent) = stage(HIGH).await;
    let meta = r#""_meta":{"x-codex-turn-metadata":{"turn_id":"t1"}}"#;
    let id = Got::of(&mut agent, &stage.rig, &with(&send(ARGS, ""), &format!(",{meta}"))).await.id();
    let view = stage.rig.gateway.approvals().find(&id).await.unwrap().unwrap();
    assert_eq!((view.attached_for_user, view.approval.shown_attached), (None, None));
    assert_eq!(stage.find(&id).await.attached.unwrap(), format!("{{{meta}}}"));
    stage.approve(&id).await.unwrap();
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, &with_approval(&id))).await.code(), "sent");
    assert_eq!(beside(&stage), ["}"]);
}

/// A form must show every attached member. If it cannot, the approver uses the web page.
#[tokio::test]
async fn a_form_shows_what_goes_besides() {
    let capabilities = r#"{"elicitation":{"form":{}}}"#;
    let stage = Stage::new(HIGH, never_held()).await;
    let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", capabilities).await;
    let got = Got::of(&mut agent, &stage.rig, &with(&send(ARGS, ""), ANSWER)).await;
    let message = got.result()["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    let shown = ANSWER.strip_prefix(',').unwrap();
    assert!(message.contains(&format!("Also sent to the server: {{{shown}}}\n")), "{message}");
    // The client's own bookkeeping says nothing to users.
    let noise = r#","_meta":{"x-codex-turn-metadata":{"turn_id":"t1"},"claudecode/toolUseId":"toolu_1"}"#;
    let got = Got::of(&mut agent, &stage.rig, &with(&send(OTHER_ARGS, ""), noise)).await;
    let message = got.result()["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(message.contains(OTHER_ARGS) && !message.contains("Also sent") && !message.contains("codex"), "{message}");
    let long = format!(r#","inputResponses":{{"who":"{}"}}"#, "x".repeat(2000));
    let got = Got::of(&mut agent, &stage.rig, &with(&send(ARGS, ""), &long)).await;
    assert_eq!(got.code(), "confirmation_required", "there is no room for it in a form");
}

#[tokio::test]
async fn a_key_is_for_one_set_of_answers() {
    let (stage, mut agent) = stage("riskLevel: low").await;
    let call = send(ARGS, r#","idempotency_key":"k""#);
    assert_eq!(Got::of(&mut agent, &stage.rig, &with(&call, ANSWER)).await.code(), "sent");
    let again = Got::of(&mut agent, &stage.rig, &with(&call, &format!(r#"{ANSWER},"_meta":{{"n":2}}"#))).await;
    assert_eq!((again.code(), &again.result()["_meta"]["mcpproxy/replayed"]), ("sent".to_owned(), &json!(true)));
    for other in ["", OTHER, &format!("{ANSWER}{STATE}")] {
        assert_eq!(
            Got::of(&mut agent, &stage.rig, &with(&call, other)).await.code(),
            "idempotency_conflict",
            "{other}"
        );
    }
    assert_eq!(stage.peer.calls().len(), 1);
}

/// Each round needs its own dry run with the same input responses. A dry run that ends with a server request counts
/// too.
#[tokio::test]
async fn a_dry_run_is_of_the_same_answers() {
    let script = Script::new(Speaks::Modern, &format!("[{SEND}]"));
    let contract = "riskLevel: low\ndryRun: { mode: required, parameter: dryRun }";
    let mut stage = Stage::with(script, contract, never_held()).await;
    let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", r#"{"elicitation":{"form":{}}}"#).await;
    let (real, dry) = (send(ARGS, ""), send(ARGS, r#","dry_run":true"#));
    let dry_state = r#","requestState":"of the dry run""#;
    let done = r#"{"content":[{"type":"text","text":"done"}],"resultType":"complete"}"#;
    for (params, answer, expected) in [
        (real.clone(), None, "dry_run_required"),
        (dry.clone(), Some(QUESTION), "input_required"),
        (with(&real, &format!("{ANSWER}{STATE}")), None, "dry_run_required"),
        (real.clone(), Some(QUESTION), "input_required"),
        (with(&dry, &format!("{ANSWER}{dry_state}")), Some(done), "done"),
        (with(&real, &format!("{OTHER}{STATE}")), None, "dry_run_required"),
        (with(&real, &format!("{ANSWER}{STATE}")), Some(done), "done"),
    ] {
        let (got, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
            if let Some(answer) = answer {
                stage.peer.next().await.answer(answer).await;
            }
        });
        assert_eq!(got.code(), expected, "{params}");
    }
    assert_eq!(stage.peer.calls().len(), 4);
}
