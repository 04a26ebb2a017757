//! Server-sent events, read from chunks.

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};

use super::error::UpstreamError;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) event: Option<String>,
    pub(crate) data: String,
    pub(crate) id: Option<String>,
    pub(crate) retry_ms: Option<u64>,
}

/// Reads events one by one; a single event may not exceed `limit` bytes.
pub(crate) struct SseReader<S> {
    chunks: S,
    buffer: BytesMut,
    limit: usize,
}

impl<S, E> SseReader<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    pub(crate) fn new(chunks: S, limit: usize) -> Self {
        Self { chunks, buffer: BytesMut::new(), limit }
    }

    /// The next event, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, UpstreamError> {
        let mut event = SseEvent::default();
        let mut is_empty = true;
        let mut size = 0;
        while let Some(line) = self.line().await? {
            if line.is_empty() {
                if is_empty {
                    continue;
                }
                return Ok(Some(event));
            }
            size += line.len();
            if size > self.limit {
                return Err(UpstreamError::TooLarge(self.limit));
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
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
                // Comments (an empty field name) keep a connection alive and mean nothing.
                _ => continue,
            }
            is_empty = false;
        }
        Ok(None)
    }

    async fn line(&mut self) -> Result<Option<String>, UpstreamError> {
        let mut searched = 0;
        loop {
            let fresh = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(searched + at + 1);
                let text = std::str::from_utf8(&line)
                    .map_err(|_| UpstreamError::Protocol("an event is not UTF-8".to_owned()))?;
                return Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()));
            }
            searched = self.buffer.len();
            if searched > self.limit {
                return Err(UpstreamError::TooLarge(self.limit));
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(error)) => return Err(UpstreamError::Http(error.to_string())),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reads_events_across_chunks() {
        let chunks = [
            "id: 1\nret",
            "ry: 5\ndata:\n\n: ping\n\n",
            "event: message\r\ndata: {\"a\":",
            "1}\r\ndata: x\r\n\r\ndata: cut",
        ];
        let stream = futures::stream::iter(chunks.map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk))));
        let mut reader = SseReader::new(stream, 1000);
        let first = SseEvent { id: Some("1".to_owned()), retry_ms: Some(5), ..SseEvent::default() };
        assert_eq!(reader.next().await, Ok(Some(first)));
        let second =
            SseEvent { event: Some("message".to_owned()), data: "{\"a\":1}\nx".to_owned(), ..SseEvent::default() };
        assert_eq!(reader.next().await, Ok(Some(second)));
        assert_eq!(reader.next().await, Ok(None));
    }

    #[tokio::test]
    async fn bounds_an_event() {
        let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from("data: aaaaaaaaaa\n")));
        assert_eq!(SseReader::new(endless, 100).next().await, Err(UpstreamError::TooLarge(100)));
        let no_newline = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from("data: aaaaaaaaaa")));
        assert_eq!(SseReader::new(no_newline, 100).next().await, Err(UpstreamError::TooLarge(100)));
    }
}
