//! The account page, and its forms for factors.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use mcpproxy_core::ApprovalState;
use mcpproxy_store::{ApprovalFilter, StoreError, Totp, UserRow};
use sha2::{Digest as _, Sha256};

use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::recovery::{Enrolled, RECOVERY, enrolled};
use super::users::{INVITE, PASSWORD, is_removal};
use super::{frame, signed_out, unavailable};
use crate::auth::factor::{FactorError, Factors, StepUpResult, log_error};
use crate::auth::identity::{AppState, Identity, SignedInUser};
use crate::auth::presence::{PresenceError, PresenceResult};
use crate::auth::records;
use crate::auth::{random_bytes, totp};
use crate::problem::Problem;
use crate::ui::pages::account::{Account, ProfileView, WaitingCalls, approvers, passkeys};
use crate::ui::pages::{Confirmed, Frame, page};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "account",
        method: Verb::Get,
        path: "/ui/account",
        access: PageAccess::Session,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, show),
    },
    Page {
        name: "set_totp",
        method: Verb::Post,
        path: "/ui/account/totp",
        access: PageAccess::Session,
        decides: false,
        sent_from: Some("/ui/account"),
        is_stream: false,
        handler: |method| on(method, set_totp),
    },
    Page {
        name: "challenge",
        method: Verb::Post,
        path: "/ui/account/challenge",
        access: PageAccess::Session,
        decides: false,
        sent_from: Some("/ui/account"),
        is_stream: false,
        handler: |method| on(method, challenge),
    },
    Page {
        name: "begin_passkey",
        method: Verb::Post,
        path: "/ui/account/passkeys/start",
        access: PageAccess::Session,
        decides: false,
        sent_from: Some("/ui/account"),
        is_stream: false,
        handler: |method| on(method, begin_passkey),
    },
    Page {
        name: "add_passkey",
        method: Verb::Post,
        path: "/ui/account/passkeys/finish",
        access: PageAccess::Session,
        decides: false,
        sent_from: Some("/ui/account"),
        is_stream: false,
        handler: |method| on(method, add_passkey),
    },
    Page {
        name: "remove_passkey",
        method: Verb::Post,
        path: "/ui/account/passkeys/{passkey}/remove",
        access: PageAccess::Session,
        decides: false,
        sent_from: Some("/ui/account"),
        is_stream: false,
        handler: |method| on(method, remove_passkey),
    },
];

const SETUP_MS: i64 = 15 * 60_000;
const LABEL_MAX_CHARS: usize = 60;
/// Names of the challenges in the store.
const NEW_TOTP: &str = "new totp";
const NEW_PASSKEY: &str = "new passkey";
/// Purposes of a second factor on this page.
const TOTP: &str = "/ui/account/totp";
const ADD: &str = "/ui/account/passkeys/finish";
const REMOVE: &str = "/ui/account/passkeys/remove";

/// Messages and options for one rendering of the page.
#[derive(Default)]
pub(super) struct AccountNotice {
    pub(super) error: Option<String>,
    pub(super) done: Option<&'static str>,
    pub(super) invitation: Option<String>,
    pub(super) wants_new_app: bool,
    pub(super) asks_password: bool,
    /// The id of the input that the error is about.
    pub(super) wrong: Option<&'static str>,
    /// New recovery codes, shown once.
    pub(super) recovery_codes: Vec<String>,
    /// The confirmation with which the user came back from the identity provider.
    pub(super) confirmed: Option<Confirmed>,
}

/// Tells if a recovery code may take the place of a factor.
#[derive(Clone, Copy)]
pub(super) enum Recovery {
    Accepted,
    Refused,
}

/// The result of asking whether a user may change factors.
#[must_use]
pub(super) enum FactorChange {
    Allowed,
    NotAllowed(NotAllowed),
}

/// The reason why a change was refused.
pub(super) enum NotAllowed {
    Factor(FactorError),
    Presence(PresenceError),
    /// The user has neither password nor factors here.
    AtProvider,
    /// The user may not invite or remove others.
    NotAdmin,
}

