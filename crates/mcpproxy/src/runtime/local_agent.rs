//! The local agent, whose token the gateway creates itself.

use jiff::Timestamp;
use mcpproxy_core::{Agent, Scope};
use mcpproxy_store::{Location, Store, StoreError, Verifier};

use crate::home::Home;
use crate::home::secret::{Readers, random_bytes, read_secret, replace_file, write_secret};

const NAME: &str = "local";

/// Returns the name of the local agent. In a shared database, every gateway has its own.
pub(crate) fn name(location: &Location, verifier: &Verifier) -> String {
    match location {
        Location::Sqlite(_) => NAME.to_owned(),
        Location::Postgres(_) => format!("{NAME}-{}", verifier.chain()),
    }
}

/// The local agent and its token.
pub(crate) struct LocalAgent {
    pub(crate) token: String,
    /// `None` if an operator has revoked the token.
    pub(crate) agent: Option<Agent>,
}

/// Reads the token in `agent.token`. Creates one if there is none, or if it belongs to another database.
pub(crate) async fn open(home: &Home, store: &Store, name: &str) -> anyhow::Result<LocalAgent> {
    let path = home.agent_token();
    let known = read_secret(&path)?;
    if let Some(token) = &known {
        let agent = store.find_agent(token).await?;
        // A revoked token stays revoked after a restart.
        let was_revoked =
            store.list_tokens().await?.iter().any(|token| token.name == name && token.revoked_ms.is_some());
        if agent.is_some() || was_revoked {
            return Ok(LocalAgent { token: token.clone(), agent });
        }
    }
    let token = create(store, name).await?;
    match known {
        Some(_) => replace_file(&path, &format!("{token}\n"), Readers::OnlyUs)?,
        None => write_secret(&path, &token)?,
    }
    let agent = store.find_agent(&token).await?;
    Ok(LocalAgent { token, agent })
}

async fn create(store: &Store, name: &str) -> anyhow::Result<String> {
    let now_ms = Timestamp::now().as_millisecond();
    match store.create_token(name, &Scope::everything(), random_bytes()?, now_ms).await {
        // The file is gone, so the old token must not be valid any more.
        Err(StoreError::AgentExists { .. }) => {
            store.revoke_token(name, now_ms).await?;
            Ok(store.create_token(name, &Scope::everything(), random_bytes()?, now_ms).await?)
        }
        made => Ok(made?),
    }
}
