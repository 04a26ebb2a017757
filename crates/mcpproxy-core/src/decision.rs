//! The decision: allows a call, denies it, or asks a user.
//!
//! `decide` runs the checks in order, and the first failure is the answer. Only this module can make a [`Permit`], and
//! nothing reaches a server without one.

mod approval_request;
mod call;
mod checks;
mod claim;
mod dry_run;
mod explain;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::catalog::{Catalog, Tool};
use crate::denial::Denial;
use crate::intent::{Arguments, Declared, Intent, Mode};
use crate::limits::Limits;
use crate::policy::Clock;
use crate::settings::{ContractSettings, IntentSettings};
use crate::{Agent, ApprovalRef, Attached};

pub use approval_request::{ApprovalRequest, NotCovered, StandingApproval};
pub use call::Warning;
pub use claim::{Claim, Repeat};
pub use dry_run::{DRY_RUN_FRESH_MS, Preview};
pub use explain::{Explanation, Finding, Verdict, explain};
pub use table::{Row, Section, rows, sections, table};

use approval_request::Asked;
use call::Call;

pub enum Decision {
    Allow(Permit),
    /// A user must approve the call.
    Ask(ApprovalRequest),
    /// A dry run that the gateway answers itself.
    Preview(Preview),
    /// A repeat of an earlier call. The gateway returns the first answer again and sends nothing.
    Repeat(Repeat),
    Deny(Denial),
}

/// The settings and the catalog that a decision uses, all from one snapshot.
#[derive(Clone, Copy, Debug)]
pub struct DecisionInputs<'a> {
    pub intent: &'a IntentSettings,
    pub contracts: &'a ContractSettings,
    pub catalog: &'a Catalog,
}

/// The inputs that differ between calls: the time, the recent calls per tool, and the prior state of this call.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    pub clock: Clock,
    pub limits: &'a Limits,
    pub seen: PriorState,
}

/// Facts about earlier calls, read from the store before the decision. Only read for tools and calls that need them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorState {
    /// Time of the last dry run of exactly this call.
    pub dry_run_ms: Option<i64>,
    /// True if the same idempotency key was used before with the same arguments.
    pub is_repeat: bool,
}

/// The right to make one call: this tool, with these bytes, once.
///
/// It cannot be cloned or built elsewhere, and it owns the bytes it permits. So the gateway sends exactly what was
/// decided on.
#[derive(Debug)]
pub struct Permit {
    call: Call,
    word: Option<ApprovalRef>,
    is_dry_run: bool,
}

impl Permit {
    /// Makes a permit. This is the only place: `decide` or a user has allowed the call, and the rate limit has counted
    /// it.
    fn new(call: Call, word: Option<ApprovalRef>, mode: Mode) -> Self {
        Permit { call, word, is_dry_run: mode == Mode::DryRun }
    }

    pub fn tool(&self) -> &Arc<Tool> {
        &self.call.tool
    }

    pub fn intent(&self) -> &Intent {
        &self.call.intent
    }

    pub fn arguments(&self) -> &Arguments {
        &self.call.arguments
    }

    /// Returns the members that are sent beside the arguments. No others are sent.
    pub fn attached(&self) -> &Attached {
        &self.call.attached
    }

    pub fn warnings(&self) -> &[Warning] {
        &self.call.warnings
    }

    /// Returns true if the server's annotations or the operator confirm the operation that the agent declared.
    pub fn is_verified(&self) -> bool {
        self.call.is_verified
    }

    /// Returns the claim on the idempotency key. The step that opens the call's record also takes it.
    pub fn claim(&self) -> Option<&Claim> {
        self.call.claim.as_ref()
    }

    /// Returns the approval that permits the call. The step that opens the call's record also spends it.
    pub fn word(&self) -> Option<&ApprovalRef> {
        self.word.as_ref()
    }

    /// Returns true if the server is only asked for a dry run.
    pub fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }
}

