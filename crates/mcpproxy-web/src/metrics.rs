//! The metrics of the gateway, in the text format of Prometheus.
//!
//! Nothing here runs while a call is made. A scrape reads atomics of the gateway and of the log, the list of servers,
//! two rows of the database and `/proc/self`. A database that does not answer must not stop the scrape that would report
//! it, so its numbers have a timeout and are left out.
//!
//! Labels have a bound. They are enums of ours, or names of servers in the settings, of which at most [`SERVERS_MAX`] get a
//! row of their own. Names of agents, tools and users are never labels.
//!
//! `docs/metrics.md` lists every metric. A test compares that page, the dashboard and the alerts with the answer.

mod exposition;
mod process;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use mcpproxy_core::ApprovalState;
use mcpproxy_gateway::{ExportReadings, ServerStatus, StateName};
use mcpproxy_store::{ApprovalFilter, Health, LIMIT_MAX, LogReadings};

use self::exposition::Exposition;
use crate::auth::access::is_metrics_token;
use crate::auth::identity::AppState;
use crate::{App, Guard, Guarded, Web};

/// Servers with a row of their own.
const SERVERS_MAX: usize = 50;
/// Longest wait for numbers of the database.
const DATABASE_PATIENCE: Duration = Duration::from_secs(1);
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers `/metrics` and nothing else, on an address of its own. A loopback address needs no credential. Any other
/// address needs the token of the settings.
pub(crate) fn own_app(app: &AppState, address: SocketAddr) -> App {
    let is_loopback = address.ip().to_canonical().is_loopback();
    // Without a credential, only the `Host` keeps a web page in a browser from reading this. With one, names of this
    // machine on its network need not be listed.
    let guard = if is_loopback { Guard::new(address.port(), &[], &[]) } else { Guard::any_host(address.port()) };
    let state = OwnState { app: app.clone(), is_loopback };
    let routes = Router::new().route("/metrics", get(own_answer)).with_state(state);
    Guarded::new(guard, routes.fallback(|| async { (StatusCode::NOT_FOUND, "not found\n") }))
}

#[derive(Clone)]
struct OwnState {
    app: AppState,
    is_loopback: bool,
}

async fn own_answer(State(own): State<OwnState>, headers: HeaderMap) -> Response {
    let web = &own.app.web;
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if !own.is_loopback && !is_metrics_token(web, given) {
        let message = "send the `metrics.token` of the settings as `Authorization: Bearer TOKEN`\n";
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")], message).into_response();
    }
    if !web.gateway.settings().metrics.enabled {
        return (StatusCode::NOT_FOUND, "metrics are off; set `metrics.enabled` to true\n").into_response();
    }
    answer(web).await
}

pub(crate) async fn answer(web: &Web) -> Response {
    let headers = [(CONTENT_TYPE, TEXT_FORMAT), (CACHE_CONTROL, "no-store")];
    (headers, text(web).await).into_response()
}

async fn text(web: &Web) -> String {
    let mut out = Exposition::default();
    about(web, &mut out);
    log(&web.ledger.readings(), &mut out);
    calls(web, &mut out);
    servers(&web.gateway.servers(), &mut out);
    state_of_log(web, &mut out);
    export(web.gateway.export().unwrap_or_default(), &mut out);
    database(web, &mut out).await;
    process::write(&mut out);
    out.finish()
}

fn about(web: &Web, out: &mut Exposition) {
    out.gauge("mcpproxy_build_info", "The version of the gateway. The value is always 1.");
    out.sample(&[("version", web.facts.version)], 1);
    let now_s = (web.facts.now_ms)() / 1000;
    let uptime_s = i64::try_from(web.facts.started.elapsed().as_secs()).unwrap_or(0);
    out.gauge("process_start_time_seconds", "The start of the process, in seconds since 1970.");
    out.sample(&[], now_s - uptime_s);
    out.gauge(
        "mcpproxy_certificate_expires_seconds",
        "The end of the gateway's own certificate, in seconds since 1970.",
    );
    if let Some(tls) = &web.facts.tls {
        out.sample(&[], tls.current().expires_ms() / 1000);
    }
    out.gauge("mcpproxy_settings_error", "1 if the files of the operator have a mistake and were not reloaded.");
    out.sample(&[], u8::from(web.gateway.reload_error().is_some()));
    out.gauge("mcpproxy_settings_held", "1 if a reload that weakens a rule waits for a user.");
    out.sample(&[], u8::from(web.gateway.held().is_some()));
}

