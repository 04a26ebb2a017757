//! Signing in to a server that asks for OAuth, and signing out, from its page.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use mcpproxy_gateway::{ServerStatus, SignInError, SignInKind, SignInSession, StartedFrom};
use mcpproxy_store::StoreError;

use super::actions::refused;
use super::details::{Said, shown};
use super::{around, find, not_found};
use crate::auth::identity::AppState;
use crate::auth::presence::PresenceResult;
use crate::ui::oauth;
use crate::ui::pages::page;
use crate::ui::pages::servers::sign_in::SignIn;
use crate::ui::posted::Posted;
use crate::ui::visitor::Visitor;
use crate::visible::plain;

/// Begins a sign-in, and shows what the user is about to allow, with a link to the provider. A form cannot lead to
/// another site, because the policy of our pages forbids it.
pub(super) async fn begin(app: &AppState, posted: &Posted, status: ServerStatus) -> Result<Response, StoreError> {
    let present = match app.prove_presence(&posted.signed, posted.presence()).await? {
        PresenceResult::Present(present) => present,
        PresenceResult::Absent(absent) => {
            let said = Said { error: Some(absent.message()), asks_password: true, ..Said::default() };
            return shown(app, &posted.signed, status, StatusCode::FORBIDDEN, said).await;
        }
    };
    let signed = &posted.signed;
    let from = StartedFrom::Page;
    let session = SignInSession { user: signed.name().to_owned(), secret: signed.secret.clone(), from };
    match app.web.gateway.begin_sign_in(&status.name, SignInKind::Browser, session, &present).await {
        Ok(started) => {
            let frame = around(app, signed, &format!("Sign in to {}", status.name)).await?;
            Ok(page(StatusCode::OK, &SignIn::new(frame, &status.name, &started)))
        }
        Err(error) => failed(app, posted, status, error).await,
    }
}

pub(super) async fn end(app: &AppState, posted: &Posted, status: ServerStatus) -> Result<Response, StoreError> {
    match app.web.gateway.sign_out(&status.name, posted.signed.name()).await {
        Ok(_) => Ok(Redirect::to(&format!("/ui/servers/{}", status.name)).into_response()),
        Err(error) => failed(app, posted, status, error).await,
    }
}

async fn failed(
    app: &AppState,
    posted: &Posted,
    status: ServerStatus,
    error: SignInError,
) -> Result<Response, StoreError> {
    match error {
        SignInError::NoServer => Ok(not_found()),
        SignInError::Store(error) => Err(error),
        SignInError::NotPossible(reason) | SignInError::Failed(reason) => {
            let text = format!("Not signed in: {}", plain(&reason));
            refused(app, posted, status, StatusCode::CONFLICT, text).await
        }
    }
}

/// Takes the answer of the provider that `/oauth/callback/…` has passed on. Only the session that began the sign-in may
/// finish it.
pub(super) async fn finish(
    State(app): State<AppState>,
    Visitor(signed): Visitor,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(status) = find(&app, name) else { return not_found() };
    let Some(answer) = oauth::read(&query.unwrap_or_default()) else { return oauth::unknown() };
    match app.web.gateway.sign_in_begun_by(&answer.state) {
        None => oauth::unknown(),
        Some((server, begun_by)) if server == status.name && begun_by.secret == signed.secret => {
            oauth::finish(&app, answer).await
        }
        Some(_) => oauth::ended(),
    }
}
