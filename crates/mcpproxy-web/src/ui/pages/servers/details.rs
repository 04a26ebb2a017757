//! The page of one server: its state, its tools by risk, its log, and forms to change it.

use askama::Template;
use mcpproxy_core::review::coverage::{Classifier, Covered};
use mcpproxy_core::settings::WrittenTransport;
use mcpproxy_core::{Digest, Untrusted};
use mcpproxy_gateway::{ServerStatus, StateName};

use super::{REASON_MAX_CHARS, RiskCount, risk_counts, risk_of, segment, short, state, transport};
use crate::ui::pages::amount::one_line;
use crate::ui::pages::labels::{Risk, State, say_source_once};
use crate::ui::pages::{Frame, filters};
use crate::visible::{Visible, plain};

/// Tools in the table. The page of tools has all of them.
const TOOLS_MAX: usize = 200;
/// Tools in the lists of tools with a problem.
const PROBLEMS_MAX: usize = 50;
/// Lines of standard error beside the state of a server that is not connected.
const LAST_LINES: usize = 8;
const LINE_MAX_CHARS: usize = 400;
/// Characters of a command line.
const LAUNCH_CHARS: usize = 2_000;
/// Bytes of the log on the page, before it is escaped.
const LOG_MAX_BYTES: usize = 32 * 1024;

#[derive(Template)]
#[template(path = "servers_details.html")]
pub(crate) struct Details {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) name: String,
    pub(crate) title: Option<Visible>,
    pub(crate) state: State,
    pub(crate) state_key: String,
    pub(crate) is_enabled: bool,
    /// True if changes are published. Then the next page asks for a confirmation.
    pub(crate) is_published: bool,
    pub(crate) can_restart: bool,
    pub(crate) needs_sign_in: bool,
    /// The user who signed in to the server, if one did.
    pub(crate) is_signed_in: bool,
    pub(crate) reason: Option<Visible>,
    /// A sentence of ours.
    pub(crate) hint: Option<String>,
    /// The newest lines of standard error, if the server is not connected.
    pub(crate) last_lines: Option<Visible>,
    pub(crate) to_review: usize,
    /// Definitions that a user has rejected.
    pub(crate) rejected: usize,
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) risks: Vec<RiskCount>,
    /// True if all levels are the server's own. Then the table says so once.
    pub(crate) is_rated_by_server: bool,
    pub(crate) tools: Vec<ToolRow>,
    pub(crate) tools_key: String,
    pub(crate) tools_total: usize,
    pub(crate) hidden: Vec<Problem>,
    pub(crate) unchecked: Vec<Problem>,
    pub(crate) log: Visible,
    pub(crate) log_key: String,
    pub(crate) log_lines: usize,
}

pub(crate) struct ToolRow {
    pub(crate) name: Visible,
    pub(crate) href: String,
    pub(crate) risk: Risk,
    pub(crate) operation: &'static str,
    /// The place of the risk level in the operator's files. Empty if it is not theirs.
    pub(crate) source: String,
}

/// A tool with a problem, and the reason.
pub(crate) struct Problem {
    pub(crate) tool: Visible,
    pub(crate) reason: Visible,
}

