//! Which kind of the protocol a request over HTTP is, and whether it keeps that kind's rules.

use http::HeaderMap;
use mcpproxy_core::json::{members, string_value};
use serde_json::json;

use crate::back::LogLevel;
use crate::headers;
use crate::message::{self, HEADER_MISMATCH, INVALID_PARAMS, RpcError, UNSUPPORTED_VERSION, field, member};
use crate::{MODERN_VERSION, VERSIONS};

pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// What a request of the newer kind says about its sender.
#[derive(Debug, PartialEq)]
pub(crate) struct Modern {
    pub(crate) client: Option<String>,
    pub(crate) capabilities: String,
    pub(crate) log_level: Option<LogLevel>,
}

/// `Some` for the newer kind, `None` for the older. An error is a request that is neither.
pub(crate) fn of_http(headers: &HeaderMap, method: &str, params: Option<&str>) -> Result<Option<Modern>, RpcError> {
    let header = headers.get(headers::VERSION).map(|value| value.to_str().unwrap_or("?").to_owned());
    let in_body = params.and_then(version_in);
    match (header.as_deref(), in_body.as_deref()) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(RpcError::new(HEADER_MISMATCH, "missing required MCP-Protocol-Version header")),
        (Some(header), Some(body)) if header != body => Err(RpcError::new(
            HEADER_MISMATCH,
            format!("MCP-Protocol-Version header does not match _meta[\"{META_VERSION}\"]"),
        )),
        (Some(header), _) if !VERSIONS.contains(&header) => Err(unsupported(header)),
        (Some(MODERN_VERSION), _) => {
            let modern = of_params(params)?;
            headers::check(headers, method, params).map_err(|reason| RpcError::new(HEADER_MISMATCH, reason))?;
            Ok(Some(modern))
        }
        (Some(_), _) => Ok(None),
    }
}

/// The same for a line on standard input, which has no headers.
pub(crate) fn of_line(params: Option<&str>) -> Result<Option<Modern>, RpcError> {
    match params.and_then(version_in) {
        None => Ok(None),
        Some(version) if version != MODERN_VERSION => Err(unsupported(&version)),
        Some(_) => of_params(params).map(Some),
    }
}

fn of_params(params: Option<&str>) -> Result<Modern, RpcError> {
    let missing = |key: &str| RpcError::new(INVALID_PARAMS, format!("params._meta[\"{key}\"] is required"));
    let meta =
        params.and_then(|params| member(params, "_meta")).and_then(members).ok_or_else(|| missing(META_VERSION))?;
    if field(&meta, META_VERSION).is_none() {
        return Err(missing(META_VERSION));
    }
    let capabilities = field(&meta, META_CAPABILITIES).filter(|text| text.starts_with('{'));
    let capabilities = capabilities.ok_or_else(|| missing(META_CAPABILITIES))?.to_owned();
    let client = field(&meta, META_CLIENT).and_then(client_name);
    let log_level = field(&meta, META_LOG_LEVEL).and_then(string_value).and_then(|word| LogLevel::parse(&word));
    Ok(Modern { client, capabilities, log_level })
}

/// `name version` of a client, by its own account.
pub(crate) fn client_name(info: &str) -> Option<String> {
    let word = |key: &str| member(info, key).and_then(string_value);
    let name = word("name")?;
    Some(word("version").map_or_else(|| name.to_string(), |version| format!("{name} {version}")))
}

fn version_in(params: &str) -> Option<String> {
    let meta = member(params, "_meta")?;
    message::member(meta, META_VERSION).map(|text| string_value(text).unwrap_or_default().into_owned())
}

fn unsupported(requested: &str) -> RpcError {
    RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(&json!({"supported": *VERSIONS, "requested": requested}))
}
