//! The active files and the tools that servers listed last, for commands that work without a gateway.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mcpproxy_core::settings::{self, Settings, TransportSettings};
use mcpproxy_core::{Offer, Offered, ServerName};
use mcpproxy_gateway::{Files, ToolLists};

use crate::exit::Failure;
use crate::home::Home;
use crate::operator_files::{self, published, settings_file};

/// Reads the settings, contracts and policies of the data folder. References in the settings stay unresolved, because
/// nothing is started.
pub(crate) fn files(home: &Home) -> Result<Files, Failure> {
    published::check_readable(home)?;
    let path = home.settings();
    let settings = match settings_file::read_text(&path)? {
        Some((_, text)) => settings_file::check_shape(&path, &text)?,
        None => settings::demo(),
    };
    Ok(Files {
        settings: Arc::new(settings),
        contracts: Arc::new(operator_files::read_contracts(&path)?),
        policies: Arc::new(operator_files::read_policies(&path)?),
    })
}

/// Returns the tools that the servers of these settings listed last. A server that was never connected has none, except
/// for the built-in demo server.
pub(crate) fn offers(folder: &Path, all: &[&Settings]) -> BTreeMap<ServerName, Arc<Offer>> {
    let lists = ToolLists::new(folder);
    let mut offers = BTreeMap::new();
    for server in all.iter().flat_map(|settings| &settings.servers) {
        let built_in = || matches!(server.transport, TransportSettings::Demo).then(|| demo(&server.name));
        if let Some(offer) = lists.load(&server.name).or_else(built_in) {
            offers.insert(server.name.clone(), Arc::new(offer));
        }
    }
    offers
}

/// Returns the tools of the demo server.
fn demo(name: &ServerName) -> Offer {
    Offer::new(demo_server::Demo::new().list().iter().map(|tool| Offered::parse(name, tool))).0
}
