//! Calls with a difference, grouped by change, tool, agent and both outcomes.

use std::collections::{BTreeMap, BTreeSet};

use super::{Decided, LoggedCall, Report, add_some};
use crate::ToolName;
use crate::decision::Ruling;

/// Groups in a report, at most. Calls of further groups are in the totals only.
const GROUPS_MAX: usize = 1_000;
/// Example records of a group, at most.
const EXAMPLES_MAX: usize = 3;

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// Allowed or asked before, refused now.
    NewlyRefused,
    /// A user is asked now: the call was allowed or refused before, or needed no second factor.
    NewlyAsking,
    /// Asked or refused before, allowed now.
    NewlyAllowed,
    /// Refused for another reason, or asked without the second factor.
    Otherwise,
}

impl Change {
    pub const ALL: [Self; 4] = [Self::NewlyRefused, Self::NewlyAsking, Self::NewlyAllowed, Self::Otherwise];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::NewlyRefused => "newly_refused",
            Self::NewlyAsking => "newly_asking",
            Self::NewlyAllowed => "newly_allowed",
            Self::Otherwise => "otherwise",
        }
    }

    fn of(before: &Ruling, after: &Ruling) -> Self {
        match (before, after) {
            (_, Ruling::Allow) => Self::NewlyAllowed,
            (Ruling::StepUp, Ruling::Ask) => Self::Otherwise,
            (_, Ruling::Ask | Ruling::StepUp) => Self::NewlyAsking,
            (before, Ruling::DryRunRequired | Ruling::NotFound | Ruling::Deny(_)) if before.is_refusal() => {
                Self::Otherwise
            }
            (_, Ruling::DryRunRequired | Ruling::NotFound | Ruling::Deny(_)) => Self::NewlyRefused,
        }
    }
}

/// Calls of one tool by one agent that would end differently in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub change: Change,
    pub tool: ToolName,
    pub agent: String,
    pub before: Ruling,
    pub after: Ruling,
    /// The refusal of the first of these calls.
    pub message: Option<String>,
    /// Some of the policies that refuse these calls.
    pub policies: BTreeSet<String>,
    pub calls: u64,
    /// Calls among them with masked or lost arguments: a condition on these values may decide differently.
    pub masked: u64,
    /// Some of the masked places, as JSON pointers into the arguments. `""` stands for all arguments.
    pub masked_at: BTreeSet<String>,
    pub first_ms: i64,
    pub last_ms: i64,
    /// The ids of the first records.
    pub examples: Vec<String>,
}

/// Groups while calls come in.
#[derive(Default)]
pub(super) struct Groups {
    groups: BTreeMap<(ToolName, String, Ruling, Ruling), Group>,
    not_listed: u64,
    totals: BTreeMap<Change, u64>,
    affected: BTreeSet<ToolName>,
}

impl Groups {
    pub(super) fn add(&mut self, call: &LoggedCall<'_>, tool: &ToolName, before: Ruling, after: Decided) {
        let Decided { ruling, message, policies, masked } = after;
        let change = Change::of(&before, &ruling);
        *self.totals.entry(change).or_default() += 1;
        if !self.affected.contains(tool) {
            self.affected.insert(tool.clone());
        }
        let key = (tool.clone(), call.agent.name.clone(), before.clone(), ruling.clone());
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key) {
            self.not_listed += 1;
            return;
        }
        let now_ms = call.clock.now_ms;
        let group = self.groups.entry(key).or_insert_with(|| Group {
            change,
            tool: tool.clone(),
            agent: call.agent.name.clone(),
            before,
            after: ruling,
            message,
            policies: BTreeSet::new(),
            calls: 0,
            masked: 0,
            masked_at: BTreeSet::new(),
            first_ms: now_ms,
            last_ms: now_ms,
            examples: Vec::new(),
        });
        group.calls += 1;
        group.last_ms = group.last_ms.max(now_ms);
        group.masked += u64::from(!masked.is_empty());
        add_some(&mut group.policies, &policies);
        add_some(&mut group.masked_at, &masked);
        if group.examples.len() < EXAMPLES_MAX {
            group.examples.push(call.id.to_owned());
        }
    }

    /// Adds the groups and the totals to a report.
    pub(super) fn finish(self, report: Report) -> Report {
        let Self { groups, not_listed, totals, affected } = self;
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_by_key(|group| (group.change, std::cmp::Reverse(group.calls)));
        Report { groups, not_listed, totals, affected, ..report }
    }
}
