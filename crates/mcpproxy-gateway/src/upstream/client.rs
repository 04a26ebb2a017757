//! HTTP to one server: connections that are kept open and driven by the very task that waits for the answer.
//!
//! A general client hands every request to a task of the connection and waits for that task's answer. For a server on
//! the same machine these two hand-overs cost as much as the request itself, so here there are none.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use url::Url;

use super::error::UpstreamError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections kept for later, and how long: servers close idle ones, often after a minute or less.
const IDLE_MAX: usize = 64;
const IDLE_TIME: Duration = Duration::from_secs(30);

type Machine = Pin<Box<Connection<Io, Full<Bytes>>>>;
type Io = TokioIo<Either<TcpStream, TlsStream<TcpStream>>>;

pub(crate) struct Client {
    url: Url,
    host: HeaderValue,
    idle: Mutex<Vec<(Instant, Wire)>>,
}

/// One connection: where requests go in, and the machine that has to be driven for anything to happen.
struct Wire {
    send: SendRequest<Full<Bytes>>,
    machine: Machine,
    has_ended: bool,
}

/// An answer whose body is read piece by piece. Dropping it early closes the connection.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    wire: Option<Wire>,
    client: Arc<Client>,
}

impl Client {
    pub(crate) fn new(url: &Url) -> Result<Arc<Self>, UpstreamError> {
        let host = url.host_str().ok_or_else(|| UpstreamError::Http("the address has no host".to_owned()))?;
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let host = HeaderValue::from_str(&host).map_err(|error| UpstreamError::Http(error.to_string()))?;
        Ok(Arc::new(Self { url: url.clone(), host, idle: Mutex::default() }))
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        self: &Arc<Self>,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, UpstreamError> {
        headers.insert(header::HOST, self.host.clone());
        let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| UpstreamError::Http("the address is not valid".to_owned()))?;
        *request.headers_mut() = headers;
        loop {
            let (mut wire, is_fresh) = match self.take_idle() {
                Some(wire) => (wire, false),
                None => (self.connect().await?, true),
            };
            if wire.ready().await.is_err() && !is_fresh {
                // The server closed it while nobody looked.
                continue;
            }
            let sending = wire.send.try_send_request(request);
            match drive(&mut wire.machine, &mut wire.has_ended, sending).await {
                Ok(Ok(response)) => {
                    let (parts, body) = response.into_parts();
                    let (status, headers, client) = (parts.status, parts.headers, Arc::clone(self));
                    return Ok(Answer { status, headers, body, wire: Some(wire), client });
                }
                Ok(Err(mut failed)) => match failed.take_message() {
                    // The server closed an idle connection before it saw the request: another one will do.
                    Some(unsent) if !is_fresh => request = unsent,
                    _ => return Err(UpstreamError::Http(format!("the request failed: {}", cause(failed.error())))),
                },
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect(&self) -> Result<Wire, UpstreamError> {
        let late = |_| UpstreamError::Unreachable(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()));
        let io = tokio::time::timeout(CONNECT_TIMEOUT, self.dial()).await.map_err(late)??;
        let (send, machine) =
            http1::handshake(TokioIo::new(io)).await.map_err(|error| UpstreamError::Http(cause(&error)))?;
        Ok(Wire { send, machine: Box::pin(machine), has_ended: false })
    }

    async fn dial(&self) -> Result<Either<TcpStream, TlsStream<TcpStream>>, UpstreamError> {
        let failed =
            |error: &dyn std::error::Error| UpstreamError::Unreachable(format!("could not connect: {}", cause(error)));
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.url.port_or_known_default().unwrap_or(80);
        let stream = TcpStream::connect((host, port)).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        if self.url.scheme() != "https" {
            return Ok(Either::Left(stream));
        }
        let tls = TLS.as_ref().map_err(|error| UpstreamError::Unreachable(error.clone()))?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(|error| failed(&error))?;
        Ok(Either::Right(stream))
    }

    fn take_idle(&self) -> Option<Wire> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (since, wire) = idle.pop()?;
            // The newest is at the end: if that one is too old, all are.
            if since.elapsed() > IDLE_TIME {
                idle.clear();
                return None;
            }
            if !wire.send.is_closed() {
                return Some(wire);
            }
        }
    }

    fn keep(&self, wire: Wire) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push((Instant::now(), wire));
        }
    }
}

/// What every secure connection of this process trusts: the machine's own certificates, read when first needed.
static TLS: LazyLock<Result<Arc<rustls::ClientConfig>, String>> = LazyLock::new(|| {
    // Fails when somebody installed a provider already, which is as good.
    let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = rustls::ClientConfig::with_platform_verifier();
    config.map(Arc::new).map_err(|error| format!("no trusted certificates on this machine: {error}"))
});

impl Wire {
    /// Waits until a request may go in; an error means that the connection is gone.
    async fn ready(&mut self) -> Result<(), UpstreamError> {
        let ready = drive(&mut self.machine, &mut self.has_ended, self.send.ready()).await?;
        ready.map_err(|_| UpstreamError::Closed)
    }
}

/// Waits for something that needs a connection to move.
async fn drive<T>(
    machine: &mut Machine,
    has_ended: &mut bool,
    wanted: impl Future<Output = T>,
) -> Result<T, UpstreamError> {
    let mut wanted = pin!(wanted);
    poll_fn(|context| {
        if let Poll::Ready(found) = wanted.as_mut().poll(context) {
            return Poll::Ready(Ok(found));
        }
        *has_ended = *has_ended || machine.as_mut().poll(context).is_ready();
        match wanted.as_mut().poll(context) {
            Poll::Ready(found) => Poll::Ready(Ok(found)),
            Poll::Pending if *has_ended => Poll::Ready(Err(UpstreamError::Closed)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

impl Answer {
    /// The next piece of the body; `None` at its end, when the connection is kept for the next request.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        let Some(mut wire) = self.wire.take() else { return Ok(None) };
        loop {
            match drive(&mut wire.machine, &mut wire.has_ended, self.body.frame()).await? {
                None => {
                    if !wire.has_ended {
                        self.client.keep(wire);
                    }
                    return Ok(None);
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.wire = Some(wire);
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => return Err(UpstreamError::Http(cause(&error))),
            }
        }
    }

    /// The whole body, if it stays within the limit.
    pub(crate) async fn body(mut self, limit: usize) -> Result<Bytes, UpstreamError> {
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let mut rest: Option<Vec<u8>> = None;
        let mut size = first.len();
        while size <= limit {
            match self.chunk().await? {
                None => return Ok(rest.map_or(first, Bytes::from)),
                Some(chunk) => {
                    size += chunk.len();
                    rest.get_or_insert_with(|| first.to_vec()).extend_from_slice(&chunk);
                }
            }
        }
        Err(UpstreamError::TooLarge(limit))
    }

    pub(crate) fn chunks(self) -> impl Stream<Item = Result<Bytes, UpstreamError>> + Send {
        futures::stream::unfold(self, |mut answer| async move {
            let chunk = answer.chunk().await.transpose()?;
            Some((chunk, answer))
        })
    }

    pub(crate) fn content_type(&self) -> Option<&str> {
        let value = self.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        Some(value.split(';').next().unwrap_or(value).trim())
    }
}

/// The innermost reason, which is the one that says something.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
