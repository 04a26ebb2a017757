//! The servers' tasks, and the task that turns their reports into snapshots.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use mcpproxy_core::json::string_value;
use mcpproxy_core::settings::ServerSettings;
use mcpproxy_core::{Changed, ServerName};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::counts::ToolCounts;
use super::tool_changes::ToolChanges;
use crate::agents::ListKind;
use crate::events::GatewayEvent;
use crate::message::member;
use crate::oauth::{OAuth, Tokens};
use crate::record;
use crate::snapshot::{Files, Snapshot};
use crate::state::SharedState;
use crate::status::ServerStatus;
use crate::tool_lists::ToolLists;
use crate::trust;
use crate::upstream::{Change, Origin, Server, Watch, supervise};

/// Changes within this time share one snapshot.
const GATHER: Duration = Duration::from_millis(20);
/// Longest wait for the snapshot after a user's decision.
const JUDGED_IN: Duration = Duration::from_secs(5);
/// Longest wait for the open calls of a server that was removed or changed.
const OPEN_CALLS: Duration = Duration::from_secs(10);
/// Longest wait for servers to stop when the gateway stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

pub(super) struct Servers {
    state: Arc<SharedState>,
    logs: PathBuf,
    demo: Arc<[String]>,
    oauth: Arc<OAuth>,
    running: Mutex<BTreeMap<ServerName, Supervised>>,
    /// Servers that left the settings and still finish open calls. Each reload drops those whose task has ended.
    leaving: Mutex<Vec<Supervised>>,
    /// Source of the next snapshot. Snapshots are built one at a time, under this lock.
    files: Mutex<Files>,
    /// Has no bound of its own: a change must not get lost, and its reporter must not wait for a snapshot. Each change
    /// costs a server a list that was read, a connection or a backoff, with a pause after each list. So one server
    /// adds about ten per second at most, and each round of [`take_changes`] takes all.
    changes: mpsc::UnboundedSender<(ServerName, Change)>,
}

struct Supervised {
    server: Arc<Server>,
    /// `None` for a disabled or misconfigured server.
    task: Option<JoinHandle<()>>,
}

impl Servers {
    pub(super) fn new(
        state: Arc<SharedState>,
        files: Files,
        tools: ToolLists,
        logs: PathBuf,
        demo: Arc<[String]>,
        oauth: Arc<OAuth>,
    ) -> Arc<Self> {
        let (changes, changed) = mpsc::unbounded_channel();
        let (running, leaving) = (Mutex::default(), Mutex::default());
        let servers = Arc::new(Self { state, logs, demo, oauth, running, leaving, files: Mutex::new(files), changes });
        tokio::spawn(take_changes(Arc::clone(&servers), ToolChanges::new(tools), changed));
        servers
    }

    /// Starts a server, or replaces the one of the same name.
    /// A server that keeps its command or address keeps its origin.
    pub(super) fn start(&self, settings: ServerSettings, origin: Origin) {
        let name = settings.name.clone();
        let old = self.find(&name).filter(|old| old.identity() == settings.identity.key());
        let is_just_chosen = old.as_ref().map_or(origin == Origin::Terminal, |old| old.is_just_chosen());
        let origin = old.map_or(origin, |old| old.origin);
        let is_started = settings.enabled && settings.transport.mistakes().is_none();
        let tokens = Tokens::of(&self.oauth, &settings);
        let server = Arc::new(Server::new(settings, &self.logs, origin, tokens));
        server.set_just_chosen(is_just_chosen);
        let task = is_started.then(|| {
            let watch = Arc::new(self.watcher());
            tokio::spawn(supervise(Arc::clone(&server), Arc::clone(&self.demo), watch))
        });
        let replaced = self.running().insert(name, Supervised { server, task });
        if let Some(replaced) = replaced {
            self.leave(replaced);
        }
    }

    fn watcher(&self) -> Watcher {
        Watcher { changes: self.changes.clone(), state: Arc::clone(&self.state) }
    }

