//! Accepts connections and serves the routes on them.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use mcpproxy_web::App;
use tokio::net::{TcpListener, TcpStream};

/// A client that has not sent its first request by then is not going to.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// An agent thinks between calls; its connection may stay that long without one.
const NEXT_HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// When we may open no more files, the ones we have must be closed before accepting makes sense again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct HttpServer {
    listeners: Listeners,
    app: App,
    connections: GracefulShutdown,
}

/// Where we listen. `localhost` is two addresses, and whoever had the other one could pose as us to a browser.
pub(crate) struct Listeners {
    pub(crate) main: TcpListener,
    pub(crate) twin: Option<TcpListener>,
}

impl Listeners {
    async fn accept(&self) -> io::Result<TcpStream> {
        let twin = async {
            match &self.twin {
                Some(twin) => twin.accept().await,
                None => std::future::pending().await,
            }
        };
        let (stream, _peer) = tokio::select! {
            accepted = self.main.accept() => accepted,
            accepted = twin => accepted,
        }?;
        Ok(stream)
    }
}

impl HttpServer {
    pub(crate) fn new(listeners: Listeners, app: App) -> Self {
        Self { listeners, app, connections: GracefulShutdown::new() }
    }

    /// Serves for as long as it is polled.
    pub(crate) async fn run(&self) {
        loop {
            match self.listeners.accept().await {
                Ok(stream) => self.serve(stream),
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Ends idle connections at once and lets the others finish their answers.
    pub(crate) async fn finish(self) {
        drop(self.listeners);
        self.connections.shutdown().await;
    }

    fn serve(&self, stream: TcpStream) {
        // Without this a small answer in two segments waits 40 ms for the other side's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not turn off Nagle's algorithm");
        }
        let connection = http1::Builder::new()
            .timer(HeadTimer::default())
            .header_read_timeout(FIRST_HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.app.clone()));
        let connection = self.connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
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

/// hyper has one timeout for a request's head and starts it when the last answer is done. Ten seconds are right
/// against clients that never send a whole head, and too short for a connection that waits for the next call.
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
