//! Tools as agents and users see them.

mod found;
mod nothing;

use mcpproxy_core::decision::{Explanation, PriorState, explain};
use mcpproxy_core::json::{self, quote};
use mcpproxy_core::{Agent, Keep, Moment, Scope, ScoreExplanation, ServerName, Tool, ToolName, Untrusted, Variant};
use mcpproxy_store::StoreError;
use serde_json::Value;

use crate::call::clock;
use crate::contracts_for_agents::{annotations, needs};
use crate::contracts_for_operators::{LookedAt, looked_at};
use crate::gateway::Gateway;
use crate::message::{member, object};

pub(crate) use found::{Detail, answer};
use found::{Form, entry};
use nothing::Reader;

impl Gateway {
    /// Every tool, or those of one server. This is for operators, so forbidden ones are among them, marked.
    pub fn tools(&self, server: Option<&ServerName>) -> Vec<Value> {
        let snapshot = self.inner.snapshot.load();
        let all = snapshot.catalog.tools().chain(snapshot.catalog.withheld());
        let wanted = all.filter(|tool| server.is_none_or(|server| tool.name.server() == server));
        wanted.map(|tool| parsed(&described(tool))).collect()
    }

    /// The tools that match a query, best first, as an agent that may see everything finds them in brief.
    pub fn search(&self, query: &str, server: Option<&ServerName>, limit: usize, reasons: Reasons) -> Searched {
        let snapshot = self.inner.snapshot.load();
        let scope = Scope::everything();
        let found = snapshot.index.find(query, &scope, server, limit);
        let tools = found.hits.iter().map(|hit| {
            let why = match reasons {
                Reasons::LeftOut => None,
                Reasons::Given => snapshot.index.explain(query, &scope, server, &hit.tool.name),
            };
            (parsed(&entry(hit, Form::Brief(Keep::Meaning), Detail::Brief)), why)
        });
        let note = found.no_match.as_ref().map(|nothing| nothing::note(nothing, Reader::Operator));
        Searched { tools: tools.collect(), note }
    }

    /// What would happen to a call, check by check, and the policies that were looked at. Nothing is sent and nothing is recorded. `parameters` are those of a
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
        let moment = Moment { clock: clock(&snapshot), limits: &self.inner.limits, seen: PriorState::default() };
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

/// Whether a search says why each tool is where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasons {
    Given,
    LeftOut,
}

/// What a search answers to an operator.
#[derive(Clone, Debug, Default)]
pub struct Searched {
    /// Best first, each with the reason for its score if it was asked for.
    pub tools: Vec<(Value, Option<ScoreExplanation>)>,
    /// Why there are none, and what to do.
    pub note: Option<String>,
}

fn described(tool: &Tool) -> String {
    let schema = tool.offered.field("inputSchema").unwrap_or("{}");
    let parts = parts(tool, tool.offered.description.for_json(), annotations(tool), schema.to_owned());
    object(parts.iter().map(|(key, value)| (*key, value.as_str())))
}

/// The members that stand for a tool everywhere, as raw JSON.
fn parts(tool: &Tool, description: &str, annotations: String, schema: String) -> Vec<(&'static str, String)> {
    vec![
        ("name", quote(&tool.name.to_string())),
        ("server", quote(tool.name.server().as_str())),
        ("description", quote(description)),
        ("annotations", annotations),
        ("call_with", quote(tool.call_with().tool())),
        ("risk_level", tool.contract.risk().map_or_else(|| "null".to_owned(), |risk| quote(risk.as_str()))),
        ("needs", needs(tool)),
        ("inputSchema", schema),
    ]
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}
