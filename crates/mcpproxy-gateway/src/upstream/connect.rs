//! Connects to a server and negotiates the revision.

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::json::{members, quote, string_value};
use mcpproxy_core::settings::{ServerSettings, TransportSettings};
use rmcp::model::ProtocolVersion;
use serde_json::Value;

use super::connection::{Connection, Link, Request, send};
use super::error::UpstreamError;
use super::http::HttpLink;
use super::log::ServerLog;
use super::notices::Notices;
use super::stdio::{self, Process, Program};
use crate::message::{self, member};
use crate::oauth::Tokens;
use crate::protocol::{Era, IMPLEMENTATION, LEGACY_VERSION, MODERN_VERSION};

/// Time for a server to answer `server/discover`, which it may not know.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Capabilities that the gateway relays to agents. It has no roots to offer.
const LEGACY_CAPABILITIES: &str = "{\"elicitation\":{\"form\":{},\"url\":{}},\"sampling\":{}}";

/// Longest text for models that is compared with the one before.
const INSTRUCTIONS_MAX_BYTES: usize = 64 * 1024;
/// Largest capabilities of a server, which are kept as long as it is connected.
const CAPABILITIES_MAX_BYTES: usize = 64 * 1024;

/// A connected server, and its process if it has one.
pub(crate) struct Reached {
    pub(crate) connection: Connection,
    pub(crate) process: Option<Process>,
    pub(crate) notices: Arc<Notices>,
}

pub(crate) async fn reach(
    settings: &ServerSettings,
    demo: &[String],
    log: Arc<ServerLog>,
    tokens: Option<&Arc<Tokens>>,
) -> Result<Reached, UpstreamError> {
    if let Some(tokens) = tokens {
        tokens.connect().await;
    }
    let limit = settings.result_limit_bytes;
    let notices = Notices::new();
    let notify = Arc::clone(&notices);
    let (link, process) = match &settings.transport {
        TransportSettings::Stdio { command, args, env, cwd } => {
            let passthrough = &settings.env_passthrough;
            let program = Program { command, args, env, passthrough, cwd: cwd.as_deref(), limit };
            let process = stdio::start(&program, log, notify)?;
            (Link::Duplex(Arc::clone(&process.line)), Some(process))
        }
        TransportSettings::Demo => {
            let (command, args) = demo.split_first().ok_or(UpstreamError::Closed)?;
            let program = Program { command, args, env: &[], passthrough: &[], cwd: None, limit };
            let process = stdio::start(&program, log, notify)?;
            (Link::Duplex(Arc::clone(&process.line)), Some(process))
        }
        // The gateway starts no task for such a server.
        TransportSettings::Misconfigured { .. } => return Err(UpstreamError::Closed),
        TransportSettings::Http { url, headers } => {
            (Link::Http(HttpLink::new(url, headers, tokens.cloned(), limit, notify)?), None)
        }
        TransportSettings::Sse { url, headers } => {
            (Link::Duplex(super::http_sse::open(url, headers, tokens.cloned(), limit, notify).await?), None)
        }
    };
    // Ends the link if the handshake fails or takes too long. Otherwise an event stream would be read for as long as
    // its server keeps it open.
    let unfinished = match &link {
        Link::Duplex(line) => line.ended.clone().drop_guard(),
        Link::Http(link) => link.ended.clone().drop_guard(),
    };
    let shaken = match &settings.transport {
        // The SSE transport is older than `server/discover`.
        TransportSettings::Sse { .. } => initialize(link).await,
        TransportSettings::Stdio { .. }
        | TransportSettings::Demo
        | TransportSettings::Http { .. }
        | TransportSettings::Misconfigured { .. } => shake_hands(link).await,
    };
    match (shaken, process) {
        (Ok(connection), process) => {
            let _stays_open = unfinished.disarm();
            Ok(Reached { connection, process, notices })
        }
        (Err(error), None) => Err(error),
        (Err(error), Some(mut process)) => {
            let error = process.explained(error).await;
            process.stop().await;
            Err(error)
        }
    }
}

/// Opens a second connection, with a handshake, to an HTTP server that supports both eras. Agents with sessions use it.
pub(crate) async fn reach_legacy(
    settings: &ServerSettings,
    tokens: Option<&Arc<Tokens>>,
) -> Result<Connection, UpstreamError> {
    match &settings.transport {
        TransportSettings::Http { url, headers } => {
            // The first connection already reports list changes.
            let unheard = Notices::new();
            let limit = settings.result_limit_bytes;
            initialize(Link::Http(HttpLink::new(url, headers, tokens.cloned(), limit, unheard)?)).await
        }
        TransportSettings::Stdio { .. }
        | TransportSettings::Sse { .. }
        | TransportSettings::Demo
        | TransportSettings::Misconfigured { .. } => Err(UpstreamError::Closed),
    }
}

