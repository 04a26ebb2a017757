//! A server over HTTP that the test simulates, byte for byte.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use mcpproxy_core::settings::ServerSettings;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::peer::{Script, raw_params};
use crate::rig::http_server;

pub(crate) struct HttpPeer {
    url: String,
    log: Arc<Mutex<Vec<String>>>,
}

/// A test's choice of how to answer a request.
pub(crate) enum Verdict {
    /// Answers as the script says.
    Usual,
    /// Answers as the script says, with one more header.
    With(&'static str, String),
    Instead(Response),
}

pub(crate) type Judge = Arc<dyn Fn(&Parts, &Value) -> Verdict + Send + Sync>;

impl HttpPeer {
    /// Answers each request by the script with one JSON text. It offers no event stream.
    pub(crate) async fn new(script: Script) -> Self {
        Self::judged(script, Arc::new(|_, _| Verdict::Usual)).await
    }

    pub(crate) async fn judged(script: Script, judge: Judge) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let log = Arc::<Mutex<Vec<String>>>::default();
        let writing = Arc::clone(&log);
        let answer = move |request: Request| {
            let (script, log, judge) = (script.clone(), Arc::clone(&writing), Arc::clone(&judge));
            async move { play(&script, &log, &judge, request).await }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
        Self { url, log }
    }

    pub(crate) fn settings(&self, server: &str) -> ServerSettings {
        http_server(server, &self.url)
    }

    /// Returns the raw parameters of every call that was answered so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|text| text.contains(r#""method":"tools/call""#)).map(|t| raw_params(t).to_owned()).collect()
    }
}

async fn play(script: &Script, log: &Mutex<Vec<String>>, judge: &Judge, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let message: Value = serde_json::from_str(&text).unwrap_or_default();
    let verdict = judge(&parts, &message);
    if let Verdict::Instead(response) = verdict {
        return response;
    }
    if parts.method != Method::POST {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    log.lock().unwrap().push(text.clone());
    if message["id"].is_null() {
        return empty(StatusCode::ACCEPTED);
    }
    let answer = match script.answer(&message, &text).unwrap() {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]),
        Err(error) => format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, message["id"]),
    };
    let response = Response::builder().header("content-type", "application/json");
    match verdict {
        Verdict::With(name, value) => response.header(name, value).body(Body::from(answer)).unwrap(),
        Verdict::Usual | Verdict::Instead(_) => response.body(Body::from(answer)).unwrap(),
    }
}

pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Builds an event stream response from a body that the test writes.
pub(crate) fn events(body: Body) -> Response {
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}
