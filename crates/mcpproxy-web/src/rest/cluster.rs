//! The REST endpoint for the gateways that share a database.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::routing::on;
use http::StatusCode;

use super::endpoint::{Answer, Endpoint, Group, LOG_UNREADABLE};
use crate::auth::access::Access;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "cluster",
    method: Verb::Get,
    path: "/api/v1/cluster",
    access: Access::Operator,
    decides: false,
    parameters: &[],
    body: None,
    group: Group::Health,
    summary: "List the gateways that share the database",
    description: "Every gateway with its version, its address, its last announcement and digests of its settings, contracts and policies, and the differences between the gateways that run. With SQLite, the list has one gateway: this one.",
    answers: &[Answer::json::<wire::Cluster>(StatusCode::OK, "The gateways.")],
    errors: &[LOG_UNREADABLE],
    handler: |method| on(method, cluster),
}];

async fn cluster(State(web): State<Arc<Web>>) -> Result<Json<wire::Cluster>, Problem> {
    Ok(Json(wire::Cluster::from(&web.gateway.cluster().await?)))
}
