//! The tables of sessions, of challenges and of secrets that gateways share.

use crate::StoreError;
use crate::sql::Database;
use crate::sql::columns::Columns;
use crate::sql::driver::{Statement, Value};

const DOING: &str = "look up a session";
const CHANGING: &str = "change the table of sessions";
const SHARING: &str = "share a secret between gateways";

pub(crate) struct SessionRow {
    pub(crate) user_name: String,
    pub(crate) page_key: Vec<u8>,
    pub(crate) created_ms: i64,
    pub(crate) used_ms: i64,
    pub(crate) is_enrolled: bool,
}

impl Database {
    /// `false` when there is no such user.
    pub(crate) async fn insert_session(
        &self,
        hash: &[u8],
        page_key: &[u8],
        user_name: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let sql = "INSERT INTO sessions (hash, user_name, page_key, created_ms, used_ms) \
                   SELECT $1, name, $3, $4, $4 FROM users WHERE name = $2";
        let values = vec![Value::bytes(hash), Value::text(user_name), Value::bytes(page_key), Value::int(now_ms)];
        Ok(self.change(Statement::new(sql, values), CHANGING).await? > 0)
    }

    pub(crate) async fn session(&self, hash: &[u8]) -> Result<Option<SessionRow>, StoreError> {
        let sql = "SELECT users.name, sessions.created_ms, sessions.used_ms, CASE WHEN users.totp_secret IS NOT NULL \
                   OR EXISTS (SELECT 1 FROM passkeys WHERE passkeys.user_name = users.name) \
                   THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END, sessions.page_key \
                   FROM sessions JOIN users ON users.name = sessions.user_name WHERE sessions.hash = $1";
        let rows = self.fetch(Statement::new(sql, vec![Value::bytes(hash)]), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let columns = Columns::of(row, "a session with something odd in it");
        Ok(Some(SessionRow {
            user_name: columns.word(0)?,
            created_ms: columns.number(1)?,
            used_ms: columns.number(2)?,
            is_enrolled: columns.number(3)? != 0,
            page_key: columns.bytes(4)?.unwrap_or_default(),
        }))
    }

    pub(crate) async fn touch_session(&self, hash: &[u8], now_ms: i64) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET used_ms = $2 WHERE hash = $1 AND used_ms < $2";
        self.change(Statement::new(sql, vec![Value::bytes(hash), Value::int(now_ms)]), CHANGING).await.map(drop)
    }

    pub(crate) async fn remove_session(&self, hash: &[u8]) -> Result<(), StoreError> {
        let sql = "DELETE FROM sessions WHERE hash = $1";
        self.change(Statement::new(sql, vec![Value::bytes(hash)]), CHANGING).await.map(drop)
    }

    pub(crate) async fn insert_challenge(
        &self,
        session: &[u8],
        purpose: &str,
        state: &str,
        expires_ms: i64,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO challenges (session, purpose, state, expires_ms) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (session, purpose) DO UPDATE SET state = excluded.state, expires_ms = excluded.expires_ms";
        let values = vec![Value::bytes(session), Value::text(purpose), Value::text(state), Value::int(expires_ms)];
        self.change(Statement::new(sql, values), CHANGING).await.map(drop)
    }

    pub(crate) async fn take_challenge(
        &self,
        session: &[u8],
        purpose: &str,
        now_ms: i64,
    ) -> Result<Option<String>, StoreError> {
        let sql = "DELETE FROM challenges WHERE session = $1 AND purpose = $2 AND expires_ms > $3 RETURNING state";
        let values = vec![Value::bytes(session), Value::text(purpose), Value::int(now_ms)];
        let failed = StoreError::while_trying(CHANGING);
        let mut connection = self.writing_connection().await?;
        let rows = connection.fetch(Statement::new(sql, values)).await.map_err(&failed)?;
        connection.close().await.map_err(&failed)?;
        rows.first().map_or(Ok(None), |row| Columns::of(row, "a challenge").text(0))
    }

    pub(crate) async fn shared_secret(&self, name: &str, random: &[u8; 32]) -> Result<[u8; 32], StoreError> {
        if let Some(secret) = self.found_secret(name).await? {
            return Ok(secret);
        }
        let sql = "INSERT INTO shared_secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        self.change(Statement::new(sql, vec![Value::text(name), Value::bytes(random)]), SHARING).await?;
        self.found_secret(name).await?.ok_or_else(|| StoreError::corrupt("no secret where one was written"))
    }

    async fn found_secret(&self, name: &str) -> Result<Option<[u8; 32]>, StoreError> {
        let sql = "SELECT secret FROM shared_secrets WHERE name = $1";
        let rows = self.fetch(Statement::new(sql, vec![Value::text(name)]), SHARING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let columns = Columns::of(row, "a shared secret of another size");
        let secret = columns.bytes(0)?.and_then(|secret| secret.try_into().ok());
        secret.map(Some).ok_or_else(|| columns.odd())
    }
}
