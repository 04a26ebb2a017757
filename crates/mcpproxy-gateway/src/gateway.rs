//! The running gateway: starts everything, stops, and answers operators.

mod cluster;
mod contracts;
mod counts;
mod readings;
mod reload;
mod reviews;
mod servers;
mod settings;
mod sign_ins;
mod tool_changes;
mod tools;
mod user_dry_runs;
mod verification;
mod versions;
mod what_if;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use mcpproxy_core::lock::Lock;
use mcpproxy_core::settings::Settings;
use mcpproxy_core::{Agent, Offered, ServerName, Untrusted};
use mcpproxy_store::{Ledger, SealingKey, Store, StoreError, is_stored_token};
use tokio::sync::{broadcast, watch};

use crate::agents::Session;
use crate::approvals::{Approvals, InForce, keep_watch, notify};
use crate::encoding::keep_encoding;
use crate::events::GatewayEvent;
use crate::export::{self, ExportProgress};
use crate::held::HeldChanges;
use crate::members::Members;
use crate::message::member;
use crate::oauth::OAuth;
use crate::record;
use crate::replicas::keep_listening;
use crate::snapshot::{Files, Snapshot};
use crate::state::SharedState;
use crate::status::{ClientStatus, ServerStatus, StateName};
use crate::telemetry::Telemetry;
use crate::tool_lists::ToolLists;
use crate::trusted::Trust;
use crate::upstream::{Origin, adopt_orphans, reap, sweep};
use counts::ToolCounts;
use reviews::follow_reviews;
use servers::Servers;
use verification::VerificationSlot;
use what_if::Replays;

pub use contracts::{Draft, DraftError, Lint, PolicyResult, version};
pub use readings::{EncoderReadings, GatewayReadings};
pub use reviews::{History, LockOf, LockView};
pub use tools::{ExplainError, ListedTool, Reasons, SearchResults};
pub use user_dry_runs::{DryRunReport, DryRunResult};
pub use verification::{LOG_VERIFIED, Verification, fully_verified_ms};
pub use what_if::{ReplayError, WhatIf};

/// Time for calls to end whose servers were stopped, and for their answers.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A handle on the running gateway. Clones refer to the same gateway.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) state: Arc<SharedState>,
    servers: Arc<Servers>,
    oauth: Arc<OAuth>,
    base_url: Arc<str>,
    reload_error: Arc<Mutex<Option<String>>>,
    held: Arc<Mutex<Option<Arc<HeldChanges>>>>,
    replays: Arc<Replays>,
    verification: Arc<VerificationSlot>,
    export: Option<Arc<ExportProgress>>,
}

pub struct Options {
    pub files: Files,
    pub store: Store,
    pub ledger: Ledger,
    /// Folder for the servers' logs.
    pub logs: PathBuf,
    /// Folder for the tools that each server listed last.
    pub tools: PathBuf,
    /// Start of links for users, unless the settings name another: `http://localhost:8080`. Its scheme is the one that
    /// the listener speaks.
    pub base_url: String,
    /// The program and arguments that run the demo server on standard input and output.
    pub demo_command: Vec<String>,
    /// With a lock file, exactly the definitions in it are accepted.
    pub lock: Option<Arc<Lock>>,
    /// Encrypts the tokens of servers.
    pub sealing_key: SealingKey,
    /// Exports traces of calls.
    pub telemetry: Telemetry,
}

