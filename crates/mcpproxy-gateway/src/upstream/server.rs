//! A server as the rest of the gateway sees it: its state, its offers, and its slots for concurrent calls.

mod reach;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures::FutureExt as _;
use mcpproxy_core::settings::{ServerSettings, WrittenTransport};
use mcpproxy_core::trust::DefinitionKind;
use mcpproxy_core::{Mistake, Offered, ServerName, Untrusted};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::admission::{Admission, Origin};
use super::connection::{Connection, Link};
use super::error::UpstreamError;
use super::log::ServerLog;
use super::offers::Offers;
use crate::agents::AgentKey;
use crate::fair_pool::FairPool;
use crate::oauth::{SignInNeed, SignInRequired, Tokens};
use crate::pace::Pace;
use crate::protocol::Era;
use crate::status::{ServerStatus, StateName};

pub(crate) struct Server {
    pub(crate) settings: ServerSettings,
    pub(super) log: Arc<ServerLog>,
    /// Slots for concurrent calls. Callers that wait are bounded by what their agents may have open.
    pub(super) slots: FairPool<AgentKey>,
    state: Mutex<State>,
    connection: ArcSwapOption<Connection>,
    twin: tokio::sync::Mutex<Twin>,
    offers: ArcSwap<Offers>,
    /// True once `offers` come from the server.
    has_listed: AtomicBool,
    /// The part of `offers` that agents may see.
    admission: ArcSwap<Admission>,
    /// Held while lists are judged, one after the other.
    pub(crate) judging: tokio::sync::Mutex<Pace>,
    /// True once `admission` is a judgement.
    is_judged: watch::Sender<bool>,
    /// True while a later judgement is planned.
    is_planned: AtomicBool,
    pub(crate) origin: Origin,
    /// True from the moment at which a user chose the server until its first list is stored.
    is_just_chosen: AtomicBool,
    /// The access token, for a server that may ask for OAuth.
    pub(crate) tokens: Option<Arc<Tokens>>,
    restarts: AtomicU64,
    was_tried: AtomicBool,
    /// Notified when a connection is established.
    connected: Notify,
    /// Wakes the supervisor from a backoff or a working connection, to restart the server.
    pub(super) restart: Notify,
    /// Wakes the supervisor from a backoff, because a call needs the server.
    pub(super) wanted: Notify,
    /// Counts attempts to connect that have ended, and connections that were lost.
    attempts: watch::Sender<u64>,
    /// The start of the last attempt to connect.
    attempted_at: Mutex<Option<Instant>>,
    pub(crate) stop: CancellationToken,
}

struct State {
    name: StateName,
    reason: Option<String>,
    hint: Option<String>,
    pid: Option<u32>,
    /// Set while the state is `NeedsSignIn`.
    sign_in: Option<Box<SignInRequired>>,
}

/// The second connection to a server that supports both eras. It is opened when first needed.
enum Twin {
    Unopened,
    Open(Arc<Connection>),
    /// The server supports only one era.
    Absent,
}

impl Server {
    pub(crate) fn new(settings: ServerSettings, logs: &Path, origin: Origin, tokens: Option<Arc<Tokens>>) -> Self {
        let reason = settings.transport.mistakes().map(described);
        let name = match (settings.enabled, &reason) {
            (false, _) => StateName::Disabled,
            (true, Some(_)) => StateName::Misconfigured,
            (true, None) => StateName::Connecting,
        };
        Self {
            log: Arc::new(ServerLog::new(logs, &settings.name)),
            slots: FairPool::new(settings.max_concurrent_calls, share_of(settings.max_concurrent_calls)),
            state: Mutex::new(State { name, reason, hint: None, pid: None, sign_in: None }),
            connection: ArcSwapOption::empty(),
            twin: tokio::sync::Mutex::new(Twin::Unopened),
            offers: ArcSwap::default(),
            has_listed: AtomicBool::new(false),
            admission: ArcSwap::default(),
            judging: tokio::sync::Mutex::default(),
            is_judged: watch::channel(false).0,
            is_planned: AtomicBool::new(false),
            origin,
            is_just_chosen: AtomicBool::new(false),
            tokens,
            restarts: AtomicU64::new(0),
            was_tried: AtomicBool::new(!settings.enabled || settings.transport.mistakes().is_some()),
            connected: Notify::new(),
            restart: Notify::new(),
            wanted: Notify::new(),
            attempts: watch::channel(0).0,
            attempted_at: Mutex::default(),
            stop: CancellationToken::new(),
            settings,
        }
    }

    pub(crate) fn name(&self) -> &ServerName {
        &self.settings.name
    }

    /// Returns true if a user has just chosen the server, and no list of it is stored since then.
    pub(crate) fn is_just_chosen(&self) -> bool {
        self.is_just_chosen.load(Ordering::Acquire)
    }

    pub(crate) fn set_just_chosen(&self, is_just_chosen: bool) {
        self.is_just_chosen.store(is_just_chosen, Ordering::Release);
    }

