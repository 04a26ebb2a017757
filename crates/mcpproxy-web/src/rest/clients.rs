//! The REST endpoint for connected clients.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::routing::on;
use http::StatusCode;

use super::endpoint::{Answer, Endpoint, Group};
use crate::auth::access::Access;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "clients",
    method: Verb::Get,
    path: "/api/v1/clients",
    access: Access::Operator,
    decides: false,
    parameters: &[],
    body: None,
    group: Group::Health,
    summary: "List connected clients",
    description: "Each client with an open session: its agent, name, MCP revision, and whether it can show approval prompts. Clients of the stateless revision have no session.",
    answers: &[Answer::json::<wire::Clients>(StatusCode::OK, "The clients.")],
    errors: &[],
    handler: |method| on(method, clients),
}];

async fn clients(State(web): State<Arc<Web>>) -> Json<wire::Clients> {
    Json(wire::Clients { clients: web.gateway.clients().into_iter().map(Into::into).collect() })
}
