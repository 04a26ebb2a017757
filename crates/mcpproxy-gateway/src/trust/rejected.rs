//! Definitions that a user rejected, for a user who wants to take that back.
//!
//! A rejected version is judged again here, because the store keeps its text and not what the review said about it. Of a
//! server that has listed something in this run, only versions that it still lists are shown: accepting another one would
//! quarantine what agents use now.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mcpproxy_core::trust::{Definition, DefinitionKey, Held, Known, Pin, judge};
use mcpproxy_store::{RejectedPin, WaitingPin};

use super::admission::{definitions, neighbours};
use super::notes;
use super::review::{Rejection, ReviewEntry, ReviewError, entry};
use crate::offload::aside;
use crate::state::SharedState;
use crate::upstream::Server;

/// Returns the rejected definitions of a server, sorted by kind and name.
pub(super) async fn entries(
    state: &SharedState,
    server: &Server,
    known: Known,
) -> Result<Vec<ReviewEntry>, ReviewError> {
    let stored = state.store.rejected_pins(server.identity()).await?;
    let listed = server.has_listed().then(|| server.admission().listed.clone());
    let snapshot = state.snapshot.load_full();
    let rules = state.trust.rules(&snapshot.settings, &server.settings, server.origin);
    let name = server.name().clone();
    let entries = aside(move || {
        let listed = listed.map(|listed| definitions(&listed).into_iter().map(|one| (one.key.clone(), one)).collect());
        let chosen = choose(stored, listed.as_ref(), &known);
        let all: Vec<Definition> =
            chosen.iter().map(|one| Definition { key: one.key.clone(), json: Arc::clone(&one.json) }).collect();
        let judged = judge(&all, &known, &rules, &neighbours(&name, &snapshot.catalog));
        let entry = |(rejected, judgement): (RejectedPin, _)| {
            let accepted = known.definitions.get(&rejected.key).and_then(|pinned| pinned.accepted.clone());
            let rejection = Some(Rejection { by: rejected.rejected_by, at_ms: rejected.rejected_ms });
            let waiting = WaitingPin {
                key: rejected.key,
                pin: rejected.pin,
                json: rejected.json,
                reason: Held::Rejected,
                details: notes::details(&judgement),
                first_seen_ms: rejected.first_seen_ms,
                last_seen_ms: rejected.rejected_ms,
                times: 1,
                accepted,
            };
            ReviewEntry { rejection, ..entry(&name, waiting) }
        };
        chosen.into_iter().zip(judged).map(entry).collect()
    });
    Ok(entries.await)
}

/// Selects one version of each definition: the one that the server lists or, if it has not listed anything in this run,
/// the one that was rejected last.
fn choose(
    stored: Vec<RejectedPin>,
    listed: Option<&HashMap<DefinitionKey, Definition>>,
    known: &Known,
) -> Vec<RejectedPin> {
    let mut seen = HashSet::new();
    let is_open = |key: &DefinitionKey, pin: Pin| {
        let pinned = known.definitions.get(key);
        let is_accepted = pinned.and_then(|pinned| pinned.accepted.as_ref()).is_some_and(|one| one.pin == pin);
        !is_accepted && pinned.is_none_or(|pinned| pinned.waiting.is_none())
    };
    let is_listed = |one: &RejectedPin| {
        listed.is_none_or(|listed| listed.get(&one.key).is_some_and(|listed| listed.pin() == one.pin))
    };
    let fits = |one: &RejectedPin| is_open(&one.key, one.pin) && is_listed(one);
    let mut chosen: Vec<RejectedPin> =
        stored.into_iter().filter(fits).filter(|one| seen.insert(one.key.clone())).collect();
    chosen.sort_by(|one, other| one.key.cmp(&other.key));
    chosen
}
