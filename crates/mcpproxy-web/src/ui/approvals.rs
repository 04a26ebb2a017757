//! The inbox, and the page on which a person decides.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use mcpproxy_core::{ApprovalId, Assurance};
use mcpproxy_gateway::{Decider, NotDecided, NotGranted, WantedStandingApproval};
use mcpproxy_store::{ApprovalFilter, StoreError};

use super::account::for_browser;
use super::posted::Posted;
use super::{frame, notice, signed_out, unavailable};
use crate::auth::factor::{Factors, Fault};
use crate::auth::identity::{Signed, Site, Who};
use crate::auth::presence::Absent;
use crate::ui::pages::confirm::{Confirm, Typed};
use crate::ui::pages::lists::{Inbox, Selected};
use crate::ui::pages::{Frame, page, whole};

const PAGE_ROWS: usize = 50;

pub(crate) async fn inbox(State(site): State<Site>, Extension(who): Extension<Who>, uri: Uri) -> Response {
    let Who::Person(signed) = who else { return signed_out("/ui/approvals") };
    let of = |name: &str| uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix(name));
    let selected = Selected::of(of("state="));
    let before = of("before=").and_then(ApprovalId::parse);
    let shown = async || -> Result<Response, StoreError> {
        let filter = ApprovalFilter { state: selected.state(), ..ApprovalFilter::default() };
        let before = before.as_ref().map(ApprovalId::as_str);
        let found = site.web.gateway.approvals().list(&filter, before, PAGE_ROWS).await?;
        let frame = frame::around(&site, &signed, "approvals", "Approvals").await?;
        Ok(page(StatusCode::OK, &Inbox::new(frame, &found, selected, site.now_ms())))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

pub(crate) async fn show(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    let Who::Person(signed) = who else { return signed_out("/ui/approvals") };
    let Some(id) = approval_id(id) else { return not_found() };
    confirm(&site, &signed, &id, StatusCode::OK, Typed::default()).await.unwrap_or_else(|error| unavailable(&error))
}

/// All that may not fit the page, as text in which nothing hides or acts.
pub(crate) async fn whole(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    let Who::Person(_) = who else { return signed_out("/ui/approvals") };
    let Some(id) = approval_id(id) else { return not_found() };
    match site.web.gateway.approvals().find(&id).await {
        Ok(Some(view)) => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], whole::whole(&view)).into_response(),
        Ok(None) => not_found(),
        Err(error) => unavailable(&error),
    }
}

async fn confirm(
    site: &Site,
    signed: &Signed,
    id: &ApprovalId,
    status: StatusCode,
    typed: Typed,
) -> Result<Response, StoreError> {
    let Some(view) = site.web.gateway.approvals().find(id).await? else { return Ok(not_found()) };
    let user = site.web.store.find_user(signed.name()).await?;
    let factors = user.map(|user| Factors::of(&user)).unwrap_or_default();
    let title = format!("{} · {}", view.approval.tool, view.approval.agent);
    let frame = frame::around(site, signed, "approvals", &title).await?;
    let frame = Frame { asks_password: typed.asks_password, ..frame };
    Ok(page(status, &Confirm::new(frame, &view, factors, typed, site.now_ms())))
}

pub(crate) async fn decide(
    State(site): State<Site>,
    id: Result<Path<String>, PathRejection>,
    posted: Posted,
) -> Response {
    let Some(id) = approval_id(id) else { return not_found() };
    let decided = match posted.form.or_empty("action") {
        "deny" => deny(&site, &id, &posted).await,
        "approve" => approve(&site, &id, &posted).await,
        "grant" => grant(&site, &id, &posted).await,
        _ => {
            let typed = Typed { error: Some("Press one of the buttons to decide.".to_owned()), ..Typed::default() };
            confirm(&site, &posted.signed, &id, StatusCode::UNPROCESSABLE_ENTITY, typed).await
        }
    };
    decided.unwrap_or_else(|error| unavailable(&error))
}

async fn deny(site: &Site, id: &ApprovalId, posted: &Posted) -> Result<Response, StoreError> {
    let by = Decider::User(posted.signed.user().clone());
    let denied = site.web.gateway.approvals().deny(id, &by, posted.form.filled("comment")).await?;
    finish(site, id, posted, denied.map(drop)).await
}

