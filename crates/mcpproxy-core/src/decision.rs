//! The decision: may this agent make this call, and on which conditions?
//!
//! [`decide`] takes a call that [`crate::declare`] found well-formed and answers with a [`Decision`]. It runs the list of
//! checks in `decision/checks.rs`, in order, and the first check that refuses gives the answer. [`explain`] runs the same
//! list for `mcpproxy policy explain` and reports each check, so an explanation cannot differ from the decision.
//!
//! ```text
//! declare ─▶ checks, in order ─┬▶ Deny     a check refused the call
//!                              ├▶ Ask      a user must approve it first
//!                              ├▶ Preview  a dry run that the gateway answers itself
//!                              ├▶ Repeat   the idempotency key was used before: the first result is returned again
//!                              └▶ Allow    with a `Permit`, after the call took its place in the rate limit
//! ```
//!
//! Invariants:
//!
//! - Only this file makes a [`Permit`], and nothing reaches a server without one. `cargo test -p xtask` checks that.
//! - A permit owns the bytes that are sent and cannot be cloned. The bytes that were checked are therefore the bytes that
//!   are sent, once.
//! - Running the checks changes nothing. A rate limit is counted only when a permit is made, so `explain` is free. In a
//!   running gateway, the store counts it later, with the record of the call (`limits.rs`).
//! - Time, counters and stored state come in as [`Moment`]. The decision reads no clock and waits for nothing.
//!
//! The obvious alternative is a `bool`: ask "is it allowed?", then send. A caller can forget to ask. With a permit, sending
//! without a decision does not compile.
//!
//! [`TABLE`] has the outcome of every combination of variant, intent, annotations, contract and settings. A test asks
//! this code about each combination, so a changed decision shows up as a diff of `decisions.txt`.

mod approval_request;
mod call;
mod checks;
mod claim;
mod dry_run;
mod explain;
mod ruling;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use crate::catalog::{Catalog, Tool};
use crate::denial::Denial;
use crate::intent::{Declared, Mode};
use crate::limits::Limits;
use crate::policy::Clock;
use crate::settings::{ContractSettings, IntentSettings};
use crate::{Agent, ApprovalRef};

pub use approval_request::{ApprovalRequest, NotCovered, StandingApproval};
pub use call::{Call, Warning};
pub use checks::{may_be_read_on_trust, may_run_unasked, needs_contract, needs_under};
pub use claim::{Answered, Claim, Repeat, Replay, ValidUntil};
pub use dry_run::{DRY_RUN_FRESH_MS, Preview};
pub use explain::{Explanation, Finding, Verdict, explain};
pub use ruling::Ruling;

use checks::{Candidate, Found, Stop};

/// The outcome of every combination, as text. Combinations with the same outcome share a row.
///
/// `tests/decisions/` generates the file and compares it with [`decide`].
pub const TABLE: &str = include_str!("../decisions.txt");

/// The answer to a call.
pub enum Decision {
    /// The call may be sent.
    Allow(Permit),
    /// A user must approve the call first.
    Ask(ApprovalRequest),
    /// A dry run that the gateway answers itself, because the server has none.
    Preview(Preview),
    /// A call with an idempotency key that was used before. The first result is returned again, and nothing is sent.
    Repeat(Repeat),
    /// The call is refused.
    Deny(Denial),
}

/// Settings and catalog of one snapshot, which a decision rests on.
#[derive(Clone, Copy, Debug)]
pub struct DecisionInputs<'a> {
    pub intent: &'a IntentSettings,
    pub contracts: &'a ContractSettings,
    pub catalog: &'a Catalog,
}

/// State that differs from call to call: the time, recent calls of each tool, and earlier calls like this one.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    pub clock: Clock,
    pub limits: &'a Limits,
    pub prior: PriorState,
    /// The time when the agent's session began. `None` for a call without a session.
    pub session_began_ms: Option<i64>,
}

/// Stored state about earlier calls like this one. The gateway looks it up only where a contract or the call needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorState {
    /// Time of the last dry run of exactly this call.
    pub dry_run_ms: Option<i64>,
    /// True if the idempotency key was used before with the same arguments.
    pub is_repeat: bool,
}

/// The right to make one call: this tool, with these bytes, once.
///
/// A permit cannot be cloned or built elsewhere, and it owns the bytes it permits. It gives read access to its [`Call`].
#[derive(Debug)]
pub struct Permit {
    call: Call,
    approval: Option<ApprovalRef>,
    is_dry_run: bool,
}

impl Permit {
    /// The only place where a permit is made. `decide` or a user allowed the call. Its rate limit is counted, or will be
    /// with the record of the call.
    fn new(call: Call, approval: Option<ApprovalRef>, mode: Mode) -> Self {
        Permit { call, approval, is_dry_run: mode == Mode::DryRun }
    }

    /// The approval the permit rests on. It is consumed in the transaction that opens the call's record.
    pub fn approval(&self) -> Option<&ApprovalRef> {
        self.approval.as_ref()
    }

    /// True if the call is the server's own dry run.
    pub fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }
}

impl Deref for Permit {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

/// Decides on a call that `intent::declare` found well-formed.
pub fn decide(
    inputs: DecisionInputs<'_>,
    agent: &Agent,
    declared: Declared,
    tool: Option<&Arc<Tool>>,
    moment: Moment<'_>,
) -> Decision {
    let mut candidate = Candidate::new(inputs, agent, &declared, tool, moment);
    let stop = match checks::run(&mut candidate) {
        Some((_, Stop::Deny(denial))) => return Decision::Deny(denial),
        other => other.map(|(_, stop)| stop),
    };
    let tool = match candidate.tool() {
        Ok(tool) => Arc::clone(tool),
        Err(denial) => return Decision::Deny(denial),
    };
    let mode = candidate.mode;
    let Found { warnings, is_verified, claim, missing_permissions, native_dry_run, need, .. } = candidate.found;
    let Declared { intent, arguments, attached, .. } = declared;
    let mut call = Call { tool, intent, arguments, attached, warnings, is_verified, claim };
    match (stop, mode, native_dry_run) {
        (Some(Stop::Deny(denial)), _, _) => Decision::Deny(denial),
        (Some(Stop::Ask(need)), _, _) => Decision::Ask(ApprovalRequest { call, need }),
        (Some(Stop::Repeat(claim)), _, _) => {
            let Call { tool, intent, arguments, attached, .. } = call;
            Decision::Repeat(Repeat { tool, intent, arguments, attached, claim })
        }
        (None, Mode::Real, _) => allow(call, Mode::Real, moment),
        (None, Mode::DryRun, Some(arguments)) => {
            call.arguments = arguments;
            allow(call, Mode::DryRun, moment)
        }
        (None, Mode::DryRun, None) => {
            call.warnings.extend(dry_run::not_sent(&call.tool).filter(|_| missing_permissions.is_empty()));
            Decision::Preview(Preview { call, need, missing_permissions })
        }
    }
}

/// Counts the call in the tool's rate limit and makes the permit.
fn allow(call: Call, mode: Mode, moment: Moment<'_>) -> Decision {
    match checks::take_rate_slot(&call.tool, moment) {
        Ok(()) => Decision::Allow(Permit::new(call, None, mode)),
        Err(denial) => Decision::Deny(denial),
    }
}
