//! Approval prompts in clients with a session or on standard input: `elicitation/create` while the call is held.

use std::time::Duration;

use mcpproxy_core::settings::{ApprovalSettings, ServerSettings, Settings};
use mcpproxy_core::{ApprovalState, Assurance};
use serde_json::{Value, json};

use crate::agent::{Agent, Events, Way, request_text};
use crate::asked::{ARGS, Got, HIGH, HOUR, SEND, Stage, files, held, send, without_account};
use crate::peer::{Script, Speaks};
use crate::rig::{Rig, within};

const FORM: &str = r#"{"elicitation":{}}"#;
const BOTH: &str = r#"{"elicitation":{"form":{},"url":{}}}"#;
const CRITICAL: &str = "riskLevel: critical\nstepUpAuth: false";
const WAYS: [Way; 2] = [Way::Session, Way::Line];

/// An agent with a call in progress, over any transport.
struct Held {
    agent: Agent,
    stream: Option<Events>,
}

impl Held {
    async fn call(stage: &Stage, way: Way, capabilities: &str) -> Self {
        Self::call_with(stage, way, capabilities, &send(ARGS, "")).await
    }

    async fn call_with(stage: &Stage, way: Way, capabilities: &str, params: &str) -> Self {
        let agent = Agent::at(&stage.rig, way, "a", "/mcp", capabilities).await;
        Self::call_of(agent, &stage.rig, way, params).await
    }

    async fn call_of(mut agent: Agent, rig: &Rig, way: Way, params: &str) -> Self {
        let stream = match way {
            Way::Line => {
                agent.write(&request_text(1, "tools/call", params)).await;
                None
            }
            _ => Some(agent.stream(rig, 1, "tools/call", params).await),
        };
        Self { agent, stream }
    }

    async fn next(&mut self) -> Value {
        let text = match &mut self.stream {
            Some(stream) => stream.next().await.unwrap(),
            None => self.agent.read().await,
        };
        serde_json::from_str(&text).unwrap()
    }

    /// Reads the prompt, which must be the first message except for progress.
    async fn question(&mut self) -> Value {
        let mut asked = self.next().await;
        while asked["method"] == "notifications/progress" {
            asked = self.next().await;
        }
        assert_eq!((&asked["id"], &asked["method"]), (&json!("mcpproxy-1"), &json!("elicitation/create")));
        asked["params"].clone()
    }

    async fn answer(&mut self, stage: &Stage, outcome: &str) -> http::StatusCode {
        self.answer_on(&stage.rig, outcome).await
    }

