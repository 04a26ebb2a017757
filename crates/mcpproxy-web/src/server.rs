//! Accepts HTTP connections and serves the routes on them.
//!
//! Anyone who reaches the port may connect, so nothing here waits without a limit: the head of a request has a timeout,
//! its body a deadline (`body.rs`), the reading of its answer another one (`write_deadline.rs`), and the number of
//! connections a bound (`connections.rs`).
//!
//! With a certificate, every connection begins with a TLS handshake (`handshake.rs`), in which the client chooses HTTP/1.1
//! or HTTP/2 (`http2.rs`). Without one, it is HTTP/1.1. The routes see no difference.

mod accept_log;
mod activity;
mod body;
mod connections;
mod framing;
mod handshake;
mod http2;
mod service;
mod watched_stream;
mod write_deadline;

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub use self::connections::ConnectionLimits;

use self::accept_log::AcceptLog;
use self::activity::{Activity, Patience};
use self::connections::Connections;
use self::handshake::HANDSHAKE_TIMEOUT;
use self::service::ConnectionService;
use self::watched_stream::WatchedStream;
use self::write_deadline::{DeadlineStream, WRITE_TIMEOUT};
use crate::App;
use crate::peer::Peer;
use crate::tls::Certificates;

/// Timeout for the head of the first request on a connection.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an idle connection. Agents think between calls.
const NEXT_HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Longest head of a request, and memory that a connection may take for bytes that nobody has read yet.
const BUFFER_MAX_BYTES: usize = 64 * 1024;
/// Pause after a failed accept, for example when the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that a stopping server still accepts. The queue of the system has as many places.
const WAITING_MAX: usize = 1024;
/// Time between two looks at a connection that is being answered, while the server stops.
const ANSWER_LOOK: Duration = Duration::from_millis(50);
/// Time without a request after which a stopping server closes a connection of HTTP/1.
const LAST_REQUEST_WAIT: Duration = Duration::from_secs(1);

/// Serves the routes until it is dropped or finished.
pub struct HttpServer {
    listeners: Listeners,
    routes: Routes,
}

/// The routes, and the connections on which they are served.
struct Routes {
    app: App,
    /// `None` for plain HTTP.
    tls: Option<Certificates>,
    connections: GracefulShutdown,
    /// Cancelled when no further request is taken.
    draining: CancellationToken,
    /// Cancelled to close all connections at once.
    cut: CancellationToken,
    table: Arc<Connections>,
    timeouts: Timeouts,
}

/// Shorter in tests.
#[derive(Clone, Copy)]
struct Timeouts {
    handshake: Duration,
    write: Duration,
}

/// The listening sockets. `localhost` stands for two addresses, and a program on the other one could impersonate the
/// gateway to a browser.
pub struct Listeners {
    pub main: TcpListener,
    pub twin: Option<TcpListener>,
}

impl Listeners {
    /// Stops listening. Returns the connections that were open already and waited to be accepted.
    fn close(self) -> Vec<(TcpStream, SocketAddr)> {
        [Some(self.main), self.twin].into_iter().flatten().flat_map(waiting).take(WAITING_MAX).collect()
    }

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
    /// Serves HTTPS if there is a certificate, and plain HTTP without one.
    pub fn new(listeners: Listeners, app: App, limits: ConnectionLimits, tls: Option<Certificates>) -> Self {
        let routes = Routes {
            app,
            tls,
            connections: GracefulShutdown::new(),
            draining: CancellationToken::new(),
            cut: CancellationToken::new(),
            table: Connections::new(limits),
            timeouts: Timeouts { handshake: HANDSHAKE_TIMEOUT, write: WRITE_TIMEOUT },
        };
        Self { listeners, routes }
    }

    /// Closes connections as soon as their peer does not read.
    #[cfg(test)]
    pub(crate) fn impatient(mut self) -> Self {
        self.routes.timeouts.write = Duration::ZERO;
        self
    }

    /// Closes connections soon whose handshake does not end.
    #[cfg(test)]
    pub(crate) fn with_handshake_timeout(mut self, timeout: Duration) -> Self {
        self.routes.timeouts.handshake = timeout;
        self
    }

