//! Arguments, results and lists pass the gateway byte for byte.

use std::collections::HashMap;

use mcpproxy_core::{Agent as Identity, Scope};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::agent::{Agent, WAYS, Way};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, text_result, tool};
use crate::peer_http::HttpPeer;
use crate::rig::{Rig, settings};

/// Numbers beyond 64 bits, spellings that a parser would normalize, and whitespace wherever JSON allows it.
const ARGUMENTS: [&str; 5] = [
    r#"{"n":18446744073709551616,"f":1.0,"e":1E+2,"z":-0,"long":0.1000000000000000055511151231257827}"#,
    r#"{ "b" : 1 ,	"a":[ ] , "B":{ } }"#,
    r#"{"text":"\u00e9é\/\"\\\u0000\ud83d\ude00","\u0061":null}"#,
    "{\n  \"lines\": [\n\t1,\r\n\t2\n  ]\n}",
    "{}",
];

/// A result with members and content types that MCP does not define.
const RESULT: &str = r#"{"content":[{"type":"hologram","depth":1.0,"n":18446744073709551616},{"type":"text","text":"\u00e9\/","x-new":[ ]}],"structuredContent":{"b":1e2,"a":{ "deep" : null }},"isError":false,"_meta":{"example.com/x":{"z":1,"a":-0}},"x-vendor":"kept"}"#;

fn echoing(speaks: Speaks) -> Script {
    let mut script = Script::new(speaks, &format!("[{}]", tool("echo", READ_ONLY)));
    script.call = |_| Some(text_result("done"));
    script
}

