//! The two ends of a call's record, with all that is spent and kept together with it.

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::contract::DryRun;
use mcpproxy_core::decision::{Claim, PriorState, Repeat};
use mcpproxy_core::json::members;
use mcpproxy_core::settings::Durability;
use mcpproxy_core::{
    ApprovalRef, ApprovalState, Arguments, Attached, Declared, Denial, Intent, Mode, Permit, Tool, Variant,
};
use mcpproxy_store::{NewRecord, OpenRecord, Status, Step, StoreError, StoredApproval, Wait};

use super::refuse;
use crate::ask::{Returned, Said};
use crate::downstream::Caller;
use crate::gateway::Inner;
use crate::judge::Judged;
use crate::record::{self, Asking, now_ms};
use crate::repeats::{self, Earlier};
use crate::sensitive::Sensitive;
use crate::snapshot::Snapshot;
use crate::upstream::{Passage, Reply, UpstreamError};
use crate::{crash::crash_point, dry_run};

/// How often a name of a call is tried for that others hold and give back.
const CLAIMS_MAX: usize = 3;

impl Said {
    /// What a call says besides its subject. What of it is for the server becomes part of what is decided on.
    pub(super) async fn of(
        gateway: &Inner,
        caller: &Caller,
        declared: &mut Declared,
        passage: &mut Passage<'_>,
    ) -> Result<Self, StoreError> {
        let returned = Returned::take(gateway, caller, &declared.arguments, passage).await?;
        let carried = returned.as_ref().and_then(|returned| returned.carried.as_deref());
        declared.attached = passage.detach(&carried.and_then(members).unwrap_or_default());
        let (approval, idempotency_key) = (declared.approval.clone(), declared.idempotency_key.clone());
        Ok(Self { approval, idempotency_key, returned })
    }
}

/// What the store knows of a call beforehand. Most calls have nothing to look up, and nothing is.
pub(super) async fn look_up(
    gateway: &Inner,
    caller: &Caller,
    declared: &Declared,
    said: &Said,
    tool: Option<&Arc<Tool>>,
) -> Result<PriorState, StoreError> {
    let mut seen = PriorState::default();
    let Some(tool) = tool.filter(|tool| declared.mode_of(tool) == Mode::Real) else { return Ok(seen) };
    if matches!(tool.contract.dry_run.value, DryRun::Required { .. }) {
        let made = declared.dry_run_binding(&caller.agent, tool);
        seen.dry_run_ms = gateway.store.find_dry_run(&made.digest()).await?.map(|found| found.at_ms);
        if let (Some(at_ms), Some(id)) = (seen.dry_run_ms, said.names()) {
            let asked = gateway.store.find_approval(id).await?;
            let same = asked.filter(|asked| is_about(asked, caller, tool, declared));
            // What was fresh when a user was asked stays so until the user has answered.
            let waited_ms = same.map_or(0, |asked| (now_ms() - asked.created_ms).max(0));
            // One that was made since is as fresh as it is.
            seen.dry_run_ms = Some((at_ms + waited_ms).min(now_ms()));
        }
    }
    // What is wrong with a name of a call is said by the decision, in its turn.
    if let Ok(Some(claim)) = declared.claim(tool) {
        seen.is_repeat = repeats::is_taken(gateway, caller, &tool.name, &claim).await?;
    }
    Ok(seen)
}

/// Whether an approval that an agent names is open, and about this very call.
fn is_about(asked: &StoredApproval, caller: &Caller, tool: &Tool, declared: &Declared) -> bool {
    matches!(asked.state, ApprovalState::Pending | ApprovalState::Approved)
        && asked.agent == caller.agent.name
        && asked.tool == tool.name
        && asked.args_digest == declared.arguments.digest()
        && asked.attached_digest == declared.attached.digest()
}

/// A call that is about to be made.
pub(super) struct Call<'a> {
    pub(super) tool: Arc<Tool>,
    caller: &'a Caller,
    sensitive: Sensitive,
    wait: Wait,
    /// What most calls do without.
    more: Option<Box<More>>,
}

