//! Builds the requests of the load once, and checks the answers.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::case::Agent;
use crate::payload::Payload;

pub(crate) const MODERN_VERSION: &str = "2026-07-28";
pub(crate) const LEGACY_VERSION: &str = "2025-11-25";
pub(crate) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// Start of the request IDs. All have the same length, so that all requests have the same size.
const FIRST_ID: u64 = 1_000_000_000;
const ID_PLACE: &str = "@ID@";

/// Where a call goes, and how it is spoken.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) token: Option<String>,
    pub(crate) speaks: Agent,
}

/// A `tools/call` request that can be sent many times.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) target: Target,
    head: Request<()>,
    before_id: Bytes,
    after_id: Bytes,
    payload: Payload,
    next_id: u64,
}

impl Call {
    /// Builds a call of `tool` whose answer must contain the payload.
    pub(crate) fn new(target: Target, tool: &str, arguments: &Value, payload: Payload) -> Result<Self> {
        let mut head = Request::builder()
            .method(Method::POST)
            .uri(target.path)
            .header(HOST, target.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(token) = &target.token {
            head = head.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let mut params = json!({ "name": tool, "arguments": arguments });
        match target.speaks {
            Agent::Stateless => {
                head = head
                    .header(VERSION_HEADER, MODERN_VERSION)
                    .header(METHOD_HEADER, "tools/call")
                    .header(NAME_HEADER, tool);
                if let Some(params) = params.as_object_mut() {
                    params.insert("_meta".to_owned(), modern_meta());
                }
            }
            Agent::Sessions => {}
        }
        let body = json!({ "jsonrpc": "2.0", "id": ID_PLACE, "method": "tools/call", "params": params }).to_string();
        let place = format!("\"{ID_PLACE}\"");
        let (before_id, after_id) = body.split_once(&place).context("the request has no place for its id")?;
        Ok(Call {
            target,
            head: head.body(()).context("could not make the request")?,
            before_id: Bytes::copy_from_slice(before_id.as_bytes()),
            after_id: Bytes::copy_from_slice(after_id.as_bytes()),
            payload,
            next_id: FIRST_ID,
        })
    }

    pub(crate) fn request(&mut self) -> Request<Full<Bytes>> {
        let id = self.next_id.to_string();
        self.next_id += 1;
        let mut body = Vec::with_capacity(self.before_id.len() + id.len() + self.after_id.len());
        body.extend_from_slice(&self.before_id);
        body.extend_from_slice(id.as_bytes());
        body.extend_from_slice(&self.after_id);
        self.with_body(body)
    }

    /// Returns the first request of a session.
    pub(crate) fn initialize(&self) -> Request<Full<Bytes>> {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": { "protocolVersion": LEGACY_VERSION, "capabilities": {}, "clientInfo": client_info() },
        });
        self.with_body(body.to_string().into_bytes())
    }

    pub(crate) fn initialized(&self) -> Request<Full<Bytes>> {
        let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.with_body(body.to_string().into_bytes())
    }

    /// Adds the session to all following requests. Without a session, adds the protocol version only.
    pub(crate) fn join(&mut self, session: Option<HeaderValue>) {
        let headers = self.head.headers_mut();
        headers.insert(VERSION_HEADER, HeaderValue::from_static(LEGACY_VERSION));
        if let Some(session) = session {
            headers.insert(SESSION_HEADER, session);
        }
    }

    /// Returns the request that ends the session, if there is one.
    pub(crate) fn leave(&self) -> Option<Request<Full<Bytes>>> {
        self.head.headers().contains_key(SESSION_HEADER).then(|| {
            let mut request = self.with_body(Vec::new());
            *request.method_mut() = Method::DELETE;
            request
        })
    }

    /// Checks an answer completely, during warm-up: it must be a success and contain our text.
    pub(crate) fn check(&self, status: StatusCode, body: &[u8]) -> Result<()> {
        self.check_quickly(status, body)?;
        let answer = parse_answer(body).with_context(|| refused(status, body))?;
        let result = answer.get("result").with_context(|| refused(status, body))?;
        let missing_type =
            self.target.speaks == Agent::Stateless && result.get("resultType") != Some(&json!("complete"));
        if missing_type || result.get("isError") == Some(&json!(true)) || !self.payload.is_in(result) {
            bail!(refused(status, body));
        }
        Ok(())
    }

