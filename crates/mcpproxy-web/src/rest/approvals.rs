//! The routes about approvals and grants, and signing in for programs that ask a person.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::StatusCode;
use http::header::{HeaderMap, SET_COOKIE};
use mcpproxy_core::{ApprovalId, ApprovalState, json};
use mcpproxy_gateway::{Decider, NotDecided, NotGranted, WantedStandingApproval};
use mcpproxy_store::{ApprovalFilter, StepUpProof, StoreError};
use serde::de::DeserializeOwned;

use crate::auth::cookie;
use crate::auth::factor::{self, Factors, Fault};
use crate::auth::identity::{Signed, Site, Who};
use crate::auth::login::Refused;
use crate::auth::records;
use crate::diff::Eyes;
use crate::problem::Problem;
use crate::rest::endpoint::Endpoint;
use crate::rest::parameters::Given;
use crate::wire;

pub(crate) async fn list(
    State(site): State<Site>,
    Extension(given): Extension<Given>,
) -> Result<Json<wire::Approvals>, Problem> {
    let owned = |name: &str| given.text(name).map(str::to_owned);
    let filter = ApprovalFilter {
        state: given.text("state").and_then(ApprovalState::parse),
        agent: owned("agent"),
        tool: owned("tool"),
    };
    let limit = given.number("limit", Endpoint::Approvals);
    let approvals = site.web.gateway.approvals();
    let cursor = given.text("cursor").map(|cursor| {
        ApprovalId::parse(cursor).ok_or_else(|| {
            Problem::bad_query("cursor: not a cursor of an earlier page", "give `next` of an answer unchanged")
        })
    });
    let cursor = cursor.transpose()?;
    let page = approvals.list(&filter, cursor.as_ref().map(ApprovalId::as_str), limit).await?;
    Ok(Json(wire::Approvals::new(page, |id| approvals.url(id), site.now_ms())))
}