/// What is spent or kept together with the record of a call.
struct More {
    intent: Intent,
    word: Option<ApprovalRef>,
    claim: Option<Claim>,
    /// What a dry run sends, if it is one.
    rehearsed: Option<(Arguments, Attached)>,
    /// How long the server has for an answer.
    longest: Duration,
}

/// Why a record was not opened although it could have been.
pub(super) enum Taken {
    Reply(Reply),
    Refused(Denial),
}

impl<'a> Call<'a> {
    pub(super) fn of(snapshot: &Snapshot, caller: &'a Caller, permit: &Permit) -> Self {
        let tool = Arc::clone(permit.tool());
        let sensitive = Sensitive::of(&tool, permit.arguments().as_str());
        let more = More::of(snapshot, permit).map(Box::new);
        Self { caller, sensitive, wait: durability(snapshot, permit), more, tool }
    }

    /// Opens the record, and spends what the permit rests on with it.
    pub(super) async fn open(
        &self,
        gateway: &Inner,
        permit: &Permit,
        passage: &Passage<'_>,
    ) -> Result<Result<OpenRecord, Taken>, StoreError> {
        let started = record::of_permit(permit, &self.caller.agent, self.caller.client.as_deref(), &self.sensitive);
        match &self.more {
            Some(more) if more.word.is_some() || more.claim.is_some() => {
                Box::pin(self.open_and_spend(gateway, started, more, passage)).await
            }
            Some(_) | None => gateway.ledger.open(started, self.wait).await.map(Ok),
        }
    }

    async fn open_and_spend(
        &self,
        gateway: &Inner,
        started: NewRecord,
        more: &More,
        passage: &Passage<'_>,
    ) -> Result<Result<OpenRecord, Taken>, StoreError> {
        let mut given_back = None;
        for _ in 0..CLAIMS_MAX {
            let word = more.word.as_ref().map(spend);
            let claim = more.claim.as_ref().map(|claim| repeats::claim_step(self.caller, &self.tool.name, claim));
            let steps: Vec<Step> = word.into_iter().chain(given_back.take()).chain(claim).collect();
            if let Ok(open) = gateway.ledger.open_if(started.clone(), steps).await? {
                return Ok(Ok(open));
            }
            // Without a name for the call, it is the word that was spent by another.
            let Some(claim) = &more.claim else { break };
            let asked = repeats::Asked { tool: &self.tool, intent: &more.intent, claim };
            match repeats::earlier(gateway, self.caller, asked, passage, more.longest).await? {
                Earlier::Reply(reply) => return Ok(Err(Taken::Reply(reply))),
                Earlier::Refused(denial) => return Ok(Err(Taken::Refused(denial))),
                Earlier::Free(step) => given_back = step,
            }
        }
        Ok(Err(Taken::Refused(lost(gateway, more.word.as_ref()).await?)))
    }

    /// Writes how the call ended, and with it what is kept of the answer.
    pub(super) async fn close(
        &self,
        gateway: &Inner,
        open: OpenRecord,
        judged: &Judged,
        took: Duration,
    ) -> Result<(), StoreError> {
        let outcome = judged.outcome(&self.tool, &self.sensitive, took);
        crash_point("before_close");
        let steps = self.more.as_ref().map(|more| self.kept(more, judged)).unwrap_or_default();
        if steps.is_empty() {
            return gateway.ledger.close(open, outcome, self.wait).await;
        }
        Box::pin(gateway.ledger.close_with(open, outcome, Wait::Durable, steps)).await
    }

