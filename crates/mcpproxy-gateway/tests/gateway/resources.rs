//! Prompts, resources, completions and log messages, under the names of each endpoint mode.

use http::Method;

use crate::agent::{Agent, Events, Way, split_record};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, post, settings};

async fn fx() -> (Peer, Rig) {
    let mut script = Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)));
    script.capabilities =
        r#"{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}}"#.to_owned();
    script.prompts = r#"[{"name":"greet","x-new":1.0}]"#.to_owned();
    script.resources = r#"[{"uri":"x://y","name":"Y","size":18446744073709551616}]"#.to_owned();
    let peer = Peer::new(script).await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    (peer, rig)
}

/// A relayed request: its form at the agent and at the server, the server's answer, and the agent's result.
struct Passed<'a> {
    method: &'a str,
    params: &'a str,
    heard: &'a str,
    answer: &'a str,
    result: &'a str,
}

async fn check(rig: &Rig, peer: &mut Peer, agent: &mut Agent, passed: Passed<'_>) {
    let (reply, ()) = tokio::join!(agent.request(rig, passed.method, passed.params), async {
        let heard = peer.next().await;
        assert_eq!((heard.method(), heard.params()), (passed.method, passed.heard));
        heard.answer(passed.answer).await;
    });
    assert_eq!(reply.result(), passed.result, "{}", passed.method);
}

const READ: &str = r#"{"contents":[{"uri":"x://y","text":"é","n":1.0}],"_meta":{"a":1}}"#;
const READ_RENAMED: &str = r#"{"contents":[{"uri":"mcpproxy://fx/x://y","text":"é","n":1.0}],"_meta":{"a":1}}"#;
const PROMPT: &str = r#"{"messages":[{"role":"user","content":{"type":"hologram","n":1.0}}],"x-new":[ ]}"#;
const WORDS: &str = r#"{"completion":{"values":["b","a"],"hasMore":false}}"#;

#[tokio::test]
async fn behind_the_four_tools_names_have_a_prefix() {
    for way in [Way::Session, Way::Line] {
        let (mut peer, rig) = fx().await;
        let mut agent = Agent::new(&rig, way, "a").await;
        let prompts = agent.request(&rig, "prompts/list", "{}").await.result();
        assert_eq!(prompts, r#"{"prompts":[{"name":"fx__greet","x-new":1.0}]}"#);
        let resources = agent.request(&rig, "resources/list", "{}").await.result();
        let expected = r#"{"resources":[{"uri":"mcpproxy://fx/x://y","name":"Y","size":18446744073709551616}]}"#;
        assert_eq!(resources, expected);
        let get = Passed {
            method: "prompts/get",
            params: r#"{"name":"fx__greet","arguments":{ "n" : "\u00e9" }}"#,
            heard: r#"{"name":"greet","arguments":{ "n" : "\u00e9" }}"#,
            answer: PROMPT,
            result: PROMPT,
        };
        check(&rig, &mut peer, &mut agent, get).await;
        let read = Passed {
            method: "resources/read",
            params: r#"{"uri":"mcpproxy://fx/x://y"}"#,
            heard: r#"{"uri":"x://y"}"#,
            answer: READ,
            result: READ_RENAMED,
        };
        check(&rig, &mut peer, &mut agent, read).await;
        let complete = Passed {
            method: "completion/complete",
            params: r#"{"ref":{"type":"ref/prompt","name":"fx__greet"},"argument":{"name":"n","value":"a"}}"#,
            heard: r#"{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"n","value":"a"}}"#,
            answer: WORDS,
            result: WORDS,
        };
        check(&rig, &mut peer, &mut agent, complete).await;
    }
}

/// Links in results lead somewhere at the endpoint where the agent got them.
#[tokio::test]
async fn links_in_results_can_be_read() {
    let given = r#"{"content":[{"type":"text","text":"x://y","n":1.0},{"type":"resource_link","uri":"x://y","name":"Y"},{"type":"resource_link","uri":"https://example.org/a"},{"type":"resource","resource":{"uri":"x://z","text":"1.0"}}],"structuredContent":{"uri":"x://y"}}"#;
    let rewritten = given.replacen(r#""uri":"x://y","name""#, r#""uri":"mcpproxy://fx/x://y","name""#, 1);
    let rewritten = rewritten.replacen(r#""uri":"x://z""#, r#""uri":"mcpproxy://fx/x://z""#, 1);
    let four = r#"{"name":"call_tool_read","arguments":{"name":"fx:work"}}"#;
    for (path, params, expected) in [
        ("/mcp", four, rewritten.as_str()),
        ("/mcp/direct", r#"{"name":"fx__work","arguments":{}}"#, &rewritten),
        ("/mcp/s/fx", r#"{"name":"work","arguments":{}}"#, given),
    ] {
        let (mut peer, rig) = fx().await;
        let mut agent = Agent::at(&rig, Way::Session, "a", path, "{}").await;
        let (reply, ()) = tokio::join!(agent.request(&rig, "tools/call", params), async {
            peer.next().await.answer(given).await;
        });
        let (result, _) = split_record(&reply.result());
        assert_eq!(result, expected, "{path}");
    }
    let (mut peer, rig) = fx().await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let get = Passed {
        method: "prompts/get",
        params: r#"{"name":"fx__greet"}"#,
        heard: r#"{"name":"greet"}"#,
        answer: r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"x://y","n":1.0}}}]}"#,
        result: r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"mcpproxy://fx/x://y","n":1.0}}}]}"#,
    };
    check(&rig, &mut peer, &mut agent, get).await;
}

