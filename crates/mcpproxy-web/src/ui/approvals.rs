//! The list of approval requests, and the page on which a user decides.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use mcpproxy_core::{ApprovalId, Assurance};
use mcpproxy_gateway::{Decider, DecisionResult, NotDecided, NotGranted, StandingResult, WantedStandingApproval};
use mcpproxy_store::{ApprovalFilter, StoreError};

use super::account::for_browser;
use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::{frame, notice, signed_out, unavailable};
use crate::auth::factor::{FactorError, Factors, StepUpResult};
use crate::auth::identity::{AppState, Identity, SignedInUser};
use crate::auth::presence::{PresenceError, PresenceResult};
use crate::ui::pages::confirm::{Confirm, Typed, TypedStanding};
use crate::ui::pages::lists::{Inbox, Selected};
use crate::ui::pages::{Confirmed, Frame, page, whole};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "approvals",
        method: Verb::Get,
        path: "/ui/approvals",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, inbox),
    },
    Page {
        name: "approval",
        method: Verb::Get,
        path: "/ui/approvals/{approval}",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, show),
    },
    Page {
        name: "whole",
        method: Verb::Get,
        path: "/ui/approvals/{approval}/whole",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, whole),
    },
    Page {
        name: "decide",
        method: Verb::Post,
        path: "/ui/approvals/{approval}",
        access: PageAccess::User,
        decides: true,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, decide),
    },
    Page {
        name: "approval_challenge",
        method: Verb::Post,
        path: "/ui/approvals/{approval}/passkey",
        access: PageAccess::User,
        decides: true,
        sent_from: Some("/ui/approvals"),
        is_stream: false,
        handler: |method| on(method, challenge),
    },
];

const PAGE_ROWS: usize = 50;

async fn inbox(State(app): State<AppState>, Extension(identity): Extension<Identity>, uri: Uri) -> Response {
    let Identity::User(signed) = identity else { return signed_out("/ui/approvals") };
    let of = |name: &str| uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix(name));
    let selected = Selected::of(of("state="));
    let before = of("before=").and_then(ApprovalId::parse);
    let shown = async || -> Result<Response, StoreError> {
        let filter = ApprovalFilter { state: selected.state(), ..ApprovalFilter::default() };
        let before = before.as_ref().map(ApprovalId::as_str);
        let found = app.web.gateway.approvals().list(&filter, before, PAGE_ROWS).await?;
        let records: Vec<_> = found.approvals.iter().filter_map(|approval| approval.record).collect();
        let ran = app.web.store.statuses(&records).await?;
        let frame = frame::around(&app, &signed, "approvals", "Approvals").await?;
        Ok(page(StatusCode::OK, &Inbox::new(frame, &found, &ran, selected, app.now_ms())))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

async fn show(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response {
    let Identity::User(signed) = identity else { return signed_out("/ui/approvals") };
    let Some(id) = approval_id(id) else { return not_found() };
    let typed = Typed { confirmed: Confirmed::of(&uri), ..Typed::default() };
    confirm(&app, &signed, &id, StatusCode::OK, typed).await.unwrap_or_else(|error| unavailable(&error))
}

/// Returns the full call as plain text, with invisible characters escaped.
async fn whole(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    let Identity::User(_) = identity else { return signed_out("/ui/approvals") };
    let Some(id) = approval_id(id) else { return not_found() };
    match app.web.gateway.approvals().find(&id).await {
        Ok(Some(view)) => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], whole::whole(&view)).into_response(),
        Ok(None) => not_found(),
        Err(error) => unavailable(&error),
    }
}

