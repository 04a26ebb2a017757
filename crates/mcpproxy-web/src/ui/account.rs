//! The account page, and its forms for factors.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use mcpproxy_store::{StoreError, Totp, UserRow};
use sha2::{Digest as _, Sha256};

use super::persons::{INVITE, PASSWORD, is_removal};
use super::posted::Posted;
use super::{frame, signed_out, unavailable};
use crate::auth::factor::{Factors, Fault, told};
use crate::auth::identity::{Signed, Site, Who};
use crate::auth::presence::Absent;
use crate::auth::records;
use crate::auth::{random_bytes, totp};
use crate::problem::Problem;
use crate::ui::pages::account::{Account, passkeys, persons};
use crate::ui::pages::{Frame, page};

const SETUP_MS: i64 = 15 * 60_000;
const LABEL_MAX_CHARS: usize = 60;
/// Under these names the store keeps what is needed to check an answer.
const NEW_TOTP: &str = "new totp";
const TOTP_DONE: &str = "/ui/account?done=totp";
const NEW_PASSKEY: &str = "new passkey";
/// What a fresh factor on this page can be for.
const TOTP: &str = "/ui/account/totp";
const ADD: &str = "/ui/account/passkeys/finish";
const REMOVE: &str = "/ui/account/passkeys/remove";

/// What the page says besides what it always says.
#[derive(Default)]
pub(super) struct Said {
    pub(super) error: Option<String>,
    pub(super) done: Option<&'static str>,
    pub(super) invitation: Option<String>,
    pub(super) wants_new_app: bool,
    pub(super) asks_password: bool,
}

/// Why a change was not made.
pub(super) enum NotAllowed {
    Factor(Fault),
    Absent(Absent),
}

impl NotAllowed {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Factor(fault) => fault.message(),
            Self::Absent(absent) => absent.message(),
        }
    }

    fn said(&self) -> Said {
        let asks_password = matches!(self, Self::Absent(_));
        Said { error: Some(self.message()), asks_password, ..Said::default() }
    }
}

pub(crate) async fn show(State(site): State<Site>, Extension(who): Extension<Who>, uri: Uri) -> Response {
    let Who::Person(signed) = who else { return signed_out("/ui/account") };
    let wants = |what: &str| uri.query().is_some_and(|query| query.split('&').any(|pair| pair == what));
    let done = match () {
        () if wants("done=totp") => Some("The authenticator app is set up. You can decide now."),
        () if wants("done=passkey") => Some("The passkey was added."),
        () if wants("done=removed") => Some("The passkey was removed."),
        () if wants("done=password") => Some("The password was changed. All your other sessions have ended."),
        () if wants("done=person") => {
            Some("They were removed: their sessions have ended, and their invitations and grants are withdrawn.")
        }
        () => None,
    };
    let said = Said { done, wants_new_app: wants("new=totp"), ..Said::default() };
    answer(account(&site, &signed, StatusCode::OK, said).await)
}

pub(super) async fn account(
    site: &Site,
    signed: &Signed,
    status: StatusCode,
    said: Said,
) -> Result<Response, StoreError> {
    let Some(user) = site.web.store.find_user(signed.name()).await? else { return Ok(signed_out("/ui/account")) };
    let factors = Factors::of(&user);
    let is_enrolled = signed.session.is_enrolled;
    let setup = match user.totp.is_none() || said.wants_new_app {
        true => new_secret(site, signed, &user).await?.and_then(|secret| totp::setup(&secret, signed.name())),
        false => None,
    };
    let title = if is_enrolled { "Account" } else { "Add a second factor" };
    let count = user.passkeys.len() + usize::from(factors.totp);
    let mut others = if is_enrolled { site.web.store.list_users().await? } else { Vec::new() };
    others.retain(|name| name != signed.name());
    let frame = frame::around(site, signed, "account", title).await?;
    Ok(page(
        status,
        &Account {
            frame: Frame { asks_password: said.asks_password, ..frame },
            error: said.error,
            done: said.done,
            is_enrolled,
            factors,
            setup: setup.map(Into::into),
            passkeys: passkeys(&user, site.now_ms()),
            passkeys_possible: site.people.passkeys.is_some(),
            can_remove: count > 1,
            base_url: site.web.facts.base_url.clone(),
            invitation: said.invitation,
            others: persons(others),
        },
    ))
}

