//! The page that adds servers: by a form, or by pasting the JSON of a client. New servers start quarantined.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use mcpproxy_core::ServerName;
use mcpproxy_store::StoreError;
use serde_json::json;

use super::actions::{Applied, edit_and_reload};
use crate::action::Action;
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::editor::EditError;
use crate::ui::pages::servers::add::{Add, Typed};
use crate::ui::pages::servers::details::launch_line;
use crate::ui::pages::{Frame, page};
use crate::ui::posted::Posted;
use crate::ui::visitor::Visitor;
use crate::ui::{frame, unavailable};
use crate::visible::plain;

/// The review page shows what a server lists as soon as it is connected. Most servers are within this time.
const CONNECT_WAIT: Duration = Duration::from_secs(3);

pub(super) async fn show(State(app): State<AppState>, Visitor(signed): Visitor) -> Response {
    shown(&app, &signed, StatusCode::OK, Typed::default(), None).await.unwrap_or_else(|error| unavailable(&error))
}

pub(super) async fn add(State(app): State<AppState>, posted: Posted) -> Response {
    added(&app, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

async fn added(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let typed = Typed::of(&posted.form);
    if let PresenceResult::Absent(absent) = app.prove_presence(signed, posted.presence()).await? {
        let typed = Typed { error: Some(absent.message()), asks_password: true, ..typed };
        return shown(app, signed, StatusCode::FORBIDDEN, typed, None).await;
    }
    let text = match typed.json_text() {
        Ok(text) => text,
        Err(error) => return invalid(app, signed, typed, error).await,
    };
    let wanted = typed.server_name().map(str::to_owned);
    let is_taken = |name: &str| app.web.gateway.servers().iter().any(|server| server.name.as_str() == name);
    if let Some(name) = wanted.as_deref().filter(|name| is_taken(name)) {
        let error = format!("A server with the name {name} exists already. Choose another name.");
        return invalid(app, signed, typed, error).await;
    }
    let action = Action { code: "server_add", server: None, facts: json!({"name": wanted}) }.begin(app, signed).await?;
    match edit_and_reload(app, move |editor| editor.add(&text, wanted.as_deref())).await {
        Ok(applied) => {
            action.done(app).await;
            let names: Vec<String> = applied.names.iter().map(ToString::to_string).collect();
            for name in &applied.names {
                let launch = app.web.gateway.written_transport(name).as_ref().and_then(launch_line);
                let facts = json!({"names": names, "launch": launch});
                Action { facts, ..Action::on_server("server_added", name) }.record(app, signed).await?;
            }
            let _still_connecting = tokio::time::timeout(CONNECT_WAIT, app.web.gateway.ready()).await;
            finish(app, signed, applied).await
        }
        Err(error) => {
            action.failed(app, &error.to_string()).await;
            let (code, text) = match &error {
                EditError::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, None),
                EditError::ReadOnly { text, .. } => (StatusCode::CONFLICT, Some(text.clone())),
                EditError::Failed(_) => (StatusCode::CONFLICT, None),
            };
            let typed = Typed { error: Some(plain(&error.to_string())), to_paste: text, ..typed };
            shown(app, signed, code, typed, None).await
        }
    }
}

/// Leads to the review of a single server. Several servers, or notes about them, get a page of their own first.
async fn finish(app: &AppState, signed: &SignedInUser, applied: Applied) -> Result<Response, StoreError> {
    match applied.names.as_slice() {
        [name] if applied.notes.is_empty() => Ok(Redirect::to(&review_path(name)).into_response()),
        _ => shown(app, signed, StatusCode::OK, Typed::default(), Some(applied)).await,
    }
}

fn review_path(name: &ServerName) -> String {
    format!("/ui/servers/{name}/review")
}

async fn invalid(app: &AppState, signed: &SignedInUser, typed: Typed, error: String) -> Result<Response, StoreError> {
    let typed = Typed { error: Some(error), ..typed };
    shown(app, signed, StatusCode::UNPROCESSABLE_ENTITY, typed, None).await
}

async fn shown(
    app: &AppState,
    signed: &SignedInUser,
    code: StatusCode,
    typed: Typed,
    applied: Option<Applied>,
) -> Result<Response, StoreError> {
    let frame = frame::around(app, signed, "servers", "Add a server").await?;
    let frame = Frame { asks_password: typed.asks_password, ..frame };
    let (names, notes) = applied.map(|applied| (applied.names, applied.notes)).unwrap_or_default();
    let names = names.iter().map(ToString::to_string).collect();
    Ok(page(code, &Add { frame, error: typed.error.clone(), typed, names, notes }))
}