impl NotAllowed {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Factor(fault) => fault.message(),
            Self::Presence(absent) => absent.message(),
            Self::AtProvider => "Your password and factors are at the identity provider. Change them there.".to_owned(),
            Self::NotAdmin => {
                "You may not invite or remove users. Ask the operator to add you to `people.oidc.admins`.".to_owned()
            }
        }
    }

    pub(super) fn said(&self) -> AccountNotice {
        let asks_password = matches!(self, Self::Presence(_));
        AccountNotice { error: Some(self.message()), asks_password, ..AccountNotice::default() }
    }
}

async fn show(State(app): State<AppState>, Extension(identity): Extension<Identity>, uri: Uri) -> Response {
    let Identity::User(signed) = identity else { return signed_out("/ui/account") };
    let wants = |what: &str| uri.query().is_some_and(|query| query.split('&').any(|pair| pair == what));
    let done = match () {
        () if wants("done=totp") => Some(Enrolled::Totp.words()),
        () if wants("done=passkey") => Some(Enrolled::Passkey.words()),
        () if wants("done=removed") => Some("The passkey was removed."),
        () if wants("done=password") => Some("The password was changed. All your other sessions have ended."),
        () if wants("done=person") => Some(
            "The approver was removed. Their sessions ended, and their invitations and standing approvals were revoked.",
        ),
        () => None,
    };
    let confirmed = Confirmed::of(&uri);
    let said = AccountNotice { done, wants_new_app: wants("new=totp"), confirmed, ..AccountNotice::default() };
    answer(account(&app, &signed, StatusCode::OK, said).await)
}

pub(super) async fn account(
    app: &AppState,
    signed: &SignedInUser,
    status: StatusCode,
    said: AccountNotice,
) -> Result<Response, StoreError> {
    let Some(user) = app.web.store.find_user(signed.name()).await? else { return Ok(signed_out("/ui/account")) };
    let factors = Factors::of(&user);
    let is_enrolled = signed.session.is_enrolled;
    let people = app.web.gateway.settings().people.clone();
    let setup = match !factors.provider && (user.totp.is_none() || said.wants_new_app) {
        true => new_secret(app, signed, &user).await?.and_then(|secret| totp::setup(&secret, signed.name())),
        false => None,
    };
    let title = if is_enrolled { "Account" } else { "Add a second factor" };
    let count = user.passkeys.len() + usize::from(factors.totp);
    let mut others = if is_enrolled { app.web.store.list_users().await? } else { Vec::new() };
    others.retain(|name| name != signed.name());
    let frame = frame::around(app, signed, "account", title).await?;
    let waiting = waiting(app, frame.pending).await?;
    Ok(page(
        status,
        &Account {
            frame: Frame {
                asks_password: said.asks_password,
                // A page that loads itself again would lose the codes, which are shown once.
                live: if said.recovery_codes.is_empty() { frame.live } else { None },
                here: "/ui/account".to_owned(),
                confirmed: said.confirmed,
                wrong: said.wrong,
                ..frame
            },
            error: said.error,
            done: said.done,
            waiting,
            is_enrolled,
            factors,
            setup: setup.map(Into::into),
            passkeys: passkeys(&user, app.now_ms()),
            passkeys_possible: app.auth.passkeys.is_some(),
            can_remove: count > 1,
            base_url: app.web.facts.base_url.clone(),
            invitation: said.invitation,
            others: approvers(others),
            recovery_left: app.web.store.count_recovery_codes(signed.name()).await?,
            recovery_codes: said.recovery_codes,
            profile: user.provider.as_ref().map(|provider| ProfileView::new(&provider.profile)),
            may_manage: signed.may_manage_users(&people),
        },
    ))
}

/// Finds the calls that wait for the user. A user who has just enrolled probably came because of one.
async fn waiting(app: &AppState, pending: u64) -> Result<Option<WaitingCalls>, StoreError> {
    if pending == 0 {
        return Ok(None);
    }
    let filter = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
    let found = app.web.gateway.approvals().list(&filter, None, 1).await?;
    Ok(WaitingCalls::new(pending, found.approvals.first().map(|approval| approval.id.as_str())))
}

