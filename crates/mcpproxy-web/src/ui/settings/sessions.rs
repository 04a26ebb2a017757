//! The form of `/ui/settings` that ends a session.
//!
//! A user ends their own sessions without more, as signing out does. To end a session of somebody else, the user must be
//! allowed to manage users and be present: a stolen cookie must not sign out the other approvers.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use mcpproxy_store::{OpenSession, SessionId, StoreError};
use serde_json::json;

use super::{Said, render};
use crate::action::Action;
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::ui::posted::Posted;
use crate::ui::unavailable;

/// Sessions that are read for the page. Each user has a few.
const SESSIONS_MAX: usize = 500;

/// Lists the open sessions that this user may see: their own, and all if they may manage users.
pub(super) async fn visible(app: &AppState, signed: &SignedInUser) -> Result<Vec<OpenSession>, StoreError> {
    let people = &app.web.gateway.settings().people;
    let (idle_ms, max_ms) = (people.session.idle_ms(), people.session.max_ms());
    let sessions = app.web.store.list_sessions(app.now_ms(), idle_ms, max_ms, SESSIONS_MAX).await?;
    let sees_all = signed.may_manage_users(people);
    Ok(sessions.into_iter().filter(|session| sees_all || session.user == signed.name()).collect())
}

pub(super) async fn end(State(app): State<AppState>, posted: Posted) -> Response {
    end_or_fail(&app, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

async fn end_or_fail(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let id = posted.form.or_empty("session");
    // A session that the user may not end is not found either.
    let Some(session) = visible(app, signed).await?.into_iter().find(|session| session.id.as_str() == id) else {
        let error = Some("This session has ended already.".to_owned());
        return render(app, signed, StatusCode::CONFLICT, Said { error, ..Said::default() }).await;
    };
    if session.user != signed.name()
        && let PresenceResult::Absent(absent) = app.prove_presence(signed, posted.presence()).await?
    {
        let session = Some(session.id.to_string());
        let said = Said { error: Some(absent.message()), asks_password: true, session, ..Said::default() };
        return render(app, signed, StatusCode::FORBIDDEN, said).await;
    }
    let action = Action { code: "session_closed", server: None, facts: json!({"of": session.user}) };
    let action = action.begin(app, signed).await?;
    match app.web.store.end_session(&session).await {
        Ok(_was_open) => action.done(app).await,
        Err(error) => {
            action.failed(app, &error.to_string()).await;
            return Err(error);
        }
    }
    let is_this = session.id == SessionId::of(&signed.secret);
    Ok(Redirect::to(if is_this { "/ui/login" } else { "/ui/settings?done=session" }).into_response())
}
