//! Sessions: a user who has signed in, for a while. And challenges, which a session is asked once.

use sha2::{Digest as _, Sha256};

use crate::accounts::secret::{digest, secret};
use crate::{PresenceProof, Store, StoreError, User};

const SESSION_PREFIX: &str = "session_";
const PAGE_KEY_PREFIX: &str = "page_";
/// A session that is used all the time is written down as used this often.
const TOUCH_PAUSE_MS: i64 = 60_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub user: User,
    /// What forms must carry to show that they are ours.
    pub csrf: String,
    pub created_ms: i64,
    /// Whether the user has a second factor.
    pub is_enrolled: bool,
    /// The digest of it.
    page_key: Vec<u8>,
}

/// The secrets of a session that has just begun; only their digests are kept.
#[derive(Clone, PartialEq, Eq)]
pub struct NewSession {
    /// For the cookie, which a browser sends to every port of a host.
    pub secret: String,
    /// For the pages alone, which keep it where no other port can read it.
    pub page_key: String,
}

impl Session {
    /// Whoever has the key of this very session did not get it with the cookie.
    pub fn present(&self, page_key: &str) -> Option<PresenceProof> {
        (self.page_key == digest(page_key)).then(|| PresenceProof::new(self.user.clone()))
    }
}

impl Store {
    /// For somebody who has just shown that they are this user.
    pub async fn open_session(
        &self,
        name: &str,
        [of_session, of_pages]: [[u8; 32]; 2],
        now_ms: i64,
    ) -> Result<NewSession, StoreError> {
        let new =
            NewSession { secret: secret(SESSION_PREFIX, of_session), page_key: secret(PAGE_KEY_PREFIX, of_pages) };
        if self.database().insert_session(&digest(&new.secret), &digest(&new.page_key), name, now_ms).await? {
            Ok(new)
        } else {
            Err(StoreError::NoSuchUser { name: name.to_owned() })
        }
    }

    /// The session, if it was used within `idle_ms` and opened within `most_ms`. Asking for it is using it.
    pub async fn find_session(
        &self,
        secret: &str,
        now_ms: i64,
        idle_ms: i64,
        most_ms: i64,
    ) -> Result<Option<Session>, StoreError> {
        let hash = digest(secret);
        let Some(row) = self.database().session(&hash).await? else { return Ok(None) };
        let is_live = |since_ms: i64, limit_ms: i64| now_ms < since_ms.saturating_add(limit_ms);
        if !is_live(row.used_ms, idle_ms) || !is_live(row.created_ms, most_ms) {
            return Ok(None);
        }
        if !is_live(row.used_ms, TOUCH_PAUSE_MS.min(idle_ms / 2))
            && let Err(error) = self.database().touch_session(&hash, now_ms).await
        {
            // It stays what it was, and ends earlier.
            tracing::warn!(error = crate::log::health::chain(&error), "could not keep a session alive");
        }
        let csrf = csrf(secret);
        Ok(Some(Session {
            user: User::new(row.user_name),
            csrf,
            created_ms: row.created_ms,
            is_enrolled: row.is_enrolled,
            page_key: row.page_key,
        }))
    }

    pub async fn close_session(&self, secret: &str) -> Result<(), StoreError> {
        self.database().remove_session(&digest(secret)).await
    }

    /// Keeps what is needed to check the answer to a challenge. There is one for each purpose.
    pub async fn keep_challenge(
        &self,
        session_secret: &str,
        purpose: &str,
        state: &str,
        now_ms: i64,
        ttl_ms: i64,
    ) -> Result<(), StoreError> {
        let expires_ms = now_ms.saturating_add(ttl_ms);
        self.database().insert_challenge(&digest(session_secret), purpose, state, expires_ms).await
    }

    /// Once.
    pub async fn take_challenge(
        &self,
        session_secret: &str,
        purpose: &str,
        now_ms: i64,
    ) -> Result<Option<String>, StoreError> {
        self.database().take_challenge(&digest(session_secret), purpose, now_ms).await
    }
}

/// Made of the secret, which cannot be made of it.
fn csrf(secret: &str) -> String {
    let digest = Sha256::digest(format!("mcpproxy csrf {secret}"));
    crate::accounts::secret::secret("", digest.into())
}
