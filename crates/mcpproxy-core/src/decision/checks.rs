//! The checks of the decision: one list, in order.
//!
//! [`CHECKS`] has one row per check: its name, the function that runs it, and the sentence for `mcpproxy policy explain`
//! when a call passes. [`run`] is the only code that walks the list. `decide` and `explain` both call it, so the order is
//! written down once.
//!
//! A check reads the [`Candidate`]: the call, the agent, the tool, the settings and the moment. It returns `Ok(())` to let
//! the next check run, or a [`Stop`] to end the walk. What later steps need, such as warnings, it stores in
//! `candidate.found`.
//!
//! The order matters for two reasons. An agent learns about a tool only what it may know: the tool must exist for this
//! agent before any check reads its contract. And cheap checks run before expensive ones: policies and schemas come after
//! the comparisons of two enums, and the rate limit comes after everything that would refuse the call anyway.
//!
//! A check has no side effects. `take_rate_slot` counts a call in the rate limit and is therefore no row: it runs when a
//! permit is made.
//!
//! To add a check, add a function and a row here, and a `Denial` variant for its refusal. `CONTRIBUTING.md` has the steps.
//!
//! ```text
//! CheckRow { name: "rate limit", run: rate_limit, passed: rate_limit_passed },
//! ```

mod annotations;
mod arguments;
mod lookup;
mod rate_limit;
mod user;

use std::sync::Arc;

use super::approval_request::ApprovalNeed;
use super::{Claim, DecisionInputs, Moment, Warning, dry_run};
use crate::catalog::Tool;
use crate::contract::DryRun;
use crate::denial::Denial;
use crate::intent::{Arguments, Declared, Mode};
use crate::json::ExactValue;
use crate::settings::{ContractSettings, Unclassified};
use crate::{Agent, RiskLevel, Variant};

pub use annotations::may_be_read_on_trust;
pub(super) use rate_limit::take_rate_slot;
pub(super) use user::asks_by_setting;
pub use user::{may_run_unasked, needs_under};

