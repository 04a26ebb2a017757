//! Invitations, with which accounts are created, and resets of accounts by the operator.
//!
//! | made by | for | valid |
//! |---|---|---|
//! | the gateway | the first user (bootstrap) | until the first user exists |
//! | a user | anyone who gets the link | while that user exists |
//! | the operator, at the terminal | one name | until that name has a password or belongs to a user of a provider |
//!
//! Every invitation works once and expires. Only its digest is stored. The operator's changes are stored together with an
//! [`OperatorAction`](crate::OperatorAction), so that none of them is missing in the activity log.

use super::operator_action;
use super::secret::{digest, secret};
use super::user::{CHANGING, READING, begin_alone, is_user_name};
use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::{Store, StoreError, User};

const INVITATION_PREFIX: &str = "invite_";
const IS_INVITED: &str = "hash = $1 AND expires_ms > $2 AND CASE \
     WHEN user_name IS NOT NULL THEN NOT EXISTS (SELECT 1 FROM users WHERE users.name = invitations.user_name \
     AND (users.password_hash <> '' OR users.issuer IS NOT NULL)) \
     WHEN invited_by IS NULL THEN NOT EXISTS (SELECT 1 FROM users) \
     ELSE EXISTS (SELECT 1 FROM users WHERE users.name = invitations.invited_by) END";

/// A valid invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The name that the new account gets. `None` if its user chooses one.
    pub user_name: Option<String>,
}

/// The result of inviting a user at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum OperatorInvitation {
    Invited { secret: String },
    NameTaken,
}

/// The result of resetting an account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reset {
    Done {
        /// The invitation with which the user sets a new password.
        secret: String,
    },
    NoSuchUser,
    /// The user signs in at an identity provider, so there is nothing to reset here.
    OfProvider,
}

impl Store {
    /// Creates an invitation and returns it. Without `by` it is a bootstrap invitation.
    pub async fn invite(
        &self,
        random: [u8; 32],
        by: Option<&User>,
        now_ms: i64,
        ttl_ms: i64,
    ) -> Result<String, StoreError> {
        let secret = secret(INVITATION_PREFIX, random);
        let sql = "INSERT INTO invitations (hash, invited_by, expires_ms) VALUES ($1, $2, $3)";
        let expires = Value::int(now_ms.saturating_add(ttl_ms));
        let values = vec![Value::bytes(&digest(&secret)), Value::optional_text(by.map(User::name)), expires];
        self.change_users(sql, values).await?;
        Ok(secret)
    }

    /// Creates an invitation for one name, at the terminal.
    pub async fn invite_by_operator(
        &self,
        random: [u8; 32],
        name: &str,
        now_ms: i64,
        ttl_ms: i64,
    ) -> Result<OperatorInvitation, StoreError> {
        if !is_user_name(name) {
            return Err(StoreError::UserName);
        }
        let secret = secret(INVITATION_PREFIX, random);
        let taken = "SELECT name FROM users WHERE name = $1 AND (password_hash <> '' OR issuer IS NOT NULL)";
        let taken = Statement::new(taken, vec![Value::text(name)]);
        let statements = [
            for_name(&secret, name, now_ms.saturating_add(ttl_ms)),
            operator_action::insert(&secret, operator_action::INVITED, name, now_ms),
        ];
        let invite = async |connection: &mut Connection| {
            begin_alone(connection).await?;
            if !connection.fetch(taken).await?.is_empty() {
                connection.execute(Statement::plain("ROLLBACK")).await?;
                return Ok(false);
            }
            for statement in statements {
                connection.execute(statement).await?;
            }
            connection.execute(Statement::plain("COMMIT")).await?;
            Ok(true)
        };
        Ok(match self.database().write(invite, CHANGING).await? {
            true => OperatorInvitation::Invited { secret },
            false => OperatorInvitation::NameTaken,
        })
    }

