//! Creating an account with an invitation, signing in, signing out.

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::header::{HOST, HeaderMap, HeaderValue, RETRY_AFTER, SET_COOKIE};
use http::{StatusCode, Uri};
use mcpproxy_store::{Invitation, NewSession, StoreError};

use super::page::{Page, PageAccess};
use super::posted::{self, Posted};
use super::{notice, unavailable};
use crate::auth::identity::{AppState, Identity};
use crate::auth::login::{LoginError, LoginResult};
use crate::auth::records;
use crate::auth::{cookie, factor, origin, password};
use crate::peer::Peer;
use crate::query::decode;
use crate::ui::form::Form;
use crate::ui::pages::{Elsewhere, Frame, Login, ProviderButton, Setup, page};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "setup",
        method: Verb::Get,
        path: "/ui/setup/{invitation}",
        access: PageAccess::SignedOut,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, setup),
    },
    Page {
        name: "create_user",
        method: Verb::Post,
        path: "/ui/setup/{invitation}",
        access: PageAccess::SignedOut,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, create_user),
    },
    Page {
        name: "login",
        method: Verb::Get,
        path: "/ui/login",
        access: PageAccess::SignedOut,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, login),
    },
    Page {
        name: "log_in",
        method: Verb::Post,
        path: "/ui/login",
        access: PageAccess::SignedOut,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, log_in),
    },
    Page {
        name: "log_out",
        method: Verb::Post,
        path: "/ui/logout",
        access: PageAccess::Session,
        decides: false,
        sent_from: Some("/ui/approvals"),
        is_stream: false,
        handler: |method| on(method, log_out),
    },
];

const LOGIN: &str = "Sign in";
const SETUP: &str = "Create your account";
/// Tells the sign-in page that a user of the provider has just signed out.
const SIGNED_OUT: &str = "done=signed_out";
const AFTER_PROVIDER: &str = "/ui/login?done=signed_out";
/// The ids of inputs on the setup page.
const NAME: &str = "name";
const PASSWORD: &str = "password";
const PASSWORD_OFF: &str = "This gateway does not accept passwords. Continue with the identity provider.";

async fn login(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let query = uri.query().unwrap_or_default();
    let next = query.split('&').find_map(|pair| pair.strip_prefix("next=")).and_then(decode);
    let next = origin::next_page(next.as_deref());
    match identity {
        Identity::User(_) => Redirect::to(next).into_response(),
        Identity::Anonymous | Identity::Agent(_) | Identity::AdminKey => {
            let mut provider = provider_button(&app, "next", next);
            if let Some(button) = provider.as_mut()
                && query.split('&').any(|pair| pair == SIGNED_OUT)
            {
                button.sign_out = app.provider_sign_out_url().await;
            }
            let is_empty = match app.web.store.has_users().await {
                Ok(has_users) => !has_users && provider.is_none(),
                Err(error) => return unavailable(&error),
            };
            let has_password = app.web.gateway.settings().people.password;
            let elsewhere = elsewhere(&app, &headers, next).filter(|_| !is_empty);
            let frame = Frame::outside(LOGIN);
            page(
                StatusCode::OK,
                &Login { frame, error: None, name: "", next, has_password, provider, elsewhere, is_empty },
            )
        }
    }
}

async fn log_in(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let form = match Form::read(&headers, body).await {
        Ok(form) => form,
        Err(error) => return posted::refusal(error),
    };
    let (name, next) = (form.or_empty("name").trim(), origin::next_page(form.text("next")));
    let again = |status: StatusCode, error: &str| {
        let has_password = app.web.gateway.settings().people.password;
        let provider = provider_button(&app, "next", next);
        let elsewhere = elsewhere(&app, &headers, next);
        let (frame, error, is_empty) = (Frame::outside(LOGIN), Some(error), false);
        page(status, &Login { frame, error, name, next, has_password, provider, elsewhere, is_empty })
    };
    let later = |reason: &str, wait_ms: i64| {
        let error = format!("{reason} Wait {} and try again.", factor::waiting(wait_ms));
        let mut response = again(StatusCode::TOO_MANY_REQUESTS, &error);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait_ms / 1000 + 1));
        response
    };
    match app.log_in(name, form.or_empty("password").to_owned(), peer).await {
        Ok(LoginResult::LoggedIn(logged_in)) => {
            if let Identity::User(before) = &identity
                && let Err(error) = app.web.store.close_session(&before.secret).await
            {
                return unavailable(&error);
            }
            enter(&app, &logged_in.session, next)
        }
        Ok(LoginResult::Refused(LoginError::Wrong(_))) => {
            again(StatusCode::UNAUTHORIZED, "The name or the password is wrong.")
        }
        Ok(LoginResult::Refused(LoginError::Off)) => again(StatusCode::FORBIDDEN, PASSWORD_OFF),
        Ok(LoginResult::Refused(LoginError::TooMany { wait_ms })) => later("Too many failed attempts.", wait_ms),
        Ok(LoginResult::Refused(LoginError::Busy { wait_ms })) => later("Too many sign-ins are under way.", wait_ms),
        Err(error) => unavailable(&error),
    }
}

/// Returns the address of the gateway's links, if the browser uses another one.
fn elsewhere(app: &AppState, headers: &HeaderMap, next: &str) -> Option<Elsewhere> {
    let base_url = &app.web.facts.base_url;
    let own = base_url.strip_prefix("http://").or_else(|| base_url.strip_prefix("https://"))?;
    let here = headers.get(HOST)?.to_str().ok().filter(|here| !here.eq_ignore_ascii_case(own))?;
    Some(Elsewhere { here: here.to_owned(), base_url: base_url.clone(), href: format!("{base_url}{next}") })
}