/// One check of the decision.
pub(super) struct CheckRow {
    /// The name in `mcpproxy policy explain`.
    pub(super) name: &'static str,
    run: fn(&mut Candidate<'_>) -> Result<(), Stop>,
    /// Says why a call passed.
    pub(super) passed: fn(CallSummary<'_>) -> String,
}

/// All checks, in the order in which they run.
pub(super) const CHECKS: [CheckRow; 10] = [
    CheckRow { name: SHAPE, run: by_declare, passed: |_| "well-formed".to_owned() },
    CheckRow { name: TWO_KEYS, run: by_declare, passed: two_keys_passed },
    CheckRow { name: "the tool exists", run: tool_exists, passed: tool_exists_passed },
    CheckRow { name: "server annotations", run: server_annotations, passed: server_annotations_passed },
    CheckRow { name: "the contract's operation", run: contract_operation, passed: contract_operation_passed },
    CheckRow { name: "permissions and policies", run: permissions, passed: permissions_passed },
    CheckRow { name: "arguments", run: arguments_fit, passed: |_| "as the schema asks".to_owned() },
    CheckRow { name: "rate limit", run: rate_limit, passed: rate_limit_passed },
    CheckRow { name: "dry run", run: dry_run_made, passed: dry_run_passed },
    CheckRow { name: "confirmation", run: confirmation, passed: confirmation_passed },
];

const SHAPE: &str = "shape and intent fields";
const TWO_KEYS: &str = "two keys";

/// Reason to end the walk.
pub(super) enum Stop {
    Deny(Denial),
    /// A user must approve the call.
    Ask(ApprovalNeed),
    /// The call was made before under the same idempotency key.
    Repeat(Claim),
}

impl From<Denial> for Stop {
    fn from(denial: Denial) -> Self {
        Self::Deny(denial)
    }
}

/// Runs the checks in order. Returns the index of the check that ended the walk and its reason, or `None` if all passed.
pub(super) fn run(candidate: &mut Candidate<'_>) -> Option<(usize, Stop)> {
    for (index, row) in CHECKS.iter().enumerate() {
        let result = (row.run)(candidate);
        let found = &mut candidate.found;
        found.warned_by.resize(found.warnings.len(), index);
        if let Err(stop) = result {
            return Some((index, stop));
        }
    }
    None
}

/// Returns the index of the check that a refusal by `intent::declare` belongs to.
pub(super) fn failed_in_declare(denial: &Denial) -> usize {
    let is_two_keys =
        matches!(denial, Denial::MissingIntent(_) | Denial::MissingOperationType | Denial::IntentMismatch { .. });
    let name = if is_two_keys { TWO_KEYS } else { SHAPE };
    CHECKS.iter().position(|row| row.name == name).unwrap_or_default()
}

/// A call on its way through the checks.
pub(super) struct Candidate<'a> {
    inputs: DecisionInputs<'a>,
    agent: &'a Agent,
    declared: &'a Declared,
    /// `None` if there is no such tool for this agent.
    tool: Option<&'a Arc<Tool>>,
    moment: Moment<'a>,
    pub(super) mode: Mode,
    pub(super) found: Found,
}

/// Results of the checks that later steps need.
#[derive(Default)]
pub(super) struct Found {
    pub(super) warnings: Vec<Warning>,
    /// For each warning, the index of the check it came from.
    warned_by: Vec<usize>,
    pub(super) is_verified: bool,
    /// Permissions that the token lacks. Only a dry run gets past the check with some missing.
    pub(super) missing_permissions: Vec<String>,
    /// The arguments for the server's own dry run, if it has one that may be used.
    pub(super) native_dry_run: Option<Arguments>,
    pub(super) claim: Option<Claim>,
    /// For a dry run: the approval that the real call would need.
    pub(super) need: Option<ApprovalNeed>,
    arguments: ExactValue,
}

impl Found {
    pub(super) fn warnings_of(&self, check: usize) -> Vec<Warning> {
        let of_check = self.warnings.iter().zip(&self.warned_by).filter(|(_, index)| **index == check);
        of_check.map(|(warning, _)| warning.clone()).collect()
    }
}

/// The parts of a call that the sentences of `policy explain` are about.
#[derive(Clone, Copy)]
pub(super) struct CallSummary<'a> {
    pub(super) tool: Option<&'a Tool>,
    pub(super) variant: Variant,
    pub(super) mode: Mode,
    pub(super) agent: &'a Agent,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
        inputs: DecisionInputs<'a>,
        agent: &'a Agent,
        declared: &'a Declared,
        tool: Option<&'a Arc<Tool>>,
        moment: Moment<'a>,
    ) -> Self {
        // An agent must not be able to tell a server outside its scope from one that does not exist.
        let tool = tool.filter(|tool| agent.scope.sees(tool.name.server()));
        let mode = tool.map_or(declared.mode, |tool| declared.mode_of(tool));
        Self { inputs, agent, declared, tool, moment, mode, found: Found::default() }
    }

    pub(super) fn summary(&self) -> CallSummary<'a> {
        let tool = self.tool.map(AsRef::as_ref);
        CallSummary { tool, variant: self.variant(), mode: self.mode, agent: self.agent }
    }

    /// Returns the tool, or the refusal for a tool that does not exist. Checks after "the tool exists" cannot fail here.
    pub(super) fn tool(&self) -> Result<&'a Arc<Tool>, Denial> {
        let missing = || {
            let began_ms = self.moment.session_began_ms;
            lookup::missing(self.declared.name.clone(), self.agent, self.inputs.catalog, began_ms)
        };
        self.tool.ok_or_else(missing)
    }

    /// Returns the refusal that operators see for a quarantined tool, whatever the agent may know of it.
    pub(super) fn quarantined(&self) -> Option<Denial> {
        let name = &self.declared.name;
        let is_visible = self.tool.is_none() && self.agent.scope.sees(name.server());
        is_visible.then(|| self.inputs.catalog.quarantined(name))??;
        Some(Denial::Quarantined { name: name.clone() })
    }

    fn variant(&self) -> Variant {
        self.declared.intent.variant
    }
}

/// Passes: `intent::declare` made this check before there was a call to decide on.
fn by_declare(_: &mut Candidate<'_>) -> Result<(), Stop> {
    Ok(())
}

fn two_keys_passed(call: CallSummary<'_>) -> String {
    format!("nothing contradicts {}", call.variant.tool())
}

