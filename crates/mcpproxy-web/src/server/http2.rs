//! Serves HTTP/2 on a connection, with the limits that HTTP/1 has, and some that only HTTP/2 needs.
//!
//! A connection of HTTP/2 has many requests at a time, so what HTTP/1 gets from the order of its bytes needs a limit of
//! its own here:
//!
//! | attack | limit |
//! |---|---|
//! | many requests at once | [`STREAMS_MAX`] |
//! | long heads, endless `CONTINUATION` frames | [`HEAD_MAX_BYTES`] |
//! | bodies that nobody has read yet | the two windows: a peer may not send more before we have read |
//! | requests that are reset at once ("rapid reset") | [`RESETS_MAX`] requests that wait, [`LOCAL_RESETS_MAX`] errors |
//! | a connection without a request | closed after the timeouts of HTTP/1 for a head |
//! | a peer that never opens its window, so that its answers stay in memory | closed after the timeout of HTTP/1 |
//! | a peer that is gone | a ping every [`PING_INTERVAL`] |
//!
//! The bodies of requests have the same deadline as with HTTP/1 (`body.rs`). A request with `Transfer-Encoding`, or with a
//! `Content-Length` other than that of its body, is an error of the protocol, which the library refuses itself.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Condition, Patience};
use super::handshake::SecureStream;
use super::service::ConnectionService;
use crate::App;
use crate::peer::Peer;

/// Requests at a time on one connection. Every open page has one that waits for events.
const STREAMS_MAX: u32 = 64;
/// Longest head of a request, decompressed. All heads of a connection together may take [`STREAMS_MAX`] times as much.
const HEAD_MAX_BYTES: u32 = 16 * 1024;
/// Unread bytes of one request, and of all requests of a connection. The second is larger, so that a request that waits
/// for its turn does not stop the others.
const STREAM_WINDOW: u32 = 32 * 1024;
const CONNECTION_WINDOW: u32 = 128 * 1024;
/// Bytes of one answer that wait to be sent.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
const RESETS_MAX: usize = 20;
const LOCAL_RESETS_MAX: usize = 128;
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between two looks at a connection, to find an idle or stalled one.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Protocol that was agreed on in the handshake.
pub(super) const NAME: &[u8] = b"h2";

/// Serves requests until the connection ends. Stops taking new ones when `draining` is cancelled.
pub(super) async fn serve(
    stream: SecureStream,
    app: App,
    peer: Peer,
    activity: &Arc<Activity>,
    draining: &CancellationToken,
    patience: Patience,
) {
    let service = ConnectionService::new(app, peer, Arc::clone(activity)).with_concurrent_requests();
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = pin!(connection);
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    let mut is_draining = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = draining.cancelled(), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = looks.tick() => match activity.condition(patience) {
                Condition::InUse => {}
                // The client is told to open another connection for its next request.
                Condition::Idle if !is_draining => {
                    is_draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                // It was told a second ago, and takes too long to go.
                Condition::Idle => return,
                Condition::Stalled => {
                    tracing::debug!("closed a connection whose peer does not read its answers");
                    return;
                }
            }
        }
    }
}
