//! The echo server over HTTP.

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
use tokio::net::TcpListener;

use super::{Answer, Echo};
use crate::case::Server;
use crate::request::SESSION_HEADER;

const BODY_MAX_BYTES: usize = 16 << 20;

/// Serves until the process ends. Prints its URL as the first line on standard output.
pub(crate) async fn serve(listen: SocketAddr, speaks: Server, extra_tools: usize) -> Result<()> {
    let listener = TcpListener::bind(listen).await.with_context(|| format!("could not listen on `{listen}`"))?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "http://{}/mcp", listener.local_addr()?)?;
    stdout.flush()?;
    let server = Arc::new(Http { echo: Echo::new(speaks, extra_tools), sessions: AtomicU64::new(1) });
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

struct Http {
    echo: Echo,
    sessions: AtomicU64,
}

impl Http {
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
        let in_session = request.headers().contains_key(SESSION_HEADER);
        let Ok(body) = Limited::new(request.into_body(), BODY_MAX_BYTES).collect().await else {
            return empty(StatusCode::PAYLOAD_TOO_LARGE);
        };
        match self.echo.answer(&body.to_bytes(), in_session) {
            Answer::Result(text) | Answer::Error(text) => json(StatusCode::OK, text),
            Answer::Refused(text) => json(StatusCode::BAD_REQUEST, text),
            Answer::None => empty(StatusCode::ACCEPTED),
            Answer::Session(text) => {
                let mut response = json(StatusCode::OK, text);
                let session = self.sessions.fetch_add(1, Ordering::Relaxed);
                response.headers_mut().insert(SESSION_HEADER, HeaderValue::from(session));
                response
            }
        }
    }
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