/// The secret that the next app gets: the same on every page of this session until an app has it, and then never again.
/// Nothing is kept that two open pages could take from each other.
async fn new_secret(site: &Site, signed: &Signed, user: &UserRow) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(random) = random_bytes() else { return Ok(None) };
    let shared = site.web.store.shared_secret(NEW_TOTP, random).await?;
    let now = user.totp.as_ref().map(|totp| totp.secret.as_slice()).unwrap_or_default();
    let digest = Sha256::new()
        .chain_update(shared)
        .chain_update(Sha256::digest(&signed.secret))
        .chain_update(Sha256::digest(now))
        .finalize();
    Ok(digest.get(..totp::SECRET_BYTES).map(<[u8]>::to_vec))
}

pub(crate) async fn set_totp(State(site): State<Site>, posted: Posted) -> Response {
    answer(set_totp_or_fail(&site, &posted).await)
}

async fn set_totp_or_fail(site: &Site, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let again = async |error: String| {
        let said = Said { error: Some(error), wants_new_app: true, ..Said::default() };
        account(site, signed, StatusCode::UNPROCESSABLE_ENTITY, said).await
    };
    let Some(user) = site.web.store.find_user(signed.name()).await? else { return Ok(signed_out("/ui/account")) };
    let (code, now_ms) = (posted.form.or_empty("code"), site.now_ms());
    // Whoever clicks twice has done it once.
    let is_done = |totp: &Totp| totp::step_of(&totp.secret, code, now_ms) == Some(totp.last_step);
    if user.totp.as_ref().is_some_and(is_done) {
        return Ok(Redirect::to(TOTP_DONE).into_response());
    }
    let secret = new_secret(site, signed, &user).await?.unwrap_or_default();
    let Some(step) = totp::step_of(&secret, code, now_ms) else {
        let error =
            "That is not the code the app shows now. Check that the clock of your phone is right, and try again.";
        return again(error.to_owned()).await;
    };
    if let Err(not) = allowed(site, posted, TOTP).await? {
        let said = Said { wants_new_app: true, ..not.said() };
        return account(site, signed, StatusCode::UNPROCESSABLE_ENTITY, said).await;
    }
    site.web.store.set_totp(signed.user(), &secret, step).await?;
    records::write(site, records::done("factor_added", signed.name())).await;
    Ok(Redirect::to(TOTP_DONE).into_response())
}

/// Whoever has a factor shows it before anything changes, and for the first one it takes a person who is there: otherwise
/// a stolen session would bring its own.
pub(super) async fn allowed(site: &Site, posted: &Posted, purpose: &str) -> Result<Result<(), NotAllowed>, StoreError> {
    let user = site.web.store.find_user(posted.signed.name()).await?;
    let has_factor = user.is_none_or(|user| user.totp.is_some() || !user.passkeys.is_empty());
    if !has_factor {
        let present = site.present(&posted.signed, posted.shown()).await?;
        return Ok(present.map(drop).map_err(NotAllowed::Absent));
    }
    let fresh = site.fresh(&posted.signed, posted.factor(), purpose).await?;
    Ok(fresh.map(drop).map_err(NotAllowed::Factor))
}

/// A challenge for one of the forms on this page.
pub(crate) async fn challenge(State(site): State<Site>, posted: Posted) -> Response {
    let purpose = match posted.form.or_empty("for") {
        TOTP => TOTP,
        ADD => ADD,
        INVITE => INVITE,
        PASSWORD => PASSWORD,
        path if is_removal(path) => path,
        path if path.starts_with("/ui/account/passkeys/") && path.ends_with("/remove") => REMOVE,
        _ => return Problem::NoRoute.into_response(),
    };
    for_browser(site.challenge(&posted.signed, purpose).await)
}

