//! `/mcp` as an OAuth protected resource (RFC 9728): its metadata, and the answers to requests without a usable token.
//!
//! A client that gets 401 reads `resource_metadata` in `WWW-Authenticate`, loads that document, finds the identity
//! provider in it, and signs its user in there. All of this exists only while `agents.oauth` is set. Without it, the
//! well-known addresses are a plain 404 and a 401 says `Bearer`, because some clients ignore the token they were given as
//! soon as they find an authorization server.
//!
//! The metadata URL has the host that the client used, which the web crate has compared with the known hosts. So the
//! client can reach it. Its scheme is the one that the listener speaks. `tls` in the settings may have changed since the
//! start, and takes effect after a restart. The resource is `audience`, if that is a URL: clients ask the provider for a
//! token for the resource, and the provider writes that into `aud`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use mcpproxy_core::ServerName;
use mcpproxy_core::settings::{AgentOAuth, NoAgent, Settings};
use serde_json::json;

use super::respond;
use crate::agents::Rejected;
use crate::state::SharedState;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// Path of the endpoint mode that stands for all.
const MAIN: &str = "/mcp";

/// The address that a request was sent to.
#[derive(Clone, Copy)]
pub(super) struct Target<'r> {
    pub(super) headers: &'r HeaderMap,
    pub(super) uri: &'r Uri,
}

impl Target<'_> {
    /// Returns `scheme://host` as the client sees it.
    fn base(&self, settings: &Settings, speaks_tls: bool) -> String {
        let named = self.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        // HTTP/2 has the host in the request line.
        let host = named.or_else(|| self.uri.authority().map(|authority| authority.as_str()));
        // While a change of `tls` waits for a restart, the public URL is the one of the next start.
        let is_waiting = settings.tls.is_some() != speaks_tls;
        let public = settings.approvals.public_url.as_deref().filter(|_| !is_waiting);
        let is_public = |host: &str| public.and_then(|url| url.split_once("://")).is_some_and(|(_, own)| own == host);
        let scheme = |is_https: bool| if is_https { "https" } else { "http" };
        match (host, public) {
            (Some(host), Some(public)) if is_public(host) => public.to_owned(),
            (Some(host), _) => {
                let is_https = speaks_tls || (settings.tls_terminated_by_proxy && !is_loopback(host));
                format!("{}://{host}", scheme(is_https))
            }
            (None, Some(public)) => public.to_owned(),
            (None, None) => format!("{}://localhost", scheme(speaks_tls)),
        }
    }

    fn metadata_url(&self, settings: &Settings, speaks_tls: bool) -> String {
        let path = Some(self.uri.path()).filter(|path| is_endpoint(path)).unwrap_or(MAIN);
        format!("{}{WELL_KNOWN}{path}", self.base(settings, speaks_tls))
    }
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]"
}

/// Returns true for the path of an endpoint mode. The server of `/mcp/s/NAME` need not exist.
fn is_endpoint(path: &str) -> bool {
    match path {
        MAIN | "/mcp/direct" => true,
        _ => path.strip_prefix("/mcp/s/").is_some_and(|name| ServerName::parse(name).is_ok()),
    }
}

/// Answers `/.well-known/oauth-protected-resource` and the same with the path of an endpoint mode.
pub(super) async fn metadata(
    State(state): State<Arc<SharedState>>,
    path: Option<Path<String>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let accepted = state.provider_tokens.accepted();
    let is_known = path.is_none_or(|Path(path)| is_endpoint(&format!("/{path}")));
    match accepted {
        Some(accepted) if is_known => {
            let target = Target { headers: &headers, uri: &uri };
            let base = target.base(&state.snapshot.load().settings, state.speaks_tls);
            respond::json(StatusCode::OK, document(&accepted.settings, &base))
        }
        Some(_) | None => respond::plain(StatusCode::NOT_FOUND, "not found\n"),
    }
}

