//! The tables of users, their factors and their invitations.

use crate::sql::Database;
use crate::sql::columns::Columns;
use crate::sql::driver::{Connection, Dialect, Statement, Value};
use crate::{PasskeyRow, StoreError, Totp, UserRow};

const DOING: &str = "read the table of users";
const CHANGING: &str = "change the table of users";
/// One after the other: two must not both be the first.
const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(7163470114)";
/// An invitation from nobody is for the first user alone, and one from somebody counts as long as they are there.
const IS_INVITED: &str = "hash = $1 AND expires_ms > $2 AND CASE WHEN invited_by IS NULL \
    THEN NOT EXISTS (SELECT 1 FROM users) ELSE EXISTS (SELECT 1 FROM users WHERE name = invited_by) END";

impl Database {
    pub(crate) async fn has_users(&self) -> Result<bool, StoreError> {
        let rows = self.fetch(Statement::plain("SELECT name FROM users LIMIT 1"), DOING).await?;
        Ok(!rows.is_empty())
    }

    pub(crate) async fn insert_invitation(
        &self,
        hash: &[u8],
        by: Option<&str>,
        expires_ms: i64,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO invitations (hash, invited_by, expires_ms) VALUES ($1, $2, $3)";
        let values = vec![Value::bytes(hash), Value::optional_text(by), Value::int(expires_ms)];
        self.change(Statement::new(sql, values), CHANGING).await.map(drop)
    }

    pub(crate) async fn is_invited(&self, hash: &[u8], now_ms: i64) -> Result<bool, StoreError> {
        let sql = format!("SELECT expires_ms FROM invitations WHERE {IS_INVITED}");
        let rows = self.fetch(Statement::new(sql, vec![Value::bytes(hash), Value::int(now_ms)]), DOING).await?;
        Ok(!rows.is_empty())
    }

    /// `false` when the invitation does not count.
    pub(crate) async fn insert_user(
        &self,
        invitation: &[u8],
        name: &str,
        password_hash: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let spend = format!("DELETE FROM invitations WHERE {IS_INVITED}");
        let spend = Statement::new(spend, vec![Value::bytes(invitation), Value::int(now_ms)]);
        let sql = "INSERT INTO users (name, password_hash, created_ms, totp_step, failures, failed_ms, locked_until_ms) \
                   VALUES ($1, $2, $3, 0, 0, 0, 0) ON CONFLICT (name) DO NOTHING";
        let insert = Statement::new(sql, vec![Value::text(name), Value::text(password_hash), Value::int(now_ms)]);
        let create = async |connection: &mut Connection| -> Result<Created, sqlx::Error> {
            connection.begin().await?;
            if connection.dialect() == Dialect::Postgres {
                connection.run(POSTGRES_LOCK).await?;
            }
            let created = if connection.execute(spend).await? == 0 {
                Created::NotInvited
            } else if connection.execute(insert).await? == 0 {
                Created::Exists
            } else {
                Created::Yes
            };
            let end = if created == Created::Yes { "COMMIT" } else { "ROLLBACK" };
            connection.execute(Statement::plain(end)).await?;
            Ok(created)
        };
        let failed = StoreError::while_trying(CHANGING);
        let mut connection = self.writing_connection().await?;
        let created = create(&mut connection).await.map_err(&failed)?;
        connection.close().await.map_err(&failed)?;
        match created {
            Created::Yes => Ok(true),
            Created::NotInvited => Ok(false),
            Created::Exists => Err(StoreError::UserExists { name: name.to_owned() }),
        }
    }

    pub(crate) async fn user_names(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.fetch(Statement::plain("SELECT name FROM users ORDER BY name"), DOING).await?;
        rows.iter().map(|row| Columns::of(row, "a user without a name").word(0)).collect()
    }

    pub(crate) async fn change_password(&self, name: &str, hash: &str, session: &[u8]) -> Result<(), StoreError> {
        let set = "UPDATE users SET password_hash = $2 WHERE name = $1";
        let end = "DELETE FROM sessions WHERE user_name = $1 AND hash <> $2";
        let statements = vec![
            Statement::new(set, vec![Value::text(name), Value::text(hash)]),
            Statement::new(end, vec![Value::text(name), Value::bytes(session)]),
        ];
        let failed = StoreError::while_trying(CHANGING);
        let mut connection = self.writing_connection().await?;
        connection.transaction(statements).await.map_err(&failed)?;
        connection.close().await.map_err(&failed)
    }

    pub(crate) async fn remove_user(&self, name: &str, by: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM users WHERE name = $1 AND name <> $2 AND EXISTS (SELECT 1 FROM users WHERE name = $2)";
        let remove = Statement::new(sql, vec![Value::text(name), Value::text(by)]);
        let rest = [
            "DELETE FROM challenges WHERE session IN (SELECT hash FROM sessions WHERE user_name = $1)",
            "DELETE FROM sessions WHERE user_name = $1",
            "DELETE FROM passkeys WHERE user_name = $1",
            "DELETE FROM invitations WHERE invited_by = $1",
        ];
        let work = async |connection: &mut Connection| -> Result<bool, sqlx::Error> {
            connection.begin().await?;
            if connection.dialect() == Dialect::Postgres {
                connection.run(POSTGRES_LOCK).await?;
            }
            let is_removed = connection.execute(remove).await? > 0;
            for sql in rest.into_iter().filter(|_| is_removed) {
                connection.execute(Statement::new(sql, vec![Value::text(name)])).await?;
            }
            connection.execute(Statement::plain("COMMIT")).await?;
            Ok(is_removed)
        };
        let failed = StoreError::while_trying(CHANGING);
        let mut connection = self.writing_connection().await?;
        let is_removed = work(&mut connection).await.map_err(&failed)?;
        connection.close().await.map_err(&failed)?;
        Ok(is_removed)
    }

