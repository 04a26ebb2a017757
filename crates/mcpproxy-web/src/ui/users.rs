//! Forms of the account page: change the password, invite an approver, remove an approver.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::StatusCode;
use mcpproxy_gateway::Decider;
use mcpproxy_store::{StoreError, USER_NAME_MAX_CHARS};

use super::account::{AccountNotice, FactorChange, NotAllowed, Recovery, account, answer, may_change};
use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::signed_out;
use crate::auth::factor::StepUpResult;
use crate::auth::identity::AppState;
use crate::auth::presence::PresenceResult;
use crate::auth::records;
use crate::auth::{password, random_bytes};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "change_password",
        method: Verb::Post,
        path: "/ui/account/password",
        access: PageAccess::Session,
        decides: false,
        sent_from: Some("/ui/account"),
        is_stream: false,
        handler: |method| on(method, change_password),
    },
    Page {
        name: "invite",
        method: Verb::Post,
        path: "/ui/account/invite",
        access: PageAccess::User,
        decides: false,
        sent_from: Some("/ui/account"),
        is_stream: false,
        handler: |method| on(method, invite),
    },
    Page {
        name: "remove_user",
        method: Verb::Post,
        path: "/ui/account/persons/{person}/remove",
        access: PageAccess::User,
        decides: false,
        sent_from: Some("/ui/account"),
        is_stream: false,
        handler: |method| on(method, remove),
    },
];

const INVITATION_MS: i64 = 24 * 60 * 60_000;
/// Purposes of a second factor.
pub(super) const INVITE: &str = "/ui/account/invite";
pub(super) const PASSWORD: &str = "/ui/account/password";
const PERSONS: &str = "/ui/account/persons/";

async fn change_password(State(app): State<AppState>, posted: Posted) -> Response {
    answer(change_password_or_fail(&app, &posted).await)
}

/// Checks the typed values first, so that a typo does not use up a code.
async fn change_password_or_fail(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let (signed, form) = (&posted.signed, &posted.form);
    let again = async |error: &str| {
        let said = AccountNotice { error: Some(error.to_owned()), ..AccountNotice::default() };
        account(app, signed, StatusCode::UNPROCESSABLE_ENTITY, said).await
    };
    let new = form.or_empty("new");
    if let Some(weakness) = password::weakness(signed.name(), new) {
        return again(weakness.message()).await;
    }
    if form.or_empty("again") != new {
        return again("The new passwords do not match.").await;
    }
    if signed.is_of_provider() {
        return again(&NotAllowed::AtProvider.message()).await;
    }
    if let PresenceResult::Absent(absent) = app.prove_presence_by_password(signed, form.or_empty("current")).await? {
        return again(&absent.message()).await;
    }
    // Without a factor, the current password is all that the user can prove.
    if signed.session.is_enrolled
        && let FactorChange::NotAllowed(not) = may_change(app, posted, PASSWORD, Recovery::Accepted).await?
    {
        return again(&not.message()).await;
    }
    let Some(hash) = app.auth.passwords.hash(new.to_owned()).await else {
        return again("The password could not be saved. Try again.").await;
    };
    app.web.store.change_password(signed.user(), &hash, &signed.secret).await?;
    records::write(app, records::done("password_changed", signed.name())).await;
    Ok(Redirect::to("/ui/account?done=password").into_response())
}

async fn invite(State(app): State<AppState>, posted: Posted) -> Response {
    answer(invite_or_fail(&app, &posted).await)
}

async fn invite_or_fail(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let refuse = async |error: String| {
        let said = AccountNotice { error: Some(error), ..AccountNotice::default() };
        account(app, signed, StatusCode::FORBIDDEN, said).await
    };
    if !signed.may_manage_users(&app.web.gateway.settings().people) {
        return refuse(NotAllowed::NotAdmin.message()).await;
    }
    if let StepUpResult::NotVerified(fault) = app.step_up(signed, posted.factor(), INVITE).await? {
        return refuse(fault.message()).await;
    }
    let Some(random) = random_bytes() else { return Ok(signed_out("/ui/account")) };
    let secret = app.web.store.invite(random, Some(signed.user()), app.now_ms(), INVITATION_MS).await?;
    records::write(app, records::done("user_invited", signed.name())).await;
    let invitation = Some(format!("{}/ui/setup/{secret}", app.web.facts.base_url));
    account(app, signed, StatusCode::OK, AccountNotice { invitation, ..AccountNotice::default() }).await
}

async fn remove(State(app): State<AppState>, name: Result<Path<String>, PathRejection>, posted: Posted) -> Response {
    let name = name.map(|Path(name)| name).unwrap_or_default();
    answer(remove_or_fail(&app, &name, &posted).await)
}

async fn remove_or_fail(app: &AppState, name: &str, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let again = async |status: StatusCode, error: String| {
        account(app, signed, status, AccountNotice { error: Some(error), ..AccountNotice::default() }).await
    };
    if !signed.may_manage_users(&app.web.gateway.settings().people) {
        return again(StatusCode::FORBIDDEN, NotAllowed::NotAdmin.message()).await;
    }
    let fresh = match app.step_up(signed, posted.factor(), &removal_of(name)).await? {
        StepUpResult::Verified(fresh) => fresh,
        StepUpResult::NotVerified(fault) => return again(StatusCode::FORBIDDEN, fault.message()).await,
    };
    let is_there = name != signed.name() && app.web.store.find_user(name).await?.is_some();
    if is_there {
        // First, so that a user is not removed while their standing approvals remain active.
        withdraw_grants(app, name, posted).await?;
    }
    if !is_there || !app.web.store.remove_user(name, &fresh).await? {
        return again(StatusCode::CONFLICT, "No other approver has this name.".to_owned()).await;
    }
    let metadata = serde_json::json!({"user": signed.name(), "removed": name});
    records::write(app, records::done_with("user_removed", &metadata)).await;
    // Again, for those created in the meantime. Their sessions have ended, so no more can follow.
    withdraw_grants(app, name, posted).await?;
    Ok(Redirect::to("/ui/account?done=person").into_response())
}

async fn withdraw_grants(app: &AppState, name: &str, posted: &Posted) -> Result<(), StoreError> {
    let (approvals, by) = (app.web.gateway.approvals(), Decider::User(posted.signed.user().clone()));
    for grant in approvals.grants(false).await?.into_iter().filter(|grant| grant.by == name) {
        let _was_over_already = approvals.revoke(&grant.id, &by).await?;
    }
    Ok(())
}

/// Returns the purpose of a factor that removes this user only.
fn removal_of(name: &str) -> String {
    format!("{PERSONS}{name}/remove")
}

pub(super) fn is_removal(path: &str) -> bool {
    let name = path.strip_prefix(PERSONS).and_then(|rest| rest.strip_suffix("/remove"));
    name.is_some_and(|name| name.len() <= USER_NAME_MAX_CHARS)
}
