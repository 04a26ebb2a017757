//! The review of what a server lists. Each decision concerns exactly the version that the page showed.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use mcpproxy_gateway::{ReviewError, ReviewOf, ServerStatus};
use mcpproxy_store::{Choice, Decided, PinDecision, StoreError};

use super::{around, find, not_found};
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::ui::pages::servers::details::launch_line;
use crate::ui::pages::servers::review::{self, Asked, ReviewPage};
use crate::ui::pages::{Frame, page};
use crate::ui::posted::Posted;
use crate::ui::unavailable;
use crate::ui::visitor::Visitor;

const LOCKED: &str =
    "The gateway runs with a lock file, which alone decides. Write the lock file again instead: mcpproxy lock.";

pub(super) async fn show(
    State(app): State<AppState>,
    Visitor(signed): Visitor,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response {
    let Some(status) = find(&app, name) else { return not_found() };
    let asked = Asked { number: page_number(&uri), ..Asked::default() };
    shown(&app, &signed, &status, StatusCode::OK, asked, false).await.unwrap_or_else(|error| unavailable(&error))
}

pub(super) async fn decide(
    State(app): State<AppState>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
    posted: Posted,
) -> Response {
    let Some(status) = find(&app, name) else { return not_found() };
    decided(&app, &status, &posted, page_number(&uri)).await.unwrap_or_else(|error| unavailable(&error))
}

/// Shows one definition in full, as plain text.
pub(super) async fn whole(
    State(app): State<AppState>,
    Visitor(_): Visitor,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response {
    let Some(status) = find(&app, name) else { return not_found() };
    let Ok(review) = app.web.gateway.review(&status.name, ReviewOf::Waiting).await else { return not_found() };
    let pin = uri.query().and_then(|query| query.strip_prefix("pin=")).unwrap_or_default();
    match review.entries.iter().find(|entry| entry.pin == pin) {
        Some(entry) => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], review::whole(entry)).into_response(),
        None => {
            let text = "This version no longer waits for a review. Somebody has decided, or the server has changed it.";
            let back = format!("/ui/servers/{}/review", status.name);
            crate::ui::notice(StatusCode::NOT_FOUND, "Version not found", text, (&back, "Back to the review"))
        }
    }
}

async fn decided(
    app: &AppState,
    status: &ServerStatus,
    posted: &Posted,
    number: usize,
) -> Result<Response, StoreError> {
    let picked = review::picked(&posted.form);
    let again = |error: &str| Asked { error: Some(error.to_owned()), number, picked: picked.clone(), launch: None };
    let decisions = match wanted(app, status, posted, &picked).await? {
        Wanted::Decisions(decisions) => decisions,
        Wanted::Nothing => {
            let asked = again("Nothing was decided. Select at least one definition.");
            return shown(app, &posted.signed, status, StatusCode::UNPROCESSABLE_ENTITY, asked, false).await;
        }
        Wanted::ListChanged => {
            let asked = again(
                "Nothing was decided: the list has changed since you opened this page. This is the new list. Read it again.",
            );
            return shown(app, &posted.signed, status, StatusCode::CONFLICT, asked, false).await;
        }
    };
    let present = match app.prove_presence(&posted.signed, posted.presence()).await? {
        PresenceResult::Present(present) => present,
        PresenceResult::Absent(absent) => {
            let asked = again(&absent.message());
            return shown(app, &posted.signed, status, StatusCode::FORBIDDEN, asked, true).await;
        }
    };
    match app.web.gateway.decide(&status.name, &decisions, &present).await {
        Ok(results) => finish(app, status, posted, number, &results).await,
        Err(ReviewError::NoServer) => Ok(not_found()),
        Err(ReviewError::Locked) => {
            shown(app, &posted.signed, status, StatusCode::CONFLICT, again(LOCKED), false).await
        }
        Err(ReviewError::Store(error)) => Err(error),
    }
}

/// The decisions that a form asks for.
enum Wanted {
    Decisions(Vec<PinDecision>),
    Nothing,
    /// Something that was shown no longer waits, or other definitions wait too.
    ListChanged,
}

async fn wanted(
    app: &AppState,
    status: &ServerStatus,
    posted: &Posted,
    picked: &[String],
) -> Result<Wanted, StoreError> {
    let (choice, is_all) = match posted.form.or_empty("action") {
        "accept" => (Choice::Accept, false),
        "reject" => (Choice::Reject, false),
        "accept_all" => (Choice::Accept, true),
        "reject_all" => (Choice::Reject, true),
        _ => return Ok(Wanted::Nothing),
    };
    let entries = match app.web.gateway.review(&status.name, ReviewOf::Waiting).await {
        Ok(review) => review.entries,
        Err(ReviewError::Store(error)) => return Err(error),
        Err(ReviewError::NoServer | ReviewError::Locked) => Vec::new(),
    };
    let decisions = match is_all {
        true => review::all_decisions(&entries, choice),
        false => review::picked_decisions(&entries, picked, choice),
    };
    let is_changed = match is_all {
        true => posted.form.or_empty("list") != review::list_digest(&entries),
        false => decisions.len() < picked.len(),
    };
    Ok(match (is_changed, decisions.is_empty()) {
        (true, _) => Wanted::ListChanged,
        (false, true) => Wanted::Nothing,
        (false, false) => Wanted::Decisions(decisions),
    })
}

/// Leads to what still waits, or to the server.
async fn finish(
    app: &AppState,
    status: &ServerStatus,
    posted: &Posted,
    number: usize,
    results: &[Decided],
) -> Result<Response, StoreError> {
    let stale = results.iter().filter(|result| **result != Decided::Done).count();
    if stale > 0 {
        let done = results.len() - stale;
        let error = format!(
            "{stale} of your {} decisions had no effect: the server changed these definitions, or somebody else decided. \
             {done} took effect. This is what waits now.",
            results.len()
        );
        let asked = Asked { error: Some(error), number, ..Asked::default() };
        return shown(app, &posted.signed, status, StatusCode::CONFLICT, asked, false).await;
    }
    let left = match app.web.gateway.review(&status.name, ReviewOf::Waiting).await {
        Ok(review) => review.entries.len(),
        Err(ReviewError::Store(error)) => return Err(error),
        Err(ReviewError::NoServer | ReviewError::Locked) => 0,
    };
    let path = if left > 0 { "/review" } else { "" };
    Ok(Redirect::to(&format!("/ui/servers/{}{path}", status.name)).into_response())
}

async fn shown(
    app: &AppState,
    signed: &SignedInUser,
    status: &ServerStatus,
    code: StatusCode,
    asked: Asked,
    asks_password: bool,
) -> Result<Response, StoreError> {
    let review = match app.web.gateway.review(&status.name, ReviewOf::Waiting).await {
        Ok(review) => review,
        Err(ReviewError::Store(error)) => return Err(error),
        Err(ReviewError::NoServer | ReviewError::Locked) => return Ok(not_found()),
    };
    let launch = app.web.gateway.written_transport(&status.name).as_ref().and_then(launch_line);
    let asked = Asked { launch, ..asked };
    let frame = around(app, signed, &format!("Review of {}", status.name)).await?;
    let frame = Frame { asks_password, ..frame };
    Ok(page(code, &ReviewPage::new(frame, status, review, asked, app.now_ms())))
}

fn page_number(uri: &Uri) -> usize {
    let query = uri.query().unwrap_or_default();
    query.split('&').find_map(|pair| pair.strip_prefix("page=")).and_then(|number| number.parse().ok()).unwrap_or(1)
}
