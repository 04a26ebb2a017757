//! The page that changes what the token of an agent may do.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{StatusCode, Uri};
use mcpproxy_core::Scope;
use mcpproxy_store::StoreError;

use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::query;
use crate::tokens::{AllowedChange, change};
use crate::ui::pages::agents::{EditAgent, NewAgent};
use crate::ui::pages::{Frame, page};
use crate::ui::posted::Posted;
use crate::ui::visitor::Visitor;
use crate::ui::{frame, notice, unavailable};

/// The result of a form, shown above it.
#[derive(Default)]
struct Said {
    error: Option<String>,
    asks_password: bool,
}

pub(super) async fn show(State(app): State<AppState>, Visitor(signed): Visitor, uri: Uri) -> Response {
    let pairs = query::pairs(uri.query().unwrap_or_default()).unwrap_or_default();
    let name = pairs.into_iter().find(|(name, _)| name == "name").map(|(_, value)| value).unwrap_or_default();
    let shown = async || -> Result<Response, StoreError> {
        let Some(scope) = app.web.store.find_scope(&name).await? else { return Ok(not_found(StatusCode::NOT_FOUND)) };
        let typed = NewAgent::of_scope(&name, &scope, &servers(&app));
        render(&app, &signed, StatusCode::OK, typed, Said::default()).await
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

pub(super) async fn save(State(app): State<AppState>, posted: Posted) -> Response {
    saved(&app, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

async fn saved(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let (signed, known) = (&posted.signed, servers(app));
    let typed = NewAgent::of(&posted.form, &known);
    let Some(before) = app.web.store.find_scope(&typed.name).await? else {
        return Ok(not_found(StatusCode::CONFLICT));
    };
    let after: Scope = match typed.scope(&known) {
        Ok(after) => after,
        Err(error) => {
            let said = Said { error: Some(error), ..Said::default() };
            return render(app, signed, StatusCode::UNPROCESSABLE_ENTITY, typed, said).await;
        }
    };
    let allowed = match AllowedChange::narrower(&typed.name, &before, &after) {
        Some(allowed) => allowed,
        None => match app.prove_presence(signed, posted.presence()).await? {
            PresenceResult::Present(present) => AllowedChange::proven(&typed.name, &before, &after, &present),
            PresenceResult::Absent(absent) => {
                let said = Said { error: Some(absent.message()), asks_password: true };
                return render(app, signed, StatusCode::FORBIDDEN, typed, said).await;
            }
        },
    };
    match change(app, signed, &allowed).await {
        Ok(()) => Ok(Redirect::to("/ui/agents?done=changed").into_response()),
        Err(StoreError::NoSuchAgent { .. }) => Ok(not_found(StatusCode::CONFLICT)),
        Err(error) => Err(error),
    }
}

async fn render(
    app: &AppState,
    signed: &SignedInUser,
    status: StatusCode,
    typed: NewAgent,
    said: Said,
) -> Result<Response, StoreError> {
    let frame = frame::around(app, signed, "agents", &format!("Change {} · Agents", typed.name)).await?;
    let frame = Frame { asks_password: said.asks_password, ..frame };
    Ok(page(status, &EditAgent::new(frame, typed, said.error, &servers(app))))
}

fn servers(app: &AppState) -> Vec<String> {
    app.web.gateway.servers().iter().map(|server| server.name.to_string()).collect()
}

fn not_found(status: StatusCode) -> Response {
    let text = "No agent with this name has a valid token. It may have been revoked.";
    notice(status, "Agent not found", text, ("/ui/agents", "All agents"))
}
