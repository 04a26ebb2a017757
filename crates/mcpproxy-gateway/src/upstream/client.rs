//! An HTTP/1.1 client for one server, with a pool of idle connections.
//!
//! A general client such as `reqwest` gives every connection a task, hands each request to it over a channel, and waits
//! for the answer on another. For a server on the same machine these two hand-overs cost as much as the request itself.
//! Here the task that waits for the answer also drives the connection ([`drive`]), so there are none.
//!
//! The price is that no task drives an idle connection. The client does not notice that a server closed it until the
//! next request. So a request on a reused connection that fails before it was written is sent again on another one.
//! Sending it again is safe, because hyper returns the unsent request. A request that was written is never sent again:
//! the server may have processed it. That leaves a race: a server can close a connection while a request is on its way,
//! and the call then fails with an unknown outcome. Many servers announce when they close an idle connection
//! (`Keep-Alive: timeout=5`), so the client stops using it a second earlier.
//!
//! Invariants:
//!
//! - A connection returns to the pool only after its response was read to the end. Dropping an [`Answer`] early closes
//!   it.
//! - The pool keeps at most `IDLE_MAX` connections, each for `IDLE_TIME` or the shorter time that its server announced.
//! - Bodies are read with a limit, so that a server cannot fill the memory.
//! - TLS trusts the certificates of the operating system, which are loaded at first use.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
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
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use url::Url;

use super::error::UpstreamError;
use super::response_head;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the pool. `response_head.rs` has the time that a connection stays in it.
const IDLE_MAX: usize = 64;

type Machine = Pin<Box<Connection<Io, Full<Bytes>>>>;
type Io = TokioIo<Either<TcpStream, TlsStream<TcpStream>>>;

pub(crate) struct Client {
    url: Url,
    host: HeaderValue,
    /// Each connection with the time from which it must not be used, the newest last.
    idle: Mutex<Vec<(Instant, Wire)>>,
}

/// One connection: the sender of requests, and the future that must be polled for anything to happen.
struct Wire {
    send: SendRequest<Full<Bytes>>,
    machine: Machine,
    has_ended: bool,
}

/// A response whose body is read in chunks. Dropping it early closes the connection.
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

    /// Sends a request and waits for the head of the response.
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
                None => (Box::pin(self.connect()).await?, true),
            };
            if wire.ready().await.is_err() && !is_fresh {
                // The server closed it while it was idle.
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
                    // The server closed an idle connection before the request was written, so another one will do.
                    Some(unsent) if !is_fresh => request = unsent,
                    // Not a byte of it was written.
                    Some(_) => {
                        return Err(UpstreamError::Unreachable(format!(
                            "the server closed the connection: {}",
                            cause(failed.error())
                        )));
                    }
                    None => return Err(UpstreamError::Http(format!("the request failed: {}", cause(failed.error())))),
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
        let tls = mcpproxy_identity::tls_config().map_err(UpstreamError::Unreachable)?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
        let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(|error| failed(&error))?;
        Ok(Either::Right(stream))
    }

    fn take_idle(&self) -> Option<Wire> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (until, wire) = idle.pop()?;
            if Instant::now() < until && !wire.send.is_closed() {
                return Some(wire);
            }
        }
    }

    fn keep(&self, wire: Wire, idle_time: Duration) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push((Instant::now() + idle_time, wire));
        }
    }
}

impl Wire {
    /// Waits until the connection takes a request. An error means that it is closed.
    async fn ready(&mut self) -> Result<(), UpstreamError> {
        let ready = drive(&mut self.machine, &mut self.has_ended, self.send.ready()).await?;
        ready.map_err(|_| UpstreamError::Closed)
    }
}

/// Waits for a future that needs the connection to be polled.
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
    /// Reads the next chunk of the body. At its end, returns `None` and puts the connection into the pool.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        let Some(mut wire) = self.wire.take() else { return Ok(None) };
        loop {
            match drive(&mut wire.machine, &mut wire.has_ended, self.body.frame()).await? {
                None => {
                    if !wire.has_ended {
                        self.client.keep(wire, response_head::idle_time(&self.headers));
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

    /// Reads the whole body, up to a limit.
    pub(crate) async fn body(mut self, limit: usize) -> Result<Bytes, UpstreamError> {
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let mut rest: Option<Vec<u8>> = None;
        // A body of known length gets all its room at once.
        let announced = response_head::announced_length(&self.headers).unwrap_or(0);
        let room = announced.clamp(first.len(), limit.max(first.len()));
        let mut size = first.len();
        while size <= limit {
            match self.chunk().await? {
                None => return Ok(rest.map_or(first, Bytes::from)),
                Some(chunk) => {
                    size += chunk.len();
                    let rest = rest.get_or_insert_with(|| {
                        let mut rest = Vec::with_capacity(room);
                        rest.extend_from_slice(&first);
                        rest
                    });
                    rest.extend_from_slice(&chunk);
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
        response_head::content_type(&self.headers)
    }
}

/// Returns the innermost cause, which is the informative one.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
