//! Requests to the provider of a server, and to the server's own metadata.
//!
//! The server names its provider, and that text is not trusted. So every request goes through [`Fetch::within`], which
//! refuses addresses that are nearer than the server itself, after name resolution. rmcp follows redirects of metadata
//! within one origin, request by request. For the rest, this client follows at most [`REDIRECTS_MAX`], and only those that
//! keep method and body.

use std::sync::{Arc, Mutex, PoisonError};

use http::{StatusCode, Uri, header};
use mcpproxy_identity::{AddressError, Fetch, Reach};
use rmcp::transport::auth::AuthorizationMetadata;
use rmcp::transport::{
    AuthError, AuthorizationManager, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture,
    OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use url::Url;

const REDIRECTS_MAX: usize = 3;

/// A client for the provider of one server.
#[derive(Clone)]
pub(super) struct ProviderHttp {
    fetch: Fetch,
    reach: Reach,
    /// The last failure in our own words. Texts of rmcp may repeat what the provider wrote.
    failure: Arc<Mutex<Option<String>>>,
}

impl ProviderHttp {
    pub(super) async fn for_server(server: &Url) -> Result<Self, AddressError> {
        let reach = Reach::farthest_of(server).await?;
        Ok(Self { fetch: Fetch::within(reach), reach, failure: Arc::default() })
    }

    /// Returns why the last request failed, if one did.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Checks a URL that a user's browser is sent to. It must not be nearer than the server either: otherwise a server on
    /// the internet could make a browser call a device in the user's network.
    pub(super) async fn check_page(&self, url: &str) -> Result<(), String> {
        let bad = |error: AddressError| format!("the sign-in page of the provider cannot be opened: {error}");
        let url = mcpproxy_identity::check_url(url).map_err(bad)?;
        if Reach::nearest_of(&url).await.map_err(bad)? > self.reach {
            return Err("the sign-in page of the provider is in a network that is nearer than the server".to_owned());
        }
        Ok(())
    }

    pub(super) async fn send(
        &self,
        request: http::Request<Vec<u8>>,
        policy: OAuthHttpRedirectPolicy,
    ) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let sent = self.follow(request, policy).await;
        self.note(match &sent {
            Ok(answer) if answer.status().is_client_error() || answer.status().is_server_error() => {
                Some(format!("{host} answered {}", answer.status()))
            }
            Ok(_) => None,
            Err(error) => Some(format!("{host}: {error}")),
        });
        sent
    }

    async fn follow(
        &self,
        mut request: http::Request<Vec<u8>>,
        policy: OAuthHttpRedirectPolicy,
    ) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        for _ in 0..=REDIRECTS_MAX {
            let again = request.clone();
            let answer = self.fetch.send(request).await?;
            let keeps_method =
                matches!(answer.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            if policy != OAuthHttpRedirectPolicy::Follow || !keeps_method {
                return Ok(answer);
            }
            let location = answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            let base = Url::parse(&again.uri().to_string())?;
            let next = base.join(location.unwrap_or_default())?;
            request = again;
            *request.uri_mut() = next.as_str().parse::<Uri>()?;
            if next.origin() != base.origin() {
                request.headers_mut().remove(header::AUTHORIZATION);
            }
        }
        Err("it redirects too often".into())
    }
}

impl OAuthHttpClient for ProviderHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.send(request.request, request.redirect_policy))
    }
}

/// A manager of rmcp that knows the provider of a server.
pub(super) struct Discovered {
    pub(super) manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
    pub(super) issuer: String,
    pub(super) http: ProviderHttp,
}

