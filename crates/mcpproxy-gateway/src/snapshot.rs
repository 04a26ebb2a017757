//! Snapshots: settings, contracts, policies, catalog and search index at one moment.
//!
//! A snapshot is derived from two sources: the operator's files, and the lists of the connected servers. It never
//! changes. A reload or a report of a server builds the next one and swaps it in. Lists and searches are answered from
//! the snapshot alone, so no server can delay them.
//!
//! Invariants:
//!
//! - **A call uses one snapshot** from resolving to closing, so it is decided, recorded and checked by the same
//!   contract. Only an approval moves it to a newer one.
//! - **Building is incremental.** A server that did not change keeps its catalog entries, compiled schemas and index
//!   section. One noisy server among a hundred must not cost a hundred.
//! - **Building happens one at a time**, under the lock of the files in `gateway/servers.rs`. Two concurrent builds
//!   could swap in the older result last.
//!
//! Why not a lock around shared tables? A call would hold it while a server works, or see half of a reload. With an
//! `Arc` swap, readers never wait, and the old snapshot is freed with its last call:
//!
//! ```ignore
//! let snapshot = state.snapshot.load_full();       // ours until we drop it
//! let tool = snapshot.catalog.resolve(&name);      // the same tool, whatever is reloaded meanwhile
//! ```
//!
//! State that must outlive a snapshot, such as rate limits, is in `state.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mcpproxy_core::contract::{Contracts, Effective};
use mcpproxy_core::decision::DecisionInputs;
use mcpproxy_core::policy::{Clock, Policies};
use mcpproxy_core::settings::{EncoderUse, Settings};
use mcpproxy_core::{Catalog, Hints, Index, Pointer, ServerName, ToolName};

use crate::sensitive;
use crate::upstream::{Offers, Server};

/// The operator's files, parsed.
#[derive(Clone, Debug, Default)]
pub struct Files {
    pub settings: Arc<Settings>,
    pub contracts: Arc<Contracts>,
    pub policies: Arc<Policies>,
}

/// Settings without contracts and policies.
impl From<Settings> for Files {
    fn from(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), ..Self::default() }
    }
}

pub(crate) struct Snapshot {
    pub(crate) settings: Arc<Settings>,
    pub(crate) contracts: Arc<Contracts>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) servers: BTreeMap<ServerName, Arc<Server>>,
    pub(crate) offers: BTreeMap<ServerName, Arc<Offers>>,
    /// The servers whose lists are in the catalog. The others were not reached since the start.
    listed: BTreeSet<ServerName>,
    pub(crate) catalog: Catalog,
    pub(crate) index: Index,
}

impl Snapshot {
    /// Builds a snapshot from what agents may see of the enabled servers' lists. Reuses the unchanged parts of the previous one.
    pub(crate) fn build(files: Files, servers: BTreeMap<ServerName, Arc<Server>>, before: Option<&Self>) -> Self {
        let Files { settings, contracts, policies } = files;
        // Before the lists themselves, because a server may be judged at this moment.
        let listed = servers.iter().filter(|(_, server)| server.is_judged()).map(|(name, _)| name.clone()).collect();
        let offers: BTreeMap<ServerName, Arc<Offers>> = servers
            .iter()
            .filter(|(_, server)| server.settings.enabled)
            .map(|(name, server)| (name.clone(), Arc::clone(&server.admission().offers)))
            .collect();
        let tools = offers.iter().map(|(name, offers)| (name.clone(), Arc::clone(&offers.tools)));
        let catalog = match before {
            Some(before) => before.catalog.next(tools, &contracts, &policies),
            None => Catalog::default().next(tools, &contracts, &policies),
        };
        let index = match (before, settings.search.encoder) {
            (Some(before), EncoderUse::Auto) => before.index.next(&catalog).with_encoder(),
            (None, EncoderUse::Auto) => Index::build(&catalog).with_encoder(),
            // Switched off, the vectors of the tools give their memory back.
            (Some(before), EncoderUse::Off) if !before.index.has_encoder() => before.index.next(&catalog),
            (Some(_) | None, EncoderUse::Off) => Index::build(&catalog),
        };
        Self { settings, contracts, policies, servers, offers, listed, catalog, index }
    }

    pub(crate) fn decision_inputs(&self) -> DecisionInputs<'_> {
        DecisionInputs { intent: &self.settings.intent, contracts: &self.settings.contracts, catalog: &self.catalog }
    }

    /// Returns the catalog of the servers that have listed their tools. A contract that matches no tool of another
    /// server may match one as soon as that server connects.
    pub(crate) fn listed_catalog(&self) -> Catalog {
        self.catalog.only(|server| self.listed.contains(server))
    }

    /// Returns true if a server has listed its tools, and they were checked.
    pub(crate) fn has_listed(&self, server: &ServerName) -> bool {
        self.listed.contains(server)
    }

    /// Returns the time, and the UTC offset that policies may ask for. Without policies the time zone is not read.
    pub(crate) fn clock(&self) -> Clock {
        let now = Timestamp::now();
        let now_ms = now.as_millisecond();
        let utc_offset_s = if self.policies.is_empty() { 0 } else { utc_offset_s(now) };
        Clock { now_ms, utc_offset_s }
    }

    /// Returns the sensitive fields of a tool: of a visible one, a forbidden one, or one that only a contract names.
    pub(crate) fn sensitive(&self, name: &ToolName) -> Vec<Pointer> {
        let forbidden = || self.catalog.forbidden().find(|tool| tool.name == *name);
        if let Some(tool) = self.catalog.resolve(name).or_else(forbidden) {
            return sensitive::pointers(tool);
        }
        let written = self.contracts.matching(name).into_iter().find_map(|contract| contract.sensitive.as_ref());
        written.map(|places| places.value.iter().map(|place| place.pointer.clone()).collect()).unwrap_or_default()
    }

    /// Returns the operator's part of a contract, for a tool whose server was never reached.
    pub(crate) fn written_contract(&self, name: &ToolName) -> Effective {
        Effective::of(&self.contracts.matching(name), None, Hints::default())
    }

    /// Returns the sensitive fields of every tool that a name from an agent may mean. A name without a server may mean
    /// a tool of any server, whether or not the agent sees it: this is for the log, not for the agent.
    pub(crate) fn sensitive_of(&self, name: &str) -> Vec<Pointer> {
        if let Ok(full) = ToolName::parse(name) {
            return self.sensitive(&full);
        }
        // Direct mode writes `server__tool`, and a tool's own name may contain `__` too.
        let direct = ToolName::parse(&name.replacen("__", ":", 1)).ok();
        let own = name.rsplit(':').next().unwrap_or(name);
        let bare = self.settings.servers.iter().filter_map(|server| ToolName::of(&server.name, own).ok());
        direct.into_iter().chain(bare).flat_map(|name| self.sensitive(&name)).collect()
    }

    /// Returns true if a server is enabled and has listed no tools.
    pub(crate) fn awaits_tools(&self, name: &ServerName) -> bool {
        self.offers.get(name).is_some_and(|offers| offers.tools.is_empty())
    }

    /// Returns a server whose tools are unknown because it was never reached.
    pub(crate) fn unreached(&self, name: &ServerName) -> Option<&Arc<Server>> {
        self.servers.get(name).filter(|server| self.awaits_tools(name) && !server.is_connected())
    }
}

/// Returns the UTC offset of this machine at a time, for policies that ask about hours.
pub(crate) fn utc_offset_s(time: Timestamp) -> i32 {
    static TIME_ZONE: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);
    TIME_ZONE.to_offset(time).seconds()
}