    /// Judges a server's lists again, after a user decided or the rules changed. Returns when agents see the result.
    pub(super) async fn judge_again(&self, server: &Arc<Server>) {
        self.state.report_news();
        self.watcher().judge(Arc::clone(server), Change::Judged).await;
        let applied = async {
            loop {
                let changed = self.state.news_applied();
                if self.state.has_applied_all_news() {
                    return;
                }
                changed.await;
            }
        };
        let _late = tokio::time::timeout(JUDGED_IN, applied).await;
    }

    /// Judges the lists of all servers again.
    pub(super) fn judge_all(&self) {
        for supervised in self.running().values() {
            self.state.report_news();
            let (watcher, server) = (self.watcher(), Arc::clone(&supervised.server));
            tokio::spawn(async move { watcher.judge(server, Change::Judged).await });
        }
    }

    /// Removes a server at once, and stops it when its open calls are done.
    pub(super) fn stop(&self, name: &ServerName) {
        let removed = self.running().remove(name);
        if let Some(removed) = removed {
            self.leave(removed);
        }
    }

    fn leave(&self, supervised: Supervised) {
        let server = Arc::clone(&supervised.server);
        tokio::spawn(async move {
            let _late = tokio::time::timeout(OPEN_CALLS, server.idle()).await;
            server.stop.cancel();
        });
        let mut leaving = self.leaving();
        leaving.retain(|supervised| supervised.task.as_ref().is_some_and(|task| !task.is_finished()));
        leaving.push(supervised);
    }

    pub(super) async fn stop_all(&self) {
        let running = std::mem::take(&mut *self.running());
        let leaving = std::mem::take(&mut *self.leaving());
        let mut tasks = Vec::new();
        for supervised in running.into_values().chain(leaving) {
            supervised.server.stop.cancel();
            tasks.extend(supervised.task);
        }
        if tokio::time::timeout(STOP_TIMEOUT, futures::future::join_all(tasks)).await.is_err() {
            tracing::warn!("some servers did not stop in time");
        }
    }

    pub(super) fn find(&self, name: &ServerName) -> Option<Arc<Server>> {
        self.running().get(name).map(|supervised| Arc::clone(&supervised.server))
    }

    pub(super) fn statuses(&self) -> Vec<ServerStatus> {
        self.running().values().map(|supervised| supervised.server.status()).collect()
    }

    /// Counts running calls, also of servers that left the settings.
    pub(super) fn running_calls(&self) -> usize {
        let calls = |supervised: &Supervised| supervised.server.running_calls();
        let running: usize = self.running().values().map(calls).sum();
        running + self.leaving().iter().map(calls).sum::<usize>()
    }

    pub(super) fn were_all_tried(&self) -> bool {
        self.running().values().all(|supervised| supervised.server.was_tried())
    }

