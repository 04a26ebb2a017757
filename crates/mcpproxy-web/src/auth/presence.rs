//! Whether a person is there. A session's cookie alone does not show that: browsers send it to every port of a host, and so
//! to the programs of others.

use mcpproxy_store::{PresenceProof, StoreError};

use super::factor::waiting;
use super::login::LoginError;
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::records;

/// What somebody shows beside the cookie.
#[derive(Clone, Copy, Default)]
pub(crate) struct PresenceInput<'a> {
    /// Pages have it where no other port can read it.
    pub(crate) page_key: Option<&'a str>,
    /// Where there is no script to keep the key.
    pub(crate) password: Option<&'a str>,
}

/// Why nobody seems to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PresenceError {
    /// No password, and no key of this session.
    Missing,
    WrongPassword,
    TooMany {
        wait_ms: i64,
    },
}

impl PresenceError {
    pub(crate) fn message(self) -> String {
        match self {
            Self::Missing => {
                "Enter your password: this page has no key of your session, because JavaScript is off or the \
                key was lost. Nothing was changed."
                    .to_owned()
            }
            Self::WrongPassword => "The password is wrong. Nothing was changed.".to_owned(),
            Self::TooMany { wait_ms } => {
                format!("Too many wrong passwords. Wait {} before the next. Nothing was changed.", waiting(wait_ms))
            }
        }
    }
}

impl AppState {
    pub(crate) async fn prove_presence(
        &self,
        signed: &SignedInUser,
        input: PresenceInput<'_>,
    ) -> Result<Result<PresenceProof, PresenceError>, StoreError> {
        if let Some(present) = input.page_key.and_then(|key| signed.session.present(key)) {
            return Ok(Ok(present));
        }
        let Some(password) = input.password else { return Ok(Err(PresenceError::Missing)) };
        self.prove_presence_by_password(signed, password).await
    }

    /// Counted with those that are typed to sign in.
    pub(crate) async fn prove_presence_by_password(
        &self,
        signed: &SignedInUser,
        password: &str,
    ) -> Result<Result<PresenceProof, PresenceError>, StoreError> {
        Ok(match self.check_password(signed.name(), password.to_owned()).await? {
            Ok(_) => Ok(signed.user().present_by_password()),
            Err(LoginError::Wrong) => {
                let metadata = serde_json::json!({"user": signed.name()});
                records::write(self, records::refused("password_wrong", None, &metadata)).await;
                Err(PresenceError::WrongPassword)
            }
            Err(LoginError::TooMany { wait_ms }) => Err(PresenceError::TooMany { wait_ms }),
        })
    }
}
