//! A call that waited is decided again on the newest snapshot, with the bytes a user saw.

use mcpproxy_core::decision::PriorState;
use mcpproxy_core::{Agent, Arguments, Attached, Check, Decision, Declared, Denial, Mode, Moment, decide};
use mcpproxy_store::{StoreError, StoredApproval, TokenInfo};

use super::{Answered, Asking, Unanswered};
use crate::crash::crash_point;
use crate::gateway::Inner;
use crate::heavy::heavy;

impl Asking<'_> {
    pub(super) async fn decide_again(&self, approval: &StoredApproval) -> Result<Answered, Unanswered> {
        crash_point("approved");
        match self.decided(approval).await? {
            Ok(answered) => Ok(answered),
            Err(denial) => {
                if is_for_good(&denial) {
                    self.gateway.approvals.cancel(approval, &denial.message()).await?;
                }
                Err(denial.into())
            }
        }
    }

    async fn decided(&self, approval: &StoredApproval) -> Result<Result<Answered, Denial>, StoreError> {
        let name = self.question.tool().name.clone();
        let Some(agent) = live_agent(self.gateway, &self.caller.agent, approval).await? else {
            return Ok(Err(Denial::ApprovalStale));
        };
        let Some(args) = &approval.args else { return Ok(Err(Denial::ApprovalStale)) };
        let arguments = match Arguments::exact(args) {
            Ok(arguments) => arguments,
            Err(denial) => return Ok(Err(denial)),
        };
        let snapshot = self.gateway.snapshot_for(Some(name.server())).await;
        let tool = snapshot.catalog.resolve(&name);
        let channel = tool.map(|tool| snapshot.settings.approvals.channel(&tool.contract));
        if channel.is_some_and(|channel| approval.given.is_none_or(|given| given < channel.least())) {
            // The operator has come to want more than a form.
            return Ok(Err(Denial::ApprovalStale));
        }
        let clock = crate::call::clock(&snapshot);
        // Whether there was a dry run was asked before the question was; a user has looked at it since.
        let seen = PriorState { dry_run_ms: Some(clock.now_ms), is_repeat: false };
        let moment = Moment { clock, limits: &self.gateway.limits, seen };
        let declared = Declared {
            name: name.clone(),
            intent: self.question.intent().clone(),
            arguments,
            attached: Attached::exact(approval.attached.as_deref()),
            mode: Mode::Real,
            idempotency_key: self.said.idempotency_key.clone(),
            approval: Some(approval.id.clone()),
        };
        let decision = heavy(args.len(), || decide(snapshot.ground(), &agent, declared, tool, moment));
        Ok(match decision {
            Decision::Ask(question) => question
                .answered_by(&agent, &approval.approval(), moment)
                .map(|permit| Answered { permit, snapshot: snapshot.clone() }),
            // Nobody needs to be asked any more: then what was asked is no longer the question.
            Decision::Allow(_) | Decision::Preview(_) | Decision::Repeat(_) => Err(Denial::ApprovalStale),
            Decision::Deny(denial) => Err(denial),
        })
    }
}

/// Whether waiting could not help. A server that is away may come back, and so does a turn.
fn is_for_good(denial: &Denial) -> bool {
    !matches!(denial.check(), Check::RateLimit | Check::Exists)
}

/// The agent as its token describes it now; none when it was revoked meanwhile.
async fn live_agent(gateway: &Inner, agent: &Agent, approval: &StoredApproval) -> Result<Option<Agent>, StoreError> {
    if agent.name == crate::downstream::ANONYMOUS {
        let is_allowed = gateway.snapshot.load().settings.allow_anonymous_loopback;
        return Ok(is_allowed.then(|| agent.clone()));
    }
    let tokens = gateway.store.list_tokens().await?;
    // A name that was given out again belongs to somebody who asked nothing.
    let is_same = |token: &TokenInfo| token.revoked_ms.is_none() && token.created_ms <= approval.created_ms;
    let live = tokens.into_iter().find(|token| token.name == agent.name && is_same(token));
    Ok(live.map(|token| Agent { name: token.name, scope: token.scope }))
}