    /// Builds the next snapshot, from new files if there are any. If that panics, the previous files remain.
    pub(super) fn refresh(&self, new_files: Option<Files>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let next = new_files.unwrap_or_else(|| files.clone());
        let before = self.state.snapshot.load_full();
        let servers = self.running().iter().map(|(name, one)| (name.clone(), Arc::clone(&one.server))).collect();
        self.state.snapshot.store(Arc::new(Snapshot::build(next.clone(), servers, Some(&before))));
        self.state.tools_changed.notify_one();
        *files = next;
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<ServerName, Supervised>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leaving(&self) -> MutexGuard<'_, Vec<Supervised>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes a supervisor's reports to the task that builds snapshots. New lists are judged first.
#[derive(Clone)]
struct Watcher {
    changes: mpsc::UnboundedSender<(ServerName, Change)>,
    state: Arc<SharedState>,
}

impl Watch for Watcher {
    fn changed(&self, server: &Arc<Server>, change: Change) {
        // Snapshots contain no resources, and a server may send updates as fast as it can write. So they do not queue.
        if let Change::ResourceUpdated(params) = &change {
            // An unreviewed server must not write to agents, not even to one that listens for its address.
            if !server.is_closed()
                && let Some(uri) = member(params, "uri").and_then(string_value)
            {
                self.state.listeners.resource_updated(server.name(), &uri, params);
            }
            return;
        }
        self.state.report_news();
        // Marked between the two steps. A task that sees the server as tried then also sees the report, and waits for
        // its snapshot.
        server.set_tried();
        match change {
            Change::Connected | Change::Tools | Change::Prompts | Change::Resources | Change::Judged => {
                let (watcher, server) = (self.clone(), Arc::clone(server));
                tokio::spawn(async move { watcher.judge(server, change).await });
            }
            Change::Failed { .. } | Change::ToolsUnread(_) | Change::ResourceUpdated(_) => {
                let _stopping = self.changes.send((server.name().clone(), change));
            }
        }
    }
}

impl Watcher {
    /// Judges a server's lists, and reports the change. A judgement that could not be stored is repeated later.
    async fn judge(&self, server: Arc<Server>, change: Change) {
        let again = trust::admit(&self.state, &server).await;
        let _stopping = self.changes.send((server.name().clone(), change));
        if let Some(at) = again
            && server.plan()
        {
            tokio::spawn(self.clone().judge_later(server, at));
        }
    }

    fn judge_later(self, server: Arc<Server>, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = server.stop.cancelled() => return,
            }
            server.begin_planned();
            self.state.report_news();
            self.judge(server, Change::Judged).await;
        })
    }
}

/// Gathers changes, builds a snapshot, then tells listeners. In this order, a listener that asks at once sees the
/// change.
async fn take_changes(
    servers: Arc<Servers>,
    mut tools: ToolChanges,
    mut changed: mpsc::UnboundedReceiver<(ServerName, Change)>,
) {
    loop {
        let first = tokio::select! {
            first = changed.recv() => first,
            () = tools.due() => {
                tools.note(&servers.state).await;
                continue;
            }
        };
        let Some(first) = first else { return };
        tokio::time::sleep(GATHER).await;
        let mut changes = vec![first];
        while let Ok(more) = changed.try_recv() {
            changes.push(more);
        }
        let count = changes.len() as u64;
        let before = servers.state.snapshot.load_full();
        let building = Arc::clone(&servers);
        if let Err(error) = tokio::task::spawn_blocking(move || building.refresh(None)).await {
            tracing::error!(%error, "could not build a snapshot");
        }
        let listed = changes.iter().filter(|(_, change)| matches!(change, Change::Connected | Change::Tools));
        let listed: Vec<ServerName> = listed.map(|(name, _)| name.clone()).collect();
        announce(&servers.state, changes, &before).await;
        servers.state.apply_news(count);
        tools.listed(listed);
        tools.note(&servers.state).await;
    }
}

/// Returns the lists that changed with the tools. Contracts are resources. A tool that agents cannot see changes no
/// list.
pub(super) fn changed_lists(before: &Snapshot, after: &Snapshot) -> impl Iterator<Item = (ServerName, ListKind)> {
    let changed = after.catalog.changed_since(&before.catalog).into_iter();
    changed.flat_map(|Changed { server, contracts }| {
        [Some(ListKind::Tools), contracts.then_some(ListKind::Resources)]
            .into_iter()
            .flatten()
            .map(move |kind| (server.clone(), kind))
    })
}

