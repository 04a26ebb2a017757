//! A sign-in on another device (RFC 8628): the user types a short code on the provider's page.
//!
//! rmcp has no device flow, so this file uses the `oauth2` crate that rmcp is built on. Discovery and storing are the same
//! as in a browser.

use std::sync::Arc;

use http::header;
use mcpproxy_core::ServerName;
use mcpproxy_core::settings::Secret;
use oauth2::basic::{BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse};
use oauth2::{
    AsyncHttpClient, ClientId, ClientSecret, DeviceAuthorizationUrl, EndpointNotSet, EndpointSet, Scope,
    StandardDeviceAuthorizationResponse, StandardRevocableToken, TokenResponse as _, TokenUrl,
};
use rmcp::transport::auth::{OAuthClientConfig, OAuthTokenResponse};
use rmcp::transport::{InMemoryCredentialStore, OAuthHttpClientError, OAuthHttpRedirectPolicy, StoredCredentials};
use serde_json::{Value, json};

use super::callback::Callback;
use super::flow::{FLOW_LASTS, Inserted, OwnClient, Pending, SignInStarted};
use super::provider::{Discovered, ProviderHttp};
use super::scopes;
use super::shared::{CLIENT_NAME, OAuth, SignInError, SignInSession};
use super::tokens::Tokens;

type DeviceClient = oauth2::Client<
    BasicErrorResponse,
    OAuthTokenResponse,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// Everything that the task needs which waits for the user.
struct Waiting {
    shared: Arc<OAuth>,
    server: ServerName,
    inserted: Inserted,
    client: DeviceClient,
    details: StandardDeviceAuthorizationResponse,
    http: ProviderHttp,
    resource: String,
    requested: Vec<String>,
    client_id: String,
}

pub(super) async fn begin(
    shared: &Arc<OAuth>,
    tokens: &Arc<Tokens>,
    found: Discovered,
    challenge: Option<String>,
    wanted: Vec<String>,
    begun_by: SignInSession,
) -> Result<SignInStarted, SignInError> {
    let failed = |text: &str| SignInError::Failed(text.to_owned());
    let Discovered { mut manager, metadata, issuer, http } = found;
    let endpoint = metadata.additional_fields.get("device_authorization_endpoint").and_then(Value::as_str);
    let endpoint = endpoint.ok_or_else(|| {
        SignInError::NotPossible("the provider has no sign-in on another device; leave out --device".to_owned())
    })?;
    let own = client_of(tokens, metadata.registration_endpoint.as_deref(), &http).await?;
    let client_id = own.id.ok_or_else(|| failed("no client id"))?;
    let mut client: DeviceClient = oauth2::Client::new(ClientId::new(client_id.clone()))
        .set_token_uri(TokenUrl::new(metadata.token_endpoint.clone()).map_err(|_| failed("a bad token endpoint"))?)
        .set_device_authorization_url(
            DeviceAuthorizationUrl::new(endpoint.to_owned()).map_err(|_| failed("a bad device endpoint"))?,
        );
    if let Some(secret) = &own.secret {
        client = client.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
    }
    let callback = Callback::of_issuer(&issuer);
    let redirect_uri = shared.redirect_uri(&callback);
    let config = OAuthClientConfig::new(client_id.clone(), redirect_uri.clone());
    let resource = match manager.configure_client(config) {
        Ok(()) => tokens.resource(manager.get_authorization_url(&[]).await.ok().as_deref()),
        Err(_) => tokens.resource(None),
    };
    let request = client
        .exchange_device_code()
        .add_scopes(wanted.iter().cloned().map(Scope::new))
        .add_extra_param("resource", resource.clone());
    let details: StandardDeviceAuthorizationResponse =
        request.request_async(&Requests(http.clone())).await.map_err(|_| refused(&http))?;
    let url = details.verification_uri_complete().map(|url| url.secret().clone());
    let url = url.unwrap_or_else(|| details.verification_uri().to_string());
    http.check_page(&url).await.map_err(SignInError::Failed)?;
    let user_code = shown_code(details.user_code().secret()).ok_or_else(|| failed("the provider gave no code"))?;
    let pending = Pending {
        session: None,
        fresh: InMemoryCredentialStore::new(),
        tokens: Arc::clone(tokens),
        http: http.clone(),
        issuer: issuer.clone(),
        client_secret: own.secret,
        callback,
        redirect_uri,
        challenge,
    };
    let server = tokens.server.clone();
    let inserted = shared.flows.insert(server.clone(), None, begun_by, pending);
    let id = inserted.id.clone();
    let lasts = details.expires_in().min(FLOW_LASTS);
    let requested = wanted.clone();
    let shared = Arc::clone(shared);
    let waiting = Waiting { shared, server, inserted, client, details, http, resource, requested, client_id };
    tokio::spawn(wait(waiting));
    Ok(SignInStarted { id, url, user_code: Some(user_code), scopes: wanted, issuer, redirect_uri: None, lasts })
}

