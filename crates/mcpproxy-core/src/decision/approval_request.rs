//! A call that waits for a user's approval, and the strength of approval that it needs.

use std::sync::Arc;

use serde_json::Value;

use super::call::{Call, Warning};
use super::{Claim, Moment, Permit, Repeat, checks, dry_run};
use crate::catalog::Tool;
use crate::contract::{Confirmation, Need, Source, StepUp};
use crate::denial::{Denial, Ticket};
use crate::intent::{Arguments, Intent, Mode};
use crate::schema::Schema;
use crate::{
    Agent, Approval, ApprovalRef, ApprovalState, Assurance, Attached, Binding, Digest, RiskLevel, ToolName, Untrusted,
};

/// A call that waits for a user's approval. It owns the bytes that are sent after the approval.
#[derive(Debug)]
pub struct ApprovalRequest {
    pub(super) call: Call,
    pub(super) asked: Asked,
}

/// The reasons for an approval request, and whether it needs a second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) needs_step_up: bool,
    /// True if the settings require approval, with or without a contract.
    pub(super) by_setting: bool,
}

impl Asked {
    pub(super) fn needs(self) -> Vec<Need> {
        if self.needs_step_up { vec![Need::Confirmation, Need::StepUp] } else { vec![Need::Confirmation] }
    }
}

/// A standing approval: this agent may call this tool with matching arguments, until it expires or is used up.
#[derive(Clone, Debug, PartialEq)]
pub struct StandingApproval {
    pub id: String,
    pub agent: String,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    /// The schema that the arguments must match.
    pub schema: Arc<Schema>,
    pub expires_ms: i64,
    pub uses_left: u32,
}

/// The reason why a standing approval does not cover a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCovered {
    /// Critical calls are approved one by one.
    Critical,
    /// A fresh second factor approves a single call.
    StepUp,
    OtherAgent,
    OtherTool,
    /// The tool has changed since the standing approval was given.
    ToolChanged,
    ContractChanged,
    Expired,
    UsedUp,
    /// The arguments do not fit, or the check ran out of steps.
    Arguments,
    /// The call has members beside its arguments, which no standing approval covers.
    Attached,
    /// The standing approval covers the call, but the rate limit does not allow it now.
    RateLimit(Denial),
}

impl ApprovalRequest {
    pub fn tool(&self) -> &Arc<Tool> {
        &self.call.tool
    }

    pub fn intent(&self) -> &Intent {
        &self.call.intent
    }

    /// Returns this call as a possible repeat, if it has an idempotency key.
    pub fn as_repeat(&self) -> Option<Repeat> {
        let claim = self.call.claim.clone()?;
        Some(Repeat { tool: Arc::clone(&self.call.tool), intent: self.call.intent.clone(), claim })
    }

    pub fn arguments(&self) -> &Arguments {
        &self.call.arguments
    }

    /// Returns the members that are sent beside the arguments.
    pub fn attached(&self) -> &Attached {
        &self.call.attached
    }

    pub fn warnings(&self) -> &[Warning] {
        &self.call.warnings
    }

    pub fn is_verified(&self) -> bool {
        self.call.is_verified
    }

    pub fn needs_step_up(&self) -> bool {
        self.asked.needs_step_up
    }

    pub fn claim(&self) -> Option<&Claim> {
        self.call.claim.as_ref()
    }

    fn risk(&self) -> Option<RiskLevel> {
        self.call.tool.contract.risk()
    }

    /// Returns the weakest approval that is sufficient.
    pub fn least(&self) -> Assurance {
        if self.asked.needs_step_up {
            return Assurance::Factor;
        }
        self.call.tool.contract.strictest_by_risk(|risk| match risk {
            None | Some(RiskLevel::Low | RiskLevel::Medium | RiskLevel::High) => Assurance::Form,
            // A form is drawn by the agent's own client, and some clients accept automatically.
            Some(RiskLevel::Critical | RiskLevel::Forbidden) => Assurance::Session,
        })
    }

    /// Returns the binding of an approval for this call.
    pub fn binding(&self, agent: &Agent) -> Binding {
        let Call { tool, intent, arguments, attached, .. } = &self.call;
        bind(agent, tool, intent, arguments.digest(), attached.digest())
    }

    /// Returns the binding under which a dry run of this call is stored.
    pub fn dry_run_binding(&self, agent: &Agent) -> Binding {
        let Call { tool, intent, arguments, attached, .. } = &self.call;
        dry_run::dry_run_binding(agent, tool, intent, arguments, attached)
    }

    /// Turns an approval into a permit, if it was given for exactly this call, has not expired and is strong enough.
    /// The step that opens the call's record spends the approval.
    pub fn answered_by(self, agent: &Agent, approval: &Approval, moment: Moment<'_>) -> Result<Permit, Denial> {
        if approval.binding != self.binding(agent).digest() {
            return Err(Denial::ApprovalStale);
        }
        match approval.state {
            ApprovalState::Approved => {}
            ApprovalState::Pending => return Err(self.unanswered()),
            ApprovalState::Consumed => return Err(Denial::ApprovalAlreadyUsed { record: None, outcome: None }),
            ApprovalState::Denied => return Err(Denial::ApprovalDenied { comment: None }),
            ApprovalState::Expired => return Err(Denial::ApprovalExpired),
            ApprovalState::Cancelled => return Err(Denial::ApprovalStale),
        }
        if approval.expires_ms <= moment.clock.now_ms {
            return Err(Denial::ApprovalExpired);
        }
        if approval.given.is_none_or(|given| given < self.least()) {
            return Err(self.unanswered());
        }
        checks::take_a_turn(&self.call.tool, moment)?;
        Ok(Permit::new(self.call, Some(ApprovalRef::Approval(approval.id.clone())), Mode::Real))
    }

