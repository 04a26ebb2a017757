//! The page `/ui/agents`: each agent with its token, what it may do, and what it did.

mod new_agent;
mod of_provider;

use std::collections::HashMap;

use askama::Template;
use mcpproxy_core::{Digest, Untrusted, Variant};
use mcpproxy_gateway::ClientStatus;
use mcpproxy_store::{AgentCalls, CALLS_BY_AGENT_RECORDS, TokenInfo};

pub(crate) use self::new_agent::NewAgent;
use self::of_provider::ProviderAgentView;
pub(crate) use self::of_provider::{ProviderAgent, names as provider_names};
use super::Frame;
use super::amount::{CALLS_COUNTED, grouped, items};
use super::labels::Time;
use super::servers::{segment, short};
use crate::editor::ClientSnippet;
use crate::visible::Visible;

/// Agents with a valid token on the page.
const AGENTS_MAX: usize = 200;
/// Revoked tokens on the page, the newest first.
const REVOKED_MAX: usize = 30;
/// Permissions and servers of one agent on the page.
const NAMES_MAX: usize = 20;

/// Everything that the page shows.
pub(crate) struct Facts {
    pub(crate) tokens: Vec<TokenInfo>,
    pub(crate) of_provider: Vec<ProviderAgent>,
    pub(crate) calls: Vec<AgentCalls>,
    pub(crate) sessions: Vec<ClientStatus>,
    /// The client of the newest record, by agent.
    pub(crate) clients: Vec<(String, Option<Untrusted>)>,
    pub(crate) servers: Vec<String>,
    pub(crate) now_ms: i64,
}

/// The answer to a form of the page.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) error: Option<String>,
    pub(crate) done: Option<&'static str>,
    pub(crate) asks_password: bool,
    pub(crate) typed: NewAgent,
    /// The name of a new agent, its token, and settings for its client.
    pub(crate) created: Option<(String, String, Vec<ClientSnippet>)>,
}

#[derive(Template)]
#[template(path = "agents.html")]
pub(crate) struct Agents {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) done: Option<&'static str>,
    pub(crate) created: Option<(String, String, Vec<ClientSnippet>)>,
    pub(crate) typed: NewAgent,
    /// True if the form to create an agent is open.
    pub(crate) is_open: bool,
    pub(crate) key: String,
    pub(crate) agents: Vec<AgentView>,
    pub(crate) left_out: usize,
    pub(crate) of_provider: Vec<ProviderAgentView>,
    pub(crate) revoked: Vec<RevokedView>,
    /// The number of records that are counted.
    pub(crate) counted: String,
    /// Says what counts as a call.
    pub(crate) calls_counted: &'static str,
}

