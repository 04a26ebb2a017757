//! A fresh factor for one purpose: a code that was not used before, or the answer of a passkey.

use mcpproxy_store::{StepUpProof, StoreError, UserRow};

use super::passkey::{Challenge, PasskeyError};
use super::totp;
use crate::auth::identity::{Signed, Site};
use crate::auth::records;

/// So many wrong codes in a row, and then none counts for a while.
const TRIES: u32 = 5;
const LOCK_MS: i64 = 5 * 60_000;
/// A browser has so long to answer.
const CHALLENGE_MS: i64 = 5 * 60_000;

/// What somebody shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given<'a> {
    pub(crate) totp: Option<&'a str>,
    /// What the browser answered, as JSON.
    pub(crate) passkey: Option<&'a str>,
}

/// The factors a person has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Factors {
    pub(crate) totp: bool,
    pub(crate) passkey: bool,
}

impl Factors {
    pub(crate) fn of(user: &UserRow) -> Self {
        Self { totp: user.totp.is_some(), passkey: !user.passkeys.is_empty() }
    }

    pub(crate) fn names(self) -> Vec<&'static str> {
        [(self.totp, "totp"), (self.passkey, "passkey")]
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
            .collect()
    }
}

/// Why there is no fresh factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Missing,
    /// Wrong, or used before.
    Wrong,
    TooMany {
        wait_ms: i64,
    },
}

impl Fault {
    pub(crate) fn message(self) -> String {
        match self {
            Self::Missing => "Enter a code from your authenticator app, or use a passkey.".to_owned(),
            Self::Wrong => {
                "That did not count: the code is wrong, or was used before. Wait for the next one.".to_owned()
            }
            Self::TooMany { wait_ms } => {
                format!("Too many wrong codes. Wait {} before the next.", waiting(wait_ms))
            }
        }
    }
}

pub(crate) fn waiting(wait_ms: i64) -> String {
    match wait_ms / 1000 + 1 {
        1 => "a second".to_owned(),
        seconds @ 2..=90 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", (seconds + 59) / 60),
    }
}

impl Site {
    /// Takes a factor, once, for this purpose alone.
    pub(crate) async fn fresh(
        &self,
        signed: &Signed,
        given: Given<'_>,
        purpose: &str,
    ) -> Result<Result<StepUpProof, Fault>, StoreError> {
        let now_ms = self.now_ms();
        let store = &self.web.store;
        let Some(user) = store.find_user(signed.name()).await? else { return Ok(Err(Fault::Wrong)) };
        if given.totp.is_none() && given.passkey.is_none() {
            return Ok(Err(Fault::Missing));
        }
        if user.locked_until_ms > now_ms {
            return Ok(Err(Fault::TooMany { wait_ms: user.locked_until_ms - now_ms }));
        }
        if let Err(too_many) = self.people.codes.take(signed.name(), now_ms) {
            return Ok(Err(Fault::TooMany { wait_ms: too_many.wait_ms }));
        }
        let fresh = match given {
            Given { passkey: Some(answer), .. } => self.by_passkey(signed, &user, answer, purpose).await?,
            Given { totp: Some(code), .. } => self.by_code(signed, &user, code, purpose).await?,
            Given { .. } => None,
        };
        let Some(fresh) = fresh else {
            let is_last = user.failures.saturating_add(1) >= TRIES;
            let locked_until_ms = if is_last { now_ms + LOCK_MS } else { 0 };
            store.record_failure(signed.name(), now_ms, locked_until_ms).await?;
            let metadata = serde_json::json!({"user": signed.name(), "for": purpose});
            records::write(self, records::refused("step_up_failed", None, &metadata)).await;
            return Ok(Err(Fault::Wrong));
        };
        self.people.codes.forgive(signed.name(), now_ms);
        if user.failures > 0 {
            store.reset_failures(signed.name()).await?;
        }
        Ok(Ok(fresh))
    }

    async fn by_code(
        &self,
        signed: &Signed,
        user: &UserRow,
        code: &str,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let step = user.totp.as_ref().and_then(|totp| totp::step_of(&totp.secret, code, self.now_ms()));
        let Some(step) = step else { return Ok(None) };
        self.web.store.use_totp_step(signed.user(), step, purpose).await
    }

    async fn by_passkey(
        &self,
        signed: &Signed,
        user: &UserRow,
        answer: &str,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let store = &self.web.store;
        let Some(passkeys) = &self.people.passkeys else { return Ok(None) };
        let Some(state) = store.take_challenge(&signed.secret, &kept_as(purpose), self.now_ms()).await? else {
            return Ok(None);
        };
        let kept: Vec<String> = user.passkeys.iter().map(|passkey| passkey.data.clone()).collect();
        match passkeys.finish(answer, &state, &kept) {
            Ok(kept) => store.use_passkey(signed.user(), &kept.id, &kept.data, purpose).await,
            Err(error) => {
                tracing::info!(error = &error as &dyn std::error::Error, "a passkey was not accepted");
                Ok(None)
            }
        }
    }

    /// What a browser is asked, so that its passkey can answer for this purpose.
    pub(crate) async fn challenge(&self, signed: &Signed, purpose: &str) -> Result<Option<String>, StoreError> {
        let store = &self.web.store;
        let Some(passkeys) = &self.people.passkeys else { return Ok(None) };
        let Some(user) = store.find_user(signed.name()).await? else { return Ok(None) };
        let kept: Vec<String> = user.passkeys.into_iter().map(|passkey| passkey.data).collect();
        let Some(Challenge { for_browser, state }) = told(passkeys.begin(&kept)) else { return Ok(None) };
        store.save_challenge(&signed.secret, &kept_as(purpose), &state, self.now_ms(), CHALLENGE_MS).await?;
        Ok(Some(for_browser))
    }
}

/// Logs an error where it is handled.
pub(crate) fn told<T>(done: Result<T, PasskeyError>) -> Option<T> {
    done.inspect_err(|error| tracing::info!(error = error as &dyn std::error::Error, "no passkey")).ok()
}

fn kept_as(purpose: &str) -> String {
    format!("factor {purpose}")
}
