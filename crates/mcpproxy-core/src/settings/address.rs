//! Addresses: where mcpproxy listens, the hosts and origins it accepts, and the URLs of servers.

use std::net::{Ipv4Addr, SocketAddr};

use url::Url;

use crate::file::shown;

/// Parses `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok()) {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| "expected an address and a port such as \"127.0.0.1:8080\"".to_owned())
}

/// Refuses an address other than loopback without TLS, because tokens would cross the network in the clear. `encrypts` is
/// [`Settings::encrypts`](super::Settings::encrypts).
pub fn check_listen(addr: SocketAddr, encrypts: bool) -> Result<(), String> {
    if addr.ip().to_canonical().is_loopback() || encrypts {
        return Ok(());
    }
    Err("refusing a non-loopback listener without TLS; listen on 127.0.0.1, give the gateway a certificate with `tls`, or \
         put a proxy that terminates TLS in front and set `tls_terminated_by_proxy` to true"
        .to_owned())
}

/// Parses a host as in a `Host` header, with or without a port.
pub(super) fn parse_host(text: &str) -> Result<String, String> {
    let host = text.to_ascii_lowercase();
    let is_plain =
        host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']'));
    // A URL parser accepts any host between `//` and `/`. The checks above exclude the other parts of a URL.
    let parsed = Url::parse(&format!("http://{host}/")).ok();
    if is_plain && parsed.is_some_and(|url| url.host().is_some()) {
        return Ok(host);
    }
    Err("expected a host such as \"gateway.example.com\" or \"gateway.example.com:8443\", without scheme, path or `*`"
        .to_owned())
}

/// Parses an origin as browsers send it.
pub(super) fn parse_origin(text: &str) -> Result<String, String> {
    let bad = || "expected an origin such as \"https://app.example.com\", without path or `*`".to_owned();
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '*') {
        return Err(bad());
    }
    let url = Url::parse(text).map_err(|_| bad())?;
    let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    if !is_bare || has_userinfo(&url) || url.host_str().is_none_or(str::is_empty) {
        return Err(bad());
    }
    if matches!(url.scheme(), "http" | "https") {
        return Ok(url.origin().ascii_serialization());
    }
    // Editors and browser extensions have their own schemes, for which the library knows no origin.
    Ok(text.trim_end_matches('/').to_ascii_lowercase())
}

/// Checks the URL of a server. The messages leave out its path and query, which may hold a key.
pub(super) fn check_server_url(text: &str) -> Result<(), String> {
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("the address contains a space, line end or control character; remove it".to_owned());
    }
    let url = Url::parse(text)
        .map_err(|error| format!("not an address ({error}); expected a URL such as \"https://mcp.example.com/mcp\""))?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = shown(url.scheme());
        return Err(format!("the address begins with `{scheme}:`; expected `http://` or `https://`"));
    }
    if has_userinfo(&url) {
        return Err("the address contains a user or password before `@`; put it into `headers`, for example \
                    \"Authorization\": \"Basic ${env:NAME}\""
            .to_owned());
    }
    if url.fragment().is_some() {
        return Err("the address contains `#`, which is never sent to a server; remove it and what follows".to_owned());
    }
    Ok(())
}

/// Reads `public_url`, the origin of the gateway. `http` is for loopback only, because others could read a session on
/// the network.
pub(super) fn parse_public_url(text: &str) -> Result<String, String> {
    let bad = || "expected an address such as \"https://gateway.example.com\", without path or `*`".to_owned();
    let origin = parse_origin(text).map_err(|_| bad())?;
    let url = Url::parse(&origin).map_err(|_| bad())?;
    match url.scheme() {
        "https" => Ok(origin),
        "http" if is_here(&url) => Ok(origin),
        "http" => Err("users would send their passwords unencrypted; write `https://`, which a proxy in front can \
                       terminate, or `http://localhost`"
            .to_owned()),
        _ => Err(bad()),
    }
}

/// Reads the issuer of an identity provider. The text must stay as it is, because tokens repeat it exactly.
pub(super) fn parse_issuer(text: &str) -> Result<String, String> {
    let bad =
        || "expected the issuer of a provider, such as \"https://id.example.com\", without `?` and `#`".to_owned();
    check_server_url(text).map_err(|_| bad())?;
    let url = Url::parse(text).map_err(|_| bad())?;
    match url.scheme() {
        _ if url.query().is_some() => Err(bad()),
        "https" => Ok(text.to_owned()),
        _ if is_loopback(&url) => Ok(text.to_owned()),
        _ => Err("anyone on the network could sign in as anyone; write `https://`; `http://` is accepted for \
                  `localhost` only"
            .to_owned()),
    }
}

/// Checks the URL of a webhook. The messages do not show it, because it may hold a key.
pub(super) fn check_webhook_url(text: &str) -> Result<(), String> {
    check_server_url(text)?;
    match Url::parse(text) {
        Ok(url) if url.scheme() == "https" || is_here(&url) => Ok(()),
        _ => Err("approval requests would cross the network unencrypted; write `https://`".to_owned()),
    }
}

/// Returns true for `localhost` itself and for loopback addresses. Other names below `localhost` may be resolved elsewhere.
fn is_loopback(url: &Url) -> bool {
    is_here(url) && !matches!(url.host(), Some(url::Host::Domain(name)) if name != "localhost")
}

/// Returns true for a loopback host.
fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        None => false,
    }
}

fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners() {
        let check = |text: &str, tls: bool, expected: Option<&str>| {
            let addr = parse_listen(text).and_then(|addr| check_listen(addr, tls).map(|()| addr.to_string()));
            assert_eq!(addr.ok().as_deref(), expected, "{text:?}");
        };
        check("127.0.0.1:8080", false, Some("127.0.0.1:8080"));
        check("localhost:0", false, Some("127.0.0.1:0"));
        check("[::1]:8080", false, Some("[::1]:8080"));
        check("[::ffff:127.0.0.1]:1", false, Some("[::ffff:127.0.0.1]:1"));
        check("0.0.0.0:8080", false, None);
        check("0.0.0.0:8080", true, Some("0.0.0.0:8080"));
        for bad in
            ["", ":8080", "8080", "127.0.0.1", "localhost", "localhost:70000", "example.com:80", "127.0.0.1:8080/"]
        {
            check(bad, true, None);
        }
    }

    #[test]
    fn hosts() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(parse_host(text).ok().as_deref(), expected, "{text:?}");
        check("Gateway.Example.com", Some("gateway.example.com"));
        check("gateway:8443", Some("gateway:8443"));
        check("[::1]:8080", Some("[::1]:8080"));
        for bad in ["", "*", "*.example.com", "https://a", "a/b", "a b", "a:b", ":80", "u@h"] {
            check(bad, None);
        }
    }

    #[test]
    fn origins() {
        let check =
            |text: &str, expected: Option<&str>| assert_eq!(parse_origin(text).ok().as_deref(), expected, "{text:?}");
        check("https://App.example.com:443/", Some("https://app.example.com"));
        check("http://localhost:6274", Some("http://localhost:6274"));
        check("chrome-extension://abcdef", Some("chrome-extension://abcdef"));
        for bad in
            ["", "*", "null", "app.example.com", "https://a/b", "https://a?b", "https://*.a", "https://u@a", "file:///"]
        {
            check(bad, None);
        }
    }
}
