//! Agents that came with an access token of the identity provider. They have no row among the tokens of the gateway.

use std::sync::Arc;

use mcpproxy_core::settings::is_provider_agent;
use mcpproxy_core::{Agent, Untrusted, Variant};
use mcpproxy_gateway::ClientStatus;
use mcpproxy_store::AgentCalls;

use super::{ClientView, NAMES_MAX, clients_of, operation_calls};
use crate::ui::pages::labels::Time;
use crate::ui::pages::servers::{segment, short};
use crate::visible::Visible;

/// An agent of the provider, as the gateway and the log know it.
pub(crate) struct ProviderAgent {
    pub(crate) name: String,
    /// Known since its token was checked. The log does not have it.
    pub(crate) agent: Option<Arc<Agent>>,
    pub(crate) last_seen_ms: Option<i64>,
    /// The client of the newest record.
    pub(crate) client: Option<Untrusted>,
}

pub(crate) struct ProviderAgentView {
    pub(crate) name: Visible,
    pub(crate) activity: String,
    pub(crate) last_seen: Option<Time>,
    pub(crate) clients: Vec<ClientView>,
    /// Servers, operations and permissions in words, if they are known.
    pub(crate) may: Option<String>,
    pub(crate) calls: [(&'static str, u64); 3],
}

/// Lists the names of provider agents that have a valid token or made calls, at most `max` of them.
pub(crate) fn names(known: &[Arc<Agent>], calls: &[AgentCalls], max: usize) -> Vec<String> {
    let seen = calls.iter().map(|one| &one.agent).filter(|name| is_provider_agent(name));
    let mut names: Vec<String> = known.iter().map(|agent| &agent.name).chain(seen).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(max);
    names
}

impl ProviderAgentView {
    pub(super) fn new(
        one: &ProviderAgent,
        calls: &[AgentCalls],
        sessions: Option<&Vec<&ClientStatus>>,
        now_ms: i64,
    ) -> Self {
        Self {
            name: short(&one.name),
            activity: format!("/ui/activity?agent={}", segment(&one.name)),
            last_seen: one.last_seen_ms.map(|seen_ms| Time::new(seen_ms, now_ms)),
            clients: clients_of(one.client.as_ref(), sessions),
            may: one.agent.as_deref().map(may),
            calls: operation_calls(calls, &one.name),
        }
    }

    pub(super) fn key(&self) -> String {
        let seen = self.last_seen.as_ref().map(|seen| seen.iso.as_str()).unwrap_or_default();
        format!("{} {seen} {:?} {:?}", self.activity, self.calls, self.may)
    }
}

/// Words a scope: `read, write on github, docs with issues:*`.
fn may(agent: &Agent) -> String {
    let scope = &agent.scope;
    let listed = |names: Vec<&str>, none: &str| match names.len() {
        0 => none.to_owned(),
        1..=NAMES_MAX => names.join(", "),
        more => format!(
            "{} and {} more",
            names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", "),
            more - NAMES_MAX
        ),
    };
    let operations = listed(scope.operations.iter().map(|one: &Variant| one.operation()).collect(), "nothing");
    let servers = match &scope.servers {
        None => "all servers".to_owned(),
        Some(servers) => listed(servers.iter().map(|name| name.as_str()).collect(), "no server"),
    };
    let grants = listed(scope.grants.iter().map(String::as_str).collect(), "no permissions");
    let unattended = if scope.headless { ", unattended" } else { "" };
    format!("{operations} on {servers}, with {grants}{unattended}")
}
