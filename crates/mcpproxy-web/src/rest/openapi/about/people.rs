//! What the document says about approvals, grants and signing in.

use http::StatusCode;
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use super::{About, Body, ok, reference};
use crate::rest::endpoint::Endpoint;
use crate::wire;

const APPROVALS: &str = "Approvals";
const SIGNING_IN: &str = "Signing in";

pub(super) fn about(endpoint: Endpoint) -> About {
    match endpoint {
        Endpoint::Grants | Endpoint::MakeGrant | Endpoint::RevokeGrant => about_grants(endpoint),
        Endpoint::LogIn | Endpoint::LogOut => about_signing_in(endpoint),
        _ => about_approvals(endpoint),
    }
}

fn about_approvals(endpoint: Endpoint) -> About {
    let one = || Body::Json(reference::<wire::Approval>);
    let (name, summary, description, answers) = match endpoint {
        Endpoint::Approval => (
            "approval",
            "One approval, with all that helps to decide",
            "The arguments masked, how they differ from the last call of this kind that was approved (found with the true values), \
             and the last dry run.",
            ok("The approval.", Body::Json(reference::<wire::WholeApproval>)),
        ),
        Endpoint::WholeApproval => (
            "whole_approval",
            "One approval, for the person who decides",
            "The same with nothing masked, as long as there is something to decide. Takes a person's session; agents and the \
             admin key never see it.",
            ok("The approval.", Body::Json(reference::<wire::WholeApproval>)),
        ),
        Endpoint::ApprovalStatus => (
            "approval_status",
            "How far an approval has come",
            "An agent asks about its own approvals; those of others are not found.",
            ok("How far it has come.", Body::Json(reference::<wire::ApprovalStatus>)),
        ),
        Endpoint::Approve => (
            "approve",
            "Approve a call, once",
            "Takes a person's session, and a fresh code where the approval says `needs_step_up`. Agents and the admin key \
             never approve; that they tried is written down.",
            ok("Approved.", one()),
        ),
        Endpoint::Deny => (
            "deny",
            "Deny a call",
            "Also takes back a yes that was not used yet. The comment goes to the agent.",
            ok("Denied.", one()),
        ),
        _ => (
            "approvals",
            "Approvals, newest first",
            "Without their arguments. `next` is the cursor of the next page, as long as it is not null.",
            ok("A page.", Body::Json(reference::<wire::Approvals>)),
        ),
    };
    About { name, group: APPROVALS, summary, description, answers }
}

fn about_grants(endpoint: Endpoint) -> About {
    let one = || Body::Json(reference::<wire::Grant>);
    let (name, summary, description, answers) = match endpoint {
        Endpoint::MakeGrant => (
            "make_grant",
            "Allow more calls like one",
            "Approves a pending call, and with it more of the same agent and tool: for arguments that match a JSON Schema, for \
             at most 15 minutes. Both are done or neither. Takes a person's session and a fresh code. Never for critical calls.",
            vec![(StatusCode::CREATED, "The grant.", one())],
        ),
        Endpoint::RevokeGrant => ("revoke_grant", "Take a grant back", "At once.", ok("The grant, revoked.", one())),
        _ => (
            "grants",
            "Standing grants, newest first",
            "Those in force.",
            ok("The grants.", Body::Json(reference::<wire::Grants>)),
        ),
    };
    About { name, group: APPROVALS, summary, description, answers }
}

fn about_signing_in(endpoint: Endpoint) -> About {
    let (name, summary, description, answers) = match endpoint {
        Endpoint::LogIn => (
            "log_in",
            "Sign in as a person",
            "For programs in front of which a person sits. Sets the cookie of the session; it ends after 15 minutes without \
             a request, and after 12 hours.",
            ok("Signed in.", Body::Json(reference::<wire::LoggedIn>)),
        ),
        _ => ("log_out", "Sign out", "Ends the session.", ok("Signed out.", Body::Json(reference::<wire::Signed>))),
    };
    About { name, group: SIGNING_IN, summary, description, answers }
}

pub(super) fn body(endpoint: Endpoint) -> Option<(RefOr<Schema>, Value)> {
    match endpoint {
        Endpoint::Approve => Some((reference::<wire::Approve>(), json!({"totp": "123456"}))),
        Endpoint::Deny => Some((reference::<wire::Deny>(), json!({"comment": "Ask Max first."}))),
        Endpoint::MakeGrant => Some((
            reference::<wire::MakeGrant>(),
            json!({
                "from": "01K9ZQ4B2R0000000000000000",
                "schema": {"properties": {"id": {"const": 7}}, "required": ["id"], "additionalProperties": false},
                "minutes": 15,
                "uses": 5,
                "totp": "123456",
            }),
        )),
        Endpoint::LogIn => Some((reference::<wire::LogIn>(), json!({"name": "anna", "password": "correct horse"}))),
        _ => None,
    }
}

pub(super) fn own_refusals(endpoint: Endpoint) -> Vec<(StatusCode, &'static str)> {
    const NONE: (StatusCode, &str) = (StatusCode::NOT_FOUND, "No such approval.");
    const OVER: (StatusCode, &str) = (StatusCode::CONFLICT, "It was decided already, or its time is over.");
    const TRIES: (StatusCode, &str) = (StatusCode::TOO_MANY_REQUESTS, "Too many wrong tries; `Retry-After` says when.");
    const AWAY: (StatusCode, &str) =
        (StatusCode::SERVICE_UNAVAILABLE, "The log cannot be read or written at the moment.");
    const LARGE: (StatusCode, &str) = (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large.");
    match endpoint {
        Endpoint::Approval | Endpoint::WholeApproval | Endpoint::ApprovalStatus => vec![NONE, AWAY],
        Endpoint::Approve => vec![NONE, OVER, LARGE, TRIES, AWAY],
        Endpoint::Deny => vec![NONE, OVER, LARGE, AWAY],
        Endpoint::MakeGrant => vec![NONE, LARGE, TRIES, AWAY],
        Endpoint::RevokeGrant => vec![(StatusCode::NOT_FOUND, "No such grant in force."), AWAY],
        Endpoint::LogIn => vec![LARGE, TRIES, AWAY],
        _ => vec![AWAY],
    }
}
