//! One consistent view of settings, servers, tools and search. A call keeps the one it began with.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcpproxy_core::settings::Settings;
use mcpproxy_core::{Catalog, Index, ServerName};

use crate::upstream::{Offers, Server};

pub(crate) struct Snapshot {
    pub(crate) settings: Arc<Settings>,
    pub(crate) servers: BTreeMap<ServerName, Arc<Server>>,
    pub(crate) offers: BTreeMap<ServerName, Arc<Offers>>,
    pub(crate) catalog: Catalog,
    pub(crate) index: Index,
}

impl Snapshot {
    /// Takes what the enabled servers offer at this moment.
    pub(crate) fn build(settings: Arc<Settings>, servers: BTreeMap<ServerName, Arc<Server>>) -> Self {
        let offers: BTreeMap<ServerName, Arc<Offers>> = servers
            .iter()
            .filter(|(_, server)| server.settings.enabled)
            .map(|(name, server)| (name.clone(), server.offers()))
            .collect();
        let catalog = Catalog::new(offers.iter().map(|(name, offers)| (name.clone(), Arc::clone(&offers.tools))));
        let index = Index::build(&catalog);
        Self { settings, servers, offers, catalog, index }
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