impl Gateway {
    /// Starts everything and returns at once. Servers connect in the background.
    pub fn start(options: Options) -> Self {
        let Options { files, store, ledger, logs, tools, base_url, demo_command, lock, sealing_key, telemetry } =
            options;
        adopt_orphans();
        let left_behind = sweep(&logs);
        if left_behind > 0 {
            tracing::warn!(count = left_behind, "stopped server processes that an earlier gateway left behind");
        }
        let settings = Arc::clone(&files.settings);
        let snapshot = Snapshot::build(files.clone(), Default::default(), None);
        let snapshot = Arc::new(ArcSwap::from_pointee(snapshot));
        let members = Arc::new(Members::new(store.clone(), ledger.verifier().chain().to_owned()));
        let in_force = InForce { snapshot: Arc::clone(&snapshot), members: Arc::clone(&members) };
        let base = link_base(&settings, &base_url);
        let approvals = Approvals::new(store.clone(), ledger.clone(), in_force, &settings.approvals, base);
        let state = SharedState::new(store, ledger, approvals, snapshot, members, Trust::new(lock));
        let state = Arc::new(state.exporting_to(telemetry).listening_at(&base_url));
        let oauth = OAuth::new(
            state.store.clone(),
            state.ledger.clone(),
            sealing_key,
            link_base(&settings, &base_url),
            record::now_ms,
        );
        state.provider_tokens.set(settings.agents.oauth.as_ref());
        state.ledger.measure(settings.metrics.enabled);
        let lists = ToolLists::new(tools);
        let replays = Arc::new(Replays::new(lists.clone()));
        let servers = Servers::new(Arc::clone(&state), files, lists, logs, demo_command.into(), Arc::clone(&oauth));
        let (base_url, reload_error, held) = (base_url.into(), Arc::default(), Arc::default());
        let verification = Arc::default();
        let export = export::start(settings.export.as_ref(), &state.store, &state.ledger, &state.stopping);
        let gateway = Self { state, servers, oauth, base_url, reload_error, held, replays, verification, export };
        let watching = Arc::clone(&gateway.state);
        tokio::spawn(async move { watching.tokens.watch().await });
        tokio::spawn(keep_listening(Arc::clone(&gateway.state)));
        let (approvals, stopping) = (&gateway.state.approvals, &gateway.state.stopping);
        tokio::spawn(keep_watch(approvals.clone(), stopping.clone()));
        tokio::spawn(notify(approvals.clone(), stopping.clone()));
        tokio::spawn(reap(stopping.clone()));
        tokio::spawn(keep_encoding(Arc::clone(&gateway.state)));
        for server in &settings.servers {
            gateway.servers.start(server.clone(), Origin::Start);
        }
        gateway.servers.refresh(None);
        tokio::spawn(follow_reviews(gateway.clone()));
        gateway
    }

    /// Returns the tools that servers list now, also those that contracts forbid.
    pub fn offered(&self) -> Vec<Arc<Offered>> {
        let snapshot = self.state.snapshot.load();
        snapshot.offers.values().flat_map(|offers| offers.tools.tools().cloned()).collect()
    }

    /// Receives changes of the gateway's state from now on.
    pub fn events(&self) -> broadcast::Receiver<GatewayEvent> {
        self.state.events.subscribe()
    }

    /// Forgets cached tokens, so that a token that was just revoked stops working at once.
    pub fn forget_tokens(&self) {
        self.state.tokens.forget();
    }

    /// Finds the agent of a token of any kind, for requests other than those of MCP. Returns `None` for a token that is
    /// not accepted.
    pub async fn find_agent(&self, token: &str) -> Result<Option<Arc<Agent>>, StoreError> {
        match self.state.provider_tokens.accepted() {
            Some(accepted) if !is_stored_token(token) => Ok(accepted.find(token).await.ok().map(|found| found.agent)),
            Some(_) | None => self.state.tokens.find(token).await,
        }
    }

    /// Lists agents that came with a token of the identity provider, by name: since the start, or since the last change
    /// of `agents.oauth`.
    pub fn provider_agents(&self) -> Vec<Arc<Agent>> {
        self.state.provider_tokens.accepted().map(|accepted| accepted.agents()).unwrap_or_default()
    }

    pub fn approvals(&self) -> &Approvals {
        &self.state.approvals
    }

    /// Returns true once every enabled server has connected or failed, and the snapshot contains the result.
    pub fn is_ready(&self) -> bool {
        self.servers.were_all_tried() && self.state.has_applied_all_news()
    }

    /// Returns how long probes wait for servers that have neither connected nor failed.
    pub fn ready_timeout(&self) -> Duration {
        self.state.snapshot.load().settings.ready_timeout
    }

    pub async fn ready(&self) {
        loop {
            let changed = self.state.news_applied();
            if self.is_ready() {
                return;
            }
            changed.await;
        }
    }

    /// Waits until reports of servers have entered the snapshot. Counts reports from this call on, even if the future
    /// is polled later.
    pub fn settled(&self) -> impl Future<Output = ()> {
        self.state.news_applied()
    }

