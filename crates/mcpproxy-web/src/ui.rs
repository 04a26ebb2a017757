//! The web pages for users. Each file below has the rows of its pages and forms at the top. See [`page`].

mod account;
mod activity;
mod agents;
mod approvals;
pub(crate) mod events;
mod form;
mod frame;
mod grants;
mod oauth;
mod overview;
pub(crate) mod page;
pub(crate) mod pages;
mod posted;
mod proposals;
mod provider;
mod recovery;
mod servers;
mod settings;
mod sign_in;
mod tools;
mod users;
mod versions;
mod visitor;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, on};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use mcpproxy_store::SessionId;

use crate::auth::identity::{AppState, Identity};
use crate::auth::origin;
use crate::peer::Peer;
use crate::problem::Problem;
use crate::verb::Verb;
use page::{Page, PageAccess};
use pages::{Frame, Notice, assets};

/// Lists all pages and forms.
pub(crate) fn all_pages() -> impl Iterator<Item = &'static Page> {
    let files = [
        ENTRY_PAGES,
        assets::PAGES,
        overview::PAGES,
        activity::PAGES,
        tools::PAGES,
        servers::PAGES,
        agents::PAGES,
        settings::PAGES,
        versions::PAGES,
        proposals::PAGES,
        sign_in::PAGES,
        provider::PAGES,
        recovery::PAGES,
        account::PAGES,
        users::PAGES,
        approvals::PAGES,
        grants::PAGES,
        events::PAGES,
        oauth::PAGES,
    ];
    files.into_iter().flatten()
}

const ENTRY_PAGES: &[Page] = &[Page {
    name: "root",
    method: Verb::Get,
    path: "/",
    access: PageAccess::Everybody,
    decides: false,
    sent_from: None,
    is_stream: false,
    handler: |method| on(method, || async { Redirect::to("/ui/") }),
}];

