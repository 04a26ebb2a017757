//! The endpoints of standing approvals. Paths and JSON call them grants.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_core::ApprovalId;
use mcpproxy_gateway::{NotGranted, StandingResult, WantedStandingApproval};
use mcpproxy_store::StoredStandingApproval;

use super::approvals::{NO_APPROVAL, decider, not_decided, read, signed_in_user, step_up, unwritten};
use super::endpoint::{Answer, BODY_TOO_LARGE, Body, Endpoint, Group, LOG_UNAVAILABLE, TOO_MANY_TRIES};
use super::parameters::{Parameter, QueryValues, ValueType, optional};
use crate::auth::access::Access;
use crate::auth::identity::{AppState, Identity};
use crate::problem::Problem;
use crate::verb::Verb;
use crate::wire;

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "grants",
        method: Verb::Get,
        path: "/api/v1/grants",
        access: Access::Operator,
        decides: false,
        parameters: &[ALL],
        body: None,
        group: Group::Approvals,
        summary: "List standing approvals, newest first",
        description: "Only active ones, unless you ask for all.",
        answers: &[Answer::json::<wire::Grants>(StatusCode::OK, "The standing approvals.")],
        errors: &[LOG_UNAVAILABLE],
        handler: |method| on(method, list),
    },
    Endpoint {
        name: "make_grant",
        method: Verb::Post,
        path: "/api/v1/grants",
        access: Access::User,
        decides: true,
        parameters: &[],
        body: Some(Body::json::<wire::MakeGrant>(
            r#"{
                "from": "01K9ZQ4B2R0000000000000000",
                "schema": {"properties": {"id": {"const": 7}}, "required": ["id"], "additionalProperties": false},
                "minutes": 15,
                "uses": 5,
                "totp": "123456"
            }"#,
        )),
        group: Group::Approvals,
        summary: "Create a standing approval",
        description: "Approves a pending call, and further calls of the same tool by the same agent whose arguments match a JSON Schema, for at most 15 minutes. Either both happen or neither. Needs a user session and a fresh code. Critical calls are excluded.",
        answers: &[Answer::json::<wire::Grant>(StatusCode::CREATED, "The standing approval.")],
        errors: &[NO_APPROVAL, BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
        handler: |method| on(method, create),
    },
    Endpoint {
        name: "revoke_grant",
        method: Verb::Delete,
        path: "/api/v1/grants/{grant}",
        access: Access::Operator,
        decides: true,
        parameters: &[],
        body: None,
        group: Group::Approvals,
        summary: "Revoke a standing approval",
        description: "Takes effect at once.",
        answers: &[Answer::json::<wire::Grant>(StatusCode::OK, "The revoked standing approval.")],
        errors: &[(StatusCode::NOT_FOUND, "No active standing approval has this id."), LOG_UNAVAILABLE],
        handler: |method| on(method, revoke),
    },
];

const ALL: Parameter = optional("all", "`true` adds those that are revoked, expired or used up.", ValueType::Switch);

async fn list(
    State(app): State<AppState>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::Grants>, Problem> {
    let grants = app.web.gateway.approvals().grants(query.is_on("all")).await?;
    let (grants, now_ms) = (app.web.gateway.shown(grants), app.now_ms());
    Ok(Json(wire::Grants { grants: grants.iter().map(|grant| wire::Grant::new(grant, now_ms)).collect() }))
}

async fn create(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<wire::Grant>), Problem> {
    let signed = signed_in_user(&identity)?;
    let asked: wire::MakeGrant = read(&body?)?;
    let from = ApprovalId::parse(&asked.from).ok_or(Problem::APPROVAL_NOT_FOUND)?;
    let schema = asked.schema_text();
    let wanted = WantedStandingApproval { from, schema, minutes: asked.minutes, uses: asked.uses };
    wanted.check().map_err(|why| Problem::GRANT_REFUSED.message(why))?;
    let fresh = step_up(&app, signed, asked.totp.as_deref(), wanted.from.as_str()).await?;
    match app.web.gateway.approvals().grant(&wanted, signed.user(), &fresh).await.map_err(unwritten)? {
        StandingResult::Created(created) => Ok((StatusCode::CREATED, Json(shown(&app, *created)?))),
        StandingResult::NotCreated(NotGranted::NotDecided(reason)) => Err(not_decided(reason)),
        StandingResult::NotCreated(NotGranted::Refused(why)) => Err(Problem::GRANT_REFUSED.message(why)),
    }
}

async fn revoke(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::Grant>, Problem> {
    let Path(id) = id.map_err(|_| Problem::GRANT_NOT_FOUND)?;
    if !app.web.gateway.approvals().revoke(&id, &decider(&identity)?).await.map_err(unwritten)? {
        return Err(Problem::GRANT_NOT_FOUND);
    }
    let grant = app.web.store.find_standing_approval(&id).await?.ok_or(Problem::GRANT_NOT_FOUND)?;
    Ok(Json(shown(&app, grant)?))
}

fn shown(app: &AppState, grant: StoredStandingApproval) -> Result<wire::Grant, Problem> {
    let shown = app.web.gateway.shown(vec![grant]).pop().ok_or(Problem::GRANT_NOT_FOUND)?;
    Ok(wire::Grant::new(&shown, app.now_ms()))
}
