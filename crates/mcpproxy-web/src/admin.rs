//! Who may use the REST interface: the holder of the admin key, and no agent.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{self, AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use subtle::ConstantTimeEq as _;

use crate::Web;
use crate::problem::Problem;

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
    match verdict(&web.admin_key, request.headers()) {
        Verdict::Admin => harden(request, next).await,
        Verdict::Agent => hardened(Problem::Agent.into_response()),
        Verdict::Nobody => hardened(Problem::Nobody.into_response()),
    }
}

/// Answers are neither kept on the way nor taken for something else than they say they are.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    hardened(next.run(request).await)
}

fn hardened(mut response: Response) -> Response {
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
