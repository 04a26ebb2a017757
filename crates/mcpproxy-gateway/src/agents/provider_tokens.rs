//! Finds the agent of an identity provider's access token, from memory where possible.
//!
//! A token is a signed text (JWT). Checking its signature takes 50 µs or more, and reading the provider's keys takes a
//! request. So the result is remembered until one of these happens:
//!
//! - The token expires.
//! - The provider changes its keys ([`Provider::generation`]). A token whose key was withdrawn is refused then.
//! - The settings of `agents.oauth` change. [`Accepted`] and its memory are replaced as a whole, so a result that was
//!   computed with the old settings cannot arrive in the new memory.
//!
//! Refused tokens are not remembered: anyone could fill the memory with them.
//!
//! The key of the memory is the token itself, as in the cache of the gateway's own tokens (`tokens.rs`). A digest as the
//! key would keep the memory smaller. But SHA-256 of a token of 2 KB takes 8 µs on a CPU without instructions for it, and
//! a call with a remembered token may take at most 5 µs more than one with a token of the gateway. `bench tokens`
//! measures that. The map's own hash takes a fifth of the time. It has a random key, so nobody can choose a token that is
//! compared with a certain other one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use mcpproxy_core::Agent;
use mcpproxy_core::settings::{AgentOAuth, NoAgent, TokenClaims};
use mcpproxy_identity::{CLOCK_SKEW_S, Claims, Provider, TokenError};

use super::{Authenticated, Lifetime};

/// Tokens in the memory. A full memory is emptied.
const REMEMBERED_MAX: usize = 1024;
/// Bytes of these tokens. One token has at most 16 KiB, and most have 1 or 2.
const REMEMBERED_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Agents that are listed for operators. A full list is emptied.
const LISTED_MAX: usize = 1024;

/// The tokens that the settings accept now, if they name an identity provider.
#[derive(Default)]
pub(crate) struct ProviderTokens {
    accepted: ArcSwapOption<Accepted>,
    versions: AtomicU64,
}

/// One state of `agents.oauth`, with the tokens that were checked under it.
pub(crate) struct Accepted {
    pub(crate) settings: AgentOAuth,
    provider: Arc<Provider>,
    /// Number of this state in this process.
    version: u64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    tokens: HashMap<Box<str>, Validated>,
    /// The length of all tokens together.
    bytes: usize,
    /// The agents of these tokens, by name, for operators.
    agents: HashMap<String, Arc<Agent>>,
}

impl Known {
    fn remember(&mut self, token: &str, validated: Validated) {
        // Two requests with the same new token may both have checked it.
        self.forget(token);
        if self.tokens.len() >= REMEMBERED_MAX || self.bytes + token.len() > REMEMBERED_MAX_BYTES {
            self.tokens.clear();
            self.bytes = 0;
        }
        self.bytes += token.len();
        self.tokens.insert(token.into(), validated);
    }

    fn forget(&mut self, token: &str) {
        if self.tokens.remove(token).is_some() {
            self.bytes -= token.len();
        }
    }
}

struct Validated {
    agent: Arc<Agent>,
    expires_ms: i64,
    /// The provider's keys that checked it.
    generation: u64,
}

/// A reason to refuse a token. None contains a part of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejected {
    #[error("{0}")]
    Invalid(TokenError),
    #[error("{0}")]
    NoAgent(NoAgent),
    /// Nothing is known about the token, because the provider's keys cannot be read.
    #[error("{0}")]
    Unchecked(TokenError),
}

impl ProviderTokens {
    /// Takes over new settings. Forgets all tokens if they differ. Returns whether they do.
    pub(crate) fn set(&self, settings: Option<&AgentOAuth>) -> bool {
        let before = self.accepted.load_full();
        if before.as_ref().map(|before| &before.settings) == settings {
            return false;
        }
        self.accepted.store(settings.and_then(|settings| self.accept(settings, before.as_deref())).map(Arc::new));
        true
    }

    fn accept(&self, settings: &AgentOAuth, before: Option<&Accepted>) -> Option<Accepted> {
        // The keys of the same issuer stay known, so that a reload does not depend on the provider.
        let same = before.filter(|before| before.settings.issuer == settings.issuer);
        let provider = match same {
            Some(before) => Arc::clone(&before.provider),
            None => match Provider::new(&settings.issuer) {
                Ok(provider) => provider,
                Err(error) => {
                    tracing::error!(issuer = settings.issuer, "`agents.oauth.issuer` cannot be used: {error}");
                    return None;
                }
            },
        };
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        Some(Accepted { settings: settings.clone(), provider, version, known: Mutex::default() })
    }

    /// Returns the tokens to accept, or `None` if the settings name no provider.
    pub(crate) fn accepted(&self) -> Option<Arc<Accepted>> {
        self.accepted.load_full()
    }

