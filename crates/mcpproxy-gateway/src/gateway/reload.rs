//! Changes of the operator's files while the gateway runs: applied, refused, or held for a user.

use std::sync::{Arc, MutexGuard, PoisonError};

use mcpproxy_core::ServerName;
use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_core::settings::{Changes, Settings, changed_keys, changed_server_keys, diff};
use mcpproxy_core::trust::{Rules, Welcome};

use super::servers::changed_lists;
use super::{Gateway, link_base};
use crate::agents::ListKind;
use crate::contract_changes::{Reload, of_snapshots};
use crate::events::{GatewayEvent, ReloadSummary};
use crate::held::{self, HeldChanges};
use crate::record;
use crate::snapshot::{Files, Snapshot};

impl Gateway {
    /// Builds the next snapshot from new operator files. Calls in progress keep theirs.
    pub fn reload(&self, files: impl Into<Files>) {
        self.reload_as(files.into(), None, None);
    }

    /// Like [`Self::reload`], with changes that a user has confirmed.
    pub fn reload_confirmed(&self, files: Files, user: &str) {
        self.reload_as(files, Some(user.to_owned()), None);
    }

    /// Like [`Self::reload`], with a version that a user has published.
    pub fn reload_version(&self, files: Files, user: &str, version: i64) {
        self.reload_as(files, Some(user.to_owned()), Some(version));
    }

    fn reload_as(&self, files: Files, confirmed_by: Option<String>, version: Option<i64>) {
        let before = self.state.snapshot.load_full();
        let (old, settings) = (&before.settings, Arc::clone(&files.settings));
        let changes = diff(old, &settings);
        for name in &changes.removed {
            self.servers.stop(name);
        }
        let summary = summary(&before, &files, &changes);
        let changed = summary.to_string();
        // A changed server is replaced in one step, so that nobody finds it missing.
        for server in &settings.servers {
            let new = [&changes.added, &changes.changed, &changes.moved];
            if new.iter().any(|names| names.contains(&server.name)) {
                self.servers.start(server.clone(), self.state.trust.choices.origin_of(server));
                self.note_arrival(&server.name, &settings);
            }
        }
        *self.reload_error_slot() = None;
        let two_key = settings.intent.two_key;
        self.state.usages.resize(settings.limits.memory_bytes);
        self.state.meter.turn(settings.metrics.enabled);
        self.state.ledger.measure(settings.metrics.enabled);
        self.state.approvals.set(&settings.approvals, link_base(&settings, &self.base_url));
        self.oauth.set_base_url(link_base(&settings, &self.base_url));
        self.servers.refresh(Some(files));
        if old.trust != settings.trust {
            self.servers.judge_all();
        }
        if self.state.provider_tokens.set(settings.agents.oauth.as_ref()) {
            // Their scopes may have changed. Clients connect again, and then get those of the new settings.
            self.state.sessions.close_of_provider();
            self.state.listeners.end_of_provider();
        }
        if old.direct_mode && !settings.direct_mode {
            self.state.sessions.close_direct();
            self.state.listeners.end_direct();
        }
        // The others learn of it now, and not with the next announcement.
        self.state.members.changed.notify_one();
        // A listener that looks at once sees the new snapshot.
        self.state.events.send(GatewayEvent::Reloaded(summary));
        for name in changes.added.iter().chain(&changes.changed) {
            if let Some(reason) = self.servers.find(name).and_then(|server| server.misconfigured()) {
                self.state.events.send(GatewayEvent::Misconfigured { server: name.clone(), reason });
            }
        }
        let listeners = &self.state.listeners;
        if two_key != old.intent.two_key {
            listeners.four_tools_changed();
        }
        for name in changes.added.iter().chain(&changes.removed).chain(&changes.changed) {
            for kind in ListKind::ALL {
                listeners.list_changed(name, kind);
            }
        }
        let after = self.state.snapshot.load_full();
        if before.settings.contracts != after.settings.contracts {
            // Tools that need a contract first are not listed under their own names.
            for name in after.offers.keys() {
                listeners.list_changed(name, ListKind::Tools);
            }
        }
        for (name, kind) in changed_lists(&before, &after) {
            listeners.list_changed(&name, kind);
        }
        let reload = Reload { summary: changed, tools: of_snapshots(&before, &after), confirmed_by, version };
        let ledger = self.state.ledger.clone();
        tokio::spawn(async move { record::note_settings(&ledger, Ok(reload)).await });
    }

