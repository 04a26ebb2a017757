//! Ends connections whose peer does not read its answers.
//!
//! An answer that nobody reads stays in memory and keeps its connection busy, and a busy connection is never replaced
//! (`connections.rs`). So a peer that reads nothing would hold both for ever. This stream fails a write that makes no
//! progress for a while. hyper then drops the connection and the answer.
//!
//! Only a write that waits counts. An event stream without news writes nothing, and stays open. A slow reader stays too,
//! as long as it takes a few bytes now and then: what one agent leaves unread is limited elsewhere (`limits.memory`).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Longest time in which a peer may read nothing of an answer that waits for it.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A stream whose writes have to make progress.
pub(super) struct DeadlineStream<S> {
    inner: S,
    timeout: Duration,
    /// Set while a write waits for the peer.
    wait: Option<Pin<Box<Sleep>>>,
}

impl<S> DeadlineStream<S> {
    pub(super) fn new(inner: S, timeout: Duration) -> Self {
        Self { inner, timeout, wait: None }
    }

    /// Passes on the result of a write, or an error if the peer has read nothing for too long.
    fn in_time(&mut self, written: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.wait = None;
            return written;
        }
        let timeout = self.timeout;
        let wait = self.wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(wait.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for DeadlineStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DeadlineStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.in_time(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.in_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn an_answer_that_nobody_reads_fails() {
        let (near, _far) = tokio::io::duplex(4);
        let mut stream = DeadlineStream::new(near, Duration::ZERO);
        stream.write_all(b"fits").await.unwrap();
        assert_eq!(stream.write_all(b"!").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn every_byte_that_is_read_starts_the_time_again() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut stream = DeadlineStream::new(near, Duration::from_secs(3600));
        stream.write_all(b"fits").await.unwrap();
        assert!(stream.write(b"more").now_or_never().is_none());
        assert!(stream.wait.is_some());
        far.read_u8().await.unwrap();
        assert_eq!(stream.write(b"more").await.unwrap(), 1);
        assert!(stream.wait.is_none());
    }
}
