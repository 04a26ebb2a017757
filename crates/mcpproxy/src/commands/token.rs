//! `token`: creates, lists, changes and revokes agent tokens.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use http::Method;
use jiff::Timestamp;
use mcpproxy_core::settings::is_provider_agent;
use mcpproxy_core::{Scope, ServerName, Variant, nearest};
use mcpproxy_store::{Filter, Store, StoreError, TokenInfo};
use serde::Serialize;

use crate::client::Rest;
use crate::commands::args::VariantArg;
use crate::commands::names;
use crate::database;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::secret::random_bytes;
use crate::known_tools;
use crate::terminal::listing::Cell;
use crate::terminal::output::{self, Format, line};
use crate::terminal::style::of_state;
use crate::terminal::time::{local_time, now_ms};

/// Agents of the identity provider are listed if they made calls in this time.
const PROVIDER_AGENTS_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Number of such agents in the list.
const PROVIDER_AGENTS_MAX: usize = 200;

/// Create, list, change and revoke agent tokens
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  mcpproxy token create cursor
  mcpproxy token list
  mcpproxy token edit cursor --operations read
  mcpproxy token revoke cursor")]
pub(crate) enum TokenCommand {
    /// Create a token for an agent and print it once
    #[command(after_help = "\
Examples:
  mcpproxy token create cursor
  mcpproxy token create ci --servers github,docs --operations read
  mcpproxy token create mailer --grant emails:send --grant contacts:read
  mcpproxy token create editor --grant 'files:*'
  mcpproxy token create nightly --headless

Without --grant, the token has no permissions. The gateway then refuses its calls to tools whose contracts \
require one. `mcpproxy contract show NAME` lists the permissions of a tool. '*' stands for all permissions.

A token can never approve a call. Only a user can.")]
    Create(Create),
    /// List agents with their permissions, servers and operations
    #[command(after_help = "\
Examples:
  mcpproxy token list
  mcpproxy token list -o json")]
    List,
    /// Change what the token of an agent may do, effective immediately
    #[command(after_help = "\
Examples:
  mcpproxy token edit ci --operations read,write
  mcpproxy token edit ci --servers github,docs
  mcpproxy token edit ci --all-servers --attended
  mcpproxy token edit mailer --grant emails:send --grant contacts:read
  mcpproxy token edit mailer --no-grants

Each option replaces that part of the token. The rest stays as it is, and so does the token itself.")]
    Edit(Edit),
    /// Revoke the token of an agent, effective immediately
    #[command(after_help = "\
Examples:
  mcpproxy token revoke ci")]
    Revoke {
        /// Name of the agent
        #[arg(add = names::agents())]
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Name of the agent: letters, digits, `.`, `_` and `-`
    name: String,
    /// Permission to grant, such as `emails:send` or `files:*`; repeatable
    #[arg(long = "grant", value_name = "PERMISSION", value_parser = grant)]
    grants: Vec<String>,
    /// Servers that the agent may use [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = names::parse_server, add = names::servers())]
    servers: Option<Vec<ServerName>>,
    /// Operations that the agent may use [default: all three]
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', value_enum)]
    operations: Option<Vec<VariantArg>>,
    /// Unattended agent: calls never wait for a user, and approval requests stay open for a day
    #[arg(long)]
    headless: bool,
}

#[derive(Debug, Args)]
#[group(id = "change", required = true, multiple = true)]
pub(crate) struct Edit {
    /// Name of the agent
    #[arg(add = names::agents())]
    name: String,
    /// Permission to grant instead of the present ones; repeatable
    #[arg(long = "grant", value_name = "PERMISSION", value_parser = grant, group = "change")]
    grants: Vec<String>,
    /// Take all permissions away
    #[arg(long, conflicts_with = "grants", group = "change")]
    no_grants: bool,
    /// Servers that the agent may use
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = names::parse_server, add = names::servers(), group = "change")]
    servers: Option<Vec<ServerName>>,
    /// Allow all servers, also those that are added later
    #[arg(long, conflicts_with = "servers", group = "change")]
    all_servers: bool,
    /// Operations that the agent may use
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', value_enum, group = "change")]
    operations: Option<Vec<VariantArg>>,
    /// Unattended agent: calls never wait for a user, and approval requests stay open for a day
    #[arg(long, group = "change")]
    headless: bool,
    /// Attended agent: calls may wait for a user
    #[arg(long, conflicts_with = "headless", group = "change")]
    attended: bool,
}

