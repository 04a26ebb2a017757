//! Standing grants: a user's word for more than one call, within limits.

use mcpproxy_core::{Digest, ToolName, Untrusted};

use crate::{Store, StoreError};

#[derive(Clone, Debug)]
pub struct NewStandingApproval {
    pub id: String,
    pub agent: String,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    /// Arguments must fit this JSON Schema.
    pub schema: String,
    pub by: String,
    pub reason: Option<String>,
    pub created_ms: i64,
    pub expires_ms: i64,
    pub uses: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredStandingApproval {
    pub id: String,
    pub agent: String,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    pub schema: String,
    pub by: String,
    pub reason: Option<Untrusted>,
    pub created_ms: i64,
    pub expires_ms: i64,
    pub uses: u32,
    pub uses_left: u32,
    pub revoked_ms: Option<i64>,
    pub revoked_by: Option<String>,
}

impl StoredStandingApproval {
    /// Whether it can still be used.
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.revoked_ms.is_none() && self.expires_ms > now_ms && self.uses_left > 0
    }
}

impl Store {
    /// Newest first; those that are revoked, expired or used up only when asked for.
    pub async fn list_grants(
        &self,
        include_over: bool,
        now_ms: i64,
    ) -> Result<Vec<StoredStandingApproval>, StoreError> {
        let mut grants = self.database().grants().await?;
        grants.retain(|grant| include_over || grant.is_live(now_ms));
        Ok(grants)
    }

    /// Those that could let a call of this agent through, the one that ends first first.
    pub async fn grants_for(
        &self,
        agent: &str,
        tool: &ToolName,
        now_ms: i64,
    ) -> Result<Vec<StoredStandingApproval>, StoreError> {
        let mut grants = self.database().grants_for(agent, tool, now_ms).await?;
        grants.retain(|grant| grant.is_live(now_ms));
        Ok(grants)
    }

    pub async fn find_grant(&self, id: &str) -> Result<Option<StoredStandingApproval>, StoreError> {
        self.database().grant(id).await
    }
}
