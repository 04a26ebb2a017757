//! The REST endpoint that explains the decision on a call.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::routing::on;
use http::StatusCode;
use mcpproxy_core::{Variant, json};
use mcpproxy_gateway::ExplainError;

use super::endpoint::{Answer, BODY_TOO_LARGE, Body, Endpoint, Group};
use crate::auth::access::Access;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "explain_call",
    method: Verb::Post,
    path: "/api/v1/policy/explain",
    access: Access::Operator,
    decides: false,
    parameters: &[],
    body: Some(Body::json::<wire::ExplainCall>(
        r#"{"variant": "destructive", "parameters": {"name": "demo:delete_user", "args": {"id": "1"}}}"#,
    )),
    group: Group::Servers,
    summary: "Explain the decision on a call",
    description: "Runs every check of a call in order and shows the result of each. Sends nothing to the server.",
    answers: &[Answer::json::<wire::Explanation>(StatusCode::OK, "The checks.")],
    errors: &[
        (StatusCode::NOT_FOUND, "No such agent."),
        BODY_TOO_LARGE,
        (StatusCode::SERVICE_UNAVAILABLE, "The server of the tool is not connected."),
    ],
    handler: |method| on(method, explain_call),
}];

async fn explain_call(
    State(web): State<Arc<Web>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Explanation>, Problem> {
    let body = body?;
    let text = json::read(&body).map_err(|error| Problem::BAD_BODY.message(error.to_string()))?;
    let asked: wire::ExplainCall =
        serde_json::from_str(text).map_err(|error| Problem::BAD_BODY.message(error.to_string()))?;
    let variant = Variant::from_operation(&asked.variant)
        .ok_or_else(|| Problem::BAD_BODY.message("`variant` must be read, write or destructive".to_owned()))?;
    let (agent, parameters) = (asked.agent.as_deref(), asked.parameters.get());
    let (explanation, rules) = web.gateway.explain(agent, variant, parameters).await.map_err(unexplained)?;
    Ok(Json((variant, explanation, rules).into()))
}

fn unexplained(error: ExplainError) -> Problem {
    match error {
        ExplainError::NoAgent(_) => Problem::AGENT_NOT_FOUND,
        ExplainError::NotConnected(_) => Problem::UPSTREAM_UNAVAILABLE.message(error.to_string()),
        ExplainError::Parameters(_) | ExplainError::Store(_) => Problem::BAD_BODY.message(error.to_string()),
    }
}
