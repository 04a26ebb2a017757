//! The routes of the pages: one list, from which the router and the test of who gets in are made.

mod account;
mod approvals;
mod enter;
mod events;
mod form;
mod frame;
mod grants;
pub(crate) mod pages;
mod persons;
mod posted;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use http::request::Parts;
use http::{Method, StatusCode};

use crate::auth::access::is_safe;
use crate::auth::identity::{Site, Who};
use crate::auth::origin;
use crate::problem::Problem;
use pages::{Frame, Notice, assets};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Root,
    Home,
    Style,
    Script,
    KeyScript,
    Setup,
    CreateUser,
    Login,
    LogIn,
    LogOut,
    Account,
    SetTotp,
    Challenge,
    BeginPasskey,
    AddPasskey,
    RemovePasskey,
    ChangePassword,
    Invite,
    RemovePerson,
    Approvals,
    Approval,
    Whole,
    Decide,
    ApprovalChallenge,
    Grants,
    RevokeGrant,
    Events,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageAccess {
    /// Says nothing worth protecting.
    Everybody,
    /// For people who are not signed in yet, and no program.
    Outside,
    /// A person, also without a second factor.
    Session,
    /// A person who can decide.
    User,
}

impl Page {
    pub(crate) const ALL: [Self; 27] = [
        Self::Root,
        Self::Home,
        Self::Style,
        Self::Script,
        Self::KeyScript,
        Self::Setup,
        Self::CreateUser,
        Self::Login,
        Self::LogIn,
        Self::LogOut,
        Self::Account,
        Self::SetTotp,
        Self::Challenge,
        Self::BeginPasskey,
        Self::AddPasskey,
        Self::RemovePasskey,
        Self::ChangePassword,
        Self::Invite,
        Self::RemovePerson,
        Self::Approvals,
        Self::Approval,
        Self::Whole,
        Self::Decide,
        Self::ApprovalChallenge,
        Self::Grants,
        Self::RevokeGrant,
        Self::Events,
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Root => "/",
            Self::Home => "/ui/",
            Self::Style => "/ui/app.css",
            Self::Script => "/ui/app.js",
            Self::KeyScript => "/ui/key.js",
            Self::Setup | Self::CreateUser => "/ui/setup/{invitation}",
            Self::Login | Self::LogIn => "/ui/login",
            Self::LogOut => "/ui/logout",
            Self::Account => "/ui/account",
            Self::SetTotp => "/ui/account/totp",
            Self::Challenge => "/ui/account/challenge",
            Self::BeginPasskey => "/ui/account/passkeys/start",
            Self::AddPasskey => "/ui/account/passkeys/finish",
            Self::RemovePasskey => "/ui/account/passkeys/{passkey}/remove",
            Self::ChangePassword => "/ui/account/password",
            Self::Invite => "/ui/account/invite",
            Self::RemovePerson => "/ui/account/persons/{person}/remove",
            Self::Approvals => "/ui/approvals",
            Self::Approval | Self::Decide => "/ui/approvals/{approval}",
            Self::Whole => "/ui/approvals/{approval}/whole",
            Self::ApprovalChallenge => "/ui/approvals/{approval}/passkey",
            Self::Grants => "/ui/grants",
            Self::RevokeGrant => "/ui/grants/{grant}/revoke",
            Self::Events => "/ui/events",
        }
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Self::Root
            | Self::Home
            | Self::Style
            | Self::Script
            | Self::KeyScript
            | Self::Setup
            | Self::Login
            | Self::Account
            | Self::Approvals
            | Self::Approval
            | Self::Whole
            | Self::Grants
            | Self::Events => Method::GET,
            Self::CreateUser
            | Self::LogIn
            | Self::LogOut
            | Self::SetTotp
            | Self::Challenge
            | Self::BeginPasskey
            | Self::AddPasskey
            | Self::RemovePasskey
            | Self::ChangePassword
            | Self::Invite
            | Self::RemovePerson
            | Self::Decide
            | Self::ApprovalChallenge
            | Self::RevokeGrant => Method::POST,
        }
    }

    pub(crate) fn access(self) -> PageAccess {
        match self {
            Self::Root | Self::Home | Self::Style | Self::Script | Self::KeyScript => PageAccess::Everybody,
            Self::Setup | Self::CreateUser | Self::Login | Self::LogIn => PageAccess::Outside,
            Self::LogOut
            | Self::Account
            | Self::SetTotp
            | Self::Challenge
            | Self::BeginPasskey
            | Self::AddPasskey
            | Self::RemovePasskey
            | Self::ChangePassword => PageAccess::Session,
            Self::Invite
            | Self::RemovePerson
            | Self::Approvals
            | Self::Approval
            | Self::Whole
            | Self::Decide
            | Self::ApprovalChallenge
            | Self::Grants
            | Self::RevokeGrant
            | Self::Events => PageAccess::User,
        }
    }

    /// The page whose form it is sent from.
    fn looked_from(self, path: &str) -> &str {
        let sections = [Self::Account.path(), Self::Grants.path()];
        let section = sections.into_iter().find(|section| path.starts_with(section));
        match self {
            Self::Decide => path,
            _ => section.unwrap_or(Self::Approvals.path()),
        }
    }

    /// Whether it says yes or no to what agents want.
    fn decides(self) -> bool {
        matches!(self, Self::Decide | Self::ApprovalChallenge | Self::RevokeGrant)
    }

    fn methods(self) -> MethodRouter<Site> {
        match self {
            Self::Root => get(|| async { Redirect::to("/ui/") }),
            Self::Home => get(|| async { Redirect::to("/ui/approvals") }),
            Self::Style => get(assets::style),
            Self::Script => get(assets::script),
            Self::KeyScript => get(assets::key_script),
            Self::Setup => get(enter::setup),
            Self::CreateUser => post(enter::create_user),
            Self::Login => get(enter::login),
            Self::LogIn => post(enter::log_in),
            Self::LogOut => post(enter::log_out),
            Self::Account => get(account::show),
            Self::SetTotp => post(account::set_totp),
            Self::Challenge => post(account::challenge),
            Self::BeginPasskey => post(account::begin_passkey),
            Self::AddPasskey => post(account::add_passkey),
            Self::RemovePasskey => post(account::remove_passkey),
            Self::ChangePassword => post(persons::change_password),
            Self::Invite => post(persons::invite),
            Self::RemovePerson => post(persons::remove),
            Self::Approvals => get(approvals::inbox),
            Self::Approval => get(approvals::show),
            Self::Whole => get(approvals::whole),
            Self::Decide => post(approvals::decide),
            Self::ApprovalChallenge => post(approvals::challenge),
            Self::Grants => get(grants::list),
            Self::RevokeGrant => post(grants::revoke),
            Self::Events => get(events::follow),
        }
    }
}

