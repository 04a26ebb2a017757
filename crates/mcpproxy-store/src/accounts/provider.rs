//! Users who sign in at an identity provider.
//!
//! Such a user is the subject of an issuer, never a name or an e-mail address: both can change hands. The name of the
//! account is chosen once, at the first sign-in. If another user has it, a number is appended. So an account of the
//! provider never becomes, or takes over, a local one.

use serde::{Deserialize, Serialize};

use super::invitation;
use super::sign_in::InvitationDigest;
use super::user::{CHANGING, USER_NAME_MAX_CHARS, begin_alone, is_user_name};
use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::{Store, StoreError};

/// Names to try for a new account. More users of one name would need the operator's attention.
const NAMES_MAX: usize = 50;

/// The account of a user at an identity provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderAccount {
    pub issuer: String,
    pub profile: Profile,
}

/// The provider's statements about a user, of the last sign-in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub email: Option<String>,
    /// The provider has checked that the address belongs to the user.
    #[serde(default)]
    pub email_verified: bool,
    /// The name for people.
    pub name: Option<String>,
    #[serde(default)]
    pub groups: Vec<String>,
}

/// A user of a provider, and what it says about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSubject {
    pub issuer: String,
    pub subject: String,
    pub profile: Profile,
    /// The name for a new account.
    pub wanted_name: String,
}

/// The result of a sign-in at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ProviderSignIn {
    Known(String),
    Created(String),
    /// Nobody has an account yet, and the sign-in did not begin at the setup link.
    NeedsSetupLink,
    /// All names that were tried belong to other users.
    NoName,
}

impl ProviderAccount {
    /// Reads the columns `issuer` and `profile`, which begin at `first`.
    pub(super) fn read(columns: &Columns<'_>, first: usize) -> Result<Option<Self>, StoreError> {
        let Some(issuer) = columns.text(first)? else { return Ok(None) };
        let profile = columns.parsed(first + 1, |text| serde_json::from_str(text).ok())?.unwrap_or_default();
        Ok(Some(Self { issuer, profile }))
    }
}

impl Store {
    /// Finds or creates the account of a user who has just signed in at a provider, and stores the new profile. The
    /// first account of all needs the invitation of the setup link.
    pub async fn sign_in_from_provider(
        &self,
        subject: &ProviderSubject,
        invitation: Option<&InvitationDigest>,
        now_ms: i64,
    ) -> Result<ProviderSignIn, StoreError> {
        let profile = serde_json::to_string(&subject.profile).unwrap_or_default();
        let update = "UPDATE users SET profile = $3 WHERE issuer = $1 AND subject = $2 RETURNING name";
        let key = [&subject.issuer, &subject.subject, &profile].map(|text| Value::text(text));
        let update = Statement::new(update, key.to_vec());
        let spend = invitation.map(|invitation| invitation::spend(&invitation.0, now_ms));
        let insert = |name: &str| {
            let sql = "INSERT INTO users (name, password_hash, created_ms, totp_step, failures, failed_ms, \
                       locked_until_ms, issuer, subject, profile) VALUES ($1, '', $2, 0, 0, 0, 0, $3, $4, $5) \
                       ON CONFLICT (name) DO NOTHING";
            let texts = [&subject.issuer, &subject.subject, &profile].map(|text| Value::text(text));
            let values = [Value::text(name), Value::int(now_ms)].into_iter().chain(texts).collect();
            Statement::new(sql, values)
        };
        let sign_in = async |connection: &mut Connection| {
            begin_alone(connection).await?;
            let mut result = ProviderSignIn::NoName;
            if let Some(row) = connection.fetch(update).await?.first() {
                result = ProviderSignIn::Known(row.text(0)?.unwrap_or_default());
            } else if !may_join(connection, spend).await? {
                result = ProviderSignIn::NeedsSetupLink;
            } else {
                for name in names(&subject.wanted_name) {
                    if connection.execute(insert(&name)).await? > 0 {
                        result = ProviderSignIn::Created(name);
                        break;
                    }
                }
            }
            let end = match result {
                ProviderSignIn::Known(_) | ProviderSignIn::Created(_) => "COMMIT",
                ProviderSignIn::NeedsSetupLink | ProviderSignIn::NoName => "ROLLBACK",
            };
            connection.execute(Statement::plain(end)).await?;
            Ok(result)
        };
        self.database().write(sign_in, CHANGING).await
    }

    /// Finds the account of a user of a provider.
    pub async fn find_provider_user(&self, issuer: &str, subject: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT name FROM users WHERE issuer = $1 AND subject = $2";
        let statement = Statement::new(sql, [issuer, subject].map(Value::text).to_vec());
        let row = self.database().fetch_first(statement, super::user::READING).await?;
        row.map(|row| Columns::of(&row, "a user without a name").word(0)).transpose()
    }
}

/// Decides if a new account may be created. The setup link is spent, even if others have joined meanwhile.
async fn may_join(connection: &mut Connection, spend: Option<Statement>) -> Result<bool, sqlx::Error> {
    let has_users = !connection.fetch(Statement::plain("SELECT name FROM users LIMIT 1")).await?.is_empty();
    let is_invited = match spend {
        Some(spend) => !connection.fetch(spend).await?.is_empty(),
        None => false,
    };
    Ok(has_users || is_invited)
}

/// Returns the wanted name, and then the same with a number. Characters that names cannot have become `-`.
fn names(wanted: &str) -> impl Iterator<Item = String> {
    const LONGEST_NUMBER: usize = 3;
    let plain: String =
        wanted.chars().map(|c| if is_user_name(c.encode_utf8(&mut [0; 4])) { c } else { '-' }).collect();
    let plain: String = plain.chars().take(USER_NAME_MAX_CHARS - LONGEST_NUMBER).collect();
    let plain = if plain.trim_matches('-').is_empty() { "user".to_owned() } else { plain };
    let numbered = (2..=NAMES_MAX).map({
        let plain = plain.clone();
        move |number| format!("{plain}-{number}")
    });
    [plain].into_iter().chain(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_differ() {
        let check = |wanted: &str, first: &str, second: &str| {
            let mut names = names(wanted);
            assert_eq!((names.next().unwrap(), names.next().unwrap()), (first.to_owned(), second.to_owned()));
        };
        check("anna@example.com", "anna@example.com", "anna@example.com-2");
        check("Änna Lind", "-nna-Lind", "-nna-Lind-2");
        check("", "user", "user-2");
        check("日本", "user", "user-2");
        check(&"a".repeat(100), &"a".repeat(61), &format!("{}-2", "a".repeat(61)));
        assert!(names(&"a".repeat(100)).all(|name| is_user_name(&name)));
    }
}