async fn confirm(
    app: &AppState,
    signed: &SignedInUser,
    id: &ApprovalId,
    status: StatusCode,
    typed: Typed,
) -> Result<Response, StoreError> {
    let Some(view) = app.web.gateway.approvals().find(id).await? else { return Ok(not_found()) };
    let user = app.web.store.find_user(signed.name()).await?;
    let factors = user.map(|user| Factors::of(&user)).unwrap_or_default();
    let title = format!("{} · {}", view.approval.tool, view.approval.agent);
    let frame = frame::around(app, signed, "approvals", &title).await?;
    let here = format!("/ui/approvals/{id}");
    // Without an authenticator app, there is no input for a code.
    let wrong = typed.wrong.filter(|_| factors.totp);
    let frame = Frame { asks_password: typed.asks_password, here, confirmed: typed.confirmed.clone(), wrong, ..frame };
    Ok(page(status, &Confirm::new(frame, &view, factors, typed, app.now_ms())))
}

async fn decide(State(app): State<AppState>, id: Result<Path<String>, PathRejection>, posted: Posted) -> Response {
    let Some(id) = approval_id(id) else { return not_found() };
    let decided = match posted.form.or_empty("action") {
        "deny" => deny(&app, &id, &posted).await,
        "approve" => approve(&app, &id, &posted).await,
        "grant" => grant(&app, &id, &posted).await,
        _ => {
            let typed = Typed { error: Some("Choose Approve or Deny.".to_owned()), ..Typed::default() };
            confirm(&app, &posted.signed, &id, StatusCode::UNPROCESSABLE_ENTITY, typed).await
        }
    };
    decided.unwrap_or_else(|error| unavailable(&error))
}

async fn deny(app: &AppState, id: &ApprovalId, posted: &Posted) -> Result<Response, StoreError> {
    let by = Decider::User(posted.signed.user().clone());
    let denied = app.web.gateway.approvals().deny(id, &by, posted.form.filled("comment")).await?;
    finish(app, id, posted, denied).await
}

async fn approve(app: &AppState, id: &ApprovalId, posted: &Posted) -> Result<Response, StoreError> {
    let approvals = app.web.gateway.approvals();
    // A factor is optional unless the call requires one. But a wrong one is always an error.
    let fresh = match app.step_up(&posted.signed, posted.factor(), id.as_str()).await? {
        StepUpResult::Verified(fresh) => Some(fresh),
        StepUpResult::NotVerified(FactorError::Missing) => None,
        StepUpResult::NotVerified(fault) => return refused_factor(app, id, posted, fault).await,
    };
    let present = match &fresh {
        Some(fresh) => fresh.present(),
        None => match app.prove_presence(&posted.signed, posted.presence()).await? {
            PresenceResult::Present(present) => present,
            PresenceResult::Absent(absent) => return not_there(app, id, posted, absent).await,
        },
    };
    let approved = approvals.approve(id, &present, fresh.as_ref()).await?;
    finish(app, id, posted, approved).await
}

/// Creates a standing approval. If that fails, the call is not approved either, and the form keeps its values.
async fn grant(app: &AppState, id: &ApprovalId, posted: &Posted) -> Result<Response, StoreError> {
    let number = |name: &str| posted.form.filled(name).and_then(|text| text.parse().ok()).unwrap_or_default();
    let Some(view) = app.web.gateway.approvals().find(id).await? else { return Ok(not_found()) };
    let wanted = WantedStandingApproval {
        from: id.clone(),
        schema: TypedStanding::read(|name| posted.form.text(name)).wanted_schema(&view),
        minutes: number("minutes"),
        uses: number("uses"),
    };
    if let Err(why) = wanted.check() {
        return refused(app, id, posted, sentence(&why)).await;
    }
    let fresh = match app.step_up(&posted.signed, posted.factor(), id.as_str()).await? {
        StepUpResult::Verified(fresh) => fresh,
        StepUpResult::NotVerified(fault) => return refused_factor(app, id, posted, fault).await,
    };
    match app.web.gateway.approvals().grant(&wanted, posted.signed.user(), &fresh).await? {
        StandingResult::NotCreated(NotGranted::Refused(why)) => refused(app, id, posted, sentence(&why)).await,
        StandingResult::NotCreated(NotGranted::NotDecided(reason)) => finish(app, id, posted, reason.into()).await,
        // The list shows the new standing approval with a button to revoke it.
        StandingResult::Created(_) => Ok(Redirect::to("/ui/grants").into_response()),
    }
}

