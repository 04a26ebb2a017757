//! Signing in, for the page and for the REST interface.

use mcpproxy_store::{Admission, Attempt, NewSession, Pace, StoreError, UserRow};

use super::random_bytes;
use crate::auth::identity::AppState;
use crate::auth::records;
use crate::peer::Peer;

/// Wait before another attempt, if too many others are under way.
const BUSY_WAIT_MS: i64 = 5_000;

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
    Wrong(Pace),
    /// The name has too many failures.
    TooMany { wait_ms: i64 },
    /// Too many other attempts are under way, from the same address or in total.
    Busy { wait_ms: i64 },
    /// `people.password` is false.
    Off,
}

impl AppState {
    pub(crate) async fn log_in(&self, name: &str, password: String, peer: Peer) -> Result<LoginResult, StoreError> {
        let Some(_place) = self.auth.sign_ins.enter(peer) else {
            return Ok(LoginResult::Refused(LoginError::Busy { wait_ms: BUSY_WAIT_MS }));
        };
        if !self.web.gateway.settings().people.password {
            return Ok(LoginResult::Refused(LoginError::Off));
        }
        let attempt = Attempt::SignIn { name, address: peer.address() };
        let user = match self.check_password(attempt, password).await? {
            PasswordCheck::Right(user) => *user,
            PasswordCheck::Refused(refused) => {
                // Of an address with many failures, the first ones of each minute are recorded. More would fill the log.
                if refused == LoginError::Wrong(Pace::Normal) {
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
            None => Ok(LoginResult::Refused(LoginError::Wrong(Pace::Normal))),
        }
    }

    /// Checks a password. Failures are counted together, wherever the password was typed. Time and answer are the same
    /// whether the user exists or not.
    pub(crate) async fn check_password(
        &self,
        attempt: Attempt<'_>,
        password: String,
    ) -> Result<PasswordCheck, StoreError> {
        let store = &self.web.store;
        let too_many = |wait_ms| Ok(PasswordCheck::Refused(LoginError::TooMany { wait_ms }));
        let mut turn = None;
        let pace = loop {
            let alone = self.auth.slow_lane.count_alone().await;
            match store.check_attempt(attempt, self.now_ms()).await? {
                Admission::TooMany { wait_ms } => return too_many(wait_ms),
                Admission::Admitted(Pace::Slow) if turn.is_none() => {
                    drop(alone);
                    // Entered before the attempt is counted: a user who stops waiting has made no mistake.
                    turn = self.auth.slow_lane.enter(Pace::Slow).await;
                    if turn.is_none() {
                        return Ok(PasswordCheck::Refused(LoginError::Busy { wait_ms: BUSY_WAIT_MS }));
                    }
                }
                Admission::Admitted(Pace::Normal | Pace::Slow) => {
                    match store.count_attempt(attempt, self.now_ms()).await? {
                        Admission::Admitted(pace) => break pace,
                        Admission::TooMany { wait_ms } => return too_many(wait_ms),
                    }
                }
            }
        };
        let user = store.find_user(attempt.name()).await?;
        let hash = user.as_ref().and_then(|user| user.password_hash.clone());
        let is_right = self.auth.passwords.is_right(password, hash).await;
        let Some(user) = user.filter(|_| is_right) else { return Ok(PasswordCheck::Refused(LoginError::Wrong(pace))) };
        store.forgive_attempt(attempt).await?;
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