fn document(oauth: &AgentOAuth, base: &str) -> String {
    let is_url = ["https://", "http://"].iter().any(|scheme| oauth.audience.starts_with(scheme));
    let resource = if is_url { oauth.audience.clone() } else { format!("{base}{MAIN}") };
    let mut document = json!({
        "resource": resource,
        "authorization_servers": [oauth.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "mcpproxy",
    });
    let scopes = oauth.requested_scopes();
    // RFC 9728: a list without elements is left out.
    if let Some(members) = document.as_object_mut().filter(|_| !scopes.is_empty()) {
        members.insert("scopes_supported".to_owned(), json!(scopes));
    }
    document.to_string()
}

/// A refusal: the status, the sentence for the response and the log, and the challenge for the client.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: String,
    pub(super) challenge: Option<HeaderValue>,
}

impl Refusal {
    /// Refuses a request without a token, or with one that the gateway did not make.
    pub(super) fn of_stored(state: &SharedState, target: Target<'_>, text: &'static str, has_token: bool) -> Self {
        let challenge = match state.provider_tokens.accepted() {
            None => HeaderValue::from_static("Bearer"),
            Some(accepted) => {
                let error = has_token.then_some(("invalid_token", "the token is unknown or was revoked"));
                challenge(state, target, &accepted.settings, error)
            }
        };
        Self { status: StatusCode::UNAUTHORIZED, text: text.to_owned(), challenge: Some(challenge) }
    }

    /// Refuses a token that should be one of the identity provider.
    pub(super) fn of_provider(
        state: &SharedState,
        target: Target<'_>,
        oauth: &AgentOAuth,
        rejected: &Rejected,
    ) -> Self {
        let reason = rejected.to_string();
        let (status, text, error) = match rejected {
            Rejected::Invalid(_) => (
                StatusCode::UNAUTHORIZED,
                format!("{reason}; get a new one from {}", oauth.issuer),
                Some(("invalid_token", reason.as_str())),
            ),
            Rejected::NoAgent(NoAgent::NotAllowed) => (
                StatusCode::FORBIDDEN,
                format!("{reason}; ask the operator of this gateway for access"),
                Some(("insufficient_scope", reason.as_str())),
            ),
            Rejected::NoAgent(NoAgent::Blocked | NoAgent::Unnamed(_)) => {
                (StatusCode::FORBIDDEN, format!("{reason}; ask the operator of this gateway for access"), None)
            }
            // Not 401: the client would throw its token away and sign its user in again.
            Rejected::Unchecked(_) => {
                return Self {
                    status: StatusCode::SERVICE_UNAVAILABLE,
                    text: format!("the token cannot be checked at the moment: {reason}"),
                    challenge: None,
                };
            }
        };
        Self { status, text, challenge: Some(challenge(state, target, oauth, error)) }
    }

