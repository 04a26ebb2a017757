//! One consistent view of what the operator wrote and what servers offer. A call keeps the one it began with.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::decision::DecisionInputs;
use mcpproxy_core::policy::{Clock, Policies};
use mcpproxy_core::settings::Settings;
use mcpproxy_core::{Catalog, Index, Pointer, ServerName, ToolName};

use crate::sensitive;
use crate::upstream::{Offers, Server};

/// What the operator's files say.
#[derive(Clone, Debug, Default)]
pub struct Files {
    pub settings: Arc<Settings>,
    pub contracts: Arc<Contracts>,
    pub rules: Arc<Policies>,
}

/// Settings without contracts and rules.
impl From<Settings> for Files {
    fn from(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), ..Self::default() }
    }
}

pub(crate) struct Snapshot {
    pub(crate) settings: Arc<Settings>,
    pub(crate) contracts: Arc<Contracts>,
    pub(crate) rules: Arc<Policies>,
    pub(crate) servers: BTreeMap<ServerName, Arc<Server>>,
    pub(crate) offers: BTreeMap<ServerName, Arc<Offers>>,
    pub(crate) catalog: Catalog,
    pub(crate) index: Index,
}

impl Snapshot {
    /// Takes what the enabled servers offer at this moment, and from the snapshot before it what did not change.
    pub(crate) fn build(files: Files, servers: BTreeMap<ServerName, Arc<Server>>, before: Option<&Self>) -> Self {
        let Files { settings, contracts, rules } = files;
        let offers: BTreeMap<ServerName, Arc<Offers>> = servers
            .iter()
            .filter(|(_, server)| server.settings.enabled)
            .map(|(name, server)| (name.clone(), server.offers()))
            .collect();
        let tools = offers.iter().map(|(name, offers)| (name.clone(), Arc::clone(&offers.tools)));
        let catalog = match before {
            Some(before) => before.catalog.next(tools, &contracts, &rules),
            None => Catalog::default().next(tools, &contracts, &rules),
        };
        let index = match before {
            Some(before) => before.index.next(&catalog),
            None => Index::build(&catalog),
        };
        Self { settings, contracts, rules, servers, offers, catalog, index }
    }

    pub(crate) fn decision_inputs(&self) -> DecisionInputs<'_> {
        DecisionInputs { intent: &self.settings.intent, contracts: &self.settings.contracts, catalog: &self.catalog }
    }

    /// Returns the time, and the UTC offset that policies may ask for. Without policies the time zone is not read.
    pub(crate) fn clock(&self) -> Clock {
        static TIME_ZONE: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);
        let now = Timestamp::now();
        let now_ms = now.as_millisecond();
        let utc_offset_s = if self.rules.is_empty() { 0 } else { TIME_ZONE.to_offset(now).seconds() };
        Clock { now_ms, utc_offset_s }
    }

    /// What is sensitive about a tool, whether agents know of it, must not, or nobody has seen it yet.
    pub(crate) fn sensitive(&self, name: &ToolName) -> Vec<Pointer> {
        let withheld = || self.catalog.withheld().find(|tool| tool.name == *name);
        if let Some(tool) = self.catalog.resolve(name).or_else(withheld) {
            return sensitive::pointers(tool);
        }
        let written = self.contracts.matching(name).into_iter().find_map(|contract| contract.sensitive.as_ref());
        written.map(|places| places.value.iter().map(|place| place.pointer.clone()).collect()).unwrap_or_default()
    }

    /// Whether a server is enabled and has told of no tools.
    pub(crate) fn awaits_tools(&self, name: &ServerName) -> bool {
        self.offers.get(name).is_some_and(|offers| offers.tools.is_empty())
    }

    /// A server whose tools nobody knows, because it was never reached.
    pub(crate) fn unreached(&self, name: &ServerName) -> Option<&Arc<Server>> {
        self.servers.get(name).filter(|server| self.awaits_tools(name) && !server.is_connected())
    }
}
