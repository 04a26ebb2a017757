//! Invariants of cutting any bytes of a server or an agent into lines.
//!
//! Each reader is compared with a plain reading of the whole input, for several sizes of the pieces in which the bytes
//! arrive. So a line can depend neither on the pipe nor on the lines before it.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use tokio::io::{AsyncRead, ReadBuf};

use crate::agent_lines::{AgentLine, AgentLines};
use crate::lines::{Line, Lines};

/// Limits of a line, and of the bytes after it that may be skipped. The second pair is longer than the traces.
const LIMITS: [(usize, usize); 2] = [(8, 16), (300, 600)];
const TRACE_BYTES: usize = 256;
const PIECES: [usize; 4] = [1, 3, 64, usize::MAX];

pub(crate) fn check(bytes: &[u8]) {
    for (limit, skip_max) in LIMITS {
        let expected = server_lines(bytes, limit, skip_max);
        for size in PIECES {
            assert_eq!(read_server(bytes, size, limit, skip_max), expected, "pieces of {size}: {bytes:?}");
            assert_eq!(read_agent(bytes, size, limit), agent_lines(bytes, limit), "pieces of {size}: {bytes:?}");
        }
    }
}

/// Returns the lines up to an endless one, after which the connection is closed.
fn server_lines(bytes: &[u8], limit: usize, skip_max: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = piece.strip_suffix(b"\n");
        let (line, is_ended) = (line.unwrap_or(piece), line.is_some());
        let Some(over) = line.len().checked_sub(limit).filter(|over| *over > 0) else {
            lines.extend(is_ended.then(|| Line::Whole(line.to_vec())));
            continue;
        };
        lines.push(Line::Overflows { head: line.iter().copied().take(limit.min(TRACE_BYTES)).collect() });
        if over > skip_max {
            lines.push(Line::Endless);
            break;
        }
        let tail = line.iter().copied().skip(line.len().saturating_sub(TRACE_BYTES)).collect();
        lines.extend(is_ended.then_some(Line::TooLong { tail }));
    }
    lines
}

fn read_server(bytes: &[u8], size: usize, limit: usize, skip_max: usize) -> Vec<Line> {
    let taken = Cell::new(0);
    let mut reader = Lines::new(Pieces { left: bytes, size, taken: &taken }, limit, skip_max);
    let (mut lines, mut done) = (Vec::new(), 0);
    while let Some(line) = reader.next().now_or_never().flatten() {
        match &line {
            Line::Whole(bytes) => done += bytes.len() + 1,
            // The first byte over the limit is enough to know. So no more than the limit was kept.
            Line::Overflows { .. } => assert!(size > 1 || taken.get() == done + limit + 1, "{bytes:?}"),
            Line::TooLong { .. } => done = taken.get(),
            Line::Endless => {}
        }
        let is_endless = line == Line::Endless;
        assert_eq!(reader.is_skipping(), matches!(line, Line::Overflows { .. } | Line::Endless), "{bytes:?}");
        lines.push(line);
        if is_endless {
            break;
        }
    }
    lines
}

fn agent_lines(bytes: &[u8], limit: usize) -> Vec<AgentLine> {
    let is_long = |line: &[u8]| line.strip_suffix(b"\n").unwrap_or(line).len() > limit;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| if is_long(line) { AgentLine::TooLong } else { AgentLine::Whole(line.to_vec()) }).collect()
}

fn read_agent(bytes: &[u8], size: usize, limit: usize) -> Vec<AgentLine> {
    let taken = Cell::new(0);
    let mut reader = AgentLines::new(Pieces { left: bytes, size, taken: &taken }, limit);
    let mut lines = Vec::new();
    while let Some(Ok(Some(line))) = reader.next().now_or_never() {
        lines.push(line);
    }
    lines
}

/// A pipe that hands out a few bytes at a time, and counts them.
struct Pieces<'b> {
    left: &'b [u8],
    size: usize,
    taken: &'b Cell<usize>,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let size = self.size.min(buffer.remaining()).min(self.left.len());
        let (piece, rest) = self.left.split_at(size);
        buffer.put_slice(piece);
        self.left = rest;
        self.taken.set(self.taken.get() + size);
        Poll::Ready(Ok(()))
    }
}
