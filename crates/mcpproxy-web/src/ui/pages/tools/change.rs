//! The preview of a changed contract: the difference in the file, what it weakens, and the replay of last week.

use askama::Template;
use mcpproxy_core::contract::Effective;
use mcpproxy_core::decision::Ruling;
use mcpproxy_core::replay::{Change, Group, Report};
use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_core::settings::ContractSettings;
use mcpproxy_core::{ServerName, Tool};

use super::rule::{kept_by_server, sentences};
use super::text_diff::{DiffLine, text_diff};
use super::typed::Typed;
use crate::auth::factor::Factors;
use crate::editor::{ContractDraft, Destination};
use crate::ui::pages::activity::advice;
use crate::ui::pages::{Frame, filters};
use crate::visible::Visible;

const WEAKER_MAX: usize = 20;
const GROUPS_MAX: usize = 20;
const EXAMPLES_MAX: usize = 3;
const MESSAGE_MAX_CHARS: usize = 300;
const PASTE_MAX_CHARS: usize = 100_000;

#[derive(Template)]
#[template(path = "tool_change.html")]
pub(crate) struct Preview {
    pub(crate) frame: Frame,
    pub(crate) name: String,
    /// The contract after the change, in sentences.
    pub(crate) rule: Vec<Visible>,
    /// Requirements that stay because only the server's contract has them.
    pub(crate) kept: Option<String>,
    pub(crate) path: String,
    pub(crate) file: Visible,
    pub(crate) is_new_file: bool,
    pub(crate) is_read_only: bool,
    /// The number that the version gets, if the change is published for all gateways.
    pub(crate) next_version: Option<i64>,
    pub(crate) digest: String,
    pub(crate) diff: Vec<DiffLine>,
    /// The whole file after the change, for a user who pastes it.
    pub(crate) after: Visible,
    pub(crate) weaker: Vec<Visible>,
    pub(crate) needs_step_up: bool,
    pub(crate) replay: Replayed,
    pub(crate) inputs: Vec<(&'static str, String)>,
    pub(crate) factors: Factors,
    pub(crate) error: Option<String>,
}

impl Preview {
    pub(crate) fn new(
        frame: Frame,
        (tool, settings): (&Tool, ContractSettings),
        draft: &ContractDraft,
        weaker: &Weaker,
        replay: Replayed,
        typed: &Typed,
    ) -> Self {
        let mut lines: Vec<Visible> = weaker.lines().iter().map(|line| Visible::of(line)).collect();
        let more = lines.len().saturating_sub(WEAKER_MAX);
        lines.truncate(WEAKER_MAX);
        lines.extend((more > 0).then(|| Visible::of(&format!("{more} more"))));
        // The effective contract that the tool would have.
        let written = draft.contracts.matching(&tool.name);
        let contract = Effective::of(&written, tool.offered.contract.as_ref(), tool.offered.hints);
        let (is_read_only, next_version) = match &draft.destination {
            Destination::File => (false, None),
            Destination::ByHand => (true, None),
            Destination::Version(next) => (false, Some(next.after.saturating_add(1))),
        };
        let after: String = draft.after.chars().take(PASTE_MAX_CHARS).collect();
        Self {
            frame,
            name: tool.name.to_string(),
            rule: sentences(&contract, settings).iter().map(|sentence| Visible::of(sentence)).collect(),
            kept: kept_by_server(&contract).filter(|_| !weaker.lines().is_empty()),
            path: format!("/ui/tools/{}/{}", tool.name.server(), tool.name.tool()),
            file: Visible::of(&draft.file),
            is_new_file: draft.before.is_empty(),
            is_read_only,
            next_version,
            digest: draft.digest.clone(),
            diff: text_diff(&draft.before, &draft.after),
            after: Visible::lines(&after),
            weaker: lines,
            needs_step_up: weaker.needs_step_up,
            replay,
            inputs: typed.inputs().to_vec(),
            factors: Factors::default(),
            error: None,
        }
    }
}

/// The recorded calls of last week, decided with the changed contract.
#[derive(Default)]
pub(crate) struct Replayed {
    pub(crate) calls: u64,
    pub(crate) changed: u64,
    pub(crate) groups: Vec<GroupRow>,
    pub(crate) notes: Vec<String>,
    /// The reason why there is no replay.
    pub(crate) error: Option<String>,
}

pub(crate) struct GroupRow {
    pub(crate) class: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) change: &'static str,
    pub(crate) tool: String,
    pub(crate) agent: Visible,
    pub(crate) calls: u64,
    pub(crate) before: Visible,
    pub(crate) after: Visible,
    pub(crate) message: Visible,
    pub(crate) examples: Vec<String>,
}

