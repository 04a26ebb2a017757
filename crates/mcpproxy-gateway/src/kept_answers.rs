//! Limits the answers that are kept for repeated calls.
//!
//! The answer of a call with an idempotency key is stored until the key expires, so that a repeat gets it again. Without
//! a limit, one agent that asks for large answers would fill the disk. A single answer may have [`ANSWER_MAX_BYTES`], and
//! all answers of one agent together [`AGENT_MAX_BYTES`]. Beyond that, only the fact is kept that the call was made.
//!
//! The limit belongs to the agent, so an agent that reaches it takes nothing from others. The total of an agent is read
//! from the store once a minute, and counted in memory in between. So several gateways on one database may exceed it
//! together by what they store within a minute, and a restart resets nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mcpproxy_store::Store;
use tokio::time::Instant;

/// Longer answers are kept as "already done" only.
const ANSWER_MAX_BYTES: usize = 256 * 1024;
const AGENT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Time after which the total of an agent is read again. Answers whose keys expired are gone by then.
const RECOUNT: Duration = Duration::from_secs(60);

pub(crate) struct KeptAnswers {
    store: Store,
    /// Has the agents of the last minute. Each has a token, which limits their number.
    agents: Mutex<HashMap<String, Kept>>,
}

#[derive(Clone, Copy)]
struct Kept {
    bytes: u64,
    counted: Instant,
}

impl KeptAnswers {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, agents: Mutex::default() }
    }

    /// Takes room for an answer of this agent. Returns false if there is none.
    pub(crate) async fn take(&self, agent: &str, bytes: usize) -> bool {
        if bytes > ANSWER_MAX_BYTES {
            return false;
        }
        if let Some(taken) = self.take_counted(agent, bytes) {
            return taken;
        }
        match self.store.answer_bytes(agent).await {
            Ok(stored) => {
                self.count(agent, stored);
                self.take_counted(agent, bytes).unwrap_or(false)
            }
            Err(error) => {
                tracing::debug!(%error, "could not count the answers that are kept for an agent");
                false
            }
        }
    }

    /// Returns `None` if the total of this agent must be read first.
    fn take_counted(&self, agent: &str, bytes: usize) -> Option<bool> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = agents.get_mut(agent).filter(|kept| kept.counted.elapsed() < RECOUNT)?;
        let after = kept.bytes.saturating_add(bytes as u64);
        if after > AGENT_MAX_BYTES {
            return Some(false);
        }
        kept.bytes = after;
        Some(true)
    }

    fn count(&self, agent: &str, bytes: u64) {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        agents.retain(|_, kept| kept.counted.elapsed() < RECOUNT);
        // Another call may have read the total at the same time, and taken room since.
        agents.entry(agent.to_owned()).or_insert(Kept { bytes, counted: Instant::now() });
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_store::Location;

    use super::*;

    #[tokio::test]
    async fn each_agent_has_its_own_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let kept = KeptAnswers::new(store);
        assert!(!kept.take("a", ANSWER_MAX_BYTES + 1).await, "one answer");
        let whole = AGENT_MAX_BYTES as usize / ANSWER_MAX_BYTES;
        for _ in 0..whole {
            assert!(kept.take("a", ANSWER_MAX_BYTES).await);
        }
        assert!(!kept.take("a", 1).await, "all answers of an agent");
        assert!(kept.take("b", ANSWER_MAX_BYTES).await);
        for _ in 0..whole {
            // Each of these calls read the total before any of them took room.
            kept.count("c", 0);
            assert_eq!(kept.take_counted("c", ANSWER_MAX_BYTES), Some(true));
        }
        assert_eq!(kept.take_counted("c", 1), Some(false));
    }
}
