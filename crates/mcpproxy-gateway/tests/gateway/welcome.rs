//! The handshake with agents, and the four tools that they find.

use mcpproxy_core::settings::{IntentSettings, Settings, TwoKey};
use mcpproxy_core::{Agent as Identity, Scope};
use serde_json::{Value, json};

use crate::agent::{Agent, WAYS, Way, request_text};
use crate::peer::{Peer, Script, Speaks};
use crate::rig::{Rig, post, settings};

const FOUR: &str = "Find tools of all connected servers with retrieve_tools, then call one with the variant its call_with names: \
    call_tool_read, call_tool_write or call_tool_destructive. A refusal says what to do instead.";

fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
    })
}

#[tokio::test]
async fn a_handshake_agrees_on_a_revision() {
    let rig = Rig::start(settings([])).await;
    let token = rig.token("a").await;
    let check = async |wanted: &str, agreed: &str| {
        let params = format!(
            r#"{{"protocolVersion":"{wanted}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}"#
        );
        let answer = rig.send(post("/mcp", &token, &[], request_text(1, "initialize", &params))).await;
        let mut capabilities = capabilities();
        capabilities["logging"] = json!({});
        let expected = json!({"jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": agreed,
            "capabilities": capabilities,
            "serverInfo": {"name": "mcpproxy", "version": env!("CARGO_PKG_VERSION")},
            "instructions": FOUR,
        }});
        assert_eq!(serde_json::from_str::<Value>(&answer.body).unwrap(), expected, "{wanted}");
        assert!(answer.headers.contains_key("mcp-session-id"));
    };
    for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        check(known, known).await;
    }
    // The newest revision has no handshake. A client that requests it in a handshake gets the newest one that has.
    check("2026-07-28", "2025-11-25").await;
    check("1999-01-01", "2025-11-25").await;
}

#[tokio::test]
async fn an_agent_without_a_session_can_look_around() {
    let rig = Rig::start(settings([])).await;
    let mut agent = Agent::new(&rig, Way::Stateless, "a").await;
    let found: Value = serde_json::from_str(&agent.request(&rig, "server/discover", "{}").await.result()).unwrap();
    let expected = json!({
        "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        "capabilities": capabilities(),
        "instructions": FOUR,
        "ttlMs": 60000,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "mcpproxy", "version": env!("CARGO_PKG_VERSION")}},
    });
    assert_eq!(found, expected);
}

/// Clients use these annotations to decide if they prompt their user.
#[tokio::test]
async fn the_four_tools_say_what_they_do() {
    let rig = Rig::start(settings([])).await;
    let mut texts = Vec::new();
    for way in WAYS {
        let mut agent = Agent::new(&rig, way, &format!("{way:?}")).await;
        let text = agent.request(&rig, "tools/list", "{}").await.result();
        assert!(text.len() <= 3584, "{} bytes are too many for every conversation to carry", text.len());
        assert!(!text.contains("additionalProperties"), "clients would refuse calls in words of their own");
        let list: Value = serde_json::from_str(&text).unwrap();
        let tools = list["tools"].as_array().unwrap();
        let found: Vec<Value> =
            tools.iter().map(|tool| json!([tool["name"], tool["annotations"], tool["_meta"]])).collect();
        let loaded = json!({"anthropic/alwaysLoad": true});
        let expected = [
            json!(["retrieve_tools", {"readOnlyHint": true, "openWorldHint": false}, loaded]),
            json!(["call_tool_read", {"readOnlyHint": true, "destructiveHint": false, "openWorldHint": true}, loaded]),
            json!(["call_tool_write", {"readOnlyHint": false, "destructiveHint": false, "openWorldHint": true}, loaded]),
            json!([
                "call_tool_destructive",
                {"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true},
                {"anthropic/alwaysLoad": true, "anthropic/requiresUserInteraction": true}
            ]),
        ];
        assert_eq!(found, expected, "{way:?}");
        texts.push(list["tools"].to_string());
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "the same for every kind of agent");
}

/// The strictest settings have the longest list.
#[tokio::test]
async fn two_keys_fit_the_list_too() {
    let intent = IntentSettings { two_key: TwoKey::Required, ..IntentSettings::default() };
    let rig = Rig::start(Settings { intent, ..settings([]) }).await;
    let mut agent = Agent::new(&rig, Way::Stateless, "a").await;
    let text = agent.request(&rig, "tools/list", "{}").await.result();
    assert!(text.len() <= 3584, "{} bytes", text.len());
    let list: Value = serde_json::from_str(&text).unwrap();
    let tools = list["tools"].as_array().unwrap();
    let described = |tool: &Value, words: &str| tool["description"].as_str().unwrap().contains(words);
    assert!(described(&tools[0], "Intent is required and must match tool variant."), "{}", tools[0]);
    assert!(described(&tools[1], "marks tool as destructive or not read-only."), "{}", tools[1]);
    for tool in &tools[1..] {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["required"], json!(["name", "intent"]));
        assert_eq!(schema["properties"]["intent"]["required"], json!(["operation_type"]), "{tool}");
    }
    let found: Value = serde_json::from_str(&agent.request(&rig, "server/discover", "{}").await.result()).unwrap();
    let instructions = found["instructions"].as_str().unwrap();
    assert!(instructions.contains("Every call requires a matching intent.operation_type"), "{instructions}");
}

