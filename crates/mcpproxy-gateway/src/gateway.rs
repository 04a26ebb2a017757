//! The running gateway: owns the servers' tasks and makes the next snapshot when something changed.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use mcpproxy_core::json::string_value;
use mcpproxy_core::settings::{Settings, diff};
use mcpproxy_core::{Changed, Limits, ServerName, Untrusted};
use mcpproxy_store::{Ledger, Store};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use crate::approvals::{Approvals, keep_watch, tell};
use crate::ask::Seals;
use crate::audience::{Audience, Kind};
use crate::downstream::EndpointModes;
use crate::message::member;
use crate::record;
use crate::snapshot::{Files, Snapshot};
use crate::status::{ServerStatus, StateName};
use crate::turned_away::TurnedAway;
use crate::upstream::{Change, Server, Watch, supervise, sweep};

/// Changes that come together make one snapshot.
const GATHER: Duration = Duration::from_millis(20);
/// Longest wait of a call for a server that is being reached for the first time.
const FIRST_TRY: Duration = Duration::from_secs(10);
/// Longest wait of a server that was removed or changed for its open calls.
const OPEN_CALLS: Duration = Duration::from_secs(10);
/// Longest wait for servers to leave at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// A handle on the running gateway; clones are the same gateway.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<Inner>,
}

pub struct Options {
    pub files: Files,
    pub store: Store,
    pub ledger: Ledger,
    /// Where the servers' logs go.
    pub logs: PathBuf,
    /// What comes before the path in links for users, unless the settings say otherwise: `http://localhost:8080`.
    pub base_url: String,
    /// The program and arguments that run the demo server on standard input and output.
    pub demo_command: Vec<String>,
}

pub(crate) struct Inner {
    pub(crate) snapshot: ArcSwap<Snapshot>,
    pub(crate) ledger: Ledger,
    pub(crate) agents: Agents,
    pub(crate) turned_away: TurnedAway,
    pub(crate) audience: Audience,
    pub(crate) doors: EndpointModes,
    pub(crate) store: Store,
    /// How often tools were called lately; it outlives snapshots.
    pub(crate) limits: Limits,
    pub(crate) approvals: Approvals,
    pub(crate) seals: Seals,
    base_url: String,
    logs: PathBuf,
    demo: Arc<[String]>,
    servers: Mutex<BTreeMap<ServerName, Supervised>>,
    /// Servers that are no longer in the settings and have not left yet.
    leaving: Mutex<Vec<Supervised>>,
    /// What the next snapshot is made from. Snapshots are built one at a time, under this lock.
    files: Mutex<Files>,
    reload_error: Mutex<Option<String>>,
    changes: mpsc::UnboundedSender<(ServerName, Change)>,
    /// Changes seen and changes that are in the snapshot.
    seen: AtomicU64,
    taken: AtomicU64,
    settled: Notify,
    /// Ends the streams on which agents only listen.
    pub(crate) stopping: CancellationToken,
}

impl Inner {
    /// The snapshot for a call to a server. While a server is being reached for the first time its tools are not known
    /// yet, so the call waits for that, and for nothing else.
    pub(crate) async fn snapshot_for(&self, name: Option<&ServerName>) -> Arc<Snapshot> {
        let snapshot = self.snapshot.load_full();
        let Some(name) = name.filter(|name| snapshot.awaits_tools(name)) else { return snapshot };
        let settled = async {
            loop {
                let settled = self.settled.notified();
                let is_tried = self.snapshot.load().servers.get(name).is_none_or(|server| server.was_tried());
                if is_tried && self.has_taken_all() {
                    return;
                }
                settled.await;
            }
        };
        let _late = tokio::time::timeout(FIRST_TRY, settled).await;
        self.snapshot.load_full()
    }

    /// Whether all that servers reported is in the snapshot.
    fn has_taken_all(&self) -> bool {
        self.taken.load(Ordering::Acquire) >= self.seen.load(Ordering::Acquire)
    }
}

