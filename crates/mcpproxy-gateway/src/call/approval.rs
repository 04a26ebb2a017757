//! Asks a user to approve a call, and turns the approval into a permit.
//!
//! ```text
//!  approval request ─▶ standing approval? ──────────────────────────────▶ permit
//!        │ no
//!        ▼
//!  open (request.rs): the approval that the call names, one that is already open
//!        │            for the same call, or a new one
//!        ▼ pending
//!  reach (elicitation.rs): a form or a link in the agent's client, or only the web page
//!        │            (nobody, if no account could approve: the agent gets `confirmation_required` at once)
//!        ▼
//!  wait (wait.rs): holds the call for `approvals.wait`, or while a form is open, with progress messages
//!        ▼
//!  settle: approved ─▶ decide again (redecide.rs) ─▶ permit
//!          pending  ─▶ `confirmation_required`, and the agent repeats the call later
//!          others   ─▶ refused
//! ```
//!
//! Invariants:
//!
//! - An approval counts for one call only: this agent, tool, contract and these bytes (`Binding` in core). A call that
//!   names an approval for another call is refused.
//! - An approved call is decided again on the newest snapshot, with the bytes that the user saw. Contracts, settings
//!   and the token may have changed while it waited.
//! - Identical calls share one request, so a user decides once. After a denial, the same call is denied without a new
//!   request until the first would have expired. Otherwise an agent could repeat its call until a user gives in.
//! - The client's own prompt counts only where the contract accepts a form, and only if it shows everything that is
//!   sent. A client that declines before its user can have read the prompt has decided nothing.
//!
//! The permit is spent later, in the transaction that opens the call's record. Spending it here would lose the approval
//! if the gateway crashed in between.
//!
//! Example: an agent calls `crm:delete_customer`. The user has no prompt, so after `approvals.wait` the agent gets
//! `confirmation_required` with an `approval_id` and a link. The user approves on the page. The agent repeats the call
//! with that `approval_id`, finds it approved, and gets a permit.

mod elicitation;
mod redecide;
mod request;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::decision::PriorState;
use mcpproxy_core::settings::Channel;
use mcpproxy_core::{
    ApprovalRequest, ApprovalState, Approvers, Assurance, Denial, DeniedBy, Moment, Permit, Retry, Ticket,
};
use mcpproxy_store::{StoreError, StoredApproval};

use super::{CallExtras, Incoming, Stopped, rate_limit};
use crate::agents::{ConnectedAgent, EndpointMode};
use crate::approvals::StandingDecision;
use crate::protocol::Era;
use crate::record::now_ms;
use crate::snapshot::Snapshot;
use crate::state::SharedState;
use crate::upstream::Passage;
use elicitation::{ClientAnswer, Elicitation};

/// A permit, and the snapshot it was decided on.
pub(super) struct Approved {
    pub(super) permit: Permit,
    pub(super) snapshot: Arc<Snapshot>,
    /// The user or client that approved the call, for its record.
    pub(super) by: Option<String>,
}

/// The approval request of one call, on its way to a user.
struct ApprovalFlow<'a> {
    state: &'a SharedState,
    agent: &'a ConnectedAgent,
    passage: &'a Passage<'a>,
    request: ApprovalRequest,
    extras: CallExtras,
}

/// Obtains a permit for a call that a user must approve.
pub(super) async fn obtain(
    incoming: &Incoming<'_>,
    request: ApprovalRequest,
    extras: CallExtras,
) -> Result<Approved, Stopped> {
    let Incoming { state, agent, passage, snapshot, .. } = incoming;
    let (prior, session_began_ms) = (PriorState::default(), agent.session_began_ms());
    let moment = Moment { clock: snapshot.clock(), limits: &state.limits, prior, session_began_ms };
    if let Some(denial) = rate_limit::check(state, request.tool()).await? {
        return Err(denial.into());
    }
    // A decision about this very call counts more than a standing approval for calls like it.
    let by_standing = match has_own_decision(state, agent, &request, &extras).await? {
        true => StandingDecision::NotCovered(request),
        false => state.approvals.by_standing_approval(request, &agent.identity, moment).await?,
    };
    let request = match by_standing {
        StandingDecision::Permitted { permit, by } => {
            return Ok(Approved { permit, snapshot: Arc::clone(snapshot), by: Some(by) });
        }
        StandingDecision::RateLimited(denial) => return Err(denial.into()),
        StandingDecision::NotCovered(request) => request,
    };
    let flow = ApprovalFlow { state, agent, passage, request, extras };
    let approval = flow.open(snapshot).await?;
    let approval = match approval.state {
        ApprovalState::Pending => flow.reach(snapshot, approval).await?,
        ApprovalState::Approved
        | ApprovalState::Denied
        | ApprovalState::Expired
        | ApprovalState::Consumed
        | ApprovalState::Cancelled => approval,
    };
    flow.settle(approval).await
}

/// Returns true if the call names an approval, answers an approval prompt, or was already decided.
async fn has_own_decision(
    state: &SharedState,
    agent: &ConnectedAgent,
    request: &ApprovalRequest,
    extras: &CallExtras,
) -> Result<bool, StoreError> {
    if extras.approval.is_some() || extras.returned.is_some() {
        return Ok(true);
    }
    let (binding, now_ms) = (request.binding(&agent.identity).digest(), now_ms());
    let open = state.store.find_open_approval(&binding, now_ms).await?;
    let is_approved = open.is_some_and(|open| open.state == ApprovalState::Approved);
    Ok(is_approved || state.store.find_denied_approval(&binding, now_ms).await?.is_some())
}

