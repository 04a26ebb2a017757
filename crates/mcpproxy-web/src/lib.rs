//! REST for humans and scripts, and the guard in front of every route.

mod admin;
mod endpoint;
mod guard;
mod rest;
#[cfg(test)]
mod tests;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::StatusCode;
use mcpproxy_gateway::Gateway;

pub use admin::AdminKey;
pub use guard::{Guard, Guarded};

/// Everything the routes need to answer.
pub struct Web {
    pub gateway: Gateway,
    pub admin_key: AdminKey,
    pub guard: Guard,
    pub facts: Facts,
}

/// What the running process knows about itself and tells in `/api/v1/status`.
pub struct Facts {
    pub version: &'static str,
    /// `127.0.0.1:8080`: where this process really listens.
    pub address: String,
    pub started: Instant,
    pub settings_path: PathBuf,
}

/// All routes of the process, behind the guard.
pub type App = Guarded<Router>;

pub fn app(state: Web) -> App {
    let agents = mcpproxy_gateway::router(&state.gateway);
    let guard = state.guard.clone();
    Guarded::new(guard, endpoint::router(Arc::new(state)).merge(agents).fallback(unknown))
}

/// A definite 404 without a body to misread: some clients take any JSON under `/.well-known` for an OAuth server
/// and then ignore the token they were given.
async fn unknown() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "not found\n")
}