/// What a browser is asked, as JSON.
pub(crate) fn for_browser(challenge: Result<Option<String>, StoreError>) -> Response {
    match challenge {
        Ok(Some(json)) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Ok(None) => Problem::BadBody("you have no passkey that works here".to_owned()).into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

pub(crate) async fn begin_passkey(State(site): State<Site>, posted: Posted) -> Response {
    let begun = async || -> Result<Result<String, Problem>, StoreError> {
        if let Err(not) = allowed(&site, &posted, ADD).await? {
            return Ok(Err(Problem::BadBody(not.message())));
        }
        let (Some(passkeys), Some(user)) =
            (&site.people.passkeys, site.web.store.find_user(posted.signed.name()).await?)
        else {
            return Ok(Err(Problem::BadBody("passkeys do not work at this address".to_owned())));
        };
        let kept: Vec<String> = user.passkeys.into_iter().map(|passkey| passkey.data).collect();
        let Some(challenge) = told(passkeys.begin_new(&user.name, &kept)) else {
            return Ok(Err(Problem::BadBody("no passkey could be asked for".to_owned())));
        };
        let (secret, now_ms) = (&posted.signed.secret, site.now_ms());
        site.web.store.save_challenge(secret, NEW_PASSKEY, &challenge.state, now_ms, SETUP_MS).await?;
        Ok(Ok(challenge.for_browser))
    };
    match begun().await {
        Ok(Ok(json)) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Ok(Err(problem)) => problem.into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

pub(crate) async fn add_passkey(State(site): State<Site>, posted: Posted) -> Response {
    answer(add_passkey_or_fail(&site, &posted).await)
}

/// The challenge is there only because a factor was shown when the passkey was asked for.
async fn add_passkey_or_fail(site: &Site, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let state = site.web.store.take_challenge(&signed.secret, NEW_PASSKEY, site.now_ms()).await?;
    let kept = state
        .as_deref()
        .zip(site.people.passkeys.as_ref())
        .and_then(|(state, passkeys)| told(passkeys.finish_new(posted.form.or_empty("credential"), state)));
    let is_added = match kept {
        Some(kept) => {
            let label: String =
                posted.form.filled("label").unwrap_or("passkey").chars().take(LABEL_MAX_CHARS).collect();
            site.web.store.add_passkey(signed.user(), &kept.id, &label, &kept.data, site.now_ms()).await?
        }
        None => false,
    };
    if !is_added {
        let error = Some("The passkey was not added. Try again.".to_owned());
        return account(site, signed, StatusCode::UNPROCESSABLE_ENTITY, Said { error, ..Said::default() }).await;
    }
    records::write(site, records::done("factor_added", signed.name())).await;
    Ok(Redirect::to("/ui/account?done=passkey").into_response())
}

pub(crate) async fn remove_passkey(
    State(site): State<Site>,
    id: Result<Path<String>, PathRejection>,
    posted: Posted,
) -> Response {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    answer(remove_passkey_or_fail(&site, &id, &posted).await)
}

async fn remove_passkey_or_fail(site: &Site, id: &str, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let again = async |error: String| {
        account(site, signed, StatusCode::UNPROCESSABLE_ENTITY, Said { error: Some(error), ..Said::default() }).await
    };
    let user = site.web.store.find_user(signed.name()).await?;
    let is_last = user.is_none_or(|user: UserRow| user.totp.is_none() && user.passkeys.len() < 2);
    if is_last {
        return again("This is your last factor. Add another one first.".to_owned()).await;
    }
    if let Err(not) = allowed(site, posted, REMOVE).await? {
        return again(not.message()).await;
    }
    if !site.web.store.remove_passkey(signed.user(), id).await? {
        return again("There is no such passkey.".to_owned()).await;
    }
    records::write(site, records::done("factor_removed", signed.name())).await;
    Ok(Redirect::to("/ui/account?done=removed").into_response())
}

pub(super) fn answer(done: Result<Response, StoreError>) -> Response {
    done.unwrap_or_else(|error| unavailable(&error))
}