    /// Returns whether a lifetime has ended, because the token expired or the settings changed.
    pub(crate) fn is_over(&self, lifetime: Lifetime) -> bool {
        match lifetime {
            Lifetime::UntilRevoked => false,
            Lifetime::Until { expires_ms, version } => {
                expires_ms <= now_ms() || self.accepted.load().as_ref().is_none_or(|now| now.version != version)
            }
        }
    }
}

impl Accepted {
    /// Finds the agent of a token.
    pub(crate) async fn find(&self, token: &str) -> Result<Authenticated, Rejected> {
        let generation = self.provider.generation();
        if let Some(found) = self.remembered(token, generation, now_ms()) {
            return Ok(found);
        }
        // Boxed, because every request has room for this future, and few need it.
        Box::pin(self.check(token, generation)).await
    }

    /// Checks a token, and remembers it if it is valid.
    async fn check(&self, token: &str, generation: Option<u64>) -> Result<Authenticated, Rejected> {
        let claims = self.provider.verify(token, &self.settings.audience).await.map_err(|error| match error {
            TokenError::Provider(_) => Rejected::Unchecked(error),
            other => Rejected::Invalid(other),
        })?;
        let expires_s = claims.seconds("exp").ok_or(Rejected::Invalid(TokenError::MissingClaim))?;
        let expires_ms = expires_s.saturating_add(CLOCK_SKEW_S).saturating_mul(1000);
        // The check above counts whole seconds. Streams end to the millisecond, and so do requests.
        if expires_ms <= now_ms() {
            return Err(Rejected::Invalid(TokenError::Expired));
        }
        let agent = Arc::new(self.settings.agent(&Mapped(&claims)).map_err(Rejected::NoAgent)?);
        // The keys may have changed during the check. Then the number from before it does not fit, and the next request
        // checks the token again.
        if let Some(generation) = generation.or_else(|| self.provider.generation()) {
            self.remember(token, Validated { agent: Arc::clone(&agent), expires_ms, generation });
        }
        Ok(self.authenticated(agent, expires_ms))
    }

    fn remembered(&self, token: &str, generation: Option<u64>, now_ms: i64) -> Option<Authenticated> {
        let mut known = self.known();
        let found = known.tokens.get(token)?;
        if Some(found.generation) == generation && now_ms < found.expires_ms {
            let (agent, expires_ms) = (Arc::clone(&found.agent), found.expires_ms);
            return Some(self.authenticated(agent, expires_ms));
        }
        known.forget(token);
        None
    }

    fn remember(&self, token: &str, validated: Validated) {
        let mut known = self.known();
        if known.agents.len() >= LISTED_MAX {
            known.agents.clear();
        }
        known.agents.insert(validated.agent.name.clone(), Arc::clone(&validated.agent));
        known.remember(token, validated);
    }

    fn authenticated(&self, agent: Arc<Agent>, expires_ms: i64) -> Authenticated {
        Authenticated { agent, lifetime: Lifetime::Until { expires_ms, version: self.version } }
    }

    /// Lists the agents whose tokens were checked since the start or the last change of the settings, by name.
    pub(crate) fn agents(&self) -> Vec<Arc<Agent>> {
        let mut agents: Vec<_> = self.known().agents.values().cloned().collect();
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        agents
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Claims as the settings map them.
struct Mapped<'c>(&'c Claims);

impl TokenClaims for Mapped<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.text(name)
    }

    fn list(&self, name: &str) -> Vec<&str> {
        self.0.list(name)
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::Scope;

    use super::*;

    #[test]
    fn the_memory_is_bounded_by_tokens_and_by_bytes() {
        let agent = Arc::new(Agent { name: "a".to_owned(), scope: Scope::read_only() });
        let remember = |known: &mut Known, token: &str| {
            known.remember(token, Validated { agent: Arc::clone(&agent), expires_ms: 1, generation: 1 });
            assert!(known.tokens.contains_key(token));
            assert_eq!(known.bytes, known.tokens.keys().map(|token| token.len()).sum::<usize>());
        };
        let mut known = Known::default();
        for number in 0..REMEMBERED_MAX {
            remember(&mut known, &format!("{number:08}"));
        }
        remember(&mut known, "00000000");
        assert_eq!(known.tokens.len(), REMEMBERED_MAX, "the same token again");
        known.forget("00000000");
        known.forget("unknown");
        assert_eq!(known.bytes, (REMEMBERED_MAX - 1) * 8);
        remember(&mut known, "00000000");
        remember(&mut known, "one more");
        assert_eq!(known.tokens.len(), 1, "a full memory is emptied");

        let large = |number: usize| format!("{number:016384}");
        for number in 0..REMEMBERED_MAX_BYTES / 16384 - 1 {
            remember(&mut known, &large(number));
        }
        let count = known.tokens.len();
        remember(&mut known, &large(count));
        assert_eq!(known.tokens.len(), 1, "of {count} large ones");
    }
}
