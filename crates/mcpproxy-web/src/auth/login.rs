//! Signing in, for the page and for the REST interface.

use mcpproxy_store::{NewSession, StoreError, UserRow};

use super::password;
use super::random_bytes;
use crate::auth::identity::AppState;
use crate::auth::records;

/// A new session and its user.
pub(crate) struct LoggedIn {
    pub(crate) session: NewSession,
    pub(crate) user: UserRow,
}

/// The result of signing in.
#[must_use]
pub(crate) enum LoginResult {
    LoggedIn(Box<LoggedIn>),
    Refused(LoginError),
}

/// The result of checking a password.
#[must_use]
pub(crate) enum PasswordCheck {
    Right(Box<UserRow>),
    Refused(LoginError),
}

/// The reason why a password was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// The name or the password is wrong. Telling which one would reveal the names.
    Wrong,
    TooMany {
        wait_ms: i64,
    },
}

impl AppState {
    pub(crate) async fn log_in(&self, name: &str, password: String) -> Result<LoginResult, StoreError> {
        let user = match self.check_password(name, password).await? {
            PasswordCheck::Right(user) => *user,
            PasswordCheck::Refused(refused) => {
                if refused == LoginError::Wrong {
                    // The name is left out: users sometimes type their password into the wrong field.
                    records::write(self, records::refused("login_failed", None, &serde_json::json!({}))).await;
                }
                return Ok(LoginResult::Refused(refused));
            }
        };
        match self.open_session(&user.name).await? {
            Some(session) => {
                records::write(self, records::done("login", &user.name)).await;
                Ok(LoginResult::LoggedIn(Box::new(LoggedIn { session, user })))
            }
            None => Ok(LoginResult::Refused(LoginError::Wrong)),
        }
    }

    /// Checks a password. Failures are counted together, wherever the password was typed. Time and answer are the same
    /// whether the user exists or not.
    pub(crate) async fn check_password(&self, name: &str, password: String) -> Result<PasswordCheck, StoreError> {
        let now_ms = self.now_ms();
        let counted: String = name.chars().take(password::MAX_CHARS).collect();
        if let Err(too_many) = self.auth.attempts.take(&counted, now_ms) {
            return Ok(PasswordCheck::Refused(LoginError::TooMany { wait_ms: too_many.wait_ms }));
        }
        let user = self.web.store.find_user(name).await?;
        let hash = user.as_ref().map(|user| user.password_hash.clone());
        let is_right = self.auth.passwords.is_right(password, hash).await;
        let Some(user) = user.filter(|_| is_right) else { return Ok(PasswordCheck::Refused(LoginError::Wrong)) };
        self.auth.attempts.forgive(&counted, now_ms);
        Ok(PasswordCheck::Right(Box::new(user)))
    }

    /// Opens a session. Returns `None` if the operating system has no randomness.
    pub(crate) async fn open_session(&self, name: &str) -> Result<Option<NewSession>, StoreError> {
        match random_bytes().zip(random_bytes()) {
            Some((one, two)) => self.web.store.open_session(name, [one, two], self.now_ms()).await.map(Some),
            None => Ok(None),
        }
    }
}