    /// Lists every server by name. A server is ready when the snapshot has its tools, a moment after it connected.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let statuses = self.servers.statuses();
        let snapshot = self.state.snapshot.load();
        let is_unlisted = |status: &ServerStatus| status.tools > 0 && snapshot.awaits_tools(&status.name);
        let counts = ToolCounts::of(&snapshot);
        let counted = |status: ServerStatus| {
            let ToolCounts { destructive, unasked, unannotated } =
                counts.get(&status.name).copied().unwrap_or_default();
            ServerStatus {
                destructive_tools: destructive,
                unasked_tools: unasked,
                unannotated_tools: unannotated,
                ..status
            }
        };
        let shown = |status: ServerStatus| match status.state {
            StateName::Ready if is_unlisted(&status) => ServerStatus { state: StateName::Connecting, ..status },
            StateName::Connecting
            | StateName::Ready
            | StateName::Waiting
            | StateName::Disabled
            | StateName::Misconfigured
            | StateName::NeedsSignIn => status,
        };
        statuses.into_iter().map(shown).map(counted).collect()
    }

    /// Lists the clients that have a session. Clients of the stateless revision have none.
    pub fn clients(&self) -> Vec<ClientStatus> {
        let status = |session: Arc<Session>| ClientStatus {
            agent: session.agent.clone(),
            client: session.client.clone(),
            protocol: session.revision.clone(),
            elicitation: member(&session.capabilities, "elicitation").is_some(),
            idle: session.idle(),
        };
        self.state.sessions.list().into_iter().map(status).collect()
    }

    /// Returns the last lines of a server's log, or `None` if there is no such server.
    pub fn server_log(&self, name: &ServerName, lines: usize) -> Option<Vec<Untrusted>> {
        self.servers.find(name).map(|server| server.last_log(lines))
    }

    /// Restarts a server, or returns why it cannot be started.
    pub fn restart(&self, name: &ServerName) -> Result<(), NotRestarted> {
        let server = self.servers.find(name).ok_or(NotRestarted::NoServer)?;
        if !server.settings.enabled {
            return Err(NotRestarted::Disabled);
        }
        if let Some(reason) = server.misconfigured() {
            return Err(NotRestarted::Misconfigured(reason));
        }
        server.request_restart();
        Ok(())
    }

    /// Counts the calls that servers are running now, also servers that left the settings.
    pub fn running_calls(&self) -> usize {
        self.servers.running_calls()
    }

    /// Watches the number of calls that wait for the answer of another with the same idempotency key.
    pub fn sharing(&self) -> watch::Receiver<usize> {
        self.state.sharing.subscribe()
    }

    /// Returns how long a stopping gateway waits for calls that are running.
    pub fn shutdown_grace(&self) -> Duration {
        self.state.snapshot.load().settings.shutdown_grace
    }

    /// Waits until every request of an agent is answered. Ends what would not end by itself: streams on which agents
    /// only listen, and calls that wait for a user or for the retry of a stateless client.
    pub async fn drain(&self) {
        self.state.stopping.cancel();
        self.state.parked.end_all();
        self.state.in_progress.none().await;
    }

    /// Stops everything in order: servers, answers, log, store. Does not wait for running calls; see [`Self::drain`].
    pub async fn stop(&self) {
        self.stop_servers().await;
        self.finish().await;
    }

    /// Stops the servers. A call that still runs fails, and gets a moment to be recorded and answered.
    pub async fn stop_servers(&self) {
        self.state.stopping.cancel();
        self.servers.stop_all().await;
        let _late = tokio::time::timeout(LAST_ANSWERS, self.drain()).await;
    }

    /// Finishes the log and closes the store. The caller must have closed all connections of agents: an answer that
    /// leaves the gateway after this would have no outcome in the log.
    pub async fn finish(&self) {
        self.state.silent.cancel();
        self.leave().await;
        if let Err(error) = self.state.ledger.finish().await {
            tracing::error!(%error, "could not write the end of the activity log");
        }
        self.state.store.close().await;
        self.state.telemetry.flush().await;
    }
}

/// Reason why a server is not restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRestarted {
    NoServer,
    Disabled,
    /// Its settings have a mistake, which is named here.
    Misconfigured(String),
}

/// Returns the start of links for users: `approvals.public_url`, or else the gateway's own address.
fn link_base(settings: &Settings, base_url: &str) -> String {
    settings.approvals.public_url.as_deref().unwrap_or(base_url).trim_end_matches('/').to_owned()
}