    /// Removes password, factors, recovery codes, sessions and invitations of a local user, and creates an invitation to
    /// set up the account again.
    pub async fn reset_user(
        &self,
        random: [u8; 32],
        name: &str,
        now_ms: i64,
        ttl_ms: i64,
    ) -> Result<Reset, StoreError> {
        let secret = secret(INVITATION_PREFIX, random);
        let find = Statement::new("SELECT issuer FROM users WHERE name = $1", vec![Value::text(name)]);
        let forget = [
            "UPDATE users SET password_hash = '', totp_secret = NULL, totp_step = 0, failures = 0, locked_until_ms = 0 \
             WHERE name = $1",
            "DELETE FROM challenges WHERE session IN (SELECT hash FROM sessions WHERE user_name = $1)",
            "DELETE FROM sessions WHERE user_name = $1",
            "DELETE FROM passkeys WHERE user_name = $1",
            "DELETE FROM recovery_codes WHERE user_name = $1",
            "DELETE FROM invitations WHERE invited_by = $1 OR user_name = $1",
        ];
        let forget = forget.into_iter().map(|sql| Statement::new(sql, vec![Value::text(name)]));
        let statements: Vec<Statement> = forget
            .chain([
                for_name(&secret, name, now_ms.saturating_add(ttl_ms)),
                operator_action::insert(&secret, operator_action::RESET, name, now_ms),
            ])
            .collect();
        let reset = async |connection: &mut Connection| {
            begin_alone(connection).await?;
            let found = connection.fetch(find).await?;
            let is_local = found.first().map(|row| row.text(0)).transpose()?.map(|issuer| issuer.is_none());
            if is_local == Some(true) {
                for statement in statements {
                    connection.execute(statement).await?;
                }
            }
            connection.execute(Statement::plain("COMMIT")).await?;
            Ok(is_local)
        };
        Ok(match self.database().write(reset, CHANGING).await? {
            Some(true) => Reset::Done { secret },
            Some(false) => Reset::OfProvider,
            None => Reset::NoSuchUser,
        })
    }

    /// Finds an invitation that `create_user` would accept now.
    pub async fn find_invitation(&self, invitation: &str, now_ms: i64) -> Result<Option<Invitation>, StoreError> {
        let sql = format!("SELECT user_name FROM invitations WHERE {IS_INVITED}");
        let values = vec![Value::bytes(&digest(invitation)), Value::int(now_ms)];
        let row = self.database().fetch_first(Statement::new(sql, values), READING).await?;
        let invitation = |row| Ok(Invitation { user_name: Columns::of(&row, "a malformed invitation").text(0)? });
        row.map(invitation).transpose()
    }

    /// Creates a user and spends the invitation. Returns `false` if the invitation is unknown, used or expired, or if it
    /// is for another name.
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
        let spend = spend(&digest(invitation), now_ms);
        let again = "UPDATE users SET password_hash = $2 WHERE name = $1 AND password_hash = '' AND issuer IS NULL";
        let again = Statement::new(again, vec![Value::text(name), Value::text(password_hash)]);
        let insert = "INSERT INTO users (name, password_hash, created_ms, totp_step, failures, failed_ms, \
                      locked_until_ms) VALUES ($1, $2, $3, 0, 0, 0, 0) ON CONFLICT (name) DO NOTHING";
        let insert = Statement::new(insert, vec![Value::text(name), Value::text(password_hash), Value::int(now_ms)]);
        let create = async |connection: &mut Connection| {
            begin_alone(connection).await?;
            let spent = connection.fetch(spend).await?;
            let created = match spent.first().map(|row| row.text(0)).transpose()? {
                None => Created::NotInvited,
                Some(Some(other)) if other != name => Created::NotInvited,
                Some(for_name) => {
                    // After a reset, the row of the account is still there.
                    let is_set_up_again = for_name.is_some() && connection.execute(again).await? > 0;
                    if is_set_up_again || connection.execute(insert).await? > 0 {
                        Created::Yes
                    } else {
                        Created::NameTaken
                    }
                }
            };
            let end = if created == Created::Yes { "COMMIT" } else { "ROLLBACK" };
            connection.execute(Statement::plain(end)).await?;
            Ok(created)
        };
        match self.database().write(create, CHANGING).await? {
            Created::Yes => Ok(true),
            Created::NotInvited => Ok(false),
            Created::NameTaken => Err(StoreError::UserExists { name: name.to_owned() }),
        }
    }
}

/// Removes a valid invitation and returns the name that it is for.
pub(super) fn spend(digest: &[u8], now_ms: i64) -> Statement {
    let sql = format!("DELETE FROM invitations WHERE {IS_INVITED} RETURNING user_name");
    Statement::new(sql, vec![Value::bytes(digest), Value::int(now_ms)])
}

fn for_name(secret: &str, name: &str, expires_ms: i64) -> Statement {
    let sql = "INSERT INTO invitations (hash, user_name, expires_ms) VALUES ($1, $2, $3)";
    Statement::new(sql, vec![Value::bytes(&digest(secret)), Value::text(name), Value::int(expires_ms)])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Created {
    Yes,
    NotInvited,
    NameTaken,
}
