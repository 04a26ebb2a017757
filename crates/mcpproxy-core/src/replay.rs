//! What-if replay: decides recorded calls again with other contracts, policies or settings, and reports the differences.
//!
//! ```text
//!                       ┌▶ decide with the rules before ─┐
//! recorded call ─▶ read ┤                                ├▶ same: counted    different: grouped by tool and agent
//!                       └▶ decide with the rules after ──┘
//! ```
//!
//! Both sides call [`decide`], the function that live calls use. So a replay cannot differ from what the gateway would
//! do. Each side has its own rate limits and dry runs, which the recorded calls fill in the order of their times. The
//! clock of a decision is the time of the record.
//!
//! The first side is either the active rules or the record itself ([`Baseline`]). Comparing two decisions is the
//! better default: what else changed since the call, such as the scope of a token, is the same on both sides.
//!
//! The report names what the log does not tell, and guesses nothing:
//!
//! - **Masked arguments.** The schemas cannot judge `***`, so a problem at a masked place refuses nothing
//!   ([`Declared::masked`](crate::Declared)). The report names these places.
//! - **Truncated or erased arguments** count as masked from the root.
//! - **Calls of tools that no server lists now** are counted and named, and not decided.
//! - **Repeats** of a call with the same idempotency key were answered or refused because of the first call, so they
//!   are left out.
//! - **Calls and dry runs before the period** do not count in rate limits, nor as dry runs.
//!
//! Memory does not grow with the number of calls: groups, names, examples and dry runs have bounds. Totals and the
//! affected tools count every call, also those of groups that are not listed.

mod call;
mod groups;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::catalog::{Catalog, Tool};
use crate::contract::DryRun;
use crate::decision::{Decision, DecisionInputs, Moment, PriorState, Ruling, decide};
use crate::intent::{Declared, Mode};
use crate::limits::Limits;
use crate::settings::Settings;
use crate::time::Clock;
use crate::{Agent, DRY_RUN_FRESH_MS, Denial, Digest, ToolName};

pub use call::{LoggedArguments, LoggedCall};
pub use groups::{Change, Group};

use call::Read;
use groups::Groups;

/// Names of tools that no server lists now, at most.
const UNKNOWN_MAX: usize = 20;
/// Masked places that are named for one tool, and policies that are named for one group, at most.
const NAMED_MAX: usize = 8;
/// Dry runs to remember on each side. A dry run counts for ten minutes, so older ones make room.
const DRY_RUNS_MAX: usize = 10_000;

/// The settings, and the catalog made with contracts and policies.
#[derive(Clone, Debug)]
pub struct Rules {
    pub settings: Arc<Settings>,
    pub catalog: Catalog,
}

/// The outcome that the decision with the new rules is compared with.
pub enum Baseline {
    /// The decision with these rules.
    Rules(Box<Rules>),
    /// The outcome in the record.
    Record,
}

/// A replay in progress. Pass the calls in the order of their times.
pub struct Replay {
    before: Option<Side>,
    after: Side,
    report: Report,
    groups: Groups,
}

/// The differences that the new rules would have made.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Recorded calls that were decided again.
    pub calls: u64,
    /// Decisions that were made for that: two for each call, or one if the record is the baseline.
    pub decisions: u64,
    /// Calls with masked arguments. They are among `calls`.
    pub masked: u64,
    /// Some of the masked places of each tool, as JSON pointers into the arguments. There are as many tools as in the
    /// catalogs, at most.
    pub masked_at: BTreeMap<ToolName, BTreeSet<String>>,
    /// Calls whose arguments were truncated or erased. They are among `calls`.
    pub without_arguments: u64,
    /// Repeats that were answered or refused because of an earlier call with the same idempotency key. Not decided.
    pub repeats: u64,
    /// Records that do not tell a whole call, such as a refusal without a tool. Not decided.
    pub unreadable: u64,
    /// Calls of tools that no server lists now. Not decided.
    pub unknown: u64,
    /// Some of these tools.
    pub unknown_tools: BTreeSet<String>,
    /// Newly refused first. Within a kind, the largest first.
    pub groups: Vec<Group>,
    /// Calls with a difference that belong to no listed group, because there are too many groups.
    pub not_listed: u64,
    /// All calls with a difference.
    pub totals: BTreeMap<Change, u64>,
    /// All tools with a difference. There are as many as in the catalogs, at most.
    pub affected: BTreeSet<ToolName>,
    /// True if the log has more calls in the period than a replay may read.
    pub is_cut: bool,
}

