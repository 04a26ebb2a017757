//! Reads from the store what the decision needs: an earlier dry run, or an earlier call with the same idempotency key.

use std::sync::Arc;

use mcpproxy_core::contract::DryRun;
use mcpproxy_core::decision::PriorState;
use mcpproxy_core::json::members;
use mcpproxy_core::{ApprovalId, ApprovalState, Declared, Mode, Tool};
use mcpproxy_store::{StoreError, StoredApproval};

use super::claims;
use crate::agents::ConnectedAgent;
use crate::approvals::ReturnedCall;
use crate::record::now_ms;
use crate::state::SharedState;
use crate::upstream::Passage;

/// Parameters of a call that are for the gateway and not for the tool.
#[derive(Clone)]
pub(super) struct CallExtras {
    /// The approval that the call says it has.
    pub(super) approval: Option<ApprovalId>,
    pub(super) idempotency_key: Option<String>,
    /// The client's answer to an approval prompt, if the call was sent again with one.
    pub(super) returned: Option<ReturnedCall>,
}

impl CallExtras {
    /// Takes the gateway's own parameters out of a call. The decision also covers the members of `params` that are for
    /// the server.
    pub(super) async fn take(
        state: &SharedState,
        agent: &ConnectedAgent,
        declared: &mut Declared,
        passage: &mut Passage<'_>,
    ) -> Result<Self, StoreError> {
        let returned = state.request_states.take(&agent.identity, &declared.arguments, passage).await?;
        let carried = returned.as_ref().and_then(|returned| returned.carried.as_deref());
        declared.attached = passage.detach(&carried.and_then(members).unwrap_or_default());
        let (approval, idempotency_key) = (declared.approval.clone(), declared.idempotency_key.clone());
        Ok(Self { approval, idempotency_key, returned })
    }

    /// Returns the approval the call is about, if it names one.
    pub(super) fn approval_named(&self) -> Option<&ApprovalId> {
        match &self.returned {
            Some(returned) => returned.approval.as_ref(),
            None => self.approval.as_ref(),
        }
    }
}

/// Reads from the store what the decision needs. Most calls need nothing, and cost no query.
pub(super) async fn look_up(
    state: &SharedState,
    agent: &ConnectedAgent,
    declared: &Declared,
    extras: &CallExtras,
    tool: Option<&Arc<Tool>>,
) -> Result<PriorState, StoreError> {
    let mut prior = PriorState::default();
    let Some(tool) = tool.filter(|tool| declared.mode_of(tool) == Mode::Real) else { return Ok(prior) };
    if matches!(tool.contract.dry_run.value, DryRun::Required { .. }) {
        let binding = declared.dry_run_binding(&agent.identity, tool);
        prior.dry_run_ms = state.store.find_dry_run(&binding.digest()).await?.map(|found| found.at_ms);
        if let (Some(at_ms), Some(id)) = (prior.dry_run_ms, extras.approval_named()) {
            let approval = state.store.find_approval(id).await?;
            let same = approval.filter(|approval| is_open_for(approval, agent, tool, declared));
            // A dry run that was fresh when the approval request was created stays fresh until the user has decided.
            let waited_ms = same.map_or(0, |approval| (now_ms() - approval.created_ms).max(0));
            // A dry run made since then is only as fresh as it is.
            prior.dry_run_ms = Some((at_ms + waited_ms).min(now_ms()));
        }
    }
    // An invalid idempotency key is refused by the decision, in the order of its checks.
    if let Ok(Some(claim)) = declared.claim(tool) {
        prior.is_repeat = claims::is_taken(state, agent, &tool.name, &claim).await?;
    }
    Ok(prior)
}

/// Checks that an approval is open, and for exactly this call.
fn is_open_for(approval: &StoredApproval, agent: &ConnectedAgent, tool: &Tool, declared: &Declared) -> bool {
    matches!(approval.state, ApprovalState::Pending | ApprovalState::Approved)
        && approval.agent == agent.identity.name
        && approval.tool == tool.name
        && approval.args_digest == declared.arguments.digest()
        && approval.attached_digest == declared.attached.digest()
}
