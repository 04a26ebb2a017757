//! The REST endpoints for contracts: coverage, effective contracts, lint, cards and drafts.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::on;
use http::StatusCode;
use mcpproxy_gateway::{Draft, DraftError, aside};

use super::endpoint::{Answer, Endpoint, Group, NO_SERVER, NO_TOOL};
use super::servers;
use crate::auth::access::Access;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "contracts",
        method: Verb::Get,
        path: "/api/v1/contracts",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Contracts,
        summary: "List tools and who classified them",
        description: "Every tool with its risk level and the source of that level, forbidden tools included.",
        answers: &[Answer::json::<wire::Contracts>(StatusCode::OK, "The tools, and the totals of each server.")],
        errors: &[],
        handler: |method| on(method, list),
    },
    Endpoint {
        name: "contract",
        method: Verb::Get,
        path: "/api/v1/contracts/{server}/{tool}",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Contracts,
        summary: "Show the contract of a tool",
        description: "The effective contract, with the source of each field. Forbidden tools are shown and marked. Agents cannot tell them from tools that do not exist.",
        answers: &[Answer::json::<wire::Contract>(StatusCode::OK, "The contract.")],
        errors: &[NO_TOOL],
        handler: |method| on(method, find),
    },
    Endpoint {
        name: "lint_contracts",
        method: Verb::Get,
        path: "/api/v1/contracts/lint",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Contracts,
        summary: "Check contracts for mistakes",
        description: "Compares your contracts, and those that servers publish, with the tools they describe.",
        answers: &[Answer::json::<wire::Lint>(StatusCode::OK, "The findings.")],
        errors: &[],
        handler: |method| on(method, lint),
    },
    Endpoint {
        name: "contract_docs",
        method: Verb::Get,
        path: "/api/v1/contracts/docs",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Contracts,
        summary: "Write contract cards",
        description: "Markdown pages with a card for each tool, and a page with all tools by risk level. Forbidden tools are included.",
        answers: &[Answer::json::<wire::ContractDocs>(StatusCode::OK, "The pages.")],
        errors: &[],
        handler: |method| on(method, docs),
    },
    Endpoint {
        name: "draft_contracts",
        method: Verb::Get,
        path: "/api/v1/servers/{name}/contracts/draft",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Contracts,
        summary: "Draft a contract file for a server",
        description: "Derives a contract from the schemas, annotations and names of the tools. The draft takes effect only when you save it in `contracts/`. Tools that wait for a review are left out and counted.",
        answers: &[Answer::json::<wire::Draft>(StatusCode::OK, "The draft.")],
        errors: &[
            NO_SERVER,
            (StatusCode::CONFLICT, "All tools of the server wait for a review, or it has no tools."),
            (StatusCode::SERVICE_UNAVAILABLE, "The server is not connected."),
        ],
        handler: |method| on(method, draft),
    },
];

async fn list(State(web): State<Arc<Web>>) -> Json<wire::Contracts> {
    Json(web.gateway.contract_coverage().into())
}

async fn find(
    State(web): State<Arc<Web>>,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<wire::Contract>, Problem> {
    let tool = web.gateway.contract(&servers::tool_name(names)?).ok_or(Problem::TOOL_NOT_FOUND)?;
    let waits = |field: &str| web.gateway.contract_field_waits(&tool.name, field);
    Ok(Json(wire::Contract::new(&tool, web.gateway.contract_settings(), waits)))
}

async fn lint(State(web): State<Arc<Web>>) -> Json<wire::Lint> {
    Json(aside(move || web.gateway.contract_lint()).await.into())
}

async fn docs(State(web): State<Arc<Web>>) -> Json<wire::ContractDocs> {
    Json(aside(move || web.gateway.contract_docs()).await.into())
}

async fn draft(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::Draft>, Problem> {
    let server = servers::server_name(name)?;
    let name = server.clone();
    match aside(move || web.gateway.contract_draft(&name)).await {
        Ok(Draft { text, waiting }) => Ok(Json(wire::Draft { server: server.to_string(), text, waiting })),
        Err(DraftError::NoServer) => Err(Problem::SERVER_NOT_FOUND),
        Err(error @ DraftError::NotConnected(_)) => Err(Problem::UPSTREAM_UNAVAILABLE.message(error.to_string())),
        Err(error @ DraftError::NoneAccepted(_)) => {
            let hint = format!("review them with `mcpproxy servers review {server}`, then draft again");
            Err(Problem::REVIEW_REQUIRED.message(error.to_string()).hint(hint))
        }
        Err(error @ DraftError::NotLocked) => {
            let hint = "write the lock file again with `mcpproxy lock`, and restart the gateway".to_owned();
            Err(Problem::NO_TOOLS.message(error.to_string()).hint(hint))
        }
        Err(error @ DraftError::AllRejected) => {
            let hint = format!("to accept one after all, run `mcpproxy servers review {server} --rejected`");
            Err(Problem::NO_TOOLS.message(error.to_string()).hint(hint))
        }
        Err(error @ DraftError::NoTools) => {
            let hint = format!("`mcpproxy servers logs {server}` shows what the server printed");
            Err(Problem::NO_TOOLS.message(error.to_string()).hint(hint))
        }
    }
}
