//! REST for users and scripts, and the guard in front of every route.

mod auth;
mod diff;
mod problem;
mod query;
mod rest;
#[cfg(test)]
mod tests;
mod time;
mod ui;
mod verb;
mod visible;
mod wire;

use std::path::PathBuf;
use std::time::Instant;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, Uri};
use mcpproxy_gateway::Gateway;
use mcpproxy_store::{Ledger, Store};
use tokio_util::sync::CancellationToken;

pub use auth::{AdminKey, Guard, Guarded};
pub use problem::{REST_ERRORS, RestError};

/// Records and counts as programs see them, here and on the command line.
pub mod records {
    pub use crate::wire::csv::{head, head_with_payloads, row, row_with_payloads};
    pub use crate::wire::{Activities, Activity, Summary, WholeActivity};
}

use crate::auth::identity::AppState;
use crate::problem::Problem;

/// Everything the routes need to answer.
pub struct Web {
    pub gateway: Gateway,
    pub store: Store,
    /// Says whether records can be written, and when some were.
    pub ledger: Ledger,
    pub admin_key: AdminKey,
    pub guard: Guard,
    pub facts: Facts,
    /// Ends the answers that would go on forever. To be cancelled before anybody waits for connections to finish.
    pub stopping: CancellationToken,
}

/// What the running process knows about itself and tells in `/api/v1/status`.
pub struct Facts {
    pub version: &'static str,
    /// `127.0.0.1:8080`: where this process really listens.
    pub address: String,
    /// Where people open pages: `http://localhost:8080`, or the address that the settings call `public_url`.
    pub base_url: String,
    pub started: Instant,
    pub settings_path: PathBuf,
    /// The time in milliseconds since 1970.
    pub now_ms: fn() -> i64,
}

/// All routes of the process, behind the guard.
pub type App = Guarded<Router>;

pub fn app(state: Web) -> App {
    let agents = mcpproxy_gateway::router(&state.gateway);
    let guard = state.guard.clone().at(&state.facts.base_url);
    let app = AppState::new(state);
    let routes = rest::router(&app).merge(ui::router(&app)).merge(agents);
    Guarded::new(guard, routes.fallback(unknown))
}

/// Outside of the interface a definite 404 without a body to misread: some clients take any JSON under `/.well-known`
/// for an OAuth server and then ignore the token they were given.
async fn unknown(uri: Uri) -> Response {
    match uri.path() {
        path if path == "/api" || path.starts_with("/api/") => Problem::NOT_FOUND.into_response(),
        path if path == "/ui" || path.starts_with("/ui/") => ui::not_here(),
        _ => (StatusCode::NOT_FOUND, "not found\n").into_response(),
    }
}
