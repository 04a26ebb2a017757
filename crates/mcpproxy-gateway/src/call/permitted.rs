//! A call with a permit: opens its record, sends it, closes the record, and builds the answer.
//!
//! Each stage contains the crash points that tests use to kill the gateway there (`crash.rs`).

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::decision::Claim;
use mcpproxy_core::json::quote;
use mcpproxy_core::settings::Durability;
use mcpproxy_core::{ApprovalRef, Arguments, Attached, Declared, Denial, Intent, Mode, Permit, Tool, Variant, Warning};
use mcpproxy_store::{Conditional, NewRecord, OpenRecord, RecordId, Step, StoreError, WaitFor};

use super::approval::not_usable;
use super::checked_reply::{CheckedReply, FAILURE_KEY, FinalReply};
use super::claims::{self, FirstCall, KeyedCall};
use super::cut_answer;
use super::{Stopped, dry_run, failed, rate_limit};
use crate::agents::{ConnectedAgent, EndpointMode, RunResult};
use crate::answer::{error_result, with_own_meta};
use crate::crash::crash_point;
use crate::message::{INVALID_PARAMS, Reply, RpcError, with_members};
use crate::meter::{CallClock, Stage};
use crate::record::{self, now_ms};
use crate::sensitive::Sensitive;
use crate::snapshot::Snapshot;
use crate::state::SharedState;
use crate::upstream::{Passage, Server, forward};

/// Retries when another call holds, then releases, the same idempotency key.
const CLAIMS_MAX: usize = 3;

/// A call that is about to be sent.
pub(super) struct PermittedCall<'a> {
    tool: Arc<Tool>,
    server: Arc<Server>,
    agent: &'a ConnectedAgent,
    sensitive: Sensitive,
    wait: WaitFor,
    warnings: Vec<Warning>,
    took: Duration,
    /// The user or client that approved the call. `None` for most calls.
    approved_by: Option<String>,
    /// `None` for most calls.
    bound: Option<Box<Bound>>,
}

/// Everything that is spent or stored together with the record of a call.
struct Bound {
    intent: Intent,
    approval: Option<ApprovalRef>,
    claim: Option<Claim>,
    /// Arguments and attachments of a dry run that the server itself makes.
    dry_run: Option<(Arguments, Attached)>,
}

impl<'a> PermittedCall<'a> {
    pub(super) fn new(snapshot: &Snapshot, agent: &'a ConnectedAgent, permit: &Permit) -> Result<Self, Stopped> {
        let tool = Arc::clone(permit.tool());
        let Some(server) = snapshot.servers.get(tool.name.server()).map(Arc::clone) else {
            return Err(Stopped::Answered(Err(RpcError::new(INVALID_PARAMS, "the server was removed"))));
        };
        let offers = snapshot.offers.get(tool.name.server());
        if !offers.is_some_and(|offers| server.still_lists(&tool.offered, offers)) {
            return Err(Denial::Quarantined { name: tool.name.clone() }.into());
        }
        let sensitive = Sensitive::of(&tool, permit.arguments().as_str());
        // The agent of a direct call chose no variant, so it cannot choose another.
        let is_useful =
            |warning: &&Warning| agent.endpoint_mode == EndpointMode::Four || warning.code != Warning::OVERLY_CAUTIOUS;
        let warnings = permit.warnings().iter().filter(is_useful).cloned().collect();
        let wait = durability(snapshot, permit);
        let bound = Bound::of(permit).map(Box::new);
        let (took, approved_by) = (Duration::ZERO, None);
        Ok(Self { tool, server, agent, sensitive, wait, warnings, took, approved_by, bound })
    }

    /// Sets who approved the call. Its record names both: the agent it ran for, and the user who approved it.
    pub(super) fn approved_by(self, by: Option<String>) -> Self {
        Self { approved_by: by, ..self }
    }

