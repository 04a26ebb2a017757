//! The guard in front of every route, including `/mcp`: it rejects requests with an unknown `Host` or `Origin`.
//!
//! The gateway listens on loopback, so only local programs can connect. Browsers are local programs too, and every web
//! page they show can make them send requests. Two attacks follow:
//!
//! - **DNS rebinding.** `evil.example` resolves to 127.0.0.1. To the browser its page and the gateway have the same
//!   origin, so that page can read answers. But the browser still sends `Host: evil.example`.
//! - **Cross-site requests.** Any page can send a form or a `fetch` to `http://localhost:8080`. The browser adds the
//!   `Origin` of that page.
//!
//! A page cannot choose either header. The guard therefore accepts:
//!
//! - `Host`: loopback names with our port, the host of `public_url`, and `allowed_hosts` of the settings. A missing or
//!   repeated header is rejected, and so is a request line with another host.
//! - `Origin`: absent (programs that are not browsers), loopback with any port, our own address, and `allowed_origins`.
//!
//! Health probes are exempt from the check of `Host`: a probe of Kubernetes or a load balancer sends the address of the
//! gateway. `/healthz` and `/readyz` reveal nothing, so a page that reads them by DNS rebinding learns nothing.
//!
//! Invariants: the guard wraps the whole router, so that a new route cannot bypass it. It decides before the body is
//! read. A reload of the settings reaches open connections, because clones share the lists.
//!
//! Loopback origins of other ports are accepted here because local development tools call `/mcp` from a browser. For
//! requests that change something on behalf of a signed-in user this is too weak. `origin::is_own` adds a stricter
//! check.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use axum::response::{IntoResponse as _, Response};
use futures::future::Either;
use http::header::{HOST, HeaderMap, ORIGIN};
use http::{Request, Uri};
use tower::Service;

use crate::problem::Problem;

/// Paths that probes call by address.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// The allowed hosts and origins. Clones share the lists, so that a reload reaches every connection.
#[derive(Clone)]
pub struct Guard {
    port: u16,
    allowed: Arc<ArcSwap<Allowed>>,
    /// The address of our own pages, always allowed.
    own: Option<Own>,
    /// True if a credential protects every route, so that the host does not matter.
    any_host: bool,
}

#[derive(Clone)]
struct Own {
    host: String,
    origin: String,
}

#[derive(Default)]
struct Allowed {
    hosts: Vec<String>,
    origins: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Host,
    Origin,
}

impl Guard {
    /// Creates a guard. `port` is the port we listen on. `hosts` are `name` or `name:port`, `origins` are
    /// `scheme://host[:port]`.
    pub fn new(port: u16, hosts: &[String], origins: &[String]) -> Self {
        let guard = Self { port, allowed: Arc::default(), own: None, any_host: false };
        guard.allow(hosts, origins);
        guard
    }

    /// Creates a guard that accepts every `Host` and no foreign `Origin`. Only for routes that need a credential, which no
    /// page in a browser has.
    pub(crate) fn any_host(port: u16) -> Self {
        Self { port, allowed: Arc::default(), own: None, any_host: true }
    }

    /// Allows this address too, independent of the lists.
    pub(crate) fn at(mut self, base_url: &str) -> Self {
        let host = base_url.strip_prefix("http://").or_else(|| base_url.strip_prefix("https://"));
        self.own = host.map(|host| Own { host: host.to_owned(), origin: base_url.to_owned() });
        self
    }

    /// Replaces the lists for all clones.
    pub fn allow(&self, hosts: &[String], origins: &[String]) {
        let lower = |texts: &[String]| texts.iter().map(|text| text.to_ascii_lowercase()).collect();
        self.allowed.store(Arc::new(Allowed { hosts: lower(hosts), origins: lower(origins) }));
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let allowed = self.allowed.load();
        if !PROBES.contains(&uri.path()) {
            let host = only(headers, HOST).ok_or(Refusal::Host)?;
            // A request line may contain a host too. Both must be known.
            let in_line = uri.authority().map(|authority| authority.as_str());
            if !self.host_is_known(&allowed, host) || in_line.is_some_and(|line| !self.host_is_known(&allowed, line)) {
                return Err(Refusal::Host);
            }
        }
        if headers.contains_key(ORIGIN) {
            let origin = only(headers, ORIGIN).ok_or(Refusal::Origin)?;
            let is_own = self.own.as_ref().is_some_and(|own| own.origin.eq_ignore_ascii_case(origin));
            if !is_own && !origin_is_known(&allowed, origin) {
                return Err(Refusal::Origin);
            }
        }
        Ok(())
    }

    fn host_is_known(&self, allowed: &Allowed, host: &str) -> bool {
        let (name, port) = split_port(host);
        let right_port = match port {
            Some(port) => port.parse() == Ok(self.port),
            // Clients leave out the port that belongs to the scheme.
            None => matches!(self.port, 80 | 443),
        };
        let is_own = self.own.as_ref().is_some_and(|own| own.host.eq_ignore_ascii_case(host));
        self.any_host
            || (right_port && is_loopback(name))
            || is_own
            || allowed.hosts.iter().any(|known| known.eq_ignore_ascii_case(host) || known.eq_ignore_ascii_case(name))
    }
}

fn origin_is_known(allowed: &Allowed, origin: &str) -> bool {
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let loopback = host.is_some_and(|host| {
        let (name, port) = split_port(host);
        is_loopback(name) && port.is_none_or(|port| port.parse::<u16>().is_ok())
    });
    loopback || allowed.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]"
}

