//! Revokes the tokens of a sign-in at the provider (RFC 7009), if the provider supports it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header;
use mcpproxy_core::settings::Secret;
use oauth2::TokenResponse as _;
use rmcp::transport::OAuthHttpRedirectPolicy;
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::provider::{Discovered, discover};
use super::saved::Saved;
use super::tokens::Tokens;

/// Revokes both tokens. A provider that does not answer keeps them until they expire, and the gateway has forgotten them.
pub(super) async fn revoke(tokens: &Tokens, saved: &Saved) {
    let Ok(Discovered { metadata, issuer, http, .. }) = discover(&tokens.url, saved.challenge.as_deref()).await else {
        return;
    };
    let endpoint = metadata.additional_fields.get("revocation_endpoint").and_then(Value::as_str);
    let (Some(endpoint), Some(response)) = (endpoint, &saved.credentials.token_response) else { return };
    // The tokens go to the provider that issued them and nowhere else.
    if saved.credentials.issuer.as_deref() != Some(&issuer) {
        return;
    }
    let refresh = response.refresh_token().map(|token| ("refresh_token", token.secret().as_str()));
    let access = ("access_token", response.access_token().secret().as_str());
    for (hint, token) in refresh.into_iter().chain([access]) {
        let client_id = &saved.credentials.client_id;
        let secret = match &tokens.settings.client_id {
            Some(_) => tokens.settings.client_secret.as_ref(),
            None => saved.client_secret.as_ref(),
        };
        let Some(request) = request(endpoint, (client_id, secret), (hint, token)) else { return };
        if http.send(request, OAuthHttpRedirectPolicy::Stop).await.is_err() {
            tracing::warn!(server = %tokens.server, "the provider did not revoke a token; it remains valid until it expires");
            return;
        }
    }
}

fn request(
    endpoint: &str,
    (client_id, secret): (&str, Option<&Secret>),
    (hint, token): (&str, &str),
) -> Option<http::Request<Vec<u8>>> {
    let mut form = Serializer::new(String::new());
    form.append_pair("token", token).append_pair("token_type_hint", hint);
    let mut request = http::Request::post(endpoint).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    match secret {
        Some(secret) => {
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = BASE64.encode(format!("{}:{}", encoded(client_id), encoded(secret.expose())));
            request = request.header(header::AUTHORIZATION, format!("Basic {pair}"));
        }
        None => {
            form.append_pair("client_id", client_id);
        }
    }
    request.body(form.finish().into_bytes()).ok()
}
