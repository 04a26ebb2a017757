//! The endpoint that applies changes of the operator's files that wait for a user.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_gateway::{Confirmation, Confirmed};

use super::approvals::{missing_factor, read, signed_in_user, step_up};
use super::endpoint::{Answer, BODY_TOO_LARGE, Body, Endpoint, ErrorAnswer, Group, LOG_UNAVAILABLE, TOO_MANY_TRIES};
use crate::auth::access::Access;
use crate::auth::identity::{AppState, Identity};
use crate::problem::Problem;
use crate::verb::Verb;
use crate::wire;

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "apply_config",
    method: Verb::Post,
    path: "/api/v1/config/apply",
    access: Access::User,
    decides: true,
    parameters: &[],
    body: Some(Body::json::<wire::ApplyConfig>(r#"{"digest": "9f86d081884c7d65", "totp": "123456"}"#)),
    group: Group::Contracts,
    summary: "Apply changes that weaken contracts, policies or settings",
    description: "A reload that removes or weakens contracts, policies or settings waits for a user. `held` in the status \
                  lists the changes. Send its `digest`, so that you apply what you have read and nothing else. Needs a \
                  user session, and a fresh code if `held` says `needs_step_up`. Agents and the admin key cannot apply. A \
                  refused attempt is recorded.",
    answers: &[Answer::json::<wire::AppliedConfig>(StatusCode::OK, "The changes are in force.")],
    errors: &[NOT_APPLIED, BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
    handler: |method| on(method, apply),
}];

const NOT_APPLIED: ErrorAnswer =
    (StatusCode::CONFLICT, "Nothing waits, the files changed since you read the changes, or a file is invalid.");

async fn apply(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::AppliedConfig>, Problem> {
    let signed = signed_in_user(&identity)?;
    let asked: wire::ApplyConfig = read(&body?)?;
    let digest = asked.digest.as_str();
    let fresh = match asked.totp.as_deref() {
        Some(code) => Some(step_up(&app, signed, Some(code), digest).await?),
        None => None,
    };
    let present = match &fresh {
        Some(fresh) => fresh.present(),
        None => {
            asked.page_key.as_deref().and_then(|key| signed.session.present(key)).ok_or(Problem::PAGE_KEY_REQUIRED)?
        }
    };
    let held = app.web.gateway.held().filter(|held| held.digest == digest);
    match app.web.reloader.apply(Confirmation::new(digest, &present, fresh.as_ref())).await {
        Confirmed::Applied => {
            let applied = held.map(|held| held.weaker.lines()).unwrap_or_default();
            Ok(Json(wire::AppliedConfig { applied }))
        }
        Confirmed::NothingWaits => Err(Problem::NOTHING_HELD),
        Confirmed::Changed => Err(Problem::HELD_CHANGED),
        Confirmed::StepUpRequired => Err(missing_factor(&app, signed).await?),
        Confirmed::Refused(reason) => Err(Problem::SETTINGS_INVALID.message(reason)),
        Confirmed::Stopping => Err(Problem::STOPPING),
    }
}
