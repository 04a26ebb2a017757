//! The REST endpoint that changes what a token may do.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_store::StoreError;

use super::approvals::{read, signed_in_user, unwritten};
use super::endpoint::{Answer, BODY_TOO_LARGE, Body, Endpoint, ErrorAnswer, Group, LOG_UNAVAILABLE, TOO_MANY_TRIES};
use super::reviews::presence;
use crate::auth::access::Access;
use crate::auth::identity::{AppState, Identity};
use crate::problem::Problem;
use crate::tokens::{AllowedChange, change};
use crate::verb::Verb;
use crate::wire;

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "change_token",
    method: Verb::Post,
    path: "/api/v1/tokens/{agent}",
    access: Access::User,
    decides: false,
    parameters: &[],
    body: Some(Body::json::<wire::ChangeToken>(EXAMPLE)),
    group: Group::Servers,
    summary: "Change what a token may do",
    description: "Replaces the permissions, servers and operations of an agent's token. The token itself stays the same. The \
                  next request of the agent follows the change. To allow more than before, send `page_key` or a fresh \
                  code. Agents and the admin key cannot change tokens. The change is recorded, with the scope before it.",
    answers: &[Answer::json::<wire::TokenScope>(StatusCode::OK, "The new scope.")],
    errors: &[NO_AGENT, BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
    handler: |method| on(method, change_token),
}];

const EXAMPLE: &str = r#"{"grants": ["emails:send", "files:*"], "servers": ["mail"], "operations": ["read", "write"]}"#;
const NO_AGENT: ErrorAnswer = (StatusCode::NOT_FOUND, "No agent with this name has a valid token.");

async fn change_token(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    name: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::TokenScope>, Problem> {
    let signed = signed_in_user(&identity)?;
    let Path(name) = name.map_err(|_| Problem::AGENT_NOT_FOUND)?;
    let asked: wire::ChangeToken = read(&body?)?;
    let after = asked.scope().map_err(|message| Problem::BAD_BODY.message(message))?;
    let before = app.web.store.find_scope(&name).await?.ok_or(Problem::AGENT_NOT_FOUND)?;
    let allowed = match AllowedChange::narrower(&name, &before, &after) {
        Some(allowed) => allowed,
        None => {
            let (totp, page_key) = (asked.totp.as_deref(), asked.page_key.as_deref());
            let present = presence(&app, signed, totp, page_key, &name).await?;
            AllowedChange::proven(&name, &before, &after, &present)
        }
    };
    match change(&app, signed, &allowed).await {
        Ok(()) => Ok(Json(wire::TokenScope::new(&name, &after))),
        Err(StoreError::NoSuchAgent { .. }) => Err(Problem::AGENT_NOT_FOUND),
        Err(error) => Err(unwritten(error)),
    }
}
