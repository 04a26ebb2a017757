//! A server that the test simulates: a child process relays its standard input and output to a socket of the test.

use std::sync::{Arc, Mutex};

use mcpproxy_core::settings::ServerSettings;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::rig::{stdio, within};

/// Copies standard input to the socket and the socket to standard output. It ends when either side does.
const RELAY: &str = r#"exec 3<>"/dev/tcp/127.0.0.1/$0" && { cat <&3 & exec cat >&3; }"#;

/// The server's capabilities and lists, and its answers to calls.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) speaks: Speaks,
    /// The members of `capabilities`.
    pub(crate) capabilities: String,
    /// The lists, as raw JSON.
    pub(crate) tools: String,
    pub(crate) prompts: String,
    pub(crate) resources: String,
    /// Returns the raw result of a call by its raw parameters. With `None` the test answers the call itself.
    pub(crate) call: fn(&str) -> Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Legacy,
    Modern,
}

impl Script {
    /// Builds a script that leaves every call to the test.
    pub(crate) fn new(speaks: Speaks, tools: &str) -> Self {
        Self {
            speaks,
            capabilities: r#"{"tools":{"listChanged":true},"prompts":{},"resources":{}}"#.to_owned(),
            tools: tools.to_owned(),
            prompts: "[]".to_owned(),
            resources: "[]".to_owned(),
            call: |_| None,
        }
    }

    fn lists(&self, method: &str) -> Option<String> {
        match method {
            "tools/list" => Some(format!(r#"{{"tools":{}}}"#, self.tools)),
            "prompts/list" => Some(format!(r#"{{"prompts":{}}}"#, self.prompts)),
            "resources/list" => Some(format!(r#"{{"resources":{}}}"#, self.resources)),
            "resources/templates/list" => Some(r#"{"resourceTemplates":[]}"#.to_owned()),
            _ => None,
        }
    }

    pub(crate) fn answer(&self, message: &Value, text: &str) -> Option<Result<String, String>> {
        let capabilities = &self.capabilities;
        let unknown = || Err(r#"{"code":-32601,"message":"Method not found"}"#.to_owned());
        Some(match (message["method"].as_str()?, self.speaks) {
            ("initialize", Speaks::Legacy) => Ok(format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"peer","version":"1"}}}}"#
            )),
            ("server/discover", Speaks::Modern) => Ok(format!(
                r#"{{"supportedVersions":["2026-07-28"],"capabilities":{capabilities},"resultType":"complete"}}"#
            )),
            ("initialize" | "server/discover" | "subscriptions/listen", _) => unknown(),
            ("tools/call", _) => Ok((self.call)(raw_params(text))?),
            (method, _) => Ok(self.lists(method)?),
        })
    }
}

/// Returns the text of `params`, which is the last member of the gateway's messages.
pub(crate) fn raw_params(text: &str) -> &str {
    let at = text.find(r#""params":"#).expect("a request of the gateway has params");
    text[at + 9..].strip_suffix('}').unwrap()
}

pub(crate) struct Peer {
    port: u16,
    script: Arc<Mutex<Script>>,
    log: Arc<Mutex<Vec<String>>>,
    heard: mpsc::UnboundedReceiver<Heard>,
    reading: watch::Sender<bool>,
}

/// A message that the test must handle, and the connection to answer it on.
#[derive(Clone)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) message: Value,
    writer: Arc<tokio::sync::Mutex<OwnedWriteHalf>>,
}

impl Peer {
    pub(crate) async fn new(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = Arc::new(Mutex::new(script));
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (tell, heard) = mpsc::unbounded_channel();
        let (reading, may_read) = watch::channel(true);
        let stage = Stage { script: Arc::clone(&script), log: Arc::clone(&log), tell, may_read };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(stage.clone().play(stream));
            }
        });
        Self { port, script, log, heard, reading }
    }

    pub(crate) fn settings(&self, server: &str) -> ServerSettings {
        stdio(server, "bash", &["-c", RELAY, &self.port.to_string()])
    }

    /// Changes the script of the running server.
    pub(crate) fn rewrite(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap());
    }

    /// Starts or stops reading the server's input.
    pub(crate) fn read(&self, may: bool) {
        self.reading.send_replace(may);
    }

    /// Waits for the next call or notification, except `notifications/initialized`.
    pub(crate) async fn next(&mut self) -> Heard {
        within(self.heard.recv()).await.unwrap()
    }

    /// Returns the raw parameters of every call that arrived so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|text| text.contains(r#""method":"tools/call""#)).map(|t| raw_params(t).to_owned()).collect()
    }
}

/// State that all connections of the peer share.
#[derive(Clone)]
struct Stage {
    script: Arc<Mutex<Script>>,
    log: Arc<Mutex<Vec<String>>>,
    tell: mpsc::UnboundedSender<Heard>,
    may_read: watch::Receiver<bool>,
}

impl Stage {
    async fn play(mut self, stream: TcpStream) {
        let (reader, writer) = stream.into_split();
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let mut lines = BufReader::new(reader).lines();
        while self.may_read.wait_for(|may| *may).await.is_ok() {
            let Ok(Some(text)) = lines.next_line().await else { return };
            self.log.lock().unwrap().push(text.clone());
            let message: Value = serde_json::from_str(&text).unwrap();
            let is_request = !message["id"].is_null();
            let answer = if is_request { self.script.lock().unwrap().answer(&message, &text) } else { None };
            let heard = Heard { text, message, writer: Arc::clone(&writer) };
            match answer {
                Some(Ok(result)) => heard.answer(&result).await,
                Some(Err(error)) => heard.refuse(&error).await,
                None if heard.method() == "notifications/initialized" => {}
                None => drop(self.tell.send(heard)),
            }
        }
    }
}

impl Heard {
    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// Returns the raw parameters.
    pub(crate) fn params(&self) -> &str {
        raw_params(&self.text)
    }

    pub(crate) async fn answer(&self, result: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.message["id"])).await;
    }

    pub(crate) async fn answer_text(&self, text: &str) {
        self.answer(&text_result(text)).await;
    }

    pub(crate) async fn refuse(&self, error: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, self.message["id"])).await;
    }

    /// Sends any message on the connection that this one came from.
    pub(crate) async fn send(&self, text: &str) {
        self.writer.lock().await.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }
}

pub(crate) fn text_result(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":{}}}],"isError":false}}"#, Value::from(text))
}

/// Builds a tool with the given annotations, as raw JSON.
pub(crate) fn tool(name: &str, annotations: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}},"annotations":{annotations}}}"#)
}

pub(crate) const READ_ONLY: &str = r#"{"readOnlyHint":true}"#;
