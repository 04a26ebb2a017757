//! A minimal and fast MCP server with one tool, `echo`.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

use crate::request::{LEGACY_VERSION, MODERN_VERSION, SESSION_HEADER};
use crate::tools;

const BODY_MAX_BYTES: usize = 16 << 20;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const PARSE_ERROR: i32 = -32700;

/// Serves until the process ends. Prints its URL as the first line on standard output.
pub(crate) async fn serve(listen: SocketAddr, extra_tools: usize) -> Result<()> {
    let listener = TcpListener::bind(listen).await.with_context(|| format!("could not listen on `{listen}`"))?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "http://{}/mcp", listener.local_addr()?)?;
    stdout.flush()?;
    let server = Arc::new(Server { tools: tools::list(extra_tools).to_string(), sessions: AtomicU64::new(1) });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, Infallible>(server.answer(request).await) }
            });
            // A client may close the connection at any time.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

struct Server {
    /// The JSON array for `tools/list`, built once.
    tools: String,
    sessions: AtomicU64,
}

/// The parts of a JSON-RPC message that are read. Everything else is skipped.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<serde::de::IgnoredAny>,
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.uri().path() != "/mcp" {
            return empty(StatusCode::NOT_FOUND);
        }
        match *request.method() {
            Method::POST => {}
            Method::DELETE => return empty(StatusCode::OK),
            _ => {
                let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
                return response;
            }
        }
        match Limited::new(request.into_body(), BODY_MAX_BYTES).collect().await {
            Ok(body) => self.message(&body.to_bytes()),
            Err(_) => empty(StatusCode::PAYLOAD_TOO_LARGE),
        }
    }

    fn message(&self, body: &[u8]) -> Response<Full<Bytes>> {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(body) else {
            return failure(StatusCode::BAD_REQUEST, "null", PARSE_ERROR, "not a JSON-RPC message");
        };
        let (Some(id), Some(method)) = (message.id, message.method) else { return empty(StatusCode::ACCEPTED) };
        let id = id.get();
        let meta = message.params.as_ref().and_then(|params| params.meta.as_ref());
        let modern = meta.is_some_and(|meta| meta.version.is_some());
        let (complete, cached) = if modern {
            (r#""resultType":"complete","#, r#","ttlMs":3600000,"cacheScope":"public""#)
        } else {
            ("", "")
        };
        match method.as_ref() {
            "tools/call" => call(id, complete, message.params.as_ref()),
            "tools/list" => success(id, &format!(r#"{{{complete}"tools":{}{cached}}}"#, self.tools)),
            "server/discover" => success(
                id,
                &format!(
                    r#"{{"resultType":"complete","supportedVersions":["{MODERN_VERSION}","{LEGACY_VERSION}"],"capabilities":{{"tools":{{}}}},"ttlMs":3600000,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"echo","version":"1"}}}}}}"#
                ),
            ),
            "initialize" => {
                let mut response = success(
                    id,
                    &format!(
                        r#"{{"protocolVersion":"{LEGACY_VERSION}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}}}"#
                    ),
                );
                let session = self.sessions.fetch_add(1, Ordering::Relaxed);
                response.headers_mut().insert(SESSION_HEADER, HeaderValue::from(session));
                response
            }
            "ping" => success(id, "{}"),
            _ => {
                let status = if modern { StatusCode::NOT_FOUND } else { StatusCode::OK };
                failure(status, id, METHOD_NOT_FOUND, "method not found")
            }
        }
    }
}

fn call(id: &str, complete: &str, params: Option<&Params<'_>>) -> Response<Full<Bytes>> {
    let text = params
        .filter(|params| params.name.as_deref() == Some("echo"))
        .and_then(|params| params.arguments.as_ref()?.text)
        .map(RawValue::get)
        .filter(|text| text.starts_with('"'));
    match text {
        Some(text) => success(id, &format!(r#"{{{complete}"content":[{{"type":"text","text":{text}}}]}}"#)),
        None => failure(StatusCode::OK, id, INVALID_PARAMS, "`echo` needs a `text`"),
    }
}

fn success(id: &str, result: &str) -> Response<Full<Bytes>> {
    json(StatusCode::OK, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

fn failure(status: StatusCode, id: &str, code: i32, message: &str) -> Response<Full<Bytes>> {
    json(status, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#))
}

fn json(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(message: &str, status: u16, answer: &str) {
        let server = Server { tools: "[]".to_owned(), sessions: AtomicU64::new(7) };
        let response = server.message(message.as_bytes());
        assert_eq!(response.status().as_u16(), status);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(std::str::from_utf8(&body).unwrap(), answer);
    }

    #[tokio::test]
    async fn answers_in_both_revisions() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a\"b"}}}"#,
            200,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\"b"}]}}"#,
        )
        .await;
        check(
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            200,
            r#"{"jsonrpc":"2.0","id":"x","result":{"resultType":"complete","tools":[],"ttlMs":3600000,"cacheScope":"public"}}"#,
        )
        .await;
        check(
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"other","arguments":{"text":"a"}}}"#,
            200,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"`echo` needs a `text`"}}"#,
        )
        .await;
        check(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, 202, "").await;
    }
}
