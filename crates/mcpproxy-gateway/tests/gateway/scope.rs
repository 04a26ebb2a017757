//! Token scopes: servers and tools outside the scope are invisible to the agent.

use mcpproxy_core::settings::Settings;
use mcpproxy_core::{Agent as Identity, Scope, Variant};
use serde_json::Value;

use crate::agent::{Agent, Reply, Way};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, text_result, tool};
use crate::rig::{Rig, demo, name, post, settings};

/// Starts two servers with the same tools, and connects an agent that may see only the first.
async fn limited(way: Way, path: &str) -> (Rig, Agent) {
    let rig = Rig::start(settings([demo("a"), demo("b")])).await;
    let scope = Scope { servers: Some(vec![name("a")]), ..Scope::everything() };
    let identity = Identity { name: "limited".to_owned(), scope };
    let agent = Agent::with(&rig, way, identity, path, "{}").await;
    (rig, agent)
}

fn text(reply: Reply) -> String {
    match reply {
        Reply::Result(text) | Reply::Error(text) => text,
    }
}

#[tokio::test]
async fn lists_and_search_show_nothing_of_another_server() {
    for path in ["/mcp", "/mcp/direct"] {
        for way in [Way::Session, Way::Stateless] {
            let (rig, mut agent) = limited(way, path).await;
            let mut everyone = Agent::at(&rig, way, "everyone", path, "{}").await;
            for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
                let all = text(everyone.request(&rig, method, "{}").await);
                let seen = text(agent.request(&rig, method, "{}").await);
                assert!(!seen.contains(r#""b__"#) && !seen.contains("mcpproxy://b/"), "{path} {method}: {seen}");
                let is_mixed = all.contains(r#""b__"#) || all.contains("mcpproxy://b/");
                let is_empty = method == "resources/templates/list" || (path, method) == ("/mcp", "tools/list");
                assert!(is_mixed != is_empty, "{path} {method}: {all}");
            }
        }
    }
    let (rig, mut agent) = limited(Way::Line, "/mcp").await;
    let found = text(agent.call(&rig, "retrieve_tools", r#"{"query":"list projects contacts mail","limit":50}"#).await);
    assert!(found.contains(r#""name":"a:list_projects""#) && !found.contains(r#""b:"#), "{found}");
}

/// A tool's name without its server is enough if one visible tool has it. Hidden tools neither count nor appear.
#[tokio::test]
async fn a_bare_name_means_a_tool_that_the_agent_may_see() {
    let (rig, mut agent) = limited(Way::Session, "/mcp").await;
    let mut everyone = Agent::at(&rig, Way::Session, "everyone", "/mcp", "{}").await;
    let arguments = r#"{"name":"list_projects"}"#;
    let mine = text(agent.call(&rig, "call_tool_read", arguments).await);
    assert!(mine.contains("p_website"), "{mine}");
    let several = everyone.call(&rig, "call_tool_read", arguments).await.brief();
    assert_eq!(
        several,
        "invalid_tool_name Several servers have a tool of this name. Set name to 'a:list_projects' or 'b:list_projects'."
    );
    let records = rig.records().await;
    let calls: Vec<&String> = records.iter().filter(|line| line.contains("list_projects")).collect();
    assert!(calls[0].contains("a:list_projects"), "the record has the tool that was meant: {calls:?}");
}

#[tokio::test]
async fn another_server_looks_like_one_that_does_not_exist() {
    let (rig, mut agent) = limited(Way::Stateless, "/mcp").await;
    let mut direct = Agent::with(
        &rig,
        Way::Stateless,
        Identity { name: "direct".to_owned(), scope: Scope { servers: Some(vec![name("a")]), ..Scope::everything() } },
        "/mcp/direct",
        "{}",
    )
    .await;
    let requests = [
        ("tools/call", r#"{"name":"call_tool_read","arguments":{"name":"b:list_projects"}}"#),
        ("tools/call", r#"{"name":"call_tool_read","arguments":{"name":"b:no_such_tool"}}"#),
        ("tools/call", r#"{"name":"retrieve_tools","arguments":{"query":"projects","server":"b"}}"#),
        ("prompts/get", r#"{"name":"b__weekly_report","arguments":{"projectId":"p1"}}"#),
        ("resources/read", r#"{"uri":"mcpproxy://b/demo://workspace/overview"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"b__weekly_report"},"argument":{"name":"projectId","value":""}}"#,
        ),
    ];
    let absent = |text: &str| {
        text.replace("b:", "z:").replace("b__", "z__").replace("://b/", "://z/").replace(r#""b""#, r#""z""#)
    };
    for (method, params) in requests {
        let there = text(agent.request(&rig, method, params).await);
        let not_there = text(agent.request(&rig, method, &absent(params)).await);
        assert_eq!(
            there.replace("'b'", "'z'"),
            absent(&not_there)
                .replace("'b'", "'z'")
                .replace("z:", "b:")
                .replace("z__", "b__")
                .replace("://z/", "://b/"),
            "{method}"
        );
    }
    let there = text(direct.call(&rig, "b__list_projects", "{}").await);
    let not_there = text(direct.call(&rig, "z__list_projects", "{}").await);
    assert_eq!(there.replace("b:", "z:").replace("'b'", "'z'"), not_there);
    for path in ["/mcp/s/b", "/mcp/s/z"] {
        let answer = rig.send(post(path, &agent.token, &[], "{}")).await;
        let found = format!("{} {}", answer.status.as_u16(), answer.body);
        assert_eq!(found, "404 no such server; `mcpproxy servers list` shows the names\n");
    }
}

#[tokio::test]
async fn refusals_never_suggest_what_cannot_be_seen() {
    let (rig, mut agent) = limited(Way::Session, "/mcp").await;
    let found: Value =
        serde_json::from_str(&text(agent.call(&rig, "call_tool_read", r#"{"name":"b:list_project"}"#).await)).unwrap();
    let error = &found["structuredContent"]["error"];
    assert_eq!(error["code"], "tool_not_found");
    let suggestions = error["details"]["suggestions"].as_array().unwrap();
    assert!(suggestions.iter().all(|one| one.as_str().unwrap().starts_with("a:")), "{error}");
}

#[tokio::test]
async fn operations_a_token_does_not_cover_are_refused() {
    let tools = [tool("look", READ_ONLY), tool("unclear", "{}"), tool("change", r#"{"readOnlyHint":false}"#)];
    let mut script = Script::new(Speaks::Legacy, &format!("[{}]", tools.join(",")));
    script.call = |_| Some(text_result("done"));
    let peer = Peer::new(script).await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let scope = Scope { operations: vec![Variant::Read], ..Scope::everything() };
    let reader = |name: &str| Identity { name: name.to_owned(), scope: scope.clone() };
    let mut four = Agent::with(&rig, Way::Session, reader("reader"), "/mcp", "{}").await;
    let mut direct = Agent::with(&rig, Way::Session, reader("direct"), "/mcp/s/fx", "{}").await;
    let mut check = async |tool: &str, arguments: &str, expected: &str| {
        let agent = if tool.starts_with("call_tool") { &mut four } else { &mut direct };
        assert_eq!(agent.call(&rig, tool, arguments).await.brief(), expected, "{tool} {arguments}");
    };
    let only_reads = "permission_denied Agent 'reader' may only read, and the server does not mark 'fx:unclear' as read-only. Use retrieve_tools to find a tool whose call_with is call_tool_read.";
    check("call_tool_read", r#"{"name":"fx:look"}"#, "done").await;
    check("call_tool_read", r#"{"name":"fx:unclear"}"#, only_reads).await;
    let no_write =
        "permission_denied Agent 'reader' may not use call_tool_write: its token does not allow write operations";
    check("call_tool_write", r#"{"name":"fx:change"}"#, no_write).await;
    check("look", r#"{"name":"fx:another"}"#, "done").await;
    let no_write = "permission_denied Agent 'direct' may not call this tool: its token does not allow write operations";
    check("change", r#"{"name":"fx:another"}"#, no_write).await;
    check("nothing", "{}", "tool_not_found Tool 'fx:nothing' not found: server 'fx' has no tool 'nothing'; use tools/list to see the tools of this address").await;
    assert_eq!(peer.calls().len(), 2);
    let records: Vec<String> =
        rig.records().await.iter().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(
        records,
        [
            "call success reader fx:look read -",
            "refusal refused reader fx:unclear read permission_denied",
            "refusal refused reader fx:change write permission_denied",
            "call success direct fx:look read -",
            "refusal refused direct fx:change write permission_denied",
            "refusal refused direct fx:nothing - tool_not_found",
        ]
    );
}

#[tokio::test]
async fn without_a_token_an_agent_may_read_where_the_settings_allow_it() {
    let rig = Rig::start(Settings { allow_anonymous_loopback: true, ..settings([demo("demo")]) }).await;
    let asks_for_help = r#"{"name":"demo:get_help_article","args":{"articleId":"sending-mail"}}"#;
    let asks_for_more = r#"{"name":"demo:list_projects"}"#;
    let call = |tool: &str, arguments: &str| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        );
        let mut request = post("/mcp", "", &[], body);
        request.headers_mut().remove("authorization");
        request
    };
    assert!(rig.send(call("call_tool_read", asks_for_help)).await.body.contains(r#""isError":false"#));
    assert!(rig.send(call("call_tool_write", asks_for_help)).await.body.contains("permission_denied"));
    let without_grant = rig.send(call("call_tool_read", asks_for_more)).await.body;
    assert!(without_grant.contains("lacks the permission 'projects:read'"), "{without_grant}");
    let wrong = post("/mcp", "mcp_wrong", &[], "{}");
    assert_eq!(rig.send(wrong).await.status, http::StatusCode::UNAUTHORIZED, "a wrong token is not no token");
}
