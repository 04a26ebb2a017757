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
use crate::ui::pages::servers::review::{self, Asked, ReviewList, ReviewPage};
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
    let query = uri.query().unwrap_or_default();
    let asked = Asked {
        done: review::done_words(query),
        is_unfolded: query.split('&').any(|pair| pair == "open=all"),
        ..place(&uri)
    };
    shown(&app, &signed, &status, StatusCode::OK, asked, false).await.unwrap_or_else(|error| unavailable(&error))
}

pub(super) async fn decide(
    State(app): State<AppState>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
    posted: Posted,
) -> Response {
    let Some(status) = find(&app, name) else { return not_found() };
    decided(&app, &status, &posted, &uri).await.unwrap_or_else(|error| unavailable(&error))
}

/// Shows one definition in full, as plain text.
pub(super) async fn whole(
    State(app): State<AppState>,
    Visitor(_): Visitor,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response {
    let Some(status) = find(&app, name) else { return not_found() };
    let all = app.web.gateway.review(&status.name, ReviewOf::WaitingAndRejected).await;
    let Ok(review) = all else { return not_found() };
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

async fn decided(app: &AppState, status: &ServerStatus, posted: &Posted, uri: &Uri) -> Result<Response, StoreError> {
    let picked = review::picked(&posted.form);
    let again = |error: &str| Asked { error: Some(error.to_owned()), picked: picked.clone(), ..place(uri) };
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
        Ok(results) => finish(app, status, posted, uri, (&decisions, &results)).await,
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
        "restore" => (Choice::AcceptRejected, false),
        _ => return Ok(Wanted::Nothing),
    };
    let (of, is_rejected) = match choice {
        Choice::Accept | Choice::Reject => (ReviewOf::Waiting, false),
        Choice::AcceptRejected => (ReviewOf::WaitingAndRejected, true),
    };
    let entries = match app.web.gateway.review(&status.name, of).await {
        Ok(review) => {
            review.entries.into_iter().filter(|entry| entry.rejection.is_some() == is_rejected).collect::<Vec<_>>()
        }
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

/// Leads to what still waits, or to the server, and says there what was decided.
async fn finish(
    app: &AppState,
    status: &ServerStatus,
    posted: &Posted,
    uri: &Uri,
    (decisions, results): (&[PinDecision], &[Decided]),
) -> Result<Response, StoreError> {
    let stale = results.iter().filter(|result| **result != Decided::Done).count();
    if stale > 0 {
        let done = results.len() - stale;
        let error = format!(
            "{stale} of your {} decisions had no effect: the server changed these definitions, or somebody else decided. \
             {done} took effect. This is what waits now.",
            results.len()
        );
        let asked = Asked { error: Some(error), ..place(uri) };
        return shown(app, &posted.signed, status, StatusCode::CONFLICT, asked, false).await;
    }
    let left = match app.web.gateway.review(&status.name, ReviewOf::Waiting).await {
        Ok(review) => review.entries.len(),
        Err(ReviewError::Store(error)) => return Err(error),
        Err(ReviewError::NoServer | ReviewError::Locked) => 0,
    };
    let path = if left > 0 { "/review" } else { "" };
    let rejected = decisions.iter().filter(|decision| decision.choice == Choice::Reject).count();
    let done = format!("accepted={}&rejected={rejected}", decisions.len() - rejected);
    Ok(Redirect::to(&format!("/ui/servers/{}{path}?{done}", status.name)).into_response())
}

async fn shown(
    app: &AppState,
    signed: &SignedInUser,
    status: &ServerStatus,
    code: StatusCode,
    asked: Asked,
    asks_password: bool,
) -> Result<Response, StoreError> {
    let of = match asked.of {
        ReviewList::Waiting => ReviewOf::Waiting,
        ReviewList::Rejected => ReviewOf::WaitingAndRejected,
    };
    let review = match app.web.gateway.review(&status.name, of).await {
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

/// Reads the list and the page of the list from the address.
fn place(uri: &Uri) -> Asked {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let number = pairs.clone().find_map(|pair| pair.strip_prefix("page=")).and_then(|number| number.parse().ok());
    let of = if pairs.any(|pair| pair == "of=rejected") { ReviewList::Rejected } else { ReviewList::Waiting };
    Asked { number: number.unwrap_or(1), of, ..Asked::default() }
}
