//! The REST endpoints for reviews: definitions that wait for a user, and definitions that are accepted.
//!
//! Only a signed-in user decides, with the same proof of presence as for an approval. A decision names the pin of the
//! version that the user has read. If another version waits meanwhile, the decision has no effect, and its result says
//! so.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::routing::on;
use axum::{Extension, Json};
use http::{StatusCode, Uri};
use mcpproxy_core::trust::{DefinitionKey, DefinitionKind};
use mcpproxy_gateway::{LockOf, LockView, ReviewError, ReviewOf};
use mcpproxy_store::{PresenceProof, StoreError};

use super::approvals::{read, signed_in_user, step_up, unwritten};
use super::endpoint::{
    Answer, BODY_TOO_LARGE, Body, Endpoint, ErrorAnswer, Group, LOG_UNAVAILABLE, LOG_UNREADABLE, NO_SERVER,
    TOO_MANY_TRIES,
};
use super::parameters::{Parameter, QueryValues, ValueType, optional};
use super::servers::server_name;
use crate::auth::access::Access;
use crate::auth::identity::{AppState, Identity, SignedInUser};
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "review",
        method: Verb::Get,
        path: "/api/v1/servers/{name}/review",
        access: Access::Operator,
        decides: false,
        parameters: &[REJECTED],
        body: None,
        group: Group::Servers,
        summary: "Show what waits for review",
        description: "The definitions of a server that agents do not see until a user accepts them: tools, prompts, \
                      resource templates and instructions. Each with the accepted version before it, the meaning of the \
                      changes, and the findings of the scan.",
        answers: &[Answer::json::<wire::Review>(StatusCode::OK, "The definitions that wait.")],
        errors: &[NO_SERVER, UNREADABLE, LOG_UNREADABLE],
        handler: |method| on(method, review),
    },
    Endpoint {
        name: "decide_review",
        method: Verb::Post,
        path: "/api/v1/servers/{name}/review",
        access: Access::User,
        decides: true,
        parameters: &[],
        body: Some(Body::json::<wire::DecideReview>(EXAMPLE)),
        group: Group::Servers,
        summary: "Accept or reject definitions",
        description: "Send the `pin` of each version that you have read, at most 10,000 decisions at a time. A decision \
                      about a version that no longer waits has no effect, and its `result` says so. To accept a version \
                      that a user rejected, send it with `rejected`. Needs a user session with `page_key`, or a fresh \
                      code. Agents and the admin key cannot decide. A refused attempt is \
                      recorded.",
        answers: &[Answer::json::<wire::ReviewResults>(StatusCode::OK, "One result for each decision.")],
        errors: &[NO_SERVER, NOT_DECIDED, BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
        handler: |method| on(method, decide),
    },
    Endpoint {
        name: "definitions",
        method: Verb::Get,
        path: "/api/v1/servers/{name}/definitions",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Servers,
        summary: "List the accepted definitions of a server",
        description: "Each with its pin, its text, when it was first seen, and who accepted it.",
        answers: &[Answer::json::<wire::Definitions>(StatusCode::OK, "The definitions.")],
        errors: &[NO_SERVER, UNREADABLE, LOG_UNREADABLE],
        handler: |method| on(method, definitions),
    },
    Endpoint {
        name: "history",
        method: Verb::Get,
        path: "/api/v1/servers/{name}/history",
        access: Access::Operator,
        decides: false,
        parameters: &[KIND, DEFINITION],
        body: None,
        group: Group::Servers,
        summary: "Show the versions of a definition",
        description: "The accepted version, and at most 20 former and 20 rejected ones. Each with its text, and with who \
                      accepted or rejected it. Empty if nobody has decided about it.",
        answers: &[Answer::json::<wire::DefinitionHistory>(StatusCode::OK, "The versions.")],
        errors: &[NO_SERVER, UNREADABLE, LOG_UNREADABLE],
        handler: |method| on(method, history),
    },
    Endpoint {
        name: "lock",
        method: Verb::Get,
        path: "/api/v1/lock",
        access: Access::Operator,
        decides: false,
        parameters: &[LISTED],
        body: None,
        group: Group::Servers,
        summary: "Make a lock file",
        description: "The text of a lock file with the definitions of all enabled servers that agents see. With \
                      `listed=true`, with what the servers list now, also what is quarantined.",
        answers: &[Answer::json::<wire::LockFile>(StatusCode::OK, "The lock file.")],
        errors: &[UNREADABLE, LOG_UNREADABLE],
        handler: |method| on(method, lock),
    },
    Endpoint {
        name: "announce_server",
        method: Verb::Post,
        path: "/api/v1/servers/{name}/announce",
        access: Access::Operator,
        decides: true,
        parameters: &[],
        body: Some(Body::json::<wire::AnnounceServer>(ANNOUNCED)),
        group: Group::Servers,
        summary: "Announce a server that you add by hand",
        description: "`mcpproxy servers add` calls this at a terminal, before it writes the settings. If a server with this \
                      `identity` appears in the settings within a minute, its first definitions are accepted without a \
                      review. Findings of severity high wait for a review all the same. Needs a user session with \
                      `page_key`, or a fresh code. Until the first user exists, the admin key is enough. A refused \
                      attempt is recorded.",
        answers: &[Answer::json::<wire::Health>(StatusCode::OK, "The announcement counts once.")],
        errors: &[NO_SERVER, BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
        handler: |method| on(method, announce),
    },
];

const EXAMPLE: &str = r#"{"accept": [{"kind": "tool", "name": "get_time", "pin": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}], "reject": [], "page_key": "…"}"#;
const LISTED: Parameter =
    optional("listed", "`true` takes what the servers list now, instead of what agents see.", ValueType::Switch);
const ANNOUNCED: &str =
    r#"{"identity": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "page_key": "…"}"#;
const REJECTED: Parameter =
    optional("rejected", "`true` adds the listed definitions that a user rejected.", ValueType::Switch);
const KIND: Parameter =
    optional("kind", "The kind of definition. Without it, a tool.", ValueType::Choice(wire::definition_kinds));
const DEFINITION: Parameter = Parameter {
    example: Some("delete_user"),
    ..optional("definition", "The server's own name for it. The instructions have none.", ValueType::Text)
};
const NOT_DECIDED: ErrorAnswer = (
    StatusCode::CONFLICT,
    "The gateway runs with a lock file, which alone decides, or a stored definition cannot be read.",
);
const UNREADABLE: ErrorAnswer = (StatusCode::CONFLICT, "A stored definition of the server cannot be read.");

async fn review(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::Review>, Problem> {
    let of = if query.is_on("rejected") { ReviewOf::WaitingAndRejected } else { ReviewOf::Waiting };
    let review = web.gateway.review(&server_name(name)?, of).await.map_err(unread)?;
    Ok(Json(review.into()))
}

async fn decide(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    name: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::ReviewResults>, Problem> {
    let (signed, name) = (signed_in_user(&identity)?, server_name(name)?);
    let asked: wire::DecideReview = read(&body?)?;
    let decisions = asked.decisions().map_err(|message| Problem::BAD_BODY.message(message))?;
    let (totp, page_key) = (asked.totp.as_deref(), asked.page_key.as_deref());
    let present = presence(&app, signed, totp, page_key, name.as_str()).await?;
    let decided = app.web.gateway.decide(&name, &decisions, &present).await.map_err(|error| match error {
        ReviewError::Store(StoreError::Corrupt { .. }) | ReviewError::NoServer | ReviewError::Locked => unread(error),
        ReviewError::Store(error) => unwritten(error),
    })?;
    Ok(Json(wire::ReviewResults::new(decisions, &decided)))
}

/// Proves that the user is there: a fresh code, or the page key beside the session cookie.
pub(super) async fn presence(
    app: &AppState,
    signed: &SignedInUser,
    totp: Option<&str>,
    page_key: Option<&str>,
    about: &str,
) -> Result<PresenceProof, Problem> {
    match totp {
        Some(code) => Ok(step_up(app, signed, Some(code), about).await?.present()),
        None => page_key.and_then(|key| signed.session.present(key)).ok_or(Problem::PAGE_KEY_REQUIRED),
    }
}

async fn definitions(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::Definitions>, Problem> {
    let name = server_name(name)?;
    let accepted = web.gateway.accepted(&name).await.map_err(unread)?;
    let definitions = accepted.into_iter().map(Into::into).collect();
    Ok(Json(wire::Definitions { server: name.to_string(), definitions }))
}

async fn history(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::DefinitionHistory>, Problem> {
    let name = server_name(name)?;
    let kind = query.text("kind").and_then(DefinitionKind::parse).unwrap_or(DefinitionKind::Tool);
    let key = DefinitionKey { kind, name: query.text("definition").unwrap_or_default().into() };
    let history = web.gateway.history(&name, &key).await.map_err(unread)?;
    Ok(Json(wire::DefinitionHistory::new(name.to_string(), &key, history)))
}

async fn lock(
    State(web): State<Arc<Web>>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::LockFile>, Problem> {
    let of = if query.is_on("listed") { LockOf::Listed } else { LockOf::Accepted };
    let LockView { lock, unreached, quarantined } = web.gateway.lock(of).await.map_err(unread)?;
    let unreached = unreached.iter().map(ToString::to_string).collect();
    Ok(Json(wire::LockFile { lock: lock.write(), unreached, quarantined }))
}

/// Takes an announcement from a user. The admin key is a file that an agent on the same account may read, so it counts
/// only while nobody could sign in.
async fn announce(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
    name: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Health>, Problem> {
    let name = server_name(name)?;
    let asked: wire::AnnounceServer = read(&body?)?;
    let server = asked.identity().map_err(|message| Problem::BAD_BODY.message(message))?;
    match &identity {
        Identity::User(signed) => {
            let (totp, page_key) = (asked.totp.as_deref(), asked.page_key.as_deref());
            presence(&app, signed, totp, page_key, name.as_str()).await?;
        }
        Identity::AdminKey if !app.web.store.has_users().await? => {}
        Identity::AdminKey => {
            app.note_refused_decision(&identity, uri.path()).await;
            return Err(Problem::KEY_CANNOT_ANNOUNCE);
        }
        Identity::Anonymous | Identity::Agent(_) => return Err(Problem::UNAUTHENTICATED),
    }
    app.web.gateway.choose(server);
    Ok(Json(wire::Health { status: "ok" }))
}

fn unread(error: ReviewError) -> Problem {
    match error {
        ReviewError::NoServer => Problem::SERVER_NOT_FOUND,
        ReviewError::Locked => Problem::DEFINITIONS_LOCKED,
        ReviewError::Store(StoreError::Corrupt { what }) => {
            tracing::warn!(what, "a stored definition cannot be read");
            Problem::DEFINITIONS_UNREADABLE
        }
        ReviewError::Store(error) => error.into(),
    }
}
