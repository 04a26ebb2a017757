//! Contracts as operators see them: effective contracts with their sources, lint findings, coverage and first drafts.

use std::fmt::Write as _;
use std::sync::Arc;

use mcpproxy_core::contract::{Contracts, Effective};
use mcpproxy_core::policy::Outcome;
use mcpproxy_core::review::coverage::{Coverage, coverage};
use mcpproxy_core::review::docs::{DocsPage, docs};
use mcpproxy_core::review::draft;
use mcpproxy_core::review::lint::{Finding, lint, unmatched};
use mcpproxy_core::review::weakening::{Rules, TrustRules, Weaker};
use mcpproxy_core::settings::{ContractSettings, Weakening};
use mcpproxy_core::trust::Held;
use mcpproxy_core::{Agent, Digest, Hints, Offer, ServerName, Tool, ToolName, Variant, declare};
use mcpproxy_store::StoredStandingApproval;

use super::Gateway;
use crate::approvals::ShownStandingApproval;
use crate::snapshot::Snapshot;

impl Gateway {
    /// Returns a tool with its effective contract. Includes forbidden tools, because this is for operators.
    pub fn contract(&self, name: &ToolName) -> Option<Arc<Tool>> {
        let snapshot = self.state.snapshot.load();
        let forbidden = || snapshot.catalog.forbidden().find(|tool| tool.name == *name);
        snapshot.catalog.resolve(name).or_else(forbidden).map(Arc::clone)
    }

    /// Masks the sensitive values of standing approvals, for everything that shows them.
    pub fn shown(&self, grants: Vec<StoredStandingApproval>) -> Vec<ShownStandingApproval> {
        let shown = |grant: StoredStandingApproval| {
            let tool = self.contract(&grant.tool);
            ShownStandingApproval::new(grant, tool.as_deref())
        };
        grants.into_iter().map(shown).collect()
    }

    /// Returns the settings for tools without a contract of the operator.
    pub fn contract_settings(&self) -> ContractSettings {
        self.state.snapshot.load().settings.contracts
    }

    /// Returns true if a new value of this field waits for a user, and the tool has the old one.
    pub fn contract_field_waits(&self, tool: &ToolName, field: &str) -> bool {
        self.held().is_some_and(|held| held.weaker.holds(&self.state.snapshot.load().contracts, tool, field))
    }

    /// Lints the active contracts.
    pub fn contract_lint(&self) -> Lint {
        let snapshot = self.state.snapshot.load_full();
        Lint { findings: lint(&snapshot.contracts, &snapshot.listed_catalog()), version: version(&snapshot.contracts) }
    }

    /// Finds what these contracts would allow that the active ones do not. Such changes wait for a user. Finds nothing
    /// if the settings apply every change at once.
    pub fn weaker_with(&self, contracts: &Arc<Contracts>) -> Weaker {
        let snapshot = self.state.snapshot.load_full();
        match snapshot.settings.contracts.weakening {
            Weakening::Apply => return Weaker::default(),
            Weakening::Confirm => {}
        }
        let old = Rules {
            contracts: Arc::clone(&snapshot.contracts),
            policies: Arc::clone(&snapshot.policies),
            settings: snapshot.settings.contracts,
            intent: snapshot.settings.intent.clone(),
            channels: snapshot.settings.approvals.channels,
            trust: TrustRules::of(&snapshot.settings),
            people: snapshot.settings.people.clone(),
        };
        let new = Rules { contracts: Arc::clone(contracts), ..old.clone() };
        Weaker::between(&old, &new, &self.offered())
    }

    /// Finds active contracts that match no tool of a connected server.
    pub fn unmatched_contracts(&self) -> Vec<Finding> {
        let snapshot = self.state.snapshot.load_full();
        unmatched(&snapshot.contracts, &snapshot.listed_catalog())
    }

    /// Drafts a contract file for a server's tools. Quarantined tools are left out: a user has not read their
    /// descriptions yet, and a draft would repeat them.
    pub fn contract_draft(&self, server: &ServerName) -> Result<Draft, DraftError> {
        let snapshot = self.state.snapshot.load_full();
        let tools = &snapshot.offers.get(server).ok_or(DraftError::NoServer)?.tools;
        if !tools.is_empty() {
            return Ok(Draft { text: draft::draft(server, tools), waiting: waiting(tools) });
        }
        // An empty draft would say that the server has no tools.
        let counted = |is_it: fn(Held) -> bool| tools.quarantined().filter(|(_, one)| is_it(one.reason)).count();
        let not_locked = counted(|reason| reason == Held::NotLocked);
        Err(match (waiting(tools), not_locked, tools.quarantined().count()) {
            (waiting @ 1.., _, _) => DraftError::NoneAccepted(waiting),
            (0, 1.., _) => DraftError::NotLocked,
            (0, 0, 1..) => DraftError::AllRejected,
            (0, 0, 0) => match snapshot.servers.get(server) {
                Some(found) if !found.is_connected() => DraftError::NotConnected(found.unavailable().to_string()),
                Some(_) if !snapshot.has_listed(server) => DraftError::NotConnected(NOT_LISTED.to_owned()),
                Some(_) | None => DraftError::NoTools,
            },
        })
    }

