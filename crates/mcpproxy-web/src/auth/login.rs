//! Signing in, for the page and for the REST interface.

use mcpproxy_store::{NewSession, StoreError, UserRow};

use super::password;
use super::random_bytes;
use crate::auth::identity::AppState;
use crate::auth::records;

/// The result of signing in.
pub(crate) struct LoggedIn {
    pub(crate) session: NewSession,
    pub(crate) user: UserRow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// The name or the password is wrong. Telling which one would reveal the names.
    Wrong,
    TooMany {
        wait_ms: i64,
    },
}

impl AppState {
    pub(crate) async fn log_in(
        &self,
        name: &str,
        password: String,
    ) -> Result<Result<LoggedIn, LoginError>, StoreError> {
        let user = match self.check_password(name, password).await? {
            Ok(user) => user,
            Err(refused) => {
                if refused == LoginError::Wrong {
                    // The name is left out: users sometimes type their password into the wrong field.
                    records::write(self, records::refused("login_failed", None, &serde_json::json!({}))).await;
                }
                return Ok(Err(refused));
            }
        };
        match self.open_session(&user.name).await? {
            Some(session) => {
                records::write(self, records::done("login", &user.name)).await;
                Ok(Ok(LoggedIn { session, user }))
            }
            None => Ok(Err(LoginError::Wrong)),
        }
    }

    /// Checks a password. Failures are counted together, wherever the password was typed. Time and answer are the same
    /// whether the user exists or not.
    pub(crate) async fn check_password(
        &self,
        name: &str,
        password: String,
    ) -> Result<Result<UserRow, LoginError>, StoreError> {
        let now_ms = self.now_ms();
        let counted: String = name.chars().take(password::MAX_CHARS).collect();
        if let Err(too_many) = self.auth.attempts.take(&counted, now_ms) {
            return Ok(Err(LoginError::TooMany { wait_ms: too_many.wait_ms }));
        }
        let user = self.web.store.find_user(name).await?;
        let hash = user.as_ref().map(|user| user.password_hash.clone());
        let is_right = self.auth.passwords.is_right(password, hash).await;
        let Some(user) = user.filter(|_| is_right) else { return Ok(Err(LoginError::Wrong)) };
        self.auth.attempts.forgive(&counted, now_ms);
        Ok(Ok(user))
    }

    /// Opens a session. Returns `None` if the operating system has no randomness.
    pub(crate) async fn open_session(&self, name: &str) -> Result<Option<NewSession>, StoreError> {
        match random_bytes().zip(random_bytes()) {
            Some((one, two)) => self.web.store.open_session(name, [one, two], self.now_ms()).await.map(Some),
            None => Ok(None),
        }
    }
}