    /// Returns the newest lists, judged or not.
    pub(crate) fn offers(&self) -> Arc<Offers> {
        self.offers.load_full()
    }

    /// Returns false as long as the server was never connected, so that nothing is known about its lists.
    pub(crate) fn has_listed(&self) -> bool {
        self.has_listed.load(Ordering::Acquire)
    }

    /// Returns true once [`Server::admission`] is a judgement of the server's lists.
    pub(crate) fn is_judged(&self) -> bool {
        *self.is_judged.borrow()
    }

    /// Returns what agents may see of the lists.
    pub(crate) fn admission(&self) -> Arc<Admission> {
        self.admission.load_full()
    }

    pub(crate) fn set_admission(&self, admission: Admission) {
        self.admission.store(Arc::new(admission));
        self.is_judged.send_replace(true);
    }

    /// Returns true if its lists were judged and nothing of it is accepted. To agents, it has nothing then.
    pub(crate) fn is_closed(&self) -> bool {
        *self.is_judged.borrow() && !self.admission.load().is_open
    }

    /// Waits for the first judgement, and returns an error for a server of which nothing is accepted.
    pub(super) async fn opened(&self) -> Result<(), UpstreamError> {
        if !*self.is_judged.borrow() {
            let mut judged = self.is_judged.subscribe();
            tokio::select! {
                _judged = judged.wait_for(|is_judged| *is_judged) => {}
                () = self.stop.cancelled() => {}
            }
        }
        if self.admission.load().is_open { Ok(()) } else { Err(self.unavailable()) }
    }

    /// Names the server's command or address. Pins belong to it.
    pub(crate) fn written_transport(&self) -> WrittenTransport {
        self.settings.identity.shown()
    }

    pub(crate) fn identity(&self) -> &str {
        self.settings.identity.key()
    }

    /// Returns true if the newest list still describes the tool as it is in this snapshot's offers. A list that was
    /// read after the snapshot may be unjudged, and a call must not slip through before its judgement.
    pub(crate) fn still_lists(&self, tool: &Offered, offers: &Arc<Offers>) -> bool {
        let (admission, listed) = (self.admission.load(), self.offers.load());
        if Arc::ptr_eq(&admission.offers, offers) && Arc::ptr_eq(&admission.listed, &listed) {
            return true;
        }
        // A tool that is gone is the server's to refuse.
        listed.tools.tools().find(|listed| listed.name == tool.name).is_none_or(|listed| listed.json == tool.json)
            && !admission.held.keys().any(|key| key.kind == DefinitionKind::Tool && *key.name == *tool.name.tool())
    }

