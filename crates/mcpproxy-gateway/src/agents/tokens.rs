//! Looks up the agent of a token, from memory where possible.

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
    known: Mutex<HashMap<String, Arc<Agent>>>,
    version: AtomicI64,
}

impl TokenCache {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, known: Mutex::default(), version: AtomicI64::new(-1) }
    }

    /// Finds the agent of a token. Unknown tokens are looked up in the store each time, so a new one works at once.
    pub(crate) async fn find(&self, token: &str) -> Result<Option<Arc<Agent>>, StoreError> {
        if let Some(agent) = self.known().get(token) {
            return Ok(Some(Arc::clone(agent)));
        }
        let Some(agent) = self.store.find_agent(token).await?.map(Arc::new) else { return Ok(None) };
        let mut known = self.known();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(token.to_owned(), Arc::clone(&agent));
        Ok(Some(agent))
    }

    /// Empties the cache when tokens changed, so that a revoked one soon stops working.
    pub(crate) async fn watch(&self) {
        let mut answered = Instant::now();
        loop {
            match self.store.tokens_version().await {
                Ok(version) => {
                    answered = Instant::now();
                    if self.version.swap(version, Ordering::Relaxed) != version {
                        self.known().clear();
                    }
                }
                // While the store fails, no call can be recorded, so none is sent. Known agents get that error until
                // `TRUSTED_FOR` ends.
                Err(_) if answered.elapsed() < TRUSTED_FOR => {}
                Err(_) => self.known().clear(),
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// Empties the cache now.
    pub(crate) fn forget(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Agent>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