struct Supervised {
    server: Arc<Server>,
    task: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Starts everything and returns at once; servers connect in the background.
    pub fn start(options: Options) -> Self {
        let Options { files, store, ledger, logs, base_url, demo_command } = options;
        let (changes, changed) = mpsc::unbounded_channel();
        let left_behind = sweep(&logs);
        if left_behind > 0 {
            tracing::warn!(count = left_behind, "ended servers that an earlier gateway left behind");
        }
        let settings = Arc::clone(&files.settings);
        let approvals = Approvals::new(store.clone(), ledger.clone(), &settings.approvals, links(&settings, &base_url));
        let inner = Arc::new(Inner {
            snapshot: ArcSwap::from_pointee(Snapshot::build(files.clone(), BTreeMap::new(), None)),
            ledger,
            agents: Agents::new(store.clone()),
            turned_away: TurnedAway::default(),
            audience: Audience::default(),
            doors: EndpointModes::default(),
            store,
            limits: Limits::default(),
            approvals,
            seals: Seals::default(),
            base_url,
            logs,
            demo: demo_command.into(),
            servers: Mutex::default(),
            leaving: Mutex::default(),
            files: Mutex::new(files),
            reload_error: Mutex::default(),
            changes,
            seen: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            settled: Notify::new(),
            stopping: CancellationToken::new(),
        });
        let gateway = Self { inner };
        tokio::spawn(take_changes(gateway.clone(), changed));
        let watching = gateway.clone();
        tokio::spawn(async move { watching.inner.agents.watch().await });
        tokio::spawn(keep_watch(gateway.inner.approvals.clone(), gateway.inner.stopping.clone()));
        tokio::spawn(tell(Arc::clone(&gateway.inner), gateway.inner.stopping.clone()));
        for server in &settings.servers {
            gateway.start_server(server.clone());
        }
        gateway.refresh(None);
        gateway
    }

    /// Makes the next snapshot from what the operator wrote. Calls under way keep theirs.
    pub fn reload(&self, files: impl Into<Files>) {
        let files = files.into();
        let before = self.inner.snapshot.load_full();
        let (old, settings) = (&before.settings, Arc::clone(&files.settings));
        let changes = diff(old, &settings);
        for name in changes.removed.iter().chain(&changes.changed) {
            self.stop_server(name);
        }
        for server in &settings.servers {
            if changes.added.contains(&server.name) || changes.changed.contains(&server.name) {
                self.start_server(server.clone());
            }
        }
        *self.reload_error_slot() = None;
        let two_key = settings.intent.two_key;
        self.inner.approvals.set(&settings.approvals, links(&settings, &self.inner.base_url));
        self.refresh(Some(files));
        if two_key != old.intent.two_key {
            self.inner.audience.four_tools_changed();
        }
        for name in changes.added.iter().chain(&changes.removed).chain(&changes.changed) {
            for kind in [Kind::Tools, Kind::Prompts, Kind::Resources] {
                self.inner.audience.list_changed(name, kind);
            }
        }
        let after = self.inner.snapshot.load_full();
        for (name, kind) in changed_lists(&before, &after) {
            self.inner.audience.list_changed(&name, kind);
        }
        let ledger = self.inner.ledger.clone();
        tokio::spawn(async move { record::note_settings(&ledger, None).await });
    }

    /// New settings were no good: the old ones stay, and the reason is shown.
    pub fn reload_failed(&self, message: String) {
        let ledger = self.inner.ledger.clone();
        let reason = message.clone();
        tokio::spawn(async move { record::note_settings(&ledger, Some(reason)).await });
        *self.reload_error_slot() = Some(message);
    }

    pub fn reload_error(&self) -> Option<String> {
        self.reload_error_slot().clone()
    }

    /// Questions to users.
    pub fn approvals(&self) -> &Approvals {
        &self.inner.approvals
    }

