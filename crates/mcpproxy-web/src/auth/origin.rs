//! Checks that a request which changes something comes from one of our own pages.

use http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use subtle::ConstantTimeEq as _;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
pub(crate) const CSRF_HEADER: HeaderName = HeaderName::from_static("x-csrf-token");

/// Checks that the request comes from one of our pages at `own`, or from a program that is not a browser and sends no
/// origin. This is stricter than the guard, which accepts pages of all loopback ports. Those belong to other programs
/// and must not act for a user who is signed in here.
pub(crate) fn is_own(headers: &HeaderMap, own: &str) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let from_page = match text(ORIGIN) {
        None => true,
        Some(origin) => {
            // On a host with TLS, a page of `http://` is from another program, or from someone on the network.
            let may_be_plain = own.starts_with("http://") || text(HOST).is_some_and(is_loopback);
            let plain = || origin.strip_prefix("http://").filter(|_| may_be_plain);
            let place = origin.strip_prefix("https://").or_else(plain);
            let is_host = place.is_some_and(|place| text(HOST).is_some_and(|host| host.eq_ignore_ascii_case(place)));
            is_host || origin.eq_ignore_ascii_case(own)
        }
    };
    from_page && text(FETCH_SITE).is_none_or(|site| matches!(site, "same-origin" | "none"))
}

fn is_loopback(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        let port = host.strip_prefix(name);
        port.is_some_and(|port| port.is_empty() || port.starts_with(':'))
    })
}

/// Compares a token in constant time.
pub(crate) fn is_token(given: &str, expected: &str) -> bool {
    !expected.is_empty() && given.as_bytes().ct_eq(expected.as_bytes()).into()
}

/// Returns the page to open after signing in. Anything but one of our own pages is replaced by the list of approvals.
pub(crate) fn next_page(next: Option<&str>) -> &str {
    const FIRST: &str = "/ui/approvals";
    // Some browsers read `\` as `/` and drop invalid characters, so that `/ui/..//evil.example` leads to another site.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.?=&%".contains(&byte);
    let is_ours = |next: &&str| {
        next.starts_with("/ui/") && !next.contains("//") && !next.contains("..") && next.bytes().all(fits)
    };
    // These pages make no sense right after signing in.
    let is_useful = |next: &&str| {
        !["/ui/login", "/ui/logout", "/ui/setup", "/ui/sign-in", "/ui/events"].iter().any(|no| next.starts_with(no))
    };
    next.filter(is_ours).filter(is_useful).filter(|next| next.len() <= 200).unwrap_or(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_act_for_people() {
        let check = |host: &str, origin: Option<&str>, site: Option<&str>, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            for (name, value) in [(ORIGIN, origin), (FETCH_SITE, site)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            assert_eq!(is_own(&headers, "https://gate.example"), expected, "{host} {origin:?} {site:?}");
        };
        check("localhost:8080", None, None, true);
        check("localhost:8080", Some("http://localhost:8080"), None, true);
        check("localhost:8080", Some("http://LOCALHOST:8080"), Some("same-origin"), true);
        check("gate.example", Some("http://gate.example"), None, false);
        check("other.example", Some("https://other.example"), None, true);
        check("localhost:8080", Some("http://localhost:5173"), None, false);
        check("localhost:8080", Some("http://127.0.0.1:8080"), None, false);
        check("localhost:8080", Some("null"), None, false);
        check("localhost:8080", Some("http://localhost:8080.evil.example"), None, false);
        check("localhost:8080", Some("https://gate.example"), None, true);
        check("localhost:8080", Some("https://gate.example"), Some("cross-site"), false);
        check("localhost:8080", None, Some("same-site"), false);
        check("localhost:8080", None, Some("none"), true);
    }

    #[test]
    fn tokens() {
        assert!(is_token("abc", "abc"));
        for (given, expected) in [("", "abc"), ("abd", "abc"), ("abcd", "abc"), ("", "")] {
            assert!(!is_token(given, expected), "{given} {expected}");
        }
    }

    #[test]
    fn next_pages() {
        let check = |next: &str, expected: &str| assert_eq!(next_page(Some(next)), expected, "{next}");
        assert_eq!(next_page(None), "/ui/approvals");
        check("/ui/approvals/01K9ZQ4B2R0000000000000000", "/ui/approvals/01K9ZQ4B2R0000000000000000");
        check("/ui/approvals?state=denied&cursor=a%3D", "/ui/approvals?state=denied&cursor=a%3D");
        check("/ui/account", "/ui/account");
        for bad in [
            "",
            "/",
            "//evil.example",
            "https://evil.example",
            "/ui",
            "/uix",
            "/ui//evil.example",
            "/ui/../x",
            "/ui/\\evil.example",
            "/ui/\u{9}/evil",
            "/ui/@evil",
            "/ui/:80",
            "javascript:alert(1)",
            " /ui/grants",
            "/ui/login",
            "/ui/logout",
            "/ui/setup/mcpi_1",
            "/ui/sign-in/oidc",
            "/ui/a b",
            "/ui/é",
            &format!("/ui/{}", "a".repeat(200)),
        ] {
            check(bad, "/ui/approvals");
        }
    }
}
