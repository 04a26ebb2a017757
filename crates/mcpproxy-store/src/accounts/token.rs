//! Tokens: each one identifies an agent and says what the agent may do.

use mcpproxy_core::{Agent, Scope};

use super::scope;
use super::secret::{digest, secret};
use crate::record::id::Key;
use crate::sql::columns::Columns;
use crate::sql::{Statement, Value};
use crate::{Store, StoreError};

pub const AGENT_NAME_MAX_CHARS: usize = 64;
/// Reserved for an agent without a token, which the settings may admit.
const ANONYMOUS: &str = "anonymous";
const SECRET_PREFIX: &str = "mcp_";
const LIST: &str = "SELECT name, scope, created_ms, revoked_ms FROM tokens ORDER BY name, created_ms";
/// Row values make PostgreSQL use the index on (agent, key). Without them it may scan all records for an agent that
/// made its last call long ago. A record about an approval names the agent too, but a user or the clock may have caused
/// it. Only the request for approval comes from the agent.
const LAST_USED: &str = "SELECT key FROM records WHERE agent = $1 AND (agent, key) >= ($1, $2) AND (agent, key) < ($1, $3) \
     AND (kind <> 'approval' OR code = 'approval_requested') ORDER BY agent DESC, key DESC LIMIT 1";
const CORRUPT: &str = "a token without a name or a scope";

/// A token without its secret, which only its owner knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    pub name: String,
    pub scope: Scope,
    pub created_ms: i64,
    pub revoked_ms: Option<i64>,
    /// The time of the agent's newest record.
    pub last_used_ms: Option<i64>,
}

impl Store {
    /// Creates a token from `random` and returns it. Only its digest is stored, so this is the one time it can be read.
    pub async fn create_token(
        &self,
        name: &str,
        scope: &Scope,
        random: [u8; 32],
        now_ms: i64,
    ) -> Result<String, StoreError> {
        if !is_agent_name(name) {
            return Err(StoreError::AgentName);
        }
        let secret = secret(SECRET_PREFIX, random);
        let sql = "INSERT INTO tokens (name, hash, scope, created_ms) VALUES ($1, $2, $3, $4)
             ON CONFLICT (name) WHERE revoked_ms IS NULL DO NOTHING";
        let scope = Value::text(&scope::to_json(scope)?);
        let values = vec![Value::text(name), Value::bytes(&digest(&secret)), scope, Value::int(now_ms)];
        if self.change_tokens(Statement::new(sql, values), "create the token").await? {
            Ok(secret)
        } else {
            Err(StoreError::AgentExists { name: name.to_owned() })
        }
    }

