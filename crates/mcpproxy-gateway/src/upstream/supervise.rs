//! Keeps one server connected, in a task of its own.
//!
//! ```text
//!  connecting ──▶ reach ──▶ read lists ──▶ ready ──▶ follow notices ──┐
//!      ▲                                                              │ connection lost
//!      └── exponential backoff ◀── failed ◀───────────────────────────┘
//! ```
//!
//! One life of a connection is [`run_once`]. It ends in one of three ways ([`End`]): the gateway stops the server, an
//! operator restarts it, or it failed. A failure waits from 1 s up to 60 s before the next attempt, with jitter. A
//! connection that lasted a minute resets the wait. A call to a server that is down ends the wait, at most once a second.
//!
//! A server that asks for OAuth is not connected again until a user signs in, the settings change, or an operator restarts
//! it. Every [`SIGN_IN_LOOK`], the store is asked for a sign-in at another gateway. The sign-in of a connected server is
//! looked after at the same pace, so that its token does not expire while no agent calls it.
//!
//! Invariants:
//!
//! - **A server's trouble is its own.** Each has its own task, limits and backoff. A server that hangs, floods or
//!   crashes delays no other.
//! - **The lists come before ready.** A server becomes ready only after its tools were read, so no call finds a
//!   connected server without tools.
//! - **The process group ends with the connection.** Every way out of `run_once` stops the process and what it started.
//! - **Reports come in order.** `Watch::changed` is called after the state changed. The snapshot is built from that
//!   state.
//!
//! Why reconnect at once when a server lost its session? The server is up and answered 404. A new handshake repairs
//! that, and calls wait for it (`forward.rs`). Backoff would only make them fail.
//!
//! Why read the tools again on an interval (`tools_refresh`)? Some servers change their tools without a notification, and
//! a decision rests on annotations. One server is read at a time in the whole process. A server that does not answer in
//! time keeps its connection and its previous list, because it may be busy with a call.
//!
//! Example: the log of a server whose command does not exist says `could not start`, and `servers list` shows `waiting`
//! with that reason until an attempt succeeds or the settings change.

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::settings::TransportSettings;
use rand::RngExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connect::{Reached, reach};
use super::connection::{Connection, Link, Request};
use super::error::UpstreamError;
use super::notices::Notices;
use super::offers::Offers;
use super::server::Server;
use super::{Notice, diagnosis, stdio};
use crate::protocol::Era;

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// A connection that lasted this long resets the backoff.
const GOOD_RUN: Duration = Duration::from_secs(60);
/// Shortest time between two reads of a list that a server keeps changing.
const RELOAD_PAUSE: Duration = Duration::from_millis(100);
/// The pause is at least this many times as long as the read. So a server with a long list that it keeps changing takes
/// a fraction of one core.
const RELOAD_SHARE: u32 = 4;

/// Timeout of a read of the tools on the interval. Other servers wait for their turn meanwhile.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two looks at a sign-in: for a change at another gateway, and for a token that is about to expire.
const SIGN_IN_LOOK: Duration = Duration::from_secs(10);

/// The turn to read tools on the interval, so that a hundred servers are not read at once.
static REFRESH_TURN: Semaphore = Semaphore::const_new(1);

/// Receives reports about a server.
pub(crate) trait Watch: Send + Sync {
    fn changed(&self, server: &Arc<Server>, change: Change);
}

pub(crate) enum Change {
    Connected,
    Failed {
        reason: String,
        hint: Option<String>,
    },
    Tools,
    /// The tools could not be read again, for this reason. Reported once, until they can be read.
    ToolsUnread(String),
    Prompts,
    Resources,
    ResourceUpdated(String),
    /// A judgement without a new list: after a user's decision, or with other rules.
    Judged,
}

enum End {
    Stop,
    Restart,
    Failed(UpstreamError),
}

pub(crate) async fn supervise(server: Arc<Server>, demo: Arc<[String]>, watch: Arc<dyn Watch>) {
    let mut backoff = BACKOFF_FIRST;
    loop {
        server.set_connecting();
        let started = Instant::now();
        match run_once(&server, &demo, watch.as_ref()).await {
            End::Stop => break,
            End::Restart => backoff = BACKOFF_FIRST,
            End::Failed(error) => {
                if started.elapsed() > GOOD_RUN {
                    backoff = BACKOFF_FIRST;
                }
                let (reason, hint) = explained(&server, &error);
                server.log.remark(&reason);
                server.set_failed(&error, reason.clone(), hint.clone()).await;
                watch.changed(&server, Change::Failed { reason, hint });
                if needs_user(&error) {
                    backoff = BACKOFF_FIRST;
                    tokio::select! {
                        () = signed_in(&server) => continue,
                        () = server.restart.notified() => continue,
                        () = server.stop.cancelled() => break,
                    }
                }
                // Jitter, so that a hundred servers that failed together do not reconnect together.
                let wait = backoff.mul_f64(rand::rng().random_range(0.8..1.2));
                backoff = (backoff * 2).min(BACKOFF_MAX);
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = server.restart.notified() => backoff = BACKOFF_FIRST,
                    () = sign_in_changed(&server) => backoff = BACKOFF_FIRST,
                    // A call needs the server now.
                    () = server.wanted.notified() => {}
                    () = server.stop.cancelled() => break,
                }
            }
        }
    }
    server.close_twin().await;
}

