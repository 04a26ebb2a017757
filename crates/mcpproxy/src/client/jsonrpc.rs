//! The parts of MCP messages that are needed to carry them over HTTP.

use anyhow::Context as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use mcpproxy_gateway::header_value;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The MCP revision of `mcpproxy call`: stateless, one request and one answer.
pub(crate) const REVISION: &str = "2026-07-28";
pub(crate) const ENDPOINT: &str = "/mcp";

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Returns the headers of every request that an agent sends.
pub(crate) fn agent_headers(token: &str) -> anyhow::Result<HeaderMap> {
    let mut bearer =
        HeaderValue::from_str(&format!("Bearer {token}")).context("agent.token does not contain a valid token")?;
    bearer.set_sensitive(true);
    Ok(HeaderMap::from_iter([
        (AUTHORIZATION, bearer),
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
    ]))
}

/// The fields of a message that matter for transport. The message itself is forwarded unchanged.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) method: Option<String>,
    params: Option<Params>,
    #[serde(default)]
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) error: Option<RpcError>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

#[derive(Debug, Deserialize)]
struct Params {
    name: Option<Box<RawValue>>,
    uri: Option<Box<RawValue>>,
    #[serde(rename = "taskId")]
    task_id: Option<Box<RawValue>>,
    #[serde(rename = "requestId")]
    request_id: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    meta: Option<Box<RawValue>>,
}

impl Envelope {
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// Returns the revision that a stateless request names in `_meta`.
    pub(crate) fn revision(&self) -> Option<String> {
        let meta = self.params.as_ref()?.meta.as_ref()?;
        let meta: serde_json::Value = serde_json::from_str(meta.get()).ok()?;
        meta.get(META_VERSION)?.as_str().map(str::to_owned)
    }

    /// Returns the id of the request that a `notifications/cancelled` cancels.
    pub(crate) fn cancelled_id(&self) -> Option<&str> {
        self.params.as_ref()?.request_id.as_deref().map(RawValue::get)
    }

    /// Returns the headers that let proxies route a stateless request without reading its body.
    pub(crate) fn routing_headers(&self, revision: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(PROTOCOL_VERSION, header_value(revision));
        let Some(method) = &self.method else { return headers };
        headers.insert(METHOD, header_value(method));
        let name = self.params.as_ref().and_then(|params| match method.as_str() {
            "tools/call" | "prompts/get" => params.name.as_ref(),
            "resources/read" => params.uri.as_ref(),
            method if method.starts_with("tasks/") => params.task_id.as_ref(),
            _ => None,
        });
        if let Some(name) = name.and_then(|name| serde_json::from_str::<String>(name.get()).ok()) {
            headers.insert(NAME, header_value(&name));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stateless_requests_route_by_header() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let envelope = Envelope::parse(text).unwrap();
            let headers = envelope.routing_headers(&envelope.revision().unwrap());
            let found: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool_read","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "call_tool_read")],
        );
        check(
            r#"{"id":"a","method":"resources/read","params":{"uri":"näh:","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            &[
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", "resources/read"),
                ("mcp-name", "=?base64?bsOkaDo=?="),
            ],
        );
        check(
            r#"{"id":1,"method":"tools/list","params":{"name":7,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")],
        );
    }

    #[test]
    fn messages_of_sessions_name_no_revision() {
        for text in [
            r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
            r#"{"method":"notifications/initialized"}"#,
            r#"{"id":1,"method":"tools/list","params":{"_meta":{"progressToken":1}}}"#,
            r#"{"id":1,"result":{}}"#,
        ] {
            assert_eq!(Envelope::parse(text).unwrap().revision(), None, "{text}");
        }
        assert_eq!(
            Envelope::parse(r#"{"method":"notifications/cancelled","params":{"requestId":"x"}}"#)
                .unwrap()
                .cancelled_id(),
            Some("\"x\"")
        );
    }
}