/// Splits `[::1]:8080` into `[::1]` and `8080`.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

/// Returns the value of a header that must not be repeated.
fn only(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

impl Refusal {
    fn response(self) -> Response {
        match self {
            Self::Host => Problem::HOST_NOT_ALLOWED,
            Self::Origin => Problem::ORIGIN_NOT_ALLOWED,
        }
        .into_response()
    }
}

/// A service behind the guard. It wraps the whole router: a layer inside the router would box every call once more.
#[derive(Clone)]
pub struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl<S> Guarded<S> {
    pub(crate) fn new(guard: Guard, inner: S) -> Self {
        Self { guard, inner }
    }
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response, Infallible>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.guard.check(request.uri(), request.headers()) {
            Ok(()) => Either::Right(self.inner.call(request)),
            Err(refusal) => Either::Left(ready(Ok(refusal.response()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_origins() {
        let guard = Guard::new(8080, &["Gateway.Internal".into(), "box:9000".into()], &["https://ide.example".into()]);
        let check = |host: &str, origin: &str, expected: Result<(), Refusal>| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                for part in value.split('|').filter(|part| !part.is_empty()) {
                    headers.append(&name, part.parse().unwrap());
                }
            }
            assert_eq!(guard.check(&Uri::from_static("/mcp"), &headers), expected, "{host:?} {origin:?}");
        };
        check("localhost:8080", "", Ok(()));
        check("LOCALHOST:8080", "", Ok(()));
        check("127.0.0.1:8080", "", Ok(()));
        check("[::1]:8080", "", Ok(()));
        check("gateway.internal", "", Ok(()));
        check("gateway.internal:443", "", Ok(()));
        check("box:9000", "", Ok(()));
        check("box:9001", "", Err(Refusal::Host));
        check("box", "", Err(Refusal::Host));
        check("", "", Err(Refusal::Host));
        check("localhost", "", Err(Refusal::Host));
        check("localhost:", "", Err(Refusal::Host));
        check("localhost:80", "", Err(Refusal::Host));
        check("localhost:8080|evil.example:8080", "", Err(Refusal::Host));
        check("evil.example:8080", "", Err(Refusal::Host));
        check("127.0.0.1.evil.example:8080", "", Err(Refusal::Host));
        check("localhost.evil.example:8080", "", Err(Refusal::Host));
        check("evil@localhost:8080", "", Err(Refusal::Host));
        check("0.0.0.0:8080", "", Err(Refusal::Host));
        check("[::1]", "", Err(Refusal::Host));

        check("localhost:8080", "http://localhost:8080", Ok(()));
        check("localhost:8080", "http://localhost:5173", Ok(()));
        check("localhost:8080", "https://127.0.0.1", Ok(()));
        check("localhost:8080", "http://[::1]:3000", Ok(()));
        check("localhost:8080", "https://ide.example", Ok(()));
        check("localhost:8080", "https://evil.example", Err(Refusal::Origin));
        check("localhost:8080", "null", Err(Refusal::Origin));
        check("localhost:8080", "http://localhost:8080|http://localhost:8080", Err(Refusal::Origin));
        check("localhost:8080", "http://localhost.evil.example", Err(Refusal::Origin));
        check("localhost:8080", "http://localhost:80@evil.example", Err(Refusal::Origin));
        check("localhost:8080", "http://localhost:8080/path", Err(Refusal::Origin));
        check("localhost:8080", "file://localhost", Err(Refusal::Origin));
    }

    #[test]
    fn a_host_in_the_request_line_counts_too() {
        let guard = Guard::new(8080, &[], &[]);
        let headers = HeaderMap::from_iter([(HOST, "localhost:8080".parse().unwrap())]);
        let check = |uri: &'static str| guard.check(&Uri::from_static(uri), &headers);
        assert_eq!(check("http://localhost:8080/mcp"), Ok(()));
        assert_eq!(check("http://evil.example:8080/mcp"), Err(Refusal::Host));
        assert_eq!(check("http://evil.example:8080/healthz/../mcp"), Err(Refusal::Host));
        assert_eq!(check("http://evil.example:8080/healthz"), Ok(()));
    }

    #[test]
    fn our_own_address_is_allowed() {
        let guard = Guard::new(8080, &[], &[]).at("https://gate.example");
        let check = |host: &str, origin: &str, expected: Result<(), Refusal>| {
            let headers = [(HOST, host.parse().unwrap()), (ORIGIN, origin.parse().unwrap())];
            assert_eq!(
                guard.check(&Uri::from_static("/"), &HeaderMap::from_iter(headers)),
                expected,
                "{host} {origin}"
            );
        };
        check("gate.example", "https://gate.example", Ok(()));
        check("localhost:8080", "https://gate.example", Ok(()));
        check("gate.example", "http://gate.example", Err(Refusal::Origin));
        check("gate.example:8080", "https://gate.example", Err(Refusal::Host));
        check("gate.example.evil.example", "https://gate.example", Err(Refusal::Host));
    }

    #[test]
    fn a_reload_reaches_clones() {
        let guard = Guard::new(8080, &[], &[]);
        let headers = HeaderMap::from_iter([(HOST, "box:8080".parse().unwrap())]);
        let clone = guard.clone();
        guard.allow(&["box".into()], &[]);
        assert_eq!(clone.check(&Uri::from_static("/"), &headers), Ok(()));
    }
}
