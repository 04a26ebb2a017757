//! The answers of the REST interface.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_core::{ServerName, ToolName, Variant, json};
use mcpproxy_gateway::{ExplainError, Reasons, StateName};
use serde_json::Value;

use crate::problem::Problem;
use crate::rest::endpoint::Endpoint;
use crate::rest::parameters::Given;
use crate::{Web, wire};

pub(crate) async fn health() -> Json<wire::Health> {
    Json(wire::Health { status: "ok" })
}

pub(crate) async fn ready(State(web): State<Arc<Web>>) -> Response {
    let log = wire::LogState::from(web.ledger.health());
    let is_well = log.reason.is_none();
    let connecting = match web.gateway.is_ready() {
        true => Vec::new(),
        false => {
            let servers = web.gateway.servers().into_iter();
            servers.filter(|s| s.state == StateName::Connecting).map(|s| s.name.to_string()).collect()
        }
    };
    let ready = is_well && web.gateway.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(wire::Readiness { ready, connecting, log: log.state, reason: log.reason })).into_response()
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
        log: web.ledger.health().into(),
    })
}

pub(crate) async fn servers(State(web): State<Arc<Web>>) -> Json<wire::Servers> {
    Json(wire::Servers { servers: web.gateway.servers().into_iter().map(Into::into).collect() })
}

pub(crate) async fn server_log(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
    Extension(given): Extension<Given>,
) -> Result<Json<wire::Log>, Problem> {
    let name = server_name(name)?;
    let lines = given.number("lines", Endpoint::ServerLog);
    let lines = web.gateway.server_log(&name, lines).ok_or(Problem::NoServer)?;
    Ok(Json(wire::Log { lines: lines.iter().map(|line| line.for_json().to_owned()).collect() }))
}

pub(crate) async fn restart_server(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<(StatusCode, Json<wire::Restart>), Problem> {
    let name = server_name(name)?;
    if !web.gateway.restart(&name) {
        return Err(Problem::NoServer);
    }
    let restart = wire::Restart { name: name.to_string(), state: StateName::Connecting.as_str() };
    Ok((StatusCode::ACCEPTED, Json(restart)))
}

/// What cannot be the name of a server names none.
pub(crate) fn server_name(name: Result<Path<String>, PathRejection>) -> Result<ServerName, Problem> {
    let Path(name) = name.map_err(|_| Problem::NoServer)?;
    ServerName::parse(&name).map_err(|_| Problem::NoServer)
}

pub(crate) async fn tools(
    State(web): State<Arc<Web>>,
    Extension(given): Extension<Given>,
) -> Result<Json<wire::Tools>, Problem> {
    let server = known_server(&web, given.text("server"))?;
    Ok(Json(wire::Tools { tools: web.gateway.tools(server.as_ref()) }))
}

pub(crate) async fn search_tools(
    State(web): State<Arc<Web>>,
    Extension(given): Extension<Given>,
) -> Result<Json<wire::FoundTools>, Problem> {
    let server = known_server(&web, given.text("server"))?;
    let limit = given.number("limit", Endpoint::SearchTools);
    let words = given.text("q").unwrap_or_default();
    let reasons = if given.is_on("explain") { Reasons::Given } else { Reasons::LeftOut };
    Ok(Json(web.gateway.search(words, server.as_ref(), limit, reasons).into()))
}

pub(crate) async fn tool(
    State(web): State<Arc<Web>>,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    web.gateway.tool(&tool_name(names)?).map(Json).ok_or(Problem::NoTool)
}

/// What cannot be the name of a tool names none.
pub(crate) fn tool_name(names: Result<Path<(String, String)>, PathRejection>) -> Result<ToolName, Problem> {
    let Path((server, tool)) = names.map_err(|_| Problem::NoTool)?;
    let name = ServerName::parse(&server).and_then(|server| ToolName::of(&server, &tool));
    name.map_err(|_| Problem::NoTool)
}

pub(crate) async fn explain_call(
    State(web): State<Arc<Web>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Explanation>, Problem> {
    let body = body?;
    let text = json::read(&body).map_err(|error| Problem::BadBody(error.to_string()))?;
    let asked: wire::ExplainCall = serde_json::from_str(text).map_err(|error| Problem::BadBody(error.to_string()))?;
    let variant = Variant::from_operation(&asked.variant)
        .ok_or_else(|| Problem::BadBody("`variant` must be read, write or destructive".to_owned()))?;
    let (agent, parameters) = (asked.agent.as_deref(), asked.parameters.get());
    let (explanation, policies) = web.gateway.explain(agent, variant, parameters).await.map_err(unexplained)?;
    Ok(Json((variant, explanation, policies).into()))
}

fn unexplained(error: ExplainError) -> Problem {
    match error {
        ExplainError::NoAgent(_) => Problem::NoAgent,
        ExplainError::NotConnected(_) => Problem::NotConnected(error.to_string()),
        ExplainError::Parameters(_) | ExplainError::Store(_) => Problem::BadBody(error.to_string()),
    }
}

/// The server a query names, if it names one. An unknown name is an error: an empty list would hide a typo.
fn known_server(web: &Web, name: Option<&str>) -> Result<Option<ServerName>, Problem> {
    let Some(name) = name else { return Ok(None) };
    let server = web.gateway.servers().into_iter().find(|server| server.name.as_str() == name);
    server.map(|server| Some(server.name)).ok_or(Problem::NoServer)
}
