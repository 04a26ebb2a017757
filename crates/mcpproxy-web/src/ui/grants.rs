//! The page of standing grants.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use mcpproxy_gateway::Decider;
use mcpproxy_store::StoreError;

use super::posted::Posted;
use super::{frame, signed_out, unavailable};
use crate::auth::identity::{Signed, Site, Who};
use crate::ui::pages::lists::Grants;
use crate::ui::pages::page;

/// Those that are over stay on the page for comparison, the newest first.
const SHOWN_MAX: usize = 100;

pub(crate) async fn list(State(site): State<Site>, Extension(who): Extension<Who>) -> Response {
    let Who::Person(signed) = who else { return signed_out("/ui/grants") };
    shown(&site, &signed, StatusCode::OK, None).await.unwrap_or_else(|error| unavailable(&error))
}

async fn shown(
    site: &Site,
    signed: &Signed,
    status: StatusCode,
    error: Option<String>,
) -> Result<Response, StoreError> {
    let mut grants = site.web.gateway.approvals().grants(true).await?;
    grants.truncate(SHOWN_MAX);
    let frame = frame::around(site, signed, "grants", "Grants").await?;
    Ok(page(status, &Grants { error, ..Grants::new(frame, &grants, site.now_ms()) }))
}

pub(crate) async fn revoke(
    State(site): State<Site>,
    id: Result<Path<String>, PathRejection>,
    posted: Posted,
) -> Response {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    let by = Decider::User(posted.signed.user().clone());
    let revoked = async || -> Result<Response, StoreError> {
        if site.web.gateway.approvals().revoke(&id, &by).await? {
            return Ok(Redirect::to("/ui/grants").into_response());
        }
        let error = Some("That grant is over already.".to_owned());
        shown(&site, &posted.signed, StatusCode::CONFLICT, error).await
    };
    revoked().await.unwrap_or_else(|error| unavailable(&error))
}