pub(crate) async fn find(
    State(site): State<Site>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::WholeApproval>, Problem> {
    let view = site.web.gateway.approvals().find(&approval_id(id)?).await?.ok_or(Problem::NoApproval)?;
    Ok(Json(wire::WholeApproval::new(&view, Eyes::Anybody, site.now_ms())))
}

/// The same without masks, for the user who decides: who is asked must see what they are asked.
pub(crate) async fn whole(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::WholeApproval>, Problem> {
    person(&who)?;
    let view = site.web.gateway.approvals().find(&approval_id(id)?).await?.ok_or(Problem::NoApproval)?;
    Ok(Json(wire::WholeApproval::new(&view, Eyes::WhoDecides, site.now_ms())))
}

/// For the agent that waits, and for everybody who may see all of it.
pub(crate) async fn status(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::ApprovalStatus>, Problem> {
    let agent = match &who {
        Who::Agent(token) => Some(site.web.store.find_agent(token).await?.ok_or(Problem::Nobody)?),
        Who::Key | Who::Person(_) | Who::Nobody => None,
    };
    let approval = site.web.store.find_approval(&approval_id(id)?).await?.ok_or(Problem::NoApproval)?;
    // What other agents asked is as if it was not there.
    match agent {
        Some(agent) if agent.name != approval.agent => Err(Problem::NoApproval),
        Some(_) | None => Ok(Json(wire::ApprovalStatus::new(&approval, site.now_ms()))),
    }
}

pub(crate) async fn approve(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Approval>, Problem> {
    let (signed, id) = (person(&who)?, approval_id(id)?);
    let asked: wire::Approve = read(&body?)?;
    let fresh = match asked.totp.as_deref() {
        Some(code) => Some(step_up(&site, signed, Some(code), id.as_str()).await?),
        None => None,
    };
    let present = match &fresh {
        Some(fresh) => fresh.present(),
        None => match asked.page_key.as_deref().and_then(|key| signed.session.present(key)) {
            Some(present) => present,
            None => return Err(not_present(&site, signed, &id).await?),
        },
    };
    let approvals = site.web.gateway.approvals();
    match approvals.approve(&id, &present, fresh.as_ref()).await.map_err(unwritten)? {
        Ok(approval) => Ok(Json(wire::Approval::new(&approval, approvals.url(&id), site.now_ms()))),
        Err(NotDecided::StepUpRequired) => Err(missing_factor(&site, signed).await?),
        Err(reason) => Err(not_decided(reason)),
    }
}

pub(crate) async fn deny(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Approval>, Problem> {
    let id = approval_id(id)?;
    let asked: wire::Deny = read(&body?)?;
    let approvals = site.web.gateway.approvals();
    let denied = approvals.deny(&id, &decider(&who)?, asked.comment.as_deref()).await.map_err(unwritten)?;
    let approval = denied.map_err(not_decided)?;
    Ok(Json(wire::Approval::new(&approval, approvals.url(&id), site.now_ms())))
}

pub(crate) async fn grants(
    State(site): State<Site>,
    Extension(given): Extension<Given>,
) -> Result<Json<wire::Grants>, Problem> {
    let grants = site.web.gateway.approvals().grants(given.is_on("all")).await?;
    let now_ms = site.now_ms();
    Ok(Json(wire::Grants { grants: grants.iter().map(|grant| wire::Grant::new(grant, now_ms)).collect() }))
}

pub(crate) async fn make_grant(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<wire::Grant>), Problem> {
    let signed = person(&who)?;
    let asked: wire::MakeGrant = read(&body?)?;
    let from = ApprovalId::parse(&asked.from).ok_or(Problem::NoApproval)?;
    let schema = asked.schema_text();
    let wanted = WantedStandingApproval { from, schema, minutes: asked.minutes, uses: asked.uses };
    wanted.check().map_err(Problem::NotGranted)?;
    let fresh = step_up(&site, signed, asked.totp.as_deref(), wanted.from.as_str()).await?;
    let made = site.web.gateway.approvals().grant(&wanted, signed.user(), &fresh).await.map_err(unwritten)?;
    let grant = made.map_err(|reason| match reason {
        NotGranted::NotDecided(reason) => not_decided(reason),
        NotGranted::Refused(why) => Problem::NotGranted(why),
    })?;
    Ok((StatusCode::CREATED, Json(wire::Grant::new(&grant, site.now_ms()))))
}

pub(crate) async fn revoke_grant(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::Grant>, Problem> {
    let Path(id) = id.map_err(|_| Problem::NoGrant)?;
    if !site.web.gateway.approvals().revoke(&id, &decider(&who)?).await.map_err(unwritten)? {
        return Err(Problem::NoGrant);
    }
    let grant = site.web.store.find_standing_approval(&id).await?.ok_or(Problem::NoGrant)?;
    Ok(Json(wire::Grant::new(&grant, site.now_ms())))
}

pub(crate) async fn log_in(
    State(site): State<Site>,
    Extension(who): Extension<Who>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let wire::LogIn { name, password } = read(&body?)?;
    let logged_in = site.log_in(&name, password).await?.map_err(|refused| match refused {
        Refused::Wrong => Problem::WrongLogin,
        Refused::TooMany { wait_ms } => Problem::TooManyTries { wait_ms },
    })?;
    if let Who::Person(before) = who {
        site.web.store.close_session(&before.secret).await?;
    }
    let new = &logged_in.session;
    let cookie = cookie::set(&new.secret, site.people.transport).ok_or(Problem::WrongLogin)?;
    let Who::Person(signed) = site.who(&session_headers(&new.secret)).await? else {
        return Err(Problem::WrongLogin);
    };
    let (csrf, factors) = (&signed.session.csrf, Factors::of(&logged_in.user).names());
    let body = wire::LoggedIn::new(&logged_in.user.name, csrf, &new.page_key, factors);
    Ok(([(SET_COOKIE, cookie)], Json(body)).into_response())
}

pub(crate) async fn log_out(State(site): State<Site>, Extension(who): Extension<Who>) -> Result<Response, Problem> {
    let signed = person(&who)?;
    site.web.store.close_session(&signed.secret).await?;
    records::write(&site, records::done("logout", signed.name())).await;
    let body = Json(wire::Signed { signed_in: false });
    Ok(([(SET_COOKIE, cookie::clear(site.people.transport))], body).into_response())
}

/// A fresh factor, or why there is none.
async fn step_up(site: &Site, signed: &Signed, totp: Option<&str>, purpose: &str) -> Result<StepUpProof, Problem> {
    let given = factor::Given { totp, passkey: None };
    match site.fresh(signed, given, purpose).await? {
        Ok(fresh) => Ok(fresh),
        Err(Fault::Missing) => Err(missing_factor(site, signed).await?),
        Err(Fault::Wrong) => Err(Problem::WrongCode),
        Err(Fault::TooMany { wait_ms }) => Err(Problem::TooManyTries { wait_ms }),
    }
}

/// What a yes with the cookie alone lacks.
async fn not_present(site: &Site, signed: &Signed, id: &ApprovalId) -> Result<Problem, StoreError> {
    match site.web.store.find_approval(id).await? {
        None => Ok(Problem::NoApproval),
        Some(found) if found.least == mcpproxy_core::Assurance::Factor => missing_factor(site, signed).await,
        Some(_) => Ok(Problem::NotPresent),
    }
}

async fn missing_factor(site: &Site, signed: &Signed) -> Result<Problem, StoreError> {
    let user = site.web.store.find_user(signed.name()).await?;
    let factors = user.map(|user| Factors::of(&user)).unwrap_or_default();
    Ok(Problem::StepUpRequired(factors.names()))
}

fn person(who: &Who) -> Result<&Signed, Problem> {
    match who {
        Who::Person(signed) => Ok(signed),
        Who::Nobody | Who::Agent(_) | Who::Key => Err(Problem::NotSignedIn),
    }
}

fn decider(who: &Who) -> Result<Decider, Problem> {
    match who {
        Who::Person(signed) => Ok(Decider::User(signed.user().clone())),
        Who::Key => Ok(Decider::AdminKey),
        Who::Nobody | Who::Agent(_) => Err(Problem::Nobody),
    }
}

fn not_decided(reason: NotDecided) -> Problem {
    match reason {
        NotDecided::NotFound => Problem::NoApproval,
        NotDecided::Over(state) => Problem::Over(state),
        NotDecided::StepUpRequired => Problem::StepUpRequired(Vec::new()),
    }
}

fn unwritten(error: StoreError) -> Problem {
    tracing::warn!(error = &error as &dyn std::error::Error, "could not write a decision down");
    Problem::LogUnwritable
}

/// What cannot be an id names none.
fn approval_id(id: Result<Path<String>, PathRejection>) -> Result<ApprovalId, Problem> {
    let Path(id) = id.map_err(|_| Problem::NoApproval)?;
    ApprovalId::parse(&id).ok_or(Problem::NoApproval)
}

/// No body at all is an empty object.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    let text = json::read(body).map_err(|error| Problem::BadBody(error.to_string()))?;
    // What was sent may be a password, and must not come back in a message.
    serde_json::from_str(text).map_err(|error| Problem::BadBody(body_fault(&error)))
}

fn body_fault(error: &serde_json::Error) -> String {
    format!("the body is not what this path takes (line {}, column {})", error.line(), error.column())
}

fn session_headers(secret: &str) -> HeaderMap {
    let cookie = format!("mcpproxy_session={secret}").parse();
    HeaderMap::from_iter(cookie.ok().map(|cookie| (http::header::COOKIE, cookie)))
}
