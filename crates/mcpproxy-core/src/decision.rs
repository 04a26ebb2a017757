//! The decision: may this agent make this call, and what must be said about it?
//!
//! One function, first failure answers. Only this module can make a `Permit`, and without one nothing reaches a server.

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
    /// A user decides.
    Ask(ApprovalRequest),
    /// A dry run that the gateway answers itself.
    Preview(Preview),
    /// A call that was made before: its first answer is given again, and nothing is sent.
    Repeat(Repeat),
    Deny(Denial),
}

/// What a decision rests on: all of it from one snapshot.
#[derive(Clone, Copy, Debug)]
pub struct DecisionInputs<'a> {
    pub intent: &'a IntentSettings,
    pub contracts: &'a ContractSettings,
    pub catalog: &'a Catalog,
}

/// What is different at every call: the time, how often tools were called lately, and what is known of this very call.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    pub clock: Clock,
    pub limits: &'a Limits,
    pub seen: PriorState,
}

/// What was looked up beforehand, only for tools and calls that want it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorState {
    /// When exactly this call was last tried as a dry run.
    pub dry_run_ms: Option<i64>,
    /// Whether its idempotency key was taken before, with the same arguments.
    pub is_repeat: bool,
}

/// The right to make one call: this tool, with these bytes, once.
///
/// It cannot be cloned or built elsewhere, and it owns the bytes it permits, so what was decided on is what is sent.
#[derive(Debug)]
pub struct Permit {
    call: Call,
    word: Option<ApprovalRef>,
    is_dry_run: bool,
}

impl Permit {
    /// The only place where a permit is made: `decide` or a user has said yes, and the call has its turn.
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

    /// What goes to the server besides, and nothing else does.
    pub fn attached(&self) -> &Attached {
        &self.call.attached
    }

    pub fn warnings(&self) -> &[Warning] {
        &self.call.warnings
    }

    /// Whether the server's own annotations, or the operator, bear the agent's word out.
    pub fn is_verified(&self) -> bool {
        self.call.is_verified
    }

    /// What keeps the call from being made twice, to be taken with the opening of its record.
    pub fn claim(&self) -> Option<&Claim> {
        self.call.claim.as_ref()
    }

    /// The user's word it rests on, to be spent with the opening of its record.
    pub fn word(&self) -> Option<&ApprovalRef> {
        self.word.as_ref()
    }

    /// Whether the server is only asked what it would do.
    pub fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }
}

/// Decides on a call whose own shape and keys were found sound by `intent::declare`.
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

/// What a call that no check refused comes with.
struct Passed {
    tool: Arc<Tool>,
    warnings: Vec<Warning>,
    is_verified: bool,
    claim: Option<Claim>,
    course: Course,
}

/// What becomes of a call that no check refused.
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

/// The checks from the tool's existence on, in their order. Nothing is counted here, so it may also be asked for fun.
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
            // What was answered once is answered again: nobody is asked twice, and nothing is sent that could be limited.
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
