//! Reads the lines of a process, each within a size limit.
//!
//! A line over the limit is not kept. The reader reports it twice. At the limit it returns [`Line::Overflows`] with the
//! start of the line, so that the call it belongs to fails at once. Then it skips the rest and returns
//! [`Line::TooLong`] with the end of the line. A line that goes on for too long is [`Line::Endless`]: every later message
//! would be part of it, so the connection is of no use any more.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes kept of the start and end of an oversized line, to find the call it belongs to.
const TRACE_BYTES: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// The line has reached the limit. The rest of it follows.
    Overflows {
        head: Vec<u8>,
    },
    /// The line that overflowed has ended.
    TooLong {
        tail: Vec<u8>,
    },
    /// The line that overflowed did not end within the bytes that may be skipped.
    Endless,
}

pub(super) struct Lines<R> {
    reader: BufReader<R>,
    limit: usize,
    /// Bytes after the limit in which a line must end.
    skip_max: usize,
    /// The line so far. Kept here, so that a read can be interrupted.
    bytes: Vec<u8>,
    skipping: Option<Skipping>,
}

struct Skipping {
    tail: Vec<u8>,
    skipped: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(stream: R, limit: usize, skip_max: usize) -> Self {
        let reader = BufReader::with_capacity(64 * 1024, stream);
        Self { reader, limit, skip_max, bytes: Vec::new(), skipping: None }
    }

    /// Returns true while the rest of a line is skipped.
    pub(super) fn is_skipping(&self) -> bool {
        self.skipping.is_some()
    }

    /// Reads on. Returns `None` at the end of the stream, which drops an incomplete line. Safe to interrupt.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            let chunk = self.reader.fill_buf().await.ok()?;
            if chunk.is_empty() {
                return None;
            }
            let newline = memchr::memchr(b'\n', chunk);
            let part = chunk.get(..newline.unwrap_or(chunk.len())).unwrap_or_default();
            let room = self.limit.saturating_sub(self.bytes.len());
            match &mut self.skipping {
                None if part.len() > room => {
                    // What is left of this chunk is skipped in the next round.
                    let fits = room.min(part.len());
                    self.bytes.extend_from_slice(part.get(..fits).unwrap_or(part));
                    self.reader.consume(fits);
                    let line = std::mem::take(&mut self.bytes);
                    let head = line.get(..TRACE_BYTES).unwrap_or(&line).to_vec();
                    self.skipping = Some(Skipping { tail: last(&line).to_vec(), skipped: 0 });
                    return Some(Line::Overflows { head });
                }
                None => self.bytes.extend_from_slice(part),
                Some(skipping) => skipping.add(part),
            }
            let used = newline.map_or(chunk.len(), |at| at + 1);
            self.reader.consume(used);
            match (&self.skipping, newline) {
                (Some(skipping), _) if skipping.skipped > self.skip_max => return Some(Line::Endless),
                (_, None) => {}
                (Some(_), Some(_)) => {
                    let tail = self.skipping.take().map(|skipping| skipping.tail).unwrap_or_default();
                    return Some(Line::TooLong { tail });
                }
                (None, Some(_)) => return Some(Line::Whole(std::mem::take(&mut self.bytes))),
            }
        }
    }
}

impl Skipping {
    fn add(&mut self, part: &[u8]) {
        self.tail.extend_from_slice(last(part));
        self.tail = last(&self.tail).to_vec();
        self.skipped = self.skipped.saturating_add(part.len());
    }
}

fn last(bytes: &[u8]) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(TRACE_BYTES)..).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_leave_a_trace_only() {
        let text = format!("short\n{{\"id\":7,{}\"z\":1}}\nend\nhalf", "x".repeat(200_000));
        let mut lines = Lines::new(text.as_bytes(), 1000, 1_000_000);
        assert_eq!(lines.next().await, Some(Line::Whole(b"short".to_vec())));
        match lines.next().await {
            Some(Line::Overflows { head }) => assert!(head.starts_with(b"{\"id\":7,") && head.len() == TRACE_BYTES),
            other => panic!("expected the start of a line that is too long: {other:?}"),
        }
        assert!(lines.is_skipping());
        match lines.next().await {
            Some(Line::TooLong { tail }) => assert!(tail.ends_with(b"\"z\":1}") && tail.len() == TRACE_BYTES),
            other => panic!("expected the end of a line that is too long: {other:?}"),
        }
        assert!(!lines.is_skipping());
        assert_eq!(lines.next().await, Some(Line::Whole(b"end".to_vec())));
        assert_eq!(lines.next().await, None);
    }

    #[tokio::test]
    async fn a_line_at_the_limit_is_whole() {
        let text = format!("{}\n{}\n", "x".repeat(1000), "y".repeat(1001));
        let mut lines = Lines::new(text.as_bytes(), 1000, 1_000_000);
        assert_eq!(lines.next().await, Some(Line::Whole(vec![b'x'; 1000])));
        assert_eq!(lines.next().await, Some(Line::Overflows { head: vec![b'y'; TRACE_BYTES] }));
        assert_eq!(lines.next().await, Some(Line::TooLong { tail: vec![b'y'; TRACE_BYTES] }));
    }

    #[tokio::test]
    async fn a_line_without_end_is_given_up() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 1000, 500_000);
        assert!(matches!(lines.next().await, Some(Line::Overflows { .. })));
        assert_eq!(lines.next().await, Some(Line::Endless));
    }
}