    async fn answer_on(&mut self, rig: &Rig, outcome: &str) -> http::StatusCode {
        self.agent.tell(rig, &format!(r#"{{"jsonrpc":"2.0","id":"mcpproxy-1",{outcome}}}"#)).await
    }

    /// Reads the answer. Progress may come before it.
    async fn end(&mut self) -> Got {
        loop {
            let message = self.next().await;
            if message["method"].is_null() {
                return Got(message);
            }
        }
    }
}

#[tokio::test]
async fn a_form_is_answered_while_the_call_waits() {
    let approve = r#""result":{"action":"accept","content":{"decision":"approve"}}"#;
    let deny = r#""result":{"action":"accept","content":{"decision":"deny"}}"#;
    for way in WAYS {
        for (answer, expected, sent) in [
            (approve, "sent", 1),
            (deny, "approval_denied", 0),
            (r#""result":{"action":"decline"}"#, "approval_denied", 0),
        ] {
            let stage = Stage::new(HIGH, held()).await;
            let mut call = Held::call(&stage, way, FORM).await;
            let question = call.question().await;
            assert_eq!(question["requestedSchema"]["required"], json!(["decision"]));
            assert!(question["requestedSchema"]["properties"]["decision"]["default"].is_null());
            assert!(question["mode"].is_null(), "clients of before know no modes");
            call.answer(&stage, answer).await;
            let id = stage.latest().await.id;
            let got = call.end().await;
            assert_eq!((got.code().as_str(), stage.sent().len()), (expected, sent), "{way:?} {answer}");
            assert_eq!(stage.find(&id).await.decided_by.as_deref(), Some("client \"test 1\""), "{way:?} {answer}");
        }
    }
}

/// If the client returns an error or no decision, the approval request stays open for the web page.
#[tokio::test]
async fn the_page_decides_where_the_client_does_not() {
    for way in WAYS {
        for answer in [
            r#""error":{"code":-32601,"message":"Method not found"}"#,
            r#""error":{"code":-32602,"message":"unknown mode"}"#,
            r#""result":{"action":"cancel"}"#,
            r#""result":{"action":"accept","content":{}}"#,
            r#""result":{}"#,
            r#""result":{"action":"later"}"#,
        ] {
            let stage = Stage::new(HIGH, held()).await;
            let mut call = Held::call(&stage, way, FORM).await;
            call.question().await;
            call.answer(&stage, answer).await;
            let id = stage.pending().await.id;
            assert_eq!(stage.sent(), [""; 0]);
            stage.approve(&id).await.unwrap();
            assert_eq!(call.end().await.code(), "sent", "{way:?} {answer}");
            assert_eq!(stage.find(&id).await.given, Some(Assurance::Session));
        }
    }
}

#[tokio::test]
async fn a_critical_call_gets_a_link_and_cannot_be_approved_in_the_client() {
    for way in WAYS {
        let stage = Stage::new(CRITICAL, held()).await;
        let mut call = Held::call(&stage, way, BOTH).await;
        let question = call.question().await;
        let id = stage.pending().await.id;
        let url = format!("http://localhost:8080/ui/approvals/{id}");
        let message = "Agent 'a' wants to call 'fx:send' (risk: critical). Open the page to read the details, and to \
                       approve or deny the call.";
        assert_eq!(question, json!({"mode": "url", "url": url, "message": message, "elicitationId": id.as_str()}));
        call.answer(&stage, r#""result":{"action":"accept","content":{"decision":"approve"}}"#).await;
        assert_eq!(stage.pending().await.state, ApprovalState::Pending, "{way:?}");
        stage.approve(&id).await.unwrap();
        assert_eq!((call.end().await.code(), stage.sent().len()), ("sent".to_owned(), 1), "{way:?}");
    }
}

/// A client that supports only forms gets no prompt for a call that a form cannot approve.
#[tokio::test]
async fn a_critical_call_of_a_client_with_forms_waits_for_the_page() {
    let stage = Stage::new(CRITICAL, held()).await;
    let mut agent = Agent::at(&stage.rig, Way::Session, "a", "/mcp", FORM).await;
    let params = send(ARGS, "");
    let (got, ()) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        let id = stage.pending().await.id;
        stage.approve(&id).await.unwrap();
    });
    assert_eq!(got.code(), "sent");
}

#[tokio::test]
async fn a_form_that_is_answered_late_still_decides() {
    for way in WAYS {
        let short = ApprovalSettings { wait: Duration::from_millis(100), ..held() };
        let stage = Stage::new(HIGH, short).await;
        let mut call = Held::call(&stage, way, FORM).await;
        call.question().await;
        let got = call.end().await;
        let id = got.id();
        assert_eq!(got.code(), "confirmation_required", "{way:?}: the call was given back");
        let mut changed = stage.rig.gateway.approvals().changed();
        call.answer(&stage, r#""result":{"action":"accept","content":{"decision":"approve"}}"#).await;
        while stage.state(&id).await != ApprovalState::Approved {
            crate::rig::within(changed.changed()).await.unwrap();
        }
        let again = Got::of(&mut call.agent, &stage.rig, &send(ARGS, "")).await;
        assert_eq!((again.code(), stage.sent().len()), ("sent".to_owned(), 1), "{way:?}");
    }
}

/// A client that declines at once has not shown the prompt. The call stays held, and the page decides.
#[tokio::test]
async fn a_client_that_declines_at_once_has_asked_nobody() {
    for way in WAYS {
        for (contract, capabilities) in [(HIGH, FORM), (CRITICAL, BOTH)] {
            let slow = ApprovalSettings { shown_after: HOUR, ..held() };
            let stage = Stage::new(contract, slow).await;
            let mut call = Held::call(&stage, way, capabilities).await;
            call.question().await;
            call.answer(&stage, r#""result":{"action":"decline"}"#).await;
            stage.noted("approval_not_shown").await;
            let id = stage.pending().await.id;
            stage.approve(&id).await.unwrap();
            assert_eq!((call.end().await.code(), stage.sent().len()), ("sent".to_owned(), 1), "{way:?} {contract}");
        }
    }
}

/// Without an account, only the form can decide. After it is declined unseen, waiting is in vain.
#[tokio::test]
async fn a_form_declined_at_once_ends_the_wait_if_there_is_no_account() {
    let (_peer, rig) = without_account(HIGH, ApprovalSettings { shown_after: HOUR, wait: HOUR, ..held() }).await;
    let with_token = send(ARGS, "").replacen('{', r#"{"_meta":{"progressToken":"t"},"#, 1);
    for (way, params) in [(Way::Session, send(ARGS, "")), (Way::Line, with_token)] {
        let agent = Agent::at(&rig, way, &format!("{way:?}").to_lowercase(), "/mcp", FORM).await;
        let mut call = Held::call_of(agent, &rig, way, &params).await;
        within(call.question()).await;
        call.answer_on(&rig, r#""result":{"action":"decline"}"#).await;
        assert_eq!(within(call.end()).await.code(), "confirmation_required", "{way:?}");
    }
}

/// A user who reads a form has more time than `approvals.wait`, if the client can know that the call is alive.
#[tokio::test]
async fn an_open_form_holds_the_call() {
    for way in WAYS {
        let short = ApprovalSettings { wait: Duration::from_millis(1), ..held() };
        let stage = Stage::new(HIGH, short).await;
        let params = send(ARGS, "");
        let params = format!(r#"{},"_meta":{{"progressToken":"t"}}}}"#, params.strip_suffix('}').unwrap());
        let mut call = Held::call_with(&stage, way, FORM, &params).await;
        // Progress may come before the form. Both come before the answer.
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.push(call.next().await["method"].as_str().expect("no answer yet").to_owned());
        }
        seen.sort();
        assert_eq!(seen, ["elicitation/create", "notifications/progress"], "{way:?}");
        call.answer(&stage, r#""result":{"action":"accept","content":{"decision":"approve"}}"#).await;
        assert_eq!((call.end().await.code(), stage.sent().len()), ("sent".to_owned(), 1), "{way:?}");
    }
}

/// If the web page decides first, a late approval in the client starts no second call, and a late denial undoes
/// nothing.
#[tokio::test]
async fn the_first_decision_counts() {
    for answer in ["approve", "deny"] {
        let stage = Stage::new(HIGH, held()).await;
        let mut call = Held::call(&stage, Way::Session, FORM).await;
        call.question().await;
        let id = stage.pending().await.id;
        stage.approve(&id).await.unwrap();
        assert_eq!(call.end().await.code(), "sent");
        call.answer(&stage, &format!(r#""result":{{"action":"accept","content":{{"decision":"{answer}"}}}}"#)).await;
        let mut other = Agent::new(&stage.rig, Way::Session, "b").await;
        // After one more exchange, the gateway has processed the late answer.
        other.request(&stage.rig, "tools/list", "{}").await;
        assert_eq!((stage.state(&id).await, stage.sent().len()), (ApprovalState::Consumed, 1), "{answer}");
    }
}

/// An open form does not extend the server's timeout.
#[tokio::test]
async fn an_open_form_does_not_keep_a_server_from_being_late() {
    let mut script = Script::new(Speaks::Legacy, &format!("[{}]", SEND));
    script.call = |_| None;
    let stage = Stage::with(script, HIGH, held()).await;
    let files = files(&stage.peer, HIGH, held());
    let quick = ServerSettings { call_timeout: Duration::from_millis(300), ..stage.peer.settings("fx") };
    let settings = Settings { servers: vec![quick], ..(*files.settings).clone() };
    let settled = stage.rig.gateway.settled();
    stage.rig.gateway.reload(mcpproxy_gateway::Files { settings: settings.into(), ..files });
    crate::rig::within(settled).await;
    crate::rig::within(stage.rig.gateway.ready()).await;
    let mut call = Held::call(&stage, Way::Session, FORM).await;
    call.question().await;
    let id = stage.pending().await.id;
    stage.approve(&id).await.unwrap();
    assert_eq!(crate::rig::within(call.end()).await.code(), "upstream_timeout");
}
