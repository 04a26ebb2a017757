//! Reads server-sent events from a stream of chunks.

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};

/// One event. Comments and unknown fields are dropped.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub event: Option<String>,
    /// The `data` lines, joined with line breaks. Empty for an event that only sets an id or a retry time.
    pub data: String,
    pub id: Option<String>,
    pub retry_ms: Option<u64>,
}

/// A stream that cannot be read on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError<E> {
    #[error("an event is larger than {0} bytes")]
    TooLarge(usize),
    #[error("an event is not UTF-8")]
    NotUtf8,
    #[error("the stream was interrupted: {0}")]
    Stream(E),
}

/// Reads events one by one. A single event may not exceed `limit` bytes.
pub struct EventReader<S> {
    chunks: S,
    buffer: BytesMut,
    limit: usize,
}

impl<S, E> EventReader<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    pub fn new(chunks: S, limit: usize) -> Self {
        Self { chunks, buffer: BytesMut::new(), limit }
    }

    /// Reads the next event. Returns `None` at the end of the stream, which drops a half event.
    pub async fn next(&mut self) -> Result<Option<Event>, EventError<E>> {
        let mut event = Event::default();
        let mut is_empty = true;
        let mut size = 0;
        while let Some(line) = self.line().await? {
            let line = std::str::from_utf8(&line).map_err(|_| EventError::NotUtf8)?.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if is_empty {
                    // Comments that keep an idle stream open must not add up to an event that is too large.
                    size = 0;
                    continue;
                }
                return Ok(Some(event));
            }
            size += line.len();
            if size > self.limit {
                return Err(EventError::TooLarge(self.limit));
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => {
                    if !event.data.is_empty() {
                        event.data.push('\n');
                    }
                    event.data.push_str(value);
                }
                "event" => event.event = Some(value.to_owned()),
                "id" => event.id = Some(value.to_owned()),
                "retry" => event.retry_ms = value.parse().ok(),
                // A comment has an empty field name. It only keeps the connection alive.
                _ => continue,
            }
            is_empty = false;
        }
        Ok(None)
    }

    /// Reads the bytes of the next line, with its end.
    async fn line(&mut self) -> Result<Option<BytesMut>, EventError<E>> {
        let mut searched = 0;
        loop {
            let fresh = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', fresh) {
                return Ok(Some(self.buffer.split_to(searched + at + 1)));
            }
            searched = self.buffer.len();
            if searched > self.limit {
                return Err(EventError::TooLarge(self.limit));
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(error)) => return Err(EventError::Stream(error)),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[tokio::test]
    async fn reads_events_however_they_are_cut() {
        let text = ": hello\r\nid: 1\nretry: 5\ndata:\n\n: ping\n\nevent: message\r\ndata: {\"a\":1}\r\ndata: x\r\n\r\ndata: cut";
        for size in [1, 2, 7, text.len()] {
            let chunks = text.as_bytes().chunks(size).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk)));
            let mut reader = EventReader::new(futures::stream::iter(chunks), 1000);
            let first = Event { id: Some("1".to_owned()), retry_ms: Some(5), ..Event::default() };
            assert_eq!(reader.next().await, Ok(Some(first)), "{size}");
            let second =
                Event { event: Some("message".to_owned()), data: "{\"a\":1}\nx".to_owned(), ..Event::default() };
            assert_eq!(reader.next().await, Ok(Some(second)), "{size}");
            assert_eq!(reader.next().await, Ok(None), "{size}");
        }
    }

    #[tokio::test]
    async fn an_idle_stream_never_reaches_the_limit() {
        let pings = futures::stream::iter(std::iter::repeat_n(": ping\n\n", 1000).chain(["data: x\n\n"]));
        let mut reader = EventReader::new(pings.map(|text| Ok::<_, Infallible>(Bytes::from(text))), 100);
        assert_eq!(reader.next().await, Ok(Some(Event { data: "x".to_owned(), ..Event::default() })));
    }

    #[tokio::test]
    async fn bounds_an_event() {
        let endless = futures::stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from("data: aaaaaaaaaa\n")));
        assert_eq!(EventReader::new(endless, 100).next().await, Err(EventError::TooLarge(100)));
        let no_newline = futures::stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from("data: aaaaaaaaaa")));
        assert_eq!(EventReader::new(no_newline, 100).next().await, Err(EventError::TooLarge(100)));
    }
}