    /// Stores that a server came by a change of the file and waits for a review. It may connect only after a restart, and
    /// is in the file then, like a server that its operator chose.
    fn note_arrival(&self, name: &ServerName, settings: &Settings) {
        // A server that keeps its command or address keeps its origin, whatever else of it changed.
        let Some(server) = self.servers.find(name) else { return };
        match self.state.trust.rules(settings, &server.settings, server.origin) {
            Rules::Settings { first_sight: Welcome::Review, .. } => {}
            Rules::Settings { first_sight: Welcome::Accept, .. } | Rules::Locked(_) => return,
        }
        let store = self.state.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.note_server(server.identity(), server.name().as_str(), record::now_ms()).await {
                tracing::error!(server = %server.name(), %error, "could not store that a new server waits for a review");
            }
        });
    }

    /// Records that new settings are invalid. The previous settings remain active, and [`Self::reload_error`] says why.
    pub fn reload_failed(&self, message: String) {
        let ledger = self.state.ledger.clone();
        let reason = message.clone();
        tokio::spawn(async move { record::note_settings(&ledger, Err(reason)).await });
        self.state.events.send(GatewayEvent::Refused(message.clone()));
        *self.reload_error_slot() = Some(message);
    }

    pub fn reload_error(&self) -> Option<String> {
        self.reload_error_slot().clone()
    }

    /// Sets the changes that wait for a user. Records them if they are new.
    pub fn hold(&self, changes: Option<HeldChanges>) {
        let mut held = self.held_slot();
        if held.as_deref() == changes.as_ref() {
            return;
        }
        *held = changes.map(Arc::new);
        if let Some(changes) = held.clone() {
            let ledger = self.state.ledger.clone();
            self.state.events.send(GatewayEvent::Held(changes.summary()));
            tokio::spawn(async move { record::note(&ledger, changes.record()).await });
        }
    }

    /// Returns the changes that wait for a user.
    pub fn held(&self) -> Option<Arc<HeldChanges>> {
        self.held_slot().clone()
    }

    /// Records that the files are weaker than in the last run.
    pub async fn note_weaker_at_start(&self, weaker: &Weaker) {
        record::note(&self.state.ledger, held::at_start(weaker)).await;
    }

    fn held_slot(&self) -> MutexGuard<'_, Option<Arc<HeldChanges>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reload_error_slot(&self) -> MutexGuard<'_, Option<String>> {
        self.reload_error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sums up what new files change.
fn summary(before: &Snapshot, files: &Files, changes: &Changes) -> ReloadSummary {
    let Changes { added, removed, changed, moved: _, restart_needed } = changes.clone();
    let find =
        |settings: &Settings, name: &ServerName| settings.servers.iter().find(|server| server.name == *name).cloned();
    let with_keys = |name: ServerName| {
        let (old, new) = (find(&before.settings, &name), find(&files.settings, &name));
        let keys = old.zip(new).map(|(old, new)| changed_server_keys(&old, &new)).unwrap_or_default();
        if keys.is_empty() { name.to_string() } else { format!("{name} ({})", keys.join(", ")) }
    };
    ReloadSummary {
        added,
        removed,
        changed: changed.into_iter().map(with_keys).collect(),
        contracts: !Arc::ptr_eq(&before.contracts, &files.contracts),
        policies: !Arc::ptr_eq(&before.policies, &files.policies),
        other_settings: changed_keys(&before.settings, &files.settings),
        restart_needed,
    }
}
