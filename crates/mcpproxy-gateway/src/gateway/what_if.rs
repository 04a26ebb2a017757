//! Replays recorded calls with other files, on the tools that the servers offer now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::replay::{Baseline, Report, Rules};
use mcpproxy_core::settings::Settings;
use mcpproxy_core::{Offer, ServerName};
use mcpproxy_store::StoreError;
use tokio::sync::Mutex;

use super::Gateway;
use crate::offload::aside;
use crate::replay::{Period, replay, rules};
use crate::snapshot::{Files, Snapshot};
use crate::tool_lists::ToolLists;

type KnownOffers = BTreeMap<ServerName, Arc<Offer>>;

/// The replays of a gateway.
pub(super) struct Replays {
    /// One replay runs at a time, because each keeps a core busy.
    turn: Mutex<()>,
    lists: ToolLists,
}

impl Replays {
    pub(super) fn new(lists: ToolLists) -> Self {
        Self { turn: Mutex::default(), lists }
    }
}

/// A replay that was not made.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("another replay is running")]
    Busy,
    #[error("the recorded calls cannot be read")]
    Store(#[from] StoreError),
}

/// The files to try. The active ones count for those that are `None`.
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    pub settings: Option<Arc<Settings>>,
    pub contracts: Option<Arc<Contracts>>,
    pub policies: Option<Arc<Policies>>,
}

impl WhatIf {
    pub fn is_empty(&self) -> bool {
        self.settings.is_none() && self.contracts.is_none() && self.policies.is_none()
    }

    /// Returns the active files, with those of this instead that are given.
    pub fn over(&self, active: &Files) -> Files {
        let Self { settings, contracts, policies } = self.clone();
        Files {
            settings: settings.unwrap_or_else(|| Arc::clone(&active.settings)),
            contracts: contracts.unwrap_or_else(|| Arc::clone(&active.contracts)),
            policies: policies.unwrap_or_else(|| Arc::clone(&active.policies)),
        }
    }

    /// Returns both sides of a replay. Without any files to try, the active ones are compared with the records.
    pub fn sides(&self, active: &Files, offers: &KnownOffers) -> (Baseline, Rules) {
        self.against(rules(active, offers), active, offers)
    }

    /// Returns the enabled servers whose tools are not known, because they were never connected.
    pub fn unlisted(&self, active: &Files, offers: &KnownOffers) -> Vec<ServerName> {
        let tried = self.over(active);
        let all = active.settings.servers.iter().chain(&tried.settings.servers);
        let unlisted = all.filter(|server| server.enabled && !offers.contains_key(&server.name));
        let names: BTreeSet<&ServerName> = unlisted.map(|server| &server.name).collect();
        names.into_iter().cloned().collect()
    }

    fn against(&self, before: Rules, active: &Files, offers: &KnownOffers) -> (Baseline, Rules) {
        if self.is_empty() {
            return (Baseline::Record, before);
        }
        (Baseline::Rules(Box::new(before)), rules(&self.over(active), offers))
    }
}

impl Gateway {
    /// Decides the recorded calls of a period again. Returns the report, and the servers whose tools are not known.
    pub async fn replay(&self, what_if: WhatIf, period: Period) -> Result<(Report, Vec<ServerName>), ReplayError> {
        let Ok(_turn) = self.replays.turn.try_lock() else { return Err(ReplayError::Busy) };
        let (snapshot, lists) = (self.state.snapshot.load_full(), self.replays.lists.clone());
        let (baseline, after, unlisted) = aside(move || prepare(&what_if, &snapshot, &lists)).await;
        Ok((replay(&self.state.store, baseline, after, period).await?, unlisted))
    }
}

/// Returns both sides of a replay, and the servers whose tools are not known. A server that was not reached since the
/// start has the tools that it listed last, as on the command line.
fn prepare(what_if: &WhatIf, snapshot: &Snapshot, lists: &ToolLists) -> (Baseline, Rules, Vec<ServerName>) {
    let active = Files {
        settings: Arc::clone(&snapshot.settings),
        contracts: Arc::clone(&snapshot.contracts),
        policies: Arc::clone(&snapshot.policies),
    };
    let tried = what_if.over(&active);
    let listed = snapshot.offers.iter().filter(|(_, offers)| !offers.tools.is_empty());
    let mut offers: KnownOffers = listed.map(|(name, offers)| (name.clone(), Arc::clone(&offers.tools))).collect();
    for server in active.settings.servers.iter().chain(&tried.settings.servers) {
        if !offers.contains_key(&server.name)
            && let Some(offer) = lists.load(&server.name)
        {
            offers.insert(server.name.clone(), Arc::new(offer));
        }
    }
    let has_earlier = offers.iter().any(|(name, offer)| snapshot.awaits_tools(name) && !offer.is_empty());
    let before = if has_earlier {
        rules(&active, &offers)
    } else {
        Rules { settings: Arc::clone(&snapshot.settings), catalog: snapshot.catalog.clone() }
    };
    let unlisted = what_if.unlisted(&active, &offers);
    let (baseline, after) = what_if.against(before, &active, &offers);
    (baseline, after, unlisted)
}
