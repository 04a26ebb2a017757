//! Recovery codes: each replaces a lost second factor once. They are random, so a plain digest protects them.

use super::secret::digest;
use super::user::{CHANGING, READING};
use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::{StepUpProof, Store, StoreError, User};

impl Store {
    /// Replaces all recovery codes of a user.
    pub async fn replace_recovery_codes(&self, user: &User, codes: &[String]) -> Result<(), StoreError> {
        let forget = Statement::new("DELETE FROM recovery_codes WHERE user_name = $1", vec![Value::text(user.name())]);
        // Selecting from `users` leaves no code behind for a later user of the same name.
        let sql = "INSERT INTO recovery_codes (user_name, hash) SELECT name, $2 FROM users WHERE name = $1 \
                   ON CONFLICT (user_name, hash) DO NOTHING";
        let insert = |code: &String| {
            Statement::new(sql, vec![Value::text(user.name()), Value::bytes(&of_user(user.name(), code))])
        };
        let statements: Vec<Statement> = [forget].into_iter().chain(codes.iter().map(insert)).collect();
        let replace = async |connection: &mut Connection| connection.transaction(statements).await;
        self.database().write(replace, CHANGING).await
    }

    /// Counts the recovery codes that a user has left.
    pub async fn count_recovery_codes(&self, name: &str) -> Result<u32, StoreError> {
        let sql = "SELECT count(*) FROM recovery_codes WHERE user_name = $1";
        let row = self.database().fetch_first(Statement::new(sql, vec![Value::text(name)]), READING).await?;
        row.map_or(Ok(0), |row| Columns::of(&row, "a malformed count of recovery codes").count(0))
    }

    /// Returns true if a user has exactly these codes left.
    pub async fn has_recovery_codes(&self, user: &User, codes: &[String]) -> Result<bool, StoreError> {
        let sql = "SELECT hash FROM recovery_codes WHERE user_name = $1";
        let rows = self.database().fetch(Statement::new(sql, vec![Value::text(user.name())]), READING).await?;
        let hash = |row| Columns::of(row, "a malformed recovery code").bytes(0);
        let mut found = rows.iter().map(hash).collect::<Result<Vec<_>, _>>()?;
        let mut wanted: Vec<_> = codes.iter().map(|code| Some(of_user(user.name(), code).to_vec())).collect();
        found.sort_unstable();
        wanted.sort_unstable();
        Ok(found == wanted)
    }

    /// Spends a recovery code, for one purpose. Returns `None` if it is wrong or was used.
    pub async fn use_recovery_code(
        &self,
        user: &User,
        code: &str,
        purpose: &str,
    ) -> Result<Option<StepUpProof>, StoreError> {
        let sql = "DELETE FROM recovery_codes WHERE user_name = $1 AND hash = $2";
        let values = vec![Value::text(user.name()), Value::bytes(&of_user(user.name(), code))];
        Ok(self.change_users(sql, values).await?.then(|| StepUpProof::of(user, purpose)))
    }
}

/// The name is part of the digest, so that one guess cannot be compared with the codes of all users.
fn of_user(name: &str, code: &str) -> [u8; 32] {
    digest(&format!("recovery {name} {code}"))
}