impl ApprovalFlow<'_> {
    /// Prompts the user through the agent's client where possible, and waits for a decision.
    async fn reach(&self, snapshot: &Snapshot, approval: StoredApproval) -> Result<StoredApproval, Stopped> {
        let settings = &snapshot.settings.approvals;
        if self.agent.identity.scope.headless {
            return Ok(approval);
        }
        let form_suffices =
            approval.least == Assurance::Form && settings.channel(&self.request.tool().contract) == Channel::Form;
        let form_suffices = form_suffices && elicitation::shows_all(&approval);
        let prompt = Elicitation::of(&self.agent.capabilities, form_suffices);
        // A form needs no account. Everything else does, so without one nobody can decide however long the call waits.
        let has_approvers = self.approvers().await == Approvers::Ready;
        let can_be_decided = prompt == Some(Elicitation::Form) || has_approvers;
        if !can_be_decided && self.extras.returned.is_none() {
            return Ok(approval);
        }
        let open_form = match (self.agent.era, prompt, &self.extras.returned) {
            (Era::Modern, Some(prompt), None) => {
                let agent = &self.agent.identity;
                let sealed = self.state.request_states.seal(agent, &approval, self.request.attached()).await?;
                let url = self.state.approvals.url(&approval.id);
                let result = elicitation::input_required(prompt, &approval, &url, &sealed);
                return Err(Stopped::Answered(Ok(result)));
            }
            (Era::Modern, prompt, Some(returned)) => {
                let took_ms = returned.sent_ms.and_then(|sent_ms| u64::try_from(now_ms() - sent_ms).ok());
                let was_shown = took_ms.is_some_and(|took_ms| Duration::from_millis(took_ms) >= settings.shown_after);
                let answer = ClientAnswer::read(&returned.response, prompt.unwrap_or(Elicitation::Link), was_shown);
                let client = self.client();
                elicitation::take(&self.state.approvals, &approval, &client, answer, form_suffices).await?;
                None
            }
            (Era::Legacy, Some(prompt), _) if !settings.wait.is_zero() => {
                let closed = elicitation::in_background(self, prompt, &approval, form_suffices, settings.shown_after);
                (prompt == Elicitation::Form).then_some(closed)
            }
            (Era::Modern | Era::Legacy, _, _) => None,
        };
        // A form that was answered or declined already does not count: only the page is left then.
        let wait = if has_approvers || open_form.is_some() { settings.wait } else { Duration::ZERO };
        wait::for_decision(self, approval, wait, open_form).await
    }

    /// Finds out whether any user could approve a call. This decides only how long a call waits and what its answer
    /// says, so a store that fails counts as one with approvers.
    async fn approvers(&self) -> Approvers {
        let store = &self.state.store;
        match store.count_approvers().await {
            Ok(0) => {}
            Ok(1..) | Err(_) => return Approvers::Ready,
        }
        match store.has_users().await {
            Ok(true) => Approvers::NotEnrolled,
            Ok(false) => Approvers::NoAccount,
            Err(_) => Approvers::Ready,
        }
    }

    /// Names the agent's client as the origin of a decision.
    fn client(&self) -> String {
        DeniedBy::client(&self.agent.identity.name, self.agent.client.as_deref())
    }

    /// Turns an approval into a permit, or into the reason why there is none.
    async fn settle(&self, approval: StoredApproval) -> Result<Approved, Stopped> {
        match current_state(&approval) {
            ApprovalState::Approved => self.decide_again(&approval).await,
            ApprovalState::Pending => Err(self.confirmation_required(&approval).await?.into()),
            ApprovalState::Consumed => {
                self.stop_if_made().await?;
                Err(not_usable(self.state, &approval).await?.into())
            }
            ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled => {
                Err(not_usable(self.state, &approval).await?.into())
            }
        }
    }

    async fn confirmation_required(&self, approval: &StoredApproval) -> Result<Denial, StoreError> {
        Ok(self.request.pending(Ticket {
            id: approval.id.clone(),
            url: self.state.approvals.url(&approval.id),
            expires_ms: approval.expires_ms,
            side_effects: self.request.tool().contract.side_effects.value.clone(),
            retry: match self.agent.endpoint_mode {
                EndpointMode::Four => Retry::WithId,
                EndpointMode::Server(_) | EndpointMode::Direct => Retry::AsItIs,
            },
            approvers: self.approvers().await,
        }))
    }
}

/// Returns the state of an approval now. Its expiry counts at once, even if it is not written down yet.
fn current_state(approval: &StoredApproval) -> ApprovalState {
    match approval.state {
        ApprovalState::Pending | ApprovalState::Approved if approval.expires_ms <= now_ms() => ApprovalState::Expired,
        state @ (ApprovalState::Pending
        | ApprovalState::Approved
        | ApprovalState::Denied
        | ApprovalState::Expired
        | ApprovalState::Consumed
        | ApprovalState::Cancelled) => state,
    }
}

/// Explains why an approval permits nothing any more.
pub(super) async fn not_usable(state: &SharedState, approval: &StoredApproval) -> Result<Denial, StoreError> {
    Ok(match approval.state {
        ApprovalState::Denied => Denial::ApprovalDenied {
            by: DeniedBy::read(approval.decided_by.as_deref()),
            comment: approval.comment.clone(),
        },
        ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Expired => Denial::ApprovalExpired,
        ApprovalState::Cancelled => Denial::ApprovalStale,
        ApprovalState::Consumed => {
            // The record of the call contains its outcome, if it is known.
            let record = approval.record.map(|id| id.to_string());
            let whole = match &record {
                Some(id) => state.store.find(id).await?,
                None => None,
            };
            let outcome = whole.map(|whole| whole.record.status.as_str().to_owned());
            Denial::ApprovalAlreadyUsed { record, outcome }
        }
    })
}
