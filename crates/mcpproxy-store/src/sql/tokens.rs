//! The tables of tokens.

use sqlx::sqlite::SqliteRow;
use sqlx::{Connection as _, Row as _, SqliteConnection};

use super::Database;
use crate::{StoreError, TokenInfo, row};

impl Database {
    /// `false` when the name is taken.
    pub(crate) async fn insert_token(
        &self,
        name: &str,
        hash: &[u8],
        scope: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let statement = sqlx::query(
            "INSERT INTO tokens (name, hash, scope, created_ms) VALUES (?, ?, ?, ?)
             ON CONFLICT (name) WHERE revoked_ms IS NULL DO NOTHING",
        );
        let statement = statement.bind(name.to_owned()).bind(hash.to_owned()).bind(scope.to_owned()).bind(now_ms);
        self.change_tokens(statement, "create the token").await
    }

    /// `false` when there is no such live token.
    pub(crate) async fn revoke_token(&self, name: &str, now_ms: i64) -> Result<bool, StoreError> {
        let statement = sqlx::query("UPDATE tokens SET revoked_ms = ? WHERE name = ? AND revoked_ms IS NULL");
        self.change_tokens(statement.bind(now_ms).bind(name.to_owned()), "revoke the token").await
    }

    async fn change_tokens(
        &self,
        statement: sqlx::query::Query<'_, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>,
        doing: &'static str,
    ) -> Result<bool, StoreError> {
        let mut connection = self.writing_connection().await?;
        let change = async |connection: &mut SqliteConnection| -> Result<bool, sqlx::Error> {
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
            let changed = statement.execute(&mut *transaction).await?.rows_affected() > 0;
            if changed {
                sqlx::query("UPDATE tokens_version SET version = version + 1").execute(&mut *transaction).await?;
            }
            transaction.commit().await?;
            Ok(changed)
        };
        let changed = change(&mut connection).await.map_err(StoreError::while_trying(doing))?;
        connection.close().await.map_err(StoreError::while_trying(doing))?;
        Ok(changed)
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<TokenInfo>, StoreError> {
        let rows = sqlx::query(
            "SELECT name, scope, created_ms, revoked_ms,
                    (SELECT time_ms FROM records
                     WHERE agent = tokens.name AND time_ms >= created_ms AND (revoked_ms IS NULL OR time_ms <= revoked_ms)
                     ORDER BY seq DESC LIMIT 1) AS last_used_ms
             FROM tokens ORDER BY name, id",
        );
        let rows = rows.fetch_all(&self.readers).await.map_err(StoreError::while_trying("list the tokens"))?;
        rows.iter().map(token).collect()
    }

    /// Name and scope of the live token with this hash.
    pub(crate) async fn token(&self, hash: &[u8]) -> Result<Option<(String, String)>, StoreError> {
        sqlx::query_as("SELECT name, scope FROM tokens WHERE hash = ? AND revoked_ms IS NULL")
            .bind(hash.to_owned())
            .fetch_optional(&self.readers)
            .await
            .map_err(StoreError::while_trying("look up a token"))
    }

    pub(crate) async fn tokens_version(&self) -> Result<i64, StoreError> {
        sqlx::query_scalar("SELECT version FROM tokens_version")
            .fetch_one(&self.readers)
            .await
            .map_err(StoreError::while_trying("look for changed tokens"))
    }
}

fn token(row: &SqliteRow) -> Result<TokenInfo, StoreError> {
    let doing = StoreError::while_trying("read a token");
    let scope: String = row.try_get("scope").map_err(&doing)?;
    Ok(TokenInfo {
        name: row.try_get("name").map_err(&doing)?,
        scope: row::scope_from_json(&scope)?,
        created_ms: row.try_get("created_ms").map_err(&doing)?,
        revoked_ms: row.try_get("revoked_ms").map_err(&doing)?,
        last_used_ms: row.try_get("last_used_ms").map_err(&doing)?,
    })
}
