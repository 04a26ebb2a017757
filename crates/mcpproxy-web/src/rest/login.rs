//! The REST endpoints for signing in and out, for interactive programs.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use http::header::{HeaderMap, SET_COOKIE};

use super::approvals::{read, signed_in_user};
use super::endpoint::{Answer, BODY_TOO_LARGE, Body, Endpoint, Group, LOG_UNAVAILABLE, TOO_MANY_TRIES};
use crate::auth::access::Access;
use crate::auth::factor::Factors;
use crate::auth::identity::{AppState, Identity};
use crate::auth::login::{LoginError, LoginResult};
use crate::auth::{cookie, records};
use crate::peer::Peer;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::wire;

/// Anyone may send this body, so many of them must fit into memory.
const LOG_IN_MAX_BYTES: usize = 16 * 1024;

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "log_in",
        method: Verb::Post,
        path: "/api/v1/login",
        access: Access::SignIn,
        decides: false,
        parameters: &[],
        body: Some(Body::json::<wire::LogIn>(r#"{"name": "anna", "password": "correct horse"}"#)),
        group: Group::SigningIn,
        summary: "Sign in as a user",
        description: "For interactive programs. Sets the session cookie. A session ends after `people.session.idle` without a request (15 minutes by default), and after `people.session.max` in any case (12 hours). Users of an identity provider sign in on the page.",
        answers: &[Answer::json::<wire::LoggedIn>(StatusCode::OK, "Signed in.")],
        errors: &[BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
        handler: |method| on(method, log_in).layer(DefaultBodyLimit::max(LOG_IN_MAX_BYTES)),
    },
    Endpoint {
        name: "log_out",
        method: Verb::Post,
        path: "/api/v1/logout",
        access: Access::Session,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::SigningIn,
        summary: "Sign out",
        description: "Ends the session.",
        answers: &[Answer::json::<wire::Signed>(StatusCode::OK, "Signed out.")],
        errors: &[LOG_UNAVAILABLE],
        handler: |method| on(method, log_out),
    },
];

async fn log_in(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    peer: Peer,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|_| Problem::BODY_TOO_LARGE.hint("the limit for signing in is 16 KiB"))?;
    let wire::LogIn { name, password } = read(&body)?;
    let logged_in = match app.log_in(&name, password, peer).await? {
        LoginResult::LoggedIn(logged_in) => logged_in,
        LoginResult::Refused(LoginError::Wrong(_)) => return Err(Problem::WRONG_LOGIN),
        LoginResult::Refused(LoginError::Off) => return Err(Problem::PASSWORD_OFF),
        LoginResult::Refused(LoginError::TooMany { wait_ms }) => {
            return Err(Problem::TOO_MANY_TRIES.retry_after_ms(wait_ms));
        }
        LoginResult::Refused(LoginError::Busy { wait_ms }) => {
            return Err(Problem::TOO_MANY_SIGN_INS.retry_after_ms(wait_ms));
        }
    };
    if let Identity::User(before) = identity {
        app.web.store.close_session(&before.secret).await?;
    }
    let new = &logged_in.session;
    let max_age_s = app.web.gateway.settings().people.session.max_ms() / 1000;
    let cookie = cookie::set(&new.secret, max_age_s, app.auth.transport).ok_or(Problem::WRONG_LOGIN)?;
    let Identity::User(signed) = app.identify(&session_headers(&new.secret)).await? else {
        return Err(Problem::WRONG_LOGIN);
    };
    let (csrf, factors) = (&signed.session.csrf, Factors::of(&logged_in.user).names());
    let body = wire::LoggedIn::new(&logged_in.user.name, csrf, &new.page_key, factors);
    Ok(([(SET_COOKIE, cookie)], Json(body)).into_response())
}

async fn log_out(State(app): State<AppState>, Extension(identity): Extension<Identity>) -> Result<Response, Problem> {
    let signed = signed_in_user(&identity)?;
    app.web.store.close_session(&signed.secret).await?;
    records::write(&app, records::done("logout", signed.name())).await;
    let body = Json(wire::Signed { signed_in: false });
    Ok(([(SET_COOKIE, cookie::clear(app.auth.transport))], body).into_response())
}

fn session_headers(secret: &str) -> HeaderMap {
    let cookie = format!("mcpproxy_session={secret}").parse();
    HeaderMap::from_iter(cookie.ok().map(|cookie| (http::header::COOKIE, cookie)))
}
