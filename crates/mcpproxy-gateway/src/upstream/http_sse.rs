//! Servers over the deprecated HTTP+SSE transport: one event stream in, POST requests out.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcpproxy_core::settings::Secret;
use url::Url;

use super::allowance::Excess;
use super::authorized::{self, Outgoing};
use super::client::Client;
use super::duplex::{Duplex, Outlet};
use super::error::UpstreamError;
use super::http::{header_map, status_error};
use super::notices::Notices;
use crate::event_stream::{EventError, EventReader};
use crate::message;
use crate::oauth::Tokens;

/// Posts messages to the endpoint that the server named.
pub(crate) struct Poster {
    client: Arc<Client>,
    url: Url,
    headers: HeaderMap,
    tokens: Option<Arc<Tokens>>,
    limit: usize,
}

impl Poster {
    pub(crate) async fn post(&self, text: String) -> Result<(), UpstreamError> {
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let outgoing = Outgoing { method: Method::POST, url: &self.url, headers, body: text.into() };
        let answer = authorized::send(&self.client, self.tokens.as_ref(), outgoing).await?;
        let status = answer.status;
        answer.body(self.limit).await?;
        match status {
            status if status.is_success() => Ok(()),
            // The event stream is gone, and with it the endpoint. The server did not take the message.
            StatusCode::NOT_FOUND | StatusCode::GONE => Err(UpstreamError::Unsent),
            status => Err(status_error(status, self.tokens.as_deref())),
        }
    }
}

/// Opens the stream and reads the endpoint for messages from its first event.
pub(crate) async fn open(
    url: &str,
    headers: &[(String, Secret)],
    tokens: Option<Arc<Tokens>>,
    limit: usize,
    notices: Arc<Notices>,
) -> Result<Arc<Duplex>, UpstreamError> {
    let headers = header_map(headers)?;
    let url = Url::parse(url).map_err(|error| UpstreamError::Http(error.to_string()))?;
    let client = Client::new(&url)?;
    let mut asking = headers.clone();
    asking.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let outgoing = Outgoing { method: Method::GET, url: &url, headers: asking, body: Bytes::new() };
    let answer = authorized::send(&client, tokens.as_ref(), outgoing).await?;
    if !answer.status.is_success() {
        return Err(status_error(answer.status, tokens.as_deref()));
    }
    let mut events = EventReader::new(answer.chunks().boxed(), limit);
    let endpoint = loop {
        match events.next().await? {
            Some(event) if event.event.as_deref() == Some("endpoint") => break event.data,
            Some(_) => {}
            None => return Err(UpstreamError::Closed),
        }
    };
    let post_url = url.join(&endpoint).map_err(|error| UpstreamError::Http(error.to_string()))?;
    // The operator's headers go to the operator's server and nowhere else, so the endpoint must have the same origin.
    if post_url.origin() != url.origin() {
        return Err(UpstreamError::Protocol("the `endpoint` event names another host".to_owned()));
    }
    let line = Duplex::new(Outlet::Post(Poster { client, url: post_url, headers, tokens, limit }), notices);
    let reading = Arc::clone(&line);
    tokio::spawn(async move {
        let read = async {
            loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        if let Ok(text) = message::read_server(event.data.as_bytes()) {
                            let _not_a_message = reading.incoming(text).await;
                        }
                    }
                    Ok(None) => return UpstreamError::Closed,
                    // The rest of the stream cannot be read either, so every open call fails at the size limit.
                    Err(EventError::TooLarge(limit)) => return UpstreamError::Excess(Excess::Endless(limit)),
                    Err(error) => return error.into(),
                }
            }
        };
        let reason = tokio::select! {
            reason = read => reason,
            () = reading.ended.cancelled() => UpstreamError::Closed,
        };
        reading.end(&reason);
    });
    Ok(line)
}
