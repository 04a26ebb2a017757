//! The REST endpoints for sign-ins at servers that ask for OAuth.
//!
//! Only a signed-in user begins one, with the same proof of presence as for an approval. Otherwise an agent with a shell
//! could connect a server to an account of its choice.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_gateway::{SignInError, SignInKind, SignInSession, StartedFrom};

use super::approvals::{read, signed_in_user, unwritten};
use super::endpoint::{
    Answer, BODY_TOO_LARGE, Body, Endpoint, ErrorAnswer, Group, LOG_UNAVAILABLE, NO_SERVER, TOO_MANY_TRIES,
};
use super::reviews::presence;
use super::servers::server_name;
use crate::auth::access::Access;
use crate::auth::identity::{AppState, Identity};
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "sign_in_to_server",
        method: Verb::Post,
        path: "/api/v1/servers/{name}/login",
        access: Access::User,
        decides: true,
        parameters: &[],
        body: Some(Body::json::<wire::BeginSignIn>(r#"{"page_key": "…"}"#)),
        group: Group::Servers,
        summary: "Begin a sign-in at a server",
        description: "For a server that asks for OAuth. Open `url` in a browser within 10 minutes. The provider returns \
                      the browser to the gateway, which then connects the server. The sign-in ends only while the \
                      session that began it lasts. Needs a user session with `page_key`, or a fresh code. Agents and the \
                      admin key cannot sign in. A refused attempt is recorded.",
        answers: &[Answer::json::<wire::SignInStarted>(StatusCode::OK, "The sign-in has begun.")],
        errors: &[NO_SERVER, NOT_POSSIBLE, BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
        handler: |method| on(method, begin),
    },
    Endpoint {
        name: "sign_in_progress",
        method: Verb::Get,
        path: "/api/v1/servers/{name}/login",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Servers,
        summary: "Show the newest sign-in at a server",
        description: "Ask again until `state` is no longer `waiting`. It contains no token and no link, so the admin key can \
                      read it too: `mcpproxy servers login` waits for a user who signs in on a page.",
        answers: &[Answer::json::<wire::SignInProgress>(StatusCode::OK, "The newest sign-in.")],
        errors: &[NO_SIGN_IN],
        handler: |method| on(method, progress),
    },
    Endpoint {
        name: "sign_out_of_server",
        method: Verb::Post,
        path: "/api/v1/servers/{name}/logout",
        access: Access::User,
        decides: true,
        parameters: &[],
        body: None,
        group: Group::Servers,
        summary: "Sign out at a server",
        description: "Removes the tokens, revokes them at the provider if it supports that, and disconnects the server.",
        answers: &[Answer::json::<wire::SignedOut>(StatusCode::OK, "There is no sign-in any more.")],
        errors: &[NO_SERVER, NOT_POSSIBLE, LOG_UNAVAILABLE],
        handler: |method| on(method, sign_out),
    },
];

const NOT_POSSIBLE: ErrorAnswer =
    (StatusCode::CONFLICT, "The server asks for no sign-in, or its provider cannot be used. The message says why.");
const NO_SIGN_IN: ErrorAnswer = (StatusCode::NOT_FOUND, "No sign-in has begun at this server.");

async fn begin(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    name: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::SignInStarted>, Problem> {
    let (signed, name) = (signed_in_user(&identity)?, server_name(name)?);
    let asked: wire::BeginSignIn = read(&body?)?;
    let (totp, page_key) = (asked.totp.as_deref(), asked.page_key.as_deref());
    let present = presence(&app, signed, totp, page_key, name.as_str()).await?;
    let kind = if asked.device { SignInKind::Device } else { SignInKind::Browser };
    let from = StartedFrom::Terminal;
    let session = SignInSession { user: signed.name().to_owned(), secret: signed.secret.clone(), from };
    let started = app.web.gateway.begin_sign_in(&name, kind, session, &present).await.map_err(not_signed_in)?;
    Ok(Json(started.into()))
}

async fn progress(
    State(web): State<Arc<Web>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::SignInProgress>, Problem> {
    let progress = web.gateway.sign_in_progress(&server_name(name)?);
    progress.map(|progress| Json(progress.into())).ok_or(Problem::SIGN_IN_NOT_FOUND)
}

async fn sign_out(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::SignedOut>, Problem> {
    let (signed, name) = (signed_in_user(&identity)?, server_name(name)?);
    let signed_out = app.web.gateway.sign_out(&name, signed.name()).await.map_err(not_signed_in)?;
    Ok(Json(wire::SignedOut { signed_out }))
}

fn not_signed_in(error: SignInError) -> Problem {
    match error {
        SignInError::NoServer => Problem::SERVER_NOT_FOUND,
        SignInError::NotPossible(reason) => Problem::SIGN_IN_NOT_POSSIBLE.message(reason),
        SignInError::Failed(reason) => Problem::SIGN_IN_FAILED.message(reason),
        SignInError::Store(error) => unwritten(error),
    }
}
