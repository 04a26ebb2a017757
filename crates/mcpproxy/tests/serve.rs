//! Tests of the running gateway from outside: the demo server, HTTP, and standard input and output.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on stops"
)]

mod common;

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use common::{Folder, Serving, wait};
use insta::assert_snapshot;
use serde_json::{Value, json};

#[test]
fn the_first_run_shows_the_whole_product() {
    let folder = Folder::new();
    let serving = Serving::start(&folder);

    let servers = folder.json(&["servers", "list"]);
    assert_eq!((&servers["servers"][0]["name"], &servers["servers"][0]["state"]), (&json!("demo"), &json!("ready")));
    assert_snapshot!("tools_list", folder.run(&["tools", "list"]));
    assert_snapshot!("tools_show", folder.run(&["tools", "show", "demo:delete_user"]));
    assert_snapshot!("tools_show_unknown", folder.run(&["tools", "show", "demo:nothing"]));
    assert_snapshot!("call_read", folder.run(&["call", "tool-read", "demo:get_current_user"]));
    assert_snapshot!("explain_refused", folder.run(&["policy", "explain", "demo:delete_user", "--variant", "read"]));
    let too_careful = ["policy", "explain", "demo:list_projects", "--variant", "write", "--declared", "write"];
    assert_snapshot!("explain_warned", folder.run(&too_careful));
    let unknown_agent = ["policy", "explain", "demo:list_projects", "--variant", "read", "--agent", "nobody"];
    assert_snapshot!("explain_unknown_agent", folder.run(&unknown_agent));
    let delete = ["demo:delete_user", "--args", "{\"userId\": \"u_max\"}"];
    assert_snapshot!("call_refused", folder.run(&[&["call", "tool-read"][..], &delete].concat()));
    let rehearse = [&["call", "tool-destructive"][..], &delete, &["--dry-run"]].concat();
    assert_snapshot!("call_dry_run", folder.run(&rehearse));
    let task = |id: &str| format!("{{\"taskId\": \"{id}\", \"status\": \"done\"}}");
    let update = ["call", "tool-write", "demo:update_task_status", "--args"];
    assert_snapshot!("call_write", folder.run(&[&update[..], &[&task("t_1")]].concat()));
    assert_snapshot!("call_failed", folder.run(&[&update[..], &[&task("t_none")]].concat()));
    assert_snapshot!(
        "call_unknown",
        folder.run(&["call", "tool-read", "--tool-name", "demo:nothing", "--json_args", "{}"])
    );

    let statuses = |tool: &str| -> Vec<(Value, Value)> {
        let calls = folder.json(&["activity", "list", "--tool", tool])["activities"].clone();
        calls.as_array().unwrap().iter().map(|call| (call["intent_type"].clone(), call["status"].clone())).collect()
    };
    assert_eq!(
        statuses("demo:delete_user"),
        [(json!("destructive"), json!("success")), (json!("read"), json!("refused"))]
    );
    assert_eq!(
        statuses("demo:update_task_status"),
        [(json!("write"), json!("error")), (json!("write"), json!("success"))]
    );

    let failed = folder.json(&["activity", "list", "--tool", "demo:update_task_status"])["activities"][0].clone();
    let shown = folder.run(&["activity", "show", failed["id"].as_str().unwrap()]);
    for line in ["Risk         medium", "Failure      not_found, declared in the contract"] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(!shown.contains("task.status.updated"), "nothing was updated: {shown}");
    let made = folder.json(&["activity", "list", "--tool", "demo:update_task_status"])["activities"][1].clone();
    let shown = folder.run(&["activity", "show", made["id"].as_str().unwrap()]);
    assert!(shown.lines().any(|line| line == "Event        task.status.updated"), "{shown}");

    let second = folder.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_snapshot!(
        "second_serve",
        second.replace(&serving.address, "ADDRESS").replace(&serving.pid().to_string(), "PID")
    );
    assert_eq!(serving.stop(), Some(0));
    assert_eq!(folder.read("gateway.lock"), "");
    assert!(folder.run(&["servers", "list"]).starts_with("exit 7\n"));
}

#[test]
fn a_port_that_is_taken() {
    let folder = Folder::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let output = folder.run(&["serve", "--listen", &address.to_string()]);
    // Before the port is replaced, because the process id may contain its digits.
    let own_pid = format!("(pid {})", std::process::id());
    assert!(!cfg!(target_os = "linux") || output.contains(&own_pid), "{output}");
    let port = address.port();
    let output = output.replace(&port.to_string(), "PORT").replace(&(port.wrapping_add(1)).to_string(), "NEXT");
    // Only the first fifteen bytes of the program's name are known.
    let (before, after) = output.split_once("in use: ").unwrap();
    let (_, after) = after.split_once(" listens").unwrap();
    assert_snapshot!(format!("{before}in use: HOLDER listens{after}"));
}