impl Details {
    pub(crate) fn new(
        frame: Frame,
        status: &ServerStatus,
        launch: Option<&WrittenTransport>,
        tools: &[Covered],
        log: &[Untrusted],
    ) -> Self {
        let mut own: Vec<&Covered> = tools.iter().filter(|tool| *tool.name.server() == status.name).collect();
        own.sort_by_key(|tool| risk_of(tool).rank);
        let mut rows: Vec<ToolRow> = own.iter().take(TOOLS_MAX).map(|tool| ToolRow::new(tool)).collect();
        let keys: Vec<String> = rows.iter().map(|row| format!("{}{}", row.href, row.risk.word)).collect();
        let mut risks = risk_counts(&own);
        let is_rated_by_server = say_source_once(rows.iter_mut().map(|row| &mut row.risk));
        for one in risks.iter_mut().filter(|_| is_rated_by_server) {
            one.risk = one.risk.without_source();
        }
        let (log, log_lines) = tail(log);
        let last: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        let is_down = matches!(status.state, StateName::Waiting | StateName::Connecting);
        let mut details = Self {
            frame,
            error: None,
            notes: Vec::new(),
            name: status.name.to_string(),
            title: status.title.as_deref().map(short),
            state: state(status),
            state_key: String::new(),
            is_enabled: status.state != StateName::Disabled,
            is_published: false,
            needs_sign_in: status.state == StateName::NeedsSignIn,
            is_signed_in: status.is_signed_in,
            can_restart: !matches!(status.state, StateName::Disabled | StateName::Misconfigured),
            reason: status.reason.as_deref().map(short),
            hint: status.hint.as_deref().map(|hint| one_line(hint, REASON_MAX_CHARS)),
            last_lines: (is_down && !last.is_empty()).then(|| Visible::lines(&last)),
            to_review: status.to_review,
            rejected: status.quarantined.saturating_sub(status.to_review),
            facts: facts(status, launch),
            risks,
            is_rated_by_server,
            tools: rows,
            tools_key: digest(&keys.join(" ")),
            tools_total: own.len(),
            hidden: problems(&status.hidden_tools),
            unchecked: problems(&status.unchecked_tools),
            log_key: digest(&log),
            log: Visible::lines(&log),
            log_lines,
        };
        details.state_key = digest(&format!(
            "{} {:?} {} {} {:?} {:?}",
            details.state.class, details.reason, details.to_review, details.rejected, details.last_lines, details.facts
        ));
        details
    }
}

impl ToolRow {
    fn new(tool: &Covered) -> Self {
        Self {
            name: short(tool.name.tool()),
            href: format!("/ui/tools/{}/{}", tool.name.server(), segment(tool.name.tool())),
            risk: risk_of(tool),
            operation: tool.operation.map_or("not declared", |variant| variant.operation()),
            source: match &tool.classified_by {
                by @ Classifier::Operator { .. } => by.words(),
                // The risk itself says so.
                Classifier::Server | Classifier::Nobody => String::new(),
            },
        }
    }
}

fn facts(status: &ServerStatus, launch: Option<&WrittenTransport>) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Transport", transport(status.transport).to_owned())];
    let mut add = |name: &'static str, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    let line = launch.and_then(launch_line);
    add(if status.transport == "stdio" { "Command" } else { "Address" }, line);
    add("MCP revision", status.protocol.clone());
    add("Process", status.pid.map(|pid| pid.to_string()));
    add("Restarts", Some(status.restarts.to_string()));
    add("Prompts", (status.prompts > 0).then(|| status.prompts.to_string()));
    add("Resources", (status.resources > 0).then(|| status.resources.to_string()));
    facts
}

/// The command or the address of a server, as written in the settings.
pub(crate) fn launch_line(launch: &WrittenTransport) -> Option<String> {
    let words = launch.command.iter().chain(&launch.args).chain(&launch.url).map(String::as_str);
    let line = words.collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then(|| plain(&line.chars().take(LAUNCH_CHARS).collect::<String>()))
}

fn problems(all: &[(String, String)]) -> Vec<Problem> {
    let shown = all.iter().take(PROBLEMS_MAX);
    shown.map(|(tool, reason)| Problem { tool: short(tool), reason: short(reason) }).collect()
}

/// The newest lines that fit, oldest first. Long lines are cut.
fn tail(log: &[Untrusted]) -> (String, usize) {
    let mut lines: Vec<String> = Vec::new();
    let mut bytes = 0;
    for line in log.iter().rev() {
        let line = Untrusted::shortened(line.for_json(), LINE_MAX_CHARS).for_json().to_owned();
        bytes += line.len() + 1;
        if bytes > LOG_MAX_BYTES {
            break;
        }
        lines.push(line.replace(['\n', '\r'], " "));
    }
    lines.reverse();
    (lines.join("\n"), lines.len())
}

fn digest(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()
}
