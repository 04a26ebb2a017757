//! Reloading settings while agents work: changed servers restart, unchanged ones keep running.

use mcpproxy_core::settings::{ContractSettings, IntentSettings, ServerSettings, Settings, TwoKey, Unclassified};
use mcpproxy_gateway::StateName;
use mcpproxy_store::Kind;

use crate::agent::{Agent, Events, Way};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, text_result, tool};
use crate::rig::{Rig, demo, line, post, settings, within};

/// Starts a server with one tool, and a prompt and a resource that contain the server's name.
async fn named(server: &str) -> Peer {
    let mut script = Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)));
    script.prompts = format!(r#"[{{"name":"{server}-prompt"}}]"#);
    script.resources = format!(r#"[{{"uri":"{server}://thing","name":"{server} thing"}}]"#);
    script.call = |_| Some(text_result("done"));
    Peer::new(script).await
}

/// Returns everything that an agent finds: tools, prompts and resources.
async fn found(rig: &Rig, agent: &mut Agent) -> String {
    let tools = agent.call(rig, "retrieve_tools", r#"{"query":"work","limit":50}"#).await.result();
    let tools: serde_json::Value = serde_json::from_str(&tools).unwrap();
    let tools = tools["structuredContent"]["tools"].as_array().unwrap().clone();
    let mut names: Vec<String> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    for (method, list, key) in [("prompts/list", "prompts", "name"), ("resources/list", "resources", "uri")] {
        let result: serde_json::Value = serde_json::from_str(&agent.request(rig, method, "{}").await.result()).unwrap();
        names.extend(result[list].as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()));
    }
    names.join(" ")
}

const A: &str = "a__a-prompt mcpproxy://a/a://thing";

#[tokio::test]
async fn servers_come_go_and_change() {
    let (a, b) = (named("a").await, named("b").await);
    let rig = Rig::start(settings([a.settings("a")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    let check = async |agent: &mut Agent, expected: &str| {
        within(rig.gateway.ready()).await;
        assert_eq!(found(&rig, agent).await, expected);
    };
    check(&mut agent, &format!("a:work {A}")).await;
    let pid = rig.server("a").pid;

    rig.gateway.reload(settings([a.settings("a"), b.settings("b")]));
    let both = "a:work b:work a__a-prompt b__b-prompt mcpproxy://a/a://thing mcpproxy://b/b://thing";
    check(&mut agent, both).await;
    assert_eq!(rig.server("a").pid, pid, "an unchanged server keeps its process");

    let changed = ServerSettings { max_concurrent_calls: 1, ..a.settings("a") };
    rig.gateway.reload(settings([changed.clone(), b.settings("b")]));
    check(&mut agent, both).await;
    assert_ne!(rig.server("a").pid, pid, "a changed server starts anew");

    rig.gateway.reload(settings([changed]));
    check(&mut agent, &format!("a:work {A}")).await;
    let gone = agent.call(&rig, "call_tool_read", r#"{"name":"b:work"}"#).await.brief();
    assert_eq!(gone, "tool_not_found Tool 'b:work' not found: unknown server 'b'; did you mean 'a:work'?");
    assert_eq!(rig.send(post("/mcp/s/b", &agent.token, &[], "{}")).await.status, http::StatusCode::NOT_FOUND);
    let records = rig.all_records().await;
    let mut reloads: Vec<String> = records.iter().filter(|record| record.kind == Kind::Settings).map(line).collect();
    reloads.sort();
    let changes = ["added b", "changed a (max_concurrent_calls)", "removed b"];
    // `settings` makes new contracts and policies each time.
    let lines = changes.map(|change| format!("settings success - -:- - -: reloaded: {change}; contracts; policies"));
    assert_eq!(reloads, lines);
}

/// `contracts.unclassified` changes what calls need, without a change of any contract.
#[tokio::test]
async fn a_reload_names_the_tools_that_a_setting_changed() {
    let tools = format!("[{},{}]", tool("drop", r#"{"destructiveHint":true}"#), tool("work", READ_ONLY));
    let peer = Peer::new(Script::new(Speaks::Legacy, &tools)).await;
    let open = settings([peer.settings("a")]);
    let rig = Rig::start(open.clone()).await;
    let settings = [Unclassified::ConfirmDestructive, Unclassified::Deny];
    for (number, unclassified) in settings.into_iter().enumerate() {
        let contracts = ContractSettings { unclassified, ..ContractSettings::default() };
        rig.gateway.reload(Settings { contracts, ..open.clone() });
        // The record is written by a task of its own.
        let _agent = Agent::new(&rig, Way::Session, &format!("a{number}")).await;
    }
    let records = rig.all_records().await;
    let reloads: Vec<String> = records.iter().filter(|record| record.kind == Kind::Settings).map(line).collect();
    let expected = [
        "allow → confirm_destructive; a:drop: needs none → confirmation",
        "confirm_destructive → deny; a:drop: needs confirmation → contract; a:work: needs none → contract",
    ];
    let start = "settings success - -:- - -: reloaded: contracts; policies; settings contracts.unclassified";
    assert_eq!(reloads, expected.map(|change| format!("{start} {change}")));
}

#[tokio::test]
async fn a_disabled_server_is_gone_with_all_it_offers() {
    let (a, b) = (named("a").await, named("b").await);
    let off = ServerSettings { enabled: false, ..b.settings("b") };
    let rig = Rig::start(settings([a.settings("a"), b.settings("b")])).await;
    rig.gateway.reload(settings([a.settings("a"), off]));
    within(rig.gateway.ready()).await;
    assert_eq!((rig.server("b").state, rig.server("b").pid), (StateName::Disabled, None));
    let mut agent = Agent::new(&rig, Way::Stateless, "agent").await;
    assert_eq!(found(&rig, &mut agent).await, format!("a:work {A}"));
    let mut check = async |method: &str, params: &str, expected: &str| {
        assert_eq!(agent.request(&rig, method, params).await.brief(), expected);
    };
    check(
        "tools/call",
        r#"{"name":"call_tool_read","arguments":{"name":"b:work"}}"#,
        "tool_not_found Tool 'b:work' not found: unknown server 'b'; did you mean 'a:work'?",
    )
    .await;
    check("prompts/get", r#"{"name":"b__b-prompt"}"#, "-32602 Unknown prompt: b__b-prompt").await;
    check("resources/read", r#"{"uri":"mcpproxy://b/b://thing"}"#, "-32602 Resource not found").await;
    assert_eq!(rig.send(post("/mcp/s/b", &agent.token, &[], "{}")).await.status, http::StatusCode::NOT_FOUND);
    assert_eq!(rig.gateway.restart(&crate::rig::name("b")), Err(mcpproxy_gateway::NotRestarted::Disabled));
    rig.gateway.reload(settings([a.settings("a"), b.settings("b")]));
    within(rig.gateway.ready()).await;
    assert_eq!(agent.call(&rig, "call_tool_read", r#"{"name":"b:work"}"#).await.brief(), "done");
}

#[tokio::test]
async fn calls_under_way_go_on_through_a_reload() {
    let mut a = Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)))).await;
    let b = named("b").await;
    let rig = Rig::start(settings([a.settings("a"), b.settings("b")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    let (reply, ()) = tokio::join!(agent.call(&rig, "call_tool_read", r#"{"name":"a:work"}"#), async {
        let call = a.next().await;
        let intent = IntentSettings { two_key: TwoKey::Required, ..IntentSettings::default() };
        rig.gateway.reload(Settings { intent, ..settings([a.settings("a")]) });
        call.answer_text("finished").await;
    });
    assert_eq!(reply.brief(), "finished");
    let next = agent.call(&rig, "call_tool_read", r#"{"name":"a:work"}"#).await.brief();
    assert_eq!(next, "MISSING_INTENT intent parameter is required for call_tool_read", "new calls have the new rules");
}

#[tokio::test]
async fn a_server_that_is_removed_finishes_its_open_calls() {
    let mut a = Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)))).await;
    let rig = Rig::start(settings([a.settings("a")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    let (reply, ()) = tokio::join!(agent.call(&rig, "call_tool_read", r#"{"name":"a:work"}"#), async {
        let call = a.next().await;
        rig.gateway.reload(settings([]));
        call.answer_text("finished").await;
    });
    assert_eq!(reply.brief(), "finished");
    let gone = agent.call(&rig, "call_tool_read", r#"{"name":"a:work"}"#).await.brief();
    assert_eq!(gone, "tool_not_found Tool 'a:work' not found: unknown server 'a'; use retrieve_tools to find tools");
}

#[tokio::test]
async fn a_call_that_is_open_when_the_gateway_stops_ends_with_a_reason() {
    let mut a = Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)))).await;
    let rig = Rig::start(settings([a.settings("a")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    let (reply, ()) = tokio::join!(agent.call(&rig, "call_tool_read", r#"{"name":"a:work"}"#), async {
        a.next().await;
        rig.gateway.reload(settings([]));
        rig.gateway.stop().await;
    });
    assert_eq!(
        reply.brief(),
        "upstream_unavailable The call to 'a:work' failed: the connection was lost before the server responded. The server may have run it, so check before you repeat the call."
    );
}

#[tokio::test]
async fn subscribers_hear_that_the_four_tools_changed() {
    let rig = Rig::start(settings([])).await;
    let agent = Agent::new(&rig, Way::Session, "agent").await;
    let mut get = post("/mcp", &agent.token, &[("mcp-session-id", agent.session())], "");
    *get.method_mut() = http::Method::GET;
    let mut standing = Events::new(rig.open(get).await.into_body());
    let intent = IntentSettings { two_key: TwoKey::Required, ..IntentSettings::default() };
    rig.gateway.reload(Settings { intent, ..settings([]) });
    let expected = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#;
    assert_eq!(standing.next().await.unwrap(), expected);
}

#[tokio::test]
async fn subscribers_hear_of_a_reload() {
    let a = named("a").await;
    let rig = Rig::start(settings([a.settings("a")])).await;
    let agent = Agent::new(&rig, Way::Session, "agent").await;
    let mut get = post("/mcp", &agent.token, &[("mcp-session-id", agent.session())], "");
    *get.method_mut() = http::Method::GET;
    let mut standing = Events::new(rig.open(get).await.into_body());
    rig.gateway.reload(settings([]));
    // At `/mcp` the list of tools never changes.
    for kind in ["prompts", "resources"] {
        let expected = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{kind}/list_changed","params":{{}}}}"#);
        assert_eq!(standing.next().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn settings_that_are_no_good_change_nothing_and_say_so() {
    let rig = Rig::start(settings([demo("demo")])).await;
    rig.gateway.reload_failed("line 3, column 1: unknown key".to_owned());
    assert_eq!(rig.gateway.reload_error().as_deref(), Some("line 3, column 1: unknown key"));
    let mut agent = Agent::new(&rig, Way::Session, "agent").await;
    agent.call(&rig, "call_tool_read", r#"{"name":"demo:list_projects"}"#).await.result();
    rig.gateway.reload(settings([demo("demo")]));
    assert_eq!(rig.gateway.reload_error(), None);
}