fn tool_exists(candidate: &mut Candidate<'_>) -> Result<(), Stop> {
    candidate.tool()?;
    Ok(())
}

fn tool_exists_passed(call: CallSummary<'_>) -> String {
    about_tool(call, |tool| format!("{} needs {}", tool.name, tool.call_with().tool()))
}

/// Compares the variant with the server's annotations.
fn server_annotations(candidate: &mut Candidate<'_>) -> Result<(), Stop> {
    let (tool, variant) = (candidate.tool()?, candidate.variant());
    candidate.found.warnings = annotations::against_hints(candidate.inputs.intent, tool, variant)?;
    candidate.found.is_verified = annotations::confirm(tool, variant);
    Ok(())
}

fn server_annotations_passed(call: CallSummary<'_>) -> String {
    let hint = |name: &str, value: Option<bool>| match value {
        None => format!("{name} not given"),
        Some(value) => format!("{name} {value}"),
    };
    about_tool(call, |tool| {
        let hints = tool.hints;
        format!("{}, {}", hint("readOnlyHint", hints.read_only), hint("destructiveHint", hints.destructive))
    })
}

/// Compares the variant with the operation in the contract. No setting turns this refusal into a warning.
fn contract_operation(candidate: &mut Candidate<'_>) -> Result<(), Stop> {
    let (tool, used) = (candidate.tool()?, candidate.variant());
    let contract = &tool.contract;
    if needs_contract(*candidate.inputs.contracts, tool) {
        return Err(Denial::Unclassified { tool: tool.name.clone() }.into());
    }
    match contract.written_operation {
        Some(right) if used < right => Err(Denial::ContractMismatch { tool: tool.name.clone(), used, right }.into()),
        Some(_) | None => Ok(()),
    }
}

/// Returns true if no call of this tool is allowed until the operator gives it a risk level.
pub fn needs_contract(settings: ContractSettings, tool: &Tool) -> bool {
    !tool.contract.is_classified() && settings.unclassified == Unclassified::Deny
}

fn contract_operation_passed(call: CallSummary<'_>) -> String {
    about_tool(call, |tool| {
        let risk = tool.contract.risk().map_or("unclassified", RiskLevel::as_str);
        match (tool.contract.is_written, tool.contract.written_operation) {
            (false, _) => "the tool has no contract".to_owned(),
            (true, None) => format!("risk level {risk}, no operation"),
            (true, Some(operation)) => format!("risk level {risk}, operation {operation}"),
        }
    })
}

/// Compares the call with the agent's token and evaluates the operator's policies.
fn permissions(candidate: &mut Candidate<'_>) -> Result<(), Stop> {
    let (tool, agent, variant) = (candidate.tool()?, candidate.agent, candidate.variant());
    if !agent.scope.may(variant) {
        return Err(Denial::NotGranted { agent: agent.name.clone(), variant }.into());
    }
    // Otherwise an agent that may only read could run any unannotated tool by calling it a read.
    let only_reads = !agent.scope.may(Variant::Write) && !agent.scope.may(Variant::Destructive);
    if only_reads && tool.call_with() != Variant::Read {
        return Err(Denial::NotKnownToRead { agent: agent.name.clone(), tool: tool.name.clone() }.into());
    }
    let missing = missing_permissions(agent, tool);
    if candidate.mode == Mode::Real && !missing.is_empty() {
        return Err(Denial::MissingPermissions { agent: agent.name.clone(), tool: tool.name.clone(), missing }.into());
    }
    candidate.found.missing_permissions = missing;
    let violations = tool.policies().map_or_else(Vec::new, |policies| {
        policies.violations(agent, tool.subject(), &candidate.declared.intent, candidate.moment.clock)
    });
    if violations.is_empty() {
        return Ok(());
    }
    Err(Denial::PolicyViolation { tool: tool.name.clone(), violations }.into())
}

fn missing_permissions(agent: &Agent, tool: &Tool) -> Vec<String> {
    let needed = &tool.contract.permissions.value;
    needed.iter().filter(|permission| !agent.scope.grants(permission)).cloned().collect()
}