/// Returns the secret for a new authenticator app. It is derived from the session, so that two open pages show the same
/// QR code without storing anything. It changes as soon as an app uses it.
async fn new_secret(app: &AppState, signed: &SignedInUser, user: &UserRow) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(random) = random_bytes() else { return Ok(None) };
    let shared = app.web.store.shared_secret(NEW_TOTP, random).await?;
    let now = user.totp.as_ref().map(|totp| totp.secret.as_slice()).unwrap_or_default();
    let digest = Sha256::new()
        .chain_update(shared)
        .chain_update(Sha256::digest(&signed.secret))
        .chain_update(Sha256::digest(now))
        .finalize();
    Ok(digest.get(..totp::SECRET_BYTES).map(<[u8]>::to_vec))
}

async fn set_totp(State(app): State<AppState>, posted: Posted) -> Response {
    answer(set_totp_or_fail(&app, &posted).await)
}

async fn set_totp_or_fail(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let Some(user) = app.web.store.find_user(signed.name()).await? else { return Ok(signed_out("/ui/account")) };
    let (code, now_ms) = (posted.form.or_empty("code"), app.now_ms());
    // A double click sends the form twice. The second one succeeds too.
    let is_done = |totp: &Totp| totp::step_of(&totp.secret, code, now_ms) == Some(totp.last_step);
    if let Some(totp) = user.totp.as_ref().filter(|totp| is_done(totp)) {
        return enrolled(app, signed, &totp.secret, Enrolled::Totp).await;
    }
    let secret = new_secret(app, signed, &user).await?.unwrap_or_default();
    let Some(step) = totp::step_of(&secret, code, now_ms) else {
        let error =
            Some("This code is wrong. Check that the clock of your phone is correct, then try again.".to_owned());
        let said = AccountNotice { error, wants_new_app: true, wrong: Some("code"), ..AccountNotice::default() };
        return account(app, signed, StatusCode::UNPROCESSABLE_ENTITY, said).await;
    };
    if let FactorChange::NotAllowed(not) = may_change(app, posted, TOTP, Recovery::Accepted).await? {
        let said = AccountNotice { wants_new_app: true, ..not.said() };
        return account(app, signed, StatusCode::UNPROCESSABLE_ENTITY, said).await;
    }
    app.web.store.set_totp(signed.user(), &secret, step).await?;
    records::write(app, records::done("factor_added", signed.name())).await;
    enrolled(app, signed, &secret, Enrolled::Totp).await
}

/// Checks that the user may change factors. This takes a factor, or presence if there is none yet. Otherwise a stolen
/// session cookie could register a factor of the thief.
pub(super) async fn may_change(
    app: &AppState,
    posted: &Posted,
    purpose: &str,
    recovery: Recovery,
) -> Result<FactorChange, StoreError> {
    if posted.signed.is_of_provider() {
        return Ok(FactorChange::NotAllowed(NotAllowed::AtProvider));
    }
    let user = app.web.store.find_user(posted.signed.name()).await?;
    let has_factor = user.is_none_or(|user| user.totp.is_some() || !user.passkeys.is_empty());
    if !has_factor {
        return Ok(match app.prove_presence(&posted.signed, posted.presence()).await? {
            PresenceResult::Present(_) => FactorChange::Allowed,
            PresenceResult::Absent(absent) => FactorChange::NotAllowed(NotAllowed::Presence(absent)),
        });
    }
    let input = match recovery {
        Recovery::Accepted => posted.factor_or_recovery_code(),
        Recovery::Refused => posted.factor(),
    };
    Ok(match app.step_up(&posted.signed, input, purpose).await? {
        StepUpResult::Verified(_) => FactorChange::Allowed,
        StepUpResult::NotVerified(fault) => FactorChange::NotAllowed(NotAllowed::Factor(fault)),
    })
}

/// Creates a passkey challenge for one of the forms on this page.
async fn challenge(State(app): State<AppState>, posted: Posted) -> Response {
    let purpose = match posted.form.or_empty("for") {
        TOTP => TOTP,
        ADD => ADD,
        INVITE => INVITE,
        PASSWORD => PASSWORD,
        RECOVERY => RECOVERY,
        path if is_removal(path) => path,
        path if path.starts_with("/ui/account/passkeys/") && path.ends_with("/remove") => REMOVE,
        _ => return Problem::NOT_FOUND.into_response(),
    };
    for_browser(app.challenge(&posted.signed, purpose).await)
}