    fn kept(&self, more: &More, judged: &Judged) -> Vec<Step> {
        let kept = judged.kept(&self.tool);
        let claim = more.claim.as_ref();
        let claim = claim.and_then(|claim| repeats::end_step(self.caller, &self.tool.name, claim, &kept));
        let rehearsed = more.rehearsed.as_ref().zip(kept.of_dry_run());
        let rehearsed = rehearsed.map(|((arguments, attached), result)| {
            let declared = Declared::plain(self.tool.name.clone(), more.intent.clone(), arguments.clone());
            let declared = Declared { attached: attached.clone(), ..declared };
            dry_run::keep(self.caller, &self.tool, &declared, dry_run::Made::Server(result))
        });
        claim.into_iter().chain(rehearsed).collect()
    }

    /// What is said beside the answer to a dry run.
    pub(super) fn rehearsal_mark(&self) -> Option<(&'static str, String)> {
        let is_rehearsal = self.more.as_ref().is_some_and(|more| more.rehearsed.is_some());
        is_rehearsal.then(|| dry_run::mark(&self.tool))
    }
}

impl More {
    fn of(snapshot: &Snapshot, permit: &Permit) -> Option<Self> {
        if permit.word().is_none() && permit.claim().is_none() && !permit.is_dry_run() {
            return None;
        }
        let server = snapshot.servers.get(permit.tool().name.server());
        Some(Self {
            intent: permit.intent().clone(),
            word: permit.word().cloned(),
            claim: permit.claim().cloned(),
            rehearsed: permit.is_dry_run().then(|| (permit.arguments().clone(), permit.attached().clone())),
            longest: server.map_or(Duration::ZERO, |server| server.settings.call_timeout),
        })
    }
}

/// The word was spent by somebody else, or taken back, between the decision and the record.
async fn lost(gateway: &Inner, word: Option<&ApprovalRef>) -> Result<Denial, StoreError> {
    let Some(ApprovalRef::Approval(id)) = word else { return Ok(Denial::ApprovalStale) };
    match gateway.store.find_approval(id).await? {
        Some(found) => crate::ask::over(gateway, &found).await,
        None => Ok(Denial::NoSuchApproval),
    }
}

fn spend(word: &ApprovalRef) -> Step {
    match word {
        ApprovalRef::Approval(id) => Step::Consume { id: id.clone(), now_ms: now_ms() },
        ApprovalRef::StandingApproval(id) => Step::Use { id: id.clone(), now_ms: now_ms() },
    }
}

/// Writes and destructive calls are on disk before they are sent; reads need not be.
fn durability(snapshot: &Snapshot, permit: &Permit) -> Wait {
    match (snapshot.settings.activity.durability, permit.intent().variant) {
        (Durability::Writes, Variant::Read) => Wait::Batched,
        (Durability::Writes, Variant::Write | Variant::Destructive) | (Durability::All, _) => Wait::Durable,
    }
}

/// A call that was made before.
pub(super) async fn repeated(
    gateway: &Inner,
    caller: &Caller,
    snapshot: &Snapshot,
    repeat: &Repeat,
    passage: &Passage<'_>,
    asking: &Asking<'_>,
) -> Reply {
    let server = snapshot.servers.get(repeat.tool.name.server());
    let longest = server.map_or(Duration::ZERO, |server| server.settings.call_timeout);
    let asked = repeats::Asked { tool: &repeat.tool, intent: &repeat.intent, claim: &repeat.claim };
    match repeats::earlier(gateway, caller, asked, passage, longest).await {
        Ok(Earlier::Reply(reply)) => reply,
        Ok(Earlier::Refused(denial)) => refuse(gateway, caller, snapshot, &denial, asking).await,
        // It was given back since: as a new call it needs all that a new call needs.
        Ok(Earlier::Free(_)) => {
            let error = UpstreamError::Unavailable("the call that this one repeats was not made".to_owned());
            let record = record::of_tool(&repeat.tool, &repeat.intent, &caller.agent, caller.client.as_deref());
            let record = NewRecord {
                status: Status::Error,
                code: Some(error.code().to_owned()),
                message: Some(error.to_string()),
                ..record
            };
            let record = record::note(&gateway.ledger, record).await;
            super::failed(&repeat.tool.name, &error, record)
        }
        Err(error) => super::unrecorded(&error),
    }
}