/// A server without resources cannot read its links for the agent, so they stay as they are.
#[tokio::test]
async fn links_of_a_server_without_resources_stay() {
    let given = r#"{"content":[{"type":"resource_link","uri":"file:///tmp/a"}]}"#;
    let mut script = Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)));
    script.capabilities = r#"{"tools":{}}"#.to_owned();
    script.call = |_| Some(r#"{"content":[{"type":"resource_link","uri":"file:///tmp/a"}]}"#.to_owned());
    let peer = Peer::new(script).await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let reply = agent.call(&rig, "call_tool_read", r#"{"name":"fx:work"}"#).await;
    assert_eq!(split_record(&reply.result()).0, given);
}

#[tokio::test]
async fn at_a_servers_own_endpoint_names_are_unchanged() {
    let (mut peer, rig) = fx().await;
    let mut agent = Agent::at(&rig, Way::Stateless, "a", "/mcp/s/fx", "{}").await;
    let cached = r#","ttlMs":60000,"cacheScope":"private"}"#;
    let prompts = agent.request(&rig, "prompts/list", "{}").await.result();
    assert_eq!(prompts, format!(r#"{{"prompts":[{{"name":"greet","x-new":1.0}}]{cached}"#));
    let resources = agent.request(&rig, "resources/list", "{}").await.result();
    let expected = r#"{"resources":[{"uri":"x://y","name":"Y","size":18446744073709551616}]"#;
    assert_eq!(resources, format!("{expected}{cached}"));
    let get = Passed {
        method: "prompts/get",
        params: r#"{"name":"greet"}"#,
        heard: r#"{"name":"greet"}"#,
        answer: PROMPT,
        result: PROMPT,
    };
    check(&rig, &mut peer, &mut agent, get).await;
    // A server with sessions gives no cache hints, so the gateway adds `ttlMs: 0`.
    let read = Passed {
        method: "resources/read",
        params: r#"{"uri":"x://y"}"#,
        heard: r#"{"uri":"x://y"}"#,
        answer: READ,
        result: r#"{"contents":[{"uri":"x://y","text":"é","n":1.0}],"_meta":{"a":1},"ttlMs":0,"cacheScope":"private"}"#,
    };
    check(&rig, &mut peer, &mut agent, read).await;
}

async fn standing(rig: &Rig, agent: &Agent) -> Events {
    let mut get = post("/mcp", &agent.token, &[("mcp-session-id", agent.session())], "");
    *get.method_mut() = Method::GET;
    Events::new(rig.open(get).await.into_body())
}

#[tokio::test]
async fn only_subscribers_hear_of_changes() {
    let (mut peer, rig) = fx().await;
    let mut one = Agent::new(&rig, Way::Session, "one").await;
    let two = Agent::new(&rig, Way::Session, "two").await;
    let (mut hears_one, mut hears_two) = (standing(&rig, &one).await, standing(&rig, &two).await);
    let (reply, line) =
        tokio::join!(one.request(&rig, "resources/subscribe", r#"{"uri":"mcpproxy://fx/x://y"}"#), async {
            let heard = peer.next().await;
            assert_eq!((heard.method(), heard.params()), ("resources/subscribe", r#"{"uri":"x://y"}"#));
            heard.answer("{}").await;
            heard
        });
    assert_eq!(reply.result(), "{}");
    let updated =
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://y","x-new":1.0}}"#;
    line.send(updated).await;
    line.send(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#).await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{}}"#;
    assert_eq!(hears_one.next().await.unwrap(), updated.replace("x://y", "mcpproxy://fx/x://y"));
    assert_eq!(hears_one.next().await.unwrap(), changed);
    assert_eq!(hears_two.next().await.unwrap(), changed, "who did not subscribe hears of the list only");
}

#[tokio::test]
async fn log_messages_pass_from_the_level_an_agent_wants() {
    let (mut peer, rig) = fx().await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let (level, ()) = tokio::join!(agent.request(&rig, "logging/setLevel", r#"{"level":"warning"}"#), async {
        let heard = peer.next().await;
        assert_eq!((heard.method(), heard.params()), ("logging/setLevel", r#"{"level":"warning"}"#));
        heard.answer("{}").await;
    });
    assert_eq!(level.result(), "{}");
    let log = |level: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":{{"n":1.0}}}}}}"#
        )
    };
    let params = r#"{"name":"call_tool_read","arguments":{"name":"fx:work"}}"#;
    let (mut stream, ()) = tokio::join!(agent.stream(&rig, 1, "tools/call", params), async {
        let call = peer.next().await;
        for level in ["info", "warning", "debug", "error"] {
            call.send(&log(level)).await;
        }
        call.answer_text("done").await;
    });
    assert_eq!(stream.next().await.unwrap(), log("warning"));
    assert_eq!(stream.next().await.unwrap(), log("error"));
    assert!(stream.next().await.unwrap().contains("done"));
    assert_eq!(stream.next().await, None);
}
