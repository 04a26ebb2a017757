//! The second factor (step-up): a fresh code from an authenticator app, a passkey, or a fresh sign-in at the identity
//! provider. On the account page, also a recovery code.
//!
//! A [`StepUpProof`] is bound to one purpose, such as the id of an approval request or the path of an account form. A
//! proof for one approval cannot approve another one. Each code works once: the store remembers the last used time
//! step. A passkey answers a challenge that the store deletes when it is used.
//!
//! Five wrong codes in a row lock the factor of a user for five minutes, at all gateways of the database.

use mcpproxy_store::{Admission, Attempt, StepUpProof, StoreError, UserRow};

use super::passkey::{Challenge, PasskeyError};
use super::{recovery, totp};
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::records;

/// Wrong codes in a row before the factor is locked.
const TRIES: u32 = 5;
const LOCK_MS: i64 = 5 * 60_000;
/// The lifetime of a passkey challenge.
const CHALLENGE_MS: i64 = 5 * 60_000;

/// The factor that came with a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FactorInput<'a> {
    pub(crate) totp: Option<&'a str>,
    /// The JSON of the browser.
    pub(crate) passkey: Option<&'a str>,
    /// The proof of a sign-in at the identity provider.
    pub(crate) provider: Option<&'a str>,
    /// Only where a lost factor is replaced.
    pub(crate) recovery: Option<&'a str>,
}

/// The factors of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Factors {
    pub(crate) totp: bool,
    pub(crate) passkey: bool,
    /// The factor is at the identity provider.
    pub(crate) provider: bool,
}

impl Factors {
    pub(crate) fn of(user: &UserRow) -> Self {
        Self { totp: user.totp.is_some(), passkey: !user.passkeys.is_empty(), provider: user.provider.is_some() }
    }

    pub(crate) fn names(self) -> Vec<&'static str> {
        [(self.totp, "totp"), (self.passkey, "passkey"), (self.provider, "provider")]
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
            .collect()
    }
}

/// The result of verifying a second factor.
#[must_use]
pub(crate) enum StepUpResult {
    Verified(StepUpProof),
    NotVerified(FactorError),
}

/// The reason why there is no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FactorError {
    Missing,
    /// Wrong or already used.
    Wrong,
    /// As `Wrong`, for a sign-in at the identity provider.
    Confirmation,
    TooMany {
        wait_ms: i64,
    },
}

impl FactorError {
    pub(crate) fn message(self) -> String {
        match self {
            Self::Missing => "This needs a second factor. Confirm it in the form, then try again.".to_owned(),
            Self::Wrong => "The code is wrong or was already used. Wait for the next one.".to_owned(),
            Self::Confirmation => {
                "This confirmation of your identity provider was already used or has expired. Confirm again.".to_owned()
            }
            Self::TooMany { wait_ms } => {
                format!("Too many wrong codes. Wait {} before you try again.", waiting(wait_ms))
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

impl AppState {
    /// Verifies a factor and uses it up, for this purpose only.
    pub(crate) async fn step_up(
        &self,
        signed: &SignedInUser,
        input: FactorInput<'_>,
        purpose: &str,
    ) -> Result<StepUpResult, StoreError> {
        let now_ms = self.now_ms();
        let store = &self.web.store;
        let Some(user) = store.find_user(signed.name()).await? else {
            return Ok(StepUpResult::NotVerified(FactorError::Wrong));
        };
        let FactorInput { totp, passkey, provider, recovery } = input;
        if [totp, passkey, provider, recovery].iter().all(Option::is_none) {
            return Ok(StepUpResult::NotVerified(FactorError::Missing));
        }
        if user.locked_until_ms > now_ms {
            return Ok(StepUpResult::NotVerified(FactorError::TooMany { wait_ms: user.locked_until_ms - now_ms }));
        }
        // Counted before the check, so that parallel attempts at several gateways cannot exceed the limit.
        let attempt = Attempt::Factor(signed.user());
        if let Admission::TooMany { wait_ms } = store.count_attempt(attempt, now_ms).await? {
            return Ok(StepUpResult::NotVerified(FactorError::TooMany { wait_ms }));
        }
        let fresh = match input {
            FactorInput { passkey: Some(answer), .. } => self.by_passkey(signed, &user, answer, purpose).await?,
            FactorInput { totp: Some(code), .. } => self.by_code(signed, &user, code, purpose).await?,
            FactorInput { provider: Some(proof), .. } => {
                store.use_provider_proof(signed.user(), &signed.secret, proof, purpose, now_ms).await?
            }
            FactorInput { recovery: Some(code), .. } => self.by_recovery_code(signed, code, purpose).await?,
            FactorInput { .. } => None,
        };
        let Some(fresh) = fresh else {
            let is_last = user.failures.saturating_add(1) >= TRIES;
            let locked_until_ms = if is_last { now_ms + LOCK_MS } else { 0 };
            store.record_failure(signed.name(), now_ms, locked_until_ms).await?;
            let metadata = serde_json::json!({"user": signed.name(), "for": purpose});
            records::write(self, records::refused("step_up_failed", None, &metadata)).await;
            let fault = if provider.is_some() { FactorError::Confirmation } else { FactorError::Wrong };
            return Ok(StepUpResult::NotVerified(fault));
        };
        store.forgive_attempt(attempt).await?;
        if user.failures > 0 {
            store.reset_failures(signed.name()).await?;
        }
        Ok(StepUpResult::Verified(fresh))
    }

    async fn by_code(
        &self,
        signed: &SignedInUser,
        user: &UserRow,
        code: &str,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let step = user.totp.as_ref().and_then(|totp| totp::step_of(&totp.secret, code, self.now_ms()));
        let Some(step) = step else { return Ok(None) };
        self.web.store.use_totp_step(signed.user(), step, purpose).await
    }

    async fn by_recovery_code(
        &self,
        signed: &SignedInUser,
        code: &str,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let store = &self.web.store;
        let proof = store.use_recovery_code(signed.user(), &recovery::plain(code), purpose).await?;
        if proof.is_some() {
            let left = store.count_recovery_codes(signed.name()).await?;
            let metadata = serde_json::json!({"user": signed.name(), "for": purpose, "left": left});
            records::write(self, records::done_with("recovery_code_used", &metadata)).await;
        }
        Ok(proof)
    }

    async fn by_passkey(
        &self,
        signed: &SignedInUser,
        user: &UserRow,
        answer: &str,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let store = &self.web.store;
        let Some(passkeys) = &self.auth.passkeys else { return Ok(None) };
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

    /// Creates a passkey challenge for this purpose.
    pub(crate) async fn challenge(&self, signed: &SignedInUser, purpose: &str) -> Result<Option<String>, StoreError> {
        let store = &self.web.store;
        let Some(passkeys) = &self.auth.passkeys else { return Ok(None) };
        let Some(user) = store.find_user(signed.name()).await? else { return Ok(None) };
        let kept: Vec<String> = user.passkeys.into_iter().map(|passkey| passkey.data).collect();
        let Some(Challenge { for_browser, state }) = log_error(passkeys.begin(&kept)) else { return Ok(None) };
        store.save_challenge(&signed.secret, &kept_as(purpose), &state, self.now_ms(), CHALLENGE_MS).await?;
        Ok(Some(for_browser))
    }
}

/// Logs a passkey error.
pub(crate) fn log_error<T>(done: Result<T, PasskeyError>) -> Option<T> {
    done.inspect_err(|error| tracing::info!(error = error as &dyn std::error::Error, "no passkey")).ok()
}

fn kept_as(purpose: &str) -> String {
    format!("factor {purpose}")
}
