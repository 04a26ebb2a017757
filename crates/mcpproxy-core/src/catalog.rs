//! The catalog: every tool of every server with its effective contract, as one immutable value.
//!
//! Listing, searching and calling all use the same catalog, so an agent can call what it finds and nothing else. A
//! snapshot holds one catalog. A reload, or a change of a server's tools, makes the [`Catalog::next`] one.
//!
//! Each server has a [`Shelf`] with its tools. `next` compares the three sources of a shelf by pointer: the server's
//! offer, the operator's contracts and the policies. A shelf whose three sources are the same `Arc`s is reused. So a
//! change of one server costs nothing for the tools of other servers. A new shelf merges the contracts of each tool
//! ([`Effective`]) and selects the policies that can apply to it.
//!
//! Invariants:
//!
//! - **A forbidden tool is not in the catalog.** It goes to `forbidden` in its shelf, which only operators see.
//!   `resolve`, `visible` and `tools` never return it. Code behind the catalog cannot forget to check, because there is
//!   nothing to check.
//! - **A quarantined tool is not in the catalog either.** [`Offer::admit`] takes it out of the offer. The shelf keeps
//!   its name and reason, for records and for operators.
//! - **One malformed tool hides itself and no other** (see [`Offer::new`]).
//! - **Schemas compile on first use.** Servers list thousands of tools, and agents call few of them.
//!
//! Why not filter forbidden tools in each list? Then every new list would need the filter, and a test for it. Here a
//! tool that is forbidden and a tool that does not exist are the same, also for a call.
//!
//! ```text
//! offers ─┐
//! contracts ─┼─▶ Catalog ─▶ tools() ─▶ search, lists, decide
//! policies ──┘      └─────▶ forbidden() ─▶ operators only
//! ```

mod offer_changes;
mod offered;
pub(crate) mod parameters;
mod schemas;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::brief::{Brief, Keep, brief};
use crate::contract::{Contracts, Effective};
use crate::policy::{Policies, Subject, ToolPolicies};
use crate::schema::{Problem, Schema};
use crate::trust::{DefinitionKind, Pin};
use crate::{Digest, Hints, RiskLevel, Scope, ServerName, ToolName, Variant};

pub use offer_changes::{OfferChanges, ToolChange};
pub use offered::{Offer, Offered, Quarantined, SchemaMistake, ToolError};
use parameters::Parameters;

/// All tools of all servers. A tool that is not here does not exist for agents.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    shelves: BTreeMap<ServerName, Arc<Shelf>>,
    contracts: Arc<Contracts>,
    policies: Arc<Policies>,
}

/// The tools of one server.
#[derive(Debug, Default)]
struct Shelf {
    offer: Arc<Offer>,
    tools: Vec<Arc<Tool>>,
    by_name: HashMap<String, usize>,
    /// The forbidden tools, which only operators see.
    forbidden: BTreeMap<String, Arc<Tool>>,
    /// The tools that no user has accepted, which only operators see.
    quarantined: BTreeMap<String, Quarantined>,
}

/// One tool: how its server describes it, and its effective contract.
#[derive(Debug)]
pub struct Tool {
    pub name: ToolName,
    pub hints: Hints,
    pub offered: Arc<Offered>,
    pub contract: Arc<Effective>,
    policies: Option<ToolPolicies>,
    /// Compiled on first use: most tools are listed and never called.
    input: OnceLock<Option<Schema>>,
    output: OnceLock<Option<Schema>>,
    /// Made for the first call of the tool. Every record has it.
    contract_digest: OnceLock<(Digest, String)>,
    /// Made by the first search that finds the tool.
    brief: OnceLock<Brief>,
}

impl Catalog {
    /// Makes a catalog without contracts and policies.
    pub fn new(offers: impl IntoIterator<Item = (ServerName, Arc<Offer>)>) -> Self {
        Self::default().next(offers, &Arc::default(), &Arc::default())
    }

    /// Makes the catalog that comes after this one. Shelves that did not change are taken over.
    pub fn next(
        &self,
        offers: impl IntoIterator<Item = (ServerName, Arc<Offer>)>,
        contracts: &Arc<Contracts>,
        policies: &Arc<Policies>,
    ) -> Self {
        let is_same = Arc::ptr_eq(contracts, &self.contracts) && Arc::ptr_eq(policies, &self.policies);
        let shelf = |server: &ServerName, offer: Arc<Offer>| {
            let old = self.shelves.get(server).filter(|shelf| is_same && Arc::ptr_eq(&shelf.offer, &offer));
            old.map_or_else(|| Arc::new(Shelf::new(offer, contracts, policies)), Arc::clone)
        };
        let shelves = offers.into_iter().map(|(server, offer)| (server.clone(), shelf(&server, offer))).collect();
        Self { shelves, contracts: Arc::clone(contracts), policies: Arc::clone(policies) }
    }