impl Report {
    /// Counts the calls with this change.
    pub fn count(&self, change: Change) -> u64 {
        self.totals.get(&change).copied().unwrap_or(0)
    }
}

impl Replay {
    pub fn new(baseline: Baseline, after: Rules) -> Self {
        let before = match baseline {
            Baseline::Rules(rules) => Some(Side::new(*rules)),
            Baseline::Record => None,
        };
        Self { before, after: Side::new(after), report: Report::default(), groups: Groups::default() }
    }

    /// Decides one call with both rules.
    pub fn take(&mut self, call: &LoggedCall<'_>) {
        let read = match Read::of(call) {
            Ok(Some(read)) => read,
            Ok(None) => return self.report.repeats += 1,
            Err(call::Unreadable) => return self.report.unreadable += 1,
        };
        if !self.is_known(&read.name) {
            self.report.unknown += 1;
            if self.report.unknown_tools.len() < UNKNOWN_MAX {
                self.report.unknown_tools.insert(read.name.to_string());
            }
            return;
        }
        let before = match &mut self.before {
            Some(side) => side.decide(call, &read).ruling,
            None => read.recorded(call),
        };
        let after = self.after.decide(call, &read);
        self.report.calls += 1;
        self.report.decisions += if self.before.is_some() { 2 } else { 1 };
        self.report.without_arguments += u64::from(read.lacks_arguments());
        if !read.lacks_arguments() && !after.masked.is_empty() {
            self.report.masked += 1;
            let places = self.report.masked_at.entry(read.name.clone()).or_default();
            add_some(places, &after.masked);
        }
        // The log does not tell whether an approval had a second factor.
        let is_same =
            before == after.ruling || self.before.is_none() && before == Ruling::Ask && after.ruling == Ruling::StepUp;
        if !is_same {
            self.groups.add(call, &read.name, before, after);
        }
    }

    pub fn finish(self) -> Report {
        self.groups.finish(self.report)
    }

    /// Marks the report as incomplete, because the log has more calls.
    pub fn cut(&mut self) {
        self.report.is_cut = true;
    }

    fn is_known(&self, name: &ToolName) -> bool {
        let knows = |side: &Side| side.rules.catalog.resolve(name).is_some() || side.rules.catalog.is_forbidden(name);
        knows(&self.after) || self.before.as_ref().is_some_and(knows)
    }
}

/// One set of rules, and the state that calls leave behind under them.
struct Side {
    rules: Rules,
    limits: Limits,
    /// Times of dry runs, by their binding.
    dry_runs: HashMap<Digest, i64>,
}

/// The outcome of a call under one set of rules.
struct Decided {
    ruling: Ruling,
    /// The sentence that the agent gets, if the call is refused.
    message: Option<String>,
    /// The policies that refuse the call.
    policies: Vec<String>,
    masked: Vec<String>,
}

impl Decided {
    /// An outcome that no policy and no argument decides.
    fn early(ruling: Ruling, message: Option<String>) -> Self {
        Self { ruling, message, policies: Vec::new(), masked: Vec::new() }
    }
}

impl Side {
    fn new(rules: Rules) -> Self {
        Self { rules, limits: Limits::default(), dry_runs: HashMap::new() }
    }