pub(crate) fn router(site: &Site) -> Router {
    let routes = Page::ALL.into_iter().fold(Router::new(), |router, page| {
        let admit = from_fn_with_state((site.clone(), page), admit);
        router.route(page.path(), page.methods().route_layer(admit))
    });
    let wrong_method = || async { (StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n") };
    routes.method_not_allowed_fallback(wrong_method).layer(axum::middleware::from_fn(harden)).with_state(site.clone())
}

async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    pages::harden(&mut response);
    response
}

/// Stands before every page.
async fn admit(State((site, page)): State<(Site, Page)>, request: Request, next: Next) -> Response {
    if page.access() == PageAccess::Everybody {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let who = match site.who(&parts.headers).await {
        Ok(who) => who,
        Err(error) => return unavailable(&error),
    };
    if let Some(refusal) = refuse(&site, page, &who, &parts).await {
        return refusal;
    }
    parts.extensions.insert(who);
    next.run(Request::from_parts(parts, body)).await
}

async fn refuse(site: &Site, page: Page, who: &Who, parts: &Parts) -> Option<Response> {
    let is_look = is_safe(&page.method());
    match who {
        Who::Agent(_) | Who::Key => {
            if page.decides() {
                site.note_refused_decision(who, parts.uri.path()).await;
            }
            let problem = match who {
                Who::Key if page.decides() => Problem::KeyDecides,
                Who::Key => Problem::Key,
                _ if page.decides() => Problem::AgentDecides,
                _ => Problem::Agent,
            };
            return Some(problem.into_response());
        }
        Who::Nobody | Who::Person(_) => {}
    }
    if !is_look && !origin::is_own(&parts.headers, &site.web.facts.base_url) {
        return Some(Problem::Origin.into_response());
    }
    match (page.access(), who) {
        (PageAccess::Everybody | PageAccess::Outside, _) | (PageAccess::Session, Who::Person(_)) => None,
        (PageAccess::User, Who::Person(signed)) if signed.session.is_enrolled => None,
        (PageAccess::User, Who::Person(_)) if is_look && page != Page::Events => {
            Some(Redirect::to("/ui/account").into_response())
        }
        (PageAccess::User, Who::Person(_)) => Some(Problem::NotEnrolled.into_response()),
        (PageAccess::Session | PageAccess::User, _) if page == Page::Events => {
            Some(Problem::NotSignedIn.into_response())
        }
        (PageAccess::Session | PageAccess::User, _) if is_look => {
            let here = parts.uri.path_and_query().map(|path| path.as_str());
            Some(Redirect::to(&login_path(origin::next_page(here))).into_response())
        }
        (PageAccess::Session | PageAccess::User, _) => Some(signed_out(page.looked_from(parts.uri.path()))),
    }
}

/// With the way back, in which nothing needs an escape but what separates a query.
fn login_path(next: &str) -> String {
    let next = next.replace('%', "%25").replace('&', "%26").replace('?', "%3F").replace('=', "%3D");
    format!("/ui/login?next={next}")
}

fn signed_out(looked_from: &str) -> Response {
    let text = "Nothing was changed. After 15 minutes without a click a session ends by itself.";
    notice(StatusCode::UNAUTHORIZED, "You are signed out", text, (&login_path(looked_from), "Sign in"))
}

/// For an address below `/ui/` that no page has.
pub(crate) fn not_here() -> Response {
    let text = "There is no such page. The address may be cut off, or from another version.";
    let mut response = notice(StatusCode::NOT_FOUND, "Nothing here", text, ("/ui/approvals", "To the approvals"));
    pages::harden(&mut response);
    response
}

pub(crate) fn notice(status: StatusCode, heading: &str, text: &str, (link, link_text): (&str, &str)) -> Response {
    pages::page(status, &Notice { frame: Frame::outside(heading), heading, text, link, link_text })
}

/// The store does not answer; nothing was changed that we know of.
pub(crate) fn unavailable(error: &mcpproxy_store::StoreError) -> Response {
    tracing::warn!(error = error as &dyn std::error::Error, "a page could not read or write the store");
    let text =
        "The gateway cannot reach its database at the moment. Your decision was not taken. Try again in a moment.";
    notice(StatusCode::SERVICE_UNAVAILABLE, "Not available right now", text, ("/ui/approvals", "Try again"))
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