    pub fn resolve(&self, name: &ToolName) -> Option<&Arc<Tool>> {
        let shelf = self.shelves.get(name.server())?;
        shelf.tools.get(*shelf.by_name.get(name.tool())?)
    }

    /// Returns the catalog without the servers that do not fit.
    #[must_use]
    pub fn only(&self, fits: impl Fn(&ServerName) -> bool) -> Self {
        let shelves = self.shelves.iter().filter(|(server, _)| fits(server));
        Self {
            shelves: shelves.map(|(server, shelf)| (server.clone(), Arc::clone(shelf))).collect(),
            contracts: Arc::clone(&self.contracts),
            policies: Arc::clone(&self.policies),
        }
    }

    /// Returns the policies that the tools were made with.
    pub fn policies(&self) -> &Arc<Policies> {
        &self.policies
    }

    pub fn has_server(&self, server: &ServerName) -> bool {
        self.shelves.contains_key(server)
    }

    /// Returns every tool that an agent may see, by server and in the server's own order.
    pub fn visible<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a Arc<Tool>> + 'a {
        self.shelves.iter().filter(|(server, _)| scope.sees(server)).flat_map(|(_, shelf)| &shelf.tools)
    }

    /// Returns the tools of each server, by server name.
    pub(crate) fn by_server(&self) -> impl Iterator<Item = (&ServerName, &[Arc<Tool>])> {
        self.shelves.iter().map(|(server, shelf)| (server, shelf.tools.as_slice()))
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.shelves.values().flat_map(|shelf| &shelf.tools)
    }

    /// Returns the forbidden tools. Nothing that an agent sees may be made from these.
    pub fn forbidden(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.shelves.values().flat_map(|shelf| shelf.forbidden.values())
    }

    /// Returns true for a forbidden tool. Use this for the record of an attempt, never for the answer to it.
    pub fn is_forbidden(&self, name: &ToolName) -> bool {
        self.shelves.get(name.server()).is_some_and(|shelf| shelf.forbidden.contains_key(name.tool()))
    }

    /// Returns why a tool is quarantined. Use this for operators and records. For agents, the decision uses it.
    pub fn quarantined(&self, name: &ToolName) -> Option<Quarantined> {
        self.shelves.get(name.server())?.quarantined.get(name.tool()).copied()
    }

    /// Returns all quarantined tools, by name. Nothing that an agent sees may be made from these.
    pub fn all_quarantined(&self) -> impl Iterator<Item = (ToolName, Quarantined)> {
        self.shelves.iter().flat_map(|(server, shelf)| {
            let named = shelf.quarantined.iter();
            named.filter_map(|(tool, quarantined)| Some((ToolName::of(server, tool).ok()?, *quarantined)))
        })
    }

    /// Returns every tool that servers list, also forbidden and quarantined ones. Nothing that an agent sees may be
    /// made from these.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<Offered>> {
        self.shelves.values().flat_map(|shelf| {
            let quarantined = shelf.offer.quarantined().map(|(offered, _)| offered);
            shelf.offer.tools().chain(quarantined)
        })
    }
}

/// A server whose tools changed, as agents see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub server: ServerName,
    /// True if contracts changed, and not only tools.
    pub contracts: bool,
}

impl Catalog {
    /// Returns the servers in both catalogs whose tools look different to an agent. Changes of forbidden tools do not
    /// count.
    pub fn changed_since(&self, before: &Self) -> Vec<Changed> {
        let mut all = Vec::new();
        for (server, shelf) in &self.shelves {
            let Some(old) = before.shelves.get(server).filter(|old| !Arc::ptr_eq(shelf, old)) else { continue };
            let same_tools = shelf.tools.len() == old.tools.len()
                && shelf.tools.iter().zip(&old.tools).all(|(tool, old)| tool.offered == old.offered);
            let contracts = !shelf.contracts().eq(old.contracts());
            if !same_tools || contracts {
                all.push(Changed { server: server.clone(), contracts });
            }
        }
        all
    }
}

impl Shelf {
    /// Returns the written contracts as agents see them, without source locations.
    fn contracts(&self) -> impl Iterator<Item = (&ToolName, Value)> {
        self.tools.iter().filter(|tool| tool.contract.is_written).map(|tool| (&tool.name, tool.contract.to_json()))
    }

