//! The page that adds servers: by a form, or by pasting the JSON of a client. New servers start quarantined.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{StatusCode, Uri};
use mcpproxy_core::ServerName;
use mcpproxy_store::{Record, RecordId, StoreError};
use serde_json::{Value, json};

use super::actions::{Applied, edit_and_reload};
use crate::action::Action;
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::editor::{EditError, ServersEditor};
use crate::ui::pages::amount::one_line;
use crate::ui::pages::servers::add::{Add, Typed};
use crate::ui::pages::servers::details::launch_line;
use crate::ui::pages::{Frame, page};
use crate::ui::posted::Posted;
use crate::ui::proposals::{NotDone, Place, confirmed, onward};
use crate::ui::visitor::Visitor;
use crate::ui::{frame, unavailable};
use crate::visible::plain;

/// The review page shows what a server lists as soon as it is connected. Most servers are within this time.
const CONNECT_WAIT: Duration = Duration::from_secs(3);

/// The code of the record about an added server.
const ADDED: &str = "server_added";
/// The parameter with the id of that record.
const RECORD: &str = "added=";
/// Notes about added servers in their record. A note has at most this many characters.
const NOTES_MAX: usize = 20;
const NOTE_CHARS: usize = 300;

/// Shows the forms, or the servers that were just added. Their record has what the page says, so it can be loaded again,
/// also from another gateway.
pub(super) async fn show(State(app): State<AppState>, Visitor(signed): Visitor, uri: Uri) -> Response {
    let record = uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix(RECORD));
    let shown = async || -> Result<Response, StoreError> {
        let added = match record {
            Some(id) => app.web.store.find(id).await?.and_then(|whole| Added::of(&whole.record)),
            None => None,
        };
        shown(&app, &signed, StatusCode::OK, Typed::default(), added).await
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

/// Servers that were added together.
struct Added {
    names: Vec<String>,
    notes: Vec<String>,
}

impl Added {
    /// Reads the record of an added server.
    fn of(record: &Record) -> Option<Self> {
        let is_added = record.code.as_ref().is_some_and(|code| code.for_json() == ADDED);
        let metadata: Value = serde_json::from_str(record.metadata.for_json()).ok().filter(|_| is_added)?;
        let texts = |name: &str| {
            let all = metadata.get(name).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut names = texts("names");
        names.retain(|name| ServerName::parse(name).is_ok());
        (!names.is_empty()).then(|| Self { names, notes: texts("notes") })
    }
}

pub(super) async fn add(State(app): State<AppState>, posted: Posted) -> Response {
    added(&app, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

async fn added(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let typed = Typed::of(&posted.form);
    // A change that is published is confirmed on the next page.
    let is_published = app.web.gateway.version().is_some();
    if !is_published && let PresenceResult::Absent(absent) = app.prove_presence(signed, posted.presence()).await? {
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
    if is_published {
        return publish(app, posted, typed, (text, wanted)).await;
    }
    let action = Action { code: "server_add", server: None, facts: json!({"name": wanted}) }.begin(app, signed).await?;
    match edit_and_reload(app, move |editor| editor.add(&text, wanted.as_deref())).await {
        Ok(applied) => {
            action.done(app).await;
            let names: Vec<String> = applied.names.iter().map(ToString::to_string).collect();
            let notes: Vec<String> =
                applied.notes.iter().take(NOTES_MAX).map(|note| one_line(note, NOTE_CHARS)).collect();
            let mut record = None;
            for name in &applied.names {
                let launch = app.web.gateway.written_transport(name).as_ref().and_then(launch_line);
                let facts = json!({"names": names, "launch": launch, "notes": notes});
                record = Some(Action { facts, ..Action::on_server(ADDED, name) }.record(app, signed).await?);
            }
            let _still_connecting = tokio::time::timeout(CONNECT_WAIT, app.web.gateway.ready()).await;
            Ok(finish(&applied, record))
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

/// Publishes new servers for all gateways, after the user has confirmed them.
async fn publish(
    app: &AppState,
    posted: &Posted,
    typed: Typed,
    (text, wanted): (String, Option<String>),
) -> Result<Response, StoreError> {
    let title = if typed.is_pasted { "Add servers".to_owned() } else { format!("Add {}", typed.name.trim()) };
    let place = Place { path: "/ui/servers/add".to_owned(), title };
    let edit = move |editor: &dyn ServersEditor| editor.add(&text, wanted.as_deref());
    Ok(match confirmed(app, posted, &place, edit).await? {
        Ok(done) => {
            let path = match done.names.as_slice() {
                [name] => review_path(name),
                _ => "/ui/servers".to_owned(),
            };
            let _still_connecting = tokio::time::timeout(CONNECT_WAIT, app.web.gateway.ready()).await;
            onward(&done, &path)
        }
        Err(NotDone::Shown(response)) => response,
        Err(NotDone::Refused(code, error)) => {
            return shown(app, &posted.signed, code, Typed { error: Some(error), ..typed }, None).await;
        }
    })
}

/// Leads to the review of a single server. Several servers, or notes about them, get a page of their own first.
fn finish(applied: &Applied, record: Option<RecordId>) -> Response {
    let path = match (applied.names.as_slice(), record) {
        ([name], _) if applied.notes.is_empty() => review_path(name),
        (_, Some(record)) => format!("/ui/servers/add?{RECORD}{record}"),
        (_, None) => "/ui/servers".to_owned(),
    };
    Redirect::to(&path).into_response()
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
    added: Option<Added>,
) -> Result<Response, StoreError> {
    let frame = frame::around(app, signed, "servers", "Add a server").await?;
    let wrong = typed.asks_password.then_some(if typed.is_pasted { "paste-password" } else { "form-password" });
    let frame = Frame { asks_password: typed.asks_password, wrong, ..frame };
    let (names, notes) = added.map(|added| (added.names, added.notes)).unwrap_or_default();
    let is_published = app.web.gateway.version().is_some();
    Ok(page(code, &Add { frame, error: typed.error.clone(), typed, is_published, names, notes }))
}