impl Edit {
    fn scope(self, before: Scope) -> Scope {
        let replaced = |operations: Vec<VariantArg>| sorted(operations.into_iter().map(Variant::from).collect());
        Scope {
            grants: if self.no_grants || !self.grants.is_empty() { self.grants } else { before.grants },
            servers: if self.all_servers { None } else { self.servers.or(before.servers) },
            operations: self.operations.map_or(before.operations, replaced),
            headless: (before.headless || self.headless) && !self.attended,
        }
    }
}

fn sorted(mut operations: Vec<Variant>) -> Vec<Variant> {
    operations.sort();
    operations.dedup();
    operations
}

fn grant(text: &str) -> Result<String, String> {
    Scope::check_permission(text).map(|()| text.to_owned())
}

pub(crate) async fn run(home: &Home, format: Format, command: TokenCommand) -> anyhow::Result<Exit> {
    home.create()?;
    let store = database::open(home).await?;
    let outcome = match command {
        TokenCommand::Create(create) => {
            let servers = create.servers.clone();
            let outcome = self::create(&store, format, create).await;
            if outcome.is_ok() {
                note_unknown_servers(home, servers.as_deref()).await;
            }
            outcome
        }
        TokenCommand::List => list(&store, format).await,
        TokenCommand::Edit(edit) => self::edit(home, &store, edit).await,
        TokenCommand::Revoke { name } => revoke(home, &store, &name).await,
    };
    store.close().await;
    outcome.map(|()| Exit::Done)
}

#[derive(Serialize)]
struct Created<'a> {
    name: &'a str,
    token: &'a str,
}

async fn create(store: &Store, format: Format, create: Create) -> anyhow::Result<()> {
    let everything = Scope::everything();
    let operations = match create.operations {
        Some(operations) => sorted(operations.into_iter().map(Variant::from).collect()),
        None => everything.operations,
    };
    let has_grants = !create.grants.is_empty();
    let scope = Scope { grants: create.grants, servers: create.servers, operations, headless: create.headless };
    let token = store.create_token(&create.name, &scope, random_bytes()?, now_ms()).await;
    let token = token.map_err(|error| match error {
        StoreError::AgentName => anyhow::Error::from(Failure::new(Exit::Usage, error.to_string())),
        other => other.into(),
    })?;
    format.print(&Created { name: &create.name, token: &token }, || token.clone())?;
    if !has_grants {
        output::tell(
            "note: The token has no permissions, so the gateway refuses its calls to tools whose contracts require one. \
             Add permissions with --grant, for example --grant 'files:*'.",
        );
    }
    Ok(())
}

/// Notes the names that no server has. Such a name is no error, because the server may be added later.
async fn note_unknown_servers(home: &Home, chosen: Option<&[ServerName]>) {
    let Some(chosen) = chosen else { return };
    // The token is made. Without a list of servers, nothing is said about their names.
    let Some(known) = known_servers(home).await else { return };
    for name in chosen.iter().filter(|name| !known.iter().any(|one| one == name.as_str())) {
        let near = nearest(name.as_str(), known.iter().map(String::as_str));
        let near = near.map(|near| format!(" Did you mean `{}`?", line(near))).unwrap_or_default();
        output::tell(&format!("note: There is no server `{name}` yet.{near}"));
    }
}

/// Lists the servers of the running gateway, or those in the settings.
async fn known_servers(home: &Home) -> Option<Vec<String>> {
    if home.running().ok()?.is_some() {
        let answer = Rest::connect(home).ok()?.ask(Method::GET, "/api/v1/servers").await.ok()?;
        let servers = answer.get("servers")?.as_array()?;
        return Some(servers.iter().filter_map(|server| Some(server.get("name")?.as_str()?.to_owned())).collect());
    }
    let files = known_tools::files(home).ok()?;
    Some(files.settings.servers.iter().map(|server| server.name.to_string()).collect())
}

