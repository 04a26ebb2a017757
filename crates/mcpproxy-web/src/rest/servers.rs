//! The REST endpoints for servers and their tools.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_core::{ServerName, ToolName};
use mcpproxy_gateway::{NotRestarted, Reasons, Reloaded, StateName, aside};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema, Type};

use super::endpoint::{Answer, BAD_SETTINGS, Endpoint, Group, NO_SERVER, NO_TOOL};
use super::parameters::{self, Parameter, QueryValues, ValueType, optional};
use crate::auth::access::Access;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "servers",
        method: Verb::Get,
        path: "/api/v1/servers",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Servers,
        summary: "List servers",
        description: "Each server with its state. If a server is not ready, `reason` says why.",
        answers: &[Answer::json::<wire::Servers>(StatusCode::OK, "The servers.")],
        errors: &[],
        handler: |method| on(method, servers),
    },
    Endpoint {
        name: "server_log",
        method: Verb::Get,
        path: "/api/v1/servers/{name}/logs",
        access: Access::Operator,
        decides: false,
        parameters: &[LINES],
        body: None,
        group: Group::Servers,
        summary: "Show the log of a server",
        description: "The newest lines that the server wrote to standard error, oldest first.",
        answers: &[Answer::json::<wire::Log>(StatusCode::OK, "The lines.")],
        errors: &[NO_SERVER],
        handler: |method| on(method, server_log),
    },
    Endpoint {
        name: "restart_server",
        method: Verb::Post,
        path: "/api/v1/servers/{name}/restart",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Servers,
        summary: "Restart a server",
        description: "Answers at once. The list of servers shows when the server is ready again.",
        answers: &[Answer::json::<wire::Restart>(StatusCode::ACCEPTED, "The server restarts.")],
        errors: &[NO_SERVER, (StatusCode::CONFLICT, "The server is disabled, or its settings have a mistake.")],
        handler: |method| on(method, restart_server),
    },
    Endpoint {
        name: "reload",
        method: Verb::Post,
        path: "/api/v1/reload",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Servers,
        summary: "Reload settings, contracts and policies",
        description: "Reads the files again and answers when they are in force, instead of when the gateway notices the \
                      change. Waits up to 30 seconds for new servers to connect. Changes that weaken contracts, policies or settings \
                      may wait for a user: see `held`.",
        answers: &[Answer::json::<wire::ReloadedFiles>(StatusCode::OK, "The servers, after the reload.")],
        errors: &[BAD_SETTINGS],
        handler: |method| on(method, reload),
    },
    Endpoint {
        name: "refresh_tokens",
        method: Verb::Post,
        path: "/api/v1/tokens/refresh",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Servers,
        summary: "Apply revoked tokens now",
        description: "Forgets the tokens that the gateway keeps in memory. Call it after you revoked a token in the \
                      database, if you cannot wait half a second. Created tokens work at once anyway.",
        answers: &[Answer::json::<wire::Health>(StatusCode::OK, "Revoked tokens no longer work.")],
        errors: &[],
        handler: |method| on(method, refresh_tokens),
    },
    Endpoint {
        name: "tools",
        method: Verb::Get,
        path: "/api/v1/tools",
        access: Access::Operator,
        decides: false,
        parameters: &[parameters::SERVER],
        body: None,
        group: Group::Servers,
        summary: "List tools with their schemas",
        description: "The tools of all servers, or of one server.",
        answers: &[Answer::json::<wire::Tools>(StatusCode::OK, "The tools.")],
        errors: &[NO_SERVER],
        handler: |method| on(method, tools),
    },
    Endpoint {
        name: "search_tools",
        method: Verb::Get,
        path: "/api/v1/tools/search",
        access: Access::Operator,
        decides: false,
        parameters: &[SEARCH_QUERY, SEARCH_LIMIT, parameters::SERVER, EXPLAIN],
        body: None,
        group: Group::Servers,
        summary: "Search tools",
        description: "The best matches first, as an agent with all permissions finds them. If no tool matches, `note` says why.",
        answers: &[Answer::json::<wire::FoundTools>(StatusCode::OK, "The tools.")],
        errors: &[NO_SERVER],
        handler: |method| on(method, search_tools),
    },
    Endpoint {
        name: "tool",
        method: Verb::Get,
        path: "/api/v1/tools/{server}/{tool}",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Servers,
        summary: "Show a tool",
        description: "The full definition that the server sent.",
        answers: &[Answer::any_json("The tool.", any_object)],
        errors: &[NO_TOOL],
        handler: |method| on(method, tool),
    },
];

const LINES: Parameter =
    optional("lines", "The maximum number of lines.", ValueType::Number { max: 10_000, default: 100 });
const SEARCH_QUERY: Parameter = Parameter {
    is_required: true,
    example: Some("delete user"),
    ..optional("q", "A description of the tool.", ValueType::Query)
};
const SEARCH_LIMIT: Parameter =
    optional("limit", "The maximum number of tools.", ValueType::Number { max: 50, default: 10 });
