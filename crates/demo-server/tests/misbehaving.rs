//! Tests that the misbehaving server misbehaves exactly as its options say.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// Time without a message after which a server counts as silent.
const SILENCE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<String>>,
    last_id: u64,
}

impl Server {
    fn start(switches: &[&str]) -> Self {
        Self::start_with(switches, |command| command)
    }

    fn start_with(switches: &[&str], prepare: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_misbehaving-server"));
        command.args(switches).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = prepare(&mut command).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).unwrap() > 0 && sender.send(std::mem::take(&mut line)).is_ok() {}
        });
        let mut pipe = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            pipe.read_to_string(&mut text).unwrap();
            text
        });
        Self { stdin: child.stdin.take(), child, lines, stderr: Some(stderr), last_id: 0 }
    }

    fn send(&mut self, method: &str, params: &str) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.write(&line);
        id
    }

    fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Returns the next line that is a JSON-RPC message.
    fn message(&self) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("a message in time");
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) if message.get("jsonrpc").is_some() => return message,
                _ => {}
            }
        }
    }

    fn ask(&mut self, method: &str, params: &str) -> Value {
        let id = self.send(method, params);
        let message = self.message();
        assert_eq!(message["id"], id, "{message}");
        message
    }

    fn call(&mut self, tool: &str, arguments: &str) -> String {
        let answer = self.ask("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#));
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Closes stdin and waits for the process to end. Returns the rest of stdout, and all of stderr.
    fn finish(mut self) -> (ExitStatus, Vec<Vec<u8>>, String) {
        drop(self.stdin.take());
        let rest = self.lines.iter().collect();
        let status = self.child.wait().unwrap();
        (status, rest, self.stderr.take().unwrap().join().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_behaves_unless_told_otherwise() {
    let mut server = Server::start(&[]);
    let greeting = server.ask("initialize", r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#);
    assert_eq!(greeting["result"]["protocolVersion"], "2025-11-25");
    server.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(server.ask("server/discover", "{}")["error"]["code"], -32601);
    let tools = server.ask("tools/list", "{}");
    let names: Vec<_> = tools["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["echo", "counter", "huge", "hang", "crash"]);

    let odd = r#"{"b": 1.50,  "a":"\u00e9é", "big":12345678901234567890123, "b":2}"#;
    assert_eq!(server.call("echo", odd), odd, "arguments come back letter for letter");
    assert_eq!(server.call("counter", "{}"), "2");
    assert_eq!(server.call("hang", "{}"), "not this time");
    let (status, rest, stderr) = server.finish();
    assert!(status.success());
    assert_eq!((rest, stderr.as_str()), (vec![], ""));
}

#[test]
fn the_ledger_has_one_line_for_each_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut server = Server::start_with(&["--hang"], |command| command.env("MISBEHAVING_LEDGER", &path));
    server.call("echo", r#"{"a": 1}"#);
    server.send("tools/call", r#"{"name":"hang"}"#);
    server.send("tools/call", r#"{"name":"crash","arguments":{}}"#);
    let (status, _rest, _stderr) = server.finish();
    assert_eq!(status.code(), Some(1));
    let expected = "{\"tool\":\"echo\",\"arguments\":{\"a\": 1}}\n{\"tool\":\"hang\",\"arguments\":{}}\n{\"tool\":\"crash\",\"arguments\":{}}\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn noise_surrounds_the_messages_and_floods_stderr() {
    let mut server = Server::start(&["--noise"]);
    assert_eq!(server.call("echo", "{}"), "{}");
    let (_status, rest, stderr) = server.finish();
    assert!(!rest.is_empty());
    assert!(stderr.len() > 50_000, "{}", stderr.len());
}

#[test]
fn half_lines_still_make_whole_messages_except_the_last() {
    let mut server = Server::start(&["--half-lines"]);
    assert_eq!(server.call("echo", r#"{"t":"äöü€"}"#), r#"{"t":"äöü€"}"#);
    let (_status, rest, _stderr) = server.finish();
    assert_eq!(rest, [br#"{"jsonrpc":"2.0","id":1,"resu"#.to_vec()]);
}

#[test]
fn sizes_and_lists_go_as_far_as_asked() {
    let mut server = Server::start(&["--huge", "3000000"]);
    assert_eq!(server.call("huge", "{}").len(), 3_000_000);

    let mut server = Server::start(&["--endless-list"]);
    let mut cursor = json!({});
    for page in 0..5 {
        let list = server.ask("tools/list", &cursor.to_string());
        assert_eq!(list["result"]["tools"][0]["name"], format!("page_{page}"));
        cursor = json!({ "cursor": list["result"]["nextCursor"].as_str().unwrap() });
    }

    let mut server = Server::start(&["--bad-tools"]);
    let tools = server.ask("tools/list", "{}")["result"]["tools"].clone();
    assert!(tools[0].get("inputSchema").is_none());
    assert_eq!(tools[1]["annotations"]["readOnlyHint"], "true");
    assert_eq!(tools[2]["name"], "with:colon");
    assert_eq!(tools[3]["annotations"]["category"], "test");
    assert_eq!(server.call("good", "{}"), "done");
}

#[test]
fn it_leaves_when_told_to() {
    let (status, rest, _stderr) = Server::start(&["--exit-at-start"]).finish();
    assert_eq!((status.code(), rest), (Some(1), vec![]));

    let mut server = Server::start(&["--exit-after", "2"]);
    assert_eq!((server.call("counter", "{}"), server.call("counter", "{}")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(server.child.wait().unwrap().code(), Some(1));

    assert_eq!(Server::start(&["--no-such-switch"]).finish().0.code(), Some(2));
}

#[test]
fn silence_is_kept_where_asked() {
    let mut server = Server::start(&["--hang"]);
    server.send("tools/call", r#"{"name":"hang"}"#);
    assert!(server.lines.recv_timeout(SILENCE).is_err());
    assert_eq!(server.call("echo", "{}"), "{}", "other calls are answered meanwhile");

    let mut server = Server::start(&["--mute"]);
    server.send("ping", "{}");
    assert!(server.lines.recv_timeout(SILENCE).is_err());
}

#[test]
fn answers_come_twice_and_lists_change_on_their_own() {
    let mut server = Server::start(&["--duplicate-ids"]);
    let id = server.send("ping", "{}");
    assert_eq!((server.message()["id"].clone(), server.message()["id"].clone()), (json!(id), json!(id)));

    let mut server = Server::start(&["--list-changed-every", "5"]);
    server.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    for _change in 0..3 {
        assert_eq!(server.message()["method"], "notifications/tools/list_changed");
    }
}

#[cfg(unix)]
#[test]
fn only_force_ends_a_stubborn_server_and_its_grandchild_is_in_the_group() {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    let mut server = Server::start_with(&["--ignore-term", "--grandchild"], |command| command.process_group(0));
    // An answer proves that the signal handler is installed.
    assert_eq!(server.call("echo", "{}"), "{}");
    let pid = server.child.id();
    let signal = |signal: &str, target: String| Command::new("kill").args([signal, "--", &target]).status().unwrap();
    assert!(signal("-TERM", pid.to_string()).success());
    assert_eq!(server.call("counter", "{}"), "2", "still there after SIGTERM");
    drop(server.stdin.take());
    assert!(server.lines.recv_timeout(SILENCE).is_err());
    assert!(server.child.try_wait().unwrap().is_none(), "still there after the end of stdin");

    // Stderr is shared with the grandchild, so its end proves that both processes have ended.
    assert!(signal("-KILL", format!("-{pid}")).success());
    let (status, _rest, stderr) = server.finish();
    assert_eq!(status.signal(), Some(9));
    assert!(stderr.trim().strip_prefix("grandchild ").unwrap().parse::<u32>().is_ok(), "{stderr}");
}
