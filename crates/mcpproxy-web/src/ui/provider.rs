//! The way to the identity provider and back: signing in, and confirming one action again.
//!
//! The pages in between load the next page themselves (`onward.html`) instead of redirecting. A form must not be redirected
//! to another site (`form-action 'self'`), and a redirect from another site does not carry the session cookie
//! (`SameSite=Strict`).

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::header::{HeaderMap, SET_COOKIE};
use http::{HeaderValue, StatusCode, Uri};

use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::{notice, unavailable};
use crate::auth::identity::{AppState, Identity};
use crate::auth::oidc::{Answer, Arrival, CALLBACK, Departure, Refusal, SIGN_IN_MS, Trip};
use crate::auth::{cookie, origin};
use crate::peer::Peer;
use crate::problem::Problem;
use crate::query;
use crate::ui::pages::{Frame, Onward, page};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "provider_sign_in",
        method: Verb::Get,
        path: "/ui/sign-in/oidc",
        access: PageAccess::SignedOut,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, sign_in),
    },
    Page {
        name: "provider_callback",
        method: Verb::Get,
        path: CALLBACK,
        access: PageAccess::SignedOut,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, callback),
    },
    Page {
        name: "provider_step_up",
        method: Verb::Post,
        path: "/ui/sign-in/oidc/step-up",
        access: PageAccess::Session,
        decides: true,
        sent_from: Some("/ui/approvals"),
        is_stream: false,
        handler: |method| on(method, step_up),
    },
];

/// Longer than the purpose of any form.
const PURPOSE_MAX_CHARS: usize = 200;
const QUERY_MAX_BYTES: usize = 8 * 1024;
const SIGN_IN: &str = "/ui/login";

/// Sends the user to the provider.
async fn sign_in(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    peer: Peer,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let parameters = query::pairs(uri.query().unwrap_or_default()).unwrap_or_default();
    let of = |name: &str| parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let next = origin::next_page(of("next"));
    if let Identity::User(_) = identity {
        return Redirect::to(next).into_response();
    }
    let trip = Trip::SignIn { invitation: of("invitation") };
    let browser = cookie::read_sign_in(&headers).next();
    match app.depart(trip, next, browser, peer).await {
        Ok(departure) => with_cookie(&app, &departure, Redirect::to(&departure.url).into_response()),
        Err(refusal) => refused(&refusal, SIGN_IN),
    }
}

/// Sends a signed-in user to the provider, to confirm one action.
async fn step_up(State(app): State<AppState>, peer: Peer, headers: HeaderMap, posted: Posted) -> Response {
    let purpose = posted.form.or_empty("for");
    if purpose.is_empty() || purpose.len() > PURPOSE_MAX_CHARS || !posted.signed.is_of_provider() {
        return Problem::BAD_BODY.message("the form has no purpose to confirm".to_owned()).into_response();
    }
    let back = origin::next_page(posted.form.text("back"));
    let trip = Trip::StepUp { signed: &posted.signed, purpose };
    let browser = cookie::read_sign_in(&headers).next();
    match app.depart(trip, back, browser, peer).await {
        Ok(departure) => {
            let text = "Sign in there again. Then you come back to this action.";
            let page = onward("Continue to the identity provider", text, &departure.url, "Continue");
            with_cookie(&app, &departure, page)
        }
        Err(refusal) => refused(&refusal, back),
    }
}

/// Takes the user back from the provider.
async fn callback(State(app): State<AppState>, peer: Peer, headers: HeaderMap, uri: Uri) -> Response {
    let Some(answer) = answer(uri.query().unwrap_or_default()) else { return refused(&Refusal::State, SIGN_IN) };
    let browsers: Vec<&str> = cookie::read_sign_in(&headers).collect();
    match app.arrive(&answer, &browsers, peer).await {
        Ok(Arrival::SignedIn { session, next }) => {
            let max_age_s = app.web.gateway.settings().people.session.max_ms() / 1000;
            let link = format!("{}#key={}", origin::next_page(Some(&next)), session.page_key);
            let mut response = onward("You are signed in", "The page opens by itself.", &link, "Continue");
            if let Some(cookie) = cookie::set(&session.secret, max_age_s, app.auth.transport) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            response
        }
        Ok(Arrival::SteppedUp { proof, purpose, next }) => {
            let next = origin::next_page(Some(&next));
            let joint = if next.contains('?') { '&' } else { '?' };
            let link = format!("{next}{joint}proof={proof}&for={}", escaped(&purpose));
            onward("Confirmed", "The page opens by itself.", &link, "Continue")
        }
        Err(Refusal::Store(error)) => unavailable(&error),
        Err(refusal) => refused(&refusal, SIGN_IN),
    }
}

/// Reads the parameters of the provider. A repeated one is refused, because the two could be read differently.
fn answer(query: &str) -> Option<Answer> {
    let mut answer = Answer::default();
    let mut state = None;
    if query.len() > QUERY_MAX_BYTES {
        return None;
    }
    for (name, value) in query::pairs(query).ok()? {
        let slot = match name.as_str() {
            "state" => &mut state,
            "code" => &mut answer.code,
            "error" => &mut answer.error,
            "iss" => &mut answer.issuer,
            _ => continue,
        };
        if slot.replace(value).is_some() {
            return None;
        }
    }
    answer.state = state?;
    Some(answer)
}

fn refused(refusal: &Refusal, back: &str) -> Response {
    let (heading, text) = refusal.words();
    let link_text = if back == SIGN_IN { "Back to sign in" } else { "Back" };
    notice(refusal.status(), heading, &text, (back, link_text))
}

fn onward(heading: &str, text: &str, link: &str, link_text: &str) -> Response {
    let frame = Frame::outside(heading);
    page(StatusCode::OK, &Onward { frame, heading, text, link, link_text })
}

fn with_cookie(app: &AppState, departure: &Departure, mut response: Response) -> Response {
    let cookie = cookie::set_sign_in(&departure.browser, SIGN_IN_MS / 1000, app.auth.transport);
    response.headers_mut().insert(SET_COOKIE, cookie.unwrap_or(HeaderValue::from_static("")));
    response
}

/// Escapes everything but letters and digits, for a value in a query.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_provider() {
        let read = |query: &str| answer(query).map(|answer| (answer.state, answer.code, answer.error, answer.issuer));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("code=a%20b&state=s&iss=https%3A%2F%2Fid.example&session_state=x"),
            Some(("s".to_owned(), some("a b"), None, some("https://id.example")))
        );
        assert_eq!(read("error=access_denied&state=s"), Some(("s".to_owned(), None, some("access_denied"), None)));
        for bad in ["", "code=a", "state=s&state=t", "state=s&code=a&code=b", "state=%zz"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read(&format!("state=s&x={}", "a".repeat(9000))), None);
    }

    #[test]
    fn purposes_are_escaped() {
        assert_eq!(escaped("/ui/a b&c"), "%2Fui%2Fa%20b%26c");
    }
}
