//! Dry runs that users make in the name of an agent: recorded with both names, and no proof for the agent.

use futures::FutureExt as _;
use mcpproxy_core::{Agent as Identity, Scope, Variant};
use mcpproxy_gateway::{DryRunReport, DryRunResult, ExplainError};
use mcpproxy_store::Status;
use serde_json::{Value, json};

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, SEND, Stage, never_held, send};
use crate::peer::{Script, Speaks, text_result};
use crate::rig::within;

const NATIVE: &str = "riskLevel: low\ndryRun: { mode: supported, parameter: dryRun }\nsensitive: [/body]";
const REQUIRED: &str = "riskLevel: low\ndryRun: required\nsideEffects: [A mail leaves.]\nsensitive: [/body]";
const REQUIRED_NATIVE: &str = "riskLevel: low\ndryRun: { mode: required, parameter: dryRun }";
const DRY_ARGS: &str = r#"{"to":"ada","body":"hello","dryRun":true}"#;

async fn stage_with(contract: &str, call: fn(&str) -> Option<String>) -> (Stage, Agent) {
    let script = Script { call, ..Script::new(Speaks::Legacy, &format!("[{SEND}]")) };
    let stage = Stage::with(script, contract, never_held()).await;
    let agent = Agent::new(&stage.rig, Way::Session, "a").await;
    (stage, agent)
}

