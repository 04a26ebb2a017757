//! The endpoint with metrics for Prometheus, on the main address.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::StatusCode;

use super::endpoint::{Answer, Endpoint, Group};
use crate::auth::access::Access;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, metrics};

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "metrics",
    method: Verb::Get,
    path: "/metrics",
    access: Access::Metrics,
    decides: false,
    parameters: &[],
    body: None,
    group: Group::Health,
    summary: "Read metrics",
    description: "Metrics in the text format of Prometheus. The admin key, a user, or the `metrics.token` of the settings as a bearer token opens them. With `metrics.listen`, they are at that address instead.",
    answers: &[Answer::text("The metrics.", &["text/plain"])],
    errors: &[(StatusCode::NOT_FOUND, "Metrics are off, or have an address of their own.")],
    handler: |method| on(method, read),
}];

async fn read(State(web): State<Arc<Web>>) -> Result<Response, Problem> {
    if let Some(address) = web.facts.metrics_address {
        let scheme = if web.facts.metrics_tls().is_some() { "https" } else { "http" };
        return Err(Problem::METRICS_ELSEWHERE.message(format!("metrics are at {scheme}://{address}/metrics")));
    }
    if !web.gateway.settings().metrics.enabled {
        return Err(Problem::METRICS_OFF);
    }
    Ok(metrics::answer(&web).await)
}
