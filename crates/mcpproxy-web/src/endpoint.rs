//! The list of all routes: the router is built from it, and so are the document that describes them and the tests.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};
use http::Method;

use crate::parameters::{self, Parameter};
use crate::problem::Problem;
use crate::{Web, activity, admin, contracts, docs, events, export, openapi, rest};

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
    Contracts,
    Contract,
    LintContracts,
    DraftContracts,
    ExplainCall,
    Activity,
    ActivityRecord,
    ActivitySummary,
    ExportActivity,
    Events,
    OpenApi,
    Docs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Says nothing worth protecting.
    Everybody,
    AdminKey,
}

impl Endpoint {
    pub(crate) const ALL: [Self; 21] = [
        Self::Health,
        Self::Ready,
        Self::Status,
        Self::Servers,
        Self::ServerLog,
        Self::RestartServer,
        Self::Tools,
        Self::SearchTools,
        Self::Tool,
        Self::Contracts,
        Self::Contract,
        Self::LintContracts,
        Self::DraftContracts,
        Self::ExplainCall,
        Self::Activity,
        Self::ActivityRecord,
        Self::ActivitySummary,
        Self::ExportActivity,
        Self::Events,
        Self::OpenApi,
        Self::Docs,
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
            Self::Contracts => "/api/v1/contracts",
            Self::Contract => "/api/v1/contracts/{server}/{tool}",
            Self::LintContracts => "/api/v1/contracts/lint",
            Self::DraftContracts => "/api/v1/servers/{name}/contracts/draft",
            Self::ExplainCall => "/api/v1/policy/explain",
            Self::Activity => "/api/v1/activity",
            Self::ActivityRecord => "/api/v1/activity/{id}",
            Self::ActivitySummary => "/api/v1/activity/summary",
            Self::ExportActivity => "/api/v1/activity/export",
            Self::Events => "/api/v1/events",
            Self::OpenApi => "/api/v1/openapi.json",
            Self::Docs => "/api/v1/docs",
        }
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Self::RestartServer | Self::ExplainCall => Method::POST,
            Self::Health
            | Self::Ready
            | Self::Status
            | Self::Servers
            | Self::ServerLog
            | Self::Tools
            | Self::SearchTools
            | Self::Tool
            | Self::Contracts
            | Self::Contract
            | Self::LintContracts
            | Self::DraftContracts
            | Self::Activity
            | Self::ActivityRecord
            | Self::ActivitySummary
            | Self::ExportActivity
            | Self::Events
            | Self::OpenApi
            | Self::Docs => Method::GET,
        }
    }

    pub(crate) fn access(self) -> Access {
        match self {
            Self::Health | Self::Ready | Self::OpenApi | Self::Docs => Access::Everybody,
            Self::Status
            | Self::Servers
            | Self::ServerLog
            | Self::RestartServer
            | Self::Tools
            | Self::SearchTools
            | Self::Tool
            | Self::Contracts
            | Self::Contract
            | Self::LintContracts
            | Self::DraftContracts
            | Self::ExplainCall
            | Self::Activity
            | Self::ActivityRecord
            | Self::ActivitySummary
            | Self::ExportActivity
            | Self::Events => Access::AdminKey,
        }
    }

    /// What may stand behind `?`. Everything else there is an error.
    pub(crate) fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Health
            | Self::Ready
            | Self::Status
            | Self::Servers
            | Self::RestartServer
            | Self::Tool
            | Self::Contracts
            | Self::Contract
            | Self::LintContracts
            | Self::DraftContracts
            | Self::ExplainCall
            | Self::ActivityRecord
            | Self::OpenApi
            | Self::Docs => &[],
            Self::ServerLog => &parameters::SERVER_LOG,
            Self::Tools => &parameters::TOOLS,
            Self::SearchTools => &parameters::SEARCH_TOOLS,
            Self::Activity => &parameters::ACTIVITY,
            Self::ActivitySummary => &parameters::ACTIVITY_SUMMARY,
            Self::ExportActivity => &parameters::EXPORT_ACTIVITY,
            Self::Events => &parameters::EVENTS,
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
            Self::Contracts => get(contracts::list),
            Self::Contract => get(contracts::find),
            Self::LintContracts => get(contracts::lint),
            Self::DraftContracts => get(contracts::draft),
            Self::ExplainCall => post(rest::explain_call),
            Self::Activity => get(activity::list),
            Self::ActivityRecord => get(activity::find),
            Self::ActivitySummary => get(activity::summary),
            Self::ExportActivity => get(export::export),
            Self::Events => get(events::follow),
            Self::OpenApi => get(openapi::serve),
            Self::Docs => get(docs::page),
        }
    }
}

pub(crate) fn router(web: Arc<Web>) -> Router {
    let routes = |access: Access| {
        let allowed = Endpoint::ALL.into_iter().filter(|endpoint| endpoint.access() == access);
        allowed.fold(Router::new(), |router, endpoint| {
            let read = from_fn_with_state((Arc::clone(&web), endpoint), parameters::read);
            router.route(endpoint.path(), endpoint.methods().route_layer(read))
        })
    };
    let wrong_method = || async { Problem::WrongMethod };
    let admin = routes(Access::AdminKey)
        .method_not_allowed_fallback(wrong_method)
        .route_layer(from_fn_with_state(Arc::clone(&web), admin::authenticate));
    let everybody =
        routes(Access::Everybody).method_not_allowed_fallback(wrong_method).route_layer(from_fn(admin::harden));
    everybody.merge(admin).with_state(web)
}
