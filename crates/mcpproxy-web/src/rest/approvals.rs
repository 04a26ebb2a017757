//! The REST endpoints for approval requests: list, show, approve, deny.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_core::{ApprovalId, ApprovalState, Untrusted, json};
use mcpproxy_gateway::{Decider, DecisionResult, NotDecided};
use mcpproxy_store::{ApprovalFilter, LIMIT_MAX, StepUpProof, StoreError};
use serde::de::DeserializeOwned;

use super::endpoint::{Answer, BODY_TOO_LARGE, Body, Endpoint, ErrorAnswer, Group, LOG_UNAVAILABLE, TOO_MANY_TRIES};
use super::parameters::{self, Parameter, QueryValues, ValueType, optional};
use crate::auth::access::Access;
use crate::auth::factor::{FactorError, FactorInput, Factors, StepUpResult};
use crate::auth::identity::{AppState, Identity, SignedInUser};
use crate::diff::Audience;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::wire;

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "approvals",
        method: Verb::Get,
        path: "/api/v1/approvals",
        access: Access::Operator,
        decides: false,
        parameters: &[STATE, parameters::AGENT, TOOL, LIMIT, CURSOR],
        body: None,
        group: Group::Approvals,
        summary: "List approval requests, newest first",
        description: "Without their arguments. `next` is the cursor of the next page, or null on the last page.",
        answers: &[Answer::json::<wire::Approvals>(StatusCode::OK, "A page of approval requests.")],
        errors: &[LOG_UNAVAILABLE],
        handler: |method| on(method, list),
    },
    Endpoint {
        name: "approval",
        method: Verb::Get,
        path: "/api/v1/approvals/{approval}",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Approvals,
        summary: "Show an approval request",
        description: "Masked arguments, their changes since the last approved call of this tool by this agent, and the last dry run. Changes are detected with the real values, before masking.",
        answers: &[Answer::json::<wire::WholeApproval>(StatusCode::OK, "The approval request.")],
        errors: &[NO_APPROVAL, LOG_UNAVAILABLE],
        handler: |method| on(method, find),
    },
    Endpoint {
        name: "whole_approval",
        method: Verb::Get,
        path: "/api/v1/approvals/{approval}/whole",
        access: Access::User,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Approvals,
        summary: "Show an approval request without masks",
        description: "For the approver only. Nothing is masked while the request is pending. Needs a user session. Agents and the admin key never see it.",
        answers: &[Answer::json::<wire::WholeApproval>(StatusCode::OK, "The approval request.")],
        errors: &[NO_APPROVAL, LOG_UNAVAILABLE],
        handler: |method| on(method, whole),
    },
    Endpoint {
        name: "approval_status",
        method: Verb::Get,
        path: "/api/v1/approvals/{approval}/status",
        access: Access::OwnStatus,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Approvals,
        summary: "Show the state of an approval request",
        description: "Agents can read their own approval requests. Those of other agents are reported as not found.",
        answers: &[Answer::json::<wire::ApprovalStatus>(StatusCode::OK, "The state.")],
        errors: &[NO_APPROVAL, LOG_UNAVAILABLE],
        handler: |method| on(method, status),
    },
    Endpoint {
        name: "approve",
        method: Verb::Post,
        path: "/api/v1/approvals/{approval}/approve",
        access: Access::User,
        decides: true,
        parameters: &[],
        body: Some(Body::json::<wire::Approve>(r#"{"totp": "123456"}"#)),
        group: Group::Approvals,
        summary: "Approve a call once",
        description: "Needs a user session, and a fresh code if the approval request says `needs_step_up`. Agents and the admin key cannot approve. A refused attempt is recorded.",
        answers: &[Answer::json::<wire::Approval>(StatusCode::OK, "Approved.")],
        errors: &[NO_APPROVAL, CLOSED, BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
        handler: |method| on(method, approve),
    },
    Endpoint {
        name: "deny",
        method: Verb::Post,
        path: "/api/v1/approvals/{approval}/deny",
        access: Access::Operator,
        decides: true,
        parameters: &[],
        body: Some(Body::json::<wire::Deny>(r#"{"comment": "Ask Max first."}"#)),
        group: Group::Approvals,
        summary: "Deny a call",
        description: "Also withdraws an approval that was not used yet. The agent sees the comment.",
        answers: &[Answer::json::<wire::Approval>(StatusCode::OK, "Denied.")],
        errors: &[NO_APPROVAL, CLOSED, BODY_TOO_LARGE, LOG_UNAVAILABLE],
        handler: |method| on(method, deny),
    },
];

const STATE: Parameter = Parameter {
    example: Some("pending"),
    ..optional(
        "state",
        "The state of the approval request.",
        ValueType::Choice(|| ApprovalState::ALL.map(ApprovalState::as_str).to_vec()),
    )
};
const TOOL: Parameter = optional("tool", "The name of a tool, as `server:tool`.", ValueType::Text);
const LIMIT: Parameter =
    optional("limit", "The maximum number of approval requests.", ValueType::Number { max: LIMIT_MAX, default: 50 });
const CURSOR: Parameter =
    optional("cursor", "`next` of the previous page, the id of an approval request.", ValueType::Text);

pub(super) const NO_APPROVAL: ErrorAnswer = (StatusCode::NOT_FOUND, "No such approval request.");
/// Longest message about a body.
const FAULT_MAX_CHARS: usize = 200;
const CLOSED: ErrorAnswer = (StatusCode::CONFLICT, "The approval request was already decided, or it expired.");

async fn list(
    State(app): State<AppState>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::Approvals>, Problem> {
    let owned = |name: &str| query.text(name).map(str::to_owned);
    let filter = ApprovalFilter {
        state: query.text("state").and_then(ApprovalState::parse),
        agent: owned("agent"),
        tool: owned("tool"),
    };
    let limit = query.number("limit");
    let approvals = app.web.gateway.approvals();
    let cursor = query.text("cursor").map(|cursor| {
        ApprovalId::parse(cursor).ok_or_else(|| {
            Problem::bad_query("cursor: not a cursor of an earlier page", "copy `next` of an answer unchanged")
        })
    });
    let cursor = cursor.transpose()?;
    let page = approvals.list(&filter, cursor.as_ref().map(ApprovalId::as_str), limit).await?;
    Ok(Json(wire::Approvals::new(page, |id| approvals.url(id), app.now_ms())))
}

async fn find(
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::WholeApproval>, Problem> {
    let view = app.web.gateway.approvals().find(&approval_id(id)?).await?.ok_or(Problem::APPROVAL_NOT_FOUND)?;
    Ok(Json(wire::WholeApproval::new(&view, Audience::Observer, app.now_ms())))
}

/// Shows a request without masks. An approver must see what they approve.
async fn whole(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::WholeApproval>, Problem> {
    signed_in_user(&identity)?;
    let view = app.web.gateway.approvals().find(&approval_id(id)?).await?.ok_or(Problem::APPROVAL_NOT_FOUND)?;
    Ok(Json(wire::WholeApproval::new(&view, Audience::Approver, app.now_ms())))
}

/// Returns the state of a request, for the waiting agent, the admin key and users.
async fn status(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::ApprovalStatus>, Problem> {
    let agent = match &identity {
        Identity::Agent(token) => Some(app.web.gateway.find_agent(token).await?.ok_or(Problem::UNAUTHENTICATED)?),
        Identity::AdminKey | Identity::User(_) | Identity::Anonymous => None,
    };
    let approval = app.web.store.find_approval(&approval_id(id)?).await?.ok_or(Problem::APPROVAL_NOT_FOUND)?;
    // An agent cannot learn that requests of other agents exist.
    match agent {
        Some(agent) if agent.name != approval.agent => Err(Problem::APPROVAL_NOT_FOUND),
        Some(_) | None => Ok(Json(wire::ApprovalStatus::new(&approval, app.now_ms()))),
    }
}

async fn approve(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Approval>, Problem> {
    let (signed, id) = (signed_in_user(&identity)?, approval_id(id)?);
    let asked: wire::Approve = read(&body?)?;
    let fresh = match asked.totp.as_deref() {
        Some(code) => Some(step_up(&app, signed, Some(code), id.as_str()).await?),
        None => None,
    };
    let present = match &fresh {
        Some(fresh) => fresh.present(),
        None => match asked.page_key.as_deref().and_then(|key| signed.session.present(key)) {
            Some(present) => present,
            None => return Err(not_present(&app, signed, &id).await?),
        },
    };
    let approvals = app.web.gateway.approvals();
    match approvals.approve(&id, &present, fresh.as_ref()).await.map_err(unwritten)? {
        DecisionResult::Decided(approval) => Ok(Json(wire::Approval::new(&approval, approvals.url(&id), app.now_ms()))),
        DecisionResult::NotDecided(NotDecided::StepUpRequired) => Err(missing_factor(&app, signed).await?),
        DecisionResult::NotDecided(reason) => Err(not_decided(reason)),
    }
}

async fn deny(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Approval>, Problem> {
    let id = approval_id(id)?;
    let asked: wire::Deny = read(&body?)?;
    let approvals = app.web.gateway.approvals();
    match approvals.deny(&id, &decider(&identity)?, asked.comment.as_deref()).await.map_err(unwritten)? {
        DecisionResult::Decided(approval) => Ok(Json(wire::Approval::new(&approval, approvals.url(&id), app.now_ms()))),
        DecisionResult::NotDecided(reason) => Err(not_decided(reason)),
    }
}

/// Verifies a second factor.
pub(super) async fn step_up(
    app: &AppState,
    signed: &SignedInUser,
    totp: Option<&str>,
    purpose: &str,
) -> Result<StepUpProof, Problem> {
    let input = FactorInput { totp, ..FactorInput::default() };
    match app.step_up(signed, input, purpose).await? {
        StepUpResult::Verified(fresh) => Ok(fresh),
        StepUpResult::NotVerified(FactorError::Missing) => Err(missing_factor(app, signed).await?),
        StepUpResult::NotVerified(FactorError::Wrong | FactorError::Confirmation) => Err(Problem::WRONG_CODE),
        StepUpResult::NotVerified(FactorError::TooMany { wait_ms }) => {
            Err(Problem::TOO_MANY_TRIES.retry_after_ms(wait_ms))
        }
    }
}

/// Builds the error for an approval with nothing but a session cookie.
async fn not_present(app: &AppState, signed: &SignedInUser, id: &ApprovalId) -> Result<Problem, StoreError> {
    match app.web.store.find_approval(id).await? {
        None => Ok(Problem::APPROVAL_NOT_FOUND),
        Some(found) if found.least == mcpproxy_core::Assurance::Factor => missing_factor(app, signed).await,
        Some(_) => Ok(Problem::PAGE_KEY_REQUIRED),
    }
}

pub(super) async fn missing_factor(app: &AppState, signed: &SignedInUser) -> Result<Problem, StoreError> {
    let user = app.web.store.find_user(signed.name()).await?;
    let factors = user.map(|user| Factors::of(&user)).unwrap_or_default();
    Ok(Problem::STEP_UP_REQUIRED.factors(factors.names()))
}

pub(super) fn signed_in_user(identity: &Identity) -> Result<&SignedInUser, Problem> {
    match identity {
        Identity::User(signed) => Ok(signed),
        Identity::Anonymous | Identity::Agent(_) | Identity::AdminKey => Err(Problem::NOT_SIGNED_IN),
    }
}

pub(super) fn decider(identity: &Identity) -> Result<Decider, Problem> {
    match identity {
        Identity::User(signed) => Ok(Decider::User(signed.user().clone())),
        Identity::AdminKey => Ok(Decider::AdminKey),
        Identity::Anonymous | Identity::Agent(_) => Err(Problem::UNAUTHENTICATED),
    }
}

pub(super) fn not_decided(reason: NotDecided) -> Problem {
    match reason {
        NotDecided::NotFound => Problem::APPROVAL_NOT_FOUND,
        NotDecided::Over(state) => {
            Problem::APPROVAL_OVER.message(format!("this approval request is already {}", state.as_str()))
        }
        NotDecided::StepUpRequired => Problem::STEP_UP_REQUIRED.factors(Vec::new()),
        NotDecided::OtherContract => Problem::CONTRACTS_DIFFER,
    }
}

pub(super) fn unwritten(error: StoreError) -> Problem {
    tracing::warn!(error = &error as &dyn std::error::Error, "could not write a decision down");
    Problem::LOG_UNAVAILABLE
}

/// Parses an id. An invalid id is reported as unknown.
fn approval_id(id: Result<Path<String>, PathRejection>) -> Result<ApprovalId, Problem> {
    let Path(id) = id.map_err(|_| Problem::APPROVAL_NOT_FOUND)?;
    ApprovalId::parse(&id).ok_or(Problem::APPROVAL_NOT_FOUND)
}

/// Parses a JSON body. An empty body counts as `{}`.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    let text = json::read(body).map_err(|error| Problem::BAD_BODY.message(error.to_string()))?;
    // The message does not quote the body, which may contain a password.
    serde_json::from_str(text).map_err(|error| Problem::BAD_BODY.message(body_fault(&error)))
}

fn body_fault(error: &serde_json::Error) -> String {
    // A name of a member is no secret. Everything else may quote a value.
    let text = error.to_string();
    if text.starts_with("unknown field") || text.starts_with("missing field") {
        return Untrusted::shortened(&text, FAULT_MAX_CHARS).for_json().to_owned();
    }
    format!("the body does not match what this path expects (line {}, column {})", error.line(), error.column())
}
