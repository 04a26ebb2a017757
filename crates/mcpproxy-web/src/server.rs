//! Accepts HTTP connections and serves the routes on them.
//!
//! Anyone who reaches the port may connect, so nothing here waits without a limit: the head of a request has a timeout,
//! its body a deadline (`body.rs`), the reading of its answer another one (`write_deadline.rs`), and the number of
//! connections a bound (`connections.rs`).

mod accept_log;
mod body;
mod connections;
mod framing;
mod service;
mod watched_stream;
mod write_deadline;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub use self::connections::ConnectionLimits;

use self::accept_log::AcceptLog;
use self::connections::{Connections, Slot};
use self::service::ConnectionService;
use self::watched_stream::WatchedStream;
use self::write_deadline::{DeadlineStream, WRITE_TIMEOUT};
use crate::App;
use crate::peer::Peer;

/// Timeout for the head of the first request on a connection.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an idle connection. Agents think between calls.
const NEXT_HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Longest head of a request, and memory that a connection may take for bytes that nobody has read yet.
const BUFFER_MAX_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, for example when the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the routes until it is dropped or finished.
pub struct HttpServer {
    listeners: Listeners,
    app: App,
    connections: GracefulShutdown,
    /// Cancelled to close all connections at once.
    cut: CancellationToken,
    table: Arc<Connections>,
    write_timeout: Duration,
}

/// The listening sockets. `localhost` stands for two addresses, and a program on the other one could impersonate the
/// gateway to a browser.
pub struct Listeners {
    pub main: TcpListener,
    pub twin: Option<TcpListener>,
}

impl Listeners {
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let twin = async {
            match &self.twin {
                Some(twin) => twin.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.main.accept() => accepted,
            accepted = twin => accepted,
        }
    }
}

impl HttpServer {
    pub fn new(listeners: Listeners, app: App, limits: ConnectionLimits) -> Self {
        let (connections, cut) = (GracefulShutdown::new(), CancellationToken::new());
        Self { listeners, app, connections, cut, table: Connections::new(limits), write_timeout: WRITE_TIMEOUT }
    }

    /// Closes connections as soon as their peer does not read.
    #[cfg(test)]
    pub(crate) fn impatient(self) -> Self {
        Self { write_timeout: Duration::ZERO, ..self }
    }

    /// Serves until dropped.
    pub async fn run(&self) {
        let mut log = AcceptLog::default();
        loop {
            match self.listeners.accept().await {
                Ok((stream, address)) => {
                    // After the accept: nothing is replaced for a connection that does not exist yet.
                    let slot = self.table.slot().await;
                    self.serve(stream, Peer::of(address.ip()), slot);
                }
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    log.failed(&error, Instant::now());
                    // Other parts of the process may have opened more files than expected.
                    self.table.close_one(None);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Returns a token that closes all connections at once, also those that are being answered.
    pub fn cut(&self) -> CancellationToken {
        self.cut.clone()
    }

    /// Closes idle connections and waits for the answers of all others.
    pub async fn finish(self) {
        drop(self.listeners);
        self.connections.shutdown().await;
    }

    fn serve(&self, stream: TcpStream, peer: Peer, slot: Slot) {
        let Some(open) = self.table.add(peer, slot) else {
            tracing::debug!("closed a new connection, because all others of its address are busy");
            return;
        };
        // Without TCP_NODELAY, a small answer in two segments waits 40 ms for a delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not turn off Nagle's algorithm");
        }
        let service = ConnectionService::new(self.app.clone(), peer, Arc::clone(&open.activity));
        let stream = DeadlineStream::new(stream, self.write_timeout);
        let connection = http1::Builder::new()
            .timer(HeadTimer::default())
            .header_read_timeout(FIRST_HEAD_TIMEOUT)
            .max_buf_size(BUFFER_MAX_BYTES)
            .serve_connection(
                TokioIo::new(WatchedStream::new(stream, Arc::clone(&open.activity))),
                TowerToHyperService::new(service),
            );
        let connection = self.connections.watch(connection);
        let cut = self.cut.clone();
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended early");
                    }
                }
                () = open.close.cancelled() => tracing::debug!("closed a waiting connection to make room for another"),
                () = cut.cancelled() => {}
            }
        });
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// Extends hyper's head timeout for every request after the first.
///
/// hyper starts the timeout when the previous answer is complete. Ten seconds are right for the first request, but too
/// short for a connection that waits for the next call.
#[derive(Default)]
struct HeadTimer {
    is_used: AtomicBool,
}

impl HeadTimer {
    fn deadline(&self, deadline: Instant) -> Instant {
        if self.is_used.swap(true, Ordering::Relaxed) {
            deadline + (NEXT_HEAD_TIMEOUT - FIRST_HEAD_TIMEOUT)
        } else {
            deadline
        }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        TokioTimer::new().sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        TokioTimer::new().sleep_until(self.deadline(deadline))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        TokioTimer::new().reset(sleep, self.deadline(deadline));
    }
}
