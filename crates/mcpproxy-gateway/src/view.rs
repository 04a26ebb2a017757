//! Tools as agents and humans see them.

use mcpproxy_core::json::{self, quote};
use mcpproxy_core::policy::{Explanation, explain};
use mcpproxy_core::{Agent, Moment, Scope, ServerName, Tool, ToolName, Untrusted, Variant};
use mcpproxy_store::StoreError;
use serde_json::Value;

use crate::call::clock;
use crate::contracts_for_agents::{annotations, needs, tool_contract};
use crate::contracts_for_operators::{LookedAt, looked_at};
use crate::gateway::Gateway;
use crate::message::{member, object};

impl Gateway {
    /// Every tool, or those of one server. This is for operators, so forbidden ones are among them, marked.
    pub fn tools(&self, server: Option<&ServerName>) -> Vec<Value> {
        let snapshot = self.inner.snapshot.load();
        let all = snapshot.catalog.tools().chain(snapshot.catalog.withheld());
        let wanted = all.filter(|tool| server.is_none_or(|server| tool.name.server() == server));
        wanted.map(|tool| parsed(&described(tool))).collect()
    }

    /// The tools that match a query, best first.
    pub fn search(&self, query: &str, server: Option<&ServerName>, limit: usize) -> Vec<Value> {
        let snapshot = self.inner.snapshot.load();
        let hits = snapshot.index.find(query, &Scope::everything(), server, limit);
        hits.iter().map(|hit| parsed(&found(&hit.tool, hit.score, Detail::Brief))).collect()
    }

    /// What would happen to a call, check by check, and the rules that were looked at. Nothing is sent and nothing is recorded. `parameters` are those of a
    /// `call_tool_*`; without an agent, one whose token covers everything is taken.
    pub async fn explain(
        &self,
        agent: Option<&str>,
        variant: Variant,
        parameters: &str,
    ) -> Result<(Explanation, Vec<LookedAt>), ExplainError> {
        let parameters = json::read(parameters.as_bytes())?;
        let agent = match agent {
            None => Agent { name: "anybody".to_owned(), scope: Scope::everything() },
            Some(name) => {
                let tokens = self.inner.store.list_tokens().await?;
                let token = tokens.into_iter().find(|token| token.name == name && token.revoked_ms.is_none());
                let token = token.ok_or_else(|| ExplainError::NoAgent(Untrusted::new(name)))?;
                Agent { name: token.name, scope: token.scope }
            }
        };
        let snapshot = self.inner.snapshot.load_full();
        let name = member(parameters, "name").and_then(json::string_value).and_then(|name| ToolName::parse(&name).ok());
        if let Some(server) = name
            .as_ref()
            .filter(|name| agent.scope.sees(name.server()))
            .and_then(|name| snapshot.unreached(name.server()))
        {
            return Err(ExplainError::NotConnected(server.unavailable().to_string()));
        }
        let moment = Moment { clock: clock(&snapshot), limits: &self.inner.limits };
        let explanation = explain(snapshot.ground(), &agent, variant, parameters, moment);
        Ok((explanation, looked_at(&snapshot, &agent, variant, parameters)))
    }

    /// One tool, with the server's own words in full; forbidden ones too, because this is for operators.
    pub fn tool(&self, name: &ToolName) -> Option<Value> {
        let snapshot = self.inner.snapshot.load();
        let withheld = || snapshot.catalog.withheld().find(|tool| tool.name == *name);
        let tool = snapshot.catalog.resolve(name).or_else(withheld)?;
        let mut view = parsed(&described(tool));
        if let Value::Object(fields) = &mut view {
            fields.insert("tool".to_owned(), parsed(&tool.offered.json));
        }
        Some(view)
    }
}

/// Why there is nothing to explain.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error("the parameters are not JSON that we take")]
    Parameters(#[from] json::ReadError),
    #[error("nobody knows the server's tools: {0}")]
    NotConnected(String),
    #[error("there is no agent of that name")]
    NoAgent(Untrusted),
    #[error("the tokens cannot be read")]
    Store(#[from] StoreError),
}

/// How much an agent wants to know of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Brief,
    /// With the whole contract.
    Full,
}

/// A search hit, as raw JSON.
pub(crate) fn found(tool: &Tool, score: f32, detail: Detail) -> String {
    let score = format!("{score:.3}");
    // An agent that reads nothing but the description still learns which variant to use.
    let words = tool.offered.description.for_json();
    let separator = if words.is_empty() { "" } else { "\n" };
    let description = format!("{words}{separator}(Call with {}.)", tool.call_with().tool());
    let parts = parts(tool, &description);
    let contract = match detail {
        Detail::Full if tool.contract.is_written => Some(tool_contract(tool).to_string()),
        Detail::Full | Detail::Brief => None,
    };
    let contract = contract.iter().map(|contract| ("contract", contract.as_str()));
    object(parts.iter().map(|(key, value)| (*key, value.as_str())).chain([("score", score.as_str())]).chain(contract))
}

fn described(tool: &Tool) -> String {
    let parts = parts(tool, tool.offered.description.for_json());
    object(parts.iter().map(|(key, value)| (*key, value.as_str())))
}

fn parts(tool: &Tool, description: &str) -> Vec<(&'static str, String)> {
    let call_with = tool.call_with().tool();
    let field = |name: &str, otherwise: &str| tool.offered.field(name).unwrap_or(otherwise).to_owned();
    vec![
        ("name", quote(&tool.name.to_string())),
        ("server", quote(tool.name.server().as_str())),
        ("description", quote(description)),
        ("annotations", annotations(tool)),
        ("call_with", quote(call_with)),
        ("risk_level", tool.contract.risk().map_or_else(|| "null".to_owned(), |risk| quote(risk.as_str()))),
        ("needs", needs(tool)),
        ("inputSchema", field("inputSchema", "{}")),
    ]
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}
