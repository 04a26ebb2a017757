//! Users, who approve calls, and the proofs that approving needs.
//!
//! The three proof types can only be made in this crate, and their fields are private. A function that takes one cannot
//! be called by mistake for a user who has proved less:
//!
//! | type | made by | allows |
//! |---|---|---|
//! | [`User`] | a live session | reading, and changing one's own factors |
//! | [`PresenceProof`] | the page key of a session, the password, or a second factor | approving a call |
//! | [`StepUpProof`] | one use of a TOTP code, passkey, recovery code or sign-in at the provider, for one purpose | approving a critical call, removing a user |
//!
//! Every table change that must not race is one statement or one transaction: the first user, the last user, and each
//! use of a TOTP step.

use super::provider::ProviderAccount;
use super::secret::digest;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Dialect, Statement, Value};
use crate::{Store, StoreError};

pub const USER_NAME_MAX_CHARS: usize = 64;
/// Failures add up as long as no more than this time lies between two of them.
const FAILURES_PAUSE_MS: i64 = 24 * 60 * 60_000;
pub(super) const READING: &str = "read the table of users";
pub(super) const CHANGING: &str = "change the table of users";
/// Serializes changes of several gateways: two users must not both become the first, or remove each other.
const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(7163470114)";
/// A user who has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
}

/// Proof that a user has shown more than a session cookie, which other programs on the machine may have. Approving a
/// call needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceProof {
    user: User,
}

/// Proof that a user has just used a second factor for one purpose.
#[derive(Debug, PartialEq, Eq)]
pub struct StepUpProof {
    user: User,
    purpose: String,
}