    pub(crate) async fn user(&self, name: &str) -> Result<Option<UserRow>, StoreError> {
        let sql =
            "SELECT name, password_hash, totp_secret, totp_step, failures, locked_until_ms FROM users WHERE name = $1";
        let rows = self.fetch(Statement::new(sql, vec![Value::text(name)]), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let columns = Columns::of(row, "a user with something odd in it");
        let last_step = columns.number(3)?;
        Ok(Some(UserRow {
            name: columns.word(0)?,
            password_hash: columns.word(1)?,
            totp: columns.bytes(2)?.map(|secret| Totp { secret, last_step }),
            passkeys: self.passkeys(name).await?,
            failures: columns.count(4)?,
            locked_until_ms: columns.number(5)?,
        }))
    }

    async fn passkeys(&self, user_name: &str) -> Result<Vec<PasskeyRow>, StoreError> {
        let sql = "SELECT id, label, data, created_ms FROM passkeys WHERE user_name = $1 ORDER BY created_ms, id";
        let rows = self.fetch(Statement::new(sql, vec![Value::text(user_name)]), DOING).await?;
        let passkey = |row| {
            let columns = Columns::of(row, "a passkey with something odd in it");
            let (id, label, data) = (columns.word(0)?, columns.word(1)?, columns.word(2)?);
            Ok(PasskeyRow { id, label, data, created_ms: columns.number(3)? })
        };
        rows.iter().map(passkey).collect()
    }

    /// Begins to count anew when the last failure was before `since_ms`.
    pub(crate) async fn note_failure(
        &self,
        name: &str,
        now_ms: i64,
        since_ms: i64,
        locked_until_ms: i64,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE users SET failures = CASE WHEN failed_ms < $3 THEN 1 ELSE failures + 1 END, failed_ms = $2, \
                   locked_until_ms = CASE WHEN locked_until_ms > $4 THEN locked_until_ms ELSE $4 END WHERE name = $1";
        let values = vec![Value::text(name), Value::int(now_ms), Value::int(since_ms), Value::int(locked_until_ms)];
        self.change(Statement::new(sql, values), CHANGING).await.map(drop)
    }

    pub(crate) async fn forget_failures(&self, name: &str) -> Result<(), StoreError> {
        let sql = "UPDATE users SET failures = 0, locked_until_ms = 0 WHERE name = $1";
        self.change(Statement::new(sql, vec![Value::text(name)]), CHANGING).await.map(drop)
    }

    pub(crate) async fn set_totp(&self, name: &str, secret: &[u8], step: i64) -> Result<(), StoreError> {
        let sql = "UPDATE users SET totp_secret = $2, totp_step = $3 WHERE name = $1";
        let values = vec![Value::text(name), Value::bytes(secret), Value::int(step)];
        self.change(Statement::new(sql, values), CHANGING).await.map(drop)
    }

    pub(crate) async fn take_totp_step(&self, name: &str, step: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE users SET totp_step = $2 WHERE name = $1 AND totp_secret IS NOT NULL AND totp_step < $2";
        Ok(self.change(Statement::new(sql, vec![Value::text(name), Value::int(step)]), CHANGING).await? > 0)
    }

    pub(crate) async fn insert_passkey(&self, user_name: &str, passkey: &PasskeyRow) -> Result<bool, StoreError> {
        // Whoever was removed meanwhile leaves nothing to somebody of the same name.
        let sql = "INSERT INTO passkeys (id, user_name, label, data, created_ms) \
                   SELECT $1, name, $3, $4, $5 FROM users WHERE name = $2 ON CONFLICT (id) DO NOTHING";
        let PasskeyRow { id, label, data, created_ms } = passkey;
        let values =
            [id.as_str(), user_name, label, data].into_iter().map(Value::text).chain([Value::int(*created_ms)]);
        Ok(self.change(Statement::new(sql, values.collect()), CHANGING).await? > 0)
    }

    pub(crate) async fn remove_passkey(&self, user_name: &str, id: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM passkeys WHERE id = $1 AND user_name = $2";
        Ok(self.change(Statement::new(sql, vec![Value::text(id), Value::text(user_name)]), CHANGING).await? > 0)
    }

    /// Of this user, if one is named. `false` when there is none.
    pub(crate) async fn update_passkey(
        &self,
        user_name: Option<&str>,
        id: &str,
        data: &str,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE passkeys SET data = $2 WHERE id = $1 AND user_name = coalesce($3, user_name)";
        let values = vec![Value::text(id), Value::text(data), Value::optional_text(user_name)];
        Ok(self.change(Statement::new(sql, values), CHANGING).await? > 0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Created {
    Yes,
    NotInvited,
    Exists,
}
