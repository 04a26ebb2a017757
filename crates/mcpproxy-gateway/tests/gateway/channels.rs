//! Approval prompts in stateless clients: forms, links to the web page, and the client's answers.

use mcpproxy_core::settings::{ApprovalSettings, Channel, Channels};
use mcpproxy_core::{ApprovalId, ApprovalState, Assurance};
use mcpproxy_gateway::{DecisionResult, NotDecided};
use mcpproxy_store::Kind;
use serde_json::json;

use crate::agent::{Agent, Way};
use crate::asked::{
    ARGS, Got, HIGH, HOUR, OTHER_ARGS, Person, SAME_ARGS, SEND, Stage, held, never_held, send, without_account,
};
use crate::peer::{Script, Speaks};
use crate::rig::within;

const BOTH: &str = r#"{"elicitation":{"form":{},"url":{}}}"#;
pub(crate) const FORM: &str = r#"{"elicitation":{"form":{}}}"#;
const LINK: &str = r#"{"elicitation":{"url":{}}}"#;
const CRITICAL: &str = "riskLevel: critical\nstepUpAuth: false";
const APPROVE: &str = r#"{"action":"accept","content":{"decision":"approve"}}"#;

/// Builds the retry of a call, with its request state and the client's response.
fn back(params: &str, state: &str, response: &str) -> String {
    let params = params.strip_suffix('}').unwrap();
    format!(r#"{params},"inputResponses":{{"approval":{response}}},"requestState":"{state}"}}"#)
}

/// Returns the prefix by which a gateway recognizes its own request states.
fn own(state: &str) -> &str {
    &state[..state.rfind("mcpproxy-approval.").unwrap() + "mcpproxy-approval.".len() + 17]
}

fn state(got: &Got) -> String {
    got.result()["requestState"].as_str().unwrap_or_else(|| panic!("{}", got.0)).to_owned()
}

pub(crate) async fn asked(contract: &str, settings: ApprovalSettings, capabilities: &str) -> (Stage, Agent, Got) {
    let stage = Stage::new(contract, settings).await;
    let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", capabilities).await;
    let got = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
    (stage, agent, got)
}

#[tokio::test]
async fn a_form_has_no_default_decision() {
    let (stage, _, got) = asked(HIGH, held(), FORM).await;
    let id = stage.pending().await.id;
    let message = format!(
        "Agent 'a' wants to call 'fx:send' (risk: high).\nArguments: {ARGS}\nEffects (according to the operator): A mail \
         leaves. Details: http://localhost:8080/ui/approvals/{id}"
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string", "title": "Decision", "enum": ["approve", "deny"],
                "description": "'approve' allows exactly this call, once. 'deny' stops it.",
            },
        },
        "required": ["decision"],
    });
    let request = json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}});
    let expected = json!({
        "resultType": "input_required", "inputRequests": {"approval": request}, "requestState": state(&got),
    });
    assert_eq!(got.result(), &expected);
    assert!(!state(&got).contains(id.as_str()), "what the agent carries is sealed");
}

