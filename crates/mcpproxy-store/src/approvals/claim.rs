//! Claims: what an agent wants to be done once. And dry runs: what was tried before it is done.

use mcpproxy_core::{Digest, Untrusted};

use crate::{RecordId, Status, Store, StoreError};

/// The code of a record whose call was never sent. Its claim may be taken again.
pub(crate) const NOT_SENT: &str = "not_sent";

#[derive(Clone, Debug)]
pub struct NewClaim {
    pub agent: String,
    pub tool: String,
    pub key: String,
    pub args_digest: Digest,
    pub now_ms: i64,
    pub expires_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredClaim {
    pub args_digest: Digest,
    /// The call that took the key, and how far it has come.
    pub record: RecordId,
    pub status: Status,
    /// `false` when it is known that nothing was sent: then the key may be taken again.
    pub was_sent: bool,
    pub answer: Option<String>,
    pub expires_ms: i64,
}

#[derive(Clone, Debug)]
pub struct NewDryRun {
    pub binding: Digest,
    pub agent: String,
    pub tool: String,
    /// JSON without secrets.
    pub preview: String,
    /// Whether the server made it.
    pub is_native: bool,
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDryRun {
    pub preview: Untrusted,
    pub is_native: bool,
    pub at_ms: i64,
}

impl Store {
    /// The claim of this key, unless it has expired.
    pub async fn find_claim(
        &self,
        agent: &str,
        tool: &str,
        key: &str,
        now_ms: i64,
    ) -> Result<Option<StoredClaim>, StoreError> {
        self.database().claim([agent, tool, key], now_ms).await
    }

    /// The last dry run of exactly this call, however long ago.
    pub async fn find_dry_run(&self, binding: &Digest) -> Result<Option<StoredDryRun>, StoreError> {
        self.database().dry_run(binding).await
    }

    /// Removes what nobody will ask for again: expired claims, old dry runs, approvals that have been over for 30 days
    /// (never the newest one that was used, of each tool and agent), and what is left of sign-ins. Returns how many.
    pub async fn forget_expired(&self, now_ms: i64) -> Result<u64, StoreError> {
        self.database().forget_expired(now_ms).await
    }
}
