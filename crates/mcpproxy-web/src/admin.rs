//! The operator's key, and what all answers of the REST interface say about themselves.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{self, CACHE_CONTROL, HeaderValue};
use subtle::ConstantTimeEq as _;

/// The operator's key. It can be compared, not read back.
pub struct AdminKey(String);

impl AdminKey {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Takes the same time for every wrong key of the right length; the length is no secret.
    pub(crate) fn is(&self, candidate: &[u8]) -> bool {
        !self.0.is_empty() && self.0.as_bytes().ct_eq(candidate).into()
    }
}

/// Answers are neither kept on the way nor taken for something else than they say they are.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
