//! Accepts HTTP connections and serves the routes on them.

mod service;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use self::service::ConnectionService;
use crate::App;
use crate::peer::Peer;

/// Timeout for the head of the first request on a connection.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an idle connection. Agents think between calls.
const NEXT_HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Pause after a failed accept, for example when the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the routes until it is dropped or finished.
pub struct HttpServer {
    listeners: Listeners,
    app: App,
    connections: GracefulShutdown,
    /// Cancelled to close all connections at once.
    cut: CancellationToken,
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
    pub fn new(listeners: Listeners, app: App) -> Self {
        Self { listeners, app, connections: GracefulShutdown::new(), cut: CancellationToken::new() }
    }

    /// Serves until dropped.
    pub async fn run(&self) {
        loop {
            match self.listeners.accept().await {
                Ok((stream, address)) => self.serve(stream, Peer::of(address.ip())),
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
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

    fn serve(&self, stream: TcpStream, peer: Peer) {
        // Without TCP_NODELAY, a small answer in two segments waits 40 ms for a delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not turn off Nagle's algorithm");
        }
        let service = ConnectionService::new(self.app.clone(), peer);
        let connection = http1::Builder::new()
            .timer(HeadTimer::default())
            .header_read_timeout(FIRST_HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let connection = self.connections.watch(connection);
        let cut = self.cut.clone();
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = connection => ended,
                () = cut.cancelled() => return,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
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
