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

/// Moves what is stored for a gateway to its new name: the files of its last run, and that its token is revoked.
pub(crate) async fn rename(store: &Store, old: &str, new: &str) -> anyhow::Result<()> {
    if old == new {
        return Ok(());
    }
    let files = store.remembered_files(old).await?;
    if !files.is_empty() {
        store.remember_files(new, &files).await?;
        store.remember_files(old, &[]).await?;
    }
    let tokens = store.list_tokens().await?;
    let is_live = |name: &str| tokens.iter().any(|token| token.name == name && token.revoked_ms.is_none());
    let is_known = |name: &str| tokens.iter().any(|token| token.name == name);
    // Otherwise, the next start would create a token for the new name, and an operator has decided against one.
    if is_known(old) && !is_live(old) && !is_known(new) {
        let now_ms = Timestamp::now().as_millisecond();
        store.create_token(new, &Scope::everything(), random_bytes()?, now_ms).await?;
        store.revoke_token(new, now_ms).await?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_revoked_token_stays_revoked_under_a_new_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(folder.path().to_owned())).unwrap();
        home.create().unwrap();
        let store = Store::open(&Location::Sqlite(home.database())).await.unwrap();
        assert!(open(&home, &store, "local-old").await.unwrap().agent.is_some());
        rename(&store, "local-old", "local-new").await.unwrap();
        assert!(open(&home, &store, "local-new").await.unwrap().agent.is_some(), "the token stays valid");
        store.revoke_token("local-old", 1).await.unwrap();
        rename(&store, "local-old", "local-new").await.unwrap();
        assert!(open(&home, &store, "local-new").await.unwrap().agent.is_none());
    }
}
