//! The tables of tokens.

use crate::accounts::scope;
use crate::record::id::Key;
use crate::sql::Database;
use crate::sql::driver::Connection;
use crate::sql::driver::{Row, Statement, Value};
use crate::{StoreError, TokenInfo};

const LIST: &str = "SELECT name, scope, created_ms, revoked_ms FROM tokens ORDER BY name, created_ms";
/// In pairs, so that PostgreSQL cannot go through the records of everybody in search of an agent that is long gone.
const LAST_USED: &str = "SELECT key FROM records WHERE agent = $1 AND (agent, key) >= ($1, $2) AND (agent, key) < ($1, $3) \
     ORDER BY agent DESC, key DESC LIMIT 1";

impl Database {
    /// `false` when the name is taken.
    pub(crate) async fn insert_token(
        &self,
        name: &str,
        hash: &[u8],
        scope: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let sql = "INSERT INTO tokens (name, hash, scope, created_ms) VALUES ($1, $2, $3, $4)
             ON CONFLICT (name) WHERE revoked_ms IS NULL DO NOTHING";
        let values = vec![Value::text(name), Value::bytes(hash), Value::text(scope), Value::int(now_ms)];
        self.change_tokens(Statement::new(sql, values), "create the token").await
    }

    /// `false` when there is no such live token.
    pub(crate) async fn revoke_token(&self, name: &str, now_ms: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE tokens SET revoked_ms = $1 WHERE name = $2 AND revoked_ms IS NULL";
        let values = vec![Value::int(now_ms), Value::text(name)];
        self.change_tokens(Statement::new(sql, values), "revoke the token").await
    }

    async fn change_tokens(&self, statement: Statement, doing: &'static str) -> Result<bool, StoreError> {
        let mut connection = self.writing_connection().await?;
        let change = async |connection: &mut Connection| -> Result<bool, sqlx::Error> {
            connection.begin().await?;
            let changed = connection.execute(statement).await? > 0;
            if changed {
                connection.execute(Statement::plain("UPDATE tokens_version SET version = version + 1")).await?;
            }
            connection.execute(Statement::plain("COMMIT")).await?;
            Ok(changed)
        };
        let changed = change(&mut connection).await.map_err(StoreError::while_trying(doing))?;
        connection.close().await.map_err(StoreError::while_trying(doing))?;
        Ok(changed)
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<TokenInfo>, StoreError> {
        let mut tokens = Vec::new();
        for row in self.fetch(Statement::plain(LIST), "list the tokens").await? {
            let mut token = token(&row)?;
            token.last_used_ms = self.last_used_ms(&token).await?;
            tokens.push(token);
        }
        Ok(tokens)
    }

    async fn last_used_ms(&self, token: &TokenInfo) -> Result<Option<i64>, StoreError> {
        let end = token.revoked_ms.map_or(i64::MAX, |revoked_ms| Key::at(revoked_ms + 1).0);
        let values = vec![Value::text(&token.name), Value::int(Key::at(token.created_ms).0), Value::int(end)];
        let rows = self.fetch(Statement::new(LAST_USED, values), "look when a token was used").await?;
        let key = rows.first().map(|row| row.int(0)).transpose();
        Ok(key.map_err(StoreError::while_trying("read a token"))?.flatten().map(|key| Key(key).time_ms()))
    }

    /// Name and scope of the live token with this hash.
    pub(crate) async fn token(&self, hash: &[u8]) -> Result<Option<(String, String)>, StoreError> {
        let sql = "SELECT name, scope FROM tokens WHERE hash = $1 AND revoked_ms IS NULL";
        let rows = self.fetch(Statement::new(sql, vec![Value::bytes(hash)]), "look up a token").await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let failed = StoreError::while_trying("read a token");
        Ok(row.text(0).map_err(&failed)?.zip(row.text(1).map_err(&failed)?))
    }

    pub(crate) async fn tokens_version(&self) -> Result<i64, StoreError> {
        let rows =
            self.fetch(Statement::plain("SELECT version FROM tokens_version"), "look for changed tokens").await?;
        let version = rows.first().map(|row| row.int(0)).transpose();
        Ok(version.map_err(StoreError::while_trying("look for changed tokens"))?.flatten().unwrap_or(0))
    }
}

fn token(row: &Row) -> Result<TokenInfo, StoreError> {
    let failed = StoreError::while_trying("read a token");
    let missing = || StoreError::corrupt("a token without a name or a scope");
    Ok(TokenInfo {
        name: row.text(0).map_err(&failed)?.ok_or_else(missing)?,
        scope: scope::from_json(&row.text(1).map_err(&failed)?.ok_or_else(missing)?)?,
        created_ms: row.int(2).map_err(&failed)?.unwrap_or(0),
        revoked_ms: row.int(3).map_err(&failed)?,
        last_used_ms: None,
    })
}
