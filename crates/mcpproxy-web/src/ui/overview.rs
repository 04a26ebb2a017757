//! The page `/ui/`.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::{StatusCode, Uri};
use mcpproxy_core::ApprovalState;
use mcpproxy_gateway::{ServerStatus, StateName};
use mcpproxy_store::{ApprovalFilter, StoreError};

use super::events::Topic;
use super::page::{Page, PageAccess};
use super::visitor::Visitor;
use super::{frame, unavailable};
use crate::auth::identity::{AppState, SignedInUser};
use crate::ui::pages::overview::attention::{Attention, Facts};
use crate::ui::pages::overview::chart::Period;
use crate::ui::pages::overview::traffic::Traffic;
use crate::ui::pages::overview::{Health, Overview, Waiting};
use crate::ui::pages::{Frame, page};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[Page {
    name: "overview",
    method: Verb::Get,
    path: "/ui/",
    access: PageAccess::User,
    decides: false,
    sent_from: None,
    is_stream: false,
    handler: |method| on(method, show),
}];

/// Approval requests in the list. The inbox has all.
const WAITING_MAX: usize = 5;
/// Servers that are down and whose log is read.
const LOGS_MAX: usize = 8;
const DAY_MS: i64 = 86_400_000;
/// Calls before this time do not count as a first use.
const FIRST_USE_DAYS: i64 = 31;

async fn show(State(app): State<AppState>, Visitor(signed): Visitor, uri: Uri) -> Response {
    let days = uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("days="));
    render(&app, &signed, Period::of(days)).await.unwrap_or_else(|error| unavailable(&error))
}

async fn render(app: &AppState, signed: &SignedInUser, period: Period) -> Result<Response, StoreError> {
    let now_ms = app.now_ms();
    let frame = frame::around(app, signed, "overview", "Overview").await?;
    let filter = ApprovalFilter { state: Some(ApprovalState::Pending), ..ApprovalFilter::default() };
    let pending = app.web.gateway.approvals().list(&filter, None, WAITING_MAX).await?;
    let waiting = Waiting::new(&pending.approvals, frame.pending, now_ms);
    let servers = app.web.gateway.servers();
    let attention = attention(app, &servers, now_ms).await?;
    let traffic = traffic(app, period, now_ms).await?;
    let frame = Frame { live: Some(Topic::Calls), ..frame };
    let health = Health::new(&servers);
    Ok(page(StatusCode::OK, &Overview::new(frame, period, waiting, attention, traffic, health)))
}

/// Returns `None` if no agent has called a tool yet, so that the page teaches the first call.
async fn traffic(app: &AppState, period: Period, now_ms: i64) -> Result<Option<Traffic>, StoreError> {
    let (store, since_ms) = (&app.web.store, period.since_ms(now_ms));
    let hours = store.hourly_calls(since_ms, now_ms).await?;
    let refusals = store.refusal_reasons(since_ms).await?;
    if hours.is_empty()
        && refusals.read == 0
        && store.hourly_calls(now_ms - FIRST_USE_DAYS * DAY_MS, now_ms).await?.is_empty()
    {
        return Ok(None);
    }
    let summary = store.summary(Some(since_ms), Some(now_ms)).await?;
    Ok(Some(Traffic::new(&hours, &summary, &refusals, period, now_ms)))
}

async fn attention(app: &AppState, servers: &[ServerStatus], now_ms: i64) -> Result<Vec<Attention>, StoreError> {
    let gateway = &app.web.gateway;
    let is_down = |server: &ServerStatus| matches!(server.state, StateName::Waiting | StateName::Misconfigured);
    let down = servers.iter().enumerate().filter(|(_, server)| is_down(server)).take(LOGS_MAX);
    let last_lines = down.filter_map(|(at, server)| Some((at, gateway.server_log(&server.name, 1)?.pop()?))).collect();
    let held = gateway.held();
    let last = gateway.last_verification().await?;
    let chains = app.web.store.chains().await?;
    let cluster = gateway.cluster().await?;
    Ok(Attention::all(&Facts {
        log: app.web.ledger.health(),
        reload_error: gateway.reload_error(),
        held: held.as_deref(),
        warnings: gateway.settings_warnings(),
        drift: &cluster.drift,
        servers,
        last_lines,
        last_verification: last.as_ref(),
        log_since_ms: chains.iter().map(|chain| chain.created_ms).min(),
        now_ms,
    }))
}