/// Tries the stateless revision first. Any other answer than a welcome means that the server needs a handshake. A
/// silent server may not know the request or may be slow to start, so then both are tried and the first success counts.
async fn shake_hands(link: Link) -> Result<Connection, UpstreamError> {
    let mut probe = std::pin::pin!(discover(link.clone()));
    if let Ok(probed) = tokio::time::timeout(PROBE_TIMEOUT, &mut probe).await {
        return match probed {
            Ok(Some(connection)) => Ok(connection),
            Ok(None) => initialize(link).await,
            Err(error) => Err(error),
        };
    }
    let mut handshake = std::pin::pin!(initialize(link));
    tokio::select! {
        probed = &mut probe => match probed {
            Ok(Some(connection)) => Ok(connection),
            Ok(None) => handshake.await,
            Err(error) => Err(error),
        },
        shaken = &mut handshake => match shaken {
            Ok(connection) => Ok(connection),
            Err(error) => match probe.await {
                Ok(Some(connection)) => Ok(connection),
                Ok(None) | Err(_) => Err(error),
            },
        },
    }
}

/// Tries `server/discover`. Returns `None` if the server does not support it.
async fn discover(link: Link) -> Result<Option<Connection>, UpstreamError> {
    let ask = || send(&link, Era::Modern, Request::new("server/discover", Vec::new()));
    let mut answer = ask().await;
    if let Ok(Err(error)) = &answer
        && error.code == message::UNSUPPORTED_VERSION
        && error.data.as_deref().and_then(|data| member(data, "supported")).is_some_and(names_modern)
    {
        // It supports this revision, so the refusal is temporary.
        answer = ask().await;
    }
    match answer {
        Ok(Ok(result)) if speaks_modern(&result) => {
            let capabilities = kept_capabilities(member(&result, "capabilities"));
            let instructions = kept_instructions(member(&result, "instructions"));
            let version = MODERN_VERSION.to_owned();
            Ok(Some(Connection { link, era: Era::Modern, version, capabilities, instructions }))
        }
        Err(
            error @ (UpstreamError::Exited(_)
            | UpstreamError::Closed
            | UpstreamError::Unsent
            | UpstreamError::SignIn(_)),
        ) => Err(error),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Returns the capabilities to keep. A server whose capabilities are too large counts as one without any.
fn kept_capabilities(capabilities: Option<&str>) -> String {
    capabilities.filter(|text| text.len() <= CAPABILITIES_MAX_BYTES).unwrap_or("{}").to_owned()
}

/// Returns the text for models to keep. Longer texts are ignored, because no agent gets them.
fn kept_instructions(instructions: Option<&str>) -> Option<Arc<str>> {
    let text = instructions.filter(|text| text.len() <= INSTRUCTIONS_MAX_BYTES).and_then(string_value)?;
    (!text.trim().is_empty()).then(|| text.as_ref().into())
}

fn speaks_modern(result: &str) -> bool {
    member(result, "supportedVersions").is_some_and(names_modern)
}

fn names_modern(versions: &str) -> bool {
    let versions = serde_json::from_str::<Vec<Value>>(versions).unwrap_or_default();
    versions.iter().any(|version| version.as_str() == Some(MODERN_VERSION))
}

async fn initialize(link: Link) -> Result<Connection, UpstreamError> {
    let version = quote(LEGACY_VERSION);
    let params = vec![
        ("protocolVersion", version.as_str()),
        ("capabilities", LEGACY_CAPABILITIES),
        ("clientInfo", IMPLEMENTATION.as_str()),
    ];
    let result = send(&link, Era::Legacy, Request::new("initialize", params)).await?;
    let result = result.map_err(|error| UpstreamError::Refused(format!("initialize: {}", error.message)))?;
    let fields = members(&result).unwrap_or_default();
    let version = message::field(&fields, "protocolVersion").and_then(string_value).unwrap_or_default().into_owned();
    let is_known =
        ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version && version != MODERN_VERSION);
    if !is_known {
        return Err(UpstreamError::Refused(format!(
            "the server requires MCP revision `{}`, which is not supported",
            version.escape_debug()
        )));
    }
    let capabilities = kept_capabilities(message::field(&fields, "capabilities"));
    let instructions = kept_instructions(message::field(&fields, "instructions"));
    let ready = message::notification("notifications/initialized", "{}");
    match &link {
        Link::Duplex(line) => line.send(ready).await?,
        Link::Http(link) => {
            link.speak(&version);
            link.send(ready, Vec::new()).await?;
        }
    }
    Ok(Connection { link, era: Era::Legacy, version, capabilities, instructions })
}
