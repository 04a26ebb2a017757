//! Reads server-sent events from a response of the gateway.

use anyhow::Context as _;
use http::Response;
use http_body_util::{BodyDataStream, BodyExt as _};
use hyper::body::Incoming;
use mcpproxy_gateway::EventReader;

use crate::client::ANSWER_MAX_BYTES;

/// The stream of events of one response.
pub(crate) struct Events {
    reader: EventReader<BodyDataStream<Incoming>>,
}

impl Events {
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        Self { reader: EventReader::new(response.into_body().into_data_stream(), ANSWER_MAX_BYTES) }
    }

    /// Reads the data of the next event. Returns `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            let event = self.reader.next().await.context("could not read the gateway's event stream")?;
            match event {
                None => return Ok(None),
                // An event without data only sets an id or keeps the connection open.
                Some(event) if event.data.is_empty() => {}
                Some(event) => return Ok(Some(event.data)),
            }
        }
    }
}