/// Returns the challenge as JSON.
pub(crate) fn for_browser(challenge: Result<Option<String>, StoreError>) -> Response {
    match challenge {
        Ok(Some(json)) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Ok(None) => Problem::BAD_BODY.message("you have no passkey for this site".to_owned()).into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

async fn begin_passkey(State(app): State<AppState>, posted: Posted) -> Response {
    let begun = async || -> Result<String, Problem> {
        if let FactorChange::NotAllowed(not) = may_change(&app, &posted, ADD, Recovery::Accepted).await? {
            return Err(Problem::BAD_BODY.message(not.message()));
        }
        let (Some(passkeys), Some(user)) = (&app.auth.passkeys, app.web.store.find_user(posted.signed.name()).await?)
        else {
            return Err(Problem::BAD_BODY.message("passkeys do not work at this address".to_owned()));
        };
        let kept: Vec<String> = user.passkeys.into_iter().map(|passkey| passkey.data).collect();
        let Some(challenge) = log_error(passkeys.begin_new(&user.name, &kept)) else {
            return Err(Problem::BAD_BODY.message("the passkey request could not be created".to_owned()));
        };
        let (secret, now_ms) = (&posted.signed.secret, app.now_ms());
        app.web.store.save_challenge(secret, NEW_PASSKEY, &challenge.state, now_ms, SETUP_MS).await?;
        Ok(challenge.for_browser)
    };
    match begun().await {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn add_passkey(State(app): State<AppState>, posted: Posted) -> Response {
    answer(add_passkey_or_fail(&app, &posted).await)
}

/// Needs no factor here: `begin_passkey` checked one before it stored the challenge.
async fn add_passkey_or_fail(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let state = app.web.store.take_challenge(&signed.secret, NEW_PASSKEY, app.now_ms()).await?;
    let kept = state
        .as_deref()
        .zip(app.auth.passkeys.as_ref())
        .and_then(|(state, passkeys)| log_error(passkeys.finish_new(posted.form.or_empty("credential"), state)));
    let is_added = match kept {
        Some(kept) => {
            let label: String =
                posted.form.filled("label").unwrap_or("passkey").chars().take(LABEL_MAX_CHARS).collect();
            app.web.store.add_passkey(signed.user(), &kept.id, &label, &kept.data, app.now_ms()).await?
        }
        None => false,
    };
    if !is_added {
        let error = Some("The passkey was not added. Try again.".to_owned());
        return account(
            app,
            signed,
            StatusCode::UNPROCESSABLE_ENTITY,
            AccountNotice { error, ..AccountNotice::default() },
        )
        .await;
    }
    records::write(app, records::done("factor_added", signed.name())).await;
    let seed: Option<[u8; 32]> = random_bytes();
    enrolled(app, signed, &seed.unwrap_or_default(), Enrolled::Passkey).await
}

async fn remove_passkey(
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    posted: Posted,
) -> Response {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    answer(remove_passkey_or_fail(&app, &id, &posted).await)
}

async fn remove_passkey_or_fail(app: &AppState, id: &str, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let again = async |error: String| {
        account(
            app,
            signed,
            StatusCode::UNPROCESSABLE_ENTITY,
            AccountNotice { error: Some(error), ..AccountNotice::default() },
        )
        .await
    };
    let user = app.web.store.find_user(signed.name()).await?;
    let is_last = user.is_none_or(|user: UserRow| user.totp.is_none() && user.passkeys.len() < 2);
    if is_last {
        return again("You cannot remove your last factor. Add another one first.".to_owned()).await;
    }
    if let FactorChange::NotAllowed(not) = may_change(app, posted, REMOVE, Recovery::Refused).await? {
        return again(not.message()).await;
    }
    if !app.web.store.remove_passkey(signed.user(), id).await? {
        return again("This passkey does not exist.".to_owned()).await;
    }
    records::write(app, records::done("factor_removed", signed.name())).await;
    Ok(Redirect::to("/ui/account?done=removed").into_response())
}

pub(super) fn answer(done: Result<Response, StoreError>) -> Response {
    done.unwrap_or_else(|error| unavailable(&error))
}
