//! Reads, sets and clears the session cookie, and the cookie of a sign-in with the identity provider.

use http::header::{COOKIE, HeaderMap, HeaderValue};

const NAME: &str = "mcpproxy_session";
/// Binds a sign-in with the identity provider to its browser. It comes back with the redirect of another site, so it
/// cannot be `Strict` as the session is.
const SIGN_IN: &str = "mcpproxy_sign_in";
const SIGN_IN_ATTRIBUTES: &str = "Path=/ui/sign-in/oidc; HttpOnly; SameSite=Lax";

/// Limits the lookups per request.
const CANDIDATES_MAX: usize = 4;

/// The transport of the pages. Over TLS, the cookie has the attribute `Secure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

/// Returns the possible secrets of the session. There are several if another program on this host set a cookie of the
/// same name. Browsers separate cookies by host, not by port.
pub(crate) fn read(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    named(headers, NAME)
}

/// Returns the possible secrets of the browser in a sign-in with the identity provider.
pub(crate) fn read_sign_in(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    named(headers, SIGN_IN)
}

fn named<'h>(headers: &'h HeaderMap, wanted: &'static str) -> impl Iterator<Item = &'h str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let secrets = cookies.flat_map(|value| value.split(';')).filter_map(move |pair| {
        let (name, secret) = pair.trim().split_once('=')?;
        (name == wanted).then_some(secret)
    });
    secrets.filter(|secret| !secret.is_empty() && secret.len() <= 200).take(CANDIDATES_MAX)
}

/// Builds the `Set-Cookie` header. Returns `None` if the secret contains characters that a cookie cannot, which ours
/// never do.
pub(crate) fn set(secret: &str, max_age_s: i64, transport: Transport) -> Option<HeaderValue> {
    let text = format!("{NAME}={secret}; Max-Age={max_age_s}; {}", attributes(transport));
    fits(secret).then(|| HeaderValue::from_str(&text).ok())?
}

/// Builds the `Set-Cookie` header of a sign-in with the identity provider.
pub(crate) fn set_sign_in(secret: &str, max_age_s: i64, transport: Transport) -> Option<HeaderValue> {
    let secure = match transport {
        Transport::Plain => "",
        Transport::Tls => "; Secure",
    };
    let text = format!("{SIGN_IN}={secret}; Max-Age={max_age_s}; {SIGN_IN_ATTRIBUTES}{secure}");
    fits(secret).then(|| HeaderValue::from_str(&text).ok())?
}

fn fits(secret: &str) -> bool {
    secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

pub(crate) fn clear(transport: Transport) -> HeaderValue {
    let text = format!("{NAME}=; Max-Age=0; {}", attributes(transport));
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn attributes(transport: Transport) -> &'static str {
    match transport {
        Transport::Plain => "Path=/; HttpOnly; SameSite=Strict",
        Transport::Tls => "Path=/; HttpOnly; SameSite=Strict; Secure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_for_a_session() {
        let check = |cookies: &[&str], expected: &[&str]| {
            let mut headers = HeaderMap::new();
            for cookie in cookies {
                headers.append(COOKIE, cookie.parse().unwrap());
            }
            assert_eq!(read(&headers).collect::<Vec<_>>(), expected, "{cookies:?}");
        };
        check(&[], &[]);
        check(&["mcpproxy_session=abc"], &["abc"]);
        check(&["a=1; mcpproxy_session=abc; b=2"], &["abc"]);
        check(&["a=1", "mcpproxy_session=abc"], &["abc"]);
        check(&["mcpproxy_session="], &[]);
        check(&["mcpproxy_session=abc; mcpproxy_session=def"], &["abc", "def"]);
        check(
            &["mcpproxy_session=a; mcpproxy_session=b; mcpproxy_session=c", "mcpproxy_session=d; mcpproxy_session=e"],
            &["a", "b", "c", "d"],
        );
        check(&["xmcpproxy_session=abc"], &[]);
        check(&["mcpproxy_session"], &[]);
        check(&[&format!("mcpproxy_session={}", "a".repeat(201))], &[]);
    }

    #[test]
    fn what_browsers_are_told() {
        assert_eq!(
            set("mcps_0a", 43_200, Transport::Plain).unwrap(),
            "mcpproxy_session=mcps_0a; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            set("mcps_0a", 43_200, Transport::Tls).unwrap(),
            "mcpproxy_session=mcps_0a; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(set("a; Domain=evil.example", 1, Transport::Plain), None);
        assert_eq!(
            set_sign_in("0a", 600, Transport::Tls).unwrap(),
            "mcpproxy_sign_in=0a; Max-Age=600; Path=/ui/sign-in/oidc; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(clear(Transport::Plain), "mcpproxy_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict");
    }
}