    /// Checks a measured answer quickly, without parsing, so that the load generator is not the bottleneck.
    pub(crate) fn check_quickly(&self, status: StatusCode, body: &[u8]) -> Result<()> {
        let good = std::str::from_utf8(body)
            .is_ok_and(|body| self.payload.may_be_in(body) && !body.contains(r#""isError":true"#));
        if status != StatusCode::OK || !good {
            bail!(refused(status, body));
        }
        Ok(())
    }

    fn with_body(&self, body: Vec<u8>) -> Request<Full<Bytes>> {
        self.head.clone().map(|()| Full::from(body))
    }
}

/// Returns the arguments of `call_tool_read` and its siblings for a tool's own arguments.
pub(crate) fn wrapped(tool: &str, own: &Value) -> Value {
    json!({ "name": tool, "args_json": own.to_string() })
}

pub(crate) fn refused(status: StatusCode, body: &[u8]) -> String {
    format!("a call failed: HTTP {status}\n{}", String::from_utf8_lossy(body))
}

fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn client_info() -> Value {
    json!({ "name": "bench", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns the answer: the body, or the last event if the body is an event stream.
fn parse_answer(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok().or_else(|| {
        let lines = std::str::from_utf8(body).ok()?.lines();
        lines.rev().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok()).next()
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::case::Content;

    fn call(speaks: Agent) -> Call {
        let payload = Payload::new(Content::Words, 5);
        let target =
            Target { address: "127.0.0.1:9".parse().unwrap(), path: "/mcp", token: Some("t".to_owned()), speaks };
        Call::new(target, "call_tool_read", &wrapped("echo:echo", &payload.arguments), payload).unwrap()
    }

    async fn body(request: Request<Full<Bytes>>) -> Value {
        serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    #[tokio::test]
    async fn modern_calls_name_everything_in_headers_and_meta() {
        let mut call = call(Agent::Stateless);
        let request = call.request();
        let headers: Vec<_> =
            request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        assert_eq!(
            headers,
            [
                "host: 127.0.0.1:9",
                "content-type: application/json",
                "accept: application/json, text/event-stream",
                "authorization: Bearer t",
                "mcp-protocol-version: 2026-07-28",
                "mcp-method: tools/call",
                "mcp-name: call_tool_read",
            ]
        );
        assert_eq!(
            body(request).await,
            json!({
                "jsonrpc": "2.0", "id": 1_000_000_000, "method": "tools/call",
                "params": {
                    "name": "call_tool_read",
                    "arguments": { "name": "echo:echo", "args_json": "{\"text\":\"the q\"}" },
                    "_meta": {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": env!("CARGO_PKG_VERSION") },
                        "io.modelcontextprotocol/clientCapabilities": {},
                    },
                },
            })
        );
        assert_eq!(body(call.request()).await["id"], 1_000_000_001);
        assert!(call.leave().is_none());
    }

    #[tokio::test]
    async fn legacy_calls_carry_their_session() {
        let mut call = call(Agent::Sessions);
        call.join(Some(HeaderValue::from_static("s1")));
        let request = call.request();
        assert_eq!(request.headers()["mcp-session-id"], "s1");
        assert_eq!(request.headers()["mcp-protocol-version"], "2025-11-25");
        assert!(body(request).await["params"].get("_meta").is_none());
        assert_eq!(call.leave().unwrap().method(), Method::DELETE);
    }

    #[test]
    fn only_a_success_with_our_text_is_a_success() {
        let call = call(Agent::Stateless);
        let check =
            |status: u16, body: &str| call.check(StatusCode::from_u16(status).unwrap(), body.as_bytes()).is_ok();
        let good = r#"{"id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"the q"}]}}"#;
        assert!(check(200, good));
        assert!(check(200, &format!("event: message\ndata: {good}\n\n")));
        assert!(!check(500, good));
        assert!(!check(200, &good.replace("the q", "another")));
        assert!(!check(200, &good.replace("\"content\"", "\"isError\":true,\"content\"")));
        assert!(!check(200, &good.replace("\"resultType\":\"complete\",", "")));
        assert!(!check(200, r#"{"id":1,"error":{"code":1,"message":"the q"}}"#));
    }
}
