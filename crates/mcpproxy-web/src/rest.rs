//! The answers of the REST interface.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use mcpproxy_core::{ServerName, ToolName, Variant, json};
use mcpproxy_gateway::{ExplainError, StateName};
use serde::Deserialize;
use serde_json::Value;

use crate::{Web, wire};

const LOG_LINES_DEFAULT: usize = 100;
const LOG_LINES_MAX: usize = 10_000;
const SEARCH_LIMIT_DEFAULT: usize = 10;
const SEARCH_LIMIT_MAX: usize = 50;

pub(crate) async fn health() -> Json<wire::Health> {
    Json(wire::Health { status: "ok" })
}

pub(crate) async fn ready(State(web): State<Arc<Web>>) -> Response {
    if web.gateway.is_ready() {
        return Json(wire::Readiness { ready: true, connecting: Vec::new() }).into_response();
    }
    let servers = web.gateway.servers();
    let connecting = servers.iter().filter(|s| s.state == StateName::Connecting).map(|s| s.name.to_string()).collect();
    (StatusCode::SERVICE_UNAVAILABLE, Json(wire::Readiness { ready: false, connecting })).into_response()
}

pub(crate) async fn status(State(web): State<Arc<Web>>) -> Json<wire::Status> {
    let mut servers = wire::ServerCounts::default();
    let mut tools = 0;
    for server in web.gateway.servers() {
        tools += server.tools;
        *match server.state {
            StateName::Ready => &mut servers.ready,
            StateName::Connecting => &mut servers.connecting,
            StateName::Waiting => &mut servers.failed,
            StateName::Disabled => &mut servers.disabled,
        } += 1;
    }
    Json(wire::Status {
        version: web.facts.version,
        pid: std::process::id(),
        address: web.facts.address.clone(),
        uptime_ms: web.facts.started.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
        servers,
        tools,
        settings: wire::SettingsState {
            path: web.facts.settings_path.display().to_string(),
            error: web.gateway.reload_error(),
        },
    })
}

pub(crate) async fn servers(State(web): State<Arc<Web>>) -> Json<wire::Servers> {
    Json(wire::Servers { servers: web.gateway.servers().into_iter().map(Into::into).collect() })
}

#[derive(Deserialize)]
pub(crate) struct LogQuery {
    lines: Option<usize>,
}

pub(crate) async fn server_log(
    State(web): State<Arc<Web>>,
    Path(name): Path<String>,
    query: Result<Query<LogQuery>, QueryRejection>,
) -> Result<Json<wire::Log>, Problem> {
    let Query(query) = query?;
    let name = ServerName::parse(&name).map_err(|_| Problem::NoServer)?;
    let lines = query.lines.unwrap_or(LOG_LINES_DEFAULT).min(LOG_LINES_MAX);
    let lines = web.gateway.server_log(&name, lines).ok_or(Problem::NoServer)?;
    Ok(Json(wire::Log { lines: lines.iter().map(|line| line.for_json().to_owned()).collect() }))
}

pub(crate) async fn restart_server(
    State(web): State<Arc<Web>>,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<wire::Restart>), Problem> {
    let name = ServerName::parse(&name).map_err(|_| Problem::NoServer)?;
    if !web.gateway.restart(&name) {
        return Err(Problem::NoServer);
    }
    let restart = wire::Restart { name: name.to_string(), state: StateName::Connecting.as_str() };
    Ok((StatusCode::ACCEPTED, Json(restart)))
}

#[derive(Deserialize)]
pub(crate) struct ToolsQuery {
    server: Option<String>,
}

pub(crate) async fn tools(
    State(web): State<Arc<Web>>,
    query: Result<Query<ToolsQuery>, QueryRejection>,
) -> Result<Json<wire::Tools>, Problem> {
    let Query(query) = query?;
    let server = known_server(&web, query.server.as_deref())?;
    Ok(Json(wire::Tools { tools: web.gateway.tools(server.as_ref()) }))
}

#[derive(Deserialize)]
pub(crate) struct SearchQuery {
    q: String,
    limit: Option<usize>,
    server: Option<String>,
}

pub(crate) async fn search_tools(
    State(web): State<Arc<Web>>,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Json<wire::Tools>, Problem> {
    let Query(query) = query?;
    let server = known_server(&web, query.server.as_deref())?;
    let limit = query.limit.unwrap_or(SEARCH_LIMIT_DEFAULT).min(SEARCH_LIMIT_MAX);
    Ok(Json(wire::Tools { tools: web.gateway.search(&query.q, server.as_ref(), limit) }))
}

pub(crate) async fn tool(
    State(web): State<Arc<Web>>,
    Path((server, tool)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    let name = ServerName::parse(&server).and_then(|server| ToolName::of(&server, &tool));
    let name = name.map_err(|_| Problem::NoTool)?;
    web.gateway.tool(&name).map(Json).ok_or(Problem::NoTool)
}

pub(crate) async fn explain_call(State(web): State<Arc<Web>>, body: Bytes) -> Result<Json<wire::Explanation>, Problem> {
    let text = json::read(&body).map_err(|error| Problem::BadBody(error.to_string()))?;
    let asked: wire::ExplainCall = serde_json::from_str(text).map_err(|error| Problem::BadBody(error.to_string()))?;
    let variant = Variant::from_operation(&asked.variant)
        .ok_or_else(|| Problem::BadBody("`variant` must be read, write or destructive".to_owned()))?;
    let explanation = web.gateway.explain(asked.agent.as_deref(), variant, asked.parameters.get()).await;
    match explanation {
        Ok(explanation) => Ok(Json((variant, explanation).into())),
        Err(ExplainError::NoAgent(_)) => Err(Problem::NoAgent),
        Err(error @ ExplainError::NotConnected(_)) => Err(Problem::NotConnected(error.to_string())),
        Err(error @ (ExplainError::Parameters(_) | ExplainError::Store(_))) => Err(Problem::BadBody(error.to_string())),
    }
}

/// The server a query names, if it names one. An unknown name is an error: an empty list would hide a typo.
fn known_server(web: &Web, name: Option<&str>) -> Result<Option<ServerName>, Problem> {
    let Some(name) = name else { return Ok(None) };
    let server = web.gateway.servers().into_iter().find(|server| server.name.as_str() == name);
    server.map(|server| Some(server.name)).ok_or(Problem::NoServer)
}

/// Why there is no answer.
pub(crate) enum Problem {
    NoServer,
    NoTool,
    NoAgent,
    NotConnected(String),
    BadQuery(String),
    BadBody(String),
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::BadQuery(rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        match self {
            Self::NoServer => wire::Error::new("SERVER_NOT_FOUND", "no such server, or it is disabled")
                .hint("GET /api/v1/servers lists all")
                .response(StatusCode::NOT_FOUND),
            Self::NoTool => wire::Error::new("TOOL_NOT_FOUND", "no such tool")
                .hint("GET /api/v1/tools lists all")
                .response(StatusCode::NOT_FOUND),
            Self::NoAgent => wire::Error::new("AGENT_NOT_FOUND", "no such agent")
                .hint("`mcpproxy token list` shows the names")
                .response(StatusCode::NOT_FOUND),
            Self::NotConnected(message) => wire::Error::new("UPSTREAM_UNAVAILABLE", message)
                .hint("`mcpproxy servers list` shows why")
                .response(StatusCode::SERVICE_UNAVAILABLE),
            Self::BadBody(message) => wire::Error::new("BAD_BODY", message).response(StatusCode::BAD_REQUEST),
            Self::BadQuery(message) => wire::Error::new("BAD_QUERY", message).response(StatusCode::BAD_REQUEST),
        }
    }
}