    /// Opens the record, and spends with it what the permit rests on.
    pub(super) async fn open(
        &self,
        state: &SharedState,
        permit: &Permit,
        passage: &Passage<'_>,
    ) -> Result<OpenRecord, Stopped> {
        crash_point("before_open");
        let started = record::of_permit(permit, self.agent, &self.sensitive);
        let started = match &self.approved_by {
            Some(by) => {
                NewRecord { metadata: with_members(&started.metadata, &[("approved_by", &quote(by))]), ..started }
            }
            None => started,
        };
        let bound = self.bound.as_deref().filter(|bound| bound.approval.is_some() || bound.claim.is_some());
        let open = if bound.is_some() || self.tool.contract.rate_limit.is_some() {
            Box::pin(self.open_and_spend(state, started, bound, passage)).await?
        } else {
            state.ledger.open(started, self.wait).await?
        };
        crash_point("after_open");
        Ok(open)
    }

    /// Opens the record in one transaction with spending the approval, taking the idempotency key and counting the call in
    /// the rate limit. If another call holds the key, waits for its answer.
    async fn open_and_spend(
        &self,
        state: &SharedState,
        started: NewRecord,
        bound: Option<&Bound>,
        passage: &Passage<'_>,
    ) -> Result<OpenRecord, Stopped> {
        let (approval, key) = bound.map_or((None, None), |bound| (bound.approval.as_ref(), bound.claim.as_ref()));
        let limit = self.tool.contract.rate_limit.as_ref().map(|limit| limit.value);
        let mut released = None;
        for _ in 0..CLAIMS_MAX {
            let spent = approval.map(spend);
            let claim = key.map(|claim| claims::claim_step(self.agent, &self.tool.name, claim));
            let mut steps: Vec<Step> = spent.into_iter().chain(released.take()).chain(claim).collect();
            // Counted last: a call that the other steps refuse uses up nothing of the limit.
            let count_at = steps.len();
            steps.extend(limit.map(|limit| rate_limit::count_step(&self.tool, limit)));
            match (state.ledger.open_if(started.clone(), steps).await?, limit) {
                (Conditional::Written(open), _) => return Ok(open),
                (Conditional::Conflict { step }, Some(limit)) if step == count_at => {
                    return Err(rate_limit::exceeded(state, &self.tool, limit).await?.into());
                }
                (Conditional::Conflict { .. }, _) => {}
            }
            // Without an idempotency key, only the approval can be what another call has spent.
            let Some((claim, bound)) = key.zip(bound) else { break };
            // With an approval, it is unknown which of the two another call holds.
            let was_held = approval.is_none();
            let call = KeyedCall { tool: &self.tool, intent: &bound.intent, claim, was_held };
            match claims::first_call(state, self.agent, call, passage, self.server.settings.call_timeout).await? {
                FirstCall::Answered(reply) => return Err(Stopped::Answered(reply)),
                FirstCall::Refused(denial) => return Err(denial.into()),
                FirstCall::Released(step) => released = step,
            }
        }
        match (approval, bound) {
            // Each of the calls that held the key failed, so there is no answer to share.
            (None, Some(bound)) => {
                let reply = claims::nothing_to_share(state, self.agent, &self.tool, &bound.intent).await;
                Err(Stopped::Answered(reply))
            }
            (approval, _) => Err(lost(state, approval).await?.into()),
        }
    }

    /// Sends the call and checks the server's reply against the contract.
    pub(super) async fn forward(
        &mut self,
        permit: Permit,
        passage: &Passage<'_>,
        clock: &mut CallClock<'_>,
    ) -> CheckedReply {
        let began = clock.stage_began();
        let trace = clock.trace().map(|trace| trace.for_server());
        let reply = forward(&self.server, permit, passage, trace.as_deref()).await;
        let reply = CheckedReply::new(&self.tool, reply);
        self.took = clock.lap_since(began, Stage::Forward);
        crash_point("after_forward");
        reply
    }

    /// Records how the call ended. If the log fails now, the agent gets the answer with a warning, because the call was
    /// made. The outcome waits in memory until the log works again.
    pub(super) async fn close(&mut self, state: &SharedState, open: OpenRecord, reply: &CheckedReply) {
        let mode = if self.is_dry_run() { Mode::DryRun } else { Mode::Real };
        let outcome = reply.outcome(&self.tool, mode, &self.sensitive, self.took);
        if let Some(user) = &self.agent.user {
            user.ended(RunResult::Server(outcome.clone()));
        }
        crash_point("before_close");
        let steps = match &self.bound {
            Some(bound) => Box::pin(self.steps_after(state, bound, reply)).await,
            None => Vec::new(),
        };
        let closed = if steps.is_empty() {
            state.ledger.close(open, outcome, self.wait).await
        } else {
            Box::pin(state.ledger.close_with(open, outcome, WaitFor::Disk, steps)).await
        };
        if let Err(error) = closed {
            tracing::error!(%error, tool = %self.tool.name, "could not record how a call ended");
            let message = "The call was made, but its outcome could not be written to the activity log yet.";
            self.warnings.push(Warning { code: "audit_incomplete", message: message.to_owned() });
        }
        crash_point("after_close");
    }

