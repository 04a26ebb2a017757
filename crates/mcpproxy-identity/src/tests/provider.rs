//! Metadata and keys: rotation, providers that are down, slow or hostile, and floods.

use super::issuer::{Issuer, SigningKey};
use crate::{Provider, ProviderError, TokenError};
use serde_json::json;

const AUDIENCE: &str = "https://gateway.example/mcp";

#[tokio::test]
async fn a_provider_that_is_down_refuses_tokens_and_is_not_asked_again_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let provider = Provider::new(&url).unwrap();
    assert_eq!(provider.generation(), None);
    let token = SigningKey::new("a").sign(&json!({"iss": url, "aud": AUDIENCE}));
    let refused = provider.verify(&token, AUDIENCE).await.err().unwrap();
    assert!(matches!(refused, TokenError::Provider(ProviderError::Fetch(_))), "{refused}");
    // A second token within ten seconds causes no second request.
    let refused = provider.verify(&token, AUDIENCE).await.err().unwrap();
    assert!(matches!(refused, TokenError::Provider(ProviderError::Recently)), "{refused}");
}

#[tokio::test]
async fn unknown_key_ids_do_not_flood_the_provider() {
    let key = SigningKey::new("a");
    let issuer = Issuer::start(&[&key]).await;
    let provider = Provider::new(&issuer.url).unwrap();
    assert!(provider.verify(&key.sign(&issuer.claims()), AUDIENCE).await.is_ok());
    let after_first = issuer.requests();
    assert_eq!(after_first, 2, "metadata and keys");
    let attempts = (0..200).map(|number| {
        let token = SigningKey::new(&format!("invented-{number}")).sign(&issuer.claims());
        let provider = std::sync::Arc::clone(&provider);
        tokio::spawn(async move { provider.verify(&token, AUDIENCE).await.is_err() })
    });
    for attempt in attempts.collect::<Vec<_>>() {
        assert!(attempt.await.unwrap());
    }
    assert_eq!(issuer.requests(), after_first, "the keys were read a moment ago");
    assert!(provider.verify(&key.sign(&issuer.claims()), AUDIENCE).await.is_ok(), "good tokens still work");
}

#[tokio::test]
async fn a_rotated_key_is_found_and_the_generation_moves() {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let issuer = Issuer::start(&[&old]).await;
    let provider = Provider::new(&issuer.url).unwrap();
    assert!(provider.verify(&old.sign(&issuer.claims()), AUDIENCE).await.is_ok());
    let before = provider.generation();
    issuer.publish_keys(&[&new]);
    provider.forget_last_try();
    assert!(provider.verify(&new.sign(&issuer.claims()), AUDIENCE).await.is_ok());
    assert_ne!(provider.generation(), before);
    let refused = provider.verify(&old.sign(&issuer.claims()), AUDIENCE).await.err().unwrap();
    assert!(matches!(refused, TokenError::UnknownKey), "the old key is gone: {refused}");
}

#[tokio::test]
async fn metadata_of_another_issuer_is_refused() {
    let key = SigningKey::new("a");
    let issuer = Issuer::start(&[&key]).await;
    let mut metadata = issuer.metadata();
    metadata["issuer"] = json!("https://other.example");
    issuer.publish("/.well-known/openid-configuration", &metadata);
    let provider = Provider::new(&issuer.url).unwrap();
    assert!(matches!(provider.metadata().await, Err(ProviderError::Metadata(_))));
}

#[tokio::test]
async fn metadata_that_points_to_plain_text_is_refused() {
    let key = SigningKey::new("a");
    let issuer = Issuer::start(&[&key]).await;
    for name in ["jwks_uri", "authorization_endpoint", "token_endpoint"] {
        let mut metadata = issuer.metadata();
        metadata[name] = json!("http://id.example/x");
        issuer.publish("/.well-known/openid-configuration", &metadata);
        let provider = Provider::new(&issuer.url).unwrap();
        assert!(matches!(provider.metadata().await, Err(ProviderError::Address(_))), "{name}");
    }
}

#[tokio::test]
async fn the_other_place_for_metadata_works() {
    let key = SigningKey::new("a");
    let issuer = Issuer::start(&[&key]).await;
    let metadata = issuer.metadata();
    issuer.shared.pages.lock().unwrap().retain(|(path, _)| !path.contains("openid"));
    issuer.publish("/.well-known/oauth-authorization-server", &metadata);
    let provider = Provider::new(&issuer.url).unwrap();
    assert!(provider.verify(&key.sign(&issuer.claims()), AUDIENCE).await.is_ok());
}

#[tokio::test]
async fn huge_and_broken_key_sets_are_refused() {
    let key = SigningKey::new("a");
    let issuer = Issuer::start(&[&key]).await;
    let many: Vec<_> = (0..101).map(|_| &key.public).collect();
    let bad = [
        format!("{{\"keys\": [], \"x\": \"{}\"}}", "a".repeat(2_000_000)),
        json!({"keys": many}).to_string(),
        "not json".to_owned(),
        "{}".to_owned(),
        String::new(),
    ];
    for text in bad {
        issuer.publish_text("/keys", text);
        let provider = Provider::new(&issuer.url).unwrap();
        let refused = provider.verify(&key.sign(&issuer.claims()), AUDIENCE).await.err().unwrap();
        assert!(matches!(refused, TokenError::Provider(_)), "{refused}");
    }
}
