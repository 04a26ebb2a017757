//! Direct mode: the intent in `_meta`, the second key, the record, and the setting that closes it.

use std::sync::Arc;

use http::StatusCode;
use mcpproxy_core::settings::{ContractSettings, IntentSettings, Settings, TwoKey, Unclassified};
use mcpproxy_core::{Agent as Identity, Scope};
use mcpproxy_gateway::Files;
use mcpproxy_store::Kind;
use serde_json::{Value, json};

use crate::agent::{Agent, Events, Way};
use crate::asked::Got;
use crate::contracts::contracts;
use crate::peer::{Peer, Script, Speaks, text_result};
use crate::rig::{Rig, line, name, post, settings};

const TOOLS: &str = r#"[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"change","inputSchema":{"type":"object"}}]"#;

async fn peer() -> Peer {
    let mut script = Script::new(Speaks::Legacy, TOOLS);
    script.call = |_| Some(text_result("done"));
    Peer::new(script).await
}

fn two_keys(peer: &Peer) -> Settings {
    let intent = IntentSettings { two_key: TwoKey::Required, ..IntentSettings::default() };
    Settings { intent, ..settings([peer.settings("fx")]) }
}

fn params(tool: &str, meta: &str) -> String {
    format!(r#"{{"name":"{tool}","arguments":{{"intent":"the tool's own"}},"_meta":{meta}}}"#)
}

#[tokio::test]
async fn the_second_key_is_in_meta() {
    let peer = peer().await;
    let rig = Rig::start(two_keys(&peer)).await;
    for (number, (path, prefix)) in [("/mcp/s/fx", ""), ("/mcp/direct", "fx__")].into_iter().enumerate() {
        let mut agent = Agent::at(&rig, Way::Session, &format!("a{number}"), path, "{}").await;
        let mut check = async |tool: &str, meta: &str, code: &str, text: &str| {
            let got = Got::of(&mut agent, &rig, &params(&format!("{prefix}{tool}"), meta)).await;
            assert_eq!((got.code().as_str(), got.text()), (code, text), "{path} {meta}");
        };
        let missing = "_meta[\"mcpproxy/intent\"] is required: send {\"operation_type\":\"read\"} there, beside the tool's arguments";
        check("look", "{}", "MISSING_INTENT", missing).await;
        let own = r#"{"mcpproxy/dry_run":true}"#;
        check("look", own, "MISSING_INTENT", missing).await;
        let incomplete = r#"{"mcpproxy/intent":{"reason":"r"}}"#;
        let expected = "_meta[\"mcpproxy/intent\"].operation_type is required";
        check("look", incomplete, "MISSING_OPERATION_TYPE", expected).await;
        let mismatch =
            "Intent mismatch: this is a write tool but _meta[\"mcpproxy/intent\"].operation_type declares read";
        check("change", r#"{"mcpproxy/intent":{"operation_type":"read"}}"#, "INTENT_MISMATCH", mismatch).await;
        check("look", r#"{"mcpproxy/intent":{"operation_type":"read","reason":"r"}}"#, "done", "done").await;
        check("change", r#"{"mcpproxy/intent":{"operation_type":"write"}}"#, "done", "done").await;
    }
    let sent = peer.calls();
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|call| !call.contains("mcpproxy/intent")), "the server does not get it: {sent:?}");
    let records = rig.all_records().await;
    let modes: Vec<Value> = records
        .iter()
        .filter(|record| matches!(record.kind, Kind::Call | Kind::Refusal))
        .map(|record| {
            let metadata: Value = serde_json::from_str(record.metadata.for_json()).unwrap();
            assert_eq!(metadata["variant_inferred"], true, "{metadata}");
            json!([metadata["endpoint_mode"], metadata["intent"], metadata["expected"]["operation_type"]])
        })
        .collect();
    for (rows, mode) in modes.chunks(6).zip(["server", "direct"]) {
        let read = json!({"operation_type": "read"});
        let expected = [
            json!([mode, read, "read"]),
            json!([mode, read, "read"]),
            json!([mode, {"operation_type": "read", "reason": "r"}, "read"]),
            json!([mode, read, "write"]),
            json!([mode, {"operation_type": "read", "reason": "r"}, null]),
            json!([mode, {"operation_type": "write"}, null]),
        ];
        assert_eq!(rows, expected);
    }
}

/// Without two keys, an intent is optional, and counts if it is there.
#[tokio::test]
async fn an_intent_is_checked_if_it_is_given() {
    let peer = peer().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::at(&rig, Way::Session, "a", "/mcp/s/fx", "{}").await;
    for (meta, expected) in [
        ("{}", "done"),
        (r#"{"mcpproxy/intent":{"reason":"r"}}"#, "done"),
        (r#"{"mcpproxy/intent":{"operation_type":"destructive"}}"#, "INTENT_MISMATCH"),
        (r#"{"mcpproxy/intent":{"data_sensitivity":"secret"}}"#, "INVALID_SENSITIVITY"),
        (r#"{"mcpproxy/intent":"read"}"#, "invalid_intent"),
    ] {
        assert_eq!(Got::of(&mut agent, &rig, &params("look", meta)).await.code(), expected, "{meta}");
    }
}

/// The second key must not tell an agent which tools of other servers exist.
#[tokio::test]
async fn a_hidden_tool_is_refused_like_a_missing_one() {
    let (seen, hidden) = (peer().await, peer().await);
    let servers = [seen.settings("fx"), hidden.settings("fy")];
    let rig = Rig::start(Settings { servers: servers.to_vec(), ..two_keys(&seen) }).await;
    let scope = Scope { servers: Some(vec![name("fx")]), ..Scope::everything() };
    let identity = Identity { name: "a".to_owned(), scope };
    let mut agent = Agent::with(&rig, Way::Session, identity, "/mcp/direct", "{}").await;
    for meta in ["{}", r#"{"mcpproxy/intent":{"operation_type":"read"}}"#] {
        for tool in ["fy__look", "fy__change", "fy__nothing"] {
            assert_eq!(Got::of(&mut agent, &rig, &params(tool, meta)).await.code(), "tool_not_found", "{tool} {meta}");
        }
    }
}

/// In direct mode, a tool that nobody can call is not listed. Behind the four tools it says what it needs.
#[tokio::test]
async fn tools_that_need_a_contract_are_not_listed() {
    let peer = peer().await;
    let deny = ContractSettings { unclassified: Unclassified::Deny, ..ContractSettings::default() };
    let settings = Arc::new(Settings { contracts: deny, ..settings([peer.settings("fx")]) });
    let contracts = contracts("tool: fx:look\nriskLevel: low\n");
    let rig = Rig::start(Files { settings, contracts, policies: Arc::default() }).await;
    for (number, (path, prefix)) in [("/mcp/s/fx", ""), ("/mcp/direct", "fx__")].into_iter().enumerate() {
        let mut agent = Agent::at(&rig, Way::Session, &format!("a{number}"), path, "{}").await;
        let list: Value = serde_json::from_str(&agent.request(&rig, "tools/list", "{}").await.result()).unwrap();
        let names: Vec<&str> =
            list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, [format!("{prefix}look")], "{path}");
        let refused = Got::of(&mut agent, &rig, &params(&format!("{prefix}change"), "{}")).await;
        assert_eq!(refused.code(), "contract_required", "{path}");
    }
    let mut agent = Agent::new(&rig, Way::Session, "four").await;
    for (tool, needs) in [("look", json!([])), ("change", json!(["contract"]))] {
        let query = format!(r#"{{"query":"fx:{tool}","limit":1}}"#);
        let found = agent.call(&rig, "retrieve_tools", &query).await.result();
        let found: Value = serde_json::from_str(&found).unwrap();
        let found = &found["structuredContent"]["tools"][0];
        assert_eq!((&found["name"], &found["needs"]), (&json!(format!("fx:{tool}")), &needs));
    }
}

/// A refusal names tools as this address offers them.
#[tokio::test]
async fn similar_tools_have_the_names_of_the_address() {
    let (fx, fy) = (peer().await, peer().await);
    let rig = Rig::start(settings([fx.settings("fx"), fy.settings("fy")])).await;
    for (number, (path, tool, suggested)) in
        [("/mcp/s/fx", "lok", json!(["look"])), ("/mcp/direct", "fx__lok", json!(["fx__look", "fy__look"]))]
            .into_iter()
            .enumerate()
    {
        let mut agent = Agent::at(&rig, Way::Session, &format!("a{number}"), path, "{}").await;
        let got = Got::of(&mut agent, &rig, &params(tool, "{}")).await;
        assert_eq!((got.code().as_str(), &got.details()["suggestions"]), ("tool_not_found", &suggested), "{path}");
        let named = format!("did you mean '{}'", suggested[0].as_str().unwrap());
        assert!(got.text().contains(&named), "{}", got.text());
    }
}

/// A misspelt key must not turn a dry run into a real call.
#[tokio::test]
async fn an_unknown_key_in_meta_is_refused() {
    let peer = peer().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::at(&rig, Way::Session, "a", "/mcp/s/fx", "{}").await;
    for (key, message) in [
        ("dryRun", r#"unknown field "mcpproxy/dryRun"; did you mean "mcpproxy/dry_run"?"#),
        ("something_else", r#"unknown field "mcpproxy/something_else""#),
    ] {
        let got = Got::of(&mut agent, &rig, &params("change", &format!(r#"{{"mcpproxy/{key}":true}}"#))).await;
        assert_eq!(got.0["error"]["message"], message);
    }
    assert!(peer.calls().is_empty());
    // Keys of others pass, and so do those that the gateway itself put into an earlier result.
    let allowed = r#"{"other/key":1,"mcpproxy/record":"01A","mcpproxy/replayed":true}"#;
    assert_eq!(Got::of(&mut agent, &rig, &params("change", allowed)).await.code(), "done");
    let bad = Got::of(&mut agent, &rig, &params("change", r#"{"mcpproxy/dry_run":1}"#)).await;
    assert_eq!(bad.0["error"]["message"], "_meta[\"mcpproxy/dry_run\"] must be true or false");
    let preview = Got::of(&mut agent, &rig, &params("change", r#"{"mcpproxy/dry_run":true}"#)).await;
    let would = &preview.result()["structuredContent"]["wouldCall"];
    assert!(would.is_object() && would.get("call_with").is_none(), "{would}");
}

#[tokio::test]
async fn a_setting_closes_both_addresses() {
    let peer = peer().await;
    let open = settings([peer.settings("fx")]);
    let rig = Rig::start(open.clone()).await;
    let token = rig.token("a").await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let status = async |path: &str| {
        let answer = rig.send(post(path, &token, &[], list)).await;
        (answer.status, answer.body)
    };
    for path in ["/mcp", "/mcp/s/fx", "/mcp/direct"] {
        assert_eq!(status(path).await.0, StatusCode::OK, "{path}");
    }
    // Streams that are open at these addresses end, and no other stream does.
    let listen = r#"{"notifications":{"toolsListChanged":true}}"#;
    let mut ends = Vec::new();
    for (number, path) in ["/mcp/s/fx", "/mcp/direct"].into_iter().enumerate() {
        let agent = Agent::at(&rig, Way::Session, &format!("b{number}"), path, "{}").await;
        let mut get = post(path, &agent.token, &[("mcp-session-id", agent.session())], "");
        *get.method_mut() = http::Method::GET;
        ends.push(Events::new(rig.open(get).await.into_body()));
        let agent = Agent::at(&rig, Way::Stateless, &format!("c{number}"), path, "{}").await;
        ends.push(agent.stream(&rig, 1, "subscriptions/listen", listen).await);
    }
    let four = Agent::new(&rig, Way::Stateless, "d").await;
    let mut stays = four.stream(&rig, 1, "subscriptions/listen", listen).await;
    assert!(stays.next().await.unwrap().contains("acknowledged"));
    let closed = Settings { direct_mode: false, ..open.clone() };
    rig.gateway.reload(Files { settings: Arc::new(closed), contracts: Arc::default(), policies: Arc::default() });
    for path in ["/mcp/s/fx", "/mcp/s/absent", "/mcp/direct"] {
        let text = "the operator has turned direct mode off (`direct_mode`); connect to /mcp\n";
        assert_eq!(status(path).await, (StatusCode::NOT_FOUND, text.to_owned()), "{path}");
    }
    assert_eq!(status("/mcp").await.0, StatusCode::OK);
    for mut stream in ends {
        while stream.next().await.is_some() {}
    }
    let intent = IntentSettings { two_key: TwoKey::Required, ..IntentSettings::default() };
    rig.gateway.reload(Settings { direct_mode: false, intent, ..open });
    assert!(stays.next().await.unwrap().contains("notifications/tools/list_changed"));
    let records = rig.all_records().await;
    let reloads: Vec<String> = records.iter().filter(|record| record.kind == Kind::Settings).map(line).collect();
    let change = "contracts; policies; settings direct_mode true → false";
    assert_eq!(reloads.first(), Some(&format!("settings success - -:- - -: reloaded: {change}")));
}
