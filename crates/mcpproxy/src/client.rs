//! Talks to the running gateway, over HTTP or HTTPS on this machine.

pub(crate) mod absence;
pub(crate) mod bridge;
mod connector;
pub(crate) mod events;
pub(crate) mod jsonrpc;
pub(crate) mod quick;
pub(crate) mod state;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use mcpproxy_core::nearest;
use serde_json::Value;

use self::connector::Connector;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::home::lock::Running;
use crate::terminal::output::{line, lines};

/// Limit for an answer. It is larger than any valid answer, and protects against a broken gateway.
pub(crate) const ANSWER_MAX_BYTES: usize = 256 * 1024 * 1024;

/// An HTTP client for one gateway.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<Connector, Full<Bytes>>,
    base: String,
}

impl Http {
    pub(crate) fn new(running: &Running) -> anyhow::Result<Self> {
        let address: SocketAddr = running
            .address
            .parse()
            .with_context(|| format!("gateway.lock contains an invalid address: `{}`", running.address))?;
        let address = reachable(address);
        let base = match running.certificate {
            // The gateway knows this host, also if it listens on an address that no setting names.
            Some(_) => running.url.clone(),
            None => format!("http://{address}"),
        };
        let connector = Connector::new(address, running);
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), base })
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, SendError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = format!("{}{path}", self.base).parse().map_err(|_| SendError::BadPath)?;
        *request.headers_mut() = headers;
        self.client.request(request).await.map_err(SendError::of)
    }
}

/// An error without an answer from the gateway.
#[derive(Debug)]
pub(crate) enum SendError {
    BadPath,
    /// Nothing was sent, so a retry is safe.
    NotConnected,
    /// Another program answers with a certificate that is not the gateway's. Nothing was sent.
    NotTheGateway,
    /// The gateway may or may not have received the request.
    Broken(hyper_util::client::legacy::Error),
}

impl SendError {
    fn of(error: hyper_util::client::legacy::Error) -> Self {
        match error.is_connect() {
            true if is_caused_by_trust(&error) => Self::NotTheGateway,
            true => Self::NotConnected,
            false => Self::Broken(error),
        }
    }
}

fn is_caused_by_trust(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_here = error.downcast_ref::<std::io::Error>().is_some_and(connector::is_about_trust);
    is_here || error.source().is_some_and(is_caused_by_trust)
}

impl From<SendError> for anyhow::Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::BadPath => Failure::new(Exit::Usage, "This name cannot be part of a URL.").into(),
            SendError::NotConnected => Failure::new(Exit::NoGateway, "The gateway has stopped.").into(),
            SendError::NotTheGateway => {
                Failure::new(Exit::Failed, "The gateway's address answers with another certificate. Nothing was sent.")
                    .hint("find the program on that port with `mcpproxy doctor`, stop it, and restart the gateway")
                    .into()
            }
            SendError::Broken(error) => Self::new(error).context("the gateway did not answer"),
        }
    }
}

/// The REST API of the running gateway, opened with the admin key.
pub(crate) struct Rest {
    http: Http,
    key: HeaderValue,
}

impl Rest {
    pub(crate) fn connect(home: &Home) -> anyhow::Result<Self> {
        let running = home.running()?.ok_or_else(|| no_gateway(home))?;
        let mut key =
            HeaderValue::from_str(&home.existing_admin_key()?).context("admin.key does not contain a valid key")?;
        key.set_sensitive(true);
        Ok(Self { http: Http::new(&running)?, key })
    }

    /// Sends a request and returns its JSON answer. An error answer becomes a failure with the gateway's message.
    pub(crate) async fn ask(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        self.send(method, path, Bytes::new()).await
    }

    /// Gets a thing that may not exist. Returns `None` for an error with the code `missing`.
    pub(crate) async fn find(&self, path: &str, missing: &str) -> anyhow::Result<Option<Value>> {
        let reply = self.http.ask(Method::GET, path, self.headers(), Bytes::new()).await?;
        match reply.code() {
            None => Ok(Some(reply.answer)),
            Some(code) if code == missing => Ok(None),
            Some(_) => Err(reply.failure().into()),
        }
    }

