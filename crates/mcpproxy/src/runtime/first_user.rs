//! The setup link, which creates the first user account.

use mcpproxy_store::Store;

use super::Runtime;
use crate::home::secret::random_bytes;
use crate::terminal::time::now_ms;

/// The link is valid for one hour.
const LINK_MS: i64 = 60 * 60 * 1000;
/// A repeated link is valid for at least this long. Otherwise a new one is made.
const LEFT_MS: i64 = 10 * 60 * 1000;

/// Makes setup links.
///
/// A link is printed only on standard error of the gateway. Opening it creates a user, so no agent may read it.
pub(crate) struct FirstUser {
    store: Store,
    base_url: String,
    last: Option<SetupLink>,
}

struct SetupLink {
    url: String,
    until_ms: i64,
}

impl FirstUser {
    pub(crate) fn of(runtime: &Runtime) -> Self {
        Self { store: runtime.store.clone(), base_url: runtime.base_url.clone(), last: None }
    }

    /// Returns a setup link, or `None` if a user already exists.
    pub(crate) async fn link(&mut self) -> anyhow::Result<Option<String>> {
        if self.store.has_users().await? {
            return Ok(None);
        }
        let now_ms = now_ms();
        if let Some(last) = self.last.as_ref().filter(|last| last.until_ms - now_ms > LEFT_MS) {
            return Ok(Some(last.url.clone()));
        }
        let secret = self.store.invite(random_bytes()?, None, now_ms, LINK_MS).await?;
        let link = format!("{}/ui/setup/{secret}", self.base_url);
        self.last = Some(SetupLink { url: link.clone(), until_ms: now_ms + LINK_MS });
        Ok(Some(link))
    }
}

/// Printed with the link when the gateway starts.
pub(crate) const SETUP: &str = "No approver account exists yet. Create one within an hour at";
/// Printed with the link after an approval request, when less of the hour may be left.
pub(crate) const SETUP_AGAIN: &str = "No approver account exists yet. Create one at";
