//! Finds requests whose length is ambiguous: with both `Content-Length` and `Transfer-Encoding`.
//!
//! A proxy in front of the gateway may use one of the two, and the gateway the other. Then they disagree about where a
//! request ends, and an attacker can hide a second request in the body of the first one (request smuggling). RFC 9112 lets
//! a server reject such requests, and this one does.
//!
//! hyper accepts them, and removes `Content-Length` before a service sees the request. So `watched_stream.rs` reads along
//! as the bytes arrive. To know where a head begins, it has to know where the body before it ended. [`Requests`] therefore
//! follows lengths and chunks, and nothing else. It reads a line at a time, keeps [`LINE_MAX_BYTES`] of it, and never
//! changes a byte.
//!
//! If it loses track of where a request ends, a later request could pass unseen. So a length that it does not understand
//! is ambiguous, too. hyper rejects nearly all of these itself. The others are lengths with hundreds of leading zeros, and
//! trailers with a bare line feed, which ends a line for some proxies and not for hyper.

use memchr::memchr;

/// Longer than any line that matters. Of a longer one, the beginning is enough.
const LINE_MAX_BYTES: usize = 256;
/// The digits of the largest 64-bit number. More are leading zeros.
const CHUNK_SIZE_MAX_DIGITS: usize = 16;

/// Follows the requests on a connection.
#[derive(Default)]
pub(super) struct Requests {
    part: Part,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// True if the last byte of that line is a carriage return, which may be behind the beginning that is kept.
    has_return: bool,
}

/// The part of a request that the next byte belongs to.
#[derive(Clone, Copy)]
enum Part {
    Head(Head),
    /// A body, or the data of a chunk with its line break. `then` follows after this many bytes.
    Bytes {
        left: u64,
        then: AfterBytes,
    },
    ChunkSize,
    Trailer,
    /// Whatever follows an ambiguous length.
    Unknown,
}

#[derive(Clone, Copy)]
enum AfterBytes {
    Head,
    ChunkSize,
}

/// The lines of a head so far.
#[derive(Clone, Copy, Default)]
struct Head {
    has_begun: bool,
    length: Length,
    is_encoded: bool,
}

#[derive(Clone, Copy, Default)]
enum Length {
    #[default]
    Missing,
    Known(u64),
    Malformed,
}

/// The result of looking at some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Nothing,
    AmbiguousLength,
}

impl Default for Part {
    fn default() -> Self {
        Self::Head(Head::default())
    }
}

impl Requests {
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Finding {
        while !bytes.is_empty() {
            match self.part {
                Part::Unknown => return Finding::Nothing,
                Part::Bytes { left, then } => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = bytes.get(here..).unwrap_or_default();
                    self.part = match (left.saturating_sub(u64::try_from(here).unwrap_or(u64::MAX)), then) {
                        (0, AfterBytes::Head) => Part::default(),
                        (0, AfterBytes::ChunkSize) => Part::ChunkSize,
                        (left, then) => Part::Bytes { left, then },
                    };
                }
                Part::Head(_) | Part::ChunkSize | Part::Trailer => {
                    let Some(end) = memchr(b'\n', bytes) else {
                        self.keep(bytes);
                        return Finding::Nothing;
                    };
                    let (line, rest) = bytes.split_at(end);
                    bytes = rest.get(1..).unwrap_or_default();
                    if self.end_line(line) == Finding::AmbiguousLength {
                        return Finding::AmbiguousLength;
                    }
                }
            }
        }
        Finding::Nothing
    }

    fn keep(&mut self, bytes: &[u8]) {
        // A line that was cut keeps one byte more than counts, so that its return is not taken for a part of it.
        let room = (LINE_MAX_BYTES + 1).saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(bytes.get(..room).unwrap_or_default());
        if let Some(last) = bytes.last() {
            self.has_return = *last == b'\r';
        }
    }

    /// Looks at a line, of which this is the end.
    fn end_line(&mut self, end: &[u8]) -> Finding {
        self.keep(end);
        let mut line = std::mem::take(&mut self.line);
        let has_return = std::mem::take(&mut self.has_return);
        if has_return && line.len() <= LINE_MAX_BYTES {
            line.pop();
        }
        line.truncate(LINE_MAX_BYTES);
        let found = self.whole_line(&line, has_return);
        line.clear();
        self.line = line;
        found
    }

    /// Looks at the beginning of a line, without its line break.
    fn whole_line(&mut self, line: &[u8], has_return: bool) -> Finding {
        let next = match self.part {
            Part::Head(head) if !line.is_empty() => Some(Part::Head(head.with(line))),
            // Empty lines before a request are allowed.
            Part::Head(head) if !head.has_begun => Some(Part::Head(head)),
            Part::Head(head) => head.body(),
            // In a body, hyper ends lines only at CR LF.
            Part::ChunkSize | Part::Trailer if !has_return => None,
            Part::ChunkSize => chunk_size(line).map(|size| match size {
                0 => Part::Trailer,
                // The data ends with a line break.
                size => Part::Bytes { left: size.saturating_add(2), then: AfterBytes::ChunkSize },
            }),
            Part::Trailer if line.is_empty() => Some(Part::default()),
            other @ (Part::Trailer | Part::Bytes { .. } | Part::Unknown) => Some(other),
        };
        self.part = next.unwrap_or(Part::Unknown);
        if next.is_some() { Finding::Nothing } else { Finding::AmbiguousLength }
    }
}

