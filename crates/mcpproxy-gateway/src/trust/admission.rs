//! Judges a list of a server, stores and records the result, and sets what agents may see.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::trust::scan::Neighbours;
use mcpproxy_core::trust::{
    Definition, DefinitionKey, DefinitionKind, Held, Judgement, Known, Pin, Rules, Verdict, is_open, judge,
};
use mcpproxy_core::{Catalog, Quarantined, ServerName};
use mcpproxy_store::{AdmittedPin, HeldPin, Listing, StoreError};
use tokio::time::Instant;

use super::notes;
use crate::record::now_ms;
use crate::state::SharedState;
use crate::upstream::{Admission, Offers, Server};

/// Pause between two notes that a server still lists the same.
const SEEN_PAUSE_MS: i64 = 60 * 60 * 1000;

/// Time until a list is judged again after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(5);

/// Judges the newest lists of a server. Returns when to judge them again, if that is needed.
pub(crate) async fn admit(state: &SharedState, server: &Server) -> Option<Instant> {
    // A server that was never connected has no lists. Empty ones would count as its first, and withdraw what waits.
    if !server.has_listed() {
        return None;
    }
    let mut pace = server.judging.lock().await;
    let before = server.admission();
    let listed = server.offers();
    let snapshot = state.snapshot.load_full();
    let rules = state.trust.rules(&snapshot.settings, &server.settings, server.origin);
    let is_just_chosen = server.is_just_chosen();
    let known = match newest(state, server, &before).await {
        Ok((version, known)) if is_just_chosen => Some((version, Arc::new(known.just_chosen()))),
        Ok(known) => Some(known),
        // This very list was judged by stored pins. A database that is away for a moment is no news about it.
        Err(error) if before.known.is_some() && Arc::ptr_eq(&before.listed, &listed) => {
            tracing::warn!(server = %server.name(), %error, "could not read the pins; the last judgement stays");
            return Some(Instant::now() + STORE_PAUSE);
        }
        Err(error) => {
            tracing::error!(server = %server.name(), %error, "could not read the pins; new definitions are held");
            None
        }
    };
    let (own, catalog) = (server.name().clone(), Arc::clone(&snapshot));
    let (list, read) = (Arc::clone(&listed), known.clone());
    let judged = tokio::task::spawn_blocking(move || {
        let known = read.as_ref().map(|(_, known)| known.as_ref());
        Judged::of(&list, known, rules, || neighbours(&own, &catalog.catalog))
    });
    let Ok(mut judged) = judged.await else {
        tracing::error!(server = %server.name(), "could not judge the definitions; the previous ones remain");
        return Some(Instant::now() + STORE_PAUSE);
    };
    let mut again = known.is_none().then(|| Instant::now() + STORE_PAUSE);
    let mut known = known;
    let mut seen_ms = before.seen_ms;
    if let Some((_, read)) = &known
        && !judged.has_news(read)
    {
        // The list is that of an earlier choice. The new one must not count for a later list.
        server.set_just_chosen(false);
        seen_ms = note_seen(state, server, &judged, seen_ms).await;
    } else if let Some((_, read)) = &known {
        let now = Instant::now();
        if pace.is_due(now) {
            // A first list comes once. The first change after it is not late.
            if read.is_known {
                pace.step(now);
            }
            match keep(state, server, &judged, read).await {
                Ok(saved) => {
                    // The choice counts for one list. What the server lists later is a change.
                    server.set_just_chosen(false);
                    judged.hold_unsaved(&saved.1);
                    known = Some(saved);
                    seen_ms = Some(now_ms());
                }
                Err(error) => {
                    tracing::error!(server = %server.name(), %error, "could not store pins; new definitions are held");
                    judged.hold_news(|_| Held::Unreadable);
                    pace.step(now);
                    again = pace.next().max(Some(now + STORE_PAUSE));
                }
            }
        } else {
            // Held at once, and stored later.
            judged.hold_news(JudgedDefinition::news);
            again = pace.next();
        }
    }
    server.set_admission(Admission { seen_ms, ..judged.admission(listed, &before, known) });
    again
}

/// Stores that a server still lists the same, once an hour. Returns the time of the last note.
async fn note_seen(state: &SharedState, server: &Server, judged: &Judged, seen_ms: Option<i64>) -> Option<i64> {
    let now_ms = now_ms();
    if seen_ms.is_some_and(|seen_ms| now_ms.abs_diff(seen_ms) < SEEN_PAUSE_MS.unsigned_abs()) {
        return seen_ms;
    }
    let name = server.name().to_string();
    let listing = judged.listing(server.identity(), &name, now_ms, News::None);
    if let Err(error) = state.store.save_listing(&listing).await {
        tracing::warn!(server = %server.name(), %error, "could not store when the definitions were last seen");
    }
    // A failure is no reason to try again with every list.
    Some(now_ms)
}

