//! Stop 5: a question, and a user's answer to it, into a permit.

mod again;
mod elicit;
mod open;
mod seal;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::decision::Repeat;
use mcpproxy_core::settings::Channel;
use mcpproxy_core::{ApprovalId, ApprovalRequest, ApprovalState, Assurance, Denial, Moment, Permit, Retry, Ticket};
use mcpproxy_store::{StoreError, StoredApproval};

use crate::approvals::ByGrant;
use crate::downstream::{Caller, EndpointMode};
use crate::gateway::Inner;
use crate::snapshot::Snapshot;
use crate::upstream::{Era, Passage, Reply};

pub(crate) use open::new_id;
pub(crate) use seal::{Returned, Seals};

/// What a call said besides its subject.
pub(crate) struct Said {
    /// The approval it claims to have.
    pub(crate) approval: Option<ApprovalId>,
    pub(crate) idempotency_key: Option<String>,
    /// It comes back with an answer from its client.
    pub(crate) returned: Option<Returned>,
}

impl Said {
    /// The approval it is about, if it names one.
    pub(crate) fn names(&self) -> Option<&ApprovalId> {
        match &self.returned {
            Some(returned) => returned.approval.as_ref(),
            None => self.approval.as_ref(),
        }
    }
}

/// A permit, and the snapshot it was given on.
pub(crate) struct Answered {
    pub(crate) permit: Permit,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// Why there is no permit.
pub(crate) enum Unanswered {
    Refused(Box<Denial>),
    /// The agent's client is asked, and the call comes back with its answer.
    Returns(Reply),
    /// It was made while this one was on its way, and has an answer or will have one.
    Repeats(Repeat),
    /// Without the store nobody can be asked, and nothing is sent.
    Store(StoreError),
}

impl From<Denial> for Unanswered {
    fn from(denial: Denial) -> Self {
        Self::Refused(Box::new(denial))
    }
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The question of one call, on its way to a user.
struct Asking<'a> {
    gateway: &'a Inner,
    caller: &'a Caller,
    passage: &'a Passage<'a>,
    question: ApprovalRequest,
    said: Said,
}

pub(crate) async fn ask(
    gateway: &Inner,
    caller: &Caller,
    snapshot: &Arc<Snapshot>,
    question: ApprovalRequest,
    said: Said,
    passage: &Passage<'_>,
) -> Result<Answered, Unanswered> {
    let moment = Moment {
        clock: crate::call::clock(snapshot),
        limits: &gateway.limits,
        seen: mcpproxy_core::decision::PriorState::default(),
    };
    // What a user has said to this very call counts more than a yes to such calls.
    let granted = match is_spoken_of(gateway, caller, &question, &said).await? {
        true => ByGrant::No(question),
        false => gateway.approvals.by_grant(question, &caller.agent, moment).await?,
    };
    let question = match granted {
        ByGrant::Yes(permit) => return Ok(Answered { permit, snapshot: Arc::clone(snapshot) }),
        ByGrant::Later(denial) => return Err(denial.into()),
        ByGrant::No(question) => question,
    };
    let asking = Asking { gateway, caller, passage, question, said };
    let found = asking.open(snapshot).await?;
    let decided = match found.state {
        ApprovalState::Pending => asking.reach(snapshot, found).await?,
        _ => found,
    };
    asking.settle(decided).await
}

/// Whether the call comes back for an answer of its own, or there is one for it.
async fn is_spoken_of(
    gateway: &Inner,
    caller: &Caller,
    question: &ApprovalRequest,
    said: &Said,
) -> Result<bool, StoreError> {
    if said.approval.is_some() || said.returned.is_some() {
        return Ok(true);
    }
    let (binding, now_ms) = (question.binding(&caller.agent).digest(), crate::record::now_ms());
    let open = gateway.store.find_open_approval(&binding, now_ms).await?;
    let is_approved = open.is_some_and(|open| open.state == ApprovalState::Approved);
    Ok(is_approved || gateway.store.find_denied_approval(&binding, now_ms).await?.is_some())
}

impl Asking<'_> {
    /// Calls a user on the best way there is, and waits as long as is safe.
    async fn reach(&self, snapshot: &Snapshot, approval: StoredApproval) -> Result<StoredApproval, Unanswered> {
        let settings = &snapshot.settings.approvals;
        if self.caller.agent.scope.headless {
            return Ok(approval);
        }
        let may_be_form =
            approval.least == Assurance::Form && settings.channel(&self.question.tool().contract) == Channel::Form;
        let can_be_form = may_be_form && elicit::shows_all(&approval);
        let way = elicit::Way::of(&self.caller.capabilities, can_be_form);
        match (self.caller.era, way, &self.said.returned) {
            (Era::Modern, Some(way), None) => {
                let state =
                    self.gateway.seals.seal(self.gateway, self.caller, &approval, self.question.attached()).await?;
                let result = elicit::input_required(way, &approval, &self.gateway.approvals.url(&approval.id), &state);
                return Err(Unanswered::Returns(Ok(result)));
            }
            (Era::Modern, _, Some(returned)) => {
                let answer = elicit::Answer::read(&returned.response);
                elicit::take(&self.gateway.approvals, &approval, &self.caller.agent.name, answer, can_be_form).await?;
            }
            (Era::Legacy, Some(way), _) if !settings.wait.is_zero() => {
                elicit::in_background(self, way, &approval, can_be_form);
            }
            (Era::Modern | Era::Legacy, _, _) => {}
        }
        self.wait(approval, settings.wait).await
    }