    /// Turns a standing approval into a permit, or returns the approval request with the reason why it is not covered.
    pub fn granted_by(
        mut self,
        agent: &Agent,
        grant: &StandingApproval,
        moment: Moment<'_>,
    ) -> Result<Permit, Box<(Self, NotCovered)>> {
        if let Some(refused) = self.refused_by(agent, grant, moment) {
            return Err(Box::new((self, refused)));
        }
        if let Err(denial) = checks::take_a_turn(&self.call.tool, moment) {
            return Err(Box::new((self, NotCovered::RateLimit(denial))));
        }
        // No user has reviewed the agent's `_meta`, so it is not sent.
        self.call.attached = self.call.attached.without_meta();
        Ok(Permit::new(self.call, Some(ApprovalRef::StandingApproval(grant.id.clone())), Mode::Real))
    }

    fn refused_by(&self, agent: &Agent, grant: &StandingApproval, moment: Moment<'_>) -> Option<NotCovered> {
        let tool = &self.call.tool;
        let fits = || {
            let arguments: Option<Value> = serde_json::from_str(self.call.arguments.as_str()).ok();
            arguments.is_some_and(|arguments| grant.schema.admits(&arguments))
        };
        let is_too_much = tool.contract.strictest_by_risk(|risk| match risk {
            Some(RiskLevel::Critical | RiskLevel::Forbidden) => true,
            None | Some(RiskLevel::Low | RiskLevel::Medium | RiskLevel::High) => false,
        });
        if is_too_much {
            return Some(NotCovered::Critical);
        }
        // Cheap checks come first. Nothing is hashed for a standing approval of another agent or tool.
        if self.asked.needs_step_up {
            Some(NotCovered::StepUp)
        } else if grant.agent != agent.name {
            Some(NotCovered::OtherAgent)
        } else if grant.tool != tool.name {
            Some(NotCovered::OtherTool)
        } else if grant.expires_ms <= moment.clock.now_ms {
            Some(NotCovered::Expired)
        } else if grant.uses_left == 0 {
            Some(NotCovered::UsedUp)
        } else if grant.pin != tool.pin() {
            Some(NotCovered::ToolChanged)
        } else if grant.contract != tool.contract_digest() {
            Some(NotCovered::ContractChanged)
        } else if self.call.attached.is_bound() {
            Some(NotCovered::Attached)
        } else if !fits() {
            Some(NotCovered::Arguments)
        } else {
            None
        }
    }

    /// Returns the refusal before an approval request exists.
    pub fn unanswered(&self) -> Denial {
        self.refusal(None)
    }

    /// Returns the refusal while a user has not decided yet.
    pub fn waiting(&self, ticket: Ticket) -> Denial {
        self.refusal(Some(ticket))
    }

    fn refusal(&self, approval: Option<Ticket>) -> Denial {
        Denial::ConfirmationRequired {
            tool: self.call.tool.name.clone(),
            risk: self.risk(),
            needs_step_up: self.asked.needs_step_up,
            approval: approval.map(Box::new),
        }
    }

    /// Lists what requires the approval, for the approver.
    pub fn asked_by(&self) -> Vec<String> {
        let contract = &self.call.tool.contract;
        let mut all = Vec::new();
        if let Some(risk) = &contract.risk
            && crate::contract::asks(risk.value)
        {
            all.push(format!("contract risk level {} ({})", risk.value.as_str(), place(&risk.source)));
        }
        let is_written = |source: &Source| !matches!(source, Source::Level | Source::Default);
        if contract.confirmation.value == Confirmation::Required && is_written(&contract.confirmation.source) {
            all.push(format!("confirmation: required ({})", place(&contract.confirmation.source)));
        }
        if !contract.autonomous.value && is_written(&contract.autonomous.source) {
            all.push(format!("autonomousExecution: false ({})", place(&contract.autonomous.source)));
        }
        if self.asked.needs_step_up {
            let place = place(&contract.step_up.source);
            all.push(match &contract.step_up.value {
                StepUp::Never | StepUp::Always => format!("stepUpAuth ({place})"),
                StepUp::When(_) => format!("stepUpAuth, by these arguments ({place})"),
            });
        }
        if self.asked.by_setting {
            all.push("setting contracts.unclassified: confirm_destructive".to_owned());
        }
        all
    }
}

/// Formats the position of an operator's value, or the kind of another source.
fn place(source: &Source) -> String {
    match source {
        Source::Operator { file, line } => format!("{}:{line}", Untrusted::new(file.as_ref()).for_terminal()),
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
