//! Whether a person is there. A session's cookie alone does not show that: browsers send it to every port of a host, and so
//! to the programs of others.

use mcpproxy_store::{PresenceProof, StoreError};

use super::factor::waiting;
use super::login::Refused;
use crate::auth::identity::{Signed, Site};
use crate::auth::records;

/// What somebody shows beside the cookie.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shown<'a> {
    /// Pages have it where no other port can read it.
    pub(crate) page_key: Option<&'a str>,
    /// Where there is no script to keep the key.
    pub(crate) password: Option<&'a str>,
}

/// Why nobody seems to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// No password, and no key of this session.
    Missing,
    WrongPassword,
    TooMany {
        wait_ms: i64,
    },
}

impl Absent {
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

impl Site {
    pub(crate) async fn present(
        &self,
        signed: &Signed,
        shown: Shown<'_>,
    ) -> Result<Result<PresenceProof, Absent>, StoreError> {
        if let Some(present) = shown.page_key.and_then(|key| signed.session.present(key)) {
            return Ok(Ok(present));
        }
        let Some(password) = shown.password else { return Ok(Err(Absent::Missing)) };
        self.by_password(signed, password).await
    }

    /// Counted with those that are typed to sign in.
    pub(crate) async fn by_password(
        &self,
        signed: &Signed,
        password: &str,
    ) -> Result<Result<PresenceProof, Absent>, StoreError> {
        Ok(match self.check_password(signed.name(), password.to_owned()).await? {
            Ok(_) => Ok(signed.user().present_by_password()),
            Err(Refused::Wrong) => {
                let metadata = serde_json::json!({"user": signed.name()});
                records::write(self, records::refused("password_wrong", None, &metadata)).await;
                Err(Absent::WrongPassword)
            }
            Err(Refused::TooMany { wait_ms }) => Err(Absent::TooMany { wait_ms }),
        })
    }
}
