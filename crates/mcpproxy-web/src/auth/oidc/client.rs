//! The OAuth client: the address to send a user to, and the exchange of a code for an ID token.

use mcpproxy_core::settings::OidcSettings;
use mcpproxy_identity::{Fetch, FetchError, Metadata};
use oauth2::basic::{
    BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType,
};
use oauth2::{
    AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndpointNotSet, EndpointSet, ExtraTokenFields,
    HttpRequest, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, StandardRevocableToken,
    StandardTokenResponse, TokenUrl,
};
use serde::{Deserialize, Serialize};

use super::CALLBACK;
use super::refusal::Refusal;

/// The field of the token answer that OpenID Connect adds to OAuth.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct IdToken {
    id_token: Option<String>,
}

impl ExtraTokenFields for IdToken {}

type OauthClient = oauth2::Client<
    BasicErrorResponse,
    StandardTokenResponse<IdToken, BasicTokenType>,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

pub(super) struct Client<'a> {
    settings: &'a OidcSettings,
    oauth: OauthClient,
    fetch: Fetch,
}

impl<'a> Client<'a> {
    /// Fails if the metadata lacks the endpoints that a sign-in needs.
    pub(super) fn new(
        settings: &'a OidcSettings,
        metadata: &Metadata,
        base_url: &str,
        fetch: Fetch,
    ) -> Result<Self, Refusal> {
        let endpoints = metadata.authorization_endpoint.clone().zip(metadata.token_endpoint.clone());
        let (authorization, token) = endpoints.ok_or(Refusal::NoEndpoints)?;
        let redirect = RedirectUrl::new(format!("{base_url}{CALLBACK}")).map_err(|_| Refusal::NoEndpoints)?;
        let mut oauth = oauth2::Client::new(ClientId::new(settings.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(authorization))
            .set_token_uri(TokenUrl::from_url(token))
            .set_redirect_uri(redirect);
        if let Some(secret) = &settings.client_secret {
            oauth = oauth.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
        }
        Ok(Self { settings, oauth, fetch })
    }

    pub(super) fn authorization_url(
        &self,
        state: &str,
        nonce: &str,
        challenge: PkceCodeChallenge,
        is_step_up: bool,
    ) -> String {
        let scopes = ["openid", "profile", "email"].map(str::to_owned).into_iter().chain(self.settings.scopes.clone());
        let mut request = self
            .oauth
            .authorize_url(|| CsrfToken::new(state.to_owned()))
            .add_scopes(scopes.map(Scope::new))
            .set_pkce_challenge(challenge)
            .add_extra_param("nonce", nonce);
        if is_step_up {
            // Either of them makes the provider authenticate again. Some understand only one.
            request = request.add_extra_param("prompt", "login").add_extra_param("max_age", "0");
            if let Some(acr) = &self.settings.acr {
                request = request.add_extra_param("acr_values", acr);
            }
        }
        request.url().0.into()
    }

    /// Exchanges a code for an ID token. No error contains a part of either.
    pub(super) async fn exchange(&self, code: &str, verifier: &str) -> Result<String, Refusal> {
        let fetch = self.fetch;
        let send = move |request: HttpRequest| async move {
            let answer = fetch.send(request).await?;
            // A provider in trouble has not judged the code.
            if answer.status().is_server_error() { Err(FetchError::Status(answer.status())) } else { Ok(answer) }
        };
        let answer = self
            .oauth
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.to_owned()))
            .request_async(&send)
            .await;
        match answer {
            Ok(tokens) => tokens.extra_fields().id_token.clone().ok_or(Refusal::NoIdToken),
            Err(RequestTokenError::Request(error)) => Err(Refusal::unreachable(&error)),
            Err(RequestTokenError::ServerResponse(error)) => {
                tracing::info!(error = error.error().to_string(), "the identity provider refused a code");
                Err(Refusal::Code)
            }
            Err(RequestTokenError::Parse(..) | RequestTokenError::Other(_)) => Err(Refusal::Code),
        }
    }
}