    /// Writes contract cards of all tools as Markdown pages.
    pub fn contract_docs(&self) -> Vec<DocsPage> {
        docs(&self.state.snapshot.load_full().catalog)
    }

    /// Lists all tools with the source of their classification.
    pub fn contract_coverage(&self) -> Coverage {
        coverage(&self.state.snapshot.load().catalog)
    }
}

/// Returns the operator's policies that are evaluated for a call, with their results, in the order of files and lines.
pub(crate) fn policy_results(
    snapshot: &Snapshot,
    agent: &Agent,
    variant: Variant,
    parameters: &str,
) -> Vec<PolicyResult> {
    let Ok(declared) = declare(variant, parameters, snapshot.settings.intent.two_key) else { return Vec::new() };
    let tool = snapshot.catalog.resolve(&declared.name);
    let Some((tool, policies)) = tool.and_then(|tool| Some((tool, tool.policies()?))) else { return Vec::new() };
    let outcomes = policies.explain(agent, tool.subject(), &declared.intent, snapshot.clock());
    let policy_results = outcomes.into_iter().map(|(policy, outcome)| PolicyResult {
        policy: policy.id.clone(),
        file: Arc::clone(&policy.file),
        line: policy.line,
        message: policy.message.clone(),
        outcome,
    });
    policy_results.collect()
}

/// One of the operator's policies, and its result for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyResult {
    pub policy: String,
    pub file: Arc<str>,
    pub line: usize,
    pub message: Option<String>,
    pub outcome: Outcome,
}

/// The findings of a lint, and the version of the contracts it looked at.
#[derive(Clone, Debug)]
pub struct Lint {
    pub findings: Vec<Finding>,
    /// See [`version`].
    pub version: String,
}

/// A first contract file for the tools of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub text: String,
    /// The number of tools that are not in the file, because they wait for a review.
    pub waiting: usize,
}

/// Counts the tools that wait for a review. A rejected one does not, and about one that the lock file lacks, no user can
/// decide.
fn waiting(tools: &Offer) -> usize {
    tools.quarantined().filter(|(_, one)| !matches!(one.reason, Held::Rejected | Held::NotLocked)).count()
}

/// The state of a server between its connection and the end of the first check of its tools.
const NOT_LISTED: &str = "it has not listed them yet. Try again in a moment";

/// The reason why there is no draft.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    #[error("there is no such server")]
    NoServer,
    #[error("the server's tools are not known: {0}")]
    NotConnected(String),
    #[error("no tool of the server is accepted yet; {0} wait for review")]
    NoneAccepted(usize),
    #[error("no tool that the server lists is in the lock file")]
    NotLocked,
    #[error("all tools of the server were rejected in a review")]
    AllRejected,
    #[error("the server lists no tools")]
    NoTools,
}

/// Hashes contracts. Equal contracts have equal versions, which shows if changed files are active.
///
/// `contract lint` compares its own version with that of a running gateway. The two may be different builds on
/// different machines, so this is SHA-256 over text and not a hash that differs between versions of Rust.
pub fn version(contracts: &Contracts) -> String {
    let mut text = String::new();
    for (pattern, contract) in contracts.iter() {
        let _written = writeln!(text, "{:?}", pattern.to_string());
        let alone = Effective::of(&[contract], None, Hints::default());
        for (field, value, source) in alone.sources() {
            // Quoted, so that no value can look like the start of the next field. A string never fails to take text.
            let _written = writeln!(text, "{field:?} {value} {source:?}");
        }
    }
    Digest::of(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_a_contract_is_another_version() {
        let of = |text: &str| version(&Contracts::parse(&[("contracts/a.yaml".to_owned(), text.to_owned())]).unwrap());
        let base = "tool: fx:a\nriskLevel: low\nsideEffects: [x]\n";
        assert_eq!(of(base), of(base));
        assert_eq!(of(base).len(), 64, "a digest that every build computes alike");
        let others = [
            "tool: fx:b\nriskLevel: low\nsideEffects: [x]\n",
            "tool: fx:a\nriskLevel: medium\nsideEffects: [x]\n",
            "tool: fx:a\nriskLevel: low\nsideEffects: [y]\n",
            "tool: fx:a\nriskLevel: low\n",
            "tool: fx:a\n# moved\nriskLevel: low\nsideEffects: [x]\n",
        ];
        for other in others {
            assert_ne!(of(base), of(other), "{other}");
        }
    }
}
