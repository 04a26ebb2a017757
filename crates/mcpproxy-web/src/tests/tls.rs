//! The gateway's own TLS: protocols, renewal, clients without TLS, and strangers who are slow.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Fixture, KEY, PATIENCE};
use crate::tls::tests::{file, pair};
use crate::{Certificates, ConnectionLimits, HttpServer, Listeners};

const H2: &[u8] = b"h2";
const H1: &[u8] = b"http/1.1";

struct Served {
    fixture: Fixture,
    certificates: Certificates,
    address: String,
    task: JoinHandle<()>,
}

impl Served {
    /// Serves the routes with the certificate `first`, and room for 16 connections.
    async fn new(change: fn(HttpServer) -> HttpServer) -> Self {
        let fixture = Fixture::new().await;
        let main = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = main.local_addr().unwrap().to_string();
        let certificates = Certificates::new(pair("first"));
        let limits = ConnectionLimits::for_open_files(32);
        let tls = Some(certificates.clone());
        let server = change(HttpServer::new(Listeners { main, twin: None }, fixture.app.clone(), limits, tls));
        Self { fixture, certificates, address, task: tokio::spawn(async move { server.run().await }) }
    }

    /// Opens a connection that trusts one certificate and offers one protocol.
    async fn connect(&self, trusted: &str, protocol: &[u8]) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&file(&format!("{trusted}.pem"))).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(&self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
    }

    async fn http2(&self) -> http2::SendRequest<Body> {
        let stream = self.connect("first", H2).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn stop(self) {
        self.task.abort();
        self.fixture.stop().await;
    }
}

fn get(path: &str) -> Request<Body> {
    let uri = format!("https://localhost:8080{path}");
    Request::get(uri).header("x-api-key", KEY).body(Body::empty()).unwrap()
}

async fn text(response: Response<Incoming>) -> (StatusCode, String) {
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// Reads until the gateway closes the connection.
async fn closes(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("not closed");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn both_protocols_reach_the_routes() {
    let served = Served::new(|server| server).await;
    let mut sender = served.http2().await;
    let (status, body) = text(sender.send_request(get("/api/v1/status")).await.unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    // Longer than a window and than a part of an answer.
    let (status, page) = text(sender.send_request(get("/api/v1/docs")).await.unwrap()).await;
    assert_eq!((status, page.trim_end().ends_with("</html>")), (StatusCode::OK, true), "{} bytes", page.len());
    assert!(page.len() > 65_536);

    let stream = served.connect("first", H1).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(H1));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/healthz").header("host", "localhost:8080").body(Body::empty()).unwrap();
    assert_eq!(text(sender.send_request(request).await.unwrap()).await.0, StatusCode::OK);
    served.stop().await;
}

/// An open page has a stream of events, and sends other requests on the same connection.
#[tokio::test]
async fn an_event_stream_leaves_room_for_other_requests() {
    let served = Served::new(|server| server).await;
    let mut sender = served.http2().await;
    let events = sender.send_request(get("/api/v1/events")).await.unwrap();
    assert_eq!(
        (events.status(), events.headers()["content-type"].as_bytes()),
        (StatusCode::OK, &b"text/event-stream"[..])
    );
    for _ in 0..200 {
        assert_eq!(text(sender.send_request(get("/healthz")).await.unwrap()).await.0, StatusCode::OK);
    }
    served.stop().await;
}

#[tokio::test]
async fn the_guard_sees_the_host_of_http2() {
    let served = Served::new(|server| server).await;
    let mut sender = served.http2().await;
    for (host, named, expected) in [
        ("localhost:8080", None, StatusCode::OK),
        ("evil.example", None, StatusCode::FORBIDDEN),
        ("evil.example", Some("localhost:8080"), StatusCode::FORBIDDEN),
        ("localhost:8080", Some("evil.example"), StatusCode::FORBIDDEN),
    ] {
        let uri = format!("https://{host}/api/v1/status");
        let mut request = Request::get(uri).header("x-api-key", KEY).body(Body::empty()).unwrap();
        if let Some(named) = named {
            request.headers_mut().insert("host", named.parse().unwrap());
        }
        assert_eq!(text(sender.send_request(request).await.unwrap()).await.0, expected, "{host} {named:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_long_head_is_refused() {
    let served = Served::new(|server| server).await;
    let mut sender = served.http2().await;
    let mut request = get("/healthz");
    request.headers_mut().insert("x-long", "x".repeat(20_000).parse().unwrap());
    // The library sends 431, or ends the request.
    let refused = sender.send_request(request).await.map(|response| response.status());
    assert!(!refused.as_ref().is_ok_and(|status| status.is_success()), "{refused:?}");
    served.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let served = Served::new(|server| server).await;
    let mut open = served.http2().await;
    assert!(served.connect("second", H2).await.is_err());
    served.certificates.replace(pair("second"));
    assert!(served.connect("first", H2).await.is_err());
    assert!(served.connect("second", H2).await.is_ok());
    let answer = text(open.send_request(get("/healthz")).await.unwrap()).await;
    assert_eq!(answer.0, StatusCode::OK, "an open connection stays");
    served.stop().await;
}

#[tokio::test]
async fn plain_http_is_told_to_use_https() {
    let served = Served::new(|server| server).await;
    for request in ["GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST /mcp HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"] {
        let mut stream = TcpStream::connect(&served.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = closes(stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nThis address speaks HTTPS. Write https:// instead of http:// in the URL.\n"));
    }
    served.stop().await;
}

#[tokio::test]
async fn a_handshake_has_a_deadline() {
    let served = Served::new(|server| server.with_handshake_timeout(Duration::from_millis(50))).await;
    for bytes in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = TcpStream::connect(&served.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        assert_eq!(closes(stream).await, "", "{bytes:?}");
    }
    served.stop().await;
}

/// Half handshakes count as connections, and each new one replaces the oldest.
#[tokio::test]
async fn half_handshakes_keep_nobody_out() {
    let served = Served::new(|server| server).await;
    let mut halves = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(&served.address).await.unwrap();
        stream.write_all(b"\x16\x03\x01").await.unwrap();
        halves.push(stream);
    }
    let mut sender = served.http2().await;
    assert_eq!(text(sender.send_request(get("/healthz")).await.unwrap()).await.0, StatusCode::OK);
    assert_eq!(closes(halves.swap_remove(0)).await, "", "the oldest was closed to make room");
    served.stop().await;
}

/// The peer opens its window for a few bytes only. The rest of the answer must not stay in memory.
#[tokio::test]
async fn a_peer_of_http2_that_reads_no_answer_is_closed() {
    let served = Served::new(HttpServer::impatient).await;
    let stream = served.connect("first", H2).await.unwrap();
    let mut client = http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) =
        client.initial_stream_window_size(16).handshake::<_, Body>(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let unread = sender.send_request(get("/api/v1/docs")).await.unwrap();
    let _cut = tokio::time::timeout(PATIENCE, connection).await.expect("not closed").unwrap();
    drop(unread);
    served.stop().await;
}
