//! Calls through the four tools, by every kind of agent: refusals, their messages, and that refused calls reach no
//! server.

use std::sync::Arc;

use mcpproxy_core::settings::{IntentSettings, Settings, TwoKey, Unannotated};
use mcpproxy_gateway::Files;
use serde_json::{Value, json};

use crate::agent::{Agent, Reply, WAYS, Way, split_record};
use crate::contracts::contracts;
use crate::peer::{Peer, READ_ONLY, Script, Speaks, text_result, tool};
use crate::rig::{Rig, settings};

const ROWS: &str = include_str!("../data/calls.jsonl");

/// Starts a server with every kind of tool. It answers each call with the tool's name.
async fn fx() -> Peer {
    let tools = [
        tool("echo", READ_ONLY),
        tool("create_note", "{}"),
        tool("not_read_only", r#"{"readOnlyHint":false}"#),
        tool("delete_thing", r#"{"destructiveHint":true}"#),
        tool("both_hints", r#"{"readOnlyHint":true,"destructiveHint":true}"#),
    ];
    let mut script = Script::new(Speaks::Legacy, &format!("[{}]", tools.join(",")));
    script.call = |params| {
        let params: Value = serde_json::from_str(params).unwrap();
        Some(text_result(&format!("{} ran", params["name"].as_str().unwrap())))
    };
    Peer::new(script).await
}

/// Builds the whole result of a refusal.
fn refusal(code: &str, message: &str, details: &Value) -> Value {
    json!({
        "content": [{"type": "text", "text": message}],
        "structuredContent": {"error": {"code": code, "message": message, "details": details}},
        "isError": true,
        "_meta": {"mcpproxy/error": code},
    })
}

fn check(row: &Value, way: Way, reply: Reply) {
    let (code, message, details) = (&row["code"], &row["message"], &row["details"]);
    match (reply, code) {
        (Reply::Result(result), Value::Null) => {
            let expected = text_result(message.as_str().unwrap());
            assert_eq!(result, expected, "{way:?} {row}");
        }
        (Reply::Result(result), Value::String(code)) => {
            let result: Value = serde_json::from_str(&result).unwrap();
            assert_eq!(result, refusal(code, message.as_str().unwrap(), details), "{way:?} {row}");
        }
        (Reply::Error(error), Value::Number(_)) => {
            let error: Value = serde_json::from_str(&error).unwrap();
            let mut expected = json!({"code": code, "message": message});
            if !details.is_null() {
                expected["data"] = details.clone();
            }
            assert_eq!(error, expected, "{way:?} {row}");
        }
        (reply, _) => panic!("{way:?} {row}: {reply:?}"),
    }
}

/// Runs the rows for these settings with every kind of agent. Returns the records, and the calls that arrived.
async fn run(under: &str, intent: IntentSettings) -> (Vec<String>, usize, usize) {
    let peer = fx().await;
    let rig = Rig::start(Settings { intent, ..settings([peer.settings("fx")]) }).await;
    let rows: Vec<Value> = ROWS.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let rows: Vec<&Value> = rows.iter().filter(|row| row["under"].as_str().unwrap_or("defaults") == under).collect();
    let mut allowed = 0;
    for way in WAYS {
        let mut agent = Agent::new(&rig, way, &format!("{way:?}")).await;
        for row in &rows {
            let (tool, arguments) = (row["tool"].as_str().unwrap(), row["arguments"].as_str().unwrap());
            check(row, way, agent.call(&rig, tool, arguments).await);
            allowed += usize::from(row["code"].is_null());
        }
    }
    assert!(!rows.is_empty());
    let arrived = peer.calls().len();
    assert_eq!(arrived, allowed, "{under}: a refused call reached the server, or an allowed one did not");
    (rig.records().await, allowed, rows.len() * WAYS.len())
}

#[tokio::test]
async fn every_row_by_every_kind_of_agent() {
    let (records, allowed, all) = run("defaults", IntentSettings::default()).await;
    let of_kind = |kind: &str| records.iter().filter(|line| line.starts_with(kind)).count();
    assert_eq!((of_kind("call success "), of_kind("refusal refused ")), (allowed, all - allowed));
    assert_eq!(records.len(), all, "each has exactly one record: {records:#?}");
}

#[tokio::test]
async fn two_keys_required() {
    run("two keys", IntentSettings { two_key: TwoKey::Required, ..IntentSettings::default() }).await;
}

#[tokio::test]
async fn tools_without_annotations_require_write() {
    run("require write", IntentSettings { unannotated: Unannotated::RequireWrite, ..IntentSettings::default() }).await;
}

#[tokio::test]
async fn a_lenient_operator_gets_warnings() {
    let peer = fx().await;
    let intent =
        IntentSettings { strict_server_validation: false, unannotated: Unannotated::Warn, ..IntentSettings::default() };
    let rig = Rig::start(Settings { intent, ..settings([peer.settings("fx")]) }).await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let mut check = async |tool: &str, name: &str, warning: &str| {
        let found = agent.call(&rig, tool, &format!(r#"{{"name":"fx:{name}"}}"#)).await.result();
        let text = text_result(&format!("{name} ran"));
        let text = text.strip_suffix('}').unwrap();
        assert_eq!(found, format!(r#"{text},"_meta":{{"mcpproxy/warnings":[{warning}]}}}}"#));
    };
    check("call_tool_read", "delete_thing", r#"{"code":"SERVER_MISMATCH","message":"Tool 'fx:delete_thing' is marked destructive by server, use call_tool_destructive instead of call_tool_read"}"#).await;
    check("call_tool_read", "create_note", r#"{"code":"unannotated","message":"The server does not mark tool 'fx:create_note' as read-only. The gateway relied on your use of call_tool_read."}"#).await;
    check("call_tool_write", "echo", r#"{"code":"overly_cautious","message":"Tool 'fx:echo' only reads, according to its server. You can use call_tool_read."}"#).await;
    assert_eq!(
        rig.records().await,
        [
            "call success a fx:delete_thing read -: -",
            "call success a fx:create_note read -: -",
            "call success a fx:echo write -: -"
        ]
    );
}

#[tokio::test]
async fn what_an_agent_declares_is_on_the_record() {
    let peer = fx().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Stateless, "a").await;
    let reason = "é".repeat(1000);
    let arguments = format!(
        r#"{{"name":"fx:echo","args":{{"b":1,"a":1.0}},"intent_data_sensitivity":"private","intent_reason":"{reason}"}}"#
    );
    assert_eq!(agent.call(&rig, "call_tool_read", &arguments).await.brief(), "echo ran");
    assert_eq!(agent.call(&rig, "call_tool_read", r#"{"name":"fx:create_note"}"#).await.brief(), "create_note ran");
    let records = rig.whole_records().await;
    let calls: Vec<_> = records.iter().filter(|whole| whole.record.agent.is_some()).collect();
    // Every call names the contract that it was decided by.
    let without_contract = |metadata: &str| {
        let (before, rest) = metadata.split_once(r#","contract":{"digest":""#).unwrap();
        let (digest, after) = rest.split_once(r#""}"#).unwrap();
        assert_eq!(digest.len(), 64, "{metadata}");
        format!("{before}{after}")
    };
    let metadata: Vec<String> = calls.iter().map(|whole| without_contract(whole.record.metadata.for_json())).collect();
    let declared = format!(
        r#"{{"intent":{{"operation_type":"read","data_sensitivity":"private","reason":"{reason}"}},"intent_declared":false,"tool_variant":"call_tool_read","endpoint_mode":"four","intent_verified":true}}"#
    );
    let bare = r#"{"intent":{"operation_type":"read"},"intent_declared":false,"tool_variant":"call_tool_read","endpoint_mode":"four","intent_verified":false}"#;
    assert_eq!(metadata, [declared.as_str(), bare]);
    let first = calls[0];
    assert_eq!(first.args.as_ref().unwrap().for_json(), r#"{"b":1,"a":1.0}"#);
    assert_eq!(first.result.as_ref().unwrap().for_json(), text_result("echo ran"));
}

/// Beside `call_with`, an agent reads what the server sent. A client in direct mode has only the annotations, and gets
/// them as the gateway reads them.
#[tokio::test]
async fn both_hints_are_shown_as_the_server_sent_them() {
    let peer = fx().await;
    let sent = json!({"readOnlyHint": true, "destructiveHint": true});
    for (contract, shown, call_with) in [
        ("", sent.clone(), "call_tool_destructive"),
        ("riskLevel: low", sent.clone(), "call_tool_destructive"),
        ("operation: read", json!({"readOnlyHint": true, "destructiveHint": false}), "call_tool_read"),
    ] {
        let contracts = match contract {
            "" => Arc::default(),
            line => contracts(&format!("tool: fx:both_hints\n{line}\n")),
        };
        let settings = Arc::new(settings([peer.settings("fx")]));
        let rig = Rig::start(Files { settings, contracts, policies: Arc::default() }).await;
        let mut agent = Agent::new(&rig, Way::Session, "a").await;
        for detail in ["brief", "full"] {
            let query = format!(r#"{{"query":"fx:both_hints","limit":1,"detail":"{detail}"}}"#);
            let found = agent.call(&rig, "retrieve_tools", &query).await.result();
            let found: Value = serde_json::from_str(&found).unwrap();
            let tool = &found["structuredContent"]["tools"][0];
            assert_eq!(tool["name"], "fx:both_hints", "{found}");
            assert_eq!((&tool["annotations"], &tool["call_with"]), (&shown, &json!(call_with)), "{contract} {detail}");
        }
        let mut direct = Agent::at(&rig, Way::Session, "d", "/mcp/s/fx", "{}").await;
        let list: Value = serde_json::from_str(&direct.request(&rig, "tools/list", "{}").await.result()).unwrap();
        let tool = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "both_hints").unwrap();
        let is_read = contract == "operation: read";
        assert_eq!(tool["annotations"], json!({"readOnlyHint": is_read, "destructiveHint": !is_read}), "{contract}");
    }
}

/// Every answer contains the id of its record, whatever the outcome.
#[tokio::test]
async fn every_answer_names_its_record() {
    let peer = fx().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Stateless, "a").await;
    let mut ids = Vec::new();
    for (tool, arguments) in [
        ("call_tool_read", r#"{"name":"fx:echo"}"#),
        ("call_tool_read", r#"{"name":"fx:nothing"}"#),
        ("call_tool_read", r#"{"name":"fx:echo","reason":7}"#),
        ("call_tool_write", r#"{"name":"fx:echo","intent":{"operation_type":"read"}}"#),
        ("call_tool", r#"{"name":"fx:echo"}"#),
    ] {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        let answer = agent.ask(&rig, "tools/call", &params).await;
        ids.push(split_record(&answer).1.expect(arguments));
    }
    let records = rig.all_records().await;
    let calls: Vec<String> =
        records.iter().filter(|record| record.agent.is_some()).map(|record| record.id.to_string()).collect();
    assert_eq!(calls, ids);
}

/// Known secrets never reach the disk, whether an agent or a server sent them.
#[tokio::test]
async fn secrets_are_not_recorded() {
    let peer = fx().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Stateless, "a").await;
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let arguments = format!(
        r#"{{"name":"fx:echo","args":{{"password":"hunter22","note":"use {secret}"}},"intent_reason":"with {secret}"}}"#
    );
    agent.call(&rig, "call_tool_read", &arguments).await.result();
    let records = rig.whole_records().await;
    let call = records.iter().find(|whole| whole.record.agent.is_some()).unwrap();
    assert_eq!(call.args.as_ref().unwrap().for_json(), r#"{"password":"***","note":"use ghp_***"}"#);
    let told = format!("{records:?}");
    assert!(!told.contains("hunter22") && !told.contains(secret), "{told}");
}
