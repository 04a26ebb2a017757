//! The REST endpoints for health, readiness and status.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use http::StatusCode;
use mcpproxy_core::ApprovalState;
use mcpproxy_gateway::StateName;
use mcpproxy_store::ApprovalFilter;

use super::endpoint::{Answer, Endpoint, Group};
use crate::auth::access::Access;
use crate::verb::Verb;
use crate::{Web, wire};

/// Approval requests to count. More are rare, and a person decides them one by one anyway.
const WAITING_MAX: usize = 100;

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "health",
        method: Verb::Get,
        path: "/healthz",
        access: Access::Everybody,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Health,
        summary: "Check that the gateway runs",
        description: "Always answers `ok`, with any `Host`. Use it as a liveness probe.",
        answers: &[Answer::json::<wire::Health>(StatusCode::OK, "The gateway runs.")],
        errors: &[],
        handler: |method| on(method, health),
    },
    Endpoint {
        name: "ready",
        method: Verb::Get,
        path: "/readyz",
        access: Access::Everybody,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Health,
        summary: "Check that the gateway accepts calls",
        description: "The gateway is ready when the activity log can be written, and every server has connected or failed once. It waits for servers no longer than `ready_timeout` after the start. A gateway whose settings come from the database is not ready before a first version is published. While the log cannot be written, no call is sent. Use it as a readiness probe: it accepts any `Host`, and reveals nothing else. `GET /api/v1/status` has the reasons.",
        answers: &[
            Answer::json::<wire::Readiness>(StatusCode::OK, "Ready."),
            Answer::json::<wire::Readiness>(
                StatusCode::SERVICE_UNAVAILABLE,
                "Not ready. The status of the gateway has the reason.",
            ),
        ],
        errors: &[],
        handler: |method| on(method, ready),
    },
    Endpoint {
        name: "status",
        method: Verb::Get,
        path: "/api/v1/status",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Health,
        summary: "Show the state of the gateway",
        description: "Version, addresses, number of servers and tools, servers that are not ready with the reason, errors in the settings with their positions, changes that wait for a user, definitions that wait for a review, pending approval requests, the gateways that share the database, the state of the activity log, and the state of its export.",
        answers: &[Answer::json::<wire::Status>(StatusCode::OK, "The state.")],
        errors: &[],
        handler: |method| on(method, status),
    },
];

async fn health() -> Json<wire::Health> {
    Json(wire::Health { status: "ok" })
}

async fn ready(State(web): State<Arc<Web>>) -> Response {
    let is_well = wire::LogState::from(web.ledger.health()).reason.is_none();
    // A hanging server must not keep the gateway out of a load balancer. A call to it waits, and gets its own error.
    let has_waited = web.facts.started.elapsed() >= web.gateway.ready_timeout();
    // Agents would find no servers.
    let has_settings = web.gateway.version() != Some(0);
    let ready = is_well && has_settings && (has_waited || web.gateway.is_ready());
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(wire::Readiness { ready })).into_response()
}

/// Counts pending approval requests. A database that cannot be read must not hide the rest of the status.
async fn approvals(web: &Web) -> wire::ApprovalsState {
    let pending = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
    let waiting = web.gateway.approvals().list(&pending, None, WAITING_MAX).await.ok();
    wire::ApprovalsState {
        waiting: waiting.map(|page| page.approvals.len()),
        has_users: web.store.has_users().await.ok(),
    }
}

async fn status(State(web): State<Arc<Web>>) -> Json<wire::Status> {
    let mut servers = wire::ServerCounts::default();
    let mut unready_servers = Vec::new();
    let (mut tools, mut quarantined, mut to_review) = (0, 0, 0);
    for server in web.gateway.servers() {
        tools += server.tools;
        quarantined += server.quarantined;
        to_review += server.to_review;
        *match server.state {
            StateName::Ready => &mut servers.ready,
            StateName::Connecting => &mut servers.connecting,
            StateName::Waiting => &mut servers.failed,
            StateName::Disabled => &mut servers.disabled,
            StateName::Misconfigured => &mut servers.misconfigured,
            StateName::NeedsSignIn => &mut servers.needs_sign_in,
        } += 1;
        match server.state {
            StateName::Ready | StateName::Disabled => {}
            StateName::Connecting | StateName::Waiting | StateName::Misconfigured | StateName::NeedsSignIn => {
                unready_servers.push(wire::UnreadyServer {
                    name: server.name.to_string(),
                    state: server.state.as_str(),
                    reason: server.reason,
                    hint: server.hint,
                });
            }
        }
    }
    let error = web.gateway.reload_error();
    Json(wire::Status {
        version: web.facts.version,
        pid: std::process::id(),
        address: web.facts.address.clone(),
        tls: web.facts.tls.as_ref().map(|tls| wire::TlsState::of(tls, (web.facts.now_ms)())),
        uptime_ms: web.facts.started.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
        ui_url: format!("{}/ui/", web.facts.base_url.trim_end_matches('/')),
        servers,
        unready_servers,
        tools,
        quarantined,
        to_review,
        settings: wire::SettingsState {
            path: web.facts.settings_path.display().to_string(),
            exists: web.facts.settings_path.exists(),
            version: web.gateway.version(),
            mistakes: error.iter().flat_map(|error| error.lines()).map(wire::FileMistake::parse).collect(),
            error,
            warnings: web.gateway.settings_warnings(),
            held: web.gateway.held().map(|held| held.as_ref().into()),
        },
        approvals: approvals(&web).await,
        cluster: web.gateway.cluster().await.ok().map(|cluster| wire::ClusterState::from(&cluster)),
        log: web.ledger.health().into(),
        export: web.gateway.export().map(wire::ExportState::from),
        encoder: web.gateway.encoder().map(|state| wire::EncoderState { encoded: state.encoded, tools: state.tools }),
    })
}
