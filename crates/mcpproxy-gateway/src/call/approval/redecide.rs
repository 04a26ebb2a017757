//! Decides an approved call again, on the newest snapshot and with the bytes that the user saw.

use mcpproxy_core::decision::PriorState;
use mcpproxy_core::settings::is_provider_agent;
use mcpproxy_core::{Agent, Arguments, Attached, Decision, Declared, Denial, Mode, Moment, decide};
use mcpproxy_store::{StoreError, StoredApproval, TokenInfo};

use super::{ApprovalFlow, Approved, Stopped};
use crate::agents::{ANONYMOUS, ConnectedAgent};
use crate::approvals::for_users;
use crate::crash::crash_point;
use crate::offload::offload;
use crate::state::SharedState;

impl ApprovalFlow<'_> {
    /// Decides again, and cancels the approval if it can never permit the call. An approval that was requested under the
    /// contract of another gateway stays open.
    pub(super) async fn decide_again(&self, approval: &StoredApproval) -> Result<Approved, Stopped> {
        crash_point("approved");
        let decided = self.redecide(approval).await;
        if let Err(Stopped::Denied(denial)) = &decided
            && is_permanent(denial)
        {
            if self.state.approvals.is_under_other_contract(approval).await? {
                return Err(Denial::ContractsDiffer { tool: approval.tool.clone() }.into());
            }
            self.state.approvals.cancel(approval, &denial.message()).await?;
        }
        decided
    }

    async fn redecide(&self, approval: &StoredApproval) -> Result<Approved, Stopped> {
        let name = self.request.tool().name.clone();
        let agent = live_agent(self.state, self.agent, approval).await?.ok_or(Denial::ApprovalStale)?;
        let args = approval.args.as_ref().ok_or(Denial::ApprovalStale)?;
        let arguments = Arguments::exact(args)?;
        let snapshot = self.state.snapshot_for(Some(name.server())).await;
        let tool = snapshot.catalog.resolve(&name);
        let channel = tool.map(|tool| snapshot.settings.approvals.channel(&tool.contract));
        if channel.is_some_and(|channel| approval.given.is_none_or(|given| given < channel.least())) {
            // The operator has raised the requirement since the user approved.
            return Err(Denial::ApprovalStale.into());
        }
        let clock = snapshot.clock();
        // The dry run was checked before the user was asked, and the user has seen it since.
        let prior = PriorState { dry_run_ms: Some(clock.now_ms), is_repeat: false };
        let session_began_ms = self.agent.session_began_ms();
        let moment = Moment { clock, limits: &self.state.limits, prior, session_began_ms };
        let declared = Declared {
            name: name.clone(),
            intent: self.request.intent().clone(),
            arguments,
            // The user decided on what was shown, so nothing else is sent.
            attached: Attached::exact(approval.attached.as_deref().and_then(for_users).as_deref()),
            mode: Mode::Real,
            idempotency_key: self.extras.idempotency_key.clone(),
            approval: Some(approval.id.clone()),
            masked: Vec::new(),
        };
        match offload(args.len(), || decide(snapshot.decision_inputs(), &agent, declared, tool, moment)) {
            Decision::Ask(request) => {
                let permit = request.approved_by(&agent, &approval.approval(), moment)?;
                Ok(Approved { permit, snapshot: snapshot.clone(), by: approval.decided_by.clone() })
            }
            // The call needs no approval any more, so it is not the call that the user approved.
            Decision::Allow(_) | Decision::Preview(_) | Decision::Repeat(_) => Err(Denial::ApprovalStale.into()),
            Decision::Deny(denial) => Err(denial.into()),
        }
    }
}

/// Checks whether waiting cannot help. A missing server may come back, and a rate limit passes.
fn is_permanent(denial: &Denial) -> bool {
    !denial.is_temporary()
}

/// Returns the agent as its token describes it now, or `None` if the token was revoked or has expired
/// in the meantime.
async fn live_agent(
    state: &SharedState,
    connected: &ConnectedAgent,
    approval: &StoredApproval,
) -> Result<Option<Agent>, StoreError> {
    let agent = &*connected.identity;
    if is_provider_agent(&agent.name) {
        return Ok((!state.provider_tokens.is_over(connected.lifetime)).then(|| agent.clone()));
    }
    if agent.name == ANONYMOUS {
        let is_allowed = state.snapshot.load().settings.allow_anonymous_loopback;
        return Ok(is_allowed.then(|| agent.clone()));
    }
    let tokens = state.store.list_tokens().await?;
    // A token created later reuses the name. Its agent did not send this approval request.
    let is_same = |token: &TokenInfo| token.revoked_ms.is_none() && token.created_ms <= approval.created_ms;
    let live = tokens.into_iter().find(|token| token.name == agent.name && is_same(token));
    Ok(live.map(|token| Agent { name: token.name, scope: token.scope }))
}