/// Returns the `params` that a server received, without `_meta`.
fn arrived(params: &str) -> String {
    let end = params.find(r#","_meta":"#).unwrap_or(params.len() - 1);
    params[..end].to_owned()
}

async fn call_all(rig: &Rig, over_line: bool) {
    for way in WAYS {
        let mut agent = Agent::new(rig, way, &format!("four-{way:?}")).await;
        let sent = |text: &str| if way == Way::Line { text.replace(['\n', '\r'], " ") } else { text.to_owned() };
        for text in ARGUMENTS {
            let args = format!(r#"{{"name":"fx:echo","args":{}}}"#, sent(text));
            assert_eq!(agent.call(rig, "call_tool_read", &args).await.brief(), "done");
            let args_json = format!(r#"{{"name":"fx:echo","args_json":{}}}"#, Value::from(text));
            assert_eq!(agent.call(rig, "call_tool_read", &args_json).await.brief(), "done");
        }
    }
    for (path, name) in [("/mcp/s/fx", "echo"), ("/mcp/direct", "fx__echo")] {
        for way in [Way::Session, Way::Stateless] {
            let agent_name = format!("{way:?}-{name}-{over_line}");
            let mut agent = Agent::at(rig, way, &agent_name, path, "{}").await;
            for text in ARGUMENTS {
                assert_eq!(agent.call(rig, name, text).await.brief(), "done");
            }
        }
    }
}

/// Number of times each text of `ARGUMENTS` is sent: twice by three kinds of agents, and by two kinds at two endpoint
/// modes.
const TIMES: usize = 10;

#[tokio::test]
async fn arguments_arrive_as_they_were_written() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let peer = Peer::new(echoing(speaks)).await;
        let rig = Rig::start(settings([peer.settings("fx")])).await;
        call_all(&rig, true).await;
        let mut found: Vec<String> = peer.calls().iter().map(|params| arrived(params)).collect();
        let mut expected: Vec<String> = ARGUMENTS
            .iter()
            .map(|text| format!(r#"{{"name":"echo","arguments":{}"#, text.replace(['\n', '\r'], " ")))
            .flat_map(|text| vec![text; TIMES])
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{speaks:?}");
    }
}

#[tokio::test]
async fn over_http_even_line_breaks_arrive() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let peer = HttpPeer::new(echoing(speaks)).await;
        let rig = Rig::start(settings([peer.settings("fx")])).await;
        call_all(&rig, false).await;
        let mut found: Vec<String> = peer.calls().iter().map(|params| arrived(params)).collect();
        // Only arguments that an agent sent through `args` on standard input have no line breaks.
        let on_one_line = ARGUMENTS.iter().map(|text| text.replace(['\n', '\r'], " "));
        let as_written = ARGUMENTS.iter().flat_map(|text| vec![(*text).to_owned(); TIMES - 1]);
        let mut expected: Vec<String> =
            on_one_line.chain(as_written).map(|text| format!(r#"{{"name":"echo","arguments":{text}"#)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{speaks:?}");
    }
}

#[tokio::test]
async fn results_come_back_as_they_were_written() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let mut script = echoing(speaks);
        script.call = |_| Some(RESULT.to_owned());
        let (line, http) = (Peer::new(script.clone()).await, HttpPeer::new(script).await);
        let rig = Rig::start(settings([line.settings("line"), http.settings("http")])).await;
        for way in WAYS {
            let mut agent = Agent::new(&rig, way, &format!("{way:?}")).await;
            for server in ["line", "http"] {
                let found = agent.call(&rig, "call_tool_read", &format!(r#"{{"name":"{server}:echo"}}"#)).await;
                assert_eq!(found.result(), RESULT, "{speaks:?} {way:?} {server}");
            }
        }
    }
}

#[tokio::test]
async fn a_servers_error_comes_back_as_it_was_written() {
    let error = r#"{"code":-32050,"message":"no \"x\" today","data":{"b":1.0,"a":18446744073709551616}}"#;
    let mut peer = Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("echo", READ_ONLY)))).await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let (reply, ()) = tokio::join!(agent.call(&rig, "call_tool_read", r#"{"name":"fx:echo"}"#), async {
        peer.next().await.refuse(error).await;
    });
    assert_eq!(reply, crate::agent::Reply::Error(error.to_owned()));
    assert_eq!(rig.records().await, [r#"call error a fx:echo read -32050: no "x" today"#]);
}

#[tokio::test]
async fn meta_of_an_agent_reaches_the_server_without_what_belongs_to_one_hop() {
    for (speaks, expected) in [
        (Speaks::Legacy, r#"{"example.com/trace":{"z":1.0,"a":2}}"#.to_owned()),
        (
            Speaks::Modern,
            format!(
                r#"{{"example.com/trace":{{"z":1.0,"a":2}},"io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"mcpproxy","version":"{}"}}}}"#,
                env!("CARGO_PKG_VERSION")
            ),
        ),
    ] {
        let peer = Peer::new(echoing(speaks)).await;
        let rig = Rig::start(settings([peer.settings("fx")])).await;
        let mut agent = Agent::at(&rig, Way::Stateless, "a", "/mcp/s/fx", "{}").await;
        let params = r#"{"name":"echo","arguments":{},"_meta":{"example.com/trace":{"z":1.0,"a":2}}}"#;
        agent.request(&rig, "tools/call", params).await.result();
        let call = peer.calls().pop().unwrap();
        assert_eq!(call, format!(r#"{{"name":"echo","arguments":{{}},"_meta":{expected}}}"#), "{speaks:?}");
    }
}

/// Returns the raw text of each tool in a server's answer.
fn tools_of(text: &str) -> Vec<String> {
    let fields: HashMap<String, &RawValue> = serde_json::from_str(text).unwrap();
    let tools: Vec<&RawValue> = serde_json::from_str(fields["tools"].get()).unwrap();
    tools.iter().map(|tool| tool.get().to_owned()).collect()
}

#[tokio::test]
async fn lists_of_real_servers_are_their_own_json_in_their_own_order() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tools");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let tools = tools_of(&std::fs::read_to_string(&path).unwrap());
        let peer = HttpPeer::new(Script::new(Speaks::Legacy, &format!("[{}]", tools.join(",")))).await;
        let rig = Rig::start(settings([peer.settings("real")])).await;
        assert_eq!(rig.server("real").hidden_tools, [], "{}", path.display());
        // For other agents, a destructive tool also says that it needs a user.
        let headless =
            |name: &str| Identity { name: name.to_owned(), scope: Scope { headless: true, ..Scope::everything() } };
        let mut agent = Agent::with(&rig, Way::Session, headless("own"), "/mcp/s/real", "{}").await;
        let found = agent.request(&rig, "tools/list", "{}").await.result();
        assert_eq!(found, format!(r#"{{"tools":[{}]}}"#, tools.join(",")), "{}", path.display());
        let mut agent = Agent::with(&rig, Way::Stateless, headless("direct"), "/mcp/direct", "{}").await;
        let found = tools_of(&agent.request(&rig, "tools/list", "{}").await.result());
        let renamed = |text: &String| {
            let mut tool: Value = serde_json::from_str(text).unwrap();
            tool["name"] = format!("real__{}", tool["name"].as_str().unwrap()).into();
            tool.to_string()
        };
        let found: Vec<Value> = found.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let found: Vec<String> = found.iter().map(Value::to_string).collect();
        assert_eq!(found, tools.iter().map(renamed).collect::<Vec<_>>(), "{}", path.display());
    }
}
