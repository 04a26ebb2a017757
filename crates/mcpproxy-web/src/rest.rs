//! The REST interface. Each file below has the rows of its endpoints at the top. See [`endpoint`].

pub(crate) mod activity;
mod approvals;
mod clients;
mod cluster;
mod config;
mod contracts;
mod docs;
pub(crate) mod endpoint;
mod events;
mod export;
mod filters;
mod login;
mod metrics;
pub(crate) mod openapi;
pub(crate) mod parameters;
mod policy;
mod reviews;
mod servers;
mod sign_ins;
mod standing_approvals;
mod status;
mod tokens;
mod versions;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::header::{self, CACHE_CONTROL, HeaderValue};

use crate::auth::access::admit;
use crate::auth::identity::AppState;
use crate::problem::Problem;
use endpoint::Endpoint;

/// Lists all endpoints, in the order of the document.
pub(crate) fn endpoints() -> impl Iterator<Item = &'static Endpoint> {
    let files = [
        status::ENDPOINTS,
        cluster::ENDPOINTS,
        metrics::ENDPOINTS,
        clients::ENDPOINTS,
        tokens::ENDPOINTS,
        servers::ENDPOINTS,
        reviews::ENDPOINTS,
        sign_ins::ENDPOINTS,
        contracts::ENDPOINTS,
        policy::ENDPOINTS,
        config::ENDPOINTS,
        versions::ENDPOINTS,
        activity::ENDPOINTS,
        export::ENDPOINTS,
        events::ENDPOINTS,
        approvals::ENDPOINTS,
        standing_approvals::ENDPOINTS,
        login::ENDPOINTS,
        openapi::ENDPOINTS,
        docs::ENDPOINTS,
    ];
    files.into_iter().flatten()
}

pub(crate) fn router(app: &AppState) -> Router {
    let routes = endpoints().fold(Router::new(), |router, endpoint| {
        let read = from_fn_with_state((Arc::clone(&app.web), endpoint), parameters::read);
        let authenticate = from_fn_with_state((app.clone(), endpoint), authenticate);
        let methods = (endpoint.handler)(endpoint.method.filter());
        router.route(endpoint.path, methods.route_layer(read).route_layer(authenticate))
    });
    let wrong_method = || async { Problem::METHOD_NOT_ALLOWED };
    routes.method_not_allowed_fallback(wrong_method).layer(from_fn(harden)).with_state(app.clone())
}

/// Identifies the sender and checks the access of the endpoint, in front of every handler.
async fn authenticate(
    State((app, endpoint)): State<(AppState, &'static Endpoint)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let admitted = match app.identify(&parts.headers).await {
        Ok(identity) => admit(&app, endpoint.access, endpoint.decides, &identity, &parts).await.map(|()| identity),
        Err(error) => Err(error.into()),
    };
    match admitted {
        Ok(identity) => {
            parts.extensions.insert(identity);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Forbids caches to store answers, and browsers to guess another content type.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