    /// Plans a later judgement. Returns false if one is planned.
    pub(crate) fn plan(&self) -> bool {
        !self.is_planned.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn begin_planned(&self) {
        self.is_planned.store(false, Ordering::Release);
    }

    /// Returns true if the server may keep a log level that can be set. A stateless server gets the level with each
    /// request, but over HTTP it may also support sessions.
    pub(crate) fn keeps_log_level(&self) -> bool {
        self.connection.load().as_ref().is_some_and(|connection| match connection.era {
            Era::Legacy => connection.can("logging"),
            Era::Modern => matches!(connection.link, Link::Http(_)),
        })
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.load().is_some()
    }

    /// Returns true after the first attempt to connect, successful or not.
    pub(crate) fn was_tried(&self) -> bool {
        self.was_tried.load(Ordering::Acquire)
    }

    pub(crate) fn last_log(&self, lines: usize) -> Vec<Untrusted> {
        self.log.last(lines)
    }

    pub(crate) fn request_restart(&self) {
        self.restart.notify_one();
    }

    pub(crate) fn status(&self) -> ServerStatus {
        // Read first, because it is set last. A server that counts as judged then shows the lists of that judgement.
        let is_judged = *self.is_judged.borrow();
        let admission = self.admission.load();
        let offers = &admission.offers;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.wanted_scopes();
        let lapsed = self.lapsed_sign_in().filter(|_| state.name == StateName::Ready);
        let (reason, hint) = match (&wanted, &lapsed) {
            (Some(required), _) => (Some(required.to_string()), Some(required.hint())),
            // A user cannot help. The gateway tries again by itself.
            (None, Some(required)) => (Some(required.to_string()), None),
            (None, None) => (state.reason.clone(), state.hint.clone()),
        };
        ServerStatus {
            name: self.settings.name.clone(),
            title: self.settings.title.clone(),
            transport: self.settings.transport.kind(),
            state: match state.name {
                // Its tools are read, and not judged yet.
                StateName::Ready if !is_judged => StateName::Connecting,
                // Calls that the sign-in allows still run.
                StateName::Ready if wanted.is_some() => StateName::NeedsSignIn,
                // The connection lasts, but every call fails until the token is renewed.
                StateName::Ready if lapsed.is_some() => StateName::Waiting,
                name @ (StateName::Connecting
                | StateName::Ready
                | StateName::Waiting
                | StateName::Disabled
                | StateName::Misconfigured
                | StateName::NeedsSignIn) => name,
            },
            reason,
            hint,
            tools: offers.tools.len(),
            // These follow from contracts and settings, which a server does not know.
            destructive_tools: 0,
            unasked_tools: 0,
            unannotated_tools: 0,
            prompts: offers.prompts.len(),
            resources: offers.resources.len() + offers.templates.len(),
            protocol: self.connection.load().as_ref().map(|connection| connection.version.clone()),
            pid: state.pid,
            restarts: self.restarts.load(Ordering::Relaxed),
            is_signed_in: self.tokens.as_ref().is_some_and(|tokens| tokens.token().is_some()),
            quarantined: admission.held.len(),
            to_review: admission.waiting(),
            hidden_tools: offers.hidden.clone(),
            unchecked_tools: offers.unchecked(),
        }
    }

    /// Returns the scopes that a connected server asked for and its sign-in does not have.
    fn wanted_scopes(&self) -> Option<SignInRequired> {
        let tokens = self.tokens.as_ref()?;
        let scopes = tokens.wanted();
        (!scopes.is_empty()).then(|| tokens.required(SignInNeed::MoreScopes(scopes)))
    }

    /// Returns why the token of the sign-in could not be renewed, if it has expired.
    fn lapsed_sign_in(&self) -> Option<SignInRequired> {
        let tokens = self.tokens.as_ref()?;
        tokens.lapsed().map(|need| tokens.required(need))
    }

    /// Returns why the server cannot be started, if its settings have mistakes.
    pub(crate) fn misconfigured(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reason.clone().filter(|_| state.name == StateName::Misconfigured)
    }

    /// Returns the reason why there is no connection.
    pub(crate) fn unavailable(&self) -> UpstreamError {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let because = state.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let text = format!("server '{}' is {}{because}", self.settings.name, state.name.as_str());
        match state.name {
            StateName::Misconfigured => UpstreamError::Misconfigured(text),
            StateName::NeedsSignIn | StateName::Waiting | StateName::Connecting => match &state.sign_in {
                Some(required) => UpstreamError::SignIn(required.clone()),
                None => UpstreamError::Unavailable(text),
            },
            StateName::Ready | StateName::Disabled => UpstreamError::Unavailable(text),
        }
    }

    /// Sets the state to connecting. The reason of the last failure stays visible.
    pub(super) fn set_connecting(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *self.attempted_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        // This attempt is the one that calls asked for.
        let _asked_before = self.wanted.notified().now_or_never();
        state.name = StateName::Connecting;
        state.pid = None;
    }

    pub(super) fn set_offers(&self, offers: Offers) {
        self.offers.store(Arc::new(offers));
        self.has_listed.store(true, Ordering::Release);
    }

    pub(super) fn set_ready(&self, connection: Arc<Connection>, pid: Option<u32>) {
        self.connection.store(Some(connection));
        self.set_state(State { name: StateName::Ready, reason: None, hint: None, pid, sign_in: None });
        self.connected.notify_waiters();
        self.attempts.send_modify(|count| *count += 1);
    }

    /// Counts the calls that were sent and not answered yet.
    pub(crate) fn running_calls(&self) -> usize {
        self.slots.held()
    }

    /// Waits until no call is open.
    pub(crate) async fn idle(&self) {
        self.slots.emptied().await;
    }

    pub(super) async fn set_failed(&self, error: &UpstreamError, reason: String, hint: Option<String>) {
        self.connection.store(None);
        let sign_in = if let UpstreamError::SignIn(required) = error { Some(required.clone()) } else { None };
        let needs_user = sign_in.as_ref().is_some_and(|required| !required.need.may_pass());
        let name = if needs_user { StateName::NeedsSignIn } else { StateName::Waiting };
        self.set_state(State { name, reason: Some(reason), hint, pid: None, sign_in });
        if !needs_user {
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
        self.attempts.send_modify(|count| *count += 1);
        self.close_twin().await;
    }

    /// Marks the first attempt as finished.
    pub(crate) fn set_tried(&self) {
        self.was_tried.store(true, Ordering::Release);
    }

    fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// Returns how many slots one agent may hold. An eighth is left for other agents, so that they need not wait until a
/// slow call ends. With fewer than four slots, that would cost a single agent too much.
fn share_of(slots: usize) -> usize {
    match slots {
        0..4 => slots,
        4.. => slots - (slots / 8).max(1),
    }
}

/// Describes mistakes in one line: the first with its position, and the number of others.
fn described(mistakes: &[Mistake]) -> String {
    let first = mistakes.first().map(ToString::to_string).unwrap_or_default();
    match mistakes.len() {
        0 | 1 => first,
        count => format!("{first} (and {} more; run `mcpproxy config check`)", count - 1),
    }
}
