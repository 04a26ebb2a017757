//! Writes messages to a process, one line after the other.
//!
//! A line that has begun is written to its end, even if its sender stops waiting. Otherwise the next message would follow
//! half a line, and both would be lost.
//!
//! Agents share the process, and a line of megabytes takes as long as the process reads. So large lines queue among
//! themselves, and only the first of them waits for the input. A small line waits for at most one large one.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use super::error::UpstreamError;
use crate::message;
use crate::offload;

/// Empty once the input was closed.
type Input = Option<ChildStdin>;

pub(crate) struct LinesOut {
    input: Arc<Mutex<Input>>,
    /// Held by the large line that is next.
    large_turn: Arc<Mutex<()>>,
    /// Writes large lines. Their senders may run at low priority, and everybody else would wait for them.
    runtime: Handle,
}

impl LinesOut {
    pub(super) fn new(stdin: ChildStdin) -> Self {
        Self { input: Arc::new(Mutex::new(Some(stdin))), large_turn: Arc::default(), runtime: Handle::current() }
    }

    /// Sends a message. `Unsent` means that the process has read no part of it. A server that stops reading blocks calls
    /// for no longer than it lives, which `ended` tells.
    pub(super) async fn send(&self, text: String, ended: &CancellationToken) -> Result<(), UpstreamError> {
        let mut line = message::into_one_line(text).into_bytes();
        line.push(b'\n');
        let (input, ended) = (Arc::clone(&self.input), ended.clone());
        if !offload::is_large(line.len()) {
            return write(input, line, ended).await;
        }
        let turn = Arc::clone(&self.large_turn);
        let in_turn = async move {
            let _turn = tokio::select! {
                turn = turn.lock() => turn,
                () = ended.cancelled() => return Err(UpstreamError::Unsent),
            };
            write(input, line, ended.clone()).await
        };
        offload::on(&self.runtime, in_turn).await
    }

    /// Closes the input, which asks the process to exit.
    pub(super) async fn close(&self) {
        self.input.lock().await.take();
    }
}

async fn write(input: Arc<Mutex<Input>>, line: Vec<u8>, ended: CancellationToken) -> Result<(), UpstreamError> {
    let input = tokio::select! {
        input = input.lock_owned() => input,
        () = ended.cancelled() => return Err(UpstreamError::Unsent),
    };
    LineOut { input: Some(input), line, at: 0, ended }.write().await
}

/// A line on its way.
struct LineOut {
    input: Option<OwnedMutexGuard<Input>>,
    line: Vec<u8>,
    /// Number of bytes written so far.
    at: usize,
    ended: CancellationToken,
}

impl LineOut {
    async fn write(mut self) -> Result<(), UpstreamError> {
        let Some(input) = self.input.as_mut().and_then(|input| input.as_mut()) else {
            return Err(UpstreamError::Unsent);
        };
        while let Some(rest) = self.line.get(self.at..).filter(|rest| !rest.is_empty()) {
            let written = tokio::select! {
                written = input.write(rest) => written.unwrap_or(0),
                () = self.ended.cancelled() => 0,
            };
            if written == 0 {
                // The process does not read any more, so there is nothing to finish.
                self.line.clear();
                return Err(if self.at == 0 { UpstreamError::Unsent } else { UpstreamError::Closed });
            }
            self.at += written;
        }
        input.flush().await.map_err(|_| UpstreamError::Closed)
    }
}

impl Drop for LineOut {
    fn drop(&mut self) {
        let rest = self.line.get(self.at..).unwrap_or_default();
        if self.at == 0 || rest.is_empty() {
            return;
        }
        if let Some(mut input) = self.input.take() {
            let (rest, ended) = (rest.to_vec(), self.ended.clone());
            tokio::spawn(async move {
                let finish = async {
                    if let Some(input) = input.as_mut() {
                        let _down = input.write_all(&rest).await;
                    }
                };
                tokio::select! {
                    () = finish => {}
                    () = ended.cancelled() => {}
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn a_small_line_waits_for_one_large_line_only() {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = Arc::new(LinesOut::new(child.stdin.take().unwrap()));
        let send = |text: String| {
            let lines = Arc::clone(&lines);
            tokio::spawn(async move { lines.send(text, &CancellationToken::new()).await })
        };
        // Nobody reads yet, so the first line fills the pipes.
        let large = |letter: &str| letter.repeat(1_000_000);
        let mut sent = vec![send(large("a")), send(large("b")), send(large("c"))];
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        sent.push(send("small".to_owned()));
        tokio::task::yield_now().await;
        let mut read = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut order = Vec::new();
        for _ in 0..sent.len() {
            let line = read.next_line().await.unwrap().unwrap();
            order.push(line.get(..1).unwrap_or_default().to_owned());
        }
        assert_eq!(order, ["a", "s", "b", "c"]);
        for one in sent {
            assert!(one.await.unwrap().is_ok());
        }
    }

    #[tokio::test]
    async fn a_line_that_nothing_was_written_of_is_unsent() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = Arc::new(LinesOut::new(child.stdin.take().unwrap()));
        let ended = CancellationToken::new();
        let send = |text: String| {
            let (lines, ended) = (Arc::clone(&lines), ended.clone());
            tokio::spawn(async move { lines.send(text, &ended).await })
        };
        let begun = send("a".repeat(1_000_000));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let waiting = [send("b".repeat(1_000_000)), send("small".to_owned())];
        tokio::task::yield_now().await;
        ended.cancel();
        assert!(matches!(begun.await.unwrap(), Err(UpstreamError::Closed)));
        for one in waiting {
            assert!(matches!(one.await.unwrap(), Err(UpstreamError::Unsent)));
        }
        lines.close().await;
        assert!(matches!(lines.send("late".to_owned(), &CancellationToken::new()).await, Err(UpstreamError::Unsent)));
    }
}