pub(crate) struct AgentView {
    pub(crate) name: Visible,
    /// The name in forms.
    pub(crate) value: String,
    pub(crate) activity: String,
    pub(crate) edit: String,
    pub(crate) servers: Option<Vec<Visible>>,
    pub(crate) operations: Vec<&'static str>,
    pub(crate) grants: Vec<Visible>,
    pub(crate) has_all_grants: bool,
    pub(crate) is_headless: bool,
    pub(crate) created: Time,
    pub(crate) last_used: Option<Time>,
    pub(crate) clients: Vec<ClientView>,
    /// The number of read, write and destructive calls.
    pub(crate) calls: [(&'static str, u64); 3],
}

/// A client of an agent, as it calls itself.
pub(crate) struct ClientView {
    pub(crate) name: Visible,
    /// The MCP revision of an open session.
    pub(crate) session: Option<Visible>,
}

pub(crate) struct RevokedView {
    pub(crate) name: Visible,
    pub(crate) revoked: Time,
}

impl Agents {
    pub(crate) fn new(frame: Frame, facts: &Facts, said: Said) -> Self {
        let live: Vec<&TokenInfo> = facts.tokens.iter().filter(|token| token.revoked_ms.is_none()).collect();
        let mut sessions: HashMap<&str, Vec<&ClientStatus>> = HashMap::new();
        for session in &facts.sessions {
            sessions.entry(&session.agent).or_default().push(session);
        }
        let agents: Vec<AgentView> = live
            .iter()
            .take(AGENTS_MAX)
            .map(|token| AgentView::new(token, facts, sessions.get(token.name.as_str())))
            .collect();
        let view = |one: &ProviderAgent| {
            ProviderAgentView::new(one, &facts.calls, sessions.get(one.name.as_str()), facts.now_ms)
        };
        let of_provider: Vec<ProviderAgentView> = facts.of_provider.iter().map(view).collect();
        let own = agents.iter().map(AgentView::key);
        let keys: Vec<String> = own.chain(of_provider.iter().map(ProviderAgentView::key)).collect();
        let mut revoked: Vec<(&TokenInfo, i64)> =
            facts.tokens.iter().filter_map(|token| token.revoked_ms.map(|revoked_ms| (token, revoked_ms))).collect();
        revoked.sort_by_key(|(_, revoked_ms)| std::cmp::Reverse(*revoked_ms));
        let revoked = revoked.into_iter().take(REVOKED_MAX).map(|(token, revoked_ms)| RevokedView {
            name: short(&token.name),
            revoked: Time::new(revoked_ms, facts.now_ms),
        });
        let typed = said.typed.beside(&facts.servers);
        Self {
            frame,
            is_open: said.error.is_some() && !typed.name.is_empty()
                || said.asks_password
                || agents.is_empty() && of_provider.is_empty(),
            error: said.error,
            done: said.done,
            created: said.created,
            typed,
            key: Digest::of(keys.join("\n").as_bytes()).to_string(),
            left_out: live.len() - agents.len(),
            agents,
            of_provider,
            revoked: revoked.collect(),
            counted: grouped(items(CALLS_BY_AGENT_RECORDS)),
            calls_counted: CALLS_COUNTED,
        }
    }
}

impl AgentView {
    fn new(token: &TokenInfo, facts: &Facts, sessions: Option<&Vec<&ClientStatus>>) -> Self {
        let names = |names: &[String]| names.iter().take(NAMES_MAX).map(|name| short(name)).collect();
        let servers = token.scope.servers.as_ref().map(|servers| {
            let texts: Vec<String> = servers.iter().map(ToString::to_string).collect();
            names(&texts)
        });
        Self {
            name: short(&token.name),
            value: token.name.clone(),
            activity: format!("/ui/activity?agent={}", segment(&token.name)),
            edit: format!("/ui/agents/edit?name={}", segment(&token.name)),
            servers,
            operations: token.scope.operations.iter().map(|variant| variant.operation()).collect(),
            grants: names(&token.scope.grants),
            has_all_grants: token.scope.grants.iter().any(|grant| grant == "*"),
            is_headless: token.scope.headless,
            created: Time::new(token.created_ms, facts.now_ms),
            last_used: token.last_used_ms.map(|used_ms| Time::new(used_ms, facts.now_ms)),
            clients: clients(token, facts, sessions),
            calls: operation_calls(&facts.calls, &token.name),
        }
    }

    fn key(&self) -> String {
        let scope = (&self.servers, &self.operations, &self.grants, self.is_headless);
        let clients: Vec<String> =
            self.clients.iter().map(|client| format!("{}{:?}", client.name, client.session)).collect();
        let used = self.last_used.as_ref().map(|used| used.iso.as_str()).unwrap_or_default();
        format!("{} {} {used} {:?} {} {scope:?}", self.value, self.created.iso, self.calls, clients.join(" "))
    }
}

/// The page that changes the scope of one token.
#[derive(Template)]
#[template(path = "agent_edit.html")]
pub(crate) struct EditAgent {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) typed: NewAgent,
}

impl EditAgent {
    pub(crate) fn new(frame: Frame, typed: NewAgent, error: Option<String>, servers: &[String]) -> Self {
        Self { frame, error, typed: typed.beside(servers) }
    }
}

/// Counts the read, write and destructive calls of an agent.
fn operation_calls(calls: &[AgentCalls], agent: &str) -> [(&'static str, u64); 3] {
    Variant::ALL.map(|variant| {
        let own = calls.iter().filter(|one| one.agent == agent && one.intent_type == variant);
        (variant.operation(), own.map(|one| one.count).sum())
    })
}

fn clients(token: &TokenInfo, facts: &Facts, sessions: Option<&Vec<&ClientStatus>>) -> Vec<ClientView> {
    let newest = facts.clients.iter().find(|(agent, _)| *agent == token.name);
    clients_of(newest.and_then(|(_, client)| client.as_ref()), sessions)
}

/// The clients with an open session. Without one, the client of the newest record.
fn clients_of(newest: Option<&Untrusted>, sessions: Option<&Vec<&ClientStatus>>) -> Vec<ClientView> {
    let mut views: Vec<ClientView> = Vec::new();
    for session in sessions.into_iter().flatten() {
        let name = short(session.client.as_deref().unwrap_or("unnamed client"));
        if views.len() < NAMES_MAX && !views.iter().any(|view| view.name == name) {
            views.push(ClientView { name, session: Some(short(&session.protocol)) });
        }
    }
    if views.is_empty() {
        views.extend(newest.map(|client| ClientView { name: short(client.for_json()), session: None }));
    }
    views
}

#[cfg(test)]
mod tests;