    fn decide(&mut self, call: &LoggedCall<'_>, read: &Read<'_>) -> Decided {
        if let Some(message) = self.closed(call, read) {
            return Decided::early(Ruling::NotFound, Some(message.to_owned()));
        }
        if let Some(ruling) = read.malformed(call) {
            return Decided::early(ruling, None);
        }
        let declared = match read.declare(call, &self.rules) {
            Ok(declared) => declared,
            Err(denial) => return Decided::early(Ruling::of_denial(&denial), Some(denial.message())),
        };
        let masked = declared.masked.clone();
        let tool = self.rules.catalog.resolve(&declared.name).map(Arc::clone);
        let binding = tool.as_ref().and_then(|tool| dry_run_binding(&declared, call.agent, tool));
        let is_dry_run = tool.as_ref().is_some_and(|tool| declared.mode_of(tool) == Mode::DryRun);
        let dry_run_ms = binding.as_ref().and_then(|binding| self.dry_runs.get(binding)).copied();
        // A dry run that was fresh when the user was asked stays fresh until the user has decided.
        let dry_run_ms = dry_run_ms.map(|at_ms| if read.is_approved() { call.clock.now_ms } else { at_ms });
        let moment = Moment {
            clock: call.clock,
            limits: &self.limits,
            prior: PriorState { dry_run_ms, is_repeat: false },
            session_began_ms: None,
        };
        let settings = &self.rules.settings;
        let inputs =
            DecisionInputs { intent: &settings.intent, contracts: &settings.contracts, catalog: &self.rules.catalog };
        let decision = decide(inputs, call.agent, declared, tool.as_ref(), moment);
        let (message, policies) = match &decision {
            Decision::Deny(denial) => (Some(denial.message()), violated(denial)),
            Decision::Allow(_) | Decision::Ask(_) | Decision::Preview(_) | Decision::Repeat(_) => (None, Vec::new()),
        };
        // As in a live gateway, a failed dry run does not count, nor one of a user, nor the preview for an agent that lacks
        // a permission.
        let counts = match &decision {
            Decision::Preview(preview) => preview.missing_permissions().is_empty(),
            Decision::Allow(_) | Decision::Ask(_) | Decision::Repeat(_) | Decision::Deny(_) => true,
        };
        let ruling = Ruling::of(&decision);
        let counts = counts && !call.has_failed && !read.is_by_user();
        if let (Some(binding), true, Ruling::Allow) = (binding, is_dry_run && counts, &ruling) {
            self.keep_dry_run(binding, call.clock);
        }
        if let (Some(tool), Ruling::Ask | Ruling::StepUp, false) = (&tool, &ruling, call.is_refusal) {
            self.count_approved(tool, call.clock);
        }
        Decided { ruling, message, policies, masked }
    }

    /// Returns the reason if the settings do not let the agent connect at all.
    fn closed(&self, call: &LoggedCall<'_>, read: &Read<'_>) -> Option<&'static str> {
        let settings = &self.rules.settings;
        if read.is_direct() && !settings.direct_mode {
            return Some("`direct_mode: false` closes the address of this call.");
        }
        let is_unknown = call.is_anonymous && !settings.allow_anonymous_loopback;
        is_unknown.then_some("`allow_anonymous_loopback: false` refuses agents without a token.")
    }

    /// Counts a call that a user approved. The decision counts only calls that it allows by itself.
    fn count_approved(&self, tool: &Tool, clock: Clock) {
        if let Some(limit) = &tool.contract.rate_limit {
            // The decision found a free place.
            let _is_free = self.limits.take(&tool.name, limit.value, clock.now_ms);
        }
    }

    fn keep_dry_run(&mut self, binding: Digest, clock: Clock) {
        if self.dry_runs.len() >= DRY_RUNS_MAX {
            let oldest = clock.now_ms.saturating_sub(DRY_RUN_FRESH_MS);
            self.dry_runs.retain(|_, at_ms| *at_ms >= oldest);
        }
        if self.dry_runs.len() < DRY_RUNS_MAX {
            self.dry_runs.insert(binding, clock.now_ms);
        }
    }
}

/// Returns the ids of the policies that a refusal names.
fn violated(denial: &Denial) -> Vec<String> {
    let Denial::PolicyViolation { violations, .. } = denial else { return Vec::new() };
    violations.iter().map(|violation| violation.policy.clone()).collect()
}

/// Returns the binding of a dry run and its call, where the contract requires one. Hashing is not free.
fn dry_run_binding(declared: &Declared, agent: &Agent, tool: &Tool) -> Option<Digest> {
    match tool.contract.dry_run.value {
        DryRun::Required { .. } => Some(declared.dry_run_binding(agent, tool).digest()),
        DryRun::None | DryRun::Supported { .. } => None,
    }
}

/// Adds names, up to the limit.
fn add_some(names: &mut BTreeSet<String>, more: &[String]) {
    for name in more {
        if names.len() >= NAMED_MAX {
            return;
        }
        names.insert(name.clone());
    }
}

#[cfg(test)]
mod tests;
