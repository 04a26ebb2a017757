//! The log tells what happened: events of calls that ran, marks of those that did not, and the intent of refused calls.

use mcpproxy_core::{Sensitivity, Variant};
use mcpproxy_store::{CallMark, Filter, Kind, Record};
use serde_json::{Value, json};

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, OTHER_ARGS, SEND, Stage, never_held, send};
use crate::peer::{Script, Speaks, text_result};

const FAILED: &str = r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#;

/// Returns the metadata of the beginning and the end of a call together.
fn metadata(record: &Record) -> Value {
    let texts = [Some(&record.metadata), record.end_metadata.as_ref()].into_iter().flatten();
    let mut all = serde_json::Map::new();
    for text in texts {
        all.extend(serde_json::from_str::<serde_json::Map<String, Value>>(text.for_json()).unwrap());
    }
    Value::Object(all)
}

#[tokio::test]
async fn an_event_is_recorded_only_if_it_happened() {
    let contract =
        "riskLevel: low\nauditEvent: mail.sent\ncategory: mail\ndryRun: { mode: supported, parameter: dryRun }";
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |params| Some(if params.contains("eve") { FAILED.to_owned() } else { text_result("sent") });
    let stage = Stage::with(script, contract, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let key = r#","idempotency_key":"k""#;
    for (args, more) in [(ARGS, r#","dry_run":true"#), (OTHER_ARGS, ""), (ARGS, key), (ARGS, key)] {
        Got::of(&mut agent, &stage.rig, &send(args, more)).await;
    }
    let (store, _folder) = stage.rig.stopped().await;
    let mut records = store.list(&Filter::default(), None, 100).await.unwrap().records;
    records.reverse();
    let seen: Vec<(CallMark, &str, Value)> = records
        .iter()
        .filter(|record| record.kind == Kind::Call)
        .map(|record| (record.mark(), record.status.as_str(), metadata(record)["audit_event"].clone()))
        .collect();
    let expected = [
        (CallMark::DryRun, "success", Value::Null),
        (CallMark::Real, "error", Value::Null),
        (CallMark::Real, "success", json!("mail.sent")),
        (CallMark::Replayed, "success", Value::Null),
    ];
    assert_eq!(seen, expected);
    let count = async |filter: Filter| store.list(&filter, None, 100).await.unwrap().records.len();
    let calls = || Filter { kind: Some(Kind::Call), ..Filter::default() };
    assert_eq!(count(Filter { dry_run: Some(true), ..calls() }).await, 1);
    assert_eq!(count(Filter { dry_run: Some(false), ..calls() }).await, 3);
    assert_eq!(count(Filter { replayed: Some(true), ..calls() }).await, 1);
    assert_eq!(count(Filter { category: Some("mail".to_owned()), ..calls() }).await, 4);
    assert_eq!(count(Filter { category: Some("mai".to_owned()), ..calls() }).await, 0);
    let summary = store.summary(None, None).await.unwrap();
    let tool = &summary.by_tool[0];
    assert_eq!((tool.name.for_json(), tool.count, tool.dry_runs, tool.replayed), ("fx:send", 2, 1, 1));
    let server = summary.by_server.iter().find(|server| server.name.for_json() == "fx").unwrap();
    assert_eq!((server.dry_runs, server.replayed), (1, 1));
}

/// A preview never ran, and nobody got the result that a strict schema withholds.
#[tokio::test]
async fn previews_and_withheld_results_leave_no_event() {
    let contract = "riskLevel: low\nauditEvent: mail.sent\n\
                    outputSchema: { strict: true, properties: { id: { const: 1 } }, required: [id] }";
    let mut script = Script::new(Speaks::Legacy, &format!("[{SEND}]"));
    script.call = |_| Some(r#"{"content":[],"structuredContent":{"id":2}}"#.to_owned());
    let stage = Stage::with(script, contract, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    Got::of(&mut agent, &stage.rig, &send(ARGS, r#","dry_run":true"#)).await;
    let withheld = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await;
    assert_eq!(withheld.code(), "output_mismatch");
    let records = stage.rig.all_records().await;
    let calls: Vec<&Record> = records.iter().filter(|record| record.kind == Kind::Call).collect();
    let marks: Vec<CallMark> = calls.iter().map(|record| record.mark()).collect();
    assert_eq!(marks, [CallMark::DryRun, CallMark::Real]);
    for record in calls {
        assert_eq!(metadata(record)["audit_event"], Value::Null, "{record:?}");
    }
}

/// An agent that contradicts itself is recorded with its own words, under the tool it meant.
#[tokio::test]
async fn a_refused_call_keeps_the_intent_that_was_declared() {
    let stage = Stage::new("riskLevel: low\ncategory: mail", never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let cases = [
        (
            r#","intent":{"operation_type":"destructive","data_sensitivity":"private","reason":"clean up"}"#,
            "INTENT_MISMATCH",
            json!({"operation_type": "destructive", "data_sensitivity": "private", "reason": "clean up"}),
            Variant::Destructive,
        ),
        (
            r#","intent_operation_type":"erase","intent_reason":"r""#,
            "INVALID_OPERATION_TYPE",
            json!({"operation_type": "erase", "reason": "r"}),
            Variant::Write,
        ),
        (
            r#","intent_data_sensitivity":"secret""#,
            "INVALID_SENSITIVITY",
            json!({"operation_type": "write", "data_sensitivity": "secret"}),
            Variant::Write,
        ),
        (
            r#","intent_reason":"why","typo":1"#,
            "unknown_field",
            json!({"operation_type": "write", "reason": "why"}),
            Variant::Write,
        ),
    ];
    for (more, ..) in &cases {
        Got::of(&mut agent, &stage.rig, &send(ARGS, more)).await;
    }
    let (store, _folder) = stage.rig.stopped().await;
    let mut records = store.list(&Filter::default(), None, 100).await.unwrap().records;
    records.reverse();
    let refusals: Vec<&Record> = records.iter().filter(|record| record.kind == Kind::Refusal).collect();
    assert_eq!(refusals.len(), cases.len());
    for (record, (_, code, intent, operation)) in refusals.iter().zip(cases) {
        let metadata = metadata(record);
        assert_eq!(record.code.as_ref().unwrap().for_json(), code);
        assert_eq!(metadata["intent"], intent, "{code}");
        let is_undeclared = matches!(code, "INVALID_SENSITIVITY" | "unknown_field");
        let declared = if is_undeclared { json!(false) } else { Value::Null };
        assert_eq!(metadata["intent_declared"], declared, "{code}");
        assert_eq!(metadata["expected"], json!({"operation_type": "write"}), "{code}");
        assert_eq!((&metadata["tool_variant"], &metadata["category"]), (&json!("call_tool_write"), &json!("mail")));
        assert_eq!(record.intent_type, Some(operation), "{code}");
    }
    let found = async |filter: Filter| store.list(&filter, None, 100).await.unwrap().records.len();
    assert_eq!(found(Filter { intent_type: Some(Variant::Destructive), ..Filter::default() }).await, 1);
    assert_eq!(found(Filter { text: Some("clean up".to_owned()), ..Filter::default() }).await, 1);
    assert_eq!(found(Filter { sensitivity: Some(Sensitivity::Private), ..Filter::default() }).await, 1);
    let summary = store.summary(None, None).await.unwrap();
    let tool = &summary.by_tool[0];
    assert_eq!((tool.name.for_json(), tool.count, tool.refused), ("fx:send", 4, 4));
}

/// Every record of a call has an intent, even if the agent declared nothing and no variant is known.
#[tokio::test]
async fn a_call_without_an_intent_says_so() {
    let stage = Stage::new("riskLevel: low", never_held()).await;
    let mut four = Agent::new(&stage.rig, Way::Session, "a").await;
    let mut direct = Agent::at(&stage.rig, Way::Session, "b", "/mcp/direct", "{}").await;
    let declared = r#","intent":{"operation_type":"write"}"#;
    for params in [send(ARGS, ""), send(ARGS, declared), r#"{"name":"call_tool","arguments":{}}"#.to_owned()] {
        Got::of(&mut four, &stage.rig, &params).await;
    }
    for name in ["fx__send", "fx__nothing", "nothing"] {
        Got::of(&mut direct, &stage.rig, &format!(r#"{{"name":"{name}","arguments":{ARGS}}}"#)).await;
    }
    let records = stage.rig.all_records().await;
    let calls = records.iter().filter(|record| matches!(record.kind, Kind::Call | Kind::Refusal));
    let seen: Vec<Value> =
        calls.map(metadata).map(|metadata| json!([metadata["intent"], metadata["intent_declared"]])).collect();
    let write = json!({"operation_type": "write"});
    let expected = [
        json!([write, false]),
        json!([write, null]),
        json!([{}, false]),
        json!([write, false]),
        json!([{}, false]),
        json!([{}, false]),
    ];
    assert_eq!(seen, expected);
}

/// A user who reads the log sees why the agent asked, in every step of the request.
#[tokio::test]
async fn approval_records_have_the_intent() {
    let stage = Stage::new("riskLevel: high\ncategory: mail", never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let more = r#","intent":{"operation_type":"write","data_sensitivity":"private","reason":"the user asked"}"#;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, more)).await.id();
    stage.deny(&id, None).await.unwrap();
    let id = Got::of(&mut agent, &stage.rig, &send(OTHER_ARGS, more)).await.id();
    stage.approve(&id).await.unwrap();
    let (store, _folder) = stage.rig.stopped().await;
    let mut records = store.list(&Filter::default(), None, 100).await.unwrap().records;
    records.reverse();
    let steps: Vec<&Record> = records.iter().filter(|record| record.kind == Kind::Approval).collect();
    let intent = json!({"operation_type": "write", "data_sensitivity": "private", "reason": "the user asked"});
    let codes: Vec<&str> = steps.iter().filter_map(|step| Some(step.code.as_ref()?.for_json())).collect();
    assert_eq!(codes, ["approval_requested", "approval_denied", "approval_requested", "approval_approved"]);
    for step in steps {
        let metadata = metadata(step);
        assert_eq!((&metadata["intent"], &metadata["category"]), (&intent, &json!("mail")));
    }
    let filter =
        Filter { sensitivity: Some(Sensitivity::Private), category: Some("mail".to_owned()), ..Filter::default() };
    // The refusals that named the requests, and their steps.
    assert_eq!(store.list(&filter, None, 100).await.unwrap().records.len(), 6);
}
