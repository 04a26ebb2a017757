//! A call that waits for a user, and the approvals that let it go.
//!
//! `decide` makes an [`ApprovalRequest`] when a contract or a setting requires a user. The request owns the call, so the
//! bytes that the user approves are the bytes that are sent. It becomes a [`Permit`] in one of two ways:
//!
//! - [`ApprovalRequest::approved_by`] takes an [`Approval`]: a user approved exactly this call.
//! - [`ApprovalRequest::covered_by`] takes a [`StandingApproval`]: a user allowed a bounded set of calls in advance.
//!
//! An approval is bound to the call by a digest ([`Binding`]) of the agent, the tool as its server describes it, the
//! contract, the variant, the arguments and everything else that is sent. If any of them changed since the user looked, the
//! digests differ and the approval is stale. Comparing a digest instead of the fields means that a new field cannot be
//! forgotten in the comparison.
//!
//! A call that waited is decided again before it is approved: the gateway calls `decide` with the current snapshot, gets a
//! new request and hands in the stored approval. An approval therefore never outlives a policy, a permission or a contract
//! that changed in the meantime.
//!
//! Approvals have a strength, [`Assurance`]. A form in the agent's own client is the weakest, because some clients submit it
//! on their own. Critical calls need a session at the gateway, and step-up needs a fresh second factor for this approval.
//! Standing approvals never cover critical calls or calls that need step-up.
//!
//! Neither function consumes the approval. The gateway does that in the transaction that opens the call's record, so one
//! approval cannot be used by two calls.

use std::ops::Deref;
use std::sync::Arc;

use super::call::Call;
use super::{Moment, Permit, Repeat, checks, dry_run};
use crate::catalog::Tool;
use crate::contract::{Confirmation, Need, Source, StepUp};
use crate::denial::{Denial, DeniedBy, Ticket};
use crate::intent::{Intent, Mode};
use crate::json::ExactValue;
use crate::schema::Schema;
use crate::{Agent, Approval, ApprovalRef, ApprovalState, Assurance, Binding, Digest, RiskLevel, ToolName, Untrusted};

/// A call that waits for a user. It owns the bytes that are sent after the approval.
#[derive(Debug)]
pub struct ApprovalRequest {
    pub(super) call: Call,
    pub(super) need: ApprovalNeed,
}

impl Deref for ApprovalRequest {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

/// The kind of approval that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ApprovalNeed {
    pub(super) needs_step_up: bool,
    /// True if the arguments match the condition of `confirmation`.
    pub(super) by_condition: bool,
    /// True if the setting `contracts.unclassified` requires the approval.
    pub(super) by_setting: bool,
}

impl ApprovalNeed {
    pub(super) fn needs(self) -> Vec<Need> {
        if self.needs_step_up { vec![Need::Confirmation, Need::StepUp] } else { vec![Need::Confirmation] }
    }

    /// Words the refusal of a call that has no approval yet.
    pub(super) fn denial(self, tool: &Tool, approval: Option<Ticket>) -> Denial {
        Denial::ConfirmationRequired {
            tool: tool.name.clone(),
            risk: tool.contract.risk(),
            needs_step_up: self.needs_step_up,
            approval: approval.map(Box::new),
        }
    }
}

/// A user's approval of a bounded set of calls: one agent, one tool, matching arguments, a number of uses, a time limit.
#[derive(Clone, Debug, PartialEq)]
pub struct StandingApproval {
    pub id: String,
    pub agent: String,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    /// A JSON Schema that the arguments must match.
    pub schema: Arc<Schema>,
    pub expires_ms: i64,
    pub uses_left: u32,
}

/// A reason why a standing approval does not cover a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCovered {
    /// Critical calls are approved one by one.
    Critical,
    /// A fresh second factor is for one call.
    StepUp,
    OtherAgent,
    OtherTool,
    /// The server describes the tool differently than at the time of the approval.
    ToolChanged,
    ContractChanged,
    Expired,
    UsedUp,
    /// The arguments do not match the schema, or checking them takes too long.
    Arguments,
    /// The call sends more than arguments, such as `inputResponses`, and no user has seen that.
    Attached,
    /// The standing approval covers the call, but the rate limit does not allow it now.
    RateLimit(Denial),
}

