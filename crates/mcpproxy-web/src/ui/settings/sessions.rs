//! The form of `/ui/settings` that ends a session.
//!
//! A user ends the session of this browser without more, as signing out does. To end another one, the user must be
//! present: a stolen cookie must not sign out its owner everywhere else, nor the other approvers. To end a session of
//! another user, they must also be allowed to manage users.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use mcpproxy_store::{OpenSession, SessionId, SessionTimes, StoreError};
use serde_json::json;

use super::{Said, render};
use crate::action::Action;
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::ui::posted::Posted;
use crate::ui::unavailable;

/// Sessions that are read for the page: so many of the user, and so many of all. Each user has a few.
const SESSIONS_MAX: usize = 500;

/// Lists the open sessions that this user may see: their own, and then all others if they may manage users. Sessions of
/// others never push out their own.
pub(super) async fn visible(app: &AppState, signed: &SignedInUser) -> Result<Vec<OpenSession>, StoreError> {
    let store = &app.web.store;
    let mut sessions = store.list_sessions(times(app), Some(signed.name()), SESSIONS_MAX).await?;
    if sees_all(app, signed) {
        let all = store.list_sessions(times(app), None, SESSIONS_MAX).await?;
        sessions.extend(all.into_iter().filter(|session| session.user != signed.name()));
    }
    Ok(sessions)
}

fn times(app: &AppState) -> SessionTimes {
    let session = &app.web.gateway.settings().people.session;
    SessionTimes { now_ms: app.now_ms(), idle_ms: session.idle_ms(), max_ms: session.max_ms() }
}

fn sees_all(app: &AppState, signed: &SignedInUser) -> bool {
    signed.may_manage_users(&app.web.gateway.settings().people)
}

pub(super) async fn end(State(app): State<AppState>, posted: Posted) -> Response {
    end_or_fail(&app, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

async fn end_or_fail(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let id = posted.form.or_empty("session");
    // A session that the user may not end is not found either.
    let may_end = |session: &OpenSession| session.user == signed.name() || sees_all(app, signed);
    let found = app.web.store.find_open_session(times(app), id).await?;
    let Some(session) = found.filter(may_end) else {
        let error = Some("This session has ended already.".to_owned());
        return render(app, signed, StatusCode::CONFLICT, Said { error, ..Said::default() }).await;
    };
    let is_this = session.id == SessionId::of(&signed.secret);
    if !is_this && let PresenceResult::Absent(absent) = app.prove_presence(signed, posted.presence()).await? {
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
    Ok(Redirect::to(if is_this { "/ui/login" } else { "/ui/settings?done=session" }).into_response())
}