fn refused(http: &ProviderHttp) -> SignInError {
    let why = http.failure().map(|failure| format!(" ({failure})")).unwrap_or_default();
    SignInError::Failed(format!("the provider did not begin a sign-in on another device{why}"))
}

/// Waits until the user has typed the code, then stores the token.
async fn wait(waiting: Waiting) {
    let Waiting { shared, server, inserted, client, details, http, resource, requested, client_id } = waiting;
    let requests = Requests(http);
    let asking = client.exchange_device_access_token(&details).add_extra_param("resource", resource).request_async(
        &requests,
        tokio::time::sleep,
        Some(FLOW_LASTS),
    );
    let answered = tokio::select! {
        answered = asking => answered,
        () = inserted.stop.cancelled() => return,
    };
    let Some((session, pending)) = shared.flows.take_by_id(&server, &inserted.id) else { return };
    let credentials = answered.map_err(|_| "the sign-in was denied, or took too long".to_owned()).map(|token| {
        let granted = token.scopes().map(|all| all.iter().map(|scope| scope.to_string()).collect());
        let granted = scopes::union([granted.unwrap_or(requested)]);
        let received = u64::try_from((shared.now_ms)() / 1000).ok();
        StoredCredentials::new(client_id, Some(token), granted, received)
    });
    // The result of the flow says how it ended.
    let _told = shared.keep(&server, &inserted.id, &session, pending, credentials).await;
}

/// The client of the settings, or one that is registered for the device flow.
async fn client_of(tokens: &Tokens, registration: Option<&str>, http: &ProviderHttp) -> Result<OwnClient, SignInError> {
    if let Some(id) = &tokens.settings.client_id {
        return Ok(OwnClient { id: Some(id.clone()), secret: tokens.settings.client_secret.clone() });
    }
    let text = "the provider has no dynamic registration; register a client there and set `oauth.client_id`";
    let registration = registration.ok_or_else(|| SignInError::Failed(text.to_owned()))?;
    // rmcp registers for the browser only.
    let body = json!({
        "client_name": CLIENT_NAME,
        "grant_types": ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
        "response_types": [],
        "redirect_uris": [],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    });
    let request = http::Request::post(registration).header(header::CONTENT_TYPE, "application/json");
    let request = request.body(body.to_string().into_bytes()).map_err(|_| SignInError::Failed(text.to_owned()))?;
    let answer = http.send(request, OAuthHttpRedirectPolicy::Follow).await.map_err(|_| refused(http))?;
    let answer: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let word = |name: &str| answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let id = word("client_id").ok_or_else(|| refused(http))?;
    Ok(OwnClient { id: Some(id), secret: word("client_secret").map(Secret::new) })
}

/// Returns a code that is safe to print. Providers use letters, digits and hyphens.
fn shown_code(code: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == ' ';
    ((1..=40).contains(&code.len()) && code.chars().all(fits)).then(|| code.to_owned())
}

/// Sends the requests of the `oauth2` crate.
struct Requests(ProviderHttp);

#[derive(Debug, thiserror::Error)]
#[error("the request failed")]
struct Unsent(#[source] OAuthHttpClientError);

impl<'c> AsyncHttpClient<'c> for Requests {
    type Error = Unsent;
    type Future = futures::future::BoxFuture<'c, Result<http::Response<Vec<u8>>, Unsent>>;

    fn call(&'c self, request: http::Request<Vec<u8>>) -> Self::Future {
        Box::pin(async move { self.0.send(request, OAuthHttpRedirectPolicy::Stop).await.map_err(Unsent) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_safe_to_print() {
        assert_eq!(shown_code("WDJB-MJHT").as_deref(), Some("WDJB-MJHT"));
        for bad in ["", "a\u{1b}[2J", "<b>", &"a".repeat(41)] {
            assert_eq!(shown_code(bad), None, "{bad}");
        }
    }
}
