//! What the servers offer and under which contract, as one immutable list that listing and calling share.

mod offered;
pub(crate) mod parameters;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::contract::{Contracts, Effective};
use crate::json::canonical;
use crate::policy::{Policies, Subject, ToolPolicies};
use crate::schema::{Problem, Schema};
use crate::{Digest, Hints, RiskLevel, Scope, ServerName, ToolName, Variant};

pub use offered::{Offer, Offered, ToolError};
use parameters::Parameters;

/// All tools of all servers. A tool that is not in here does not exist for agents.
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
    /// Forbidden ones, for the operator's eyes only.
    withheld: BTreeMap<String, Arc<Tool>>,
}

/// One tool: its server's words for it, and the contract that counts.
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
}

impl Catalog {
    /// A catalog without contracts and policies.
    pub fn new(offers: impl IntoIterator<Item = (ServerName, Arc<Offer>)>) -> Self {
        Self::default().next(offers, &Arc::default(), &Arc::default())
    }

    /// The catalog that comes after this one. What did not change is not made again.
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

    pub fn has_server(&self, server: &ServerName) -> bool {
        self.shelves.contains_key(server)
    }

    /// Every tool an agent may see, by server and in the server's own order.
    pub fn visible<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a Arc<Tool>> + 'a {
        self.shelves.iter().filter(|(server, _)| scope.sees(server)).flat_map(|(_, shelf)| &shelf.tools)
    }

    /// The tools of each server, by name of the server.
    pub(crate) fn by_server(&self) -> impl Iterator<Item = (&ServerName, &[Arc<Tool>])> {
        self.shelves.iter().map(|(server, shelf)| (server, shelf.tools.as_slice()))
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.shelves.values().flat_map(|shelf| &shelf.tools)
    }

    /// The forbidden tools. Nothing that an agent gets to see may be made from these.
    pub fn withheld(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.shelves.values().flat_map(|shelf| shelf.withheld.values())
    }

    /// Whether a name is that of a forbidden tool: for the record of an attempt, never for the answer to it.
    pub fn is_withheld(&self, name: &ToolName) -> bool {
        self.shelves.get(name.server()).is_some_and(|shelf| shelf.withheld.contains_key(name.tool()))
    }
}

/// What an agent sees differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub server: ServerName,
    /// Whether contracts are different, and not only tools.
    pub contracts: bool,
}

impl Catalog {
    /// The servers of both catalogs whose tools look different to an agent now. Changes of what is withheld anyway
    /// are none.
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
    /// The contracts that somebody wrote, as agents see them: not where they are written.
    fn contracts(&self) -> impl Iterator<Item = (&ToolName, Value)> {
        self.tools.iter().filter(|tool| tool.contract.is_written).map(|tool| (&tool.name, tool.contract.to_json()))
    }

    fn new(offer: Arc<Offer>, contracts: &Contracts, policies: &Policies) -> Self {
        let mut shelf = Self::default();
        // Most tools have no contract, and then only the hints differ.
        let mut plain: HashMap<Hints, Arc<Effective>> = HashMap::new();
        for offered in offer.tools() {
            let written = contracts.matching(&offered.name);
            let contract = match (written.as_slice(), &offered.contract) {
                ([], None) => {
                    let made = plain.entry(offered.hints);
                    Arc::clone(made.or_insert_with(|| Arc::new(Effective::of(&[], None, offered.hints))))
                }
                (written, own) => Arc::new(Effective::of(written, own.as_ref(), offered.hints)),
            };
            shelf.put(Tool::new(Arc::clone(offered), contract, policies));
        }
        shelf.offer = offer;
        shelf
    }

    fn put(&mut self, tool: Tool) {
        let tool = Arc::new(tool);
        match tool.contract.risk() {
            Some(RiskLevel::Forbidden) => drop(self.withheld.insert(tool.name.tool().to_owned(), tool)),
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
        let (input, output) = (OnceLock::new(), OnceLock::new());
        let mut tool = Self { name, hints, offered, contract, policies: None, input, output };
        tool.policies = policies.for_tool(tool.subject());
        tool
    }

    /// The variant this tool asks for.
    pub fn call_with(&self) -> Variant {
        self.contract.operation.as_ref().map_or(Variant::Write, |operation| operation.value)
    }

    /// The tool as policies see it.
    pub fn subject(&self) -> Subject<'_> {
        Subject { name: &self.name, hints: self.hints, contract: &self.contract }
    }

    /// The policies that can apply to this tool.
    pub fn policies(&self) -> Option<&ToolPolicies> {
        self.policies.as_ref()
    }

    /// The server's own schema for arguments; what cannot be used was refused when the server told of the tool.
    pub fn input_schema(&self) -> Option<&Schema> {
        self.input.get_or_init(|| self.own_schema("inputSchema")).as_ref()
    }

    pub fn output_schema(&self) -> Option<&Schema> {
        self.output.get_or_init(|| self.own_schema("outputSchema")).as_ref()
    }

    /// Whether the server's own schema says that the tool takes no such argument.
    pub(crate) fn lacks_argument(&self, name: &str) -> bool {
        Parameters::of(&self.offered).lacks(name)
    }

    /// What is wrong with arguments or a result is recorded and answered, so it must not repeat what the contract calls
    /// sensitive. That something is missing gives nothing away.
    pub(crate) fn hide_sensitive(&self, problems: &mut [Problem]) {
        let sensitive = &self.contract.sensitive.value;
        for problem in problems.iter_mut().filter(|problem| problem.found != Problem::MISSING) {
            if sensitive.iter().any(|place| place.pointer.touches(&problem.pointer)) {
                problem.found = "something else".to_owned();
            }
        }
    }

    /// What the server says about the tool, all of it. Made on demand: a call that nobody is asked about never needs it.
    pub fn pin(&self) -> Digest {
        Digest::of(canonical(&self.offered.json).as_bytes())
    }

    /// What the contract that counts says, wherever it is written. Made on demand too.
    pub fn contract_digest(&self) -> Digest {
        self.contract.digest()
    }

    fn own_schema(&self, field: &str) -> Option<Schema> {
        Schema::of_server(self.offered.field(field)?).ok()
    }
}
