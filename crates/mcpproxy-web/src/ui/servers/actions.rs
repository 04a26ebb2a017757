//! The forms of a server's page: restart, enable, disable, remove, sign in and sign out.
//!
//! Only enabling and signing in need a proof of presence, because they give agents more. A change of the settings file is applied at
//! once. If the gateway refuses the new settings, the file is restored.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use mcpproxy_core::ServerName;
use mcpproxy_gateway::{NotRestarted, Reloaded, ServerStatus};
use mcpproxy_store::StoreError;

use super::details::{Said, shown};
use super::{find, not_found, sign_in};
use crate::action::Action;
use crate::auth::identity::AppState;
use crate::auth::presence::PresenceResult;
use crate::editor::{EditError, Edited, ServersEditor, Written};
use crate::ui::posted::Posted;
use crate::ui::proposals::{NotDone, Place, confirmed, onward};
use crate::ui::unavailable;
use crate::visible::plain;

pub(super) async fn change(
    State(app): State<AppState>,
    name: Result<Path<String>, PathRejection>,
    posted: Posted,
) -> Response {
    let Some(status) = find(&app, name) else { return not_found() };
    let changed = match posted.form.or_empty("action") {
        "restart" => restart(&app, &posted, status).await,
        "enable" => enable(&app, &posted, status).await,
        "disable" => disable(&app, &posted, status).await,
        "remove" => remove(&app, &posted, status).await,
        "sign_in" => sign_in::begin(&app, &posted, status).await,
        "sign_out" => sign_in::end(&app, &posted, status).await,
        _ => refused(&app, &posted, status, StatusCode::UNPROCESSABLE_ENTITY, "Choose an action.".to_owned()).await,
    };
    changed.unwrap_or_else(|error| unavailable(&error))
}

async fn restart(app: &AppState, posted: &Posted, status: ServerStatus) -> Result<Response, StoreError> {
    let action = Action::on_server("server_restarted", &status.name).begin(app, &posted.signed).await?;
    let reason = match app.web.gateway.restart(&status.name) {
        Ok(()) => {
            action.done(app).await;
            return Ok(back(&status.name, "server_restarted"));
        }
        Err(NotRestarted::NoServer) => {
            action.failed(app, "The server was removed.").await;
            return Ok(not_found());
        }
        Err(NotRestarted::Disabled) => "The server is disabled. Enable it to start it.".to_owned(),
        Err(NotRestarted::Misconfigured(reason)) => {
            format!("The server cannot start, because its settings have a mistake: {reason}")
        }
    };
    action.failed(app, &reason).await;
    refused(app, posted, status, StatusCode::CONFLICT, plain(&reason)).await
}

async fn enable(app: &AppState, posted: &Posted, status: ServerStatus) -> Result<Response, StoreError> {
    // A change that is published is confirmed on the next page.
    if app.web.gateway.version().is_none()
        && let PresenceResult::Absent(absent) = app.prove_presence(&posted.signed, posted.presence()).await?
    {
        let said = Said { error: Some(absent.message()), asks_password: true, ..Said::default() };
        return shown(app, &posted.signed, status, StatusCode::FORBIDDEN, said).await;
    }
    let name = status.name.clone();
    let edit = move |editor: &dyn ServersEditor| editor.set_enabled(&name, true);
    apply(app, posted, status, "server_enabled", edit).await
}

async fn disable(app: &AppState, posted: &Posted, status: ServerStatus) -> Result<Response, StoreError> {
    let name = status.name.clone();
    let edit = move |editor: &dyn ServersEditor| editor.set_enabled(&name, false);
    apply(app, posted, status, "server_disabled", edit).await
}

async fn remove(app: &AppState, posted: &Posted, status: ServerStatus) -> Result<Response, StoreError> {
    if posted.form.filled("name") != Some(status.name.as_str()) {
        let error = format!("To remove the server, type its name: {}. Nothing was changed.", status.name);
        return refused(app, posted, status, StatusCode::UNPROCESSABLE_ENTITY, error).await;
    }
    let name = status.name.clone();
    apply(app, posted, status, "server_removed", move |editor| editor.remove(&name)).await
}