    /// Replaces the scope of a valid token. The token itself stays the same.
    pub async fn change_token(&self, name: &str, scope: &Scope) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET scope = $1 WHERE name = $2 AND revoked_ms IS NULL";
        let values = vec![Value::text(&scope::to_json(scope)?), Value::text(name)];
        if self.change_tokens(Statement::new(sql, values), "change the token").await? {
            Ok(())
        } else {
            Err(StoreError::NoSuchAgent { name: name.to_owned() })
        }
    }

    /// Returns the scope of the valid token of an agent.
    pub async fn find_scope(&self, name: &str) -> Result<Option<Scope>, StoreError> {
        let sql = "SELECT scope FROM tokens WHERE name = $1 AND revoked_ms IS NULL";
        let statement = Statement::new(sql, vec![Value::text(name)]);
        let row = self.database().fetch_first(statement, "look up a token").await?;
        row.map(|row| scope::from_json(&Columns::of(&row, CORRUPT).word(0)?)).transpose()
    }

    pub async fn revoke_token(&self, name: &str, now_ms: i64) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET revoked_ms = $1 WHERE name = $2 AND revoked_ms IS NULL";
        let values = vec![Value::int(now_ms), Value::text(name)];
        if self.change_tokens(Statement::new(sql, values), "revoke the token").await? {
            Ok(())
        } else {
            Err(StoreError::NoSuchAgent { name: name.to_owned() })
        }
    }

    /// Lists all tokens by name, revoked ones too.
    pub async fn list_tokens(&self) -> Result<Vec<TokenInfo>, StoreError> {
        let mut tokens = Vec::new();
        for row in self.database().fetch(Statement::plain(LIST), "list the tokens").await? {
            let columns = Columns::of(&row, CORRUPT);
            let mut token = TokenInfo {
                name: columns.word(0)?,
                scope: scope::from_json(&columns.word(1)?)?,
                created_ms: columns.int(2)?.unwrap_or(0),
                revoked_ms: columns.int(3)?,
                last_used_ms: None,
            };
            token.last_used_ms = self.last_used_ms(&token).await?;
            tokens.push(token);
        }
        Ok(tokens)
    }

    /// Lists the names of agents, revoked ones too, in alphabetical order.
    pub async fn agent_names(&self, limit: usize) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT name FROM tokens ORDER BY name LIMIT $1";
        let rows = self.database().fetch(Statement::new(sql, vec![Value::limit(limit)]), "list the agents").await?;
        rows.iter().map(|row| Columns::of(row, CORRUPT).word(0)).collect()
    }

    /// Finds the agent of a token. The lookup compares digests, so its timing reveals nothing about any token.
    pub async fn find_agent(&self, secret: &str) -> Result<Option<Agent>, StoreError> {
        let sql = "SELECT name, scope FROM tokens WHERE hash = $1 AND revoked_ms IS NULL";
        let statement = Statement::new(sql, vec![Value::bytes(&digest(secret))]);
        let Some(row) = self.database().fetch_first(statement, "look up a token").await? else { return Ok(None) };
        let columns = Columns::of(&row, CORRUPT);
        Ok(Some(Agent { name: columns.word(0)?, scope: scope::from_json(&columns.word(1)?)? }))
    }

    /// A number that changes whenever any process creates, changes or revokes a token. It is cheap enough to read every second.
    pub async fn tokens_version(&self) -> Result<i64, StoreError> {
        let statement = Statement::plain("SELECT version FROM tokens_version");
        let row = self.database().fetch_first(statement, "look for changed tokens").await?;
        row.map_or(Ok(0), |row| Columns::of(&row, "the version of tokens").number(0))
    }

    /// Runs the statement, and moves the version if it changed a row. Returns if it did.
    async fn change_tokens(&self, statement: Statement, doing: &'static str) -> Result<bool, StoreError> {
        let change = async |connection: &mut crate::sql::Connection| {
            connection.begin().await?;
            let changed = connection.execute(statement).await? > 0;
            if changed {
                connection.execute(Statement::plain("UPDATE tokens_version SET version = version + 1")).await?;
            }
            connection.execute(Statement::plain("COMMIT")).await?;
            Ok(changed)
        };
        self.database().write(change, doing).await
    }

    async fn last_used_ms(&self, token: &TokenInfo) -> Result<Option<i64>, StoreError> {
        let end = token.revoked_ms.map_or(i64::MAX, |revoked_ms| Key::at(revoked_ms + 1).0);
        let values = vec![Value::text(&token.name), Value::int(Key::at(token.created_ms).0), Value::int(end)];
        let row = self.database().fetch_first(Statement::new(LAST_USED, values), "look when a token was used").await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Columns::of(&row, CORRUPT).int(0)?.map(|key| Key(key).time_ms()))
    }
}

/// Returns true for a text with the prefix of every token that [`Store::create_token`] makes.
pub fn is_stored_token(text: &str) -> bool {
    text.starts_with(SECRET_PREFIX)
}

fn is_agent_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=AGENT_NAME_MAX_CHARS).contains(&name.len()) && name.bytes().all(fits) && name != ANONYMOUS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_names() {
        for good in ["a", "local", "ci.runner_2-x", &"a".repeat(64)] {
            assert!(is_agent_name(good), "{good}");
        }
        for bad in ["", " ", "a b", "ä", "a/b", "a\n", &"a".repeat(65)] {
            assert!(!is_agent_name(bad), "{bad}");
        }
    }
}
