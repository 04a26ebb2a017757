//! Reviews of quarantined definitions, for operators.

use std::sync::Arc;
use std::time::Duration;

use mcpproxy_core::lock::Lock;
use mcpproxy_core::settings::WrittenTransport;
use mcpproxy_core::trust::Definition;
use mcpproxy_core::{Digest, ServerName};
use mcpproxy_store::{AcceptedPin, Decided, PinDecision, PresenceProof};

use super::Gateway;
use crate::trust::{self, Review, ReviewError, ReviewOf};

/// Time between two looks for decisions that were made at another gateway.
const LOOK: Duration = Duration::from_secs(2);

impl Gateway {
    /// Notes that a user is about to add a server with this identity. Its first list is then accepted.
    pub fn choose(&self, identity: Digest) {
        self.state.trust.choices.announce(identity);
    }

    /// Returns how a server is reached, as written in the settings, with `***` for literal secrets.
    pub fn written_transport(&self, name: &ServerName) -> Option<WrittenTransport> {
        self.servers.find(name).map(|server| server.written_transport())
    }

    /// Returns the definitions of a server that wait for a user.
    pub async fn review(&self, name: &ServerName, of: ReviewOf) -> Result<Review, ReviewError> {
        let server = self.servers.find(name).ok_or(ReviewError::NoServer)?;
        trust::review(&self.state, &server, of).await
    }

    /// Applies the decisions of a user. When this returns, agents see what was accepted.
    pub async fn decide(
        &self,
        name: &ServerName,
        decisions: &[PinDecision],
        user: &PresenceProof,
    ) -> Result<Vec<Decided>, ReviewError> {
        let server = self.servers.find(name).ok_or(ReviewError::NoServer)?;
        let decided = trust::decide(&self.state, &server, decisions, user).await?;
        self.servers.judge_again(&server).await;
        Ok(decided)
    }

    /// Returns the accepted definitions of a server.
    pub async fn accepted(&self, name: &ServerName) -> Result<Vec<AcceptedPin>, ReviewError> {
        let server = self.servers.find(name).ok_or(ReviewError::NoServer)?;
        Ok(self.state.store.accepted_pins(server.identity()).await?)
    }
}

/// Selects the definitions for a lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOf {
    /// Definitions that agents see.
    Accepted,
    /// Definitions that servers list, with quarantined ones.
    Listed,
}

/// A lock file of all enabled servers.
#[derive(Clone, Debug)]
pub struct LockView {
    pub lock: Lock,
    /// Servers that are not connected. Of these, the lock has what was accepted before.
    pub unreached: Vec<ServerName>,
    /// Quarantined definitions.
    pub quarantined: usize,
}

impl Gateway {
    /// Makes a lock file of all enabled servers.
    pub async fn lock(&self, of: LockOf) -> Result<LockView, ReviewError> {
        let snapshot = self.state.snapshot.load_full();
        let enabled: Vec<_> = snapshot.servers.values().filter(|server| server.settings.enabled).collect();
        let (mut all, mut unreached, mut quarantined) = (Vec::new(), Vec::new(), 0);
        for server in enabled {
            let admission = server.admission();
            quarantined += admission.held.len();
            let definitions: Vec<Definition> = if server.is_connected() {
                let is_in = |one: &Definition| match of {
                    LockOf::Accepted => !admission.held.contains_key(&one.key),
                    LockOf::Listed => true,
                };
                trust::definitions(&admission.listed).into_iter().filter(is_in).collect()
            } else {
                unreached.push(server.name().clone());
                let accepted = self.state.store.accepted_pins(server.identity()).await?;
                accepted.into_iter().map(|one| Definition { key: one.key, json: one.json }).collect()
            };
            all.push((Arc::clone(server), definitions));
        }
        let lock = Lock::of(all.iter().map(|(server, definitions)| (&server.settings, definitions.clone())));
        Ok(LockView { lock, unreached, quarantined })
    }
}

/// Applies decisions that users made at another gateway with the same store.
pub(super) async fn follow_reviews(gateway: Gateway) {
    let state = &gateway.state;
    let mut seen = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = state.stopping.cancelled() => return,
        }
        // The store logs its own errors, and a later look finds the decision.
        let Ok(version) = state.store.pins_version().await else { continue };
        // The first look judges too: a decision may have come after this gateway read its pins.
        if seen.replace(version) != Some(version) {
            gateway.servers.judge_all();
        }
    }
}