    fn headers(&self) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static("x-api-key"), self.key.clone())])
    }

    /// Reloads changed files now. Returns the servers when the change is active.
    pub(crate) async fn reload(&self) -> anyhow::Result<Value> {
        self.ask(Method::POST, "/api/v1/reload").await
    }

    /// Sends a request like [`Rest::ask`]. Also returns the text, in which numbers keep their original digits.
    pub(crate) async fn ask_for_text(&self, method: Method, path: &str) -> anyhow::Result<(Value, String)> {
        let reply = self.exchange(method, path, Bytes::new()).await?;
        let text = reply.text()?.to_owned();
        Ok((reply.answer, text))
    }

    /// Sends a POST request with a JSON body.
    pub(crate) async fn post(&self, path: &str, body: String) -> anyhow::Result<Value> {
        self.send(Method::POST, path, body.into()).await
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Value> {
        Ok(self.exchange(method, path, body).await?.answer)
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Reply> {
        let headers = self.headers();
        let reply = self.http.ask(method, path, headers.clone(), body).await?;
        if reply.status.is_success() {
            return Ok(reply);
        }
        let failure = reply.failure();
        let is_server_unknown = reply.code() == Some("server_not_found");
        Err(if is_server_unknown { self.no_server(path, headers, failure).await } else { failure }.into())
    }

    /// Names the server that was probably meant. `path` is the one of the request that failed.
    async fn no_server(&self, path: &str, headers: HeaderMap, failure: Failure) -> Failure {
        let Some(wanted) = path.strip_prefix(SERVERS).and_then(|rest| rest.split(['/', '?']).find(|p| !p.is_empty()))
        else {
            return failure;
        };
        let failure = Failure::new(failure.exit(), format!("{failure}: {}", line(wanted)))
            .hint("list all servers with `mcpproxy servers list`");
        // The failure itself is what matters, so a list that cannot be read is not reported.
        let listed = self.http.ask(Method::GET, SERVERS, headers, Bytes::new()).await.map(|reply| reply.answer);
        let listed = listed.unwrap_or_default();
        let servers = listed.get("servers").and_then(Value::as_array).into_iter().flatten();
        let near = nearest(wanted, servers.filter_map(|server| server.get("name")?.as_str()));
        match near {
            Some(near) => failure.hint(format!("did you mean `{}`?", line(near))),
            None => failure,
        }
    }
}

/// The path of the list of servers. The paths of a server start with it.
const SERVERS: &str = "/api/v1/servers";

/// An answer of the REST API, success or error.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) answer: Value,
    body: Bytes,
}

impl Reply {
    /// Returns the error code, if the answer is an error.
    pub(crate) fn code(&self) -> Option<&str> {
        self.answer.pointer("/error/code").and_then(Value::as_str)
    }

    /// Returns the text of the answer, in which numbers keep their original digits.
    pub(crate) fn text(&self) -> anyhow::Result<&str> {
        std::str::from_utf8(&self.body).context("the gateway's answer is not UTF-8")
    }

    /// Returns a failure with the gateway's message.
    pub(crate) fn failure(&self) -> Failure {
        failure(self.status, &self.answer)
    }
}

impl Http {
    /// Sends a request and returns its JSON answer, which is null for an empty body.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Reply> {
        let response = self.send(method, path, headers, body).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = read_body(response).await?;
        let answer = match body.is_empty() && status.is_success() {
            true => Value::Null,
            false => {
                serde_json::from_slice(&body).with_context(|| format!("the gateway answered {status} without JSON"))?
            }
        };
        Ok(Reply { status, headers, answer, body })
    }
}

/// Reads a whole body, up to a limit.
pub(crate) async fn read_body(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    let body = Limited::new(response.into_body(), ANSWER_MAX_BYTES);
    match body.collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => {
            Err(anyhow::anyhow!(error).context("the gateway closed the connection before the answer was complete"))
        }
    }
}

pub(crate) fn is_event_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

pub(crate) fn no_gateway(home: &Home) -> Failure {
    Failure::new(Exit::NoGateway, format!("No gateway is running on `{}`.", home.folder().display()))
        .hint(format!("start it in another terminal: {}", home.command("mcpproxy", "serve")))
}

fn failure(status: StatusCode, answer: &Value) -> Failure {
    let text = |name: &str| answer.pointer(&format!("/error/{name}")).and_then(Value::as_str).map(line);
    let failure = match (text("code").as_deref(), answer.pointer("/error/message").and_then(Value::as_str)) {
        // As `config check` reports the same files: one line for each mistake.
        (Some("settings_invalid"), Some(mistakes)) => {
            Failure::new(Exit::BadSettings, lines(mistakes)).title("invalid settings, contracts or policies")
        }
        _ => Failure::new(Exit::Failed, text("message").unwrap_or_else(|| format!("the gateway answered {status}"))),
    };
    // The gateway's hints name REST requests. At the terminal, a command helps more.
    let hint = match text("code").as_deref() {
        Some("server_not_found") => Some("list all servers with `mcpproxy servers list`".to_owned()),
        Some("grant_not_found") => {
            Some("list all standing approvals with `mcpproxy approvals grants --all`".to_owned())
        }
        Some("approval_not_found") => {
            Some("list all approval requests with `mcpproxy approvals list --state all`".to_owned())
        }
        Some("tool_not_found") => Some("list all tools with `mcpproxy tools list`".to_owned()),
        _ => text("hint"),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Replaces the unspecified address by loopback.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => address,
    }
}