/// Returns what the store knows, from memory if no user decided meanwhile.
async fn newest(state: &SharedState, server: &Server, before: &Admission) -> Result<(i64, Arc<Known>), StoreError> {
    let version = state.store.pins_version().await?;
    match &before.known {
        Some((read, known)) if *read == version => Ok((version, Arc::clone(known))),
        Some(_) | None => {
            let known = state.store.known_pins(server.identity()).await?;
            if !known.damaged.is_empty() {
                let (server, count) = (server.name(), known.damaged.len());
                tracing::error!(%server, count, "stored definitions cannot be read; they wait for a user");
            }
            Ok((version, Arc::new(known)))
        }
    }
}

/// Records the news, stores them, and returns what the store knows then.
async fn keep(
    state: &SharedState,
    server: &Server,
    judged: &Judged,
    known: &Known,
) -> Result<(i64, Arc<Known>), StoreError> {
    for record in notes::of_news(server.name(), &judged.all, known) {
        state.ledger.append(record, mcpproxy_store::WaitFor::Disk).await?;
    }
    let now_ms = now_ms();
    let name = server.name().to_string();
    let listing = judged.listing(server.identity(), &name, now_ms, News::Some);
    state.store.save_listing(&listing).await?;
    for event in notes::events(server.name(), &judged.all, known) {
        state.events.send(event);
    }
    let version = state.store.pins_version().await?;
    Ok((version, Arc::new(state.store.known_pins(server.identity()).await?)))
}

/// The names of other servers' tools, which a tool may imitate.
pub(super) fn neighbours(own: &ServerName, catalog: &Catalog) -> Neighbours {
    let mut servers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tool in catalog.tools().filter(|tool| tool.name.server() != own) {
        servers.entry(tool.name.server().as_str()).or_default().push(tool.name.tool());
    }
    Neighbours::new(servers)
}

/// Says if a judgement differs from the stored one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    Some,
    None,
}

/// One definition with its result.
pub(super) struct JudgedDefinition {
    pub(super) definition: Definition,
    pub(super) pin: Option<Pin>,
    pub(super) judgement: Judgement,
}

/// A list with its results.
pub(super) struct Judged {
    pub(super) all: Vec<JudgedDefinition>,
    rules: Rules,
}

impl Judged {
    fn of(listed: &Offers, known: Option<&Known>, rules: Rules, neighbours: impl FnOnce() -> Neighbours) -> Self {
        let definitions = definitions(listed);
        let judgements: Vec<Judgement> = match known {
            Some(known) => {
                // Most lists are the same, and then no scan needs the neighbours.
                let neighbours = if is_same(&definitions, known) { Neighbours::default() } else { neighbours() };
                judge(&definitions, known, &rules, &neighbours)
            }
            None => definitions.iter().map(|_| Judgement::unreadable()).collect(),
        };
        let all = definitions.into_iter().zip(judgements).map(|(definition, judgement)| {
            let pin = (judgement.verdict != Verdict::Same).then(|| definition.pin());
            JudgedDefinition { definition, pin, judgement }
        });
        Self { all: all.collect(), rules }
    }

    /// Returns true if there is something to store and record.
    fn has_news(&self, known: &Known) -> bool {
        let held: HashSet<&DefinitionKey> = self.held().map(|one| &one.definition.key).collect();
        let is_withdrawn = known.definitions.iter().any(|(key, one)| one.waiting.is_some() && !held.contains(key));
        !known.is_known || is_withdrawn || self.all.iter().any(|one| one.is_news(known))
    }

    fn held(&self) -> impl Iterator<Item = &JudgedDefinition> {
        self.all.iter().filter(|one| matches!(one.judgement.verdict, Verdict::Held(held) if held != Held::Rejected))
    }

    /// Holds what would be admitted, because it is not stored yet.
    fn hold_news(&mut self, reason: impl Fn(&JudgedDefinition) -> Held) {
        for one in &mut self.all {
            if matches!(one.judgement.verdict, Verdict::Admitted(_)) {
                one.judgement.verdict = Verdict::Held(reason(one));
            }
        }
    }

    /// Holds what the store did not accept, because somebody decided otherwise meanwhile.
    fn hold_unsaved(&mut self, saved: &Known) {
        for one in &mut self.all {
            let accepted = saved.definitions.get(&one.definition.key).and_then(|pinned| pinned.accepted.as_ref());
            let is_saved = accepted.is_some_and(|accepted| Some(accepted.pin) == one.pin);
            if matches!(one.judgement.verdict, Verdict::Admitted(_)) && !is_saved {
                one.judgement.verdict = Verdict::Held(one.news());
            }
        }
    }

