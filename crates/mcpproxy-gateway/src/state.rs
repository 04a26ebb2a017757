//! State that all requests share, below everything that works on it.
//!
//! The public [`Gateway`](crate::Gateway) owns the servers' tasks and builds snapshots. The path of a call needs none
//! of that. It needs the current snapshot, the store, and a few tables that outlive snapshots, and those are here.
//! Keeping the two apart lets `call` and `downstream` depend on the state without depending on what fills it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use mcpproxy_core::{Limits, ServerName};
use mcpproxy_store::{Ledger, Store};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::agents::{Listeners, Parked, ProviderTokens, RejectedTokens, SessionIds, Sessions, TokenCache, Usages};
use crate::approvals::{Approvals, RequestStates};
use crate::bus::Bus;
use crate::events::Events;
use crate::in_progress::InProgress;
use crate::kept_answers::KeptAnswers;
use crate::members::Members;
use crate::meter::CallMeter;
use crate::snapshot::Snapshot;
use crate::telemetry::Telemetry;
use crate::trusted::Trust;
use crate::versions::Versions;

/// Longest wait of a call for a server that is being reached for the first time.
const FIRST_TRY: Duration = Duration::from_secs(10);

pub(crate) struct SharedState {
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) members: Arc<Members>,
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
    pub(crate) tokens: TokenCache,
    pub(crate) provider_tokens: ProviderTokens,
    pub(crate) rejected_tokens: RejectedTokens,
    pub(crate) listeners: Listeners,
    pub(crate) sessions: Sessions,
    pub(crate) session_ids: SessionIds,
    /// The way to other gateways with the same database.
    pub(crate) bus: Arc<Bus>,
    pub(crate) usages: Usages,
    pub(crate) parked: Parked,
    /// Says that the store counts the calls of limited tools, with their records.
    pub(crate) limits: Limits,
    /// Times calls, for metrics.
    pub(crate) meter: CallMeter,
    /// Exports traces.
    pub(crate) telemetry: Telemetry,
    pub(crate) approvals: Approvals,
    pub(crate) request_states: RequestStates,
    /// Counts the answers that are kept for repeated calls.
    pub(crate) kept_answers: KeptAnswers,
    pub(crate) events: Events,
    /// Number of calls that wait for the answer of another with the same idempotency key.
    pub(crate) sharing: watch::Sender<usize>,
    /// Cancelled when the gateway stops. Ends the streams on which agents only listen.
    pub(crate) stopping: CancellationToken,
    /// Requests of agents, and answers that are not written yet.
    pub(crate) in_progress: InProgress,
    /// Cancelled before the log closes. From then on, no agent gets an answer.
    pub(crate) silent: CancellationToken,
    /// Rules for definitions that do not come from the settings.
    pub(crate) trust: Trust,
    /// True if the listener speaks TLS. `tls` in the settings may have changed since the start.
    pub(crate) speaks_tls: bool,
    /// The version of the settings, if they come from the database.
    pub(crate) versions: Versions,
    /// Notified after every new snapshot, for the task that encodes tools.
    pub(crate) tools_changed: Notify,
    news: ServerNews,
}

/// Counts reports of servers, to tell whether all of them are in the snapshot.
#[derive(Default)]
struct ServerNews {
    reported: AtomicU64,
    applied: AtomicU64,
    changed: Notify,
}

impl SharedState {
    pub(crate) fn new(
        store: Store,
        ledger: Ledger,
        approvals: Approvals,
        snapshot: Arc<ArcSwap<Snapshot>>,
        members: Arc<Members>,
        trust: Trust,
    ) -> Self {
        let (memory_bytes, metered) = {
            let settings = &snapshot.load().settings;
            (settings.limits.memory_bytes, settings.metrics.enabled)
        };
        let bus = Arc::new(Bus::new(store.clone()));
        Self {
            session_ids: SessionIds::new(store.clone()),
            parked: Parked::new(bus.name()),
            bus,
            tokens: TokenCache::new(store.clone()),
            provider_tokens: ProviderTokens::default(),
            rejected_tokens: RejectedTokens::default(),
            listeners: Listeners::default(),
            sessions: Sessions::default(),
            usages: Usages::new(memory_bytes),
            limits: Limits::counted_by_store(None),
            meter: CallMeter::new(metered),
            request_states: RequestStates::new(store.clone()),
            kept_answers: KeptAnswers::new(store.clone()),
            events: Events::default(),
            sharing: watch::channel(0).0,
            stopping: CancellationToken::new(),
            in_progress: InProgress::default(),
            silent: CancellationToken::new(),
            versions: Versions::default(),
            tools_changed: Notify::new(),
            news: ServerNews::default(),
            trust,
            speaks_tls: false,
            telemetry: Telemetry::default(),
            snapshot,
            members,
            approvals,
            store,
            ledger,
        }
    }

    /// Exports the traces of calls.
    pub(crate) fn exporting_to(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// Sets the address that the gateway itself listens on.
    pub(crate) fn listening_at(self, base_url: &str) -> Self {
        Self { speaks_tls: base_url.starts_with("https://"), ..self }
    }

    /// Returns the snapshot for a call to a server. During the first connection attempt the server's tools are not
    /// known yet. The call waits for that attempt, and for nothing else.
    pub(crate) async fn snapshot_for(&self, name: Option<&ServerName>) -> Arc<Snapshot> {
        let snapshot = self.snapshot.load_full();
        let Some(name) = name.filter(|name| snapshot.awaits_tools(name)) else { return snapshot };
        let settled = async {
            loop {
                let changed = self.news_applied();
                let is_tried = self.snapshot.load().servers.get(name).is_none_or(|server| server.was_tried());
                if is_tried && self.has_applied_all_news() {
                    return;
                }
                changed.await;
            }
        };
        let _late = tokio::time::timeout(FIRST_TRY, settled).await;
        self.snapshot.load_full()
    }

    /// Counts a report of a server that the next snapshot will contain.
    pub(crate) fn report_news(&self) {
        self.news.reported.fetch_add(1, Ordering::AcqRel);
    }

    /// Marks reports as contained in the current snapshot, and wakes all tasks that wait for that.
    pub(crate) fn apply_news(&self, count: u64) {
        self.news.applied.fetch_add(count, Ordering::AcqRel);
        self.news.changed.notify_waiters();
    }

    /// Returns true if the snapshot contains everything that servers reported.
    pub(crate) fn has_applied_all_news(&self) -> bool {
        self.news.applied.load(Ordering::Acquire) >= self.news.reported.load(Ordering::Acquire)
    }

    /// Completes when reports of servers have entered the snapshot. Counts reports from this call on, even if the
    /// future is polled later.
    pub(crate) fn news_applied(&self) -> Notified<'_> {
        self.news.changed.notified()
    }
}