impl Head {
    /// Returns what follows the head, or `None` if its length is ambiguous.
    fn body(self) -> Option<Part> {
        match (self.length, self.is_encoded) {
            (Length::Missing, true) => Some(Part::ChunkSize),
            (Length::Missing | Length::Known(0), false) => Some(Part::default()),
            (Length::Known(left), false) => Some(Part::Bytes { left, then: AfterBytes::Head }),
            (Length::Known(_) | Length::Malformed, true) | (Length::Malformed, false) => None,
        }
    }

    fn with(self, line: &[u8]) -> Self {
        let head = Self { has_begun: true, ..self };
        // The first line is the request line, which has no header name before its first colon.
        let name_end = match memchr(b':', line) {
            Some(end) if self.has_begun => end,
            Some(_) | None => return head,
        };
        let (name, value) = line.split_at(name_end);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Self { is_encoded: true, ..head };
        }
        if !name.eq_ignore_ascii_case(b"content-length") {
            return head;
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let is_whole = line.len() < LINE_MAX_BYTES;
        let length =
            std::str::from_utf8(value).ok().filter(|text| is_whole && text.bytes().all(|b| b.is_ascii_digit()));
        Self { length: length.and_then(|text| text.parse().ok()).map_or(Length::Malformed, Length::Known), ..head }
    }
}

/// Returns the size in front of a chunk. Extensions follow after `;`.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|b| *b == b';').next()?.trim_ascii();
    if !(1..=CHUNK_SIZE_MAX_DIGITS).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "POST /mcp HTTP/1.1\r\nHost: localhost:8080\r\n";

    /// The finding must not depend on how the bytes are split.
    fn check(text: &str, expected: Finding) {
        for size in [1, 2, 3, 7, text.len().max(1)] {
            let mut requests = Requests::default();
            let found = text.as_bytes().chunks(size).map(|bytes| requests.read(bytes));
            let found = found.max_by_key(|found| *found == Finding::AmbiguousLength).unwrap();
            assert_eq!(found, expected, "{text:?} in pieces of {size}");
        }
    }

    #[test]
    fn both_headers_are_ambiguous() {
        for headers in [
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "transfer-encoding:chunked\r\nCONTENT-LENGTH:0\r\n",
            "content-length: x\r\ntransfer-encoding: gzip, chunked\r\n",
            "Content-Length: 4\nTransfer-Encoding: identity\n",
        ] {
            check(&format!("{PLAIN}{headers}\r\n"), Finding::AmbiguousLength);
        }
        let long = "x".repeat(LINE_MAX_BYTES * 3);
        check(
            &format!("{PLAIN}X: {long}\r\nContent-Length: 4\r\nTransfer-Encoding: {long}\r\n\r\n"),
            Finding::AmbiguousLength,
        );
    }

    #[test]
    fn either_header_is_fine() {
        for text in [
            format!("{PLAIN}\r\n"),
            format!("{PLAIN}Content-Length: 4\r\n\r\nbody"),
            format!("{PLAIN}Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"),
            format!("{PLAIN}X-Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"),
            format!("{PLAIN}Content-Length: 4\r\nX: Transfer-Encoding: chunked\r\n\r\n"),
            "GET /content-length:4 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
        ] {
            check(&text, Finding::Nothing);
        }
    }

    /// The content of a body is not read as a head, and the next head begins right after it.
    #[test]
    fn bodies_end_where_they_say() {
        let bad = format!("{PLAIN}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n");
        let size = bad.len();
        for first in [
            format!("{PLAIN}Content-Length: {size}\r\n\r\n{bad}"),
            format!("{PLAIN}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{bad}\r\n0\r\n\r\n"),
            format!(
                "{PLAIN}Transfer-Encoding: chunked\r\n\r\n1\r\n.\r\n{size:X};a=b\r\n{bad}\r\n0\r\nTrailer: x\r\n\r\n"
            ),
            format!("\r\n\r\n{PLAIN}\r\n"),
        ] {
            check(&first, Finding::Nothing);
            check(&format!("{first}{PLAIN}Content-Length: 2\r\n\r\nok"), Finding::Nothing);
            check(&format!("{first}{bad}"), Finding::AmbiguousLength);
        }
    }

    /// The end of a long line may arrive later than its beginning.
    #[test]
    fn long_lines_end_like_short_ones() {
        let chunks = format!("{PLAIN}Transfer-Encoding: chunked\r\n\r\n0\r\n");
        for size in [LINE_MAX_BYTES - 1, LINE_MAX_BYTES, LINE_MAX_BYTES + 1, LINE_MAX_BYTES * 2] {
            let line = "x".repeat(size);
            check(&format!("{chunks}{line}\r\n\r\n"), Finding::Nothing);
            check(&format!("{chunks}{line}\n\r\n"), Finding::AmbiguousLength);
            check(&format!("{chunks}{line}\rx\n\r\n"), Finding::AmbiguousLength);
        }
    }

    /// After these, this reader and hyper would disagree about where the next request begins.
    #[test]
    fn odd_lengths_are_ambiguous() {
        let (zeros, spaces) = ("0".repeat(LINE_MAX_BYTES), " ".repeat(LINE_MAX_BYTES));
        for text in [
            "Content-Length: 5x\r\n\r\n".to_owned(),
            format!("Content-Length: {zeros}5\r\n\r\nhello"),
            format!("Content-Length:{spaces}5\r\n\r\nhello"),
            "Transfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(),
            format!("Transfer-Encoding: chunked\r\n\r\n{zeros}5\r\nhello\r\n0\r\n\r\n"),
            "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n".to_owned(),
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\nPOST / HTTP/1.1\r\n\r\n".to_owned(),
            "Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\n\nPOST / HTTP/1.1\r\n\r\n".to_owned(),
        ] {
            check(&format!("{PLAIN}{text}"), Finding::AmbiguousLength);
        }
    }
}