    fn new(offer: Arc<Offer>, contracts: &Contracts, policies: &Policies) -> Self {
        let mut shelf = Self::default();
        // Most tools have no contract, and then only the hints differ.
        let mut plain: HashMap<Hints, Arc<Effective>> = HashMap::new();
        let mut effective = |offered: &Offered| {
            let written = contracts.matching(&offered.name);
            match (written.as_slice(), &offered.contract) {
                ([], None) => {
                    let made = plain.entry(offered.hints);
                    Arc::clone(made.or_insert_with(|| Arc::new(Effective::of(&[], None, offered.hints))))
                }
                (written, own) => Arc::new(Effective::of(written, own.as_ref(), offered.hints)),
            }
        };
        for offered in offer.tools() {
            shelf.put(Tool::new(Arc::clone(offered), effective(offered), policies));
        }
        for (offered, quarantined) in offer.quarantined() {
            // No agent has seen a forbidden tool, so none may learn that it is quarantined.
            let was_shown = quarantined.was_shown && effective(offered).risk() != Some(RiskLevel::Forbidden);
            shelf.quarantined.insert(offered.name.tool().to_owned(), Quarantined { was_shown, ..quarantined });
        }
        shelf.offer = offer;
        shelf
    }

    fn put(&mut self, tool: Tool) {
        let tool = Arc::new(tool);
        match tool.contract.risk() {
            Some(RiskLevel::Forbidden) => drop(self.forbidden.insert(tool.name.tool().to_owned(), tool)),
            None | Some(RiskLevel::Low | RiskLevel::Medium | RiskLevel::High | RiskLevel::Critical) => {
                self.by_name.insert(tool.name.tool().to_owned(), self.tools.len());
                self.tools.push(tool);
            }
        }
    }
}

impl Tool {
    fn new(offered: Arc<Offered>, contract: Arc<Effective>, policies: &Policies) -> Self {
        let (name, hints) = (offered.name.clone(), offered.hints);
        let mut tool = Self {
            name,
            hints,
            offered,
            contract,
            policies: None,
            input: OnceLock::new(),
            output: OnceLock::new(),
            contract_digest: OnceLock::new(),
            brief: OnceLock::new(),
        };
        tool.policies = policies.for_tool(tool.subject());
        tool
    }

    /// Returns the variant that an agent has to use.
    pub fn call_with(&self) -> Variant {
        self.contract.operation.as_ref().map_or(Variant::Write, |operation| operation.value)
    }

    /// Returns the tool as policies see it.
    pub fn subject(&self) -> Subject<'_> {
        Subject { name: &self.name, hints: self.hints, contract: &self.contract }
    }

    /// Returns the policies that can apply to this tool.
    pub fn policies(&self) -> Option<&ToolPolicies> {
        self.policies.as_ref()
    }

    /// Returns the server's own schema for arguments, or `None` if it is not valid JSON Schema. Then only the server and
    /// the contract check arguments. A tool whose schema is beyond the limits is not in the catalog.
    pub fn input_schema(&self) -> Option<&Schema> {
        self.input.get_or_init(|| self.own_schema("inputSchema")).as_ref()
    }

    pub fn output_schema(&self) -> Option<&Schema> {
        self.output.get_or_init(|| self.own_schema("outputSchema")).as_ref()
    }

    /// Returns the shortened description and schema with their whole meaning, as most searches show them. Shortening a
    /// schema takes as long as finding the tool, so it is done once.
    pub fn brief(&self) -> &Brief {
        self.brief.get_or_init(|| {
            let schema = self.offered.field("inputSchema").unwrap_or("{}");
            brief(self.offered.description.for_json(), schema, Keep::Meaning)
        })
    }

    /// Returns true if the server's own schema allows no such argument.
    pub(crate) fn lacks_argument(&self, name: &str) -> bool {
        Parameters::of(&self.offered).lacks(name)
    }

    /// Removes sensitive values from problems, which are recorded and sent to the agent. A missing value reveals
    /// nothing.
    pub(crate) fn hide_sensitive(&self, problems: &mut [Problem]) {
        let sensitive = &self.contract.sensitive.value;
        for problem in problems.iter_mut().filter(|problem| problem.found != Problem::MISSING) {
            if sensitive.iter().any(|place| place.pointer.touches(&problem.pointer)) {
                problem.found = "something else".to_owned();
            }
        }
    }

    /// Returns the pin of the tool's definition. Computed on demand, because only approvals need it.
    pub fn pin(&self) -> Digest {
        Pin::of(DefinitionKind::Tool, &self.offered.json).digest()
    }

    /// Returns a hash of the effective contract, without source locations.
    pub fn contract_digest(&self) -> Digest {
        self.digest_and_text().0
    }

    /// Returns the same hash in hexadecimal.
    pub fn contract_digest_text(&self) -> &str {
        &self.digest_and_text().1
    }

    fn digest_and_text(&self) -> &(Digest, String) {
        self.contract_digest.get_or_init(|| {
            let digest = self.contract.digest();
            (digest, digest.to_string())
        })
    }

    fn own_schema(&self, field: &str) -> Option<Schema> {
        Schema::of_server(self.offered.field(field)?).ok()
    }
}
