//! A gateway that crashes during a call: a sent call is not sent again, and an unsent one is not lost.

use std::sync::Arc;

use mcpproxy_core::ApprovalId;
use mcpproxy_store::VerifyOptions;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, HIGH, SEND, Stage, files, never_held, send, with_approval};
use crate::peer::{Peer, Script, Speaks, text_result};
use crate::rig::{PATIENCE, Rig};

const KEY: &str = r#","idempotency_key":"k1""#;

/// State that survives the crash.
struct Left {
    folder: Arc<TempDir>,
    agent: Agent,
    approval: Option<ApprovalId>,
}

/// The progress of a call when the gateway crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Asked,
    Approved,
    /// The server has received the call, but has not answered.
    Sent,
    Answered,
}

/// Runs a gateway and ends all its tasks at once. They share one thread, so none of them can see another one end.
fn crash(contract: &str, end: End, more: &str) -> Left {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let left = runtime.block_on(async {
        let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
        script.call = if end == End::Answered { |_| Some(text_result("sent")) } else { |_| None };
        let mut stage = Stage::with(script, contract, never_held()).await;
        let mut agent = Agent::new(&stage.rig, Way::Stateless, "a").await;
        let folder = stage.rig.folder();
        let approval = match contract.contains("high") {
            true => Some(Got::of(&mut agent, &stage.rig, &send(ARGS, more)).await.id()),
            false => None,
        };
        if let (Some(id), End::Approved | End::Sent | End::Answered) = (&approval, end) {
            stage.approve(id).await.unwrap();
        }
        let params = send(ARGS, more);
        match end {
            End::Asked | End::Approved => {}
            End::Answered => assert_eq!(Got::of(&mut agent, &stage.rig, &params).await.code(), "sent"),
            End::Sent => {
                let request = agent.http(1, "tools/call", &params);
                let router = stage.rig.router();
                tokio::spawn(async move { tower::ServiceExt::oneshot(router, request).await });
                assert_eq!(stage.peer.next().await.method(), "tools/call");
            }
        }
        Left { folder, agent, approval }
    });
    // Waits for the thread that writes to the database. A crashed process has no such thread.
    runtime.shutdown_timeout(PATIENCE);
    left
}

/// Sends the same calls to the next gateway. Returns the answers, and the number of calls that reached the server.
async fn again(left: &mut Left, contract: &str, calls: &[&str]) -> (Vec<Got>, usize) {
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| Some(text_result("sent"));
    let peer = Peer::new(script).await;
    let rig = Rig::after(Arc::clone(&left.folder), files(&peer, contract, never_held())).await;
    let mut all = Vec::new();
    for more in calls {
        let named = left.approval.as_ref().filter(|_| more.contains('@')).map(with_approval).unwrap_or_default();
        all.push(Got::of(&mut left.agent, &rig, &send(ARGS, &format!("{}{named}", more.replace('@', "")))).await);
    }
    let verdicts = rig.store.verify(VerifyOptions::default(), &mut |_| {}).await.unwrap();
    assert!(verdicts.iter().all(|verdict| verdict.damage.is_none()), "{verdicts:?}");
    (all, peer.calls().len())
}

#[test]
fn an_approved_call_is_never_made_twice() {
    for (end, expected, sent) in [
        (End::Asked, ["confirmation_required", "confirmation_required"], 0),
        (End::Approved, ["sent", "approval_already_used"], 1),
        (End::Sent, ["approval_already_used"; 2], 0),
        (End::Answered, ["approval_already_used"; 2], 0),
    ] {
        let mut left = crash(HIGH, end, "");
        let (got, calls) = Runtime::new().unwrap().block_on(again(&mut left, HIGH, &["@", "@"]));
        let codes: Vec<String> = got.iter().map(Got::code).collect();
        assert_eq!((codes, calls), (expected.map(str::to_owned).to_vec(), sent), "{end:?}");
        let outcome = match end {
            End::Sent => json!("interrupted"),
            End::Approved | End::Answered => json!("success"),
            End::Asked => continue,
        };
        assert_eq!(got[1].details()["outcome"], outcome, "{end:?}");
    }
}

#[test]
fn a_call_with_a_name_is_never_made_twice() {
    let natural = "riskLevel: low\nidempotency: { mode: natural, keyFrom: [to] }";
    for (contract, more, end, expected, sent) in [
        ("riskLevel: low", KEY, End::Sent, "outcome_unknown", 0),
        ("riskLevel: low", KEY, End::Answered, "sent", 0),
        // The contract declares a repeat harmless.
        (natural, "", End::Sent, "sent", 1),
        (natural, "", End::Answered, "sent", 0),
        // Approved calls behave alike: the key returns the stored answer, or `outcome_unknown`.
        (HIGH, KEY, End::Sent, "outcome_unknown", 0),
        (HIGH, KEY, End::Answered, "sent", 0),
        (HIGH, KEY, End::Approved, "sent", 1),
    ] {
        let mut left = crash(contract, end, more);
        let (got, calls) = Runtime::new().unwrap().block_on(again(&mut left, contract, &[more, more]));
        for (index, got) in got.iter().enumerate() {
            assert_eq!(got.code(), expected, "{contract} {end:?}");
            let is_replayed = got.result()["_meta"]["mcpproxy/replayed"] == true;
            assert_eq!(is_replayed, expected == "sent" && (sent == 0 || index == 1), "{contract} {end:?} {index}");
            if expected == "outcome_unknown" {
                assert!(got.details()["record"].is_string(), "{}", got.0);
            }
        }
        assert_eq!(calls, sent, "{contract} {end:?}");
    }
}
