//! The agent tokens of connected clients.
//!
//! A client keeps its token as long as it is valid and in the client's file. Otherwise, connecting again revokes the
//! old one and creates a new one under the same name, so that tokens do not pile up. A token that the user created
//! under the same name is not touched: the client then gets a name with a number. A valid token of another agent that
//! the user put into the entry stays there, because it usually has limits. The client's own token, which has none, is
//! then revoked. `--replace` replaces the user's token.

use std::io;

use mcpproxy_core::Scope;
use mcpproxy_store::{Store, StoreError};
use serde_json::Value;

use super::journal::Record;
use crate::agent_clients::Client;
use crate::commands::token::forget_revoked;
use crate::database::{self, location, not_opened};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::random_bytes;
use crate::terminal::time::now_ms;

/// The plan for the token of a client.
#[derive(Clone)]
pub(super) enum TokenPlan {
    /// `mcpproxy stdio` uses the token of the agent `local`.
    NotNeeded,
    /// The token in the file stays valid.
    Keep { agent: String, secret: String, is_users: bool },
    /// Revokes the client's previous token, if any, and creates a new one.
    Create { agent: String },
}

/// A valid token in a client's entry.
pub(super) struct EntryToken {
    pub(super) agent: String,
    secret: String,
}

/// Access to the tokens. Opens the database at first use. A dry run only reads one that exists.
pub(super) struct Tokens<'a> {
    home: &'a Home,
    is_dry_run: bool,
    store: Option<Store>,
    has_revoked: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(home: &'a Home, is_dry_run: bool) -> Self {
        Self { home, is_dry_run, store: None, has_revoked: false }
    }

    async fn store(&mut self) -> anyhow::Result<&Store> {
        if self.store.is_none() {
            self.home.create()?;
            self.store = Some(database::open(self.home).await?);
        }
        self.store.as_ref().ok_or_else(|| anyhow::anyhow!("the database is closed"))
    }

    /// Opens the database for a dry run. Returns `None` if that would create it.
    async fn existing_store(&mut self) -> anyhow::Result<Option<&Store>> {
        if self.store.is_none() {
            let location = location(self.home)?;
            self.store = match Store::open_read_only(&location).await {
                Ok(store) => Some(store),
                Err(error) if does_not_exist(&error) => None,
                Err(error) => return Err(not_opened(self.home, &location, error)),
            };
        }
        Ok(self.store.as_ref())
    }

    /// Returns the database, or `None` in a dry run that would create it.
    async fn store_if_any(&mut self) -> anyhow::Result<Option<&Store>> {
        match self.is_dry_run {
            true => self.existing_store().await,
            false => self.store().await.map(Some),
        }
    }

    /// Finds the token in a client's entry, if it is valid. Does not open the database for an entry without a token.
    pub(super) async fn find(&mut self, entry: Option<&Value>) -> anyhow::Result<Option<EntryToken>> {
        let Some(secret) = entry.and_then(bearer) else { return Ok(None) };
        let Some(store) = self.store_if_any().await? else { return Ok(None) };
        let found = store.find_agent(&secret).await?;
        Ok(found.map(|agent| EntryToken { agent: agent.name, secret }))
    }

    /// Decides whether the token in the client's entry can stay. `replace` gives up a token of the user.
    pub(super) async fn plan(
        &mut self,
        client: &Client,
        record: Option<&Record>,
        found: Option<EntryToken>,
        replace: bool,
    ) -> anyhow::Result<TokenPlan> {
        let ours = record.and_then(|record| record.agent.clone());
        if let Some(EntryToken { agent, secret }) = found {
            let is_users = ours.as_ref() != Some(&agent);
            if !(is_users && replace) {
                return Ok(TokenPlan::Keep { agent, secret, is_users });
            }
        }
        let agent = match (ours, self.store_if_any().await?) {
            (Some(agent), _) => agent,
            (None, Some(store)) => free_name(store, client).await?,
            (None, None) => client.id.to_owned(),
        };
        Ok(TokenPlan::Create { agent })
    }

    /// Creates a token. Revokes an earlier one of the same name only if it is the client's own. The name was free when
    /// the plan was made, but the user may have created a token with it since then.
    pub(super) async fn create(&mut self, agent: &str, is_clients_own: bool) -> anyhow::Result<String> {
        if is_clients_own {
            self.revoke(agent).await?;
        }
        let random = random_bytes()?;
        let created = self.store().await?.create_token(agent, &Scope::everything(), random, now_ms()).await;
        created.map_err(|error| match error {
            StoreError::AgentExists { .. } => Failure::new(
                Exit::Failed,
                format!("A token for the agent `{agent}` was created after the preview. Nothing was written."),
            )
            .hint("run the command again; the client then gets a token with another name")
            .into(),
            error => error.into(),
        })
    }

    /// Revokes a token. One that is already revoked is not an error.
    pub(super) async fn revoke(&mut self, agent: &str) -> anyhow::Result<()> {
        match self.store().await?.revoke_token(agent, now_ms()).await {
            Ok(()) => {
                self.has_revoked = true;
                Ok(())
            }
            Err(StoreError::NoSuchAgent { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Closes the database. If a token was revoked, the running gateway forgets it now.
    pub(super) async fn close(self) {
        if let Some(store) = self.store {
            store.close().await;
        }
        if self.has_revoked {
            forget_revoked(self.home).await;
        }
    }
}

/// Checks for the errors of a database that a real run would create, with or without its file.
fn does_not_exist(error: &StoreError) -> bool {
    match error {
        StoreError::Open { source, .. } => source.kind() == io::ErrorKind::NotFound,
        error => matches!(error, StoreError::NotReady { .. }),
    }
}

/// Returns a name that no valid token has.
async fn free_name(store: &Store, client: &Client) -> anyhow::Result<String> {
    let taken: Vec<String> = store
        .list_tokens()
        .await?
        .into_iter()
        .filter(|token| token.revoked_ms.is_none())
        .map(|token| token.name)
        .collect();
    let names = std::iter::once(client.id.to_owned()).chain((2_u32..).map(|number| format!("{}-{number}", client.id)));
    let mut free = names.filter(|name| !taken.contains(name));
    free.next().ok_or_else(|| anyhow::anyhow!("no name is free for the token"))
}

/// Finds the token in an entry, wherever the client keeps its headers.
fn bearer(entry: &Value) -> Option<String> {
    match entry {
        Value::String(text) => text.strip_prefix("Bearer ").map(str::to_owned),
        Value::Array(values) => values.iter().find_map(bearer),
        Value::Object(members) => members.values().find_map(bearer),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
