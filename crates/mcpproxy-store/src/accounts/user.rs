//! Users: who may say yes, and how they prove who they are.

use crate::accounts::secret::{digest, secret};
use crate::{Store, StoreError};

pub const USER_NAME_MAX_CHARS: usize = 64;
const INVITATION_PREFIX: &str = "invite_";
/// Failures are counted together when no more than this lies between one and the next.
const FAILURES_PAUSE_MS: i64 = 24 * 60 * 60_000;

/// Somebody who has signed in. Only a live session makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
}

/// Somebody who has shown more than a session's cookie, which other programs of the machine may have: the key of the
/// session's pages, the password, or a fresh factor. Nobody else says yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceProof {
    user: User,
}

/// A factor that was used just now, for one purpose. Only a code or a passkey that counts makes one.
#[derive(Debug, PartialEq, Eq)]
pub struct StepUpProof {
    user: User,
    purpose: String,
}

/// What is kept of a user.
#[derive(Clone, PartialEq, Eq)]
pub struct UserRow {
    pub name: String,
    pub password_hash: String,
    pub totp: Option<Totp>,
    /// The oldest first.
    pub passkeys: Vec<PasskeyRow>,
    /// Wrong passwords or codes since the last right one, as long as they follow each other closely.
    pub failures: u32,
    pub locked_until_ms: i64,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Totp {
    pub secret: Vec<u8>,
    /// Codes up to this step were used, or are too old.
    pub last_step: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeyRow {
    pub id: String,
    pub label: String,
    pub data: String,
    pub created_ms: i64,
}

impl User {
    pub(crate) fn new(name: String) -> Self {
        Self { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// For somebody who has just typed the password of this user.
    pub fn present_by_password(&self) -> PresenceProof {
        PresenceProof::new(self.clone())
    }
}

impl PresenceProof {
    pub(crate) fn new(user: User) -> Self {
        Self { user }
    }

    pub fn user(&self) -> &User {
        &self.user
    }
}

impl StepUpProof {
    pub fn user(&self) -> &User {
        &self.user
    }

    /// What it is for: the id of an approval, or another purpose.
    pub fn approval(&self) -> &str {
        &self.purpose
    }

    pub fn present(&self) -> PresenceProof {
        PresenceProof::new(self.user.clone())
    }

    fn of(user: &User, purpose: &str) -> Self {
        Self { user: user.clone(), purpose: purpose.to_owned() }
    }
}

impl Store {
    pub async fn has_users(&self) -> Result<bool, StoreError> {
        self.database().has_users().await
    }

    /// Makes an invitation and returns it; only its digest is kept. One from nobody counts as long as there are no users.
    pub async fn invite(
        &self,
        random: [u8; 32],
        by: Option<&User>,
        now_ms: i64,
        ttl_ms: i64,
    ) -> Result<String, StoreError> {
        let secret = secret(INVITATION_PREFIX, random);
        let expires_ms = now_ms.saturating_add(ttl_ms);
        self.database().insert_invitation(&digest(&secret), by.map(User::name), expires_ms).await?;
        Ok(secret)
    }

    /// Whether somebody can be created with this invitation now.
    pub async fn is_invited(&self, invitation: &str, now_ms: i64) -> Result<bool, StoreError> {
        self.database().is_invited(&digest(invitation), now_ms).await
    }

    /// Spends the invitation. `false` when it is unknown, used or expired.
    pub async fn create_user(
        &self,
        invitation: &str,
        name: &str,
        password_hash: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        if !is_user_name(name) {
            return Err(StoreError::UserName);
        }
        self.database().insert_user(&digest(invitation), name, password_hash, now_ms).await
    }

    /// The names of all, in order.
    pub async fn list_users(&self) -> Result<Vec<String>, StoreError> {
        self.database().user_names().await
    }

    /// Gives this user another password, and ends all their sessions but this one.
    pub async fn change_password(
        &self,
        user: &User,
        password_hash: &str,
        session_secret: &str,
    ) -> Result<(), StoreError> {
        self.database().change_password(&user.name, password_hash, &digest(session_secret)).await
    }

    /// Removes somebody else with their factors, and ends their sessions and the invitations they made. `false` when there
    /// is no such user, or whoever removes is none any more: so the last one stays, also when two remove each other.
    pub async fn remove_user(&self, name: &str, by: &StepUpProof) -> Result<bool, StoreError> {
        self.database().remove_user(name, &by.user.name).await
    }

    pub async fn find_user(&self, name: &str) -> Result<Option<UserRow>, StoreError> {
        self.database().user(name).await
    }

    /// Counts a wrong password or code.
    pub async fn note_failure(&self, name: &str, now_ms: i64, locked_until_ms: i64) -> Result<(), StoreError> {
        self.database().note_failure(name, now_ms, now_ms.saturating_sub(FAILURES_PAUSE_MS), locked_until_ms).await
    }

    pub async fn forget_failures(&self, name: &str) -> Result<(), StoreError> {
        self.database().forget_failures(name).await
    }

    /// Codes up to `step` will not be taken.
    pub async fn set_totp(&self, user: &User, secret: &[u8], step: i64) -> Result<(), StoreError> {
        self.database().set_totp(&user.name, secret, step).await
    }

    /// `false` when somebody has this passkey already.
    pub async fn add_passkey(
        &self,
        user: &User,
        id: &str,
        label: &str,
        data: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let passkey =
            PasskeyRow { id: id.to_owned(), label: label.to_owned(), data: data.to_owned(), created_ms: now_ms };
        self.database().insert_passkey(&user.name, &passkey).await
    }

    /// `false` when this user has no such passkey.
    pub async fn remove_passkey(&self, user: &User, id: &str) -> Result<bool, StoreError> {
        self.database().remove_passkey(&user.name, id).await
    }

    pub async fn update_passkey(&self, id: &str, data: &str) -> Result<(), StoreError> {
        self.database().update_passkey(None, id, data).await.map(drop)
    }

    /// Takes a code that was found to be right, once: only a later step than the last one counts.
    pub async fn use_totp_step(
        &self,
        user: &User,
        step: i64,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let is_taken = self.database().take_totp_step(&user.name, step).await?;
        Ok(is_taken.then(|| StepUpProof::of(user, purpose)))
    }

    /// Takes a passkey's answer that was found to be right, with what the passkey has become by it. `None` when it is not
    /// this user's.
    pub async fn use_passkey(
        &self,
        user: &User,
        id: &str,
        data: &str,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let is_theirs = self.database().update_passkey(Some(&user.name), id, data).await?;
        Ok(is_theirs.then(|| StepUpProof::of(user, purpose)))
    }
}

/// Names stand in records, in terminals and on pages, and must not look like anything else.
fn is_user_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'@' | b'+');
    (1..=USER_NAME_MAX_CHARS).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users() {
        for good in ["a", "Anna", "anna.b+c@example.com", &"a".repeat(64)] {
            assert!(is_user_name(good), "{good}");
        }
        for bad in ["", " ", "a b", "ä", "a/b", "a\n", "a:b", &"a".repeat(65)] {
            assert!(!is_user_name(bad), "{bad}");
        }
    }
}
