//! Who may use the REST interface: the holder of the admin key, and no agent.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{StatusCode, header};
use subtle::ConstantTimeEq as _;

use crate::{Web, wire};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The operator's key. It can be compared, not read back.
pub struct AdminKey(String);

impl AdminKey {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Takes the same time for every wrong key of the right length; the length is no secret.
    fn is(&self, candidate: &[u8]) -> bool {
        !self.0.is_empty() && self.0.as_bytes().ct_eq(candidate).into()
    }
}

enum Verdict {
    Admin,
    Agent,
    Nobody,
}

pub(crate) async fn authenticate(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    let mut response = match verdict(&web.admin_key, request.headers()) {
        Verdict::Admin => next.run(request).await,
        Verdict::Agent => wire::Error::new("AGENT_NOT_ALLOWED", "agents may not use the admin API")
            .hint("agent tokens are for /mcp; send the key of admin.key as X-API-Key, and no Authorization header")
            .response(StatusCode::FORBIDDEN),
        Verdict::Nobody => unauthenticated(),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn verdict(key: &AdminKey, headers: &HeaderMap) -> Verdict {
    // Credentials are never mixed: a request that shows an agent's token acts as that agent.
    if headers.contains_key(AUTHORIZATION) {
        return Verdict::Agent;
    }
    // Only the header counts. A key in a query would end up in logs and histories.
    match headers.get(API_KEY) {
        Some(candidate) if key.is(candidate.as_bytes()) => Verdict::Admin,
        _ => Verdict::Nobody,
    }
}

fn unauthenticated() -> Response {
    let mut response = wire::Error::new("UNAUTHENTICATED", "the admin key is missing or wrong")
        .hint("send the key of admin.key, in the data folder, as X-API-Key")
        .response(StatusCode::UNAUTHORIZED);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("X-API-Key"));
    response
}
