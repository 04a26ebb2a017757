//! Tests for approvals: the binding, the required strength, and that nothing else permits a call.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop there")]

mod answers;
mod bindings;
mod claims;
mod dry_runs;
mod grants;
mod texts;

use std::sync::Arc;

use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Clock;
use mcpproxy_core::settings::{ContractSettings, IntentSettings, TwoKey, Unclassified};
use mcpproxy_core::{
    Agent, Approval, ApprovalId, ApprovalRef, ApprovalRequest, ApprovalState, Assurance, Attached, Catalog, Decision,
    DecisionInputs, Declared, Limits, Moment, Offer, Offered, ParameterPlace, Permit, PriorState, Scope, ServerName,
    Tool, Variant, decide, declare,
};

const NOW_MS: i64 = 1_800_000_000_000;
const ID: &str = "01M7FFDZNC0000A0000000000B";

/// Everything that a call and its approval depend on.
#[derive(Clone, Debug)]
struct World {
    agent: &'static str,
    grants: &'static [&'static str],
    server: &'static str,
    /// The server's JSON for its tool `t`.
    tool: String,
    /// The operator's contract, after the line that names the tool.
    contract: String,
    unclassified: Unclassified,
    variant: Variant,
    /// The parameters beside the name, each with a comma before it.
    parameters: String,
    /// The members that are sent beside the arguments.
    attached: &'static str,
    prior: PriorState,
}

impl Default for World {
    fn default() -> Self {
        Self {
            agent: "laptop",
            grants: &["*"],
            server: "fx",
            tool: r#"{"name":"t","inputSchema":{"properties":{"to":{},"dry":{"type":"boolean"}}}}"#.to_owned(),
            contract: "riskLevel: high".to_owned(),
            unclassified: Unclassified::Allow,
            variant: Variant::Write,
            parameters: r#","args":{"to":["a","b"],"n":1}"#.to_owned(),
            attached: "{}",
            prior: PriorState::default(),
        }
    }
}

impl World {
    fn of(contract: &str, parameters: &str) -> Self {
        Self { contract: contract.to_owned(), parameters: parameters.to_owned(), ..Self::default() }
    }

    fn agent(&self) -> Agent {
        let grants = self.grants.iter().map(|&grant| grant.to_owned()).collect();
        Agent { name: self.agent.to_owned(), scope: Scope { grants, ..Scope::everything() } }
    }

    fn catalog(&self) -> Catalog {
        let server = ServerName::parse(self.server).unwrap();
        let (offer, hidden) = Offer::new([Offered::parse(&server, &self.tool)]);
        assert!(hidden.is_empty(), "{hidden:?}");
        let files = match self.contract.as_str() {
            "" => Vec::new(),
            contract => vec![("contracts/a.yaml".to_owned(), format!("tool: \"{}:t\"\n{contract}\n", self.server))],
        };
        let contracts = Contracts::parse(&files).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        Catalog::default().next([(server, Arc::new(offer))], &Arc::new(contracts), &Arc::default())
    }

    fn declared(&self) -> Declared {
        let parameters = format!("{{\"name\":\"{}:t\"{}}}", self.server, self.parameters);
        let declared = declare(self.variant, &parameters, TwoKey::Optional);
        let declared = declared.unwrap_or_else(|denial| panic!("{denial:?}"));
        Declared { attached: Attached::exact(Some(self.attached)), ..declared }
    }

    fn tool(&self) -> Arc<Tool> {
        Arc::clone(self.catalog().resolve(&self.declared().name).unwrap())
    }

    fn decide(&self, limits: &Limits) -> Decision {
        let catalog = self.catalog();
        let declared = self.declared();
        let tool = catalog.resolve(&declared.name);
        let contracts = ContractSettings { unclassified: self.unclassified, ..ContractSettings::default() };
        let ground = DecisionInputs { intent: &IntentSettings::default(), contracts: &contracts, catalog: &catalog };
        let moment = Moment { prior: self.prior, ..moment(limits) };
        decide(ground, &self.agent(), declared, tool, moment)
    }

    /// Returns the approval request of this world. Panics if the call needs none.
    fn approval_request(&self) -> ApprovalRequest {
        match self.decide(&Limits::default()) {
            Decision::Ask(approval_request) => approval_request,
            other => panic!("{}", told(&other)),
        }
    }

    fn permit(&self) -> Permit {
        match self.decide(&Limits::default()) {
            Decision::Allow(permit) => permit,
            other => panic!("{}", told(&other)),
        }
    }

    fn told(&self) -> String {
        told(&self.decide(&Limits::default()))
    }

    /// Returns an approval of this world's request, as strong as possible.
    fn approval(&self) -> Approval {
        Approval {
            id: ApprovalId::parse(ID).unwrap(),
            binding: self.approval_request().binding(&self.agent()).digest(),
            state: ApprovalState::Approved,
            given: Some(Assurance::Factor),
            expires_ms: NOW_MS + 1,
        }
    }
}

fn moment(limits: &Limits) -> Moment<'_> {
    Moment {
        clock: Clock { now_ms: NOW_MS, utc_offset_s: 0 },
        limits,
        prior: PriorState::default(),
        session_began_ms: None,
    }
}

fn told(decision: &Decision) -> String {
    match decision {
        Decision::Allow(permit) if permit.is_dry_run() => format!("dry run {}", permit.arguments().as_str()),
        Decision::Allow(permit) => format!("allow {}", permit.arguments().as_str()),
        Decision::Ask(approval_request) => format!("ask {}", approval_request.required_assurance().as_str()),
        Decision::Preview(preview) => format!("preview {}", preview.to_json(ParameterPlace::Arguments)),
        Decision::Repeat(repeat) => format!("repeat {} {}", repeat.tool.name, repeat.claim.key),
        Decision::Deny(denial) => format!("{}: {}", denial.code(), denial.message()),
    }
}

fn word(permit: &Permit) -> String {
    match permit.approval() {
        None => "nobody".to_owned(),
        Some(ApprovalRef::Approval(id)) => format!("approval {id}"),
        Some(ApprovalRef::StandingApproval(id)) => format!("grant {id}"),
    }
}