fn permissions_passed(call: CallSummary<'_>) -> String {
    let CallSummary { agent, variant, .. } = call;
    about_tool(call, |tool| {
        let missing = missing_permissions(agent, tool);
        if !missing.is_empty() {
            // Only a dry run gets this far without them.
            return format!("the token lacks {}, so a real call would be refused", missing.join(", "));
        }
        let permissions = match tool.contract.permissions.value.as_slice() {
            [] => String::new(),
            some => format!(" and has {}", some.join(", ")),
        };
        let policies = match tool.policies().map_or(0, |policies| policies.considered().len()) {
            0 => String::new(),
            1 => "; the one policy about it does not forbid it".to_owned(),
            count => format!("; none of the {count} policies about it forbids it"),
        };
        format!("the token allows {variant} operations on this tool{permissions}{policies}")
    })
}

/// Validates the arguments against the schemas, and recognizes a call that was made before.
fn arguments_fit(candidate: &mut Candidate<'_>) -> Result<(), Stop> {
    let (tool, declared) = (candidate.tool()?, candidate.declared);
    match candidate.mode {
        Mode::Real => {
            candidate.found.arguments = arguments::validate(tool, &declared.arguments, &declared.masked)?;
            match declared.claim(tool)? {
                // The first result is returned again. No user is asked twice, and the rate limit does not apply.
                Some(claim) if candidate.moment.prior.is_repeat => return Err(Stop::Repeat(claim)),
                claim => candidate.found.claim = claim,
            }
        }
        Mode::DryRun => {
            let native = dry_run::native_arguments(candidate.inputs.contracts, declared, tool);
            candidate.found.native_dry_run = native.filter(|_| candidate.found.missing_permissions.is_empty());
            let sent = candidate.found.native_dry_run.as_ref().unwrap_or(&declared.arguments);
            candidate.found.arguments = arguments::validate(tool, sent, &declared.masked)?;
        }
    }
    Ok(())
}

/// Checks that the rate limit has room for the call, without counting it.
fn rate_limit(candidate: &mut Candidate<'_>) -> Result<(), Stop> {
    Ok(rate_limit::has_room(candidate.tool()?, candidate.moment)?)
}

fn rate_limit_passed(call: CallSummary<'_>) -> String {
    match call.tool.and_then(|tool| tool.contract.rate_limit.as_ref()) {
        Some(limit) => format!("fewer than {} calls in {} s", limit.value.calls, limit.value.per.as_secs()),
        None => "none".to_owned(),
    }
}

/// Checks that a required dry run was made.
fn dry_run_made(candidate: &mut Candidate<'_>) -> Result<(), Stop> {
    let tool = candidate.tool()?;
    match candidate.mode {
        Mode::DryRun => Ok(()),
        Mode::Real => Ok(dry_run::check_made(candidate.inputs.intent, candidate.declared, tool, candidate.moment)?),
    }
}

fn dry_run_passed(call: CallSummary<'_>) -> String {
    match (call.mode, call.tool.map(|tool| &tool.contract.dry_run.value)) {
        (Mode::DryRun, _) => "this is one".to_owned(),
        (Mode::Real, Some(DryRun::Required { .. })) => "made in the last 10 minutes".to_owned(),
        (Mode::Real, None | Some(DryRun::None | DryRun::Supported { .. })) => "not required".to_owned(),
    }
}

/// Checks if a user must approve the call.
fn confirmation(candidate: &mut Candidate<'_>) -> Result<(), Stop> {
    let (tool, variant) = (candidate.tool()?, candidate.variant());
    let need = user::approval_need(candidate.inputs.contracts, tool, variant, &candidate.found.arguments);
    match (candidate.mode, need) {
        (Mode::Real, Some(need)) => Err(Stop::Ask(need)),
        (Mode::Real, None) => Ok(()),
        (Mode::DryRun, need) => {
            candidate.found.need = need;
            Ok(())
        }
    }
}

fn confirmation_passed(call: CallSummary<'_>) -> String {
    match call.mode {
        Mode::DryRun => "not needed for a dry run".to_owned(),
        Mode::Real => "not required".to_owned(),
    }
}

/// Words a sentence about the tool. Only checks after "the tool exists" can have one to word.
fn about_tool(call: CallSummary<'_>, words: impl FnOnce(&Tool) -> String) -> String {
    call.tool.map_or_else(String::new, words)
}