/// An agent that calls tools directly reads here that every call needs an intent, and which one.
#[tokio::test]
async fn direct_addresses_explain_the_second_key() {
    const DIRECT: &str =
        "Tools of the servers behind this gateway, under their own names. Each call is checked and recorded.";
    const KEY: &str = "Every call requires _meta[\"mcpproxy/intent\"] with operation_type: destructive if \
        destructiveHint is true, else read if readOnlyHint is true, else write.";
    let peer = two_tools().await;
    for two_key in [TwoKey::Optional, TwoKey::Required] {
        let expected = match two_key {
            TwoKey::Optional => DIRECT.to_owned(),
            TwoKey::Required => format!("{DIRECT} {KEY}"),
        };
        let intent = IntentSettings { two_key, ..IntentSettings::default() };
        let rig = Rig::start(Settings { intent, ..settings([peer.settings("fx")]) }).await;
        let token = rig.token("a").await;
        for (number, path) in ["/mcp/s/fx", "/mcp/direct"].into_iter().enumerate() {
            let params =
                r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;
            let answer = rig.send(post(path, &token, &[], request_text(1, "initialize", params))).await;
            let welcome: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(welcome["result"]["instructions"], expected, "{path}");
            let mut agent = Agent::at(&rig, Way::Stateless, &format!("b{number}"), path, "{}").await;
            let found = agent.request(&rig, "server/discover", "{}").await.result();
            let found: Value = serde_json::from_str(&found).unwrap();
            assert_eq!(found["instructions"], expected, "{path}");
        }
    }
}

/// The mark makes clients prompt their user for every destructive call. Without a user they would refuse it.
#[tokio::test]
async fn destructive_tools_are_marked_where_a_user_sits() {
    let peer = two_tools().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    for (path, destructive) in
        [("/mcp", "call_tool_destructive"), ("/mcp/s/fx", "delete_issue"), ("/mcp/direct", "fx__delete_issue")]
    {
        for headless in [false, true] {
            let scope = Scope { headless, ..Scope::everything() };
            let identity = Identity { name: format!("{destructive}-{headless}"), scope };
            let mut agent = Agent::with(&rig, Way::Session, identity, path, "{}").await;
            let list = agent.request(&rig, "tools/list", "{}").await.result();
            let list: Value = serde_json::from_str(&list).unwrap();
            let marked: Vec<&str> = list["tools"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|tool| tool["_meta"]["anthropic/requiresUserInteraction"] == true)
                .map(|tool| tool["name"].as_str().unwrap())
                .collect();
            let expected: &[&str] = if headless { &[] } else { &[destructive] };
            assert_eq!(marked, expected, "{path} {headless}");
        }
    }
}

async fn two_tools() -> Peer {
    let tools = r#"[
        {"name":"create_issue","description":"Creates an issue in a tracker.","inputSchema":{"type":"object","properties":{"b":{},"a":{}}}},
        {"name":"delete_issue","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true,"x-new":1.0}}
    ]"#;
    Peer::new(Script::new(Speaks::Legacy, &tools.replace('\n', ""))).await
}

