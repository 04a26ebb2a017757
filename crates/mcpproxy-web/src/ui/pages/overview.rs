//! The content of the page `/ui/`: what waits, what needs attention, and what agents did.

pub(crate) mod attention;
pub(crate) mod chart;
#[cfg(test)]
mod tests;
pub(crate) mod traffic;

use askama::Template;
use mcpproxy_core::ServerName;
use mcpproxy_gateway::{ServerStatus, StateName, StatedRisk};
use mcpproxy_store::StoredApproval;
use serde_json::Value;

use super::amount::{counted, items, one_line, part_key};
use super::labels::{Risk, State, Time};
use super::lists::Tab;
use super::servers::state;
use super::{Frame, filters};
use crate::visible::Visible;
use attention::{Attention, Detail};
use chart::Period;
use traffic::Traffic;

const ARGUMENT_CHARS: usize = 160;
const REASON_CHARS: usize = 120;
/// Servers in the list. Those with trouble come first.
const SERVERS_MAX: usize = 12;

#[derive(Template)]
#[template(path = "overview.html")]
pub(crate) struct Overview {
    pub(crate) frame: Frame,
    pub(crate) tabs: [Tab; 2],
    pub(crate) waiting: Waiting,
    pub(crate) waiting_key: String,
    pub(crate) attention: Vec<Attention>,
    pub(crate) attention_key: String,
    /// `None` if no agent has called a tool yet.
    pub(crate) traffic: Option<Traffic>,
    pub(crate) traffic_key: String,
    pub(crate) servers: Health,
    pub(crate) servers_key: String,
    /// True if a server `demo` is ready to try a call.
    pub(crate) has_demo: bool,
}

impl Overview {
    pub(crate) fn new(
        frame: Frame,
        period: Period,
        waiting: Waiting,
        attention: Vec<Attention>,
        traffic: Option<Traffic>,
        servers: Health,
    ) -> Self {
        let tab = |name: &str, href, of| Tab { name: name.to_owned(), href, is_here: period == of };
        Self {
            frame,
            tabs: [tab("24 hours", "/ui/", Period::Day), tab("7 days", "/ui/?days=7", Period::Week)],
            waiting_key: part_key(&waiting),
            attention_key: part_key(&attention),
            traffic_key: part_key(&traffic),
            servers_key: part_key(&servers),
            has_demo: servers.has_ready("demo"),
            waiting,
            attention,
            traffic,
            servers,
        }
    }
}

/// The approval requests that wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) heading: String,
    pub(crate) rows: Vec<WaitingRow>,
    /// Requests that are not in the list.
    pub(crate) more: u64,
}

#[derive(Debug)]
pub(crate) struct WaitingRow {
    pub(crate) id: String,
    pub(crate) risk: Risk,
    pub(crate) tool: Visible,
    pub(crate) agent: Visible,
    pub(crate) arguments: Visible,
    pub(crate) reason: Visible,
    pub(crate) expires: Time,
}

impl Waiting {
    pub(crate) fn new(approvals: &[StoredApproval], pending: u64, now_ms: i64) -> Self {
        let shown = items(approvals.len());
        let pending = pending.max(shown);
        let verb = if pending == 1 { "waits" } else { "wait" };
        Self {
            heading: format!("{} {verb} for your decision", counted(pending, "call")),
            rows: approvals.iter().map(|approval| WaitingRow::new(approval, now_ms)).collect(),
            more: pending - shown,
        }
    }
}

impl WaitingRow {
    fn new(approval: &StoredApproval, now_ms: i64) -> Self {
        let about: Value = serde_json::from_str(approval.about.for_json()).unwrap_or_default();
        let reason = about.get("reason").and_then(Value::as_str).unwrap_or_default();
        Self {
            id: approval.id.to_string(),
            risk: StatedRisk::of(approval).into(),
            tool: Visible::of(&approval.tool.to_string()),
            agent: Visible::of(&approval.agent),
            arguments: Visible::of(&one_line(approval.shown_args.for_json(), ARGUMENT_CHARS)),
            reason: Visible::of(&one_line(reason, REASON_CHARS)),
            expires: Time::new(approval.expires_ms, now_ms),
        }
    }
}

/// The state of the servers.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) summary: String,
    pub(crate) rows: Vec<HealthRow>,
    /// Servers that are not in the list.
    pub(crate) more: usize,
}

#[derive(Debug)]
pub(crate) struct HealthRow {
    pub(crate) name: ServerName,
    pub(crate) state: State,
    pub(crate) tools: usize,
    pub(crate) quarantined: usize,
}

impl Health {
    pub(crate) fn new(servers: &[ServerStatus]) -> Self {
        let ready = servers.iter().filter(|server| state(server).class == "ready").count();
        let mut sorted: Vec<&ServerStatus> = servers.iter().collect();
        sorted.sort_by_key(|server| trouble(server.state));
        Self {
            summary: format!("{ready} of {} ready", servers.len()),
            more: sorted.len().saturating_sub(SERVERS_MAX),
            rows: sorted.into_iter().take(SERVERS_MAX).map(HealthRow::new).collect(),
        }
    }

    fn has_ready(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.name.as_str() == name && row.state.class == "ready")
    }
}

/// Orders servers: those that need a user first.
fn trouble(state: StateName) -> u8 {
    match state {
        StateName::Misconfigured | StateName::NeedsSignIn => 0,
        StateName::Waiting => 1,
        StateName::Connecting => 2,
        StateName::Ready => 3,
        StateName::Disabled => 4,
    }
}

impl HealthRow {
    fn new(server: &ServerStatus) -> Self {
        Self { name: server.name.clone(), state: state(server), tools: server.tools, quarantined: server.quarantined }
    }
}