#[tokio::test]
async fn only_a_valid_form_answer_counts() {
    for (answer, expected, end) in [
        (APPROVE, "sent", ApprovalState::Consumed),
        (r#"{"action":"accept","content":{"decision":"deny"}}"#, "approval_denied", ApprovalState::Denied),
        (r#"{"action":"decline"}"#, "approval_denied", ApprovalState::Denied),
        (r#"{"action":"decline","content":{"decision":"approve"}}"#, "approval_denied", ApprovalState::Denied),
        (r#"{"action":"cancel"}"#, "confirmation_required", ApprovalState::Pending),
        (r#"{"action":"accept","content":{}}"#, "confirmation_required", ApprovalState::Pending),
        (r#"{"action":"accept"}"#, "confirmation_required", ApprovalState::Pending),
        (r#"{"action":"accept","content":{"decision":"yes"}}"#, "confirmation_required", ApprovalState::Pending),
        (r#"{"action":"accept","content":{"decision":["approve"]}}"#, "confirmation_required", ApprovalState::Pending),
        (r#"{"action":"approve","content":{"decision":"approve"}}"#, "confirmation_required", ApprovalState::Pending),
        ("{}", "confirmation_required", ApprovalState::Pending),
        ("null", "confirmation_required", ApprovalState::Pending),
        (r#""approve""#, "confirmation_required", ApprovalState::Pending),
    ] {
        let (stage, mut agent, got) = asked(HIGH, never_held(), FORM).await;
        let id = stage.pending().await.id;
        let came_back = Got::of(&mut agent, &stage.rig, &back(&send(SAME_ARGS, ""), &state(&got), answer)).await;
        assert_eq!((came_back.code().as_str(), stage.state(&id).await), (expected, end), "{answer}");
        let sent = if expected == "sent" { vec![ARGS.to_owned()] } else { vec![] };
        assert_eq!(stage.sent(), sent, "{answer}");
        let found = stage.find(&id).await;
        let by = Some("client of agent a");
        match end {
            ApprovalState::Consumed => {
                assert_eq!((found.given, found.decided_by.as_deref()), (Some(Assurance::Form), by));
            }
            ApprovalState::Denied => {
                assert_eq!(came_back.details(), &json!({"comment": null, "decided_by": by}));
                let text = &came_back.result()["content"][0]["text"];
                let expected = "This call was declined in the client of agent a. Do not repeat it. Ask the user what to do instead.";
                assert_eq!(text, expected, "the gateway knows only what the client says");
            }
            _ => assert_eq!(found.decided_by, None),
        }
        // Sending the same request state again has no further effect.
        let again = Got::of(&mut agent, &stage.rig, &back(&send(ARGS, ""), &state(&got), APPROVE)).await;
        let expected = match end {
            ApprovalState::Consumed => "approval_already_used",
            ApprovalState::Denied => "approval_denied",
            // An approval request without a decision is still pending.
            _ => "sent",
        };
        assert_eq!(again.code(), expected, "{answer}");
        assert!(stage.sent().len() <= 1);
    }
}

#[tokio::test]
async fn a_state_is_good_for_its_agent_and_its_call() {
    let (stage, mut agent, got) = asked(HIGH, never_held(), FORM).await;
    let (state, id) = (state(&got), stage.pending().await.id);
    let mut other = Agent::at(&stage.rig, Way::Stateless, "b", "/mcp", FORM).await;
    let mut flipped = state.clone().into_bytes();
    let middle = flipped.len() / 2;
    flipped[middle] = if flipped[middle] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    let cut = &state[..state.len() - 1];
    let destructive = send(ARGS, "").replace("call_tool_write", "call_tool_destructive");
    for (name, params, state, expected) in [
        ("other arguments", send(OTHER_ARGS, ""), state.as_str(), "approval_not_found"),
        ("another variant", destructive, state.as_str(), "approval_args_mismatch"),
        ("a bit of it changed", send(ARGS, ""), flipped.as_str(), "approval_not_found"),
        ("a piece of it", send(ARGS, ""), cut, "approval_not_found"),
        ("the id in its place", send(ARGS, ""), &format!("{}{id}", own(&state)), "approval_not_found"),
        ("nothing", send(ARGS, ""), own(&state), "approval_not_found"),
    ] {
        let got = Got::of(&mut agent, &stage.rig, &back(&params, state, APPROVE)).await;
        assert_eq!(got.code(), expected, "{name}");
    }
    let stolen = Got::of(&mut other, &stage.rig, &back(&send(ARGS, ""), &state, APPROVE)).await;
    assert_eq!(stolen.code(), "approval_not_found");
    assert_eq!((stage.sent(), stage.state(&id).await), (Vec::new(), ApprovalState::Pending));
    let own = Got::of(&mut agent, &stage.rig, &back(&send(ARGS, ""), &state, APPROVE)).await;
    assert_eq!((own.code(), stage.sent().len()), ("sent".to_owned(), 1));
}

/// The channel depends on the client's capabilities, the risk of the call and the operator's settings.
#[tokio::test]
async fn ways_to_ask() {
    let page = |settings: ApprovalSettings| ApprovalSettings {
        channels: Channels { high: Channel::Page, ..Channels::default() },
        ..settings
    };
    let step_up = "riskLevel: high\nstepUpAuth: true";
    let unclassified = "confirmation: required";
    for (contract, settings, capabilities, expected) in [
        (HIGH, never_held(), BOTH, "form"),
        (HIGH, never_held(), LINK, "url"),
        (HIGH, never_held(), r#"{"elicitation":{}}"#, "form"),
        (HIGH, never_held(), r#"{"sampling":{}}"#, "none"),
        (HIGH, page(never_held()), BOTH, "url"),
        (HIGH, page(never_held()), FORM, "none"),
        (unclassified, never_held(), FORM, "form"),
        (unclassified, page(never_held()), FORM, "none"),
        ("riskLevel: medium\nconfirmation: required", page(never_held()), FORM, "form"),
        (HIGH, ApprovalSettings { wait: std::time::Duration::ZERO, ..ApprovalSettings::default() }, FORM, "none"),
        (CRITICAL, never_held(), BOTH, "url"),
        (CRITICAL, never_held(), FORM, "none"),
        (CRITICAL, never_held(), r#"{"elicitation":{}}"#, "none"),
        (step_up, never_held(), BOTH, "url"),
        (step_up, never_held(), FORM, "none"),
    ] {
        let (stage, _, got) = asked(contract, settings, capabilities).await;
        let params = &got.result()["inputRequests"]["approval"]["params"];
        let way = match (params["mode"].as_str(), got.code().as_str()) {
            (Some("url"), "input_required") => {
                let id = stage.pending().await.id;
                assert_eq!(params["url"], format!("http://localhost:8080/ui/approvals/{id}"));
                assert!(params["requestedSchema"].is_null());
                "url"
            }
            (None, "input_required") => "form",
            (None, "confirmation_required") => "none",
            _ => panic!("{}", got.0),
        };
        assert_eq!(way, expected, "{contract} {capabilities}");
    }
}

/// A server's own risk level does not make an approval easier. The call still needs the web page, as without a level.
#[tokio::test]
async fn a_server_s_own_level_opens_no_form() {
    let settings = ApprovalSettings { wait: std::time::Duration::ZERO, ..ApprovalSettings::default() };
    for level in ["", "low", "medium", "high"] {
        let meta = match level {
            "" => String::new(),
            level => format!(r#","_meta":{{"mcp-first/contract":{{"riskLevel":"{level}"}}}}}}"#),
        };
        let tool = match level {
            "" => SEND.to_owned(),
            _ => format!("{}{meta}", SEND.strip_suffix('}').unwrap()),
        };
        let script = Script::new(Speaks::Legacy, &format!("[{tool}]"));
        let stage = Stage::with(script, "confirmation: required", settings.clone()).await;
        let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", BOTH).await;
        let got = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
        let asked = &got.result()["inputRequests"]["approval"]["params"];
        assert_eq!(asked["mode"], "url", "{level}: {}", got.0);
        assert_eq!(stage.pending().await.least, Assurance::Session, "{level}");
        let claimed = Got::of(&mut agent, &stage.rig, &back(&send(ARGS, ""), &state(&got), APPROVE)).await;
        assert_eq!((claimed.code().as_str(), stage.peer.calls().len()), ("confirmation_required", 0), "{level}");
    }
}

/// A client that approves a call in a form is refused where a form is not enough.
#[tokio::test]
async fn what_a_form_cannot_say_a_client_cannot_claim() {
    let page = ApprovalSettings { channels: Channels { high: Channel::Page, ..Channels::default() }, ..never_held() };
    for (contract, settings) in
        [(CRITICAL, never_held()), ("riskLevel: high\nstepUpAuth: true", never_held()), (HIGH, page)]
    {
        let (stage, mut agent, got) = asked(contract, settings, BOTH).await;
        let id = stage.pending().await.id;
        let came_back = Got::of(&mut agent, &stage.rig, &back(&send(ARGS, ""), &state(&got), APPROVE)).await;
        assert_eq!(came_back.code(), "confirmation_required", "{contract}");
        assert_eq!((stage.state(&id).await, stage.sent()), (ApprovalState::Pending, Vec::new()), "{contract}");
        // A clear denial is valid through every channel. A declined link is none: the client may not have shown it.
        let declined = back(&send(ARGS, ""), &state(&got), r#"{"action":"decline"}"#);
        assert_eq!(Got::of(&mut agent, &stage.rig, &declined).await.code(), "confirmation_required", "{contract}");
        let no = back(&send(ARGS, ""), &state(&got), r#"{"action":"accept","content":{"decision":"deny"}}"#);
        assert_eq!(Got::of(&mut agent, &stage.rig, &no).await.code(), "approval_denied", "{contract}");
    }
}

#[tokio::test]
async fn the_link_was_opened_and_the_page_decides() {
    let (stage, mut agent, got) = asked(CRITICAL, held(), BOTH).await;
    let id = stage.pending().await.id;
    let params = back(&send(ARGS, ""), &state(&got), r#"{"action":"accept"}"#);
    let (came_back, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        stage.approve(&id).await.unwrap();
    });
    assert_eq!((came_back.code(), stage.sent()), ("sent".to_owned(), vec![ARGS.to_owned()]));
    assert_eq!(stage.find(&id).await.given, Some(Assurance::Session));
}

/// Without an account, only the form can decide. After it is declined unseen, waiting is in vain.
#[tokio::test]
async fn a_form_declined_at_once_ends_the_wait_if_there_is_no_account() {
    let (_peer, rig) = without_account(HIGH, ApprovalSettings { shown_after: HOUR, wait: HOUR, ..held() }).await;
    let mut agent = Agent::at(&rig, Way::Stateless, "a", "/mcp", FORM).await;
    let got = Got::of(&mut agent, &rig, &send(ARGS, "")).await;
    let declined = back(&send(ARGS, ""), &state(&got), r#"{"action":"decline"}"#);
    assert_eq!(within(Got::of(&mut agent, &rig, &declined)).await.code(), "confirmation_required");
}

/// Codex declines links within milliseconds, and forms too if it runs without a terminal. No user has refused anything
/// then: the call is held for the page, and the log says what the client did.
#[tokio::test]
async fn a_prompt_that_was_not_shown_denies_nothing() {
    for (contract, answer) in
        [(HIGH, r#"{"action":"decline"}"#), (HIGH, r#"{"action":"cancel"}"#), (CRITICAL, r#"{"action":"decline"}"#)]
    {
        let slow = ApprovalSettings { shown_after: HOUR, ..held() };
        let (stage, mut agent, got) = asked(contract, slow, BOTH).await;
        let id = stage.pending().await.id;
        let params = back(&send(ARGS, ""), &state(&got), answer);
        let (came_back, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
            stage.noted("approval_not_shown").await;
            assert_eq!(stage.state(&id).await, ApprovalState::Pending);
            stage.approve(&id).await.unwrap();
        });
        assert_eq!((came_back.code(), stage.sent().len()), ("sent".to_owned(), 1), "{contract} {answer}");
        assert_eq!(stage.find(&id).await.decided_by.as_deref(), Some("ada"));
        let records = stage.rig.all_records().await;
        let codes: Vec<&str> = records
            .iter()
            .filter(|one| one.kind == Kind::Approval)
            .map(|one| one.code.as_ref().unwrap().for_json())
            .collect();
        assert_eq!(codes, ["approval_requested", "approval_not_shown", "approval_approved"], "{contract} {answer}");
        let unshown =
            records.iter().find(|one| one.code.as_ref().is_some_and(|code| code.for_json() == "approval_not_shown"));
        let unshown = unshown.unwrap();
        assert_eq!(
            unshown.message.as_ref().unwrap().for_json(),
            "The client of agent a declined the approval prompt and may not have shown it. The request stays pending."
        );
        let call = records.iter().find(|one| one.kind == Kind::Call).unwrap();
        let metadata: serde_json::Value = serde_json::from_str(call.metadata.for_json()).unwrap();
        assert_eq!((call.agent.as_deref(), &metadata["approved_by"]), (Some("a"), &json!("ada")));
    }
}

/// A step-up proof is valid only for its approval request and its user.
#[tokio::test]
async fn step_up_takes_a_factor_for_this_very_approval() {
    let stage = Stage::new("riskLevel: critical", never_held()).await;
    let bob = Person::invited(&stage.rig, "bob", Some(&stage.ada.user)).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let got = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
    assert_eq!(got.details()["needs"], json!(["confirmation", "step_up"]));
    let (id, other) = (got.id(), Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, "")).await.id());
    let ada = &stage.ada;
    let of_other = ada.fresh(&stage.rig, &other).await;
    let of_bob = bob.fresh(&stage.rig, &id).await;
    let approvals = stage.rig.gateway.approvals();
    for (name, fresh) in [("none", None), ("for another approval", Some(&of_other)), ("by another user", Some(&of_bob))]
    {
        let decided = approvals.approve(&id, &ada.present, fresh).await.unwrap();
        assert_eq!(decided, NotDecided::StepUpRequired.into(), "{name}");
        assert_eq!(stage.state(&id).await, ApprovalState::Pending, "{name}");
    }
    let fresh = ada.fresh(&stage.rig, &id).await;
    let approved = approvals.approve(&id, &ada.present, Some(&fresh)).await.unwrap();
    assert!(matches!(approved, DecisionResult::Decided(_)), "{approved:?}");
    assert_eq!(stage.find(&id).await.given, Some(Assurance::Factor));
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent");
    assert_eq!(
        approvals.approve(&id, &ada.present, Some(&fresh)).await.unwrap(),
        NotDecided::Over(ApprovalState::Consumed).into()
    );
    let nobody = ApprovalId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap();
    assert_eq!(approvals.approve(&nobody, &ada.present, Some(&fresh)).await.unwrap(), NotDecided::NotFound.into());
}

/// A server that requests input keeps its own request state, even if each round needs an approval.
#[tokio::test]
async fn a_server_s_own_request_gets_its_answer_too() {
    let question = r#"{"resultType":"input_required","inputRequests":{"approval":{"method":"elicitation/create","params":{"message":"Who?"}}},"requestState":"s\u00e9"}"#;
    let script = Script::new(Speaks::Modern, &format!("[{}]", SEND));
    let mut stage = Stage::with(script, HIGH, never_held()).await;
    let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", FORM).await;
    let ours = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
    let params = back(&send(ARGS, ""), &state(&ours), APPROVE);
    let (theirs, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        let call = stage.peer.next().await;
        assert!(
            !call.params().contains("requestState") && !call.params().contains("inputResponses"),
            "{}",
            call.params()
        );
        call.answer(question).await;
    });
    assert_eq!((theirs.code().as_str(), state(&theirs).as_str()), ("input_required", "sé"));
    // The agent's answer to the server travels with the approval. The server receives its own state and answer.
    let answered = back(&send(ARGS, ""), r"s\u00e9", r#"{"action":"accept","content":{"who":"Ada"}}"#);
    let ours = Got::of(&mut agent, &stage.rig, &answered).await;
    assert_eq!(ours.code(), "input_required");
    assert_ne!(state(&ours), "sé");
    let params = back(&send(ARGS, ""), &state(&ours), APPROVE);
    let (last, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        let call = stage.peer.next().await;
        let expected =
            r#""inputResponses":{"approval":{"action":"accept","content":{"who":"Ada"}}},"requestState":"s\u00e9","#;
        assert!(call.params().contains(expected), "{}", call.params());
        call.answer(r#"{"content":[{"type":"text","text":"sent"}],"resultType":"complete"}"#).await;
    });
    assert_eq!((last.code(), stage.peer.calls().len()), ("sent".to_owned(), 2));
    assert_eq!(stage.rig.store.count_pending().await.unwrap(), 0);
}

/// A server may itself be an mcpproxy, with approval requests of its own.
#[tokio::test]
async fn the_state_of_another_gateway_passes() {
    for (contract, rounds) in [("riskLevel: low", 1), (HIGH, 2)] {
        let foreign = "mcpproxy-approval.0123456789abcdef.sealed";
        let script = Script::new(Speaks::Modern, &format!("[{}]", SEND));
        let mut stage = Stage::with(script, contract, never_held()).await;
        let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", FORM).await;
        let mut params = back(&send(ARGS, ""), foreign, APPROVE);
        for _ in 1..rounds {
            let ours = Got::of(&mut agent, &stage.rig, &params).await;
            params = back(&send(ARGS, ""), &state(&ours), APPROVE);
        }
        let (got, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
            let call = stage.peer.next().await;
            let expected = format!(r#""inputResponses":{{"approval":{APPROVE}}},"requestState":"{foreign}""#);
            assert!(call.params().contains(&expected), "{contract} {}", call.params());
            call.answer(r#"{"content":[{"type":"text","text":"sent"}],"resultType":"complete"}"#).await;
        });
        assert_eq!(got.code(), "sent", "{contract}");
    }
}

/// An approver must see the whole call, so one that does not fit into a form needs the web page.
#[tokio::test]
async fn a_call_that_does_not_fit_into_a_form_goes_to_the_page() {
    for (chars, capabilities, expected) in
        [(1000, FORM, "form"), (2000, FORM, "page"), (2000, BOTH, "url"), (2000, LINK, "url")]
    {
        let stage = Stage::new(HIGH, never_held()).await;
        let mut agent = Agent::at(&stage.rig, Way::Stateless, "a", "/mcp", capabilities).await;
        let params = send(&format!(r#"{{"to":"ada","body":"{}"}}"#, "x".repeat(chars)), "");
        let got = Got::of(&mut agent, &stage.rig, &params).await;
        let asked = &got.result()["inputRequests"]["approval"]["params"];
        let way = match (asked["mode"].as_str(), asked["requestedSchema"].is_object()) {
            (Some("url"), false) => "url",
            (None, true) => "form",
            _ => "page",
        };
        assert_eq!(way, expected, "{chars} {capabilities}");
        if way == "url" {
            let claimed = Got::of(&mut agent, &stage.rig, &back(&params, &state(&got), APPROVE)).await;
            assert_eq!((claimed.code(), stage.sent()), ("confirmation_required".to_owned(), Vec::new()));
        }
    }
}