#[tokio::test]
async fn a_search_says_how_to_call_what_it_finds() {
    let peer = two_tools().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    for way in WAYS {
        let mut agent = Agent::new(&rig, way, &format!("{way:?}")).await;
        let result = agent.call(&rig, "retrieve_tools", r#"{"query":"issue"}"#).await.result();
        let mut result: Value = serde_json::from_str(&result).unwrap();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(text).unwrap(),
            result["structuredContent"],
            "text and structure agree"
        );
        assert_eq!(result["isError"], false);
        for tool in result["structuredContent"]["tools"].as_array_mut().unwrap() {
            let score = tool["score"].take();
            assert!((0.0..=1.0).contains(&score.as_f64().unwrap()), "{score}");
        }
        let mut found = result["structuredContent"]["tools"].as_array().unwrap().clone();
        found.sort_by_key(|tool| tool["name"].to_string());
        let expected = [
            json!({"name": "fx:create_issue", "server": "fx", "description": "Creates an issue in a tracker.\n(Call with call_tool_write.)", "annotations": {}, "call_with": "call_tool_write", "risk_level": null, "needs": [], "inputSchema": {"type": "object", "properties": {"b": {}, "a": {}}}, "score": null}),
            json!({"name": "fx:delete_issue", "server": "fx", "description": "(Call with call_tool_destructive.)", "annotations": {"destructiveHint": true, "x-new": 1.0}, "call_with": "call_tool_destructive", "risk_level": null, "needs": [], "inputSchema": {"type": "object"}, "score": null}),
        ];
        assert_eq!(found, expected, "{way:?}");
        let usage = result["structuredContent"]["usage_instructions"].as_str().unwrap();
        assert!(usage.len() <= 200, "{} bytes", usage.len());
        for variant in ["call_tool_read", "call_tool_write", "call_tool_destructive"] {
            assert!(usage.contains(variant), "{usage}");
        }
    }
}

#[tokio::test]
async fn a_search_that_does_not_fit_is_refused() {
    let peer = two_tools().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let mut check = async |arguments: &str, expected: &str| {
        assert_eq!(agent.call(&rig, "retrieve_tools", arguments).await.brief(), expected, "{arguments}");
    };
    check("{}", "-32602 query must be a string").await;
    check(r#"{"query":7}"#, "-32602 query must be a string").await;
    check("[]", "-32602 arguments must be an object").await;
    for limit in ["0", "51", "-1", "1.5", "\"5\"", "null"] {
        let arguments = format!(r#"{{"query":"issue","limit":{limit}}}"#);
        check(&arguments, "-32602 limit must be an integer from 1 to 50").await;
    }
    check(r#"{"query":"issue","limits":5}"#, r#"-32602 unknown field "limits"; did you mean "limit"?"#).await;
    check(r#"{"query":"issue","server":"nope"}"#, "server_not_found unknown server 'nope'").await;
    check(r#"{"query":"issue","server":"FX"}"#, "server_not_found unknown server 'FX'").await;
}

/// A server may ping the gateway. A request that the gateway does not support, such as `roots/list`, is refused.
#[tokio::test]
async fn servers_are_answered_too() {
    let mut peer = two_tools().await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let (reply, ()) = tokio::join!(agent.call(&rig, "call_tool_write", r#"{"name":"fx:create_issue"}"#), async {
        let call = peer.next().await;
        for (asked, expected) in [
            ("ping", r#"{"jsonrpc":"2.0","id":"s","result":{}}"#),
            (
                "roots/list",
                r#"{"jsonrpc":"2.0","id":"s","error":{"code":-32601,"message":"Method not found: roots/list"}}"#,
            ),
        ] {
            call.send(&format!(r#"{{"jsonrpc":"2.0","id":"s","method":"{asked}"}}"#)).await;
            assert_eq!(peer.next().await.text, expected);
        }
        call.answer_text("done").await;
    });
    assert_eq!(reply.brief(), "done");
}
