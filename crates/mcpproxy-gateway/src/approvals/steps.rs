//! Steps in the life of an approval request, each with its record.

use mcpproxy_core::{ApprovalId, Assurance, Variant};
use mcpproxy_store::{
    Conditional, Kind, NewApproval, NewRecord, RecordId, Status, Step, StoreError, StoredApproval, WaitFor,
};
use serde_json::{Value, json};

use super::{ApprovalDetails, ApprovalNotice, Approvals, DecisionResult, StatedRisk};
use crate::record::{RISK_SAID_BY, blank, now_ms};
use crate::said_by::SaidBy;

/// Longest comment of a user to an agent.
const COMMENT_MAX_CHARS: usize = 1000;

impl Approvals {
    /// Creates a request, unless the agent has too many pending or the same one.
    pub(crate) async fn request(
        &self,
        new: NewApproval,
        with: Option<Step>,
    ) -> Result<Conditional<RecordId>, StoreError> {
        let about = ApprovalDetails::read(&new.about);
        let notice = ApprovalNotice {
            id: new.id.clone(),
            agent: new.agent.clone(),
            tool: new.tool.to_string(),
            risk: StatedRisk::new(new.risk, &about),
            url: self.url(&new.id),
            expires_ms: new.expires_ms,
        };
        let record = NewRecord {
            agent: Some(new.agent.clone()),
            client: new.client.clone(),
            server: Some(new.tool.server().to_string()),
            tool: Some(new.tool.tool().to_owned()),
            is_known_tool: true,
            intent_type: Some(new.variant),
            risk: new.risk,
            code: Some("approval_requested".to_owned()),
            metadata: metadata(&new.id, new.variant, &about, json!({"least": new.least.as_str()})),
            ..blank(Kind::Approval, Status::Success)
        };
        let steps = [Step::RequestApproval(Box::new(new))].into_iter().chain(with).collect();
        let requested = self.shared.ledger.append_if(record, steps).await?;
        if requested.is_written() {
            self.has_changed();
            // There may be no listener.
            let _listeners = self.shared.requested.send(notice);
        }
        Ok(requested)
    }

    /// Approves by a form in the agent's own client. `client` names that client, as `DeniedBy::client` writes it.
    pub(crate) async fn approve_by_form(&self, id: &ApprovalId, client: &str) -> Result<DecisionResult, StoreError> {
        self.approve_as(id, client, Assurance::Form).await
    }

    /// Denies by a form in the agent's own client. A denial needs no proof.
    pub(crate) async fn deny_by_form(&self, id: &ApprovalId, client: &str) -> Result<DecisionResult, StoreError> {
        self.deny_as(id, client, None).await
    }

    /// Records that the client answered an approval prompt without showing it. The request stays pending.
    pub(crate) async fn not_shown(&self, approval: &StoredApproval, client: &str) -> Result<(), StoreError> {
        let record = NewRecord {
            message: Some(format!(
                "The {client} declined the approval prompt and may not have shown it. The request stays pending."
            )),
            ..of_step(approval, "approval_not_shown", Status::Error, json!({"by": client}))
        };
        self.shared.ledger.append(record, WaitFor::Queue).await.map(drop)
    }

    /// Cancels a request, because the call it was for has changed.
    pub(crate) async fn cancel(&self, approval: &StoredApproval, why: &str) -> Result<(), StoreError> {
        let record = NewRecord {
            message: Some(why.to_owned()),
            ..of_step(approval, "approval_cancelled", Status::Cancelled, json!({}))
        };
        let step = Step::Cancel { id: approval.id.clone(), now_ms: now_ms() };
        let _was_over_already = self.shared.ledger.append_if(record, vec![step]).await?;
        self.has_changed();
        Ok(())
    }

    /// Records that a request has expired.
    pub(super) async fn expire(&self, id: &ApprovalId) -> Result<(), StoreError> {
        let Some(approval) = self.shared.store.find_approval(id).await? else { return Ok(()) };
        let record = of_step(&approval, "approval_expired", Status::Cancelled, json!({}));
        let step = Step::Expire { id: id.clone(), now_ms: now_ms() };
        if self.shared.ledger.append_if(record, vec![step]).await?.is_written() {
            self.has_changed();
        }
        Ok(())
    }
}

pub(super) fn approved(approval: &StoredApproval, by: &str, given: Assurance) -> NewRecord {
    of_step(approval, "approval_approved", Status::Success, json!({"by": by, "given": given.as_str()}))
}

pub(super) fn denied(approval: &StoredApproval, by: &str, comment: Option<&str>) -> NewRecord {
    let more = match comment {
        Some(comment) => json!({"by": by, "comment": comment}),
        None => json!({"by": by}),
    };
    of_step(approval, "approval_denied", Status::Refused, more)
}

fn of_step(approval: &StoredApproval, code: &str, status: Status, more: Value) -> NewRecord {
    NewRecord {
        agent: Some(approval.agent.clone()),
        server: Some(approval.tool.server().to_string()),
        tool: Some(approval.tool.tool().to_owned()),
        is_known_tool: true,
        intent_type: Some(approval.variant),
        risk: approval.risk,
        code: Some(code.to_owned()),
        metadata: metadata(&approval.id, approval.variant, &ApprovalDetails::of(approval), more),
        ..blank(Kind::Approval, status)
    }
}

/// Builds the metadata of a step: the request, the intent of the call it is for, and more.
pub(super) fn metadata(id: &ApprovalId, variant: Variant, about: &ApprovalDetails, more: Value) -> String {
    let mut metadata = json!({"approval_id": id.as_str(), "tool_variant": variant.tool()});
    if let (Some(metadata), Value::Object(more)) = (metadata.as_object_mut(), more) {
        metadata.insert("intent".to_owned(), intent(variant, about));
        if let Some(category) = about.text("category") {
            metadata.insert("category".to_owned(), category.into());
        }
        if let Some(said_by) = about.said_by("risk").filter(|said_by| *said_by != SaidBy::Operator) {
            metadata.insert(RISK_SAID_BY.to_owned(), said_by.as_str().into());
        }
        metadata.extend(more);
    }
    metadata.to_string()
}

/// Returns the intent that the agent declared with the call.
pub(super) fn intent(variant: Variant, about: &ApprovalDetails) -> Value {
    let mut intent = json!({"operation_type": variant.operation()});
    if let Some(intent) = intent.as_object_mut() {
        for (name, key) in [("data_sensitivity", "sensitivity"), ("reason", "reason")] {
            intent.extend(about.text(key).map(|text| (name.to_owned(), text.into())));
        }
    }
    intent
}

/// Cuts a comment to its longest length.
pub(super) fn comment(text: &str) -> String {
    text.chars().take(COMMENT_MAX_CHARS).collect()
}
