//! Test agents over each transport: Streamable HTTP with a session, stateless Streamable HTTP, and standard input and
//! output.

use axum::body::{Body, BodyDataStream};
use futures::StreamExt;
use http::{Request, StatusCode};
use mcpproxy_core::{Agent as Identity, Scope};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

use crate::rig::{Answer, Rig, post, within};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Streamable HTTP with a session.
    Session,
    /// Streamable HTTP without a session.
    Stateless,
    /// Standard input and output.
    Line,
}

pub(crate) const WAYS: [Way; 3] = [Way::Session, Way::Stateless, Way::Line];

/// Client capabilities of an agent that supports every kind of server request.
pub(crate) const ALL_CAPABILITIES: &str = r#"{"elicitation":{"form":{}},"sampling":{}}"#;

pub(crate) struct Agent {
    pub(crate) way: Way,
    pub(crate) token: String,
    path: String,
    session: String,
    capabilities: String,
    line: Option<Pipe>,
}

struct Pipe {
    writer: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Agent {
    /// Connects an agent at `/mcp` that has every permission and no client capabilities.
    pub(crate) async fn new(rig: &Rig, way: Way, name: &str) -> Self {
        Self::at(rig, way, name, "/mcp", "{}").await
    }

    pub(crate) async fn at(rig: &Rig, way: Way, name: &str, path: &str, capabilities: &str) -> Self {
        let identity = Identity { name: name.to_owned(), scope: Scope::everything() };
        Self::with(rig, way, identity, path, capabilities).await
    }

    pub(crate) async fn with(rig: &Rig, way: Way, identity: Identity, path: &str, capabilities: &str) -> Self {
        let token = rig.token_for(&identity).await;
        Self::connect(rig, way, (token, Some(identity)), path, capabilities).await
    }

    /// Connects an agent with an access token of an identity provider.
    pub(crate) async fn bearing(rig: &Rig, way: Way, token: &str, path: &str) -> Self {
        Self::connect(rig, way, (token.to_owned(), None), path, "{}").await
    }

    async fn connect(
        rig: &Rig,
        way: Way,
        (token, identity): (String, Option<Identity>),
        path: &str,
        capabilities: &str,
    ) -> Self {
        let mut agent = Self {
            way,
            token,
            path: path.to_owned(),
            session: String::new(),
            capabilities: capabilities.to_owned(),
            line: None,
        };
        let hello = format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{{"name":"test","version":"1"}}}}"#
        );
        match way {
            Way::Stateless => {}
            Way::Session => {
                let body = request_text(0, "initialize", &hello);
                let answer = rig.send(post(path, &agent.token, &[], body)).await;
                assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
                agent.session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
            }
            Way::Line => {
                let (ours, theirs) = tokio::io::duplex(1 << 20);
                let (gateway, identity) = (rig.gateway.clone(), identity.unwrap());
                let (input, output) = tokio::io::split(theirs);
                tokio::spawn(async move { mcpproxy_gateway::serve_stdio(&gateway, identity, input, output).await });
                let (reader, writer) = tokio::io::split(ours);
                agent.line = Some(Pipe { writer, lines: BufReader::new(reader).lines() });
                agent.write(&request_text(0, "initialize", &hello)).await;
                assert!(agent.read().await.contains(r#""serverInfo":{"name":"mcpproxy""#));
            }
        }
        agent
    }

    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// Builds the HTTP request for a method.
    pub(crate) fn http(&self, id: u64, method: &str, params: &str) -> Request<Body> {
        match self.way {
            Way::Session => {
                let headers = [("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", "2025-11-25")];
                post(&self.path, &self.token, &headers, request_text(id, method, params))
            }
            Way::Stateless => {
                let message: Value = serde_json::from_str(params).unwrap();
                let name = message["name"].as_str().or(message["uri"].as_str()).unwrap_or_default();
                let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
                if matches!(method, "tools/call" | "prompts/get" | "resources/read") {
                    headers.push(("mcp-name", name));
                }
                post(
                    &self.path,
                    &self.token,
                    &headers,
                    request_text(id, method, &with_meta(params, &self.capabilities)),
                )
            }
            Way::Line => panic!("a line is no HTTP"),
        }
    }

    /// Sends a request and returns its reply. Notifications before the reply are dropped.
    pub(crate) async fn request(&mut self, rig: &Rig, method: &str, params: &str) -> Reply {
        Reply::of(&self.ask(rig, method, params).await, self.way)
    }

    /// Sends a request and returns its reply as raw text.
    pub(crate) async fn ask(&mut self, rig: &Rig, method: &str, params: &str) -> String {
        match self.way {
            Way::Session | Way::Stateless => {
                let answer = rig.send(self.http(1, method, params)).await;
                last_message(&answer)
            }
            Way::Line => {
                self.write(&request_text(1, method, params)).await;
                loop {
                    let text = self.read().await;
                    if text.starts_with(r#"{"jsonrpc":"2.0","id":1,"#) && !text.contains(r#""method":"#) {
                        return text;
                    }
                }
            }
        }
    }

    /// Calls one of the four tools, or in direct mode any tool.
    pub(crate) async fn call(&mut self, rig: &Rig, tool: &str, arguments: &str) -> Reply {
        let params = format!(r#"{{"name":{},"arguments":{arguments}}}"#, Value::from(tool));
        self.request(rig, "tools/call", &params).await
    }

    /// Sends a request over HTTP and returns its event stream.
    pub(crate) async fn stream(&self, rig: &Rig, id: u64, method: &str, params: &str) -> Events {
        let response = rig.open(self.http(id, method, params)).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// Sends a notification or a response.
    pub(crate) async fn tell(&mut self, rig: &Rig, text: &str) -> StatusCode {
        match self.way {
            Way::Session => {
                let headers = [("mcp-session-id", self.session.as_str())];
                rig.send(post(&self.path, &self.token, &headers, text.to_owned())).await.status
            }
            Way::Line => {
                self.write(text).await;
                StatusCode::ACCEPTED
            }
            Way::Stateless => panic!("an agent without a session says nothing between requests"),
        }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.line.as_mut().unwrap().writer.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn read(&mut self) -> String {
        within(self.line.as_mut().unwrap().lines.next_line()).await.unwrap().unwrap()
    }
}

/// The result or the error of a request, as raw JSON without the record id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Result(String),
    Error(String),
}

impl Reply {
    /// Removes the JSON-RPC envelope, and the `resultType` member of stateless results.
    fn of(text: &str, way: Way) -> Self {
        let text = &split_record(text).0;
        let text = text.strip_suffix('}').unwrap_or_else(|| panic!("not a message: {text}"));
        let (kind, body) = text
            .split_once(r#""id":1,"#)
            .unwrap_or_else(|| panic!("not our answer: {text}"))
            .1
            .split_once(':')
            .unwrap();
        match (kind, way) {
            (r#""error""#, _) => Self::Error(body.to_owned()),
            (_, Way::Stateless) => {
                let body = body.strip_suffix(r#","resultType":"complete"}"#);
                Self::Result(format!("{}}}", body.unwrap_or_else(|| panic!("not complete: {text}"))))
            }
            (_, Way::Session | Way::Line) => Self::Result(body.to_owned()),
        }
    }

    pub(crate) fn result(self) -> String {
        match self {
            Self::Result(text) => text,
            Self::Error(error) => panic!("an error: {error}"),
        }
    }

    /// Returns the code of a refusal or failure, or the text of a result.
    pub(crate) fn brief(&self) -> String {
        match self {
            Self::Error(error) => {
                let error: Value = serde_json::from_str(error).unwrap();
                format!("{} {}", error["code"], error["message"].as_str().unwrap())
            }
            Self::Result(result) => {
                let result: Value = serde_json::from_str(result).unwrap();
                let text = result["content"][0]["text"].as_str().unwrap_or_default();
                match result["structuredContent"]["error"]["code"].as_str() {
                    Some(code) => format!("{code} {text}"),
                    None => text.to_owned(),
                }
            }
        }
    }
}

/// The messages of an event stream, in the order of arrival.
pub(crate) struct Events {
    body: BodyDataStream,
    text: String,
}

impl Events {
    pub(crate) fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), text: String::new() }
    }

    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                self.text = rest.to_owned();
                match data {
                    Some(data) => return Some(data),
                    None => continue,
                }
            }
            let chunk = within(self.body.next()).await?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn last_message(answer: &Answer) -> String {
    let is_stream = answer.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    match is_stream {
        true => answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap().to_owned(),
        false => answer.body.clone(),
    }
}

pub(crate) fn request_text(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Adds the `_meta` members of a stateless request to the parameters. Existing members stay.
pub(crate) fn with_meta(params: &str, capabilities: &str) -> String {
    let own = format!(
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}"#
    );
    if let Some((before, after)) = params.split_once(r#""_meta":{"#) {
        return format!(r#"{before}"_meta":{{{own},{after}"#);
    }
    let inner = params.trim().strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let comma = if inner.trim().is_empty() { "" } else { "," };
    format!(r#"{{{inner}{comma}"_meta":{{{own}}}}}"#)
}

/// Splits an answer into its text without the record id, and the record id.
pub(crate) fn split_record(text: &str) -> (String, Option<String>) {
    const KEY: &str = r#""mcpproxy/record":""#;
    let Some(at) = text.find(KEY) else { return (text.to_owned(), None) };
    let id = text[at + KEY.len()..].split('"').next().unwrap();
    let member = format!("{KEY}{id}\"");
    let alone = [format!(r#","_meta":{{{member}}}"#), format!(r#","data":{{{member}}}"#)];
    let others = [format!("{member},"), format!(",{member}"), member];
    let written = alone.iter().chain(&others).find(|written| text.contains(written.as_str())).unwrap();
    (text.replacen(written.as_str(), "", 1), Some(id.to_owned()))
}
