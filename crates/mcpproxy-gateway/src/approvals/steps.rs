//! The steps of approvals that the gateway itself takes, and the record of each.

use mcpproxy_core::{ApprovalId, Assurance};
use mcpproxy_store::{Kind, Lost, NewApproval, NewRecord, RecordId, Status, Step, StoreError, StoredApproval};
use serde_json::{Value, json};

use super::{About, Approvals, Asked, Level, NotDecided};
use crate::record::{blank, now_ms};

/// Longest word of a user to an agent.
const COMMENT_MAX_CHARS: usize = 1000;

impl Approvals {
    /// Asks, unless the agent has too many open questions or this very one.
    pub(crate) async fn ask(&self, new: NewApproval, with: Option<Step>) -> Result<Result<RecordId, Lost>, StoreError> {
        let about = Asked {
            id: new.id.clone(),
            agent: new.agent.clone(),
            tool: new.tool.to_string(),
            level: Level::new(new.risk, &About::read(&new.about)),
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
            metadata: json!({"approval_id": new.id.as_str(), "least": new.least.as_str()}).to_string(),
            ..blank(Kind::Approval, Status::Success)
        };
        let steps = [Step::Ask(Box::new(new))].into_iter().chain(with).collect();
        let asked = self.shared.ledger.note_if(record, steps).await?;
        if asked.is_ok() {
            self.has_changed();
            // Nobody may be listening.
            let _listeners = self.shared.asked.send(about);
        }
        Ok(asked)
    }

    /// A yes in a form of the agent's own client.
    pub(crate) async fn approve_by_form(
        &self,
        id: &ApprovalId,
        agent: &str,
    ) -> Result<Result<StoredApproval, NotDecided>, StoreError> {
        self.say_yes(id, &in_client(agent), Assurance::Form).await
    }

    /// A no there. A no counts wherever it is said.
    pub(crate) async fn deny_by_form(
        &self,
        id: &ApprovalId,
        agent: &str,
        comment: Option<&str>,
    ) -> Result<Result<StoredApproval, NotDecided>, StoreError> {
        self.say_no(id, &in_client(agent), comment).await
    }

    /// What was asked has become another question, or none.
    pub(crate) async fn cancel(&self, approval: &StoredApproval, why: &str) -> Result<(), StoreError> {
        let record = NewRecord {
            message: Some(why.to_owned()),
            ..of_step(approval, "approval_cancelled", Status::Cancelled, json!({}))
        };
        let step = Step::Cancel { id: approval.id.clone(), now_ms: now_ms() };
        let _was_over_already = self.shared.ledger.note_if(record, vec![step]).await?;
        self.has_changed();
        Ok(())
    }

    /// Writes down that a question's time is over.
    pub(super) async fn expire(&self, id: &ApprovalId) -> Result<(), StoreError> {
        let Some(approval) = self.shared.store.find_approval(id).await? else { return Ok(()) };
        let record = of_step(&approval, "approval_expired", Status::Cancelled, json!({}));
        let step = Step::Expire { id: id.clone(), now_ms: now_ms() };
        if self.shared.ledger.note_if(record, vec![step]).await?.is_ok() {
            self.has_changed();
        }
        Ok(())
    }
}

fn in_client(agent: &str) -> String {
    format!("{agent}'s client")
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
    let mut metadata = json!({"approval_id": approval.id.as_str()});
    if let (Some(metadata), Value::Object(more)) = (metadata.as_object_mut(), more) {
        metadata.extend(more);
    }
    NewRecord {
        agent: Some(approval.agent.clone()),
        server: Some(approval.tool.server().to_string()),
        tool: Some(approval.tool.tool().to_owned()),
        is_known_tool: true,
        intent_type: Some(approval.variant),
        risk: approval.risk,
        code: Some(code.to_owned()),
        metadata: metadata.to_string(),
        ..blank(Kind::Approval, status)
    }
}

/// As long as a comment may be.
pub(super) fn comment(text: &str) -> String {
    text.chars().take(COMMENT_MAX_CHARS).collect()
}