impl ApprovalRequest {
    /// Returns the call as a repeat of an earlier one, if it has an idempotency key.
    pub fn as_repeat(&self) -> Option<Repeat> {
        let claim = self.call.claim.clone()?;
        let Call { tool, intent, arguments, attached, .. } = &self.call;
        let (arguments, attached) = (arguments.clone(), attached.clone());
        Some(Repeat { tool: Arc::clone(tool), intent: intent.clone(), arguments, attached, claim })
    }

    pub fn needs_step_up(&self) -> bool {
        self.need.needs_step_up
    }

    /// Returns the weakest kind of approval that is accepted.
    pub fn required_assurance(&self) -> Assurance {
        if self.need.needs_step_up {
            return Assurance::Factor;
        }
        self.call.tool.contract.strictest_by_risk(|risk| match risk {
            None | Some(RiskLevel::Low | RiskLevel::Medium | RiskLevel::High) => Assurance::Form,
            // The agent's own client draws the form, and some clients submit it on their own.
            Some(RiskLevel::Critical | RiskLevel::Forbidden) => Assurance::Session,
        })
    }

    /// Returns everything that an approval of this call is bound to.
    pub fn binding(&self, agent: &Agent) -> Binding {
        let Call { tool, intent, arguments, attached, .. } = &self.call;
        bind(agent, tool, intent, arguments.digest(), attached.digest())
    }

    /// Returns the binding under which a dry run of this call is stored.
    pub fn dry_run_binding(&self, agent: &Agent) -> Binding {
        let Call { tool, intent, arguments, attached, .. } = &self.call;
        dry_run::dry_run_binding(agent, tool, intent, arguments, attached)
    }

    /// Returns the permit if the approval is for exactly this call, valid and strong enough. The caller consumes the approval
    /// in the transaction that opens the call's record.
    pub fn approved_by(self, agent: &Agent, approval: &Approval, moment: Moment<'_>) -> Result<Permit, Denial> {
        if approval.binding != self.binding(agent).digest() {
            return Err(Denial::ApprovalStale);
        }
        match approval.state {
            ApprovalState::Approved => {}
            ApprovalState::Pending => return Err(self.unrequested()),
            ApprovalState::Consumed => return Err(Denial::ApprovalAlreadyUsed { record: None, outcome: None }),
            ApprovalState::Denied => return Err(Denial::ApprovalDenied { by: DeniedBy::Unknown, comment: None }),
            ApprovalState::Expired => return Err(Denial::ApprovalExpired),
            ApprovalState::Cancelled => return Err(Denial::ApprovalStale),
        }
        if approval.expires_ms <= moment.clock.now_ms {
            return Err(Denial::ApprovalExpired);
        }
        if approval.given.is_none_or(|given| given < self.required_assurance()) {
            return Err(self.unrequested());
        }
        checks::take_rate_slot(&self.call.tool, moment)?;
        Ok(Permit::new(self.call, Some(ApprovalRef::Approval(approval.id.clone())), Mode::Real))
    }

    /// Returns the permit if the standing approval covers this call. Otherwise returns the request and the reason.
    pub fn covered_by(
        mut self,
        agent: &Agent,
        standing: &StandingApproval,
        moment: Moment<'_>,
    ) -> Result<Permit, Box<(Self, NotCovered)>> {
        if let Some(reason) = self.not_covered_by(agent, standing, moment) {
            return Err(Box::new((self, reason)));
        }
        if let Err(denial) = checks::take_rate_slot(&self.call.tool, moment) {
            return Err(Box::new((self, NotCovered::RateLimit(denial))));
        }
        // No user has seen what the agent put into `_meta`.
        self.call.attached = self.call.attached.without_meta();
        Ok(Permit::new(self.call, Some(ApprovalRef::StandingApproval(standing.id.clone())), Mode::Real))
    }

