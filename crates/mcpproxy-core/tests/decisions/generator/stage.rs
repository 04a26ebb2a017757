//! One server with one tool, and one call of it. Every row of every section is a variation of it.

use std::sync::Arc;

use mcpproxy_core::contract::{Contract, Contracts, Need, ToolPattern, Written};
use mcpproxy_core::policy::Clock;
use mcpproxy_core::settings::{ContractSettings, IntentSettings};
use mcpproxy_core::{
    Agent, Catalog, Decision, DecisionInputs, Denial, Hints, Limits, Moment, Offer, Offered, Preview, PriorState,
    Scope, ServerName, Variant, decide, declare,
};
use serde_json::Value;

/// Everything that a row can vary.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) variant: Variant,
    /// Parameters beside the name, each with a comma before it.
    pub(super) parameters: String,
    pub(super) hints: Hints,
    pub(super) server: Option<Contract>,
    pub(super) operator: Option<Contract>,
    pub(super) intent: IntentSettings,
    pub(super) contracts: ContractSettings,
    pub(super) scope: Scope,
    pub(super) prior: PriorState,
}

/// The time of every call.
pub(super) const NOW_MS: i64 = 1_000_000_000;

impl Default for Stage {
    fn default() -> Self {
        Self {
            variant: Variant::Write,
            parameters: String::new(),
            hints: Hints::default(),
            server: None,
            operator: None,
            intent: IntentSettings::default(),
            contracts: ContractSettings::default(),
            scope: Scope::everything(),
            prior: PriorState::default(),
        }
    }
}

/// The author of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    Operator,
    Server,
}

impl Author {
    pub(super) const ALL: [Self; 2] = [Self::Operator, Self::Server];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Server => "server",
        }
    }
}

pub(super) fn written<T>(value: T) -> Option<Written<T>> {
    Some(Written { value, line: 1, column: 1 })
}

impl Stage {
    pub(super) fn write(&mut self, author: Author, contract: Contract) {
        match author {
            Author::Operator => self.operator = Some(contract),
            Author::Server => self.server = Some(contract),
        }
    }

    /// Decides on the call and describes the outcome in a few words.
    pub(super) fn outcome(&self) -> String {
        let parameters = format!("{{\"name\":\"server:tool\"{}}}", self.parameters);
        let declared = match declare(self.variant, &parameters, self.intent.two_key) {
            Ok(declared) => declared,
            Err(denial) => return format!("deny {}", denial.code()),
        };
        let catalog = self.catalog();
        let agent = Agent { name: "agent".to_owned(), scope: self.scope.clone() };
        let tool = catalog.resolve(&declared.name);
        let inputs = DecisionInputs { intent: &self.intent, contracts: &self.contracts, catalog: &catalog };
        let moment = Moment {
            clock: Clock { now_ms: NOW_MS, utc_offset_s: 0 },
            limits: &Limits::default(),
            prior: self.prior,
            session_began_ms: None,
        };
        match decide(inputs, &agent, declared, tool, moment) {
            Decision::Ask(approval_request) => format!("ask {}", list(&approval_request.unrequested(), "needs", " + ")),
            Decision::Preview(preview) => previewed(&preview),
            Decision::Repeat(_) => "repeat".to_owned(),
            Decision::Deny(denial) => denied(&denial),
            Decision::Allow(permit) => {
                let warned = permit.warnings().iter().fold(String::new(), |all, warning| all + " warn " + warning.code);
                let unverified = if permit.is_verified() { "" } else { " unverified" };
                let dry_run = if permit.is_dry_run() { " dry run" } else { "" };
                format!("allow{dry_run}{warned}{unverified}")
            }
        }
    }

    fn catalog(&self) -> Catalog {
        let hints: Vec<String> = [("readOnlyHint", self.hints.read_only), ("destructiveHint", self.hints.destructive)]
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| format!("\"{name}\":{value}")))
            .collect();
        let json = format!("{{\"name\":\"tool\",\"inputSchema\":{{}},\"annotations\":{{{}}}}}", hints.join(","));
        let server = ServerName::parse("server").unwrap();
        let offered =
            Offered::parse(&server, &json).map(|offered| Offered { contract: self.server.clone(), ..offered });
        let (offer, _hidden) = Offer::new([offered]);
        let pattern = ToolPattern { server: server.clone(), prefix: "tool".to_owned(), is_exact: true };
        let contracts: Contracts = self.operator.clone().map(|contract| (pattern, contract)).into_iter().collect();
        Catalog::default().next([(server, Arc::new(offer))], &Arc::new(contracts), &Arc::default())
    }
}

fn previewed(preview: &Preview) -> String {
    let needs = preview.needs().into_iter().map(Need::as_str).collect::<Vec<_>>().join(" + ");
    let needs = if needs.is_empty() { String::new() } else { format!(", needs {needs}") };
    let missing = preview.missing_permissions().join(" ");
    let missing = if missing.is_empty() { missing } else { format!(", lacks {missing}") };
    format!("preview{needs}{missing}")
}

fn denied(denial: &Denial) -> String {
    let details = denial.details();
    let instead = details.get("call_with").and_then(Value::as_str).map(|name| format!(", use {name}"));
    let missing = details.get("missing_permissions").map(|_| list(denial, "missing_permissions", " "));
    let missing = missing.map(|missing| format!(", lacks {missing}"));
    format!("deny {}{}{}", denial.code(), instead.unwrap_or_default(), missing.unwrap_or_default())
}

fn list(denial: &Denial, field: &str, separator: &str) -> String {
    let details = denial.details();
    let words = details.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(separator)
}