/// Counts of records. They are sorted, because a map has no order and a diff of two scrapes should be readable.
fn log(readings: &LogReadings, out: &mut Exposition) {
    out.counter("mcpproxy_calls_total", "Calls that ended, by variant, risk level and outcome, refused ones included.");
    let mut calls: Vec<_> = readings
        .calls
        .iter()
        .map(|(labels, count)| {
            let variant = labels.variant.map_or("none", |variant| variant.operation());
            let risk = labels.risk.map_or("none", |risk| risk.as_str());
            ([("variant", variant), ("risk", risk), ("outcome", labels.outcome.as_str())], *count)
        })
        .collect();
    calls.sort_unstable();
    calls.iter().for_each(|(labels, count)| out.sample(labels, count));

    out.counter("mcpproxy_refusals_total", "Refused calls, by error code.");
    let mut refusals = readings.refusals.clone();
    refusals.sort_unstable();
    refusals.iter().for_each(|(code, count)| out.sample(&[("code", code)], count));

    out.counter("mcpproxy_records_total", "Records that were written to the activity log, by type and status.");
    let mut records: Vec<_> =
        readings.records.iter().map(|(kind, status, count)| (kind.as_str(), status.as_str(), *count)).collect();
    records.sort_unstable();
    for (kind, status, count) in records {
        out.sample(&[("type", kind), ("status", status)], count);
    }

    let mut servers: Vec<_> = readings.servers.iter().collect();
    servers.sort_unstable_by(|a, b| a.server.cmp(&b.server));
    out.counter("mcpproxy_server_calls_total", "Calls of a server's tools that ended, by outcome.");
    for row in &servers {
        let mut calls: Vec<_> = row.calls.iter().map(|(status, count)| (status.as_str(), *count)).collect();
        calls.sort_unstable();
        calls.iter().for_each(|(outcome, count)| {
            out.sample(&[("server", row.server.as_str()), ("outcome", outcome)], count);
        });
    }
    out.histogram("mcpproxy_server_call_seconds", "The time that a server took for a call.");
    for row in &servers {
        out.observations(&[("server", row.server.as_str())], &row.durations);
    }

    out.gauge("mcpproxy_log_queue_records", "Records that wait for the next commit.");
    out.sample(&[], readings.queued);
    out.counter("mcpproxy_log_records_committed_total", "Changes of the log that were committed. One commit has many.");
    out.sample(&[], readings.committed);
    out.counter("mcpproxy_log_commit_failures_total", "Commits that failed and were tried again.");
    out.sample(&[], readings.failures);
    out.histogram("mcpproxy_log_commit_seconds", "The time of a group commit, with the wait for the disk.");
    if let Some(commits) = &readings.commits {
        out.observations(&[], commits);
    }
}

fn calls(web: &Web, out: &mut Exposition) {
    let readings = web.gateway.readings();
    out.histogram("mcpproxy_call_seconds", "The time of a whole call inside the gateway, refused ones included.");
    out.observations(&[], &readings.calls);
    out.histogram("mcpproxy_call_stage_seconds", "The time of each stage of a call.");
    for (stage, times) in &readings.stages {
        out.observations(&[("stage", stage)], times);
    }
    out.gauge("mcpproxy_calls_running", "Calls that servers are working on.");
    out.sample(&[], readings.running_calls);
    out.gauge("mcpproxy_requests_open", "Requests of agents that are not answered yet.");
    out.sample(&[], readings.open_requests);
    out.gauge("mcpproxy_sessions", "Open sessions of agents. Agents of the stateless revision have none.");
    out.sample(&[], readings.sessions);
    out.gauge("mcpproxy_in_flight_bytes", "Memory for requests and answers in flight, as `limits.memory` counts it.");
    out.sample(&[("direction", "request")], readings.request_bytes);
    out.sample(&[("direction", "answer")], readings.answer_bytes);
    out.gauge("mcpproxy_in_flight_limit_bytes", "The value of `limits.memory`.");
    out.sample(&[], readings.memory_limit_bytes);
}