const EXPLAIN: Parameter =
    optional("explain", "`true` adds to each tool how its score was computed.", ValueType::Switch);

fn any_object() -> RefOr<Schema> {
    RefOr::T(Schema::Object(Object::with_type(Type::Object)))
}

async fn servers(State(web): State<Arc<Web>>) -> Json<wire::Servers> {
    Json(wire::Servers { servers: web.gateway.servers().into_iter().map(Into::into).collect() })
}

/// A server that is installed on its first start, for example by `npx`, needs longer. The answer then says
/// `connecting`.
const CONNECT_WAIT: Duration = Duration::from_secs(30);

async fn reload(State(web): State<Arc<Web>>) -> Result<Json<wire::ReloadedFiles>, Problem> {
    match web.reloader.reload().await {
        Reloaded::Applied => {}
        Reloaded::Refused(reason) => return Err(Problem::SETTINGS_INVALID.message(reason)),
        Reloaded::Stopping => return Err(Problem::STOPPING),
    }
    // A server that is still connecting after that is no error of the reload.
    let _ = tokio::time::timeout(CONNECT_WAIT, web.gateway.ready()).await;
    let held = web.gateway.held().map(|held| held.as_ref().into());
    let Json(wire::Servers { servers }) = servers(State(web)).await;
    Ok(Json(wire::ReloadedFiles { servers, held }))
}

async fn refresh_tokens(State(web): State<Arc<Web>>) -> Json<wire::Health> {
    web.gateway.forget_tokens();
    Json(wire::Health { status: "ok" })
}

async fn server_log(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::Log>, Problem> {
    let name = server_name(name)?;
    let lines = query.number("lines");
    let lines = web.gateway.server_log(&name, lines).ok_or(Problem::SERVER_NOT_FOUND)?;
    Ok(Json(wire::Log { lines: lines.iter().map(|line| line.for_json().to_owned()).collect() }))
}

async fn restart_server(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<(StatusCode, Json<wire::Restart>), Problem> {
    let name = server_name(name)?;
    web.gateway.restart(&name).map_err(|refused| match refused {
        NotRestarted::NoServer => Problem::SERVER_NOT_FOUND,
        NotRestarted::Disabled => {
            Problem::SERVER_DISABLED.hint(format!("enable it with `mcpproxy servers enable {name}`"))
        }
        NotRestarted::Misconfigured(reason) => Problem::SERVER_MISCONFIGURED
            .message(format!("server {name} cannot start, because its settings have a mistake: {reason}")),
    })?;
    let restart = wire::Restart { name: name.to_string(), state: StateName::Connecting.as_str() };
    Ok((StatusCode::ACCEPTED, Json(restart)))
}

/// Parses the name of a server. An invalid name is reported as an unknown server.
pub(crate) fn server_name(name: Result<Path<String>, PathRejection>) -> Result<ServerName, Problem> {
    let Path(name) = name.map_err(|_| Problem::SERVER_NOT_FOUND)?;
    ServerName::parse(&name).map_err(|_| Problem::SERVER_NOT_FOUND)
}

async fn tools(State(web): State<Arc<Web>>, Extension(query): Extension<QueryValues>) -> Result<Response, Problem> {
    let server = known_server(&web, query.text("server"))?;
    Ok(aside(move || Json(wire::Tools { tools: web.gateway.tools(server.as_ref()) }).into_response()).await)
}

async fn search_tools(
    State(web): State<Arc<Web>>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::FoundTools>, Problem> {
    let server = known_server(&web, query.text("server"))?;
    let limit = query.number("limit");
    let words = query.text("q").unwrap_or_default();
    let reasons = if query.is_on("explain") { Reasons::Given } else { Reasons::LeftOut };
    Ok(Json(web.gateway.search(words, server.as_ref(), limit, reasons).into()))
}

async fn tool(
    State(web): State<Arc<Web>>,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    web.gateway.tool(&tool_name(names)?).map(Json).ok_or(Problem::TOOL_NOT_FOUND)
}

/// Parses the name of a tool. An invalid name is reported as an unknown tool.
pub(crate) fn tool_name(names: Result<Path<(String, String)>, PathRejection>) -> Result<ToolName, Problem> {
    let Path((server, tool)) = names.map_err(|_| Problem::TOOL_NOT_FOUND)?;
    let name = ServerName::parse(&server).and_then(|server| ToolName::of(&server, &tool));
    name.map_err(|_| Problem::TOOL_NOT_FOUND)
}

/// Finds the server that a query names. An unknown name is an error: an empty list would hide a typo.
fn known_server(web: &Web, name: Option<&str>) -> Result<Option<ServerName>, Problem> {
    let Some(name) = name else { return Ok(None) };
    let server = web.gateway.servers().into_iter().find(|server| server.name.as_str() == name);
    server.map(|server| Some(server.name)).ok_or(Problem::SERVER_NOT_FOUND)
}
