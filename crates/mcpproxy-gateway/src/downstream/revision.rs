//! Detects the era of a request and checks the rules of that era.

use std::borrow::Cow;

use http::HeaderMap;
use mcpproxy_core::json::{members, string_value};
use serde_json::json;

use crate::agents::LogLevel;
use crate::headers;
use crate::message::{HEADER_MISMATCH, INVALID_PARAMS, Members, RpcError, UNSUPPORTED_VERSION, field, member};
use crate::protocol::{MODERN_VERSION, VERSIONS};

pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Largest `capabilities` of a client. Real ones have a few hundred bytes.
const CAPABILITIES_MAX_BYTES: usize = 16 * 1024;
/// Longest name and version of a client.
const CLIENT_WORD_MAX_CHARS: usize = 256;

/// The client's description of itself in a stateless request.
#[derive(Debug, PartialEq)]
pub(crate) struct Modern {
    pub(crate) client: Option<String>,
    pub(crate) capabilities: String,
    pub(crate) log_level: Option<LogLevel>,
}

/// Returns `Some` for a stateless request, `None` for one with a handshake, and an error for a contradictory one.
pub(crate) fn of_http(headers: &HeaderMap, method: &str, params: &Members<'_>) -> Result<Option<Modern>, RpcError> {
    let header = headers.get(headers::VERSION).map(|value| value.to_str().unwrap_or("?"));
    let meta = field(params, "_meta").and_then(members);
    let in_body = meta.as_ref().and_then(version_in);
    match (header, in_body.as_deref()) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(RpcError::new(HEADER_MISMATCH, "missing required MCP-Protocol-Version header")),
        (Some(header), Some(body)) if header != body => Err(RpcError::new(
            HEADER_MISMATCH,
            format!("MCP-Protocol-Version header does not match _meta[\"{META_VERSION}\"]"),
        )),
        (Some(header), _) if !VERSIONS.contains(&header) => Err(unsupported(header)),
        (Some(MODERN_VERSION), _) => {
            let modern = of_meta(meta)?;
            headers::check(headers, method, params).map_err(|reason| RpcError::new(HEADER_MISMATCH, reason))?;
            Ok(Some(modern))
        }
        (Some(_), _) => Ok(None),
    }
}

/// Does the same for a line on standard input, which has no headers.
pub(crate) fn of_line(params: &Members<'_>) -> Result<Option<Modern>, RpcError> {
    let meta = field(params, "_meta").and_then(members);
    match meta.as_ref().and_then(version_in) {
        None => Ok(None),
        Some(version) if version != MODERN_VERSION => Err(unsupported(&version)),
        Some(_) => of_meta(meta).map(Some),
    }
}

fn of_meta(meta: Option<Members<'_>>) -> Result<Modern, RpcError> {
    let missing = |key: &str| RpcError::new(INVALID_PARAMS, format!("params._meta[\"{key}\"] is required"));
    let meta = meta.filter(|meta| field(meta, META_VERSION).is_some()).ok_or_else(|| missing(META_VERSION))?;
    let capabilities = field(&meta, META_CAPABILITIES).filter(|text| text.starts_with('{'));
    let capabilities = checked_capabilities(capabilities.ok_or_else(|| missing(META_CAPABILITIES))?)?.to_owned();
    let client = field(&meta, META_CLIENT).and_then(client_name);
    let log_level = field(&meta, META_LOG_LEVEL).and_then(string_value).and_then(|word| LogLevel::parse(&word));
    Ok(Modern { client, capabilities, log_level })
}

/// Checks the size of a client's capabilities, which a session keeps in memory.
pub(crate) fn checked_capabilities(capabilities: &str) -> Result<&str, RpcError> {
    if capabilities.len() <= CAPABILITIES_MAX_BYTES {
        return Ok(capabilities);
    }
    let size = capabilities.len();
    let message = format!("capabilities have {size} bytes, and the limit is {CAPABILITIES_MAX_BYTES}; send fewer");
    Err(RpcError::new(INVALID_PARAMS, message))
}

/// Formats a client's own name and version, each cut to `CLIENT_WORD_MAX_CHARS`.
pub(crate) fn client_name(info: &str) -> Option<String> {
    let word = |key: &str| {
        let word = member(info, key).and_then(string_value)?;
        Some(word.chars().take(CLIENT_WORD_MAX_CHARS).collect::<String>())
    };
    let name = word("name")?;
    Some(match word("version") {
        Some(version) => format!("{name} {version}"),
        None => name,
    })
}

fn version_in<'a>(meta: &Members<'a>) -> Option<Cow<'a, str>> {
    field(meta, META_VERSION).map(|text| string_value(text).unwrap_or_default())
}

fn unsupported(requested: &str) -> RpcError {
    RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(&json!({"supported": *VERSIONS, "requested": requested}))
}