    fn not_covered_by(&self, agent: &Agent, standing: &StandingApproval, moment: Moment<'_>) -> Option<NotCovered> {
        let tool = &self.call.tool;
        let fits = || {
            let arguments = ExactValue::read(self.call.arguments.as_str());
            arguments.is_some_and(|arguments| standing.schema.admits(&arguments))
        };
        let is_critical = tool.contract.strictest_by_risk(|risk| match risk {
            Some(RiskLevel::Critical | RiskLevel::Forbidden) => true,
            None | Some(RiskLevel::Low | RiskLevel::Medium | RiskLevel::High) => false,
        });
        if is_critical {
            return Some(NotCovered::Critical);
        }
        // Cheap comparisons come first. Digests and the schema are computed only for a standing approval of this tool.
        if self.need.needs_step_up {
            Some(NotCovered::StepUp)
        } else if standing.agent != agent.name {
            Some(NotCovered::OtherAgent)
        } else if standing.tool != tool.name {
            Some(NotCovered::OtherTool)
        } else if standing.expires_ms <= moment.clock.now_ms {
            Some(NotCovered::Expired)
        } else if standing.uses_left == 0 {
            Some(NotCovered::UsedUp)
        } else if standing.pin != tool.pin() {
            Some(NotCovered::ToolChanged)
        } else if standing.contract != tool.contract_digest() {
            Some(NotCovered::ContractChanged)
        } else if self.call.attached.is_bound() {
            Some(NotCovered::Attached)
        } else if !fits() {
            Some(NotCovered::Arguments)
        } else {
            None
        }
    }

    /// Words the refusal of a call for which no approval was requested yet.
    pub fn unrequested(&self) -> Denial {
        self.need.denial(&self.call.tool, None)
    }

    /// Words the refusal of a call whose approval is pending.
    pub fn pending(&self, ticket: Ticket) -> Denial {
        self.need.denial(&self.call.tool, Some(ticket))
    }

    /// Lists the contract fields and settings that require the approval, for the approver.
    pub fn required_by(&self) -> Vec<String> {
        let contract = &self.call.tool.contract;
        let mut all = Vec::new();
        if let Some(risk) = &contract.risk
            && crate::contract::asks(risk.value)
        {
            all.push(format!("contract risk level {} ({})", risk.value.as_str(), origin(&risk.source)));
        }
        let is_written = |source: &Source| !matches!(source, Source::Level | Source::Default);
        if contract.confirmation.value == Confirmation::Required && is_written(&contract.confirmation.source) {
            all.push(format!("confirmation: required ({})", origin(&contract.confirmation.source)));
        }
        if self.need.by_condition {
            all.push(format!("confirmation, for these arguments ({})", origin(&contract.confirmation.source)));
        }
        if !contract.autonomous.value && is_written(&contract.autonomous.source) {
            all.push(format!("autonomousExecution: false ({})", origin(&contract.autonomous.source)));
        }
        if self.need.needs_step_up {
            let origin = origin(&contract.step_up.source);
            all.push(match &contract.step_up.value {
                StepUp::Never | StepUp::Always => format!("stepUpAuth ({origin})"),
                StepUp::When(_) => format!("stepUpAuth, for these arguments ({origin})"),
            });
        }
        if self.need.by_setting {
            all.push("setting contracts.unclassified: confirm_destructive".to_owned());
        }
        all
    }
}

/// Returns the file and line of a contract field, or its author.
fn origin(source: &Source) -> String {
    match source {
        Source::Operator { file, line, is_draft } => {
            let draft = if *is_draft { ", draft, not reviewed" } else { "" };
            format!("{}:{line}{draft}", Untrusted::new(file.as_ref()).for_terminal())
        }
        Source::Server | Source::Hints | Source::Level | Source::Default => source.to_string(),
    }
}

pub(super) fn bind(agent: &Agent, tool: &Tool, intent: &Intent, arguments: Digest, attached: Digest) -> Binding {
    Binding {
        agent: agent.name.clone(),
        tool: tool.name.clone(),
        pin: tool.pin(),
        contract: tool.contract_digest(),
        variant: intent.variant,
        arguments,
        attached,
    }
}
