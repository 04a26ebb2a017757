//! The forms of the account page about persons: one's own password, inviting somebody, removing somebody.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use mcpproxy_gateway::Decider;
use mcpproxy_store::{StoreError, USER_NAME_MAX_CHARS};

use super::account::{Said, account, allowed, answer};
use super::posted::Posted;
use super::signed_out;
use crate::auth::identity::Site;
use crate::auth::records;
use crate::auth::{password, random_bytes};

const INVITATION_MS: i64 = 24 * 60 * 60_000;
/// What a fresh factor can be for.
pub(super) const INVITE: &str = "/ui/account/invite";
pub(super) const PASSWORD: &str = "/ui/account/password";
const PERSONS: &str = "/ui/account/persons/";

pub(crate) async fn change_password(State(site): State<Site>, posted: Posted) -> Response {
    answer(change_password_or_fail(&site, &posted).await)
}

/// What was typed is looked at first, so that a slip costs no code.
async fn change_password_or_fail(site: &Site, posted: &Posted) -> Result<Response, StoreError> {
    let (signed, form) = (&posted.signed, &posted.form);
    let again = async |error: &str| {
        let said = Said { error: Some(error.to_owned()), ..Said::default() };
        account(site, signed, StatusCode::UNPROCESSABLE_ENTITY, said).await
    };
    let new = form.or_empty("new");
    if let Some(weakness) = password::weakness(signed.name(), new) {
        return again(weakness.message()).await;
    }
    if form.or_empty("again") != new {
        return again("The two new passwords are not the same.").await;
    }
    if let Err(absent) = site.by_password(signed, form.or_empty("current")).await? {
        return again(&absent.message()).await;
    }
    // Whoever has no factor yet has shown the password, and that is all there is to show.
    if signed.session.is_enrolled
        && let Err(not) = allowed(site, posted, PASSWORD).await?
    {
        return again(&not.message()).await;
    }
    let Some(hash) = site.people.passwords.hash(new.to_owned()).await else {
        return again("The password could not be kept. Try again.").await;
    };
    site.web.store.change_password(signed.user(), &hash, &signed.secret).await?;
    records::write(site, records::done("password_changed", signed.name())).await;
    Ok(Redirect::to("/ui/account?done=password").into_response())
}

pub(crate) async fn invite(State(site): State<Site>, posted: Posted) -> Response {
    answer(invite_or_fail(&site, &posted).await)
}

async fn invite_or_fail(site: &Site, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    if let Err(not) = allowed(site, posted, INVITE).await? {
        let said = Said { error: Some(not.message()), ..Said::default() };
        return account(site, signed, StatusCode::FORBIDDEN, said).await;
    }
    let Some(random) = random_bytes() else { return Ok(signed_out("/ui/account")) };
    let secret = site.web.store.invite(random, Some(signed.user()), site.now_ms(), INVITATION_MS).await?;
    records::write(site, records::done("user_invited", signed.name())).await;
    let invitation = Some(format!("{}/ui/setup/{secret}", site.web.facts.base_url));
    account(site, signed, StatusCode::OK, Said { invitation, ..Said::default() }).await
}

pub(crate) async fn remove(
    State(site): State<Site>,
    name: Result<Path<String>, PathRejection>,
    posted: Posted,
) -> Response {
    let name = name.map(|Path(name)| name).unwrap_or_default();
    answer(remove_or_fail(&site, &name, &posted).await)
}

async fn remove_or_fail(site: &Site, name: &str, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let again = async |status: StatusCode, error: String| {
        account(site, signed, status, Said { error: Some(error), ..Said::default() }).await
    };
    let fresh = match site.fresh(signed, posted.factor(), &removal_of(name)).await? {
        Ok(fresh) => fresh,
        Err(fault) => return again(StatusCode::FORBIDDEN, fault.message()).await,
    };
    let is_there = name != signed.name() && site.web.store.find_user(name).await?.is_some();
    if is_there {
        // First, so that somebody whose grants cannot be withdrawn is not taken for removed.
        withdraw_grants(site, name, posted).await?;
    }
    if !is_there || !site.web.store.remove_user(name, &fresh).await? {
        return again(StatusCode::CONFLICT, "There is nobody else of that name to remove.".to_owned()).await;
    }
    let metadata = serde_json::json!({"user": signed.name(), "removed": name});
    records::write(site, records::done_with("user_removed", &metadata)).await;
    // Their sessions are over, so that no grant of theirs comes after those they made meanwhile.
    withdraw_grants(site, name, posted).await?;
    Ok(Redirect::to("/ui/account?done=person").into_response())
}

async fn withdraw_grants(site: &Site, name: &str, posted: &Posted) -> Result<(), StoreError> {
    let (approvals, by) = (site.web.gateway.approvals(), Decider::User(posted.signed.user().clone()));
    for grant in approvals.grants(false).await?.into_iter().filter(|grant| grant.by == name) {
        let _was_over_already = approvals.revoke(&grant.id, &by).await?;
    }
    Ok(())
}

/// What a factor is for that removes this person and nobody else: the address of the form.
fn removal_of(name: &str) -> String {
    format!("{PERSONS}{name}/remove")
}

pub(super) fn is_removal(path: &str) -> bool {
    let name = path.strip_prefix(PERSONS).and_then(|rest| rest.strip_suffix("/remove"));
    name.is_some_and(|name| name.len() <= USER_NAME_MAX_CHARS)
}
