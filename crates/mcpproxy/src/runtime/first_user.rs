//! The link with which somebody becomes the first user, for as long as there is none.

use mcpproxy_store::Store;

use super::Runtime;
use crate::home::secret::random_bytes;
use crate::terminal::time::now_ms;

/// An hour: long enough to do it now, too short to be found later.
const LINK_MS: i64 = 60 * 60 * 1000;
/// What is told again leaves so much time at least.
const LEFT_MS: i64 = 10 * 60 * 1000;

/// The link is shown to whoever starts the gateway, on standard error, and to nobody else: an agent that reads it is the user.
pub(crate) struct FirstUser {
    store: Store,
    base_url: String,
    made: Option<Made>,
}

struct Made {
    link: String,
    until_ms: i64,
}

impl FirstUser {
    pub(crate) fn of(runtime: &Runtime) -> Self {
        Self { store: runtime.store.clone(), base_url: runtime.base_url.clone(), made: None }
    }

    /// None when somebody can approve already.
    pub(crate) async fn link(&mut self) -> anyhow::Result<Option<String>> {
        if self.store.has_users().await? {
            return Ok(None);
        }
        let now_ms = now_ms();
        if let Some(made) = self.made.as_ref().filter(|made| made.until_ms - now_ms > LEFT_MS) {
            return Ok(Some(made.link.clone()));
        }
        let secret = self.store.invite(random_bytes()?, None, now_ms, LINK_MS).await?;
        let link = format!("{}/ui/setup/{secret}", self.base_url);
        self.made = Some(Made { link: link.clone(), until_ms: now_ms + LINK_MS });
        Ok(Some(link))
    }
}

/// When the gateway starts.
pub(crate) const WORDS: &str = "nobody can approve calls yet; become the first who can, within an hour, once:";
/// With a question, when less may be left of that hour.
pub(crate) const AGAIN: &str = "nobody can approve it yet; become the first who can, once:";
