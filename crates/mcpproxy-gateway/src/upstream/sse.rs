//! Servers over the old HTTP with SSE: one stream in, posts out.

use std::sync::Arc;

use futures::StreamExt;
use http::{HeaderMap, HeaderValue, header};
use mcpproxy_core::settings::Secret;
use reqwest::Url;
use tokio::sync::mpsc;

use super::Notice;
use super::duplex::{Duplex, Outlet};
use super::error::UpstreamError;
use super::events::SseReader;
use super::http::{client, header_map, http_error, status_error};
use crate::message;

/// Posts our messages to the address the server named.
pub(crate) struct Poster {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
}

impl Poster {
    pub(crate) async fn post(&self, text: String) -> Result<(), UpstreamError> {
        let mut request = reqwest::Request::new(http::Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.body_mut() = Some(text.into());
        let status = self.client.execute(request).await.map_err(|error| http_error(&error))?.status();
        if status.is_success() { Ok(()) } else { Err(status_error(status)) }
    }
}

/// Opens the stream and learns from its first event where to post.
pub(crate) async fn open(
    url: &str,
    headers: &[(String, Secret)],
    limit: usize,
    notices: mpsc::UnboundedSender<Notice>,
) -> Result<Arc<Duplex>, UpstreamError> {
    let (client, headers) = (client()?, header_map(headers)?);
    let url = Url::parse(url).map_err(|error| UpstreamError::Http(error.to_string()))?;
    let mut request = reqwest::Request::new(http::Method::GET, url.clone());
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response = client.execute(request).await.map_err(|error| http_error(&error))?;
    if !response.status().is_success() {
        return Err(status_error(response.status()));
    }
    let mut events = SseReader::new(response.bytes_stream().boxed(), limit);
    let endpoint = loop {
        match events.next().await? {
            Some(event) if event.event.as_deref() == Some("endpoint") => break event.data,
            Some(_) => {}
            None => return Err(UpstreamError::Closed),
        }
    };
    let post_url = url.join(&endpoint).map_err(|error| UpstreamError::Http(error.to_string()))?;
    // The operator's headers go to the operator's server and nowhere else.
    if post_url.origin() != url.origin() {
        return Err(UpstreamError::Protocol("the server names an endpoint on another host".to_owned()));
    }
    let line = Duplex::new(Outlet::Post(Poster { client, url: post_url, headers }), notices);
    let reading = Arc::clone(&line);
    tokio::spawn(async move {
        let read = async {
            while let Ok(Some(event)) = events.next().await {
                if let Ok(text) = message::read_server(event.data.as_bytes()) {
                    let _not_a_message = reading.incoming(text).await;
                }
            }
        };
        tokio::select! {
            () = read => {}
            () = reading.ended.cancelled() => {}
        }
        reading.end(&UpstreamError::Closed);
    });
    Ok(line)
}
