//! Decides if the sender of a request may use a REST endpoint.
//!
//! Each row in `rest` names an [`Access`]. [`admit`] compares it with the identity of the sender, in front of every
//! handler. The match is complete: a new access level or identity does not compile until every combination is decided.
//!
//! A user's browser sends the session cookie with every request, even if another page triggered the request. So
//! everything but GET also needs our own origin and the CSRF token, which other pages cannot read.

use http::Method;
use http::request::Parts;
use mcpproxy_core::settings::Secret;
use subtle::ConstantTimeEq as _;

use super::identity::{AppState, Identity, SignedInUser};
use super::origin::{self, CSRF_HEADER};
use crate::Web;
use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Contains nothing worth protecting.
    Everybody,
    /// The admin key, or a user.
    Operator,
    /// The admin key, a user, or the token for metrics.
    Metrics,
    /// A user with a second factor.
    User,
    /// The agent that the answer is about, the admin key, or a user.
    OwnStatus,
    /// Users who are not signed in yet. Agent tokens and the admin key are refused.
    SignIn,
    /// A user, with or without a second factor.
    Session,
}

pub(crate) async fn admit(
    app: &AppState,
    access: Access,
    decides: bool,
    identity: &Identity,
    parts: &Parts,
) -> Result<(), Problem> {
    if decides
        && matches!(
            (access, identity),
            (Access::User, Identity::AdminKey | Identity::Agent(_)) | (_, Identity::Agent(_))
        )
    {
        app.note_refused_decision(identity, parts.uri.path()).await;
        return Err(if matches!(identity, Identity::AdminKey) {
            Problem::KEY_CANNOT_APPROVE
        } else {
            Problem::AGENT_CANNOT_DECIDE
        });
    }
    match (access, identity) {
        (Access::Everybody, _)
        | (Access::Operator | Access::Metrics, Identity::AdminKey)
        | (Access::OwnStatus, Identity::AdminKey | Identity::Agent(_)) => Ok(()),
        (Access::SignIn, Identity::Anonymous) => is_own(app, parts),
        (Access::SignIn, Identity::User(_)) => is_own(app, parts),
        (Access::Session, Identity::User(signed)) => is_meant(app, signed, parts),
        (Access::Metrics, Identity::Agent(token)) if is_metrics_token(&app.web, token) => Ok(()),
        (Access::Operator | Access::Metrics | Access::User | Access::OwnStatus, Identity::User(signed)) => {
            is_meant(app, signed, parts)?;
            if signed.session.is_enrolled { Ok(()) } else { Err(Problem::NOT_ENROLLED) }
        }
        (Access::User | Access::Session | Access::SignIn, Identity::AdminKey) => Err(Problem::KEY_NOT_ALLOWED),
        (Access::Operator | Access::Metrics | Access::User | Access::Session | Access::SignIn, Identity::Agent(_)) => {
            Err(Problem::AGENT_NOT_ALLOWED)
        }
        (Access::User | Access::Session, Identity::Anonymous) => Err(Problem::NOT_SIGNED_IN),
        (Access::Operator | Access::Metrics | Access::OwnStatus, Identity::Anonymous) => Err(Problem::UNAUTHENTICATED),
    }
}

/// Checks the token that opens the metrics and nothing else.
pub(crate) fn is_metrics_token(web: &Web, given: &str) -> bool {
    let settings = web.gateway.settings();
    let is_same = |token: &Secret| bool::from(token.expose().as_bytes().ct_eq(given.as_bytes()));
    settings.metrics.token.as_ref().is_some_and(is_same)
}

/// Rejects a request that another page made the user's browser send.
fn is_meant(app: &AppState, signed: &SignedInUser, parts: &Parts) -> Result<(), Problem> {
    if is_safe(&parts.method) {
        return Ok(());
    }
    is_own(app, parts)?;
    let given = parts.headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if origin::is_token(given, &signed.session.csrf) { Ok(()) } else { Err(Problem::CSRF_TOKEN_WRONG) }
}

fn is_own(app: &AppState, parts: &Parts) -> Result<(), Problem> {
    if origin::is_own(&parts.headers, &app.web.facts.base_url) { Ok(()) } else { Err(Problem::ORIGIN_NOT_ALLOWED) }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