    pub(super) fn response(self) -> Response {
        let mut response = respond::plain_text(self.status, format!("{}\n", self.text.trim_end()));
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Builds `WWW-Authenticate`. Its parts are our own words and settings without quotes, never a part of the request but
/// its host, which is known.
fn challenge(state: &SharedState, target: Target<'_>, oauth: &AgentOAuth, error: Option<(&str, &str)>) -> HeaderValue {
    let quoted = |text: &str| text.replace(['"', '\\'], "'");
    let mut parts = Vec::new();
    if let Some((code, description)) = error {
        parts.push(format!("error=\"{code}\""));
        parts.push(format!("error_description=\"{}\"", quoted(description)));
    }
    let scopes = oauth.requested_scopes();
    if !scopes.is_empty() {
        parts.push(format!("scope=\"{}\"", scopes.join(" ")));
    }
    let url = target.metadata_url(&state.snapshot.load().settings, state.speaks_tls);
    parts.push(format!("resource_metadata=\"{}\"", quoted(&url)));
    HeaderValue::from_str(&format!("Bearer {}", parts.join(", "))).unwrap_or(HeaderValue::from_static("Bearer"))
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::settings::{Unresolved, parse};

    use super::*;

    fn oauth(fields: &str) -> AgentOAuth {
        let text = format!(r#"{{"agents": {{"oauth": {{"issuer": "https://id.example", {fields}}}}}}}"#);
        parse(&text, &Unresolved).unwrap().agents.oauth.unwrap()
    }

    #[test]
    fn the_resource_is_the_audience_or_the_address_of_the_client() {
        let check =
            |fields: &str, expected: &str| assert_eq!(document(&oauth(fields), "http://localhost:8080"), expected);
        check(
            r#""audience": "https://gw.example/mcp""#,
            r#"{"resource":"https://gw.example/mcp","authorization_servers":["https://id.example"],"bearer_methods_supported":["header"],"resource_name":"mcpproxy"}"#,
        );
        check(
            r#""audience": "api://mcpproxy", "scopes": ["mcp"]"#,
            r#"{"resource":"http://localhost:8080/mcp","authorization_servers":["https://id.example"],"bearer_methods_supported":["header"],"resource_name":"mcpproxy","scopes_supported":["mcp"]}"#,
        );
    }

    #[test]
    fn the_metadata_is_at_the_host_that_the_client_used() {
        let check_at = |settings: &str, speaks_tls: bool, host: &str, path: &'static str, expected: &str| {
            let settings = parse(settings, &Unresolved).unwrap();
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            let target = Target { headers: &headers, uri: &Uri::from_static(path) };
            assert_eq!(target.metadata_url(&settings, speaks_tls), expected, "{host} {path}");
        };
        let check = |settings: &str, host: &str, path: &'static str, expected: &str| {
            check_at(settings, settings.contains("\"tls\""), host, path, expected);
        };
        let well_known = |base: &str, path: &str| format!("{base}/.well-known/oauth-protected-resource{path}");
        check("{}", "localhost:8080", "/mcp", &well_known("http://localhost:8080", "/mcp"));
        check("{}", "[::1]:8080", "/mcp/direct", &well_known("http://[::1]:8080", "/mcp/direct"));
        check("{}", "localhost:8080", "/mcp/s/files", &well_known("http://localhost:8080", "/mcp/s/files"));
        check("{}", "localhost:8080", "/mcp/s/%22%3E", &well_known("http://localhost:8080", "/mcp"));
        let proxy = r#"{"tls_terminated_by_proxy": true}"#;
        check(proxy, "gw.example", "/mcp", &well_known("https://gw.example", "/mcp"));
        check(proxy, "127.0.0.1:8080", "/mcp", &well_known("http://127.0.0.1:8080", "/mcp"));
        let own = r#"{"tls": {"certificate": "a.pem", "key": "b.pem"}}"#;
        check(own, "gw.example", "/mcp", &well_known("https://gw.example", "/mcp"));
        check(own, "localhost:8443", "/mcp", &well_known("https://localhost:8443", "/mcp"));
        let public = r#"{"approvals": {"public_url": "https://gw.example"}}"#;
        check(public, "gw.example", "/mcp", &well_known("https://gw.example", "/mcp"));
        check(public, "localhost:1", "/mcp", &well_known("http://localhost:1", "/mcp"));
        // `tls` was added or removed, and takes effect after a restart.
        let both =
            r#"{"tls": {"certificate": "a.pem", "key": "b.pem"}, "approvals": {"public_url": "https://gw.example"}}"#;
        check(both, "gw.example", "/mcp", &well_known("https://gw.example", "/mcp"));
        for added in [own, both] {
            check_at(added, false, "gw.example", "/mcp", &well_known("http://gw.example", "/mcp"));
        }
        let local = r#"{"approvals": {"public_url": "http://localhost:8443"}}"#;
        for removed in ["{}", local] {
            check_at(removed, true, "localhost:8443", "/mcp", &well_known("https://localhost:8443", "/mcp"));
        }
    }
}
