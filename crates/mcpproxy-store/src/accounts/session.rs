//! Sessions of users who signed in, and the one-time challenges that belong to a session.
//!
//! A session has two secrets. The cookie proves who the user is. But a browser sends a cookie to every port of a host,
//! so another program on the machine may see it. The page key is known to our pages alone. Only with the page key, the
//! password or a fresh second factor does a session become a [`PresenceProof`], which approving needs. Both secrets are
//! stored as digests.

use sha2::{Digest as _, Sha256};

use super::provider::ProviderAccount;
use super::secret::{digest, secret};
use crate::error::with_causes;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Row, Statement, Value};
use crate::{PresenceProof, Store, StoreError, User};

const SESSION_PREFIX: &str = "session_";
const PAGE_KEY_PREFIX: &str = "page_";
/// A session in constant use updates its row only this often.
const TOUCH_PAUSE_MS: i64 = 60_000;
const READING: &str = "look up a session";
const CHANGING: &str = "change the table of sessions";
const FIND: &str = "SELECT users.name, sessions.created_ms, sessions.used_ms, CASE WHEN users.issuer IS NOT NULL \
     OR users.totp_secret IS NOT NULL OR EXISTS (SELECT 1 FROM passkeys WHERE passkeys.user_name = users.name) \
     THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END, sessions.page_key, users.issuer, users.profile \
     FROM sessions JOIN users ON users.name = sessions.user_name WHERE sessions.hash = $1";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub user: User,
    /// Forms carry this token to prove that they come from our pages.
    pub csrf: String,
    pub created_ms: i64,
    /// `true` if the user has a second factor. Users of a provider have it there.
    pub is_enrolled: bool,
    /// The account at the identity provider, if the user signs in there.
    pub provider: Option<ProviderAccount>,
    page_key_digest: Vec<u8>,
}

/// The secrets of a new session. Only their digests are stored.
#[derive(Clone, PartialEq, Eq)]
pub struct NewSession {
    /// For the cookie, which a browser sends to every port of a host.
    pub secret: String,
    /// For the pages, which keep it where no other port can read it.
    pub page_key: String,
}

impl Session {
    /// Returns a proof of presence if this is the page key of the session. The cookie does not reveal the page key.
    pub fn present(&self, page_key: &str) -> Option<PresenceProof> {
        (self.page_key_digest == digest(page_key)).then(|| PresenceProof::new(self.user.clone()))
    }

    /// Returns the session and the time of its last use.
    fn read(row: &Row, secret: &str) -> Result<(Self, i64), StoreError> {
        let columns = Columns::of(row, "a malformed session");
        let session = Self {
            user: User::new(columns.word(0)?),
            csrf: csrf(secret),
            created_ms: columns.number(1)?,
            is_enrolled: columns.number(3)? != 0,
            page_key_digest: columns.bytes(4)?.unwrap_or_default(),
            provider: ProviderAccount::read(&columns, 5)?,
        };
        Ok((session, columns.number(2)?))
    }
}

impl Store {
    /// Opens a session for a user who has just proved their identity.
    pub async fn open_session(
        &self,
        name: &str,
        [of_session, of_pages]: [[u8; 32]; 2],
        now_ms: i64,
    ) -> Result<NewSession, StoreError> {
        let new =
            NewSession { secret: secret(SESSION_PREFIX, of_session), page_key: secret(PAGE_KEY_PREFIX, of_pages) };
        let sql = "INSERT INTO sessions (hash, user_name, page_key, created_ms, used_ms) \
                   SELECT $1, name, $3, $4, $4 FROM users WHERE name = $2";
        let [hash, page_key] = [&new.secret, &new.page_key].map(|secret| Value::bytes(&digest(secret)));
        let insert = Statement::new(sql, vec![hash, Value::text(name), page_key, Value::int(now_ms)]);
        match self.database().change(insert, CHANGING).await? {
            0 => Err(StoreError::NoSuchUser { name: name.to_owned() }),
            _ => Ok(new),
        }
    }

    /// Finds a session that was used within `idle_ms` and opened within `most_ms`. Finding it counts as a use.
    pub async fn find_session(
        &self,
        secret: &str,
        now_ms: i64,
        idle_ms: i64,
        most_ms: i64,
    ) -> Result<Option<Session>, StoreError> {
        let statement = Statement::new(FIND, vec![Value::bytes(&digest(secret))]);
        let Some(row) = self.database().fetch_first(statement, READING).await? else { return Ok(None) };
        let (session, used_ms) = Session::read(&row, secret)?;
        let is_live = |since_ms: i64, limit_ms: i64| now_ms < since_ms.saturating_add(limit_ms);
        if !is_live(used_ms, idle_ms) || !is_live(session.created_ms, most_ms) {
            return Ok(None);
        }
        if !is_live(used_ms, TOUCH_PAUSE_MS.min(idle_ms / 2))
            && let Err(error) = self.touch_session(secret, now_ms).await
        {
            // The session is still valid. It only expires earlier.
            tracing::warn!(error = with_causes(&error), "could not extend a session");
        }
        Ok(Some(session))
    }

    async fn touch_session(&self, secret: &str, now_ms: i64) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET used_ms = $2 WHERE hash = $1 AND used_ms < $2";
        let values = vec![Value::bytes(&digest(secret)), Value::int(now_ms)];
        self.database().change(Statement::new(sql, values), CHANGING).await.map(drop)
    }

    pub async fn close_session(&self, secret: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM sessions WHERE hash = $1";
        let statement = Statement::new(sql, vec![Value::bytes(&digest(secret))]);
        self.database().change(statement, CHANGING).await.map(drop)
    }

    /// Ends all sessions of a user. Returns their number.
    pub async fn close_sessions_of(&self, name: &str) -> Result<u64, StoreError> {
        let sql = "DELETE FROM sessions WHERE user_name = $1";
        self.database().change(Statement::new(sql, vec![Value::text(name)]), CHANGING).await
    }

    /// Saves the state that checking the answer to a challenge needs. A session has one challenge for each purpose.
    pub async fn save_challenge(
        &self,
        session_secret: &str,
        purpose: &str,
        state: &str,
        now_ms: i64,
        ttl_ms: i64,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO challenges (session, purpose, state, expires_ms) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (session, purpose) DO UPDATE SET state = excluded.state, expires_ms = excluded.expires_ms";
        let expires = Value::int(now_ms.saturating_add(ttl_ms));
        let values = vec![Value::bytes(&digest(session_secret)), Value::text(purpose), Value::text(state), expires];
        self.database().change(Statement::new(sql, values), CHANGING).await.map(drop)
    }

    /// Removes and returns the state of a challenge, so that each challenge is answered at most once.
    pub async fn take_challenge(
        &self,
        session_secret: &str,
        purpose: &str,
        now_ms: i64,
    ) -> Result<Option<String>, StoreError> {
        let sql = "DELETE FROM challenges WHERE session = $1 AND purpose = $2 AND expires_ms > $3 RETURNING state";
        let values = vec![Value::bytes(&digest(session_secret)), Value::text(purpose), Value::int(now_ms)];
        let take = async |connection: &mut Connection| connection.fetch(Statement::new(sql, values)).await;
        let rows = self.database().write(take, CHANGING).await?;
        rows.first().map_or(Ok(None), |row| Columns::of(row, "a challenge").text(0))
    }
}

/// Derived from the session secret. The secret cannot be derived from it.
fn csrf(session_secret: &str) -> String {
    let digest = Sha256::digest(format!("mcpproxy csrf {session_secret}"));
    secret("", digest.into())
}
