//! Approvals: questions to users, as they are asked, and as they are read back.

use mcpproxy_core::{Approval, ApprovalId, ApprovalState, Assurance, Digest, RiskLevel, ToolName, Untrusted, Variant};

use crate::{LIMIT_MAX, RecordId, Store, StoreError};

/// A question to be asked. Times and the id are handed in.
#[derive(Clone, Debug)]
pub struct NewApproval {
    pub id: ApprovalId,
    /// Of everything that the answer will be about.
    pub binding: Digest,
    pub agent: String,
    /// The program behind the agent, such as `cursor 1.2`.
    pub client: Option<String>,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    pub variant: Variant,
    pub risk: Option<RiskLevel>,
    /// The weakest answer that counts.
    pub least: Assurance,
    /// The exact bytes to be sent. They are erased as soon as nothing can be sent any more.
    pub args: String,
    pub args_digest: Digest,
    /// The arguments without secrets, for people.
    pub shown_args: String,
    /// What goes to the server besides the arguments, in its exact bytes too.
    pub attached: Option<String>,
    pub attached_digest: Digest,
    pub shown_attached: Option<String>,
    /// JSON for whoever shows it to people.
    pub about: String,
    pub created_ms: i64,
    pub expires_ms: i64,
    /// An agent may have so many pending at once.
    pub most: u32,
}

/// An approval as it was read back. Whatever an agent, a server or a user may have worded is `Untrusted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredApproval {
    pub id: ApprovalId,
    pub binding: Digest,
    pub agent: String,
    pub client: Option<Untrusted>,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    pub variant: Variant,
    pub risk: Option<RiskLevel>,
    pub least: Assurance,
    /// Only of an approval that is pending or approved, and not in lists.
    pub args: Option<String>,
    pub args_digest: Digest,
    pub shown_args: Untrusted,
    /// As `args`, of what goes to the server besides; `None` if nothing does.
    pub attached: Option<String>,
    pub attached_digest: Digest,
    pub shown_attached: Option<Untrusted>,
    pub about: Untrusted,
    pub created_ms: i64,
    pub expires_ms: i64,
    pub state: ApprovalState,
    pub given: Option<Assurance>,
    /// Who approved or denied it last.
    pub decided_by: Option<String>,
    pub decided_ms: Option<i64>,
    pub comment: Option<Untrusted>,
    /// The call it was used for.
    pub record: Option<RecordId>,
    pub consumed_ms: Option<i64>,
}

/// What an approval must have to be listed; `None` is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    pub state: Option<ApprovalState>,
    pub agent: Option<String>,
    /// In full, `server:tool`.
    pub tool: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ApprovalPage {
    /// Newest first.
    pub approvals: Vec<StoredApproval>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl StoredApproval {
    /// As far as decisions are concerned.
    pub fn approval(&self) -> Approval {
        Approval {
            id: self.id.clone(),
            binding: self.binding,
            state: self.state,
            given: self.given,
            expires_ms: self.expires_ms,
        }
    }
}

impl Store {
    pub async fn find_approval(&self, id: &ApprovalId) -> Result<Option<StoredApproval>, StoreError> {
        self.database().approval(id).await
    }

    /// The one with this binding that is pending or approved, and not expired.
    pub async fn find_open_approval(
        &self,
        binding: &Digest,
        now_ms: i64,
    ) -> Result<Option<StoredApproval>, StoreError> {
        self.database().open_approval(binding, now_ms).await
    }

    /// The one with this binding that was denied, and would not be over otherwise.
    pub async fn find_denied_approval(
        &self,
        binding: &Digest,
        now_ms: i64,
    ) -> Result<Option<StoredApproval>, StoreError> {
        self.database().denied_approval(binding, now_ms).await
    }

    /// The newest before the cursor, at most `limit` and never more than `LIMIT_MAX` of them. A page costs the same
    /// however many there are.
    pub async fn list_approvals(
        &self,
        filter: &ApprovalFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<ApprovalPage, StoreError> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let before = before.map(|cursor| ApprovalId::parse(cursor).ok_or(StoreError::Cursor)).transpose()?;
        // One more than asked for tells whether there is a next page.
        let mut approvals = self.database().approvals(filter, before.as_ref(), limit + 1).await?;
        let has_more = approvals.len() > limit;
        approvals.truncate(limit);
        let next = approvals.last().filter(|_| has_more).map(|last| last.id.to_string());
        Ok(ApprovalPage { approvals, next })
    }

    pub async fn count_pending(&self) -> Result<u64, StoreError> {
        self.database().count_pending().await
    }

    /// Those that are past their time and do not say so yet, the longest overdue first.
    pub async fn overdue_approvals(&self, now_ms: i64, limit: usize) -> Result<Vec<ApprovalId>, StoreError> {
        self.database().overdue_approvals(now_ms, limit).await
    }

    /// The newest one of this tool and agent that was used.
    pub async fn last_approved(&self, tool: &ToolName, agent: &str) -> Result<Option<StoredApproval>, StoreError> {
        let filter = ApprovalFilter {
            state: Some(ApprovalState::Consumed),
            agent: Some(agent.to_owned()),
            tool: Some(tool.to_string()),
        };
        Ok(self.database().approvals(&filter, None, 1).await?.pop())
    }

    /// A number that moves whenever an approval or a grant changes, by whichever process. Cheap enough to ask every second.
    pub async fn approvals_version(&self) -> Result<i64, StoreError> {
        self.database().approvals_version().await
    }
}