    /// Returns the steps that store the answer for repeats, and the result of a dry run.
    async fn steps_after(&self, state: &SharedState, bound: &Bound, reply: &CheckedReply) -> Vec<Step> {
        let stored = reply.stored(&self.tool);
        let claim = bound.claim.as_ref();
        let claim = match claim.and_then(|claim| claims::finish_step(self.agent, &self.tool.name, claim, &stored)) {
            Some(step) => Some(cut_answer::bounded(&state.kept_answers, step).await),
            None => None,
        };
        let dry_run = bound.dry_run.as_ref().zip(stored.of_dry_run());
        let dry_run = dry_run.and_then(|((arguments, attached), result)| {
            let declared = Declared::plain(self.tool.name.clone(), bound.intent.clone(), arguments.clone());
            let declared = Declared { attached: attached.clone(), ..declared };
            dry_run::keep_step(self.agent, &self.tool, &declared, dry_run::MadeBy::Server(result))
        });
        claim.into_iter().chain(dry_run).collect()
    }

    /// Words the answer: the server's reply with the gateway's own keys, or what stands in its place.
    pub(super) fn answer(mut self, reply: CheckedReply, record: RecordId) -> Reply {
        self.warnings.extend(reply.warnings(&self.tool));
        match reply.into_final(&self.tool) {
            FinalReply::Result { result, failure } => {
                let failure = failure.map(|failure| (FAILURE_KEY, failure));
                let own: Vec<(&str, String)> = failure.into_iter().chain(self.dry_run_mark()).collect();
                Ok(with_own_meta(result, record, &self.warnings, &own))
            }
            FinalReply::Replaced { code, message, details } => Ok(error_result(code, &message, &details, Some(record))),
            FinalReply::Error(error) => Err(error.with_record(record)),
            FinalReply::Failed(error) => failed(&self.tool.name, &error, Some(record)),
        }
    }

    fn dry_run_mark(&self) -> Option<(&'static str, String)> {
        self.is_dry_run().then(|| dry_run::mark(&self.tool))
    }

    fn is_dry_run(&self) -> bool {
        self.bound.as_ref().is_some_and(|bound| bound.dry_run.is_some())
    }
}

impl Bound {
    fn of(permit: &Permit) -> Option<Self> {
        if permit.approval().is_none() && permit.claim().is_none() && !permit.is_dry_run() {
            return None;
        }
        Some(Self {
            intent: permit.intent().clone(),
            approval: permit.approval().cloned(),
            claim: permit.claim().cloned(),
            dry_run: permit.is_dry_run().then(|| (permit.arguments().clone(), permit.attached().clone())),
        })
    }
}

/// Explains an approval that was spent or withdrawn between the decision and the record.
async fn lost(state: &SharedState, approval: Option<&ApprovalRef>) -> Result<Denial, StoreError> {
    let Some(ApprovalRef::Approval(id)) = approval else { return Ok(Denial::ApprovalStale) };
    match state.store.find_approval(id).await? {
        Some(found) => not_usable(state, &found).await,
        None => Ok(Denial::NoSuchApproval),
    }
}

fn spend(approval: &ApprovalRef) -> Step {
    match approval {
        ApprovalRef::Approval(id) => Step::Consume { id: id.clone(), now_ms: now_ms() },
        ApprovalRef::StandingApproval(id) => Step::UseStandingApproval { id: id.clone(), now_ms: now_ms() },
    }
}

/// Writes and destructive calls are on disk before they are sent. Reads need not be.
fn durability(snapshot: &Snapshot, permit: &Permit) -> WaitFor {
    match (snapshot.settings.activity.durability, permit.intent().variant) {
        (Durability::Writes, Variant::Read) => WaitFor::Queue,
        (Durability::Writes, Variant::Write | Variant::Destructive) | (Durability::All, _) => WaitFor::Disk,
    }
}
