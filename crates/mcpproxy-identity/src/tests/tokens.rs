//! Tokens that must be refused, each for its own reason, and the one that is accepted.

use super::issuer::{Issuer, SigningKey, now};
use crate::{Provider, TokenError};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

const AUDIENCE: &str = "https://gateway.example/mcp";

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

fn part(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

#[tokio::test]
async fn a_valid_token_gives_its_claims() {
    let key = SigningKey::new("a");
    let issuer = Issuer::start(&[&key]).await;
    let provider = Provider::new(&issuer.url).unwrap();
    let claims = with(issuer.claims(), "realm_access", json!({"roles": ["reader", "writer"]}));
    let claims = provider.verify(&key.sign(&with(claims, "scope", json!("read write"))), AUDIENCE).await.ok().unwrap();
    assert_eq!(claims.subject(), Some("agent-7"));
    assert_eq!(claims.list("realm_access.roles"), ["reader", "writer"]);
    assert_eq!(claims.list("scope"), ["read", "write"]);
    assert_eq!(claims.text("missing.name"), None);
}

#[tokio::test]
async fn bad_tokens_are_refused() {
    let (key, other) = (SigningKey::new("a"), SigningKey::new("a"));
    let issuer = Issuer::start(&[&key]).await;
    let provider = Provider::new(&issuer.url).unwrap();
    let good = issuer.claims();
    let signed = key.sign(&good);
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        key.sign(&claims)
    };
    let (head, rest) = signed.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    let admin = part(&with(good.clone(), "sub", json!("admin")));
    let cases: Vec<(&str, String, &str)> = vec![
        ("wrong issuer", key.sign(&with(good.clone(), "iss", json!("https://evil.example"))), "Issuer"),
        ("wrong audience", key.sign(&with(good.clone(), "aud", json!("https://other.example"))), "Audience"),
        ("empty audience", key.sign(&with(good.clone(), "aud", json!([]))), "Audience"),
        ("expired", key.sign(&with(good.clone(), "exp", json!(now() - 120))), "Expired"),
        ("not valid yet", key.sign(&with(good.clone(), "nbf", json!(now() + 300))), "NotYetValid"),
        ("no expiry", without("exp"), "MissingClaim"),
        ("no audience", without("aud"), "MissingClaim"),
        ("no issuer", without("iss"), "MissingClaim"),
        ("another key with the same id", other.sign(&good), "Signature"),
        ("changed claims", format!("{head}.{admin}.{signature}"), "Signature"),
        ("algorithm none", format!("{}.{body}.", part(&json!({"alg": "none", "typ": "JWT"}))), "Algorithm"),
        ("algorithm None", format!("{}.{body}.", part(&json!({"alg": "None", "kid": "a"}))), "Algorithm"),
        ("no signature", format!("{head}.{body}."), "Signature"),
        (
            "unknown extension",
            format!("{}.{body}.{signature}", part(&json!({"alg": "ES256", "kid": "a", "crit": ["x"]}))),
            "Malformed",
        ),
        ("not a token", "abc".to_owned(), "Malformed"),
        ("two parts", format!("{head}.{body}"), "Malformed"),
        ("empty", String::new(), "Malformed"),
        ("too long", "a".repeat(20_000), "Malformed"),
    ];
    for (name, token, expected) in cases {
        let refused = provider.verify(&token, AUDIENCE).await.err().unwrap_or_else(|| panic!("{name} was accepted"));
        assert_eq!(format!("{refused:?}"), expected, "{name}");
    }
    assert!(provider.verify(&signed, AUDIENCE).await.is_ok());
}

/// The classic confusion: the public key is no secret, so a signature made with it as a shared secret proves nothing.
#[tokio::test]
async fn a_shared_secret_signature_with_the_public_key_is_refused() {
    let key = SigningKey::new("a");
    let issuer = Issuer::start(&[&key]).await;
    let provider = Provider::new(&issuer.url).unwrap();
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("a".to_owned());
    for secret in [key.public.to_string(), key.public["x"].as_str().unwrap().to_owned()] {
        let secret = EncodingKey::from_secret(secret.as_bytes());
        let token = jsonwebtoken::encode(&header, &issuer.claims(), &secret).unwrap();
        assert!(matches!(provider.verify(&token, AUDIENCE).await, Err(TokenError::UnknownKey)));
    }
}

#[tokio::test]
async fn a_shared_secret_in_the_key_set_is_not_used() {
    let issuer = Issuer::start(&[]).await;
    issuer.publish("/keys", &json!({"keys": [{"kty": "oct", "kid": "s", "k": "c2VjcmV0"}]}));
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("s".to_owned());
    let token = jsonwebtoken::encode(&header, &issuer.claims(), &EncodingKey::from_secret(b"secret")).unwrap();
    let provider = Provider::new(&issuer.url).unwrap();
    assert!(matches!(provider.verify(&token, AUDIENCE).await, Err(TokenError::UnknownKey)));
}

#[tokio::test]
async fn no_error_repeats_the_token() {
    let key = SigningKey::new("a");
    let issuer = Issuer::start(&[&key]).await;
    let provider = Provider::new(&issuer.url).unwrap();
    let token = key.sign(&with(issuer.claims(), "aud", json!("private-audience")));
    let refused = provider.verify(&token, AUDIENCE).await.err().unwrap();
    let text = format!("{refused} {refused:?}");
    assert!(!text.contains("private-audience") && !text.contains(token.get(..20).unwrap()));
}