async fn edit(home: &Home, store: &Store, edit: Edit) -> anyhow::Result<()> {
    let name = edit.name.clone();
    let servers = edit.servers.clone();
    let no_agent = || StoreError::NoSuchAgent { name: name.clone() };
    let Some(before) = store.find_scope(&name).await? else {
        return Err(unknown_agent(store, &name, no_agent()).await);
    };
    if let Err(error) = store.change_token(&name, &edit.scope(before)).await {
        return Err(unknown_agent(store, &name, error).await);
    }
    output::tell(&format!("Changed the token of {}.", line(&name)));
    note_unknown_servers(home, servers.as_deref()).await;
    forget_revoked(home).await;
    Ok(())
}

async fn revoke(home: &Home, store: &Store, name: &str) -> anyhow::Result<()> {
    if let Err(error) = store.revoke_token(name, now_ms()).await {
        return Err(unknown_agent(store, name, error).await);
    }
    output::tell(&format!("Revoked the token of {}.", line(name)));
    forget_revoked(home).await;
    Ok(())
}

/// Names the agent that was probably meant, if no agent with this name has a valid token.
async fn unknown_agent(store: &Store, name: &str, error: StoreError) -> anyhow::Error {
    let StoreError::NoSuchAgent { .. } = error else { return error.into() };
    let tokens = store.list_tokens().await.unwrap_or_default();
    let valid = tokens.iter().filter(|token| token.revoked_ms.is_none()).map(|token| token.name.as_str());
    let failure = Failure::new(Exit::Failed, error.to_string());
    let hint = match nearest(name, valid) {
        Some(near) => format!("did you mean `{}`?", line(near)),
        None => "list all agents with `mcpproxy token list`".to_owned(),
    };
    failure.hint(hint).into()
}

/// Makes the running gateway forget the tokens that it remembers, so that a changed or revoked one counts at once.
///
/// A failure is only a warning: the token is changed, and the gateway notices that by itself within a second.
pub(crate) async fn forget_revoked(home: &Home) {
    let forgotten = async {
        if home.running()?.is_some() {
            Rest::connect(home)?.ask(Method::POST, "/api/v1/tokens/refresh").await?;
        }
        anyhow::Ok(())
    };
    if let Err(error) = forgotten.await {
        let reason = line(&format!("{error:#}"));
        output::warn(&format!("The running gateway may accept the token as it was for one more second: {reason}"));
    }
}

#[derive(Serialize)]
struct Tokens {
    tokens: Vec<Token>,
    /// Agents with an access token of the identity provider that made calls in the last 7 days.
    provider_agents: Vec<ProviderAgent>,
}

#[derive(Serialize)]
struct ProviderAgent {
    name: String,
    client: Option<String>,
    last_used: Option<String>,
    calls: u64,
    #[serde(skip)]
    last_used_ms: Option<i64>,
}

#[derive(Serialize)]
struct Token {
    name: String,
    grants: Vec<String>,
    /// `null` means every server.
    servers: Option<Vec<String>>,
    operations: Vec<&'static str>,
    /// True if its calls never wait for a user.
    headless: bool,
    created: String,
    last_used: Option<String>,
    revoked: Option<String>,
}

impl From<&TokenInfo> for Token {
    fn from(info: &TokenInfo) -> Self {
        let servers = info.scope.servers.as_ref();
        Self {
            name: info.name.clone(),
            grants: info.scope.grants.clone(),
            servers: servers.map(|names| names.iter().map(ToString::to_string).collect()),
            operations: info.scope.operations.iter().map(|variant| variant.operation()).collect(),
            headless: info.scope.headless,
            created: universal_time(info.created_ms),
            last_used: info.last_used_ms.map(universal_time),
            revoked: info.revoked_ms.map(universal_time),
        }
    }
}

