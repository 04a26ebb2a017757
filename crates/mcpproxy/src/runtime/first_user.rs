//! The setup link, which creates the first user account.

use mcpproxy_store::Store;

use super::Runtime;
use crate::home::secret::random_bytes;
use crate::terminal::time::{clock, now_ms};

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

/// A setup link that is still valid.
#[derive(Clone)]
pub(crate) struct SetupLink {
    pub(crate) url: String,
    until_ms: i64,
}

impl SetupLink {
    /// Words what the link is for and how long it is valid. The link itself follows.
    pub(crate) fn sentence(&self) -> String {
        self.sentence_at(now_ms())
    }

    /// Names the time of day, because the line may be read long after it was printed.
    fn sentence_at(&self, now_ms: i64) -> String {
        format!("No approver account exists yet. Create one before {} at", clock(self.until_ms, now_ms))
    }
}

impl FirstUser {
    pub(crate) fn of(runtime: &Runtime) -> Self {
        Self { store: runtime.store.clone(), base_url: runtime.base_url.clone(), last: None }
    }

    /// Returns a setup link, or `None` if a user already exists.
    pub(crate) async fn link(&mut self) -> anyhow::Result<Option<SetupLink>> {
        if self.store.has_users().await? {
            return Ok(None);
        }
        let now_ms = now_ms();
        if let Some(last) = self.last.as_ref().filter(|last| last.until_ms - now_ms > LEFT_MS) {
            return Ok(Some(last.clone()));
        }
        let secret = self.store.invite(random_bytes()?, None, now_ms, LINK_MS).await?;
        let link = SetupLink { url: format!("{}/ui/setup/{secret}", self.base_url), until_ms: now_ms + LINK_MS };
        self.last = Some(link.clone());
        Ok(Some(link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_how_long_the_link_is_valid() {
        let link = SetupLink { url: String::new(), until_ms: LINK_MS };
        let expected = format!("No approver account exists yet. Create one before {} at", clock(LINK_MS, 0));
        assert_eq!([0, LINK_MS - 1].map(|now_ms| link.sentence_at(now_ms)), [expected.clone(), expected]);
    }
}
