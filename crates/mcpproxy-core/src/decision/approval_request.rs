//! A call that waits for a user's word, and what that word must be.

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

/// A call that waits for a user's word. It owns the bytes that are sent once the word is given.
#[derive(Debug)]
pub struct ApprovalRequest {
    pub(super) call: Call,
    pub(super) asked: Asked,
}

/// That a user is asked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) needs_step_up: bool,
    /// Whether the settings ask, and not a contract alone.
    pub(super) by_setting: bool,
}

impl Asked {
    pub(super) fn needs(self) -> Vec<Need> {
        if self.needs_step_up { vec![Need::Confirmation, Need::StepUp] } else { vec![Need::Confirmation] }
    }
}

/// A user's standing word: this agent may call this tool with such arguments, for a while and so many times.
#[derive(Clone, Debug, PartialEq)]
pub struct StandingApproval {
    pub id: String,
    pub agent: String,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    /// What the arguments must look like.
    pub schema: Arc<Schema>,
    pub expires_ms: i64,
    pub uses_left: u32,
}

/// Why a grant does not cover a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCovered {
    /// Critical calls are confirmed one by one.
    Critical,
    /// A fresh factor is for one call.
    StepUp,
    OtherAgent,
    OtherTool,
    /// The tool is not what it was when the grant was given.
    ToolChanged,
    ContractChanged,
    Expired,
    UsedUp,
    /// The arguments do not fit, or it cannot be told in time that they do.
    Arguments,
    /// More goes to the server than arguments, and the grant says nothing of that.
    Attached,
    /// The grant covers it, and the rate limit does not.
    RateLimit(Denial),
}

impl ApprovalRequest {
    pub fn tool(&self) -> &Arc<Tool> {
        &self.call.tool
    }

    pub fn intent(&self) -> &Intent {
        &self.call.intent
    }

    /// The same call as one that may have been made before, if it has a name.
    pub fn as_repeat(&self) -> Option<Repeat> {
        let claim = self.call.claim.clone()?;
        Some(Repeat { tool: Arc::clone(&self.call.tool), intent: self.call.intent.clone(), claim })
    }

    pub fn arguments(&self) -> &Arguments {
        &self.call.arguments
    }

    /// What goes to the server besides.
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

    /// The weakest answer that counts.
    pub fn least(&self) -> Assurance {
        if self.asked.needs_step_up {
            return Assurance::Factor;
        }
        self.call.tool.contract.strictest_by_risk(|risk| match risk {
            None | Some(RiskLevel::Low | RiskLevel::Medium | RiskLevel::High) => Assurance::Form,
            // A form is drawn by the agent's own client, and some of those say yes by themselves.
            Some(RiskLevel::Critical | RiskLevel::Forbidden) => Assurance::Session,
        })
    }

    /// What a user's word is bound to.
    pub fn binding(&self, agent: &Agent) -> Binding {
        let Call { tool, intent, arguments, attached, .. } = &self.call;
        bind(agent, tool, intent, arguments.digest(), attached.digest())
    }

    /// Under which a dry run of this call is found.
    pub fn dry_run_binding(&self, agent: &Agent) -> Binding {
        let Call { tool, intent, arguments, attached, .. } = &self.call;
        dry_run::dry_run_binding(agent, tool, intent, arguments, attached)
    }

    /// The permit that an approval gives, if it was given for exactly this approval_request, is still good and strong enough.
    /// Whoever opens the call's record spends it there.
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

    /// The permit that a grant gives, or the approval_request back with why it does not.
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
        // Nobody has seen what the agent says beside the arguments.
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
        // The cheap ones first; of a grant for something else nothing is computed.
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

    /// The answer as long as nobody was asked.
    pub fn unanswered(&self) -> Denial {
        self.refusal(None)
    }

    /// The answer while a user is asked.
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

    /// Who asks for a user, for whoever decides.
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

/// Where something is written, or whose word it is.
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
