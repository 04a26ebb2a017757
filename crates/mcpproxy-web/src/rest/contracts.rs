//! The routes about contracts.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use mcpproxy_gateway::DraftError;
use tokio::task::JoinError;

use crate::problem::Problem;
use crate::rest::servers;
use crate::{Web, wire};

pub(crate) async fn list(State(web): State<Arc<Web>>) -> Json<wire::Contracts> {
    Json(web.gateway.contract_coverage().into())
}

pub(crate) async fn find(
    State(web): State<Arc<Web>>,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<wire::Contract>, Problem> {
    let tool = web.gateway.contract(&servers::tool_name(names)?).ok_or(Problem::NoTool)?;
    Ok(Json(tool.as_ref().into()))
}

pub(crate) async fn lint(State(web): State<Arc<Web>>) -> Json<wire::Lint> {
    Json(aside(move || web.gateway.contract_lint()).await.into())
}

pub(crate) async fn draft(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::Draft>, Problem> {
    let server = servers::server_name(name)?;
    let name = server.clone();
    match aside(move || web.gateway.contract_draft(&name)).await {
        Ok(text) => Ok(Json(wire::Draft { server: server.to_string(), text })),
        Err(DraftError::NoServer) => Err(Problem::NoServer),
        Err(error @ DraftError::NotConnected(_)) => Err(Problem::NotConnected(error.to_string())),
    }
}

/// Thousands of tools take their time, and nobody else may wait for them.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The process is ending, and nobody will read an answer.
        Err(Err(_)) => std::future::pending().await,
    }
}
