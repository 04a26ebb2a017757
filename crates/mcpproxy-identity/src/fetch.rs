//! Sends single requests to identity providers, with a bound on addresses, time and size.
//!
//! These requests are rare: metadata, keys, and tokens every few minutes or hours. So each opens a connection of its
//! own, which keeps this client small. Calls of tools never pass through here.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use url::Url;

use crate::address::{self, AddressError, Reach};

/// Time for a whole exchange: resolving, connecting, sending and reading.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Size of an answer. Key sets and metadata of large providers have some 20 KB.
const ANSWER_MAX: usize = 1024 * 1024;

/// A client for requests to identity providers. Cloning is cheap.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    nearest: Reach,
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("no answer within {} s", TIME_MAX.as_secs())]
    Late,
    #[error("could not connect: {0}")]
    Unreachable(String),
    #[error("the answer is larger than {} KiB or ended early", ANSWER_MAX / 1024)]
    Answer,
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    #[error("the answer is not valid JSON")]
    NotJson,
}

impl Fetch {
    /// A client for addresses that the operator wrote. They may be in any network.
    pub fn for_operator() -> Self {
        Self { nearest: Reach::Loopback }
    }

    /// A client for addresses that a server named. They must not be nearer than `reach`, the server's own network.
    pub fn within(reach: Reach) -> Self {
        Self { nearest: reach }
    }

    /// Reads a JSON document with `GET`.
    pub async fn json(&self, url: &Url) -> Result<serde_json::Value, FetchError> {
        let mut request = Request::new(Vec::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = url.as_str().parse().map_err(|_| AddressError::Invalid)?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let answer = self.send(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status()));
        }
        serde_json::from_slice(answer.body()).map_err(|_| FetchError::NotJson)
    }

    /// Sends a request with an absolute URL. Does not follow redirects.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, FetchError> {
        let url = address::check_url(&request.uri().to_string())?;
        let exchange = self.exchange(&url, request);
        tokio::time::timeout(TIME_MAX, exchange).await.map_err(|_| FetchError::Late)?
    }

    async fn exchange(&self, url: &Url, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, FetchError> {
        let addresses = self.allowed(url).await?;
        let io = dial(url, &addresses).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(unreachable)?;
        let exchange = async {
            let response = sender.send_request(prepare(url, request)?).await.map_err(unreachable)?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await.map_err(|_| FetchError::Answer)?;
            Ok(Response::from_parts(parts, body.to_bytes().to_vec()))
        };
        // The connection makes progress only while it is polled. It ends together with the exchange.
        let mut exchange = std::pin::pin!(exchange);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            answer = &mut exchange => answer,
            _ended = &mut connection => exchange.await,
        }
    }

    /// Resolves the host and checks that every address may be used.
    async fn allowed(&self, url: &Url) -> Result<Vec<SocketAddr>, AddressError> {
        let addresses = address::resolve(url).await?;
        for address in &addresses {
            let ip = address.ip();
            let reach = Reach::of(ip).ok_or(AddressError::Forbidden(ip))?;
            // `localhost` could be resolved to something else, so plain text is checked again here.
            let is_plain_text_outside = url.scheme() == "http" && reach != Reach::Loopback;
            if reach > self.nearest || is_plain_text_outside {
                return Err(AddressError::Forbidden(ip));
            }
        }
        Ok(addresses)
    }
}

/// Turns a request with an absolute URL into one for an open connection.
fn prepare(url: &Url, request: Request<Vec<u8>>) -> Result<Request<Full<Bytes>>, FetchError> {
    let (mut parts, body) = request.into_parts();
    let host = url.host_str().ok_or(AddressError::Invalid)?;
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    parts.uri = path.parse().map_err(|_| AddressError::Invalid)?;
    parts.headers.insert(header::HOST, HeaderValue::from_str(&host).map_err(|_| AddressError::Invalid)?);
    parts.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    parts.headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static("mcpproxy"));
    Ok(Request::from_parts(parts, Full::new(Bytes::from(body))))
}

async fn dial(url: &Url, addresses: &[SocketAddr]) -> Result<Either<TcpStream, TlsStream<TcpStream>>, FetchError> {
    let stream = TcpStream::connect(addresses).await.map_err(unreachable)?;
    if url.scheme() != "https" {
        return Ok(Either::Left(stream));
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(unreachable)?;
    let config = tls_config().map_err(FetchError::Unreachable)?;
    Ok(Either::Right(TlsConnector::from(config).connect(name, stream).await.map_err(unreachable)?))
}

/// TLS settings of all outgoing connections: the certificates of the operating system, loaded at first use.
pub fn tls_config() -> Result<Arc<rustls::ClientConfig>, String> {
    static TLS: LazyLock<Result<Arc<rustls::ClientConfig>, String>> = LazyLock::new(|| {
        // Fails if a provider is installed already, which is as good.
        let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let config = rustls::ClientConfig::with_platform_verifier();
        config.map(Arc::new).map_err(|error| format!("no trusted certificates on this machine: {error}"))
    });
    TLS.clone()
}

/// Names the innermost cause, which is the informative one.
fn unreachable(error: impl std::error::Error) -> FetchError {
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    FetchError::Unreachable(innermost.to_string())
}
