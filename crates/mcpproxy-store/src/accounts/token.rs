//! Tokens: how an agent proves which agent it is.

use mcpproxy_core::{Agent, Scope};

use crate::accounts::scope;
use crate::accounts::secret::{digest, secret};
use crate::{Store, StoreError};

pub const AGENT_NAME_MAX_CHARS: usize = 64;
/// The agent without a token is called so, where there may be one.
const NOBODY: &str = "anonymous";
const SECRET_PREFIX: &str = "mcp_";

/// What may be told about a token; the token itself is known to its owner alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    pub name: String,
    pub scope: Scope,
    pub created_ms: i64,
    pub revoked_ms: Option<i64>,
    /// When the agent's newest record was made.
    pub last_used_ms: Option<i64>,
}

impl Store {
    /// Makes a token out of `random` and returns it. Only its digest is kept, so this is the one time it can be read.
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
        let scope = scope::to_json(scope)?;
        if self.database().insert_token(name, &digest(&secret), &scope, now_ms).await? {
            Ok(secret)
        } else {
            Err(StoreError::AgentExists { name: name.to_owned() })
        }
    }

    pub async fn revoke_token(&self, name: &str, now_ms: i64) -> Result<(), StoreError> {
        if self.database().revoke_token(name, now_ms).await? {
            Ok(())
        } else {
            Err(StoreError::NoSuchAgent { name: name.to_owned() })
        }
    }

    /// All tokens, the revoked ones too, by name.
    pub async fn list_tokens(&self) -> Result<Vec<TokenInfo>, StoreError> {
        self.database().tokens().await
    }

    /// The agent a token belongs to. The lookup compares digests, so its time tells nothing about any token.
    pub async fn find_agent(&self, secret: &str) -> Result<Option<Agent>, StoreError> {
        let Some((name, scope)) = self.database().token(&digest(secret)).await? else { return Ok(None) };
        Ok(Some(Agent { name, scope: scope::from_json(&scope)? }))
    }

    /// A number that moves whenever a token is created or revoked, by whichever process. Cheap enough to ask every second.
    pub async fn tokens_version(&self) -> Result<i64, StoreError> {
        self.database().tokens_version().await
    }
}

fn is_agent_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=AGENT_NAME_MAX_CHARS).contains(&name.len()) && name.bytes().all(fits) && name != NOBODY
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
