//! Stores the tools that servers list, and records what changed since the last list.
//!
//! A server can change its list as often as it likes. Records about it have pauses between them that double, and each
//! compares with the list of the record before. So no change is lost, and no server can fill the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcpproxy_core::json::quote;
use mcpproxy_core::{Offer, OfferChanges, ServerName};
use mcpproxy_store::{Kind, NewRecord, Status};
use tokio::time::Instant;

use crate::pace::Pace;
use crate::record;
use crate::state::SharedState;
use crate::tool_lists::ToolLists;

/// Names of each kind in the metadata of a record, at most.
const NAMES_MAX: usize = 50;

/// The code of a record about changed tools.
const TOOLS_CHANGED: &str = "tools_changed";

/// The lists that were recorded last. There is an entry for each server of the settings.
pub(super) struct ToolChanges {
    lists: ToolLists,
    known: BTreeMap<ServerName, Known>,
    /// Servers that listed their tools, and are not compared yet.
    listed: BTreeSet<ServerName>,
}

struct Known {
    offer: Arc<Offer>,
    pace: Pace,
}

impl ToolChanges {
    pub(super) fn new(lists: ToolLists) -> Self {
        Self { lists, known: BTreeMap::new(), listed: BTreeSet::new() }
    }

    /// Marks servers that have listed their tools.
    pub(super) fn listed(&mut self, servers: impl IntoIterator<Item = ServerName>) {
        self.listed.extend(servers);
    }

    /// Completes when the next record is due. Never completes if none is.
    pub(super) async fn due(&self) {
        let next = self.listed.iter().filter_map(|name| self.known.get(name)?.pace.next());
        match next.min() {
            Some(next) => tokio::time::sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    /// Compares the lists that are due, stores them, and records the changes.
    pub(super) async fn note(&mut self, state: &SharedState) {
        let snapshot = state.snapshot.load_full();
        self.known.retain(|name, _| snapshot.offers.contains_key(name));
        let now = Instant::now();
        for name in std::mem::take(&mut self.listed) {
            // The whole list of the server, with definitions that are held.
            let Some(offer) = snapshot.servers.get(&name).map(|server| Arc::clone(&server.offers().tools)) else {
                continue;
            };
            let known = self.known.get(&name);
            if known.is_some_and(|known| !known.pace.is_due(now)) {
                self.listed.insert(name);
                continue;
            }
            let before = known.map(|known| Arc::clone(&known.offer));
            let (lists, server, after) = (self.lists.clone(), name.clone(), Arc::clone(&offer));
            let compared = tokio::task::spawn_blocking(move || compare(&lists, &server, before, &after)).await;
            let Ok(compared) = compared else { continue };
            let mut pace = self.known.remove(&name).map(|known| known.pace).unwrap_or_default();
            if matches!(compared, Compared::Changed(_)) {
                pace.step(now);
            }
            self.known.insert(name.clone(), Known { offer: Arc::clone(&offer), pace });
            let is_saved = match compared {
                Compared::Same => false,
                Compared::New => true,
                // A list that is stored before its record is written would hide the change after a crash.
                Compared::Changed(changes) => record::note(&state.ledger, of_changes(&name, &changes)).await.is_some(),
            };
            if is_saved {
                let lists = self.lists.clone();
                let saved = tokio::task::spawn_blocking(move || save(&lists, &name, &offer)).await;
                saved.unwrap_or_else(|error| tracing::warn!(%error, "could not store a list of tools"));
            }
        }
    }
}

/// The difference between a list and the one before.
enum Compared {
    Same,
    /// There is no list before.
    New,
    Changed(OfferChanges),
}

/// Compares with the list before, or with the stored one.
fn compare(lists: &ToolLists, server: &ServerName, before: Option<Arc<Offer>>, after: &Arc<Offer>) -> Compared {
    if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, after)) {
        return Compared::Same;
    }
    let before = before.or_else(|| lists.load(server).map(Arc::new));
    match before.map(|before| after.changes_since(&before)) {
        None => Compared::New,
        Some(changes) if changes.is_empty() => Compared::Same,
        Some(changes) => Compared::Changed(changes),
    }
}

fn save(lists: &ToolLists, server: &ServerName, offer: &Offer) {
    if let Err(error) = lists.save(server, offer) {
        tracing::warn!(%server, %error, "could not store the list of tools");
    }
}

fn of_changes(server: &ServerName, changes: &OfferChanges) -> NewRecord {
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().take(NAMES_MAX).map(|name| quote(name)).collect();
        format!("[{}]", names.join(","))
    };
    let changed: Vec<String> = changes
        .changed
        .iter()
        .take(NAMES_MAX)
        .map(|one| format!("{{\"tool\":{},\"fields\":{}}}", quote(&one.tool), list(&one.fields)))
        .collect();
    let counts = [changes.added.len(), changes.removed.len(), changes.changed.len()];
    let left_out: usize = counts.iter().map(|count| count.saturating_sub(NAMES_MAX)).sum();
    let left_out = if left_out > 0 { format!(",\"left_out\":{left_out}") } else { String::new() };
    let metadata = format!(
        "{{\"added\":{},\"removed\":{},\"changed\":[{}]{left_out}}}",
        list(&changes.added),
        list(&changes.removed),
        changed.join(",")
    );
    NewRecord {
        server: Some(server.to_string()),
        code: Some(TOOLS_CHANGED.to_owned()),
        message: Some(changes.to_string()),
        metadata,
        ..record::blank(Kind::Server, Status::Success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_are_counted() {
        let server = ServerName::parse("fx").unwrap();
        let metadata = |added: usize| {
            let added = (0..added).map(|number| format!("t{number}")).collect();
            of_changes(&server, &OfferChanges { added, ..OfferChanges::default() }).metadata
        };
        assert_eq!(metadata(1), r#"{"added":["t0"],"removed":[],"changed":[]}"#);
        assert!(metadata(NAMES_MAX).ends_with(r#""t49"],"removed":[],"changed":[]}"#));
        assert!(metadata(NAMES_MAX + 3).ends_with(r#""t49"],"removed":[],"changed":[],"left_out":3}"#));
    }
}
