//! Tools and decisions as operators see them.

use std::sync::Arc;

use mcpproxy_core::decision::{Explanation, PriorState, explain};
use mcpproxy_core::json;
use mcpproxy_core::{
    Agent, Limits, Moment, Quarantined, Scope, ScoreExplanation, ServerName, Tool, ToolName, Untrusted, Variant,
};
use mcpproxy_store::StoreError;
use serde_json::Value;

use super::Gateway;
use super::contracts::{PolicyResult, policy_results};
use crate::message::member;
use crate::offload::offload;
use crate::snapshot::Snapshot;
use crate::views::{brief_hit, described, note_for_operator};

impl Gateway {
    /// Lists all tools, or those of one server. Includes forbidden tools, because this is for operators.
    pub fn tools(&self, server: Option<&ServerName>) -> Vec<Value> {
        let snapshot = self.state.snapshot.load();
        let all = snapshot.catalog.tools().chain(snapshot.catalog.forbidden());
        let wanted = all.filter(|tool| server.is_none_or(|server| tool.name.server() == server));
        wanted.map(|tool| parsed(&described(&snapshot.settings, tool))).collect()
    }

    /// Lists every tool by name, also forbidden and quarantined ones, because this is for operators.
    pub fn listed_tools(&self) -> Vec<ListedTool> {
        let snapshot = self.state.snapshot.load();
        let catalog = &snapshot.catalog;
        let visible = catalog.tools().map(|tool| ListedTool::Visible(Arc::clone(tool)));
        let forbidden = catalog.forbidden().map(|tool| ListedTool::Forbidden(Arc::clone(tool)));
        let quarantined = catalog.all_quarantined().map(|(name, why)| ListedTool::Quarantined(name, why));
        let mut all: Vec<ListedTool> = visible.chain(forbidden).chain(quarantined).collect();
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all
    }

    /// Returns why a tool is quarantined, if it is. For operators only.
    pub fn quarantined_tool(&self, name: &ToolName) -> Option<Quarantined> {
        self.state.snapshot.load().catalog.quarantined(name)
    }

    /// Searches tools as an agent with access to everything would.
    pub fn search(&self, query: &str, server: Option<&ServerName>, limit: usize, reasons: Reasons) -> SearchResults {
        let snapshot = self.state.snapshot.load();
        let scope = Scope::everything();
        let work = || {
            let found = snapshot.index.find(query, &scope, server, limit);
            let tools = found.hits.iter().map(|hit| {
                let why = match reasons {
                    Reasons::LeftOut => None,
                    Reasons::Given => snapshot.index.explain(query, &scope, server, &hit.tool.name),
                };
                (parsed(&brief_hit(&snapshot.settings, hit)), why)
            });
            SearchResults { tools: tools.collect(), note: note_for_operator(&found) }
        };
        // Encoding the query takes milliseconds.
        if snapshot.index.has_encoder() { offload(usize::MAX, work) } else { work() }
    }

    /// Explains a call check by check, with the evaluated policies. Nothing is sent or recorded.
    ///
    /// `parameters` are those of a `call_tool_*`. Without an agent, it assumes one with every permission.
    pub async fn explain(
        &self,
        agent: Option<&str>,
        variant: Variant,
        parameters: &str,
    ) -> Result<(Explanation, Vec<PolicyResult>), ExplainError> {
        let parameters = json::read(parameters.as_bytes())?;
        let agent = match agent {
            None => Agent { name: "any agent".to_owned(), scope: Scope::everything() },
            Some(name) => self.agent_named(name).await?,
        };
        let snapshot = self.state.snapshot.load_full();
        let name = member(parameters, "name").and_then(json::string_value).and_then(|name| ToolName::parse(&name).ok());
        if let Some(server) = name
            .as_ref()
            .filter(|name| agent.scope.sees(name.server()))
            .and_then(|name| snapshot.unreached(name.server()))
        {
            return Err(ExplainError::NotConnected(server.unavailable().to_string()));
        }
        let (prior, session_began_ms) = (PriorState::default(), None);
        let limits = Limits::counted_by_store(self.rate_wait_ms(&snapshot, name.as_ref()).await?);
        let moment = Moment { clock: snapshot.clock(), limits: &limits, prior, session_began_ms };
        let explanation = explain(snapshot.decision_inputs(), &agent, variant, parameters, moment);
        Ok((explanation, policy_results(&snapshot, &agent, variant, parameters)))
    }

    /// Finds an agent by its name: a token that was not revoked, or an agent of the identity provider.
    pub(super) async fn agent_named(&self, name: &str) -> Result<Agent, ExplainError> {
        let tokens = self.state.store.list_tokens().await?;
        let token = tokens.into_iter().find(|token| token.name == name && token.revoked_ms.is_none());
        let stored = token.map(|token| Agent { name: token.name, scope: token.scope });
        let of_provider = || self.provider_agents().into_iter().find(|agent| agent.name == name);
        let found = stored.or_else(|| of_provider().map(|agent| Agent::clone(&agent)));
        found.ok_or_else(|| ExplainError::NoAgent(Untrusted::new(name)))
    }

    /// Returns how long a call of this tool would wait for its rate limit, if the limit is used up.
    async fn rate_wait_ms(&self, snapshot: &Snapshot, name: Option<&ToolName>) -> Result<Option<u64>, StoreError> {
        let tool = name.and_then(|name| snapshot.catalog.resolve(name));
        match tool.and_then(|tool| Some((tool, tool.contract.rate_limit.as_ref()?))) {
            Some((tool, limit)) => self.state.store.rate_wait_ms(&tool.name, limit.value).await,
            None => Ok(None),
        }
    }

    /// Describes one tool in full. Includes forbidden tools, because this is for operators.
    pub fn tool(&self, name: &ToolName) -> Option<Value> {
        let snapshot = self.state.snapshot.load();
        let forbidden = || snapshot.catalog.forbidden().find(|tool| tool.name == *name);
        let tool = snapshot.catalog.resolve(name).or_else(forbidden)?;
        let mut view = parsed(&described(&snapshot.settings, tool));
        if let Value::Object(fields) = &mut view {
            fields.insert("tool".to_owned(), parsed(&tool.offered.json));
        }
        Some(view)
    }
}

/// A tool as operators see it in a list.
#[derive(Clone, Debug)]
pub enum ListedTool {
    /// Agents with access to its server see it.
    Visible(Arc<Tool>),
    /// A contract hides it for good.
    Forbidden(Arc<Tool>),
    /// It is hidden until a user reviews it.
    Quarantined(ToolName, Quarantined),
}

impl ListedTool {
    pub fn name(&self) -> &ToolName {
        match self {
            Self::Visible(tool) | Self::Forbidden(tool) => &tool.name,
            Self::Quarantined(name, _) => name,
        }
    }
}

/// A call that cannot be explained or tried out.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error("the parameters are not valid JSON")]
    Parameters(#[from] json::ReadError),
    #[error("the server's tools are not known: {0}")]
    NotConnected(String),
    #[error("there is no agent with that name")]
    NoAgent(Untrusted),
    #[error("the tokens cannot be read")]
    Store(#[from] StoreError),
}

/// Selects whether a search explains the score of each tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasons {
    Given,
    LeftOut,
}

/// The results of a search for an operator.
#[derive(Clone, Debug, Default)]
pub struct SearchResults {
    /// Best first, each with the explanation of its score on request.
    pub tools: Vec<(Value, Option<ScoreExplanation>)>,
    /// Explains an empty result, and what to do.
    pub note: Option<String>,
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}
