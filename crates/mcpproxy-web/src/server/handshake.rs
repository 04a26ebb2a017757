//! Starts TLS on a new connection, within a deadline, and answers clients that speak plain HTTP.
//!
//! The connection counts against all limits before its handshake begins, and can be replaced while it lasts
//! (`connections.rs`). So a flood of half handshakes keeps nobody out.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::write_deadline::DeadlineStream;

/// Time from the first byte of a connection to the end of its handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// First byte of every TLS connection: the type of a handshake record.
const HANDSHAKE_RECORD: u8 = 22;
/// Bytes of a plain request that are read before the connection is closed. Closing it with unread bytes would reset it,
/// and the client could lose the answer.
const DRAIN_MAX_BYTES: u64 = 64 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const PLAIN_TEXT: &str = "This address speaks HTTPS. Write https:// instead of http:// in the URL.\n";

/// A connection after its handshake. The deadline is below TLS, so that it also covers what TLS itself sends.
pub(super) type SecureStream = TlsStream<DeadlineStream<TcpStream>>;

/// Waits for the handshake. Returns an error if the client is late, or does not speak TLS.
pub(super) async fn accept(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    timeout: Duration,
    write_timeout: Duration,
) -> io::Result<SecureStream> {
    let handshake = async {
        let mut first = [0];
        let read = stream.peek(&mut first).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first != [HANDSHAKE_RECORD] {
            refuse_plain(stream).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"));
        }
        TlsAcceptor::from(config).accept(DeadlineStream::new(stream, write_timeout)).await
    };
    tokio::time::timeout(timeout, handshake).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Tells a client that speaks plain HTTP what to change.
async fn refuse_plain(mut stream: TcpStream) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{PLAIN_TEXT}",
        PLAIN_TEXT.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let (mut rest, mut nowhere) = (stream.take(DRAIN_MAX_BYTES), tokio::io::sink());
    let drained = tokio::io::copy(&mut rest, &mut nowhere);
    let _slow_clients_lose_the_answer = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
    Ok(())
}
