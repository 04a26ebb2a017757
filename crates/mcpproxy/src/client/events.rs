//! Reads server-sent events (SSE) from a response.

use anyhow::Context as _;
use bytes::BytesMut;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::client::ANSWER_MAX_BYTES;

/// The stream of events of one response.
pub(crate) struct Events {
    body: Incoming,
    parser: Parser,
}

impl Events {
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        Self { body: response.into_body(), parser: Parser::default() }
    }

    /// Returns the data of the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            if let Some(data) = self.parser.event()? {
                return Ok(Some(data));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(bytes) = frame.context("the gateway closed the stream")?.into_data() {
                anyhow::ensure!(
                    self.parser.size() + bytes.len() <= ANSWER_MAX_BYTES,
                    "the gateway sent an event that is too large"
                );
                self.parser.bytes.extend_from_slice(&bytes);
            }
        }
    }
}

#[derive(Default)]
struct Parser {
    bytes: BytesMut,
    /// `bytes` contains no line end before this index.
    searched: usize,
    data: Option<String>,
}

impl Parser {
    fn size(&self) -> usize {
        self.bytes.len() + self.data.as_ref().map_or(0, String::len)
    }

    /// Returns the data of the next complete event.
    fn event(&mut self) -> anyhow::Result<Option<String>> {
        while let Some(line) = self.line()? {
            if line.is_empty() {
                // An event without data only carries an id or keeps the connection open.
                match self.data.take() {
                    Some(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => continue,
                }
            }
            if let Some(value) = line.strip_prefix("data:") {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut self.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    none => *none = Some(value.to_owned()),
                }
            }
        }
        Ok(None)
    }

    fn line(&mut self) -> anyhow::Result<Option<String>> {
        let found = self.bytes.iter().skip(self.searched).position(|byte| *byte == b'\n');
        let Some(end) = found else {
            self.searched = self.bytes.len();
            return Ok(None);
        };
        let line = self.bytes.split_to(self.searched + end + 1);
        self.searched = 0;
        let line = std::str::from_utf8(&line).context("the gateway sent an event that is not UTF-8")?;
        Ok(Some(line.trim_end_matches('\n').trim_end_matches('\r').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_arrive_whole_however_they_are_cut() {
        let text = ": hello\r\nid: 1\r\ndata:\r\n\r\ndata: {\"a\":1}\n\nevent: message\ndata: x\ndata: y\nretry: 3\n\ndata: half";
        for size in [1, 2, 7, text.len()] {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                parser.bytes.extend_from_slice(chunk);
                while let Some(event) = parser.event().unwrap() {
                    events.push(event);
                }
            }
            assert_eq!(events, ["{\"a\":1}", "x\ny"], "{size}");
        }
    }
}
