//! A provider for tests: an HTTP server on loopback that publishes metadata and keys, and signs tokens.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

pub(super) struct Issuer {
    pub(super) url: String,
    pub(super) shared: Arc<Shared>,
}

#[derive(Default)]
pub(super) struct Shared {
    /// Answers by path. A missing path is 404.
    pub(super) pages: Mutex<Vec<(String, String)>>,
    pub(super) requests: AtomicUsize,
}

pub(super) struct SigningKey {
    pub(super) id: String,
    pub(super) private: EncodingKey,
    pub(super) public: Value,
}

impl SigningKey {
    pub(super) fn new(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let der = pair.to_pkcs8v1().unwrap();
        let point = pair.public_key().as_ref();
        let part = |range: std::ops::Range<usize>| BASE64_URL_SAFE_NO_PAD.encode(&point[range]);
        let public = json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": part(1..33), "y": part(33..65)});
        Self { id: id.to_owned(), private: EncodingKey::from_ec_der(der.as_ref()), public }
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(self.id.clone());
        jsonwebtoken::encode(&header, claims, &self.private).unwrap()
    }
}

impl Issuer {
    pub(super) async fn start(keys: &[&SigningKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let issuer = Self { url, shared };
        issuer.publish("/.well-known/openid-configuration", &issuer.metadata());
        issuer.publish_keys(keys);
        tokio::spawn(serve(listener, Arc::clone(&issuer.shared)));
        issuer
    }

    pub(super) fn metadata(&self) -> Value {
        json!({"issuer": self.url, "jwks_uri": format!("{}/keys", self.url),
            "authorization_endpoint": format!("{}/auth", self.url), "token_endpoint": format!("{}/token", self.url)})
    }

    pub(super) fn publish_keys(&self, keys: &[&SigningKey]) {
        let keys: Vec<_> = keys.iter().map(|key| &key.public).collect();
        self.publish("/keys", &json!({"keys": keys}));
    }

    pub(super) fn publish(&self, path: &str, document: &Value) {
        self.publish_text(path, document.to_string());
    }

    pub(super) fn publish_text(&self, path: &str, text: String) {
        let mut pages = self.shared.pages.lock().unwrap();
        pages.retain(|(known, _)| known != path);
        pages.push((path.to_owned(), text));
    }

    pub(super) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Claims of a token that is valid for five minutes.
    pub(super) fn claims(&self) -> Value {
        json!({"iss": self.url, "aud": "https://gateway.example/mcp", "sub": "agent-7", "exp": now() + 300})
    }
}

pub(super) fn now() -> u64 {
    jsonwebtoken::get_current_timestamp()
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut request = Vec::new();
            while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            shared.requests.fetch_add(1, Ordering::SeqCst);
            let text = String::from_utf8_lossy(&request).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default();
            let page =
                shared.pages.lock().unwrap().iter().find(|(known, _)| known == path).map(|(_, page)| page.clone());
            let (status, body) = page.map_or(("404 Not Found", String::new()), |page| ("200 OK", page));
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _gone = stream.write_all(format!("{head}{body}").as_bytes()).await;
        });
    }
}
