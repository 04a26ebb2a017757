//! The page of standing approvals. Paths and JSON call them grants.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::StatusCode;
use mcpproxy_gateway::Decider;
use mcpproxy_store::StoreError;

use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::{frame, signed_out, unavailable};
use crate::auth::identity::{AppState, Identity, SignedInUser};
use crate::ui::pages::lists::Grants;
use crate::ui::pages::page;
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "grants",
        method: Verb::Get,
        path: "/ui/grants",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, list),
    },
    Page {
        name: "revoke_grant",
        method: Verb::Post,
        path: "/ui/grants/{grant}/revoke",
        access: PageAccess::User,
        decides: true,
        sent_from: Some("/ui/grants"),
        is_stream: false,
        handler: |method| on(method, revoke),
    },
];

/// The page also lists inactive ones, up to this total.
const SHOWN_MAX: usize = 100;

async fn list(State(app): State<AppState>, Extension(identity): Extension<Identity>) -> Response {
    let Identity::User(signed) = identity else { return signed_out("/ui/grants") };
    shown(&app, &signed, StatusCode::OK, None).await.unwrap_or_else(|error| unavailable(&error))
}

async fn shown(
    app: &AppState,
    signed: &SignedInUser,
    status: StatusCode,
    error: Option<String>,
) -> Result<Response, StoreError> {
    let mut grants = app.web.gateway.approvals().grants(true).await?;
    grants.truncate(SHOWN_MAX);
    let frame = frame::around(app, signed, "grants", "Standing approvals").await?;
    let grants = app.web.gateway.shown(grants);
    Ok(page(status, &Grants { error, ..Grants::new(frame, &grants, app.now_ms()) }))
}

async fn revoke(State(app): State<AppState>, id: Result<Path<String>, PathRejection>, posted: Posted) -> Response {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    let by = Decider::User(posted.signed.user().clone());
    let revoked = async || -> Result<Response, StoreError> {
        if app.web.gateway.approvals().revoke(&id, &by).await? {
            return Ok(Redirect::to("/ui/grants").into_response());
        }
        let error = Some("This standing approval is no longer active.".to_owned());
        shown(&app, &posted.signed, StatusCode::CONFLICT, error).await
    };
    revoked().await.unwrap_or_else(|error| unavailable(&error))
}
