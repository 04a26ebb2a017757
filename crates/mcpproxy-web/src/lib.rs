//! The HTTP side of the gateway for users and programs: the REST interface, the web pages, and the guard in front of
//! every route, including those of agents.
//!
//! - `rest`: the REST endpoints. One row per endpoint (`rest/endpoint.rs`).
//! - `ui`: the web pages. One row per page or form (`ui/page.rs`).
//! - `auth`: the sender of a request and their access. Passwords, sessions, second factors, the guard.
//! - `parameters`: query parameters and the filters of records, for `rest` and `ui`.
//! - `wire`: the JSON types of the REST interface.
//! - `problem`: the table of REST errors.
//! - `editor`: changes of the operator's files, as the program implements them.
//! - `publishing`: checks and publishes versions of settings, contracts and policies, for `rest` and `ui`.
//! - `metrics`: the numbers for monitoring systems, as text.
//! - `peer`: the address of a request, for limits.
//! - `server`: accepts connections and serves the routes on them.
//! - `tls`: the gateway's own certificate.
//!
//! `rest` and `ui` use `auth`, `parameters`, `publishing`, `wire` and `problem`, never each other.

mod action;
mod auth;
mod diff;
pub mod editor;
mod metrics;
mod parameters;
mod peer;
mod problem;
mod publishing;
mod query;
mod rest;
mod server;
#[cfg(test)]
mod tests;
mod time;
mod tls;
mod tokens;
mod ui;
mod verb;
mod visible;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, Uri};
use mcpproxy_gateway::{Gateway, Reloader};
use mcpproxy_store::{Ledger, Store};
use tokio_util::sync::CancellationToken;

pub use auth::{AdminKey, Guard, Guarded};
pub use problem::{REST_ERRORS, RestError};
pub use server::{ConnectionLimits, HttpServer, Listeners};
pub use tls::{Certificates, CertifiedPair, PairError, Validity};

/// The JSON and CSV of records, shared with the command line.
pub mod records {
    pub use crate::wire::csv::{head, head_with_payloads, row, row_with_payloads};
    pub use crate::wire::{Activities, Activity, Summary, WholeActivity};
}

/// The JSON of a replay, shared with the command line.
pub mod replays {
    pub use crate::wire::{Replayed, ReplayedWith};
}

use crate::auth::identity::AppState;
use crate::editor::{ClientSettings, ContractsEditor, ServersEditor};
use crate::problem::Problem;

/// Everything that the routes need.
pub struct Web {
    pub gateway: Gateway,
    /// Applies changed files at once.
    pub reloader: Reloader,
    pub store: Store,
    /// Reports whether records can be written, and when some were.
    pub ledger: Ledger,
    pub admin_key: AdminKey,
    pub guard: Guard,
    pub facts: Facts,
    /// Ends streams that would never end. Cancel it before you wait for connections to close.
    pub stopping: CancellationToken,
    pub servers_editor: Box<dyn ServersEditor>,
    pub contracts_editor: Box<dyn ContractsEditor>,
    /// Settings to paste into AI clients, for new tokens.
    pub client_settings: Box<dyn ClientSettings>,
}

/// Facts about the running process, shown in `/api/v1/status`.
pub struct Facts {
    pub version: &'static str,
    /// The address that this process listens on, such as `127.0.0.1:8080`.
    pub address: String,
    /// The address of the pages: `http://localhost:8080`, or `public_url` of the settings.
    pub base_url: String,
    /// The gateway's own certificate. `None` if it speaks plain HTTP.
    pub tls: Option<Certificates>,
    pub started: Instant,
    /// The address of its own that `/metrics` has.
    pub metrics_address: Option<SocketAddr>,
    pub settings_path: PathBuf,
    /// Settings that the command line replaces. The page of settings names this source.
    pub overridden: Vec<Overridden>,
    /// The option that commands need to find the data folder, such as ` --home '/my data'`. Empty for the default folder.
    /// Only pages for signed-in users show it.
    pub home_option: String,
    /// The time in milliseconds since 1970.
    pub now_ms: fn() -> i64,
}

/// A setting that the command line replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overridden {
    /// The path of the key, such as `listen`.
    pub key: &'static str,
    /// The value in force.
    pub value: String,
    /// The option or command, such as `--listen`.
    pub by: &'static str,
}

impl Facts {
    /// Returns the address that this process listens on with its scheme, such as `http://127.0.0.1:8080`.
    pub fn origin(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the certificate for the own address of `/metrics`, if it has one. A token must not cross the network in the
    /// clear. Programs on this machine need no certificate.
    pub fn metrics_tls(&self) -> Option<Certificates> {
        let is_remote = self.metrics_address.is_some_and(|address| !address.ip().to_canonical().is_loopback());
        self.tls.clone().filter(|_| is_remote)
    }
}

/// All routes of the process, behind the guard.
pub type App = Guarded<Router>;

pub fn app(state: Web) -> App {
    apps(state).0
}

/// Returns all routes of the process and, if metrics have an address of their own, the routes for that address.
pub fn apps(state: Web) -> (App, Option<App>) {
    let agents = mcpproxy_gateway::router(&state.gateway);
    let guard = state.guard.clone().at(&state.facts.base_url);
    let app = AppState::new(state);
    let routes = rest::router(&app).merge(ui::router(&app)).merge(agents);
    let metrics = app.web.facts.metrics_address.map(|address| metrics::own_app(&app, address));
    let routes = routes.fallback(move |uri: Uri, headers: HeaderMap| unknown(app.clone(), uri, headers));
    (Guarded::new(guard, routes), metrics)
}

/// Answers unknown paths. Outside `/api` and `/ui` this is a plain-text 404: some clients take any JSON under
/// `/.well-known` for an OAuth server, and then ignore the token they were given.
async fn unknown(app: AppState, uri: Uri, headers: HeaderMap) -> Response {
    match uri.path() {
        path if path == "/api" || path.starts_with("/api/") => Problem::NOT_FOUND.into_response(),
        path if path == "/ui" || path.starts_with("/ui/") => ui::not_here(&app, path, &headers).await,
        _ => (StatusCode::NOT_FOUND, "not found\n").into_response(),
    }
}
