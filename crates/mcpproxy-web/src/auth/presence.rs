//! Proves that a user is present at one of our pages. A session cookie alone cannot approve a call.
//!
//! Cookies belong to a host, not to a port. A browser with a session at `localhost:8080` also sends the cookie to
//! `localhost:3000`, so any local program that the user opens in the browser receives it. An agent can start such a
//! program. If the cookie were enough, the agent could approve its own calls.
//!
//! An approval therefore needs a [`PresenceProof`], which there are three ways to get (two for users of an identity
//! provider, who have no password here):
//!
//! 1. **Page key.** Signing in redirects to a page with `#key=…`. Browsers never send the part behind `#`.
//!    `assets/key.js` stores the key in `localStorage`, which is separate for each port, and puts it into forms.
//! 2. **Password.** Without JavaScript, or if the key is lost, the form asks for the password. Failures count as failed
//!    sign-ins.
//! 3. **Second factor.** A fresh code or passkey (`factor.rs`) proves more, and contains a presence proof. Critical
//!    calls require it: a program that can read the browser profile also finds the page key.
//!
//! The store creates the proof types, and `Approvals::approve` takes them as arguments. Code that skips the check does
//! not compile. Denying needs no proof, because a stolen cookie that denies calls does no harm.

use mcpproxy_store::{Attempt, PresenceProof, StoreError};

use super::factor::waiting;
use super::login::{LoginError, PasswordCheck};
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::records;

/// The proof that came with a form.
#[derive(Clone, Copy, Default)]
pub(crate) struct PresenceInput<'a> {
    /// From `localStorage`, which no other port can read.
    pub(crate) page_key: Option<&'a str>,
    /// Typed, if there is no script to store the key.
    pub(crate) password: Option<&'a str>,
}

/// The result of asking for a proof of presence.
#[must_use]
pub(crate) enum PresenceResult {
    Present(PresenceProof),
    Absent(PresenceError),
}

/// The reason why there is no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PresenceError {
    /// Neither a password nor the page key of the session.
    Missing,
    WrongPassword,
    /// The page key of the session is missing, and the user has no password: the identity provider has it.
    KeyMissing,
    TooMany {
        wait_ms: i64,
    },
}

impl PresenceError {
    pub(crate) fn message(self) -> String {
        match self {
            Self::Missing => {
                "Enter your password. This page cannot prove that you are present, because JavaScript is off or the session \
                key was lost. Nothing was changed."
                    .to_owned()
            }
            Self::KeyMissing => {
                "This page cannot prove that you are present, because JavaScript is off or the session key was lost. Sign \
                 out and sign in again. Nothing was changed."
                    .to_owned()
            }
            Self::WrongPassword => "The password is wrong. Nothing was changed.".to_owned(),
            Self::TooMany { wait_ms } => {
                format!("Too many wrong passwords. Wait {} before you try again. Nothing was changed.", waiting(wait_ms))
            }
        }
    }
}

impl AppState {
    pub(crate) async fn prove_presence(
        &self,
        signed: &SignedInUser,
        input: PresenceInput<'_>,
    ) -> Result<PresenceResult, StoreError> {
        if let Some(present) = input.page_key.and_then(|key| signed.session.present(key)) {
            return Ok(PresenceResult::Present(present));
        }
        if signed.is_of_provider() {
            return Ok(PresenceResult::Absent(PresenceError::KeyMissing));
        }
        let Some(password) = input.password else { return Ok(PresenceResult::Absent(PresenceError::Missing)) };
        self.prove_presence_by_password(signed, password).await
    }

    /// Failures count as failed sign-ins.
    pub(crate) async fn prove_presence_by_password(
        &self,
        signed: &SignedInUser,
        password: &str,
    ) -> Result<PresenceResult, StoreError> {
        Ok(match self.check_password(Attempt::Password(signed.user()), password.to_owned()).await? {
            PasswordCheck::Right(_) => PresenceResult::Present(signed.user().present_by_password()),
            PasswordCheck::Refused(LoginError::Wrong(_) | LoginError::Off) => {
                let metadata = serde_json::json!({"user": signed.name()});
                records::write(self, records::refused("password_wrong", None, &metadata)).await;
                PresenceResult::Absent(PresenceError::WrongPassword)
            }
            PasswordCheck::Refused(LoginError::TooMany { wait_ms } | LoginError::Busy { wait_ms }) => {
                PresenceResult::Absent(PresenceError::TooMany { wait_ms })
            }
        })
    }
}
