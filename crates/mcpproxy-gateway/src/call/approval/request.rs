//! Finds the approval for a call: the one it names, an open one for the same call, or a new one.

use mcpproxy_core::contract::Source;
use mcpproxy_core::{ApprovalId, ApprovalState, Binding, Denial, Intent, Sensitivity, mask};
use mcpproxy_store::{Conditional, NewApproval, NewDryRun, Step, StoredApproval};
use serde_json::{Value, json};

use super::{ApprovalFlow, Stopped};
use crate::approvals::{hidden, new_id};
use crate::call::claims::{self, Repeated};
use crate::record::now_ms;
use crate::said_by::SaidBy;
use crate::sensitive::Sensitive;
use crate::snapshot::Snapshot;

/// Limit on one agent's pending approval requests.
const PENDING_MAX: u32 = 20;

impl ApprovalFlow<'_> {
    pub(super) async fn open(&self, snapshot: &Snapshot) -> Result<StoredApproval, Stopped> {
        match self.extras.approval_named() {
            Some(id) => self.find_named(id).await,
            None if self.extras.returned.is_some() => Err(Denial::NoSuchApproval.into()),
            None => self.find_or_ask(snapshot).await,
        }
    }

    /// Finds the approval that the call names. It must be this agent's, and for exactly this call.
    async fn find_named(&self, id: &ApprovalId) -> Result<StoredApproval, Stopped> {
        let tool = self.request.tool();
        let found = self.state.store.find_approval(id).await?;
        let own = found.filter(|found| found.agent == self.agent.identity.name && found.tool == tool.name);
        let Some(found) = own else {
            return Err(Denial::NoSuchApproval.into());
        };
        let binding = self.request.binding(&self.agent.identity);
        let is_same = found.args_digest == binding.arguments && found.attached_digest == binding.attached;
        if !is_same || found.variant != binding.variant {
            return Err(Denial::ApprovalArgsMismatch.into());
        }
        let is_over = !matches!(found.state, ApprovalState::Pending | ApprovalState::Approved);
        if !is_over && found.binding != binding.digest() {
            if self.state.approvals.is_under_other_contract(&found).await? {
                return Err(Denial::ContractsDiffer { tool: tool.name.clone() }.into());
            }
            self.state.approvals.cancel(&found, "the tool or its contract changed").await?;
            return Err(Denial::ApprovalStale.into());
        }
        Ok(found)
    }

    /// Finds an open request for an identical call, or asks. Identical calls share one request.
    async fn find_or_ask(&self, snapshot: &Snapshot) -> Result<StoredApproval, Stopped> {
        let store = &self.state.store;
        let binding = self.request.binding(&self.agent.identity);
        if let Some(open) = store.find_open_approval(&binding.digest(), now_ms()).await? {
            return Ok(open);
        }
        self.stop_if_made().await?;
        if let Some(denied) = self.denied_lately(&binding).await? {
            return Ok(denied);
        }
        let new = self.new_approval(snapshot, &binding);
        let id = new.id.clone();
        match self.state.approvals.request(new, self.dry_run_copy(&binding).await?).await? {
            Conditional::Written(_) => store.find_approval(&id).await?.ok_or_else(|| Denial::NoSuchApproval.into()),
            // Another call has just requested the same approval, or too many requests are pending.
            Conditional::Conflict { .. } => match store.find_open_approval(&binding.digest(), now_ms()).await? {
                Some(open) => Ok(open),
                None => Err(Denial::TooManyApprovals { most: PENDING_MAX }.into()),
            },
        }
    }

    /// Stops if another call with the same idempotency key has used the approval. The agent then gets that call's
    /// answer.
    pub(super) async fn stop_if_made(&self) -> Result<(), Stopped> {
        match self.request.as_repeat() {
            Some(repeat) if claims::is_taken(self.state, self.agent, &repeat.tool.name, &repeat.claim).await? => {
                Err(Stopped::Repeated(Box::new(Repeated { repeat, extras: self.extras.clone() })))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Finds a recent denial. The same call is denied without asking until the request would have expired. Otherwise an
    /// agent only had to ask often enough.
    async fn denied_lately(&self, binding: &Binding) -> Result<Option<StoredApproval>, Stopped> {
        Ok(self.state.store.find_denied_approval(&binding.digest(), now_ms()).await?)
    }

    /// Copies a dry run that was made for the same call with another intent, to be shown with the request.
    async fn dry_run_copy(&self, binding: &Binding) -> Result<Option<Step>, Stopped> {
        let request = &self.request;
        let made = request.dry_run_binding(&self.agent.identity);
        if made == *binding {
            return Ok(None);
        }
        let found = self.state.store.find_dry_run(&made.digest()).await?;
        Ok(found.map(|found| {
            Step::SaveDryRun(Box::new(NewDryRun {
                binding: binding.digest(),
                agent: self.agent.identity.name.clone(),
                tool: request.tool().name.to_string(),
                preview: found.preview.for_json().to_owned(),
                is_native: found.is_native,
                at_ms: found.at_ms,
            }))
        }))
    }

    fn new_approval(&self, snapshot: &Snapshot, binding: &Binding) -> NewApproval {
        let settings = &snapshot.settings.approvals;
        let agent = &self.agent.identity;
        let tool = self.request.tool();
        let (args, attached) = (self.request.arguments().as_str(), self.request.attached().as_str());
        let sensitive = Sensitive::of(tool, args);
        let now_ms = now_ms();
        let lasts = if agent.scope.headless { settings.headless_expire } else { settings.expire };
        let (id, shown) = (new_id(now_ms), sensitive.shown(args));
        NewApproval {
            about: self.details(hidden(&id, &shown, args)).to_string(),
            id,
            binding: binding.digest(),
            agent: agent.name.clone(),
            client: self.agent.client.clone(),
            tool: tool.name.clone(),
            pin: binding.pin,
            contract: binding.contract,
            variant: binding.variant,
            risk: tool.contract.risk(),
            least: self.request.required_assurance().max(settings.channel(&tool.contract).least()),
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

    /// Builds what the web page shows besides the arguments.
    fn details(&self, hidden: Value) -> Value {
        let tool = self.request.tool();
        let contract = &tool.contract;
        let Intent { variant, sensitivity, reason, .. } = self.request.intent();
        let description = contract.description.as_ref().map_or(&tool.offered.description, |one| &one.value);
        let said_by = |source: Option<&Source>| source.and_then(SaidBy::of).map(SaidBy::as_str);
        let reason = reason.as_ref().map(|reason| mask(reason.for_json(), &[]).into_owned());
        json!({
            "description": description.for_json(),
            "category": contract.category.as_ref().map(|one| &one.value),
            "side_effects": contract.side_effects.value.iter().map(|one| one.for_json()).collect::<Vec<_>>(),
            "audit_event": contract.audit_event.as_ref().map(|one| &one.value),
            "permissions": contract.permissions.value,
            "asked_by": self.request.required_by(),
            "needs_step_up": self.request.needs_step_up(),
            "call_with": variant.tool(),
            "reason": reason,
            "sensitivity": sensitivity.map(Sensitivity::as_str),
            "said_by": {
                // Without a contract the description is the server's.
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
