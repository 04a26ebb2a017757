//! The page of one server.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use mcpproxy_gateway::ServerStatus;
use mcpproxy_store::StoreError;

use super::{actions, around, find, not_found};
use crate::auth::identity::{AppState, SignedInUser};
use crate::ui::pages::servers::details::Details;
use crate::ui::pages::servers::review::done_words;
use crate::ui::pages::{Frame, page};
use crate::ui::unavailable;
use crate::ui::visitor::Visitor;

/// Lines of a server's log on its page.
const LOG_LINES: usize = 200;

pub(super) async fn show(
    State(app): State<AppState>,
    Visitor(signed): Visitor,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response {
    let Some(status) = find(&app, name) else { return not_found() };
    let query = uri.query().unwrap_or_default();
    // A review that decided about everything leads here too.
    let notes = actions::done_words(query).map(str::to_owned).or_else(|| done_words(query)).into_iter().collect();
    let shown = shown(&app, &signed, status, StatusCode::OK, Said { notes, ..Said::default() }).await;
    shown.unwrap_or_else(|error| unavailable(&error))
}

/// The answer to a form of the page.
#[derive(Default)]
pub(super) struct Said {
    pub(super) error: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) asks_password: bool,
}

pub(super) async fn shown(
    app: &AppState,
    signed: &SignedInUser,
    status: ServerStatus,
    code: StatusCode,
    said: Said,
) -> Result<Response, StoreError> {
    let frame = around(app, signed, &format!("{} · Servers", status.name)).await?;
    let frame = Frame { asks_password: said.asks_password, ..frame };
    let coverage = app.web.gateway.contract_coverage();
    let log = app.web.gateway.server_log(&status.name, LOG_LINES).unwrap_or_default();
    let launch = app.web.gateway.written_transport(&status.name);
    let details = Details::new(frame, &status, launch.as_ref(), &coverage.tools, &log);
    let is_published = app.web.gateway.version().is_some();
    Ok(page(code, &Details { error: said.error, notes: said.notes, is_published, ..details }))
}
