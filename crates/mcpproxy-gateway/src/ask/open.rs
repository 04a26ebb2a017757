//! The approval a call is about: the one it names, one that is open for the very same call, or a new one.

use mcpproxy_core::contract::Source;
use mcpproxy_core::{ApprovalId, ApprovalState, Binding, Denial, Intent, Sensitivity, mask};
use mcpproxy_store::{Lost, NewApproval, NewDryRun, Step, StoredApproval};
use serde_json::{Value, json};
use ulid::Ulid;

use super::{Asking, Unanswered};
use crate::approvals::{SaidBy, hidden};
use crate::record::now_ms;
use crate::repeats;
use crate::sensitive::Sensitive;
use crate::snapshot::Snapshot;

/// Questions of one agent that nobody has answered yet.
const PENDING_MAX: u32 = 20;

/// A new name, in the order of time.
pub(crate) fn new_id(now_ms: i64) -> ApprovalId {
    let id = Ulid::from_parts(u64::try_from(now_ms).unwrap_or_default(), rand::random());
    // A ULID is 26 characters of that very alphabet.
    ApprovalId::parse(&id.to_string()).unwrap_or_else(|| new_id(now_ms))
}

impl Asking<'_> {
    pub(super) async fn open(&self, snapshot: &Snapshot) -> Result<StoredApproval, Unanswered> {
        match self.said.names() {
            Some(id) => self.find_named(id).await,
            None if self.said.returned.is_some() => Err(Denial::NoSuchApproval.into()),
            None => self.find_or_ask(snapshot).await,
        }
    }

    /// The approval a call names must be this agent's, and about this very call.
    async fn find_named(&self, id: &ApprovalId) -> Result<StoredApproval, Unanswered> {
        let tool = self.question.tool();
        let found = self.gateway.store.find_approval(id).await?;
        let own = found.filter(|found| found.agent == self.caller.agent.name && found.tool == tool.name);
        let Some(found) = own else {
            return Err(Denial::NoSuchApproval.into());
        };
        let binding = self.question.binding(&self.caller.agent);
        let is_same = found.args_digest == binding.arguments && found.attached_digest == binding.attached;
        if !is_same || found.variant != binding.variant {
            return Err(Denial::ApprovalArgsMismatch.into());
        }
        let is_over = !matches!(found.state, ApprovalState::Pending | ApprovalState::Approved);
        if !is_over && found.binding != binding.digest() {
            self.gateway.approvals.cancel(&found, "the tool or its contract changed").await?;
            return Err(Denial::ApprovalStale.into());
        }
        Ok(found)
    }

    /// Identical calls share one question, so that a user is asked once.
    async fn find_or_ask(&self, snapshot: &Snapshot) -> Result<StoredApproval, Unanswered> {
        let store = &self.gateway.store;
        let binding = self.question.binding(&self.caller.agent);
        if let Some(open) = store.find_open_approval(&binding.digest(), now_ms()).await? {
            return Ok(open);
        }
        self.unless_made().await?;
        if let Some(denied) = self.denied_lately(&binding).await? {
            return Ok(denied);
        }
        let new = self.new_approval(snapshot, &binding);
        let id = new.id.clone();
        match self.gateway.approvals.ask(new, self.rehearsed(&binding).await?).await? {
            Ok(_) => store.find_approval(&id).await?.ok_or_else(|| Denial::NoSuchApproval.into()),
            // Somebody asked the same a moment ago, or there are too many.
            Err(Lost(_)) => match store.find_open_approval(&binding.digest(), now_ms()).await? {
                Some(open) => Ok(open),
                None => Err(Denial::TooManyApprovals { most: PENDING_MAX }.into()),
            },
        }
    }

    /// The yes there was may have been used for the same call a moment ago: who gets its answer needs to ask nobody.
    pub(super) async fn unless_made(&self) -> Result<(), Unanswered> {
        match self.question.as_repeat() {
            Some(repeat) if repeats::is_taken(self.gateway, self.caller, &repeat.tool.name, &repeat.claim).await? => {
                Err(Unanswered::Repeats(repeat))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Who has said no is not asked the same again until the question would have ended by itself: else an agent would only
    /// have to ask often enough.
    async fn denied_lately(&self, binding: &Binding) -> Result<Option<StoredApproval>, Unanswered> {
        Ok(self.gateway.store.find_denied_approval(&binding.digest(), now_ms()).await?)
    }

    /// A dry run that was made with other words for the same call, to be shown beside the question.
    async fn rehearsed(&self, binding: &Binding) -> Result<Option<Step>, Unanswered> {
        let question = &self.question;
        let made = question.dry_run_binding(&self.caller.agent);
        if made == *binding {
            return Ok(None);
        }
        let found = self.gateway.store.find_dry_run(&made.digest()).await?;
        Ok(found.map(|found| {
            Step::KeepDryRun(Box::new(NewDryRun {
                binding: binding.digest(),
                agent: self.caller.agent.name.clone(),
                tool: question.tool().name.to_string(),
                preview: found.preview.for_json().to_owned(),
                is_native: found.is_native,
                at_ms: found.at_ms,
            }))
        }))
    }

    fn new_approval(&self, snapshot: &Snapshot, binding: &Binding) -> NewApproval {
        let settings = &snapshot.settings.approvals;
        let agent = &self.caller.agent;
        let tool = self.question.tool();
        let (args, attached) = (self.question.arguments().as_str(), self.question.attached().as_str());
        let sensitive = Sensitive::of(tool, args);
        let now_ms = now_ms();
        let lasts = if agent.scope.headless { settings.headless_expire } else { settings.expire };
        let (id, shown) = (new_id(now_ms), sensitive.shown(args));
        NewApproval {
            about: self.about(hidden(&id, &shown, args)).to_string(),
            id,
            binding: binding.digest(),
            agent: agent.name.clone(),
            client: self.caller.client.clone(),
            tool: tool.name.clone(),
            pin: binding.pin,
            contract: binding.contract,
            variant: binding.variant,
            risk: tool.contract.risk(),
            least: self.question.least().max(settings.channel(&tool.contract).least()),
            args: args.to_owned(),
            args_digest: binding.arguments,
            shown_args: shown,
            attached: attached.map(str::to_owned),
            attached_digest: binding.attached,
            shown_attached: attached.map(|attached| sensitive.shown_attached(attached)),
            created_ms: now_ms,
            expires_ms: now_ms + i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX / 2),
            most: PENDING_MAX,
        }
    }

    /// What a page tells about the call besides its arguments.
    fn about(&self, hidden: Value) -> Value {
        let tool = self.question.tool();
        let contract = &tool.contract;
        let Intent { variant, sensitivity, reason } = self.question.intent();
        let description = contract.description.as_ref().map_or(&tool.offered.description, |one| &one.value);
        let said_by = |source: Option<&Source>| source.and_then(SaidBy::of).map(SaidBy::as_str);
        let reason = reason.as_ref().map(|reason| mask(reason.for_json(), &[]).into_owned());
        json!({
            "description": description.for_json(),
            "category": contract.category.as_ref().map(|one| &one.value),
            "side_effects": contract.side_effects.value.iter().map(|one| one.for_json()).collect::<Vec<_>>(),
            "audit_event": contract.audit_event.as_ref().map(|one| &one.value),
            "permissions": contract.permissions.value,
            "asked_by": self.question.asked_by(),
            "needs_step_up": self.question.needs_step_up(),
            "call_with": variant.tool(),
            "reason": reason,
            "sensitivity": sensitivity.map(Sensitivity::as_str),
            "said_by": {
                // Without a contract it is what the server lists.
                "description": said_by(Some(contract.description.as_ref().map_or(&Source::Server, |one| &one.source))),
                "risk": said_by(contract.risk.as_ref().map(|one| &one.source)),
                "side_effects": said_by(Some(&contract.side_effects.source)),
                "audit_event": said_by(contract.audit_event.as_ref().map(|one| &one.source)),
                "permissions": said_by(Some(&contract.permissions.source)),
            },
            "hidden": hidden,
        })
    }
}
