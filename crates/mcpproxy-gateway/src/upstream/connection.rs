//! A connection to a server after its handshake. Builds requests for its revision.

use std::sync::{Arc, LazyLock};

use http::{HeaderName, HeaderValue};
use mcpproxy_core::json::{members, quote};
use tokio_util::sync::CancellationToken;

use super::duplex::Duplex;
use super::error::UpstreamError;
use super::http::HttpLink;
use crate::agents::AgentChannel;
use crate::headers;
use crate::message::{self, OWN_PREFIX, Reply, object};
use crate::protocol::{Era, IMPLEMENTATION, MODERN_VERSION};

pub(crate) struct Connection {
    pub(crate) link: Link,
    pub(crate) era: Era,
    pub(crate) version: String,
    /// The server's capabilities, as raw JSON.
    pub(crate) capabilities: String,
    /// The server's text for models.
    pub(crate) instructions: Option<Arc<str>>,
}

#[derive(Clone)]
pub(crate) enum Link {
    Duplex(Arc<Duplex>),
    Http(Arc<HttpLink>),
}

/// A request for a server, independent of the revision.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Vec<(&'a str, &'a str)>,
    /// The agent's own `_meta`, as raw JSON.
    pub(crate) meta: Option<&'a str>,
    /// The `traceparent` of this hop. Without one, the agent's is passed on.
    pub(crate) trace: Option<&'a str>,
    /// Value of the `Mcp-Name` header.
    pub(crate) name: Option<&'a str>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) channel: Option<&'a AgentChannel>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: &'a str, params: Vec<(&'a str, &'a str)>) -> Self {
        Self { method, params, meta: None, trace: None, name: None, headers: Vec::new(), channel: None }
    }
}

/// Keys of `_meta` that belong to one hop and are never passed on.
const HOP_PREFIX: &str = "io.modelcontextprotocol/";

const TRACE_PARENT: &str = "traceparent";

static MODERN_META: LazyLock<String> = LazyLock::new(|| {
    format!(
        "\"{HOP_PREFIX}protocolVersion\":\"{MODERN_VERSION}\",\"{HOP_PREFIX}clientInfo\":{}",
        IMPLEMENTATION.as_str()
    )
});

impl Connection {
    pub(crate) async fn request(&self, request: Request<'_>) -> Result<Reply, UpstreamError> {
        send(&self.link, self.era, request).await
    }

    pub(crate) fn ended(&self) -> &CancellationToken {
        match &self.link {
            Link::Duplex(line) => &line.ended,
            Link::Http(link) => &link.ended,
        }
    }

    /// Returns why the connection has ended.
    pub(crate) fn end_reason(&self) -> UpstreamError {
        match &self.link {
            Link::Duplex(line) => line.end_reason(),
            Link::Http(link) => link.end_reason(),
        }
    }

    pub(crate) fn can(&self, capability: &str) -> bool {
        message::member(&self.capabilities, capability).is_some()
    }
}

/// Sends a request in the form that an era requires.
pub(crate) async fn send(link: &Link, era: Era, request: Request<'_>) -> Result<Reply, UpstreamError> {
    let id = match link {
        Link::Duplex(line) => line.next_id(),
        Link::Http(link) => link.next_id(),
    };
    let meta = meta(era, &request, id);
    let params: Vec<(&str, &str)> =
        request.params.iter().copied().chain(meta.as_deref().map(|meta| ("_meta", meta))).collect();
    let text = message::request_of(&id.to_string(), request.method, &params);
    match link {
        Link::Duplex(line) => line.request(id, text, request.channel.cloned()).await,
        Link::Http(link) => {
            let headers = match era {
                Era::Legacy => Vec::new(),
                Era::Modern => modern_headers(request.method, request.name, request.headers)?,
            };
            link.request(id, text, headers, request.channel).await
        }
    }
}

fn modern_headers(
    method: &str,
    name: Option<&str>,
    more: Vec<(HeaderName, HeaderValue)>,
) -> Result<Vec<(HeaderName, HeaderValue)>, UpstreamError> {
    let unfit = || UpstreamError::Protocol("a name contains characters that are not allowed in a header".to_owned());
    let mut all = more;
    all.push((headers::VERSION, HeaderValue::from_static(MODERN_VERSION)));
    all.push((headers::METHOD, HeaderValue::from_str(method).map_err(|_| unfit())?));
    if let Some(name) = name {
        all.push((headers::NAME, headers::header_value(name)));
    }
    Ok(all)
}

/// Builds the `_meta` for a server: the agent's entries, and those of this hop.
fn meta(era: Era, request: &Request<'_>, id: u64) -> Option<String> {
    let mut text = String::new();
    let mut add = |key: &str, value: &str| {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&quote(key));
        text.push(':');
        text.push_str(value);
    };
    for (key, value) in request.meta.and_then(members).unwrap_or_default() {
        if is_passed(&key) && !(key == TRACE_PARENT && request.trace.is_some()) {
            add(&key, value);
        }
    }
    if let Some(trace) = request.trace {
        add(TRACE_PARENT, &quote(trace));
    }
    if request.channel.is_some_and(|channel| channel.progress_token().is_some()) {
        add("progressToken", &id.to_string());
    }
    if era == Era::Modern {
        let capabilities =
            request.channel.map_or_else(|| "{}".to_owned(), |channel| passed_capabilities(channel.capabilities()));
        add("io.modelcontextprotocol/clientCapabilities", &capabilities);
        if let Some(level) = request.channel.and_then(AgentChannel::log_level) {
            add("io.modelcontextprotocol/logLevel", &quote(level.as_str()));
        }
        text.push(',');
        text.push_str(&MODERN_META);
    }
    (!text.is_empty()).then(|| text + "}")
}

/// Filters the agent's `_meta` for the server.
pub(super) fn passed_meta(meta: &str) -> Option<String> {
    let all = members(meta)?;
    let passed: Vec<(&str, &str)> =
        all.iter().filter(|(key, _)| is_passed(key)).map(|(key, value)| (key.as_ref(), *value)).collect();
    (!passed.is_empty()).then(|| object(passed))
}

/// Returns false for keys that belong to one hop.
fn is_passed(key: &str) -> bool {
    key != "progressToken" && !key.starts_with(HOP_PREFIX) && !key.starts_with(OWN_PREFIX)
}

/// Filters the agent's capabilities to those that the gateway relays. It relays no extensions.
fn passed_capabilities(capabilities: &str) -> String {
    let passed = |key: &str| matches!(key, "elicitation" | "sampling" | "roots");
    let all = members(capabilities).unwrap_or_default();
    object(all.iter().filter(|(key, _)| passed(key)).map(|(key, value)| (key.as_ref(), *value)))
}
