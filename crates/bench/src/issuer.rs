//! An identity provider in this process, for calls with an access token: it publishes a key, and signs one token.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The audience of the gateway in its settings, and of the token.
pub(crate) const AUDIENCE: &str = "api://bench";
const KEY_ID: &str = "bench";
const METADATA: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/keys";
/// Longer than any run.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Bytes of base64 for 3 bytes of text.
const BASE64_BYTES: usize = 4;

pub(crate) struct Issuer {
    pub(crate) url: String,
    key: EcdsaKeyPair,
}

impl Issuer {
    /// Serves metadata and keys on loopback until the process ends.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("could not listen for the identity provider")?;
        let url = format!("http://{}", listener.local_addr()?);
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| anyhow!("no key was made"))?;
        let metadata = json!({
            "issuer": url, "jwks_uri": format!("{url}{KEYS}"),
            "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
        });
        let keys = json!({ "keys": [public(pair.public_key().as_ref())?] });
        tokio::spawn(serve(listener, metadata, keys));
        Ok(Self { url, key: pair })
    }

    /// Signs an access token of about this many bytes, which is at least 300.
    pub(crate) fn token(&self, bytes: usize) -> Result<String> {
        let short = self.sign("")?;
        let missing = bytes.saturating_sub(short.len()) * 3 / BASE64_BYTES;
        self.sign(&"x".repeat(missing))
    }

    /// Signs a token with claims that the gateway ignores, such as the groups in tokens of large providers.
    fn sign(&self, more: &str) -> Result<String> {
        let expires = SystemTime::now().duration_since(UNIX_EPOCH)? + LIFETIME;
        let claims =
            json!({ "iss": self.url, "aud": AUDIENCE, "sub": "bench", "exp": expires.as_secs(), "more": more });
        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": KEY_ID });
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| anyhow!("could not sign a token"))?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }
}

/// Returns the public key as a JWK. The point has a byte for its form, and then both coordinates.
fn public(point: &[u8]) -> Result<Value> {
    let part = |range: std::ops::Range<usize>| -> Result<String> {
        Ok(BASE64_URL_SAFE_NO_PAD.encode(point.get(range).context("a key of another length")?))
    };
    Ok(json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": KEY_ID, "x": part(1..33)?, "y": part(33..65)? }))
}

async fn serve(listener: TcpListener, metadata: Value, keys: Value) {
    while let Ok((stream, _)) = listener.accept().await {
        let (metadata, keys) = (metadata.to_string(), keys.to_string());
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                let body = match request.uri().path() {
                    METADATA => Some(metadata.clone()),
                    KEYS => Some(keys.clone()),
                    _ => None,
                };
                let mut response = Response::new(Full::new(Bytes::from(body.clone().unwrap_or_default())));
                *response.status_mut() = if body.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
                async move { Ok::<_, Infallible>(response) }
            });
            // The gateway may close the connection at any time.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_has_about_the_length_that_was_asked_for() {
        let issuer = Issuer::start().await.unwrap();
        for bytes in [300, 1_000, 8_000] {
            let length = issuer.token(bytes).unwrap().len();
            assert!(length.abs_diff(bytes) < 20, "{length} instead of {bytes}");
        }
    }
}
