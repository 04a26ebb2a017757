//! The addresses to which providers send browsers back, and where they read who the gateway is.
//!
//! A browser that returns from a provider comes from another site, so it does not send the session cookie, which is
//! `SameSite=Strict`. A sign-in that began at the terminal ends here: its session must still be open. One that began on a
//! page goes on to a page of the gateway. From there the browser sends the cookie, and the session must be the same.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use http::header::{CACHE_CONTROL, HeaderValue, REFERRER_POLICY};
use http::{HeaderName, StatusCode};
use mcpproxy_gateway::{Callback, SignInAnswer, StartedFrom};

use super::page::{Page, PageAccess};
use super::{notice, unavailable};
use crate::auth::identity::AppState;
use crate::query::pairs;
use crate::verb::Verb;

/// Longer answers of a provider are refused.
const QUERY_MAX_BYTES: usize = 8 * 1024;
/// Names the address that the browser came back to, on the way from there to a page of the gateway.
const CALLBACK: &str = "callback";
const REFRESH: HeaderName = HeaderName::from_static("refresh");

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "oauth_callback",
        method: Verb::Get,
        path: "/oauth/callback/{issuer}",
        access: PageAccess::Everybody,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, callback),
    },
    Page {
        name: "oauth_document_callback",
        method: Verb::Get,
        path: "/oauth/callback",
        access: PageAccess::Everybody,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, document_callback),
    },
    Page {
        name: "oauth_client",
        method: Verb::Get,
        path: "/oauth/client.json",
        access: PageAccess::Everybody,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, client),
    },
];

async fn callback(
    State(app): State<AppState>,
    issuer: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Response {
    let Ok(Path(issuer)) = issuer else { return unknown() };
    returned(&app, Callback::Issuer(issuer), query).await
}

async fn document_callback(State(app): State<AppState>, RawQuery(query): RawQuery) -> Response {
    returned(&app, Callback::Document, query).await
}

async fn returned(app: &AppState, to: Callback, query: Option<String>) -> Response {
    let query = query.unwrap_or_default();
    let Some(answer) = read(&query).map(|answer| SignInAnswer { returned_to: to, ..answer }) else { return unknown() };
    let Some((server, begun_by)) = app.web.gateway.sign_in_begun_by(&answer.state) else { return unknown() };
    match begun_by.from {
        StartedFrom::Page => {
            let link = format!("/ui/servers/{server}/sign-in?{}", encoded(&answer));
            let text = "The provider has sent you back. One moment.";
            let mut response = notice(StatusCode::OK, "Signing in", text, (&link, "Continue"));
            // A redirect would count as coming from the provider. This navigation counts as ours.
            if let Ok(refresh) = HeaderValue::from_str(&format!("0;url={link}")) {
                response.headers_mut().insert(REFRESH, refresh);
            }
            response
        }
        StartedFrom::Terminal => match app.session_of(&begun_by.secret).await {
            Ok(Some(session)) if session.user.name() == begun_by.user => finish(app, answer).await,
            Ok(_) => ended(),
            Err(error) => unavailable(&error),
        },
    }
}

/// Finishes a sign-in and shows the result.
pub(super) async fn finish(app: &AppState, answer: SignInAnswer) -> Response {
    let Some((server, finished)) = app.web.gateway.finish_sign_in(answer).await else { return unknown() };
    let link = format!("/ui/servers/{server}");
    let mut response = match finished {
        Ok(()) => {
            let text = "The gateway is connecting the server. You can close this window.";
            notice(StatusCode::OK, &format!("Signed in to {server}"), text, (&link, "Open the server"))
        }
        Err(reason) => {
            let mut chars = reason.chars();
            let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            let text = format!("{first}{}. Nothing was stored. Begin again.", chars.as_str());
            notice(StatusCode::BAD_REQUEST, &format!("Not signed in to {server}"), &text, (&link, "Open the server"))
        }
    };
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Reads the answer of a provider. Returns `None` without a `state`, or if a parameter is repeated.
pub(super) fn read(query: &str) -> Option<SignInAnswer> {
    if query.len() > QUERY_MAX_BYTES {
        return None;
    }
    let pairs = pairs(query).ok()?;
    let find = |name: &str| {
        let mut found = pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone());
        let first = found.next();
        // Of two values, one could be checked and the other one used.
        if found.next().is_some() { Err(()) } else { Ok(first) }
    };
    let returned_to = find(CALLBACK).ok()?.map_or(Callback::Document, Callback::Issuer);
    Some(SignInAnswer {
        returned_to,
        state: find("state").ok()??,
        code: find("code").ok()?,
        issuer: find("iss").ok()?,
        error: find("error").ok()?,
    })
}

fn encoded(answer: &SignInAnswer) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("state", &answer.state);
    if let Callback::Issuer(digits) = &answer.returned_to {
        query.append_pair(CALLBACK, digits);
    }
    for (name, value) in [("code", &answer.code), ("iss", &answer.issuer), ("error", &answer.error)] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    query.finish()
}

pub(super) fn unknown() -> Response {
    let text = "This sign-in is not under way: it was finished, replaced by a newer one, or took longer than 10 minutes. \
                Nothing was changed. Begin again.";
    notice(StatusCode::BAD_REQUEST, "Sign-in not found", text, ("/ui/servers", "All servers"))
}

/// Shown if the session that began a sign-in is over, or is another one.
pub(super) fn ended() -> Response {
    let text =
        "This sign-in was begun in another session, or that session has ended. Nothing was changed. Begin again.";
    notice(StatusCode::FORBIDDEN, "Sign-in refused", text, ("/ui/servers", "All servers"))
}

/// Describes the gateway to providers that read client metadata documents.
async fn client(State(app): State<AppState>) -> Response {
    match app.web.gateway.client_document() {
        Some(document) => {
            let mut response = Json(document).into_response();
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        None => (StatusCode::NOT_FOUND, "not found: `approvals.public_url` has no https address\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_providers() {
        let answer = read("code=a%26b&state=s&iss=https%3A%2F%2Fa.example").unwrap();
        assert_eq!((answer.state.as_str(), answer.code.as_deref()), ("s", Some("a&b")));
        assert_eq!(answer.issuer.as_deref(), Some("https://a.example"));
        let again = read(&encoded(&answer)).unwrap();
        assert_eq!((again.state, again.code, again.issuer), (answer.state, answer.code, answer.issuer));
        assert_eq!(again.returned_to, Callback::Document);
        let to = Callback::Issuer("ab&c".to_owned());
        let answer = SignInAnswer { returned_to: to.clone(), ..read("state=s").unwrap() };
        assert_eq!(read(&encoded(&answer)).unwrap().returned_to, to);
        assert_eq!(read("error=access_denied&state=s").unwrap().error.as_deref(), Some("access_denied"));
        for bad in ["", "code=a", "state=s&state=t", "state=s&code=a&code=b", "state=s&iss=a&iss=b", "state=%ff"] {
            assert!(read(bad).is_none(), "{bad}");
        }
        assert!(read(&format!("state=s&code={}", "a".repeat(QUERY_MAX_BYTES))).is_none());
    }
}