/// Decides on a call. `intent::declare` has already checked its shape and its two keys.
pub fn decide(
    ground: DecisionInputs<'_>,
    agent: &Agent,
    declared: Declared,
    tool: Option<&Arc<Tool>>,
    moment: Moment<'_>,
) -> Decision {
    let Passed { tool, warnings, is_verified, claim, course } = match check_all(ground, agent, &declared, tool, moment)
    {
        Ok(passed) => passed,
        Err(denial) => return Decision::Deny(denial),
    };
    let Declared { intent, arguments, attached, .. } = declared;
    let mut call = Call { tool, intent, arguments, attached, warnings, is_verified, claim };
    match course {
        Course::Go => allow(call, Mode::Real, moment),
        Course::DryRun(arguments) => {
            call.arguments = arguments;
            allow(call, Mode::DryRun, moment)
        }
        Course::Ask(asked) => Decision::Ask(ApprovalRequest { call, asked }),
        Course::Preview { asked, missing_permissions } => {
            call.warnings.extend(dry_run::not_sent(&call.tool).filter(|_| missing_permissions.is_empty()));
            Decision::Preview(Preview { call, asked, missing_permissions })
        }
        Course::Repeat(claim) => Decision::Repeat(Repeat { tool: call.tool, intent: call.intent, claim }),
    }
}

fn allow(call: Call, mode: Mode, moment: Moment<'_>) -> Decision {
    match checks::take_a_turn(&call.tool, moment) {
        Ok(()) => Decision::Allow(Permit::new(call, None, mode)),
        Err(denial) => Decision::Deny(denial),
    }
}

/// A call that passed all checks, with their results.
struct Passed {
    tool: Arc<Tool>,
    warnings: Vec<Warning>,
    is_verified: bool,
    claim: Option<Claim>,
    course: Course,
}

/// The next step for a call that passed all checks.
enum Course {
    Go,
    /// The server's own dry run, with these arguments.
    DryRun(Arguments),
    Ask(Asked),
    Preview {
        asked: Option<Asked>,
        missing_permissions: Vec<String>,
    },
    Repeat(Claim),
}

/// Runs the checks in order, from the tool's existence on. Counts nothing, so `explain` can call it too.
fn check_all(
    ground: DecisionInputs<'_>,
    agent: &Agent,
    declared: &Declared,
    tool: Option<&Arc<Tool>>,
    moment: Moment<'_>,
) -> Result<Passed, Denial> {
    let tool = tool
        .filter(|tool| agent.scope.sees(tool.name.server()))
        .ok_or_else(|| checks::no_such_tool(declared.name.clone(), agent, ground.catalog))?;
    let variant = declared.intent.variant;
    let warnings = checks::against_hints(ground.intent, tool, variant)?;
    checks::against_contract(ground.contracts, tool, variant)?;
    checks::within_scope(agent, tool, variant)?;
    let is_verified = checks::bears_out(tool, variant);
    let missing = checks::missing_permissions(agent, tool);
    let passed = |claim, course| Passed { tool: Arc::clone(tool), warnings, is_verified, claim, course };
    match declared.mode_of(tool) {
        Mode::Real if !missing.is_empty() => Err(checks::lacks(agent, tool, missing)),
        Mode::Real => {
            checks::within_policies(agent, tool, &declared.intent, moment.clock)?;
            let arguments = checks::arguments_fit(tool, &declared.arguments)?;
            let claim = declared.claim(tool)?;
            // A repeat gets its first answer again. It needs no second approval and sends nothing, so no rate limit
            // applies.
            let claim = match claim {
                Some(claim) if moment.seen.is_repeat => return Ok(passed(None, Course::Repeat(claim))),
                claim => claim,
            };
            checks::within_rate(tool, moment)?;
            dry_run::check_done(ground.intent, declared, tool, moment)?;
            let asked = checks::asks_a_user(ground.contracts, tool, variant, &arguments);
            Ok(passed(claim, asked.map_or(Course::Go, Course::Ask)))
        }
        Mode::DryRun => {
            checks::within_policies(agent, tool, &declared.intent, moment.clock)?;
            let sent = dry_run::sent(ground.contracts, declared, tool).filter(|_| missing.is_empty());
            let arguments = checks::arguments_fit(tool, sent.as_ref().unwrap_or(&declared.arguments))?;
            checks::within_rate(tool, moment)?;
            let asked = checks::asks_a_user(ground.contracts, tool, variant, &arguments);
            let preview = Course::Preview { asked, missing_permissions: missing };
            Ok(passed(None, sent.map_or(preview, Course::DryRun)))
        }
    }
}
