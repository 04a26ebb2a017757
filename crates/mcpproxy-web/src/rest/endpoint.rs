//! The list of all routes: the router is built from it, and so are the document that describes them and the tests.

use axum::routing::{MethodRouter, delete, get, post};
use http::Method;

use super::parameters::{self, Parameter};
use super::{activity, approvals, contracts, docs, events, export, openapi, servers};
use crate::auth::access::Access;
use crate::auth::identity::Site;

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
    Approvals,
    Approval,
    WholeApproval,
    ApprovalStatus,
    Approve,
    Deny,
    Grants,
    MakeGrant,
    RevokeGrant,
    LogIn,
    LogOut,
    OpenApi,
    Docs,
}

impl Endpoint {
    pub(crate) const ALL: [Self; 32] = [
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
        Self::Approvals,
        Self::Approval,
        Self::WholeApproval,
        Self::ApprovalStatus,
        Self::Approve,
        Self::Deny,
        Self::Grants,
        Self::MakeGrant,
        Self::RevokeGrant,
        Self::LogIn,
        Self::LogOut,
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
            Self::Approvals => "/api/v1/approvals",
            Self::Approval => "/api/v1/approvals/{approval}",
            Self::WholeApproval => "/api/v1/approvals/{approval}/whole",
            Self::ApprovalStatus => "/api/v1/approvals/{approval}/status",
            Self::Approve => "/api/v1/approvals/{approval}/approve",
            Self::Deny => "/api/v1/approvals/{approval}/deny",
            Self::Grants | Self::MakeGrant => "/api/v1/grants",
            Self::RevokeGrant => "/api/v1/grants/{grant}",
            Self::LogIn => "/api/v1/login",
            Self::LogOut => "/api/v1/logout",
            Self::OpenApi => "/api/v1/openapi.json",
            Self::Docs => "/api/v1/docs",
        }
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Self::RestartServer
            | Self::ExplainCall
            | Self::Approve
            | Self::Deny
            | Self::MakeGrant
            | Self::LogIn
            | Self::LogOut => Method::POST,
            Self::RevokeGrant => Method::DELETE,
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
            | Self::Approvals
            | Self::Approval
            | Self::WholeApproval
            | Self::ApprovalStatus
            | Self::Grants
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
            | Self::Events
            | Self::Approvals
            | Self::Approval
            | Self::Deny
            | Self::Grants
            | Self::RevokeGrant => Access::Operator,
            Self::ApprovalStatus => Access::OwnStatus,
            Self::WholeApproval | Self::Approve | Self::MakeGrant => Access::User,
            Self::LogIn => Access::SignIn,
            Self::LogOut => Access::Session,
        }
    }

    /// Whether it says yes or no to what agents want. Who may not and tries is written down.
    pub(crate) fn decides(self) -> bool {
        matches!(self, Self::Approve | Self::Deny | Self::MakeGrant | Self::RevokeGrant)
    }

    /// Whether it reads a body.
    pub(crate) fn takes_body(self) -> bool {
        matches!(self, Self::ExplainCall | Self::Approve | Self::Deny | Self::MakeGrant | Self::LogIn)
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
            | Self::Approval
            | Self::WholeApproval
            | Self::ApprovalStatus
            | Self::Approve
            | Self::Deny
            | Self::MakeGrant
            | Self::RevokeGrant
            | Self::LogIn
            | Self::LogOut
            | Self::OpenApi
            | Self::Docs => &[],
            Self::Approvals => &parameters::APPROVALS,
            Self::Grants => &parameters::GRANTS,
            Self::ServerLog => &parameters::SERVER_LOG,
            Self::Tools => &parameters::TOOLS,
            Self::SearchTools => &parameters::SEARCH_TOOLS,
            Self::Activity => &parameters::ACTIVITY,
            Self::ActivitySummary => &parameters::ACTIVITY_SUMMARY,
            Self::ExportActivity => &parameters::EXPORT_ACTIVITY,
            Self::Events => &parameters::EVENTS,
        }
    }

    pub(super) fn methods(self) -> MethodRouter<Site> {
        match self {
            Self::Health => get(servers::health),
            Self::Ready => get(servers::ready),
            Self::Status => get(servers::status),
            Self::Servers => get(servers::servers),
            Self::ServerLog => get(servers::server_log),
            Self::RestartServer => post(servers::restart_server),
            Self::Tools => get(servers::tools),
            Self::SearchTools => get(servers::search_tools),
            Self::Tool => get(servers::tool),
            Self::Contracts => get(contracts::list),
            Self::Contract => get(contracts::find),
            Self::LintContracts => get(contracts::lint),
            Self::DraftContracts => get(contracts::draft),
            Self::ExplainCall => post(servers::explain_call),
            Self::Activity => get(activity::list),
            Self::ActivityRecord => get(activity::find),
            Self::ActivitySummary => get(activity::summary),
            Self::ExportActivity => get(export::export),
            Self::Events => get(events::follow),
            Self::Approvals => get(approvals::list),
            Self::Approval => get(approvals::find),
            Self::WholeApproval => get(approvals::whole),
            Self::ApprovalStatus => get(approvals::status),
            Self::Approve => post(approvals::approve),
            Self::Deny => post(approvals::deny),
            Self::Grants => get(approvals::grants),
            Self::MakeGrant => post(approvals::make_grant),
            Self::RevokeGrant => delete(approvals::revoke_grant),
            Self::LogIn => post(approvals::log_in),
            Self::LogOut => post(approvals::log_out),
            Self::OpenApi => get(openapi::serve),
            Self::Docs => get(docs::page),
        }
    }
}