/// Finds the provider of a server. `challenge` is the `WWW-Authenticate` header of its 401, if there was one.
pub(super) async fn discover(server: &Url, challenge: Option<&str>) -> Result<Discovered, String> {
    let http = ProviderHttp::for_server(server).await.map_err(|error| error.to_string())?;
    let client: Arc<dyn OAuthHttpClient> = Arc::new(http.clone());
    let manager = AuthorizationManager::new_with_oauth_http_client(server.as_str(), client).await;
    let mut manager = manager.map_err(|_| "the address of the server is not valid".to_owned())?;
    let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(|error| reason(&error, &http))?;
    // Endpoints that are only guessed would send a user to a page that nobody named.
    if !found.source.is_discovered() {
        return Err("the server does not name its identity provider, so mcpproxy cannot sign in".to_owned());
    }
    let metadata = found.metadata;
    let issuer = metadata.issuer.clone().ok_or("the provider does not name its issuer")?;
    for endpoint in [&metadata.authorization_endpoint, &metadata.token_endpoint] {
        mcpproxy_identity::check_url(endpoint).map_err(|error| format!("an endpoint of the provider: {error}"))?;
    }
    manager.set_metadata(metadata.clone());
    Ok(Discovered { manager, metadata, issuer, http })
}

/// Words an error without any text of the provider, which could repeat a secret.
pub(super) fn reason(error: &AuthError, http: &ProviderHttp) -> String {
    let what = match error {
        AuthError::AuthorizationServerMismatch { .. } => {
            "the provider is not the one that the sign-in began with (`iss`)"
        }
        AuthError::AuthorizationServerMissingIssuer { .. } => {
            "the answer does not name the provider (`iss` is missing)"
        }
        AuthError::PkceUnsupported => "the provider does not support PKCE with S256",
        AuthError::RegistrationFailed(_) => {
            "the provider did not register mcpproxy as a client. If it has no dynamic registration, register a client \
             there and set `oauth.client_id` for this server"
        }
        AuthError::TokenRefreshRejected(_) => "the provider rejected the refresh token",
        AuthError::TokenRefreshFailed(_) => "the provider did not renew the token",
        AuthError::TokenExchangeFailed(_) => "the provider did not exchange the code for a token",
        AuthError::MetadataError(_) => "the metadata of the server or its provider cannot be used",
        AuthError::ClientCredentialsError(_) => "the provider did not accept the client credentials",
        _ => "the provider did not answer as expected",
    };
    match http.failure() {
        Some(failure) => format!("{what} ({failure})"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(reach: Reach) -> ProviderHttp {
        ProviderHttp { fetch: Fetch::within(reach), reach, failure: Arc::default() }
    }

    #[tokio::test]
    async fn a_public_server_cannot_name_a_nearer_address() {
        let public = client(Reach::Public);
        for url in
            ["https://127.0.0.1/authorize", "https://10.0.0.1/authorize", "https://192.168.1.1/", "http://localhost/a"]
        {
            let request = http::Request::builder().uri(url).body(Vec::new()).unwrap();
            let refused = public.send(request, OAuthHttpRedirectPolicy::Stop).await.unwrap_err().to_string();
            assert!(refused.starts_with("the host has no address that may be used here"), "{url}: {refused}");
            assert!(public.failure().is_some_and(|failure| failure.contains("no address that may be used")), "{url}");
            assert!(public.check_page(url).await.is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn the_metadata_services_of_clouds_are_out_of_reach_for_all() {
        for reach in [Reach::Public, Reach::Private, Reach::Loopback] {
            let request = http::Request::builder().uri("https://169.254.169.254/token").body(Vec::new()).unwrap();
            assert!(client(reach).send(request, OAuthHttpRedirectPolicy::Follow).await.is_err(), "{reach:?}");
            assert!(client(reach).check_page("https://169.254.169.254/").await.is_err(), "{reach:?}");
        }
    }

    #[tokio::test]
    async fn a_browser_is_sent_to_https_only() {
        let local = client(Reach::Loopback);
        assert!(local.check_page("http://127.0.0.1:4000/auth?x=1").await.is_ok());
        for bad in
            ["http://192.0.2.1/", "javascript:alert(1)", "file:///etc/passwd", "https://user:pass@127.0.0.1/", "x"]
        {
            assert!(local.check_page(bad).await.is_err(), "{bad}");
        }
    }
}
