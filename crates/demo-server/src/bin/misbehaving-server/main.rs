//! A stdio MCP server that misbehaves as its options say, to test gateways and clients against.

mod flood;
mod options;
mod output;
mod tools;

use std::fs::OpenOptions;
use std::io::{self, BufRead, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::flood::Flood;
use crate::options::Options;
use crate::output::Output;

const LEDGER: &str = "MISBEHAVING_LEDGER";
const GRANDCHILD_LIFE_S: &str = "600";

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            let _ = writeln!(io::stderr(), "misbehaving-server: {wrong}");
            return ExitCode::from(2);
        }
    };
    if options.exit_at_start {
        let _ = writeln!(io::stderr(), "misbehaving-server: leaving at once, as asked");
        return ExitCode::FAILURE;
    }
    match run(options) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "misbehaving-server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> io::Result<ExitCode> {
    if options.ignore_term {
        ignore_term()?;
    }
    if options.grandchild {
        // Never waited for. A gateway must stop the whole process group.
        let sleep = Command::new("sleep").arg(GRANDCHILD_LIFE_S).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        writeln!(io::stderr(), "grandchild {}", sleep.id())?;
    }
    if options.daemon {
        // Not in the process group, so a signal to the group does not reach it.
        let mut daemon = Command::new("setsid");
        daemon.args(["sleep", GRANDCHILD_LIFE_S]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        writeln!(io::stderr(), "grandchild {}", daemon.spawn()?.id())?;
    }
    std::thread::sleep(options.slow_start);
    let mut server = Server { output: Output::new(&options), options, calls: 0, ticks: Arc::default() };
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if server.options.mute {
            continue;
        }
        if let Some(code) = server.answer(&line)? {
            server.output.leave()?;
            return Ok(code);
        }
    }
    if server.options.ignore_term {
        loop {
            std::thread::park();
        }
    }
    server.output.leave()?;
    Ok(ExitCode::SUCCESS)
}

/// Ignores SIGTERM. The handler of the runtime stays installed after the runtime has ended.
fn ignore_term() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { signal(SignalKind::terminate()).map(drop) })?;
    }
    Ok(())
}

struct Server {
    options: Options,
    output: Output,
    calls: u64,
    /// Number of changes of the tool list.
    ticks: Arc<AtomicU64>,
}

/// The parts of a message that this server reads. Raw JSON is kept where the exact text matters.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Server {
    /// Answers one line. Returns an exit code if the process must end now.
    fn answer(&mut self, line: &[u8]) -> io::Result<Option<ExitCode>> {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else {
            let error = json!({ "code": -32700, "message": "not a JSON-RPC message" });
            self.output.send(&format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#))?;
            return Ok(None);
        };
        let method = message.method.as_deref().unwrap_or_default();
        let Some(id) = message.id.map(RawValue::get) else {
            if method == "notifications/initialized" {
                self.begin_ticking();
            }
            return Ok(None);
        };
        match method {
            "initialize" => self.result(id, &greeting())?,
            "ping" => self.result(id, &json!({}))?,
            "tools/list" => {
                let cursor = message.params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
                let cursor = cursor.as_ref().and_then(|params| params.get("cursor")).and_then(Value::as_str);
                self.result(id, &tools::list(&self.options, cursor, self.ticks.load(Ordering::SeqCst)))?;
            }
            "tools/call" => return self.call(id, message.params.map_or("{}", RawValue::get)),
            _ => self.error(id, -32601, &format!("method not found: {method}"))?,
        }
        Ok(None)
    }

    fn call(&mut self, id: &str, params: &str) -> io::Result<Option<ExitCode>> {
        let Ok(call) = serde_json::from_str::<Call<'_>>(params) else {
            self.error(id, -32602, "a call needs a name")?;
            return Ok(None);
        };
        let arguments = call.arguments.map_or("{}", RawValue::get);
        note(&call.name, arguments)?;
        self.calls += 1;
        let text = match call.name.as_str() {
            "echo" => arguments.to_owned(),
            "counter" => self.calls.to_string(),
            "huge" => "x".repeat(self.options.huge_bytes),
            "hang" if self.options.hang => return Ok(None),
            "hang" => "not this time".to_owned(),
            "crash" => return Ok(Some(ExitCode::FAILURE)),
            "flood" if self.options.floods => {
                let kind = serde_json::from_str::<Value>(arguments).unwrap_or_default();
                let Some(flood) = kind.get("kind").and_then(Value::as_str).and_then(Flood::parse) else {
                    self.error(id, -32602, "`kind` must be `requests`, `messages`, `bytes`, `lists` or `line`")?;
                    return Ok(None);
                };
                flood.run(id)?;
                return Ok(Some(ExitCode::FAILURE));
            }
            "slow" => {
                // Calls run side by side, so one does not delay the next.
                let (output, id, delay) = (self.output.clone(), id.to_owned(), self.options.delay);
                std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    let result = json!({ "content": [{ "type": "text", "text": "done" }], "isError": false });
                    // Fails if the client has closed the pipe, and then nobody waits.
                    let _closed = output.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
                });
                return Ok(None);
            }
            "good" | "extra" => "done".to_owned(),
            unknown => {
                self.error(id, -32602, &format!("unknown tool: {unknown}"))?;
                return Ok(None);
            }
        };
        self.result(id, &json!({ "content": [{ "type": "text", "text": text }], "isError": false }))?;
        let enough = self.options.exit_after.is_some_and(|calls| self.calls >= calls);
        Ok(enough.then_some(ExitCode::FAILURE))
    }

    fn result(&self, id: &str, result: &Value) -> io::Result<()> {
        self.output.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))?;
        if self.options.duplicate_ids {
            self.output.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"duplicate":true}}}}"#))?;
        }
        Ok(())
    }

    fn error(&self, id: &str, code: i32, message: &str) -> io::Result<()> {
        let error = json!({ "code": code, "message": message });
        self.output.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
    }

    fn begin_ticking(&self) {
        let Some(every_ms) = self.options.list_changed_every_ms else { return };
        let (output, ticks) = (self.output.clone(), self.ticks.clone());
        std::thread::spawn(move || {
            let notification = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
            loop {
                std::thread::sleep(Duration::from_millis(every_ms));
                ticks.fetch_add(1, Ordering::SeqCst);
                if output.send(notification).is_err() {
                    return;
                }
            }
        });
    }
}

fn greeting() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": "misbehaving-server", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Appends a line to the call log, durably and before anything else happens.
fn note(tool: &str, arguments: &str) -> io::Result<()> {
    let Some(path) = std::env::var_os(LEDGER) else { return Ok(()) };
    let mut ledger = OpenOptions::new().create(true).append(true).open(path)?;
    let tool = Value::from(tool);
    ledger.write_all(format!("{{\"tool\":{tool},\"arguments\":{arguments}}}\n").as_bytes())?;
    ledger.sync_all()
}