async fn list(store: &Store, format: Format) -> anyhow::Result<()> {
    let infos = store.list_tokens().await?;
    let provider_agents = provider_agents(store).await?;
    let tokens = Tokens { tokens: infos.iter().map(Token::from).collect(), provider_agents };
    format.print(&tokens, || {
        if infos.is_empty() && tokens.provider_agents.is_empty() {
            return "No tokens yet. Create one with `mcpproxy token create NAME`.\n".to_owned();
        }
        let rows = infos.iter().zip(&tokens.tokens).map(|(info, token)| {
            let state = if info.revoked_ms.is_some() { "revoked" } else { "valid" };
            vec![
                token.name.clone().into(),
                token.servers.as_ref().map_or("all".to_owned(), |names| names.join(",")).into(),
                token.operations.join(",").into(),
                if token.grants.is_empty() { "-".to_owned() } else { line(&token.grants.join(",")) }.into(),
                if token.headless { "yes" } else { "-" }.to_owned().into(),
                local_time(info.created_ms).into(),
                info.last_used_ms.map_or("never".to_owned(), local_time).into(),
                Cell::new(state, of_state(state)),
            ]
        });
        let of_provider = tokens.provider_agents.iter().map(|agent| {
            let from_token = || Cell::from("-".to_owned());
            vec![
                line(&agent.name).into(),
                from_token(),
                from_token(),
                from_token(),
                from_token(),
                from_token(),
                agent.last_used_ms.map_or("never".to_owned(), local_time).into(),
                Cell::new("provider", of_state("valid")),
            ]
        });
        let rows = rows.chain(of_provider);
        output::table(&["AGENT", "SERVERS", "OPERATIONS", "GRANTS", "HEADLESS", "CREATED", "LAST USED", "STATE"], rows)
    })
}

/// Lists the agents of the identity provider from the log. Their tokens are not stored.
async fn provider_agents(store: &Store) -> anyhow::Result<Vec<ProviderAgent>> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for one in store.calls_by_agent(now_ms() - PROVIDER_AGENTS_MS).await? {
        if is_provider_agent(&one.agent) {
            *counts.entry(one.agent).or_default() += one.count;
        }
    }
    let mut agents = Vec::new();
    for (name, calls) in counts.into_iter().take(PROVIDER_AGENTS_MAX) {
        let filter = Filter { agent: Some(name.clone()), ..Filter::default() };
        let newest = store.list(&filter, None, 1).await?.records.into_iter().next();
        let last_used_ms = newest.as_ref().map(|record| record.id.time_ms());
        let client = newest.and_then(|record| record.client).map(|client| client.for_json().to_owned());
        agents.push(ProviderAgent { name, client, last_used: last_used_ms.map(universal_time), calls, last_used_ms });
    }
    Ok(agents)
}

/// Formats a time as RFC 3339 in UTC, for programs.
pub(crate) fn universal_time(time_ms: i64) -> String {
    Timestamp::from_millisecond(time_ms).map_or_else(|_| "-".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_replaces_what_it_names() {
        let before = Scope {
            grants: vec!["files:*".to_owned()],
            servers: Some(vec![ServerName::parse("github").unwrap()]),
            operations: vec![Variant::Read],
            headless: true,
        };
        let none = || Edit {
            name: "ci".to_owned(),
            grants: Vec::new(),
            no_grants: false,
            servers: None,
            all_servers: false,
            operations: None,
            headless: false,
            attended: false,
        };
        assert_eq!(none().scope(before.clone()), before, "what is not named stays");
        let wider = Edit { all_servers: true, attended: true, grants: vec!["*".to_owned()], ..none() };
        let expected = Scope { grants: vec!["*".to_owned()], servers: None, headless: false, ..before.clone() };
        assert_eq!(wider.scope(before.clone()), expected);
        let operations = Some(vec![VariantArg::Write, VariantArg::Read, VariantArg::Write]);
        let other = Edit { no_grants: true, operations, ..none() }.scope(before.clone());
        assert_eq!((other.grants, other.operations), (vec![], vec![Variant::Read, Variant::Write]));
        assert_eq!((other.servers, other.headless), (before.servers, true));
    }

    #[test]
    fn valid_permissions() {
        let longest = "a".repeat(128);
        for good in ["*", "a", "emails:send", "files:*", "FILES/x_y.z-1:*", &longest] {
            assert_eq!(grant(good).as_deref(), Ok(good));
        }
        let too_long = "a".repeat(129);
        for bad in ["", " files:read", "files:read ", "a*b", "*a", "files:**", "**", "ﬁles:*", "a,b", "a\n", &too_long]
        {
            assert!(grant(bad).is_err(), "{bad:?}");
        }
    }
}