fn servers(servers: &[ServerStatus], out: &mut Exposition) {
    out.gauge("mcpproxy_servers", "Servers, by state.");
    for state in StateName::ALL {
        out.sample(&[("state", state.as_str())], servers.iter().filter(|server| server.state == state).count());
    }
    out.gauge("mcpproxy_server_up", "1 if an enabled server is ready. Of more than 50 servers, the first by name.");
    let enabled = servers.iter().filter(|server| server.state != StateName::Disabled).take(SERVERS_MAX);
    for server in enabled.clone() {
        out.sample(&[("server", server.name.as_str())], u8::from(server.state == StateName::Ready));
    }
    out.counter("mcpproxy_server_restarts_total", "Restarts of a server since the gateway started or it was changed.");
    for server in enabled {
        out.sample(&[("server", server.name.as_str())], server.restarts);
    }
    out.gauge("mcpproxy_tools", "Tools of all servers.");
    out.sample(&[], servers.iter().map(|server| server.tools).sum::<usize>());
    out.gauge("mcpproxy_definitions_quarantined", "Definitions that agents do not see, because nobody accepted them.");
    out.sample(&[], servers.iter().map(|server| server.quarantined).sum::<usize>());
    out.gauge("mcpproxy_definitions_to_review", "Quarantined definitions that wait for a user.");
    out.sample(&[], servers.iter().map(|server| server.to_review).sum::<usize>());
}

fn state_of_log(web: &Web, out: &mut Exposition) {
    out.gauge("mcpproxy_log_up", "1 if the activity log can be written. Without it, no call is sent.");
    let is_up = match web.ledger.health() {
        Health::Well => 1,
        Health::Failing { .. } => 0,
    };
    out.sample(&[], is_up);
}

/// Without an export, all numbers are zero, so that an alert needs no special case.
fn export(export: ExportReadings, out: &mut Exposition) {
    out.counter("mcpproxy_export_records_total", "Records that were exported.");
    out.sample(&[], export.exported);
    out.gauge("mcpproxy_export_lag_records", "Lines of the activity log that are not exported yet.");
    out.sample(&[], export.behind);
    out.counter("mcpproxy_export_failures_total", "Batches that the destination did not take.");
    out.sample(&[], export.failures);
    out.counter("mcpproxy_export_missed_records_total", "Lines that retention removed before they were exported.");
    out.sample(&[], export.missed);
    out.gauge("mcpproxy_export_up", "1 if the last batch arrived, or if there is no export.");
    out.sample(&[], u8::from(export.failing.is_none()));
}

async fn database(web: &Web, out: &mut Exposition) {
    let pending = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
    let waiting = async { web.gateway.approvals().list(&pending, None, LIMIT_MAX).await.ok() };
    let size = async { web.store.size().await.ok() };
    let both = tokio::time::timeout(DATABASE_PATIENCE, async { tokio::join!(waiting, size) }).await;
    let (waiting, size) = both.unwrap_or_default();
    out.gauge("mcpproxy_approvals_waiting", "Approval requests that wait for a user, at most 500.");
    if let Some(page) = waiting {
        out.sample(&[], page.approvals.len());
    }
    out.gauge("mcpproxy_database_bytes", "The size of the database.");
    if let Some(bytes) = size.and_then(|size| size.bytes) {
        out.sample(&[], bytes);
    }
}