    fn listing<'a>(&'a self, identity: &'a str, server: &'a str, now_ms: i64, news: News) -> Listing<'a> {
        let (mut admitted, mut held) = (Vec::new(), Vec::new());
        for one in &self.all {
            let Some(pin) = one.pin else { continue };
            match one.judgement.verdict {
                Verdict::Same => {}
                Verdict::Admitted(reason) => {
                    admitted.push(AdmittedPin { definition: &one.definition, pin, reason });
                }
                Verdict::Held(reason) => {
                    let details = notes::details(&one.judgement);
                    held.push(HeldPin { definition: &one.definition, pin, reason, details });
                }
            }
        }
        let listed = self.all.iter().map(|one| &one.definition.key).collect();
        Listing { identity, server, now_ms, admitted, held, listed, has_news: news == News::Some }
    }

    /// Removes what is held. Lists that did not change keep their `Arc`s, so that a snapshot reuses what it built.
    fn admission(&self, listed: Arc<Offers>, before: &Admission, known: Option<(i64, Arc<Known>)>) -> Admission {
        let now_ms = now_ms();
        let mut held = BTreeMap::new();
        for one in &self.all {
            let Verdict::Held(reason) = one.judgement.verdict else { continue };
            let key = &one.definition.key;
            let pinned = known.as_ref().and_then(|(_, known)| known.definitions.get(key));
            let was_shown = reason == Held::Unreadable || pinned.is_some_and(|pinned| pinned.accepted.is_some());
            // A gateway that has just started holds nothing yet. The definition may have waited since an earlier run.
            let stored_ms = pinned.and_then(|pinned| pinned.waiting_since_ms);
            let since_ms = before.held.get(key).map(|before| before.since_ms).or(stored_ms).unwrap_or(now_ms);
            held.insert(key.clone(), Quarantined { reason, since_ms, was_shown });
        }
        let verdicts = self.all.iter().map(|one| one.judgement.verdict);
        let is_open = known.as_ref().is_some_and(|(_, known)| is_open(known, &self.rules, verdicts));
        let is_same = Arc::ptr_eq(&listed, &before.listed) && *before.held == held && before.is_open == is_open;
        let offers = match (is_same, is_open && held.is_empty()) {
            (true, _) => Arc::clone(&before.offers),
            (false, true) if self.all.len() == listed.count() => Arc::clone(&listed),
            (false, _) => Arc::new(self.without(&listed, &held, is_open)),
        };
        Admission { listed, offers, is_open, held: Arc::new(held), known, seen_ms: before.seen_ms }
    }

    /// Returns the lists without what is held. Resources are in no judgement, so all of them go if the server is
    /// closed.
    fn without(&self, listed: &Offers, held: &BTreeMap<DefinitionKey, Quarantined>, is_open: bool) -> Offers {
        let tools: HashMap<String, Quarantined> = held
            .iter()
            .filter(|(key, _)| key.kind == DefinitionKind::Tool)
            .map(|(key, held)| (key.name.to_string(), *held))
            .collect();
        let only = |kind: DefinitionKind| -> Arc<[String]> {
            let admitted = self.all.iter().filter(|one| one.definition.key.kind == kind);
            let admitted = admitted.filter(|one| !held.contains_key(&one.definition.key));
            admitted.map(|one| one.definition.json.to_string()).collect()
        };
        let is_held = |definition: Definition| held.contains_key(&definition.key);
        let instructions = listed.instructions.clone().filter(|text| !is_held(Definition::instructions(text)));
        Offers {
            tools: if tools.is_empty() { Arc::clone(&listed.tools) } else { Arc::new(listed.tools.admit(&tools)) },
            prompts: only(DefinitionKind::Prompt),
            templates: only(DefinitionKind::Template),
            hidden: listed.hidden.clone(),
            resources: if is_open { Arc::clone(&listed.resources) } else { Arc::default() },
            can_complete: is_open && listed.can_complete,
            can_subscribe: is_open && listed.can_subscribe,
            has_resources: is_open && listed.has_resources,
            instructions,
        }
    }
}

impl JudgedDefinition {
    /// Returns the reason to hold what would be admitted: only what was accepted before can change.
    fn news(&self) -> Held {
        if self.judgement.change.is_some() { Held::Changed } else { Held::New }
    }

    /// Returns true if the store does not know this result.
    pub(super) fn is_news(&self, known: &Known) -> bool {
        match self.judgement.verdict {
            Verdict::Same | Verdict::Held(Held::Rejected) => false,
            Verdict::Admitted(_) => true,
            Verdict::Held(_) => {
                let waiting = known.definitions.get(&self.definition.key).and_then(|pinned| pinned.waiting);
                waiting != self.pin
            }
        }
    }
}

/// Lists the definitions of a server. Of two with the same name, agents see the first. A server that lists only
/// resources has one that stands for it.
pub(crate) fn definitions(listed: &Offers) -> Vec<Definition> {
    let tools = listed.tools.tools().map(|tool| Definition::tool(tool.name.tool(), &tool.json));
    let prompts = listed.prompts.iter().filter_map(|json| Definition::prompt(json));
    let templates = listed.templates.iter().filter_map(|json| Definition::template(json));
    let instructions = listed.instructions.as_deref().map(Definition::instructions);
    let mut seen = HashSet::new();
    let all = tools.chain(prompts).chain(templates).chain(instructions);
    let mut all: Vec<Definition> = all.filter(|definition| seen.insert(definition.key.clone())).collect();
    if all.is_empty() && !listed.resources.is_empty() {
        all.push(Definition::resources_only());
    }
    all
}

fn is_same(definitions: &[Definition], known: &Known) -> bool {
    definitions.iter().all(|one| {
        let accepted = known.definitions.get(&one.key).and_then(|pinned| pinned.accepted.as_ref());
        accepted.is_some_and(|accepted| accepted.json == one.json)
    })
}

#[cfg(test)]
mod tests;