    /// Serves until dropped.
    pub async fn run(&self) {
        let mut log = AcceptLog::default();
        loop {
            match self.listeners.accept().await {
                Ok((stream, address)) => {
                    self.routes.serve(stream, address).await;
                }
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    log.failed(&error, Instant::now());
                    // Other parts of the process may have opened more files than expected.
                    self.routes.table.close_one(None);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Returns a token that closes all connections at once, also those that are being answered.
    pub fn cut(&self) -> CancellationToken {
        self.routes.cut.clone()
    }

    /// Accepts no more connections, and waits until all are closed.
    ///
    /// A load balancer does not repeat a request that it may have sent. So connections that wait to be accepted are
    /// served, and those that were used in the last second get time for one more request.
    pub async fn finish(self) {
        let Self { listeners, routes } = self;
        routes.draining.cancel();
        for (stream, address) in listeners.close() {
            routes.serve(stream, address).await;
        }
        routes.connections.shutdown().await;
    }
}

impl Routes {
    /// Serves requests on a connection in the background. Waits until there is room for it.
    async fn serve(&self, stream: TcpStream, address: SocketAddr) {
        let peer = Peer::of(address.ip());
        // After the accept: nothing is replaced for a connection that does not exist yet.
        let slot = self.table.slot().await;
        let Some(open) = self.table.add(peer, slot) else {
            tracing::debug!("closed a new connection, because all others of its address are busy");
            return;
        };
        // Without TCP_NODELAY, a small answer in two segments waits 40 ms for a delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not turn off Nagle's algorithm");
        }
        let connection = NewConnection {
            app: self.app.clone(),
            peer,
            activity: Arc::clone(&open.activity),
            watcher: self.connections.watcher(),
            draining: self.draining.clone(),
            timeouts: self.timeouts,
        };
        let tls = self.tls.as_ref().map(Certificates::config);
        let cut = self.cut.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = connection.serve(stream, tls) => {}
                () = open.close.cancelled() => tracing::debug!("closed a waiting connection to make room for another"),
                () = cut.cancelled() => {}
            }
        });
    }
}

/// An accepted connection, on which nothing was read yet.
struct NewConnection {
    app: App,
    peer: Peer,
    activity: Arc<Activity>,
    /// A stopping server waits until it is dropped.
    watcher: Watcher,
    draining: CancellationToken,
    timeouts: Timeouts,
}

impl NewConnection {
    /// Serves requests until the connection ends.
    async fn serve(self, stream: TcpStream, tls: Option<Arc<ServerConfig>>) {
        let Timeouts { handshake, write } = self.timeouts;
        let Some(config) = tls else { return self.http1(DeadlineStream::new(stream, write)).await };
        let accepted = tokio::select! {
            accepted = handshake::accept(stream, config, handshake, write) => accepted,
            () = self.last_request() => return,
        };
        self.activity.handshake_ends();
        match accepted {
            Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
            Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(http2::NAME) => {
                let Self { app, peer, activity, watcher: _until_the_end, draining, .. } = self;
                let patience = Patience { first: FIRST_HEAD_TIMEOUT, next: NEXT_HEAD_TIMEOUT, write };
                // Boxed, because its state is large, and connections of HTTP/1 would pay for it.
                Box::pin(http2::serve(stream, app, peer, &activity, &draining, patience)).await;
            }
            Ok(stream) => self.http1(stream).await,
        }
    }

    async fn http1<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let service = ConnectionService::new(self.app.clone(), self.peer, Arc::clone(&self.activity));
        let connection = http1::Builder::new()
            .timer(HeadTimer::default())
            .header_read_timeout(FIRST_HEAD_TIMEOUT)
            .max_buf_size(BUFFER_MAX_BYTES)
            .serve_connection(
                TokioIo::new(WatchedStream::new(stream, Arc::clone(&self.activity))),
                TowerToHyperService::new(service),
            );
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            // First, so that what has arrived is read before the connection is closed.
            biased;
            ended = connection.as_mut() => ended,
            () = self.last_request() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    /// Waits until the server stops and a request that was on its way has arrived.
    async fn last_request(&self) {
        self.draining.cancelled().await;
        self.activity.next_answer_is_last();
        // The beginning of a running answer may have left already, so the peer does not know that it is the last.
        while self.activity.is_busy() {
            tokio::time::sleep(ANSWER_LOOK).await;
        }
        tokio::time::sleep(self.activity.wait_left(LAST_REQUEST_WAIT)).await;
        // On a busy machine, a request may have arrived during the wait without being read. This lets tokio notice it.
        tokio::task::yield_now().await;
    }
}

/// Accepts what waits at a listener, until nothing waits. tokio may not know yet that something does, so this asks the
/// system.
fn waiting(listener: TcpListener) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
    let listener = listener.into_std().ok();
    let accepted = std::iter::from_fn(move || match listener.as_ref()?.accept() {
        Ok(accepted) => Some(Some(accepted)),
        Err(error) if is_about_one_connection(&error) => Some(None),
        Err(_) => None,
    });
    accepted.flatten().filter_map(|(stream, address)| {
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, address))
    })
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
