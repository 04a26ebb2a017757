//! The list of all routes: the router is built from it, and so are the tests that count them.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};

use crate::{Web, admin, rest};

/// Every route that is not an agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Health,
    Ready,
    Status,
    Servers,
    ServerLog,
    RestartServer,
    Tools,
    SearchTools,
    Tool,
    ExplainCall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Says nothing worth protecting.
    Everybody,
    AdminKey,
}

impl Endpoint {
    pub(crate) const ALL: [Self; 10] = [
        Self::Health,
        Self::Ready,
        Self::Status,
        Self::Servers,
        Self::ServerLog,
        Self::RestartServer,
        Self::Tools,
        Self::SearchTools,
        Self::Tool,
        Self::ExplainCall,
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Health => "/healthz",
            Self::Ready => "/readyz",
            Self::Status => "/api/v1/status",
            Self::Servers => "/api/v1/servers",
            Self::ServerLog => "/api/v1/servers/{name}/logs",
            Self::RestartServer => "/api/v1/servers/{name}/restart",
            Self::Tools => "/api/v1/tools",
            Self::SearchTools => "/api/v1/tools/search",
            Self::Tool => "/api/v1/tools/{server}/{tool}",
            Self::ExplainCall => "/api/v1/policy/explain",
        }
    }

    pub(crate) fn access(self) -> Access {
        match self {
            Self::Health | Self::Ready => Access::Everybody,
            Self::Status
            | Self::Servers
            | Self::ServerLog
            | Self::RestartServer
            | Self::Tools
            | Self::SearchTools
            | Self::Tool
            | Self::ExplainCall => Access::AdminKey,
        }
    }

    fn methods(self) -> MethodRouter<Arc<Web>> {
        match self {
            Self::Health => get(rest::health),
            Self::Ready => get(rest::ready),
            Self::Status => get(rest::status),
            Self::Servers => get(rest::servers),
            Self::ServerLog => get(rest::server_log),
            Self::RestartServer => post(rest::restart_server),
            Self::Tools => get(rest::tools),
            Self::SearchTools => get(rest::search_tools),
            Self::Tool => get(rest::tool),
            Self::ExplainCall => post(rest::explain_call),
        }
    }
}

pub(crate) fn router(web: Arc<Web>) -> Router {
    let routes = |access: Access| {
        Endpoint::ALL
            .into_iter()
            .filter(|endpoint| endpoint.access() == access)
            .fold(Router::new(), |router, endpoint| router.route(endpoint.path(), endpoint.methods()))
    };
    let admin = routes(Access::AdminKey).route_layer(from_fn_with_state(Arc::clone(&web), admin::authenticate));
    routes(Access::Everybody).merge(admin).with_state(web)
}