#[test]
fn a_changed_settings_file_is_taken_over_and_a_bad_one_is_not() {
    let folder = Folder::new();
    folder.write("mcp_config.json", "{\"mcpServers\": {\"one\": {\"type\": \"demo\"}}}");
    let _serving = Serving::start(&folder);
    let names = || -> Vec<String> {
        let servers = folder.json(&["servers", "list"])["servers"].as_array().unwrap().clone();
        servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(), ["one"]);

    folder.run(&["servers", "add", "two", "--", "/no/such/program"]);
    wait("the second server", || names() == ["one", "two"]);

    folder.write("mcp_config.json", "{\"mcpServers\": [");
    let status = || status(&folder);
    wait("the error", || status()["settings"]["error"].is_string());
    assert!(
        status()["settings"]["error"]
            .as_str()
            .unwrap()
            .ends_with("mcp_config.json:1:16: this `[` is never closed; add the missing `]`")
    );
    assert_eq!(names(), ["one", "two"]);

    folder.write("mcp_config.json", "{}");
    wait("the good file", || status()["settings"]["error"].is_null() && names().is_empty());
}

fn status(folder: &Folder) -> Value {
    let running: Value = serde_json::from_str(&folder.read("gateway.lock")).unwrap();
    let address = running["address"].as_str().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let key = folder.read("admin.key");
    write!(
        stream,
        "GET /api/v1/status HTTP/1.1\r\nHost: {address}\r\nX-API-Key: {}\r\nConnection: close\r\n\r\n",
        key.trim()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn requests_that_are_not_whole() {
    let folder = Folder::new();
    folder.write("mcp_config.json", "{}");
    let serving = Serving::start(&folder);
    let check = |request: &str, expected: &str| {
        let mut stream = serving.connect();
        stream.write_all(request.replace("HOST", &serving.address).as_bytes()).unwrap();
        let mut answer = String::new();
        // The gateway closes the connection, although the client keeps its side open.
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(expected), "{request:?}: {answer:?}");
    };
    // A body with two lengths could hide a second request.
    let both = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    check(&format!("POST /mcp HTTP/1.1\r\nHost: HOST\r\n{both}"), "HTTP/1.1 400 ");
    check("GET /api/v1/status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "HTTP/1.1 403 ");
    check("GET /healthz HTTP/1.1\r\nHost: 10.0.0.7:8080\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 ");
    check("nonsense\r\n\r\n", "HTTP/1.1 400 ");
    // The head never ends, so the gateway closes the connection.
    check("GET /healthz HTTP/1.1\r\nHo", "");
    assert!(serving.get("/healthz").starts_with("HTTP/1.1 200 "));
}

/// A client on standard input and output.
struct Client {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(folder: &Folder) -> Self {
        let mut command = folder.command(&["stdio"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, lines }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// Returns the answer to this request. Earlier messages are dropped.
    fn answer(&mut self, id: &Value) -> Value {
        for line in self.lines.by_ref() {
            let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
        }
        panic!("no answer to {id}");
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.answer(&json!(id))
    }

    fn initialize(&mut self) {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = self.ask(1, "initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn call(&mut self, id: u32) -> Value {
        let arguments = json!({"name": "demo:get_current_user"});
        self.ask(id, "tools/call", json!({"name": "call_tool_read", "arguments": arguments}))
    }

    fn finish(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().unwrap().code()
    }
}

const USER: &str = "/result/structuredContent/user/id";

fn user(answer: &Value) -> Option<&str> {
    answer.pointer(USER).and_then(Value::as_str)
}

#[test]
fn stdio_with_a_gateway_of_its_own() {
    let folder = Folder::new();
    let mut client = Client::start(&folder);
    client.initialize();
    let tools = client.ask(2, "tools/list", json!({}));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 4);
    assert_eq!(user(&client.call(3)), Some("u_anna"));
    // Other clients share this gateway while it runs.
    let mut other = Client::start(&folder);
    other.initialize();
    assert_eq!(user(&other.call(2)), Some("u_anna"));
    assert_eq!(other.finish(), Some(0));
    assert_eq!(client.finish(), Some(0));
}

#[test]
fn stdio_as_a_bridge() {
    let folder = Folder::new();
    let serving = Serving::start(&folder);
    let mut client = Client::start(&folder);
    client.initialize();
    assert_eq!(user(&client.call(2)), Some("u_anna"));
    writeln!(client.input, "{{bad").unwrap();
    assert_eq!(client.answer(&Value::Null)["error"]["code"], -32700);
    assert_eq!(client.ask(3, "no/such", json!({}))["error"]["code"], -32601);

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({"name": "demo:get_current_user"});
    let answer = client.ask(4, "tools/call", json!({"name": "call_tool_read", "arguments": arguments, "_meta": meta}));
    assert_eq!((user(&answer), &answer["result"]["resultType"]), (Some("u_anna"), &json!("complete")));
    assert_eq!(client.finish(), Some(0));
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn a_bridge_outlives_its_gateway() {
    let folder = Folder::new();
    let serving = Serving::start(&folder);
    let mut client = Client::start(&folder);
    client.initialize();
    assert_eq!(user(&client.call(2)), Some("u_anna"));
    assert_eq!(serving.stop(), Some(0));
    assert!(client.call(3)["error"]["message"].as_str().unwrap().starts_with("The gateway has stopped"));
    let serving = Serving::start(&folder);
    assert_eq!(user(&client.call(4)), Some("u_anna"));
    assert_eq!(client.finish(), Some(0));
    drop(serving);
}
