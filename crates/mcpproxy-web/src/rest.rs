//! The REST interface.

pub(crate) mod activity;
mod approvals;
mod contracts;
mod docs;
pub(crate) mod endpoint;
mod events;
mod export;
pub(crate) mod openapi;
pub(crate) mod parameters;
mod servers;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::header::{self, CACHE_CONTROL, HeaderValue};

use crate::auth::access::admit;
use crate::auth::identity::Site;
use crate::problem::Problem;
use endpoint::Endpoint;

pub(crate) fn router(site: &Site) -> Router {
    let routes = Endpoint::ALL.into_iter().fold(Router::new(), |router, endpoint| {
        let read = from_fn_with_state((Arc::clone(&site.web), endpoint), parameters::read);
        let authenticate = from_fn_with_state((site.clone(), endpoint), authenticate);
        router.route(endpoint.path(), endpoint.methods().route_layer(read).route_layer(authenticate))
    });
    let wrong_method = || async { Problem::WrongMethod };
    routes.method_not_allowed_fallback(wrong_method).layer(from_fn(harden)).with_state(site.clone())
}

/// Stands before every route of the REST interface.
async fn authenticate(State((site, endpoint)): State<(Site, Endpoint)>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let admitted = match site.who(&parts.headers).await {
        Ok(who) => admit(&site, endpoint.access(), endpoint.decides(), &who, &parts).await.map(|()| who),
        Err(error) => Err(error.into()),
    };
    match admitted {
        Ok(who) => {
            parts.extensions.insert(who);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Answers are neither kept on the way nor taken for something else than they say they are.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
