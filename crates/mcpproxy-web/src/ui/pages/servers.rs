//! The page `/ui/servers`: every server with its state, its tools by risk, and what waits for a review.

pub(crate) mod add;
pub(crate) mod details;
pub(crate) mod review;
pub(crate) mod sign_in;

use std::collections::HashMap;

use askama::Template;
use mcpproxy_core::review::coverage::{Classifier, Covered};
use mcpproxy_core::{Digest, Untrusted};
use mcpproxy_gateway::{SaidBy, ServerStatus, StateName, StatedRisk};

use super::Frame;
use super::amount::one_line;
use super::labels::{Risk, State};
use crate::visible::Visible;

/// Longer reasons are cut. The log of the server has the rest.
const REASON_MAX_CHARS: usize = 600;

#[derive(Template)]
#[template(path = "servers.html")]
pub(crate) struct Servers {
    pub(crate) frame: Frame,
    /// Changes with everything that the list shows.
    pub(crate) key: String,
    pub(crate) rows: Vec<ServerRow>,
    /// Definitions that wait for a review, of all servers.
    pub(crate) to_review: usize,
    pub(crate) ready: usize,
}

pub(crate) struct ServerRow {
    pub(crate) name: String,
    pub(crate) title: Option<Visible>,
    pub(crate) state: State,
    pub(crate) reason: Option<Visible>,
    /// A sentence of ours.
    pub(crate) hint: Option<String>,
    pub(crate) transport: &'static str,
    pub(crate) tools: usize,
    pub(crate) risks: Vec<RiskCount>,
    pub(crate) to_review: usize,
    pub(crate) restarts: u64,
}

/// The number of tools with one risk level.
pub(crate) struct RiskCount {
    pub(crate) risk: Risk,
    pub(crate) count: usize,
}

impl Servers {
    pub(crate) fn new(frame: Frame, servers: Vec<ServerStatus>, tools: &[Covered]) -> Self {
        let mut by_server: HashMap<&str, Vec<&Covered>> = HashMap::new();
        for tool in tools {
            by_server.entry(tool.name.server().as_str()).or_default().push(tool);
        }
        let none = Vec::new();
        let row = |status: &ServerStatus| ServerRow::new(status, by_server.get(status.name.as_str()).unwrap_or(&none));
        let rows: Vec<ServerRow> = servers.iter().map(row).collect();
        let parts: Vec<String> = rows.iter().map(ServerRow::key).collect();
        Self {
            frame,
            key: Digest::of(parts.join("\n").as_bytes()).to_string(),
            to_review: rows.iter().map(|row| row.to_review).sum(),
            ready: rows.iter().filter(|row| row.state.class == "ready").count(),
            rows,
        }
    }
}

impl ServerRow {
    fn new(status: &ServerStatus, tools: &[&Covered]) -> Self {
        Self {
            name: status.name.to_string(),
            title: status.title.as_deref().map(short),
            state: state(status),
            reason: status.reason.as_deref().map(short),
            hint: status.hint.as_deref().map(|hint| one_line(hint, REASON_MAX_CHARS)),
            transport: transport(status.transport),
            tools: status.tools,
            risks: risk_counts(tools),
            to_review: status.to_review,
            restarts: status.restarts,
        }
    }

    fn key(&self) -> String {
        let risks: Vec<String> = self.risks.iter().map(|one| format!("{}{}", one.risk.class, one.count)).collect();
        let reason = self.reason.as_ref().map(ToString::to_string).unwrap_or_default();
        let Self { name, tools, to_review, restarts, .. } = self;
        format!("{name} {} {reason} {tools} {to_review} {restarts} {}", self.state.class, risks.join(","))
    }
}

/// The state of a server, with icon and word.
pub(crate) fn state(status: &ServerStatus) -> State {
    let sees_nothing = status.tools == 0 && status.prompts == 0 && status.resources == 0;
    let (class, word, icon) = match status.state {
        // It is connected, but no agent can use anything of it.
        StateName::Ready if sees_nothing && status.to_review > 0 => ("held", "Waits for review", "clock"),
        StateName::Ready => ("ready", "Ready", "check"),
        StateName::Connecting => ("connecting", "Connecting", "clock"),
        StateName::Waiting => ("failed", "Not connected", "high"),
        StateName::Disabled => ("disabled", "Disabled", "ban"),
        StateName::Misconfigured => ("error", "Settings have a mistake", "x"),
        StateName::NeedsSignIn => ("failed", "Needs sign-in", "user"),
    };
    State { class, word, icon }
}

pub(crate) fn transport(word: &'static str) -> &'static str {
    match word {
        "stdio" => "local process",
        "http" | "sse" => "over HTTP",
        "demo" => "built in",
        other => other,
    }
}

/// Counts tools by risk, the most dangerous first. Without a level, a tool is unclassified.
fn risk_counts(tools: &[&Covered]) -> Vec<RiskCount> {
    let mut counts: Vec<RiskCount> = Vec::new();
    for tool in tools {
        let risk = Risk { claim: None, ..risk_of(tool) };
        match counts.iter_mut().find(|one| one.risk.word == risk.word) {
            Some(one) => one.count += 1,
            None => counts.push(RiskCount { risk, count: 1 }),
        }
    }
    counts.sort_by_key(|one| one.risk.rank);
    counts
}

/// The risk of a tool, as far as its source can be trusted.
pub(crate) fn risk_of(tool: &Covered) -> Risk {
    let said_by = match tool.classified_by {
        Classifier::Operator { is_draft: true, .. } => Some(SaidBy::Draft),
        Classifier::Operator { is_draft: false, .. } => Some(SaidBy::Operator),
        Classifier::Server => Some(SaidBy::Server),
        Classifier::Nobody => None,
    };
    StatedRisk { risk: tool.risk, said_by }.into()
}

/// Makes a text of a server visible and bounded.
pub(crate) fn short(text: &str) -> Visible {
    Visible::untrusted(&Untrusted::shortened(text, REASON_MAX_CHARS))
}

/// Percent-encodes a name for one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests;
