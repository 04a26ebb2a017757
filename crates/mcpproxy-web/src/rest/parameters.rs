//! Reads the query parameters of an endpoint, in front of its handler.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::endpoint::Endpoint;
use crate::Web;
pub(crate) use crate::parameters::*;

/// Parses the query in front of every handler.
pub(crate) async fn read(
    State((web, endpoint)): State<(Arc<Web>, &'static Endpoint)>,
    mut request: Request,
    next: Next,
) -> Response {
    let query = request.uri().query().unwrap_or_default();
    match QueryValues::read(query, endpoint.parameters, (web.facts.now_ms)()) {
        Ok(values) => {
            request.extensions_mut().insert(values);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}
