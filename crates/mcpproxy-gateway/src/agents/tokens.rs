//! Looks up the agent of a token, from memory where possible.
//!
//! A lookup takes a moment. If a token is revoked in between, the lookup may still return its agent, and the cache was
//! emptied before the agent arrives in it. So every emptying moves the generation, and an agent is remembered only if
//! the generation is the same as before its lookup. Otherwise, a revoked token could stay in the cache for good.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcpproxy_core::Agent;
use mcpproxy_store::{Store, StoreError};

/// Size of the cache. A full cache is emptied.
const REMEMBERED_MAX: usize = 1024;
/// Interval in which tokens that another process created or revoked are noticed.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Time for which cached tokens count while the store cannot be read.
const TRUSTED_FOR: Duration = Duration::from_secs(60);

pub(crate) struct TokenCache {
    store: Store,
    known: Mutex<Known>,
    version: AtomicI64,
}

/// Agents by token.
#[derive(Default)]
struct Known {
    agents: HashMap<String, Arc<Agent>>,
    /// Moves whenever the agents are forgotten.
    generation: u64,
}

impl Known {
    fn forget(&mut self) {
        self.agents.clear();
        self.generation = self.generation.wrapping_add(1);
    }
}

impl TokenCache {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, known: Mutex::default(), version: AtomicI64::new(-1) }
    }

    /// Finds the agent of a token. Unknown tokens are looked up in the store each time, so a new one works at once.
    pub(crate) async fn find(&self, token: &str) -> Result<Option<Arc<Agent>>, StoreError> {
        let generation = {
            let known = self.known();
            if let Some(agent) = known.agents.get(token) {
                return Ok(Some(Arc::clone(agent)));
            }
            known.generation
        };
        let Some(agent) = self.store.find_agent(token).await?.map(Arc::new) else { return Ok(None) };
        self.remember(token, &agent, generation);
        Ok(Some(agent))
    }

    /// Remembers an agent, unless tokens changed since the generation before its lookup.
    fn remember(&self, token: &str, agent: &Arc<Agent>, generation: u64) {
        let mut known = self.known();
        if known.generation != generation {
            return;
        }
        if known.agents.len() >= REMEMBERED_MAX {
            known.agents.clear();
        }
        known.agents.insert(token.to_owned(), Arc::clone(agent));
    }

    /// Empties the cache when tokens changed, so that a revoked one soon stops working.
    pub(crate) async fn watch(&self) {
        let mut answered = Instant::now();
        loop {
            match self.store.tokens_version().await {
                Ok(version) => {
                    answered = Instant::now();
                    if self.version.swap(version, Ordering::Relaxed) != version {
                        self.forget();
                    }
                }
                // While the store fails, no call can be recorded, so none is sent. Known agents get that error until
                // `TRUSTED_FOR` ends.
                Err(_) if answered.elapsed() < TRUSTED_FOR => {}
                Err(_) => self.forget(),
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// Empties the cache now.
    pub(crate) fn forget(&self) {
        self.known().forget();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcpproxy_core::Scope;
    use mcpproxy_store::Location;

    #[tokio::test]
    async fn a_token_that_is_revoked_during_its_lookup_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let token = store.create_token("ci", &Scope::everything(), [7; 32], 1).await.unwrap();
        let cache = TokenCache::new(store.clone());

        // The steps of `find`, with a revocation between the lookup and its end.
        let generation = cache.known().generation;
        let agent = Arc::new(store.find_agent(&token).await.unwrap().unwrap());
        store.revoke_token("ci", 2).await.unwrap();
        cache.forget();
        cache.remember(&token, &agent, generation);
        assert!(cache.find(&token).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_valid_token_is_remembered_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let token = store.create_token("ci", &Scope::everything(), [7; 32], 1).await.unwrap();
        let cache = TokenCache::new(store.clone());
        assert!(cache.find(&token).await.unwrap().is_some());
        store.revoke_token("ci", 2).await.unwrap();
        assert!(cache.find(&token).await.unwrap().is_some(), "it comes from the cache");
        cache.forget();
        assert!(cache.find(&token).await.unwrap().is_none());
    }
}