pub(crate) fn router(app: &AppState) -> Router {
    let routes = all_pages().fold(Router::new(), |router, page| {
        let admit = from_fn_with_state((app.clone(), page), admit);
        router.route(page.path, (page.handler)(page.method.filter()).route_layer(admit))
    });
    // The address of a form stays in the browser when it shows the answer. Opened again, it leads to the page of the form.
    let forms = all_pages().filter(|page| !page.method.is_safe());
    let has_page = |path: &str| all_pages().any(|page| page.path == path && page.method.is_safe());
    let alone = forms.filter_map(|form| Some((form.path, form.sent_from?))).filter(|(path, _)| !has_page(path));
    let routes =
        alone.fold(routes, |router, (path, page)| router.route(path, get(move || async { Redirect::to(page) })));
    let wrong_method = || async { (StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n") };
    routes.method_not_allowed_fallback(wrong_method).layer(axum::middleware::from_fn(harden)).with_state(app.clone())
}

async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    pages::harden(&mut response);
    response
}

/// Identifies the sender and checks the access of the page, in front of every handler.
async fn admit(State((app, page)): State<(AppState, &'static Page)>, request: Request, next: Next) -> Response {
    if page.access == PageAccess::Everybody {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let identity = match app.identify(&parts.headers).await {
        Ok(identity) => identity,
        Err(error) => return unavailable(&error),
    };
    if let Identity::User(signed) = &identity {
        let peer = parts.extensions.get::<Peer>().copied();
        app.auth.session_places.note(SessionId::of(&signed.secret), &parts.headers, peer, app.now_ms());
    }
    if let Some(refusal) = refuse(&app, page, &identity, &parts).await {
        return refusal;
    }
    let path = parts.uri.path().to_owned();
    parts.extensions.insert(identity.clone());
    let response = next.run(Request::from_parts(parts, body)).await;
    framed(&app, &identity, &path, response).await
}

/// Puts the navigation around a notice that a signed-in user sees. Handlers need not care who reads their notice.
async fn framed(app: &AppState, identity: &Identity, path: &str, response: Response) -> Response {
    let (Identity::User(signed), Some(said)) = (identity, response.extensions().get::<Said>().cloned()) else {
        return response;
    };
    // Without the database, the plain notice has to do.
    let Ok(frame) = frame::around(app, signed, section(path), &said.heading).await else { return response };
    // A notice is not loaded again: its address may be one that works once, such as the end of a sign-in.
    let frame = Frame { live: None, ..frame };
    let Said { heading, text, link, link_text } = &said;
    let body = pages::page(response.status(), &Notice { frame, heading, text, link, link_text }).into_body();
    Response::from_parts(response.into_parts().0, body)
}

/// Returns the section of the navigation that a path belongs to.
fn section(path: &str) -> &'static str {
    const SECTIONS: [&str; 7] = ["approvals", "activity", "tools", "servers", "agents", "settings", "account"];
    let first = path.strip_prefix("/ui/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    SECTIONS.into_iter().find(|section| *section == first).unwrap_or_default()
}

async fn refuse(app: &AppState, page: &Page, identity: &Identity, parts: &Parts) -> Option<Response> {
    let problem = match identity {
        Identity::AdminKey if page.decides => Some(Problem::KEY_CANNOT_APPROVE),
        Identity::AdminKey => Some(Problem::KEY_NOT_ALLOWED),
        Identity::Agent(_) if page.decides => Some(Problem::AGENT_CANNOT_DECIDE),
        Identity::Agent(_) => Some(Problem::AGENT_NOT_ALLOWED),
        Identity::Anonymous | Identity::User(_) => None,
    };
    if let Some(problem) = problem {
        if page.decides {
            app.note_refused_decision(identity, parts.uri.path()).await;
        }
        return Some(problem.into_response());
    }
    let is_view = page.method.is_safe() && !page.is_stream;
    if !page.method.is_safe() && !origin::is_own(&parts.headers, &app.web.facts.base_url) {
        return Some(Problem::ORIGIN_NOT_ALLOWED.into_response());
    }
    match (page.access, identity) {
        (PageAccess::Everybody | PageAccess::SignedOut, _) | (PageAccess::Session, Identity::User(_)) => None,
        (PageAccess::User, Identity::User(signed)) if signed.session.is_enrolled => None,
        (PageAccess::User, Identity::User(_)) if is_view => Some(Redirect::to("/ui/account").into_response()),
        (PageAccess::User, Identity::User(_)) => Some(Problem::NOT_ENROLLED.into_response()),
        (PageAccess::Session | PageAccess::User, _) if page.is_stream => Some(Problem::NOT_SIGNED_IN.into_response()),
        (PageAccess::Session | PageAccess::User, _) if is_view => {
            let here = parts.uri.path_and_query().map(|path| path.as_str());
            Some(Redirect::to(&login_path(origin::next_page(here))).into_response())
        }
        (PageAccess::Session | PageAccess::User, _) => {
            Some(signed_out(page.sent_from.unwrap_or_else(|| parts.uri.path())))
        }
    }
}

/// Builds the path of the sign-in page, with the page to return to. Only the separators of a query need escaping.
fn login_path(next: &str) -> String {
    let next = next.replace('%', "%25").replace('&', "%26").replace('?', "%3F").replace('=', "%3D");
    format!("/ui/login?next={next}")
}

fn signed_out(looked_from: &str) -> Response {
    let text = "Nothing was changed. Sessions end after some time without activity: 15 minutes, unless the settings say otherwise.";
    notice(StatusCode::UNAUTHORIZED, "You are signed out", text, (&login_path(looked_from), "Sign in"))
}

/// Answers unknown paths below `/ui/`.
pub(crate) async fn not_here(app: &AppState, path: &str, headers: &HeaderMap) -> Response {
    let text = "This page does not exist. The address may be incomplete, or from another version.";
    let plain = notice(StatusCode::NOT_FOUND, "Page not found", text, ("/ui/", "Go to the overview"));
    let mut response = match app.identify(headers).await {
        Ok(identity) => framed(app, &identity, path, plain).await,
        Err(_) => plain,
    };
    pages::harden(&mut response);
    response
}

/// The words of a notice, kept beside the response for [`framed`].
#[derive(Clone)]
struct Said {
    heading: String,
    text: String,
    link: String,
    link_text: String,
}

pub(crate) fn notice(status: StatusCode, heading: &str, text: &str, (link, link_text): (&str, &str)) -> Response {
    let mut response = pages::page(status, &Notice { frame: Frame::outside(heading), heading, text, link, link_text });
    let [heading, text, link, link_text] = [heading, text, link, link_text].map(str::to_owned);
    response.extensions_mut().insert(Said { heading, text, link, link_text });
    response
}

/// Shows the page for an error of the store.
pub(crate) fn unavailable(error: &mcpproxy_store::StoreError) -> Response {
    tracing::warn!(error = error as &dyn std::error::Error, "a page could not read or write the store");
    let text = "The gateway cannot reach its database right now. Your change was not saved. Try again in a moment.";
    notice(StatusCode::SERVICE_UNAVAILABLE, "Temporarily unavailable", text, ("/ui/", "Try again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_escaped() {
        assert_eq!(login_path("/ui/approvals"), "/ui/login?next=/ui/approvals");
        assert_eq!(
            login_path("/ui/approvals?state=all&before=1%20"),
            "/ui/login?next=/ui/approvals%3Fstate%3Dall%26before%3D1%2520"
        );
    }
}