/// Returns true if the server stays away until a user signs in. Connecting again would only repeat the 401.
fn needs_user(error: &UpstreamError) -> bool {
    matches!(error, UpstreamError::SignIn(required) if !required.need.may_pass())
}

/// Waits until a user has signed in, here or at another gateway.
async fn signed_in(server: &Server) {
    let Some(tokens) = &server.tokens else { return std::future::pending().await };
    loop {
        tokio::select! {
            () = tokens.changed() => return,
            () = tokio::time::sleep(SIGN_IN_LOOK) => {
                if tokens.has_changed().await {
                    return;
                }
            }
        }
    }
}

/// Waits until a user signs in or out at this gateway.
async fn sign_in_changed(server: &Server) {
    match &server.tokens {
        Some(tokens) => tokens.changed().await,
        None => std::future::pending().await,
    }
}

/// Waits until a user signs in or out at this gateway, or the sign-in of the connected server ends. It ends when a user
/// signs out at another gateway, or when the provider no longer renews it. Meanwhile, keeps the token fresh.
async fn sign_in_over(server: &Server) {
    let Some(tokens) = server.tokens.as_ref().filter(|tokens| tokens.token().is_some()) else {
        return sign_in_changed(server).await;
    };
    loop {
        tokio::select! {
            () = tokens.changed() => return,
            () = tokio::time::sleep(SIGN_IN_LOOK) => {
                if !tokens.look_after().await {
                    return;
                }
            }
        }
    }
}

/// Words a failure, with a hint where the server's standard error suggests one.
fn explained(server: &Server, error: &UpstreamError) -> (String, Option<String>) {
    let mut reason = error.to_string();
    if let UpstreamError::SignIn(required) = error {
        return (reason, Some(required.hint()));
    }
    let env = match &server.settings.transport {
        TransportSettings::Stdio { env, .. } => env,
        TransportSettings::Http { .. }
        | TransportSettings::Sse { .. }
        | TransportSettings::Demo
        | TransportSettings::Misconfigured { .. } => return (reason, None),
    };
    let lines = server.log.run();
    if let (UpstreamError::Timeout(_), Some(line)) = (error, diagnosis::error_line(&lines)) {
        reason.push_str(&format!("; it wrote: {}", line.for_terminal()));
    }
    let is_set = |name: &str| {
        let passes = stdio::is_inherited(name) || server.settings.env_passthrough.iter().any(|passed| passed == name);
        env.iter().any(|(own, _)| own == name) || (passes && std::env::var_os(name).is_some())
    };
    let hint = diagnosis::missing_hint(&reason, &lines, &is_set);
    (reason, hint)
}

/// Runs one connection, from reaching the server to losing it.
async fn run_once(server: &Arc<Server>, demo: &[String], watch: &dyn Watch) -> End {
    let limit = server.settings.connect_timeout;
    let reached = tokio::select! {
        reached = tokio::time::timeout(limit, reach(&server.settings, demo, Arc::clone(&server.log), server.tokens.as_ref())) => reached,
        () = server.stop.cancelled() => return End::Stop,
        () = server.restart.notified() => return End::Restart,
        () = sign_in_changed(server) => return End::Restart,
    };
    let Reached { connection, process, notices } = match reached {
        Ok(Ok(reached)) => reached,
        Ok(Err(error)) => return End::Failed(error),
        Err(_) => return End::Failed(UpstreamError::Timeout(limit)),
    };
    let connection = Arc::new(connection);
    let pid = process.as_ref().and_then(|process| process.pid);
    let end = tokio::select! {
        end = live(server, &connection, pid, &notices, watch) => end,
        () = server.stop.cancelled() => End::Stop,
        () = server.restart.notified() => End::Restart,
        () = sign_in_over(server) => End::Restart,
    };
    match &connection.link {
        Link::Http(link) => link.close().await,
        // Ends the event stream, which the server may keep open. A process is stopped below.
        Link::Duplex(line) if process.is_none() => line.close().await,
        Link::Duplex(_) => {}
    }
    match process {
        None => end,
        Some(mut process) => {
            let end = match end {
                End::Failed(error) => End::Failed(process.explained(error).await),
                End::Stop | End::Restart => end,
            };
            process.stop().await;
            end
        }
    }
}