async fn approve(site: &Site, id: &ApprovalId, posted: &Posted) -> Result<Response, StoreError> {
    let approvals = site.web.gateway.approvals();
    // A factor that is not needed is not asked for; one that is given counts, or is said not to.
    let fresh = match site.fresh(&posted.signed, posted.factor(), id.as_str()).await? {
        Ok(fresh) => Some(fresh),
        Err(Fault::Missing) => None,
        Err(fault) => return refused(site, id, posted, fault.message()).await,
    };
    let present = match &fresh {
        Some(fresh) => fresh.present(),
        None => match site.present(&posted.signed, posted.shown()).await? {
            Ok(present) => present,
            Err(absent) => return not_there(site, id, posted, absent).await,
        },
    };
    let approved = approvals.approve(id, &present, fresh.as_ref()).await?;
    finish(site, id, posted, approved.map(drop)).await
}

/// If the grant cannot be made, nothing is approved and everything can be corrected.
async fn grant(site: &Site, id: &ApprovalId, posted: &Posted) -> Result<Response, StoreError> {
    let number = |name: &str| posted.form.filled(name).and_then(|text| text.parse().ok()).unwrap_or_default();
    let wanted = WantedStandingApproval {
        from: id.clone(),
        schema: posted.form.or_empty("schema").to_owned(),
        minutes: number("minutes"),
        uses: number("uses"),
    };
    if let Err(why) = wanted.check() {
        return refused(site, id, posted, sentence(&why)).await;
    }
    let fresh = match site.fresh(&posted.signed, posted.factor(), id.as_str()).await? {
        Ok(fresh) => fresh,
        Err(fault) => return refused(site, id, posted, fault.message()).await,
    };
    match site.web.gateway.approvals().grant(&wanted, posted.signed.user(), &fresh).await? {
        Err(NotGranted::Refused(why)) => refused(site, id, posted, sentence(&why)).await,
        Err(NotGranted::NotDecided(reason)) => finish(site, id, posted, Err(reason)).await,
        // Where it can be seen, and taken back.
        Ok(_) => Ok(Redirect::to("/ui/grants").into_response()),
    }
}

async fn finish(
    site: &Site,
    id: &ApprovalId,
    posted: &Posted,
    decided: Result<(), NotDecided>,
) -> Result<Response, StoreError> {
    match decided {
        Ok(()) => Ok(Redirect::to(&format!("/ui/approvals/{id}")).into_response()),
        Err(NotDecided::NotFound) => Ok(not_found()),
        Err(NotDecided::StepUpRequired) => refused(site, id, posted, Fault::Missing.message()).await,
        Err(NotDecided::Over(_)) => {
            let error = "Your decision came too late: somebody was first, or the time was over.".to_owned();
            let typed = Typed { error: Some(error), ..Typed::default() };
            confirm(site, &posted.signed, id, StatusCode::CONFLICT, typed).await
        }
    }
}

/// The page again with what was typed, and why it did not count.
async fn refused(site: &Site, id: &ApprovalId, posted: &Posted, error: String) -> Result<Response, StoreError> {
    let form = &posted.form;
    let field = |name: &str| form.or_empty(name).to_owned();
    let is_grant = form.or_empty("action") == "grant";
    let typed = Typed {
        error: Some(error),
        comment: field("comment"),
        grant: is_grant.then(|| (field("schema"), field("minutes"), field("uses"))),
        asks_password: false,
    };
    confirm(site, &posted.signed, id, StatusCode::FORBIDDEN, typed).await
}

/// The page again, with a field for the password where that helps.
async fn not_there(site: &Site, id: &ApprovalId, posted: &Posted, absent: Absent) -> Result<Response, StoreError> {
    let found = site.web.store.find_approval(id).await?;
    if found.is_some_and(|found| found.least == Assurance::Factor) {
        return refused(site, id, posted, Fault::Missing.message()).await;
    }
    let typed = Typed { error: Some(absent.message()), asks_password: true, ..Typed::default() };
    confirm(site, &posted.signed, id, StatusCode::FORBIDDEN, typed).await
}

pub(crate) async fn challenge(
    State(site): State<Site>,
    id: Result<Path<String>, PathRejection>,
    posted: Posted,
) -> Response {
    let Some(id) = approval_id(id) else { return not_found() };
    for_browser(site.challenge(&posted.signed, id.as_str()).await)
}

/// A reason as a sentence of its own.
fn sentence(why: &str) -> String {
    let mut chars = why.chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}

fn approval_id(id: Result<Path<String>, PathRejection>) -> Option<ApprovalId> {
    id.ok().and_then(|Path(id)| ApprovalId::parse(&id))
}

fn not_found() -> Response {
    let text = "There is no such approval. What was decided is forgotten after 30 days; the activity log keeps it.";
    notice(StatusCode::NOT_FOUND, "No such approval", text, ("/ui/approvals", "All approvals"))
}