async fn stage(contract: &str) -> (Stage, Agent) {
    stage_with(contract, |params| {
        Some(text_result(if params.contains(r#""dryRun":true"#) { "would send hello" } else { "sent" }))
    })
    .await
}

fn parameters(more: &str) -> String {
    format!(r#"{{"name":"fx:send","args":{ARGS},"intent":{{"operation_type":"write"}}{more}}}"#)
}

async fn run(stage: &Stage, agent: &str, parameters: &str) -> Result<DryRunReport, ExplainError> {
    within(stage.rig.gateway.dry_run(&stage.ada.present, agent, Variant::Write, parameters)).await
}

/// Returns the text of a dry run that was made, and who made it.
fn made(report: &DryRunReport) -> (&str, bool) {
    match &report.result {
        DryRunResult::Made { dry_run, .. } => (dry_run.preview.for_json(), dry_run.is_native),
        other => panic!("{other:?}"),
    }
}

/// Returns agent, status, and the members of the metadata that matter here, of all records of the tool.
async fn recorded(stage: Stage) -> Vec<Value> {
    let whole = stage.rig.whole_records().await;
    let of_tool = whole.iter().filter(|whole| whole.record.tool.is_some());
    of_tool
        .map(|whole| {
            let metadata: Value = serde_json::from_str(whole.record.metadata.for_json()).unwrap();
            let member = |name: &str| metadata[name].clone();
            let status = whole.record.status.as_str();
            json!([whole.record.agent, status, member("user"), member("dry_run"), member("endpoint_mode")])
        })
        .collect()
}

#[tokio::test]
async fn the_server_gets_one_call_and_the_record_names_both() {
    let (stage, mut agent) = stage(NATIVE).await;
    let report = run(&stage, "a", &parameters("")).await.unwrap();
    let (text, is_native) = made(&report);
    assert!(text.contains("would send ***") && !text.contains("hello") && is_native, "{text}");
    assert_eq!(stage.sent(), [DRY_ARGS], "parameters that name no dry run are one all the same");
    assert!(report.record.is_some());
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent");
    let expected = [json!(["a", "success", "ada", "server", "console"]), json!(["a", "success", null, null, "four"])];
    assert_eq!(recorded(stage).await, expected);
}

#[tokio::test]
async fn it_is_no_dry_run_of_the_agent() {
    for (contract, is_native) in [(REQUIRED, false), (REQUIRED_NATIVE, true)] {
        let (stage, mut agent) = stage(contract).await;
        let report = run(&stage, "a", &parameters(r#","dry_run":true"#)).await.unwrap();
        assert_eq!(made(&report).1, is_native, "{contract}");
        let code = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code();
        assert_eq!(code, "dry_run_required", "{contract}");
        // The agent's own counts, so the call is otherwise allowed.
        Got::of(&mut agent, &stage.rig, &send(ARGS, r#","dry_run":true"#)).await;
        assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent", "{contract}");
    }
}

#[tokio::test]
async fn a_preview_is_masked_and_names_what_the_agent_lacks() {
    let (stage, _) = stage(&format!("{REQUIRED}\npermissions: [mail:send]")).await;
    let scope = Scope { grants: Vec::new(), ..Scope::everything() };
    stage.rig.token_for(&Identity { name: "poor".to_owned(), scope }).await;
    let report = run(&stage, "poor", &parameters("")).await.unwrap();
    let preview: Value = serde_json::from_str(made(&report).0).unwrap();
    assert_eq!(preview["missingPermissions"], json!(["mail:send"]));
    assert_eq!(preview["wouldCall"]["arguments"], json!({"to": "ada", "body": "***"}));
    assert_eq!(stage.sent(), [""; 0]);
    assert_eq!(recorded(stage).await, [json!(["poor", "success", "ada", "preview", "console"])]);
}

#[tokio::test]
async fn a_refusal_is_recorded_with_both_names() {
    let (stage, _) = stage(NATIVE).await;
    stage.rig.token_for(&Identity { name: "reader".to_owned(), scope: Scope::read_only() }).await;
    let report = run(&stage, "reader", &parameters("")).await.unwrap();
    let DryRunResult::Refused { code, .. } = &report.result else { panic!("{report:?}") };
    assert_eq!((code.for_json(), report.record.is_some()), ("permission_denied", true));
    // Malformed parameters are a JSON-RPC error for an agent.
    let report = run(&stage, "a", r#"{"name":"fx:send","argz":{}}"#).await.unwrap();
    assert!(matches!(&report.result, DryRunResult::Refused { message, .. } if message.for_json().contains("argz")));
    assert!(report.record.is_some());
    for unknown in ["nobody", ""] {
        let refused = run(&stage, unknown, &parameters("")).await;
        assert!(matches!(refused, Err(ExplainError::NoAgent(_))), "{refused:?}");
    }
    assert!(matches!(run(&stage, "a", "{").await, Err(ExplainError::Parameters(_))));
    assert_eq!(stage.sent(), [""; 0]);
    let expected =
        [json!(["reader", "refused", "ada", null, "console"]), json!(["a", "refused", "ada", null, "console"])];
    assert_eq!(recorded(stage).await, expected);
}

#[tokio::test]
async fn an_error_of_the_server_is_masked_too() {
    let (stage, _) = stage_with(NATIVE, |_| {
        Some(r#"{"content":[{"type":"text","text":"hello is no body"}],"isError":true}"#.to_owned())
    })
    .await;
    let report = run(&stage, "a", &parameters("")).await.unwrap();
    let DryRunResult::Failed { answer: Some(answer), .. } = &report.result else { panic!("{report:?}") };
    assert!(answer.for_json().contains("*** is no body"), "{answer:?}");
    assert_eq!(recorded(stage).await, [json!(["a", "error", "ada", "server", "console"])]);
}

/// A browser that closes the page drops the future. The call must still be finished and recorded.
#[tokio::test]
async fn a_user_who_leaves_does_not_leave_the_record_open() {
    let (mut stage, _) = stage_with(NATIVE, |_| None).await;
    let parameters = parameters("");
    let mut running = Box::pin(stage.rig.gateway.dry_run(&stage.ada.present, "a", Variant::Write, &parameters));
    let call = loop {
        tokio::select! {
            report = &mut running => panic!("{report:?}"),
            heard = stage.peer.next() => if heard.method() == "tools/call" { break heard },
        }
    };
    assert!((&mut running).now_or_never().is_none());
    drop(running);
    let mut committed = stage.rig.ledger.committed();
    call.answer_text("would send").await;
    let ended = async {
        loop {
            let page = stage.rig.store.list(&mcpproxy_store::Filter::default(), None, 100).await.unwrap();
            if page.records.iter().any(|record| record.tool.is_some() && record.status == Status::Success) {
                return;
            }
            committed.changed().await.unwrap();
        }
    };
    within(ended).await;
    assert_eq!(recorded(stage).await, [json!(["a", "success", "ada", "server", "console"])]);
}