impl Replayed {
    pub(crate) fn failed(error: &str) -> Self {
        Self { error: Some(error.to_owned()), ..Self::default() }
    }

    pub(crate) fn new(report: &Report, unlisted: &[ServerName]) -> Self {
        let changed = Change::ALL.into_iter().map(|change| report.count(change)).sum();
        let some = |count: u64, one: &str, many: &str| {
            (count > 0).then(|| if count == 1 { format!("1 {one}") } else { format!("{count} {many}") })
        };
        let listed = u64::try_from(report.groups.len().saturating_sub(GROUPS_MAX)).unwrap_or(u64::MAX);
        let unlisted = u64::try_from(unlisted.len()).unwrap_or(u64::MAX);
        let notes = [
            report
                .is_cut
                .then(|| "The week has more calls than this page replays. The oldest ones were replayed.".to_owned()),
            some(
                report.masked,
                "call has masked arguments. Its other arguments were checked.",
                "calls have masked arguments. Their other arguments were checked.",
            ),
            some(
                report.without_arguments,
                "call has lost its arguments. They were not checked.",
                "calls have lost their arguments. They were not checked.",
            ),
            some(
                report.unknown,
                "call is of a tool that no server lists now.",
                "calls are of tools that no server lists now.",
            ),
            some(
                unlisted,
                "server was never connected, so its tools are not known.",
                "servers were never connected, so their tools are not known.",
            ),
            some(listed, "more group is not shown.", "more groups are not shown."),
        ];
        Self {
            calls: report.calls,
            changed,
            groups: report.groups.iter().take(GROUPS_MAX).map(GroupRow::new).collect(),
            notes: notes.into_iter().flatten().collect(),
            error: None,
        }
    }
}

impl GroupRow {
    fn new(group: &Group) -> Self {
        let (class, icon, change) = match group.change {
            Change::NewlyRefused => ("refused", "ban", "Would be refused"),
            Change::NewlyAsking => ("waiting", "clock", "Would wait for a user"),
            Change::NewlyAllowed => ("ok", "check", "Would run"),
            Change::Otherwise => ("other", "repeat", "Would end differently"),
        };
        let message = group.message.as_deref().unwrap_or_default();
        let message = match &group.after {
            Ruling::Deny(code) => advice::in_a_line(code, message),
            // The new decision says all of it.
            Ruling::NotFound | Ruling::DryRunRequired => "".into(),
            Ruling::Allow | Ruling::Ask | Ruling::StepUp => message.into(),
        };
        let message: String = message.chars().take(MESSAGE_MAX_CHARS).collect();
        Self {
            class,
            icon,
            change,
            tool: group.tool.to_string(),
            agent: Visible::of(&group.agent),
            calls: group.calls,
            before: Visible::of(&ruling(&group.before)),
            after: Visible::of(&ruling(&group.after)),
            message: Visible::of(&message),
            examples: group.examples.iter().take(EXAMPLES_MAX).cloned().collect(),
        }
    }
}

fn ruling(ruling: &Ruling) -> String {
    match ruling {
        Ruling::Allow => "runs".to_owned(),
        Ruling::Ask => "waits for an approval".to_owned(),
        Ruling::StepUp => "waits for an approval with a second factor".to_owned(),
        Ruling::DryRunRequired => "needs a dry run first".to_owned(),
        Ruling::NotFound => "refused: no such tool".to_owned(),
        Ruling::Deny(code) => format!("refused: {code}"),
    }
}