async fn finish(
    app: &AppState,
    id: &ApprovalId,
    posted: &Posted,
    decided: DecisionResult,
) -> Result<Response, StoreError> {
    match decided {
        DecisionResult::Decided(_) => Ok(Redirect::to(&format!("/ui/approvals/{id}")).into_response()),
        DecisionResult::NotDecided(NotDecided::NotFound) => Ok(not_found()),
        DecisionResult::NotDecided(NotDecided::StepUpRequired) => {
            refused_factor(app, id, posted, FactorError::Missing).await
        }
        DecisionResult::NotDecided(NotDecided::OtherContract) => {
            let error = "Not decided: this gateway has another contract for the tool than the gateway that made the request. \
                         The request stays pending. Deploy the same contracts to all gateways, or decide at another gateway. \
                         The settings page shows which gateways differ.";
            let typed = Typed { error: Some(error.to_owned()), ..Typed::default() };
            confirm(app, &posted.signed, id, StatusCode::CONFLICT, typed).await
        }
        DecisionResult::NotDecided(NotDecided::Over(_)) => {
            let error = "Your decision came too late: the request was already decided or has expired.".to_owned();
            let typed = Typed { error: Some(error), ..Typed::default() };
            confirm(app, &posted.signed, id, StatusCode::CONFLICT, typed).await
        }
    }
}

/// Shows the page again with the typed values and an error.
async fn refused(app: &AppState, id: &ApprovalId, posted: &Posted, error: String) -> Result<Response, StoreError> {
    confirm(app, &posted.signed, id, StatusCode::FORBIDDEN, typed(posted, error)).await
}

/// Shows the page again after a missing or wrong factor. The input for the code gets the focus.
async fn refused_factor(
    app: &AppState,
    id: &ApprovalId,
    posted: &Posted,
    fault: FactorError,
) -> Result<Response, StoreError> {
    let typed = typed(posted, fault.message());
    let wrong = Some(if typed.grant.is_some() { "grant-totp" } else { "totp" });
    confirm(app, &posted.signed, id, StatusCode::FORBIDDEN, Typed { wrong, ..typed }).await
}

fn typed(posted: &Posted, error: String) -> Typed {
    let form = &posted.form;
    let field = |name: &str| form.or_empty(name).to_owned();
    let is_grant = form.or_empty("action") == "grant";
    Typed {
        error: Some(error),
        comment: field("comment"),
        grant: is_grant.then(|| TypedStanding::read(|name| form.text(name))),
        ..Typed::default()
    }
}

/// Shows the page again and asks for the password, or for a factor if the call requires one.
async fn not_there(
    app: &AppState,
    id: &ApprovalId,
    posted: &Posted,
    absent: PresenceError,
) -> Result<Response, StoreError> {
    let found = app.web.store.find_approval(id).await?;
    if found.is_some_and(|found| found.least == Assurance::Factor) {
        return refused_factor(app, id, posted, FactorError::Missing).await;
    }
    let typed = Typed { error: Some(absent.message()), asks_password: true, ..Typed::default() };
    confirm(app, &posted.signed, id, StatusCode::FORBIDDEN, typed).await
}

async fn challenge(State(app): State<AppState>, id: Result<Path<String>, PathRejection>, posted: Posted) -> Response {
    let Some(id) = approval_id(id) else { return not_found() };
    for_browser(app.challenge(&posted.signed, id.as_str()).await)
}

/// Turns an error message into a sentence.
fn sentence(why: &str) -> String {
    let mut chars = why.chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}

fn approval_id(id: Result<Path<String>, PathRejection>) -> Option<ApprovalId> {
    id.ok().and_then(|Path(id)| ApprovalId::parse(&id))
}

fn not_found() -> Response {
    let text = "This approval request does not exist. Decided requests are deleted after 30 days. The activity log keeps the record.";
    notice(StatusCode::NOT_FOUND, "Approval request not found", text, ("/ui/approvals", "All approvals"))
}
