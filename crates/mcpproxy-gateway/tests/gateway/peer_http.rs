//! A server over HTTP the test plays itself, byte for byte.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
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

impl HttpPeer {
    /// Answers each request by the script with one JSON text. It has no stream to listen on.
    pub(crate) async fn new(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let log = Arc::<Mutex<Vec<String>>>::default();
        let writing = Arc::clone(&log);
        let answer = move |request: Request| {
            let (script, log) = (script.clone(), Arc::clone(&writing));
            async move { play(&script, &log, request).await }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
        Self { url, log }
    }

    pub(crate) fn settings(&self, server: &str) -> ServerSettings {
        http_server(server, &self.url)
    }

    /// The raw parameters of every call that arrived so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|text| text.contains(r#""method":"tools/call""#)).map(|t| raw_params(t).to_owned()).collect()
    }
}

async fn play(script: &Script, log: &Mutex<Vec<String>>, request: Request) -> Response {
    if request.method() != Method::POST {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    log.lock().unwrap().push(text.clone());
    let message: Value = serde_json::from_str(&text).unwrap();
    if message["id"].is_null() {
        return empty(StatusCode::ACCEPTED);
    }
    let answer = match script.answer(&message, &text).unwrap() {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]),
        Err(error) => format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, message["id"]),
    };
    Response::builder().header("content-type", "application/json").body(Body::from(answer)).unwrap()
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