/// Reads the lists, then applies the server's notifications until the connection is lost.
async fn live(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    pid: Option<u32>,
    notices: &Notices,
    watch: &dyn Watch,
) -> End {
    let limit = server.settings.connect_timeout;
    match tokio::time::timeout(limit, Offers::load(connection, &server.settings)).await {
        Ok(Ok(offers)) => server.set_offers(offers),
        Ok(Err(error)) => return End::Failed(error),
        Err(_) => return End::Failed(UpstreamError::Timeout(limit)),
    }
    server.set_ready(Arc::clone(connection), pid);
    watch.changed(server, Change::Connected);
    let mut standing = JoinSet::new();
    match (&connection.link, connection.era) {
        (Link::Http(link), Era::Legacy) => {
            standing.spawn(Arc::clone(link).stand());
        }
        (_, Era::Modern) => {
            let connection = Arc::clone(connection);
            standing.spawn(async move { listen(&connection).await });
        }
        (Link::Duplex(_), Era::Legacy) => {}
    }
    let mut refresh_at = next_refresh(server);
    let mut is_unread = false;
    loop {
        let notice = tokio::select! {
            notice = notices.next() => notice,
            _turn = refresh_turn(refresh_at) => {
                let unread = refresh(server, connection, watch).await.err();
                let was_unread = std::mem::replace(&mut is_unread, unread.is_some());
                if let Some(reason) = unread.filter(|_| !was_unread) {
                    watch.changed(server, Change::ToolsUnread(reason));
                }
                refresh_at = next_refresh(server);
                continue;
            }
            () = connection.ended().cancelled() => return match &connection.link {
                Link::Http(link) if link.lost_session() => End::Restart,
                Link::Http(_) | Link::Duplex(_) => End::Failed(connection.end_reason()),
            },
        };
        if let Err(error) = take_notice(server, connection, notice, watch).await {
            return End::Failed(error);
        }
    }
}

/// Returns the time of the next read of the tools, if they are read on an interval. Jitter spreads servers that
/// connected together.
fn next_refresh(server: &Server) -> Option<Instant> {
    refresh_wait(server.settings.tools_refresh).map(|wait| Instant::now() + wait)
}

fn refresh_wait(interval: Duration) -> Option<Duration> {
    (!interval.is_zero()).then(|| interval.mul_f64(rand::rng().random_range(0.9..1.1)))
}

/// Waits until the tools are due, and for the turn to read them. Notifications are taken meanwhile.
async fn refresh_turn(at: Option<Instant>) -> Option<SemaphorePermit<'static>> {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
    REFRESH_TURN.acquire().await.ok()
}

/// Reads the tools again, and reports them if they changed. After a failure, which is returned as a reason, the previous
/// list remains. If the connection is lost, the supervisor notices it by itself.
async fn refresh(server: &Arc<Server>, connection: &Connection, watch: &dyn Watch) -> Result<(), String> {
    let mut offers = Offers::clone(&server.offers());
    let before = (Arc::clone(&offers.tools), offers.hidden.clone());
    let limit = server.settings.connect_timeout.min(REFRESH_TIMEOUT);
    let read = tokio::select! {
        read = tokio::time::timeout(limit, offers.load_tools(connection, &server.settings)) => read,
        () = connection.ended().cancelled() => return Ok(()),
    };
    read.unwrap_or(Err(UpstreamError::Timeout(limit))).map_err(|error| error.to_string())?;
    if !(offers.tools.tools().eq(before.0.tools()) && offers.hidden == before.1) {
        server.set_offers(offers);
        watch.changed(server, Change::Tools);
    }
    Ok(())
}

async fn take_notice(
    server: &Arc<Server>,
    connection: &Connection,
    notice: Notice,
    watch: &dyn Watch,
) -> Result<(), UpstreamError> {
    let mut offers = Offers::clone(&server.offers());
    let began = Instant::now();
    let limit = server.settings.connect_timeout;
    let late = |_| UpstreamError::Timeout(limit);
    let change = match notice {
        Notice::ToolsChanged => {
            tokio::time::timeout(limit, offers.load_tools(connection, &server.settings)).await.map_err(late)??;
            Change::Tools
        }
        Notice::PromptsChanged => {
            tokio::time::timeout(limit, offers.load_prompts(connection)).await.map_err(late)??;
            Change::Prompts
        }
        Notice::ResourcesChanged => {
            tokio::time::timeout(limit, offers.load_resources(connection)).await.map_err(late)??;
            Change::Resources
        }
        Notice::ResourceUpdated(params) => {
            watch.changed(server, Change::ResourceUpdated(params));
            return Ok(());
        }
    };
    server.set_offers(offers);
    watch.changed(server, change);
    tokio::time::sleep(RELOAD_PAUSE.max(began.elapsed() * RELOAD_SHARE)).await;
    Ok(())
}

/// Subscribes to list changes at a stateless server, if it supports that.
async fn listen(connection: &Connection) {
    let wanted = "{\"toolsListChanged\":true,\"promptsListChanged\":true,\"resourcesListChanged\":true}";
    loop {
        let began = Instant::now();
        let listened = connection.request(Request::new("subscriptions/listen", vec![("notifications", wanted)])).await;
        // A refusal is final. A stream that lasted and then broke is opened again.
        if matches!(listened, Ok(Err(_))) || began.elapsed() < BACKOFF_FIRST || connection.ended().is_cancelled() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_read_about_when_the_interval_has_passed() {
        assert_eq!(refresh_wait(Duration::ZERO), None);
        for _ in 0..100 {
            let wait = refresh_wait(Duration::from_secs(100)).unwrap();
            assert!((Duration::from_secs(90)..=Duration::from_secs(110)).contains(&wait), "{wait:?}");
        }
    }
}