    /// An approval that was decided, or not in time, into what follows from it.
    async fn settle(&self, approval: StoredApproval) -> Result<Answered, Unanswered> {
        let is_in_time = approval.expires_ms > crate::record::now_ms();
        match approval.state {
            ApprovalState::Approved if is_in_time => self.decide_again(&approval).await,
            ApprovalState::Pending if is_in_time => Err(self.unanswered(&approval).await?.into()),
            ApprovalState::Consumed => {
                self.unless_made().await?;
                Err(over(self.gateway, &approval).await?.into())
            }
            _ => Err(over(self.gateway, &approval).await?.into()),
        }
    }

    async fn unanswered(&self, approval: &StoredApproval) -> Result<Denial, StoreError> {
        Ok(self.question.waiting(Ticket {
            id: approval.id.clone(),
            url: self.gateway.approvals.url(&approval.id),
            expires_ms: approval.expires_ms,
            side_effects: self.question.tool().contract.side_effects.value.clone(),
            retry: match self.caller.endpoint_mode {
                EndpointMode::Four => Retry::WithId,
                EndpointMode::Server(_) | EndpointMode::Direct => Retry::AsItIs,
            },
            has_users: self.gateway.store.has_users().await?,
        }))
    }

    /// The rest of the time a call may be held.
    async fn wait(&self, approval: StoredApproval, wait: Duration) -> Result<StoredApproval, Unanswered> {
        wait::for_decision(self, approval, wait).await
    }
}

/// Why an approval lets nothing through any more.
pub(crate) async fn over(gateway: &Inner, approval: &StoredApproval) -> Result<Denial, StoreError> {
    Ok(match approval.state {
        ApprovalState::Denied => Denial::ApprovalDenied { comment: approval.comment.clone() },
        ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Expired => Denial::ApprovalExpired,
        ApprovalState::Cancelled => Denial::ApprovalStale,
        ApprovalState::Consumed => {
            // The record of the call says how it ended, as far as anybody knows.
            let record = approval.record.map(|id| id.to_string());
            let whole = match &record {
                Some(id) => gateway.store.find(id).await?,
                None => None,
            };
            let outcome = whole.map(|whole| whole.record.status.as_str().to_owned());
            Denial::ApprovalAlreadyUsed { record, outcome }
        }
    })
}