/// A user as stored, with password hash and factors.
#[derive(Clone, PartialEq, Eq)]
pub struct UserRow {
    pub name: String,
    /// `None` for users of a provider, and after a reset.
    pub password_hash: Option<String>,
    /// The account at the identity provider, if the user signs in there.
    pub provider: Option<ProviderAccount>,
    pub totp: Option<Totp>,
    /// Oldest first.
    pub passkeys: Vec<PasskeyRow>,
    /// Wrong passwords or codes since the last right one. The count restarts after a day without failures.
    pub failures: u32,
    pub locked_until_ms: i64,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Totp {
    pub secret: Vec<u8>,
    /// Codes up to this time step were used or are too old.
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
    pub(super) fn new(name: String) -> Self {
        Self { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The caller has just checked this user's password.
    pub fn present_by_password(&self) -> PresenceProof {
        PresenceProof::new(self.clone())
    }
}

impl PresenceProof {
    pub(super) fn new(user: User) -> Self {
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

    /// The id of an approval request, or another purpose.
    pub fn purpose(&self) -> &str {
        &self.purpose
    }

    pub fn present(&self) -> PresenceProof {
        PresenceProof::new(self.user.clone())
    }

    pub(super) fn of(user: &User, purpose: &str) -> Self {
        Self { user: user.clone(), purpose: purpose.to_owned() }
    }
}

impl Store {
    pub async fn has_users(&self) -> Result<bool, StoreError> {
        let statement = Statement::plain("SELECT name FROM users LIMIT 1");
        Ok(self.database().fetch_first(statement, READING).await?.is_some())
    }

    /// Counts the users with a second factor, which users of a provider have there. Only they can approve: until a user
    /// has one, the only page that they can use is the one that adds it.
    pub async fn count_approvers(&self) -> Result<usize, StoreError> {
        let sql = "SELECT count(*) FROM users WHERE issuer IS NOT NULL OR totp_secret IS NOT NULL \
                   OR EXISTS (SELECT 1 FROM passkeys WHERE passkeys.user_name = users.name)";
        let Some(row) = self.database().fetch_first(Statement::plain(sql), READING).await? else { return Ok(0) };
        let count = Columns::of(&row, "a malformed count of approvers").count(0)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Lists the names of all users in order.
    pub async fn list_users(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.database().fetch(Statement::plain("SELECT name FROM users ORDER BY name"), READING).await?;
        rows.iter().map(|row| Columns::of(row, "a user without a name").word(0)).collect()
    }

    /// Changes this user's password, and ends all their sessions except this one.
    pub async fn change_password(
        &self,
        user: &User,
        password_hash: &str,
        session_secret: &str,
    ) -> Result<(), StoreError> {
        let name = || Value::text(&user.name);
        let set = "UPDATE users SET password_hash = $2 WHERE name = $1";
        let end_others = "DELETE FROM sessions WHERE user_name = $1 AND hash <> $2";
        let statements = vec![
            Statement::new(set, vec![name(), Value::text(password_hash)]),
            Statement::new(end_others, vec![name(), Value::bytes(&digest(session_secret))]),
        ];
        let change = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(change, CHANGING).await
    }

    /// Removes another user with their factors, sessions and invitations. Returns `false` if that user does not exist,
    /// or if the removing user no longer does. So the last user stays, even if two users remove each other at once.
    pub async fn remove_user(&self, name: &str, by: &StepUpProof) -> Result<bool, StoreError> {
        let sql = "DELETE FROM users WHERE name = $1 AND name <> $2 AND EXISTS (SELECT 1 FROM users WHERE name = $2)";
        let remove = Statement::new(sql, vec![Value::text(name), Value::text(&by.user.name)]);
        let rest = [
            "DELETE FROM challenges WHERE session IN (SELECT hash FROM sessions WHERE user_name = $1)",
            "DELETE FROM sessions WHERE user_name = $1",
            "DELETE FROM passkeys WHERE user_name = $1",
            "DELETE FROM recovery_codes WHERE user_name = $1",
            "DELETE FROM invitations WHERE invited_by = $1 OR user_name = $1",
        ];
        let work = async |connection: &mut Connection| {
            begin_alone(connection).await?;
            let is_removed = connection.execute(remove).await? > 0;
            for sql in rest.into_iter().filter(|_| is_removed) {
                connection.execute(Statement::new(sql, vec![Value::text(name)])).await?;
            }
            connection.execute(Statement::plain("COMMIT")).await?;
            Ok(is_removed)
        };
        self.database().write(work, CHANGING).await
    }

    pub async fn find_user(&self, name: &str) -> Result<Option<UserRow>, StoreError> {
        let sql = "SELECT name, password_hash, totp_secret, totp_step, failures, locked_until_ms, issuer, profile \
                   FROM users WHERE name = $1";
        let statement = Statement::new(sql, vec![Value::text(name)]);
        let Some(row) = self.database().fetch_first(statement, READING).await? else { return Ok(None) };
        let columns = Columns::of(&row, "a malformed user");
        let last_step = columns.number(3)?;
        Ok(Some(UserRow {
            name: columns.word(0)?,
            password_hash: Some(columns.word(1)?).filter(|hash| !hash.is_empty()),
            provider: ProviderAccount::read(&columns, 6)?,
            totp: columns.bytes(2)?.map(|secret| Totp { secret, last_step }),
            passkeys: self.passkeys(name).await?,
            failures: columns.count(4)?,
            locked_until_ms: columns.number(5)?,
        }))
    }

    async fn passkeys(&self, user_name: &str) -> Result<Vec<PasskeyRow>, StoreError> {
        let sql = "SELECT id, label, data, created_ms FROM passkeys WHERE user_name = $1 ORDER BY created_ms, id";
        let rows = self.database().fetch(Statement::new(sql, vec![Value::text(user_name)]), READING).await?;
        let passkey = |row| {
            let columns = Columns::of(row, "a malformed passkey");
            let (id, label, data) = (columns.word(0)?, columns.word(1)?, columns.word(2)?);
            Ok(PasskeyRow { id, label, data, created_ms: columns.number(3)? })
        };
        rows.iter().map(passkey).collect()
    }

    /// Counts a wrong password or code.
    pub async fn record_failure(&self, name: &str, now_ms: i64, locked_until_ms: i64) -> Result<(), StoreError> {
        let sql = "UPDATE users SET failures = CASE WHEN failed_ms < $3 THEN 1 ELSE failures + 1 END, failed_ms = $2, \
                   locked_until_ms = CASE WHEN locked_until_ms > $4 THEN locked_until_ms ELSE $4 END WHERE name = $1";
        let since_ms = now_ms.saturating_sub(FAILURES_PAUSE_MS);
        let times = [now_ms, since_ms, locked_until_ms].map(Value::int);
        self.change_users(sql, [Value::text(name)].into_iter().chain(times).collect()).await.map(drop)
    }

    pub async fn reset_failures(&self, name: &str) -> Result<(), StoreError> {
        let sql = "UPDATE users SET failures = 0, locked_until_ms = 0 WHERE name = $1";
        self.change_users(sql, vec![Value::text(name)]).await.map(drop)
    }

    /// Stores a TOTP secret. Codes up to time step `step` are rejected.
    pub async fn set_totp(&self, user: &User, secret: &[u8], step: i64) -> Result<(), StoreError> {
        let sql = "UPDATE users SET totp_secret = $2, totp_step = $3 WHERE name = $1";
        self.change_users(sql, vec![Value::text(&user.name), Value::bytes(secret), Value::int(step)]).await.map(drop)
    }

    /// Returns `false` if the passkey is registered already, or if the user was removed meanwhile.
    pub async fn add_passkey(
        &self,
        user: &User,
        id: &str,
        label: &str,
        data: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        // Selecting from `users` leaves no passkey behind for a later user of the same name.
        let sql = "INSERT INTO passkeys (id, user_name, label, data, created_ms) \
                   SELECT $1, name, $3, $4, $5 FROM users WHERE name = $2 ON CONFLICT (id) DO NOTHING";
        let texts = [id, &user.name, label, data].map(Value::text);
        self.change_users(sql, texts.into_iter().chain([Value::int(now_ms)]).collect()).await
    }

    /// Returns `false` if this user has no such passkey.
    pub async fn remove_passkey(&self, user: &User, id: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM passkeys WHERE id = $1 AND user_name = $2";
        self.change_users(sql, vec![Value::text(id), Value::text(&user.name)]).await
    }

    pub async fn update_passkey(&self, id: &str, data: &str) -> Result<(), StoreError> {
        let sql = "UPDATE passkeys SET data = $2 WHERE id = $1";
        self.change_users(sql, vec![Value::text(id), Value::text(data)]).await.map(drop)
    }

    /// Spends a valid TOTP code. Each time step works once: only a later step than the last one is accepted.
    pub async fn use_totp_step(
        &self,
        user: &User,
        step: i64,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let sql = "UPDATE users SET totp_step = $2 WHERE name = $1 AND totp_secret IS NOT NULL AND totp_step < $2";
        let is_accepted = self.change_users(sql, vec![Value::text(&user.name), Value::int(step)]).await?;
        Ok(is_accepted.then(|| StepUpProof::of(user, purpose)))
    }

    /// Accepts a valid passkey answer, and stores the passkey's new state. Returns `None` if it is another user's
    /// passkey.
    pub async fn use_passkey(
        &self,
        user: &User,
        id: &str,
        data: &str,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let sql = "UPDATE passkeys SET data = $2 WHERE id = $1 AND user_name = $3";
        let is_theirs = self.change_users(sql, [id, data, &user.name].map(Value::text).to_vec()).await?;
        Ok(is_theirs.then(|| StepUpProof::of(user, purpose)))
    }

    /// Runs one statement. Returns `true` if it changed a row.
    pub(super) async fn change_users(&self, sql: &str, values: Vec<Value>) -> Result<bool, StoreError> {
        Ok(self.database().change(Statement::new(sql, values), CHANGING).await? > 0)
    }
}

pub(super) async fn begin_alone(connection: &mut Connection) -> Result<(), sqlx::Error> {
    connection.begin().await?;
    match connection.dialect() {
        Dialect::Sqlite => Ok(()),
        Dialect::Postgres => connection.run(POSTGRES_LOCK).await,
    }
}

/// Names appear in records, terminals and pages, so they must not look like anything else.
pub(super) fn is_user_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'@' | b'+');
    (1..=USER_NAME_MAX_CHARS).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names() {
        for good in ["a", "Anna", "anna.b+c@example.com", &"a".repeat(64)] {
            assert!(is_user_name(good), "{good}");
        }
        for bad in ["", " ", "a b", "ä", "a/b", "a\n", "a:b", &"a".repeat(65)] {
            assert!(!is_user_name(bad), "{bad}");
        }
    }
}
