//! Users as operators see them: second factor, sessions, and when they were last seen.

use super::provider::ProviderAccount;
use crate::sql::columns::Columns;
use crate::sql::{Statement, Value};
use crate::{Store, StoreError};

const READING: &str = "list the users";
/// Users in one list. A gateway has a handful.
const USERS_MAX: usize = 200;
const LIST: &str = "SELECT name, created_ms, CASE WHEN issuer IS NOT NULL OR totp_secret IS NOT NULL \
     OR EXISTS (SELECT 1 FROM passkeys WHERE passkeys.user_name = users.name) \
     THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END, \
     (SELECT max(used_ms) FROM sessions WHERE sessions.user_name = users.name), \
     (SELECT count(*) FROM sessions WHERE sessions.user_name = users.name AND used_ms > $1 AND sessions.created_ms > $2), \
     issuer, profile, CASE WHEN password_hash <> '' THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END \
     FROM users ORDER BY name LIMIT $3";

/// A user with their sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub created_ms: i64,
    /// The account at the identity provider, if the user signs in there.
    pub provider: Option<ProviderAccount>,
    /// `false` for users of a provider, and after a reset.
    pub has_password: bool,
    /// `true` if the user has a second factor, and so can approve. Users of a provider have it there.
    pub is_enrolled: bool,
    /// The last use of a session. `None` if the user has signed out or never signed in.
    pub seen_ms: Option<i64>,
    /// Sessions that are still valid.
    pub sessions: u64,
}

impl Store {
    /// Lists users by name. A session is valid if it was used within `idle_ms` and opened within `most_ms`.
    pub async fn list_accounts(&self, now_ms: i64, idle_ms: i64, most_ms: i64) -> Result<Vec<Account>, StoreError> {
        let (idle, most) = (now_ms.saturating_sub(idle_ms), now_ms.saturating_sub(most_ms));
        let values = vec![Value::int(idle), Value::int(most), Value::limit(USERS_MAX)];
        let rows = self.database().fetch(Statement::new(LIST, values), READING).await?;
        let account = |row| {
            let columns = Columns::of(row, "a malformed user");
            Ok(Account {
                name: columns.word(0)?,
                created_ms: columns.number(1)?,
                is_enrolled: columns.number(2)? != 0,
                seen_ms: columns.int(3)?,
                sessions: columns.count(4)?.into(),
                provider: ProviderAccount::read(&columns, 5)?,
                has_password: columns.number(7)? != 0,
            })
        };
        rows.iter().map(account).collect()
    }
}