/// Sets the cookie and passes the page key behind the `#` of the address, which browsers never send. `assets/key.js`
/// stores it. See `auth/presence.rs`.
fn enter(app: &AppState, session: &NewSession, next: &str) -> Response {
    let max_age_s = app.web.gateway.settings().people.session.max_ms() / 1000;
    match cookie::set(&session.secret, max_age_s, app.auth.transport) {
        Some(cookie) => {
            ([(SET_COOKIE, cookie)], Redirect::to(&format!("{next}#key={}", session.page_key))).into_response()
        }
        None => super::signed_out("/ui/approvals"),
    }
}

async fn log_out(State(app): State<AppState>, posted: Posted) -> Response {
    let closed = app.web.store.close_session(&posted.signed.secret).await;
    records::write(&app, records::done("logout", posted.signed.name())).await;
    match closed {
        Ok(()) => {
            // The page offers to sign out of the provider, too.
            let next = if posted.signed.is_of_provider() { AFTER_PROVIDER } else { "/ui/login" };
            ([(SET_COOKIE, cookie::clear(app.auth.transport))], Redirect::to(next)).into_response()
        }
        Err(error) => unavailable(&error),
    }
}

async fn setup(State(app): State<AppState>, invitation: Result<Path<String>, PathRejection>) -> Response {
    let Ok(Path(invitation)) = invitation else { return not_invited() };
    match app.web.store.find_invitation(&invitation, app.now_ms()).await {
        Ok(Some(found)) => again(&app, &invitation, &Typed::of(&found, ""), None),
        Ok(None) => not_invited(),
        Err(error) => unavailable(&error),
    }
}

async fn create_user(
    State(app): State<AppState>,
    invitation: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Ok(Path(invitation)) = invitation else { return not_invited() };
    // Checked before hashing, so that strangers cannot make us work.
    let found = match app.web.store.find_invitation(&invitation, app.now_ms()).await {
        Ok(Some(found)) => found,
        Ok(None) => return not_invited(),
        Err(error) => return unavailable(&error),
    };
    let form = match Form::read(&headers, body).await {
        Ok(form) => form,
        Err(error) => return posted::refusal(error),
    };
    match create(&app, &invitation, &found, &form).await {
        Ok(response) => response,
        Err(error) => unavailable(&error),
    }
}

async fn create(app: &AppState, invitation: &str, found: &Invitation, form: &Form) -> Result<Response, StoreError> {
    let typed = Typed::of(found, form.or_empty("name").trim());
    let (name, password) = (typed.name, form.or_empty("password"));
    let refuse = |wrong: &'static str, error: &str| Ok(again(app, invitation, &typed, Some((wrong, error))));
    if !app.web.gateway.settings().people.password {
        return refuse(PASSWORD, PASSWORD_OFF);
    }
    if let Some(weakness) = password::weakness(name, password) {
        return refuse(PASSWORD, weakness.message());
    }
    if form.or_empty("again") != password {
        // The page does not repeat passwords, so both are typed again.
        return refuse(PASSWORD, "The passwords do not match.");
    }
    let Some(hash) = app.auth.passwords.hash(password.to_owned()).await else {
        return refuse(PASSWORD, "The password could not be saved. Try again.");
    };
    match app.web.store.create_user(invitation, name, &hash, app.now_ms()).await {
        Ok(true) => {}
        Ok(false) => return Ok(not_invited()),
        Err(StoreError::UserName) => {
            return refuse(NAME, "Use 1 to 64 letters, digits and . _ - @ +, without spaces.");
        }
        Err(StoreError::UserExists { .. }) => return refuse(NAME, "This name is already taken. Choose another one."),
        Err(error) => return Err(error),
    }
    records::write(app, records::done("user_created", name)).await;
    Ok(match app.open_session(name).await? {
        Some(session) => enter(app, &session, "/ui/account"),
        None => Redirect::to("/ui/login").into_response(),
    })
}

/// The name of the new account.
struct Typed<'a> {
    name: &'a str,
    /// The invitation is for this name only.
    is_named: bool,
}

impl<'a> Typed<'a> {
    fn of(found: &'a Invitation, typed: &'a str) -> Self {
        let name = found.user_name.as_deref();
        Self { name: name.unwrap_or(typed), is_named: name.is_some() }
    }
}

/// Shows the form, or shows it again with an error about one of its inputs.
fn again(app: &AppState, invitation: &str, typed: &Typed<'_>, mistake: Option<(&'static str, &str)>) -> Response {
    let status = if mistake.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (wrong, error) = mistake.unzip();
    let has_password = app.web.gateway.settings().people.password;
    // An invitation for one name is for a local account.
    let provider = if typed.is_named { None } else { provider_button(app, "invitation", invitation) };
    let (name, is_named) = (typed.name, typed.is_named);
    let frame = Frame { wrong, ..Frame::outside(SETUP) };
    page(status, &Setup { frame, error, name, invitation, is_named, has_password, provider })
}

/// Builds the link to the identity provider, if the settings name one.
fn provider_button(app: &AppState, parameter: &str, value: &str) -> Option<ProviderButton> {
    let oidc = app.oidc().ok()?;
    let value = value.replace('%', "%25").replace('&', "%26").replace('?', "%3F").replace('=', "%3D");
    let href = format!("/ui/sign-in/oidc?{parameter}={value}");
    Some(ProviderButton { name: oidc.name, href, sign_out: None })
}

fn not_invited() -> Response {
    let text = "Each link works once. A setup link expires after an hour, and an invitation after 24 hours. Ask an approver for a new one, or the operator \
        to run `mcpproxy users invite` or `mcpproxy users reset`. If no account exists yet, restart the gateway: it prints \
        a new setup link when it starts.";
    notice(StatusCode::NOT_FOUND, "This link does not work", text, ("/ui/", "Go to the console"))
}