async fn announce(state: &SharedState, changes: Vec<(ServerName, Change)>, before: &Snapshot) {
    let after = state.snapshot.load_full();
    let mut lists: HashSet<(ServerName, ListKind)> = changed_lists(before, &after).collect();
    let is_any_up = changes.iter().any(|(_, change)| matches!(change, Change::Connected));
    let counts = if is_any_up { ToolCounts::of(&after) } else { BTreeMap::new() };
    for (name, change) in changes {
        match change {
            Change::Connected => {
                lists.extend([ListKind::Prompts, ListKind::Resources].map(|kind| (name.clone(), kind)));
                record::note_server(&state.ledger, &name, None).await;
                let tools = after.offers.get(&name).map_or(0, |offers| offers.tools.len());
                let unasked = counts.get(&name).map_or(0, |counts| counts.unasked);
                state.events.send(GatewayEvent::Up { server: name, tools, unasked });
            }
            Change::Failed { reason, hint } => {
                record::note_server(&state.ledger, &name, Some(reason.clone())).await;
                state.events.send(GatewayEvent::Down { server: name, reason, hint });
            }
            Change::Tools => {}
            Change::Judged => {
                lists.extend([ListKind::Prompts, ListKind::Resources].map(|kind| (name.clone(), kind)));
            }
            Change::ToolsUnread(reason) => record::note_unread_tools(&state.ledger, &name, &reason).await,
            Change::Prompts => drop(lists.insert((name, ListKind::Prompts))),
            Change::Resources => drop(lists.insert((name, ListKind::Resources))),
            // Told at once, without a snapshot.
            Change::ResourceUpdated(_) => {}
        }
    }
    for (name, kind) in lists {
        state.listeners.list_changed(&name, kind);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use mcpproxy_core::settings::{Retention, Settings, TransportSettings};
    use mcpproxy_store::{Ledger, LedgerOptions, Location, SealingKey, SigningKey, Store};

    use super::*;
    use crate::{Gateway, Options};

    #[tokio::test]
    async fn a_server_that_is_started_again_replaces_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let gateway = gateway(folder.path(), Settings::default()).await;
        let settings = disabled("fx");
        let name = settings.name.clone();
        gateway.servers.start(settings.clone(), Origin::Start);
        let first = gateway.servers.find(&name).unwrap();
        gateway.servers.start(settings, Origin::Start);
        let second = gateway.servers.find(&name).unwrap();
        tokio::time::timeout(Duration::from_secs(30), first.stop.cancelled()).await.expect("the first one stops");
        assert!(!second.stop.is_cancelled());
        gateway.stop().await;
    }

    #[tokio::test]
    async fn a_server_is_never_missing_while_it_is_replaced() {
        const RELOADS: usize = 300;
        let folder = tempfile::tempdir().unwrap();
        let first = Settings { servers: vec![disabled("fx")], ..Settings::default() };
        let mut second = first.clone();
        second.servers[0].transport = TransportSettings::Misconfigured { kind: "demo", mistakes: Vec::new() };
        let gateway = gateway(folder.path(), first.clone()).await;
        let (looking, done) = (gateway.clone(), Arc::new(AtomicBool::new(false)));
        let is_done = Arc::clone(&done);
        let watcher = std::thread::spawn(move || {
            let mut missing = 0;
            while !is_done.load(Ordering::Relaxed) {
                missing += usize::from(looking.servers().is_empty());
            }
            missing
        });
        for round in 0..RELOADS {
            let settings = if round % 2 == 0 { &second } else { &first };
            gateway.reload(settings.clone());
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(watcher.join().unwrap(), 0, "times at which the server was missing");
        gateway.stop().await;
    }

    fn disabled(name: &str) -> ServerSettings {
        let name = ServerName::parse(name).unwrap();
        ServerSettings { enabled: false, ..ServerSettings::new(name, TransportSettings::Demo) }
    }

    async fn gateway(folder: &Path, settings: Settings) -> Gateway {
        let store = Store::open(&Location::Sqlite(folder.join("mcpproxy.db"))).await.unwrap();
        let options = LedgerOptions {
            key: SigningKey::from_seed(&[7; 32]).unwrap(),
            newest_checkpoint: None,
            checkpoints_to: None,
            retention: Retention::default(),
            patience: Duration::from_secs(20),
            now_ms: || 0,
        };
        let ledger = Ledger::start(&store, options).await.unwrap();
        Gateway::start(Options {
            files: settings.into(),
            store,
            ledger,
            logs: folder.to_owned(),
            tools: folder.join("tools"),
            base_url: String::new(),
            demo_command: Vec::new(),
            lock: None,
            sealing_key: SealingKey::from_bytes(&[7; 32]).unwrap(),
            telemetry: Default::default(),
        })
    }
}