    /// Every enabled server has connected or failed once, and what came of it is in the snapshot.
    pub fn is_ready(&self) -> bool {
        let all_tried = self.servers_table().values().all(|supervised| supervised.server.was_tried());
        all_tried && self.inner.has_taken_all()
    }

    pub async fn ready(&self) {
        loop {
            let settled = self.inner.settled.notified();
            if self.is_ready() {
                return;
            }
            settled.await;
        }
    }

    /// Waits until news of servers is in the snapshot. News that comes from this call on is waited for, also if the
    /// future is looked at later.
    pub fn settled(&self) -> impl Future<Output = ()> {
        self.inner.settled.notified()
    }

    /// Every server by name. One is ready when its tools are listed, a moment after it has told them.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let statuses: Vec<ServerStatus> = self.servers_table().values().map(|s| s.server.status()).collect();
        let snapshot = self.inner.snapshot.load();
        let is_unlisted = |status: &ServerStatus| status.tools > 0 && snapshot.awaits_tools(&status.name);
        let shown = |status: ServerStatus| match status.state {
            StateName::Ready if is_unlisted(&status) => ServerStatus { state: StateName::Connecting, ..status },
            _ => status,
        };
        statuses.into_iter().map(shown).collect()
    }

    /// The last lines of a server's log; `None` when there is no such server.
    pub fn server_log(&self, name: &ServerName, lines: usize) -> Option<Vec<Untrusted>> {
        self.servers_table().get(name).map(|supervised| supervised.server.last_log(lines))
    }

    /// Restarts a server; `false` when there is no such enabled server.
    pub fn restart(&self, name: &ServerName) -> bool {
        match self.servers_table().get(name) {
            Some(Supervised { server, task: Some(_) }) => {
                server.request_restart();
                true
            }
            _ => false,
        }
    }

    /// Ends sessions and servers, then finishes the log and closes the store.
    pub async fn stop(&self) {
        self.inner.stopping.cancel();
        let servers = std::mem::take(&mut *self.servers_table());
        let leaving = std::mem::take(&mut *self.inner.leaving.lock().unwrap_or_else(PoisonError::into_inner));
        let mut tasks = Vec::new();
        for supervised in servers.into_values().chain(leaving) {
            supervised.server.stop.cancel();
            tasks.extend(supervised.task);
        }
        let all = futures::future::join_all(tasks);
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            tracing::warn!("some servers did not leave in time");
        }
        if let Err(error) = self.inner.ledger.finish().await {
            tracing::error!(%error, "the end of the activity log could not be written");
        }
        self.inner.store.close().await;
    }

    fn start_server(&self, settings: mcpproxy_core::settings::ServerSettings) {
        let name = settings.name.clone();
        let is_enabled = settings.enabled;
        let server = Arc::new(Server::new(settings, &self.inner.logs));
        let task = is_enabled.then(|| {
            let watch = Arc::new(Watcher(self.inner.changes.clone(), Arc::downgrade(&self.inner)));
            tokio::spawn(supervise(Arc::clone(&server), Arc::clone(&self.inner.demo), watch))
        });
        self.servers_table().insert(name, Supervised { server, task });
    }

    /// Lets a server go. Nobody finds it any more, and it leaves when its open calls are done.
    fn stop_server(&self, name: &ServerName) {
        let Some(supervised) = self.servers_table().remove(name) else { return };
        let server = Arc::clone(&supervised.server);
        tokio::spawn(async move {
            let _late = tokio::time::timeout(OPEN_CALLS, server.idle()).await;
            server.stop.cancel();
        });
        let mut leaving = self.inner.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|supervised| supervised.task.as_ref().is_some_and(|task| !task.is_finished()));
        leaving.push(supervised);
    }

    /// Builds the next snapshot, from what the operator wrote anew if there is such.
    fn refresh(&self, anew: Option<Files>) {
        let mut files = self.inner.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(anew) = anew {
            *files = anew;
        }
        let before = self.inner.snapshot.load_full();
        let servers = self.servers_table().iter().map(|(name, s)| (name.clone(), Arc::clone(&s.server))).collect();
        self.inner.snapshot.store(Arc::new(Snapshot::build(files.clone(), servers, Some(&before))));
    }

    fn servers_table(&self) -> MutexGuard<'_, BTreeMap<ServerName, Supervised>> {
        self.inner.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reload_error_slot(&self) -> MutexGuard<'_, Option<String>> {
        self.inner.reload_error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where links for users lead.