async fn apply(
    app: &AppState,
    posted: &Posted,
    status: ServerStatus,
    code: &'static str,
    edit: impl FnOnce(&dyn ServersEditor) -> Result<Edited, EditError> + Send + 'static,
) -> Result<Response, StoreError> {
    if app.web.gateway.version().is_some() {
        return publish(app, posted, status, code, edit).await;
    }
    let action = Action::on_server(code, &status.name).begin(app, &posted.signed).await?;
    let applied = match edit_and_reload(app, edit).await {
        Ok(applied) => applied,
        Err(error) => {
            action.failed(app, &error.to_string()).await;
            return refused(app, posted, status, StatusCode::CONFLICT, plain(&error.to_string())).await;
        }
    };
    action.done(app).await;
    match find(app, Ok(Path(status.name.to_string()))) {
        // A removed server has no page any more.
        None => Ok(Redirect::to("/ui/servers").into_response()),
        Some(_) if applied.notes.is_empty() => Ok(back(&status.name, code)),
        Some(now) => {
            let said = Said { notes: applied.notes, ..Said::default() };
            shown(app, &posted.signed, now, StatusCode::OK, said).await
        }
    }
}

/// Publishes a change of this server for all gateways, after the user has confirmed it.
async fn publish(
    app: &AppState,
    posted: &Posted,
    status: ServerStatus,
    code: &'static str,
    edit: impl FnOnce(&dyn ServersEditor) -> Result<Edited, EditError> + Send + 'static,
) -> Result<Response, StoreError> {
    let name = &status.name;
    let verb = match code {
        "server_enabled" => "Enable",
        "server_disabled" => "Disable",
        _ => "Remove",
    };
    let place = Place { path: format!("/ui/servers/{name}"), title: format!("{verb} {name}") };
    Ok(match confirmed(app, posted, &place, edit).await? {
        Ok(done) if find(app, Ok(Path(name.to_string()))).is_none() => onward(&done, "/ui/servers"),
        Ok(done) => onward(&done, &format!("{}?done={code}", place.path)),
        Err(NotDone::Shown(response)) => response,
        Err(NotDone::Refused(code, error)) => return refused(app, posted, status, code, error).await,
    })
}

/// A change of the settings file that is in force.
pub(super) struct Applied {
    pub(super) names: Vec<ServerName>,
    pub(super) notes: Vec<String>,
}

/// Edits the settings file and waits until the gateway has taken it over. Restores the file if the gateway refuses it.
pub(super) async fn edit_and_reload(
    app: &AppState,
    edit: impl FnOnce(&dyn ServersEditor) -> Result<Edited, EditError> + Send + 'static,
) -> Result<Applied, EditError> {
    let web = Arc::clone(&app.web);
    // Files and their locks can block.
    let edited = tokio::task::spawn_blocking(move || edit(web.servers_editor.as_ref())).await;
    let ended =
        || EditError::Failed("The change was interrupted. Look at the settings file, and try again.".to_owned());
    let Edited { names, notes, written } = edited.map_err(|_| ended())??;
    let Written::File(undo) = written else {
        let text = "The settings of this gateway come from the database, so no file is written. Nothing was changed.";
        return Err(EditError::Failed(text.to_owned()));
    };
    let notes = notes.iter().map(|note| plain(note)).collect();
    let reason = match app.web.reloader.reload().await {
        Reloaded::Applied => return Ok(Applied { names, notes }),
        Reloaded::Refused(reason) => reason,
        Reloaded::Stopping => "the gateway is stopping".to_owned(),
    };
    tokio::task::spawn_blocking(move || undo.run()).await.map_err(|_| ended())?;
    let _restored = app.web.reloader.reload().await;
    Err(EditError::Failed(format!("Nothing was changed, because the gateway cannot apply the settings: {reason}")))
}

pub(super) async fn refused(
    app: &AppState,
    posted: &Posted,
    status: ServerStatus,
    code: StatusCode,
    error: String,
) -> Result<Response, StoreError> {
    let said = Said { error: Some(error), ..Said::default() };
    shown(app, &posted.signed, status, code, said).await
}

fn back(name: &ServerName, code: &str) -> Response {
    Redirect::to(&format!("/ui/servers/{name}?done={code}")).into_response()
}

/// Says what a form has done, by the code in the address of the page.
pub(super) fn done_words(query: &str) -> Option<&'static str> {
    match query.strip_prefix("done=")? {
        "server_restarted" => Some("The server was restarted."),
        "server_enabled" => Some("The server is enabled."),
        "server_disabled" => Some("The server is disabled."),
        _ => None,
    }
}