fn links(settings: &Settings, base_url: &str) -> String {
    settings.approvals.public_url.as_deref().unwrap_or(base_url).trim_end_matches('/').to_owned()
}

/// Passes a supervisor's news on to the task that makes snapshots.
struct Watcher(mpsc::UnboundedSender<(ServerName, Change)>, std::sync::Weak<Inner>);

impl Watch for Watcher {
    fn changed(&self, server: &Server, change: Change) {
        if let Some(inner) = self.1.upgrade() {
            inner.seen.fetch_add(1, Ordering::AcqRel);
        }
        // Between the two: whoever sees the server as tried knows of news to wait for, and is woken when it is taken.
        server.set_tried();
        let _stopping = self.0.send((server.name().clone(), change));
    }
}

/// Gathers changes, makes a snapshot, then tells who listens: in this order, so that who asks on hearing it sees it.
async fn take_changes(gateway: Gateway, mut changed: mpsc::UnboundedReceiver<(ServerName, Change)>) {
    while let Some(first) = changed.recv().await {
        tokio::time::sleep(GATHER).await;
        let mut changes = vec![first];
        while let Ok(more) = changed.try_recv() {
            changes.push(more);
        }
        let count = changes.len() as u64;
        let before = gateway.inner.snapshot.load_full();
        let rebuild = gateway.clone();
        let built = tokio::task::spawn_blocking(move || rebuild.refresh(None)).await;
        if let Err(error) = built {
            tracing::error!(%error, "could not build a snapshot");
        }
        announce(&gateway, changes, &before).await;
        gateway.inner.taken.fetch_add(count, Ordering::AcqRel);
        gateway.inner.settled.notify_waiters();
    }
}

/// The lists that changed with the tools. Contracts are resources; a tool that agents cannot see changes nothing.
fn changed_lists(before: &Snapshot, after: &Snapshot) -> impl Iterator<Item = (ServerName, Kind)> {
    let changed = after.catalog.changed_since(&before.catalog).into_iter();
    changed.flat_map(|Changed { server, contracts }| {
        [Some(Kind::Tools), contracts.then_some(Kind::Resources)]
            .into_iter()
            .flatten()
            .map(move |kind| (server.clone(), kind))
    })
}

async fn announce(gateway: &Gateway, changes: Vec<(ServerName, Change)>, before: &Snapshot) {
    let inner = &gateway.inner;
    let after = inner.snapshot.load_full();
    let mut lists: HashSet<(ServerName, Kind)> = changed_lists(before, &after).collect();
    for (name, change) in changes {
        match change {
            Change::Connected => {
                lists.extend([Kind::Prompts, Kind::Resources].map(|kind| (name.clone(), kind)));
                record::note_server(&inner.ledger, &name, None).await;
            }
            Change::Failed(reason) => record::note_server(&inner.ledger, &name, Some(reason)).await,
            Change::Tools => {}
            Change::Prompts => drop(lists.insert((name, Kind::Prompts))),
            Change::Resources => drop(lists.insert((name, Kind::Resources))),
            Change::ResourceUpdated(params) => {
                if let Some(uri) = member(&params, "uri").and_then(string_value) {
                    inner.audience.resource_updated(&name, &uri, &params);
                }
            }
        }
    }
    for (name, kind) in lists {
        inner.audience.list_changed(&name, kind);
    }
}
