//! A sign-in as it is stored: sealed with the key of the data folder, and bound to the server's identity.
//!
//! [`SealedCredentials`] is the store that rmcp renews tokens with. It expects one version of the row. If another gateway
//! has renewed the token meanwhile, `load` returns [`RENEWED_ELSEWHERE`], before any request is sent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcpproxy_core::settings::Secret;
use mcpproxy_store::{NewServerSignIn, StoreError};
use rmcp::transport::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde_json::{Value, json};

use super::shared::OAuth;

/// Marks the error with which a renewal ends that another gateway made unnecessary.
pub(super) const RENEWED_ELSEWHERE: &str = "another gateway has renewed the token";
/// Time for a renewal. A gateway that crashed gives the lease back after this time.
const LEASE_MS: i64 = 60_000;
/// Time to wait for another gateway's renewal, and the pause between two looks.
const LEASE_WAIT: Duration = Duration::from_secs(45);
const LEASE_PAUSE: Duration = Duration::from_millis(250);
/// Attempts to store a renewed token, with a pause before each further one. The provider has already retired the old one.
const SAVES_MAX: usize = 10;
const SAVE_PAUSE: Duration = Duration::from_secs(1);

/// Everything that is needed to use and to renew a sign-in.
#[derive(Clone)]
pub(super) struct Saved {
    pub(super) credentials: StoredCredentials,
    /// The secret that the provider gave at registration. One in the settings wins.
    pub(super) client_secret: Option<Secret>,
    pub(super) redirect_uri: String,
    /// The server's `WWW-Authenticate` header, which leads to its metadata.
    pub(super) challenge: Option<String>,
}

/// The result of looking for a sign-in.
pub(super) enum Loaded {
    Nothing,
    /// The sign-in of this version was sealed with another key.
    OtherKey(i64),
    /// The sign-in of this version is damaged, or was copied from another server.
    Unreadable(i64),
    Saved {
        saved: Box<Saved>,
        version: i64,
    },
}

impl Saved {
    fn to_json(&self) -> Option<String> {
        let value = json!({
            "credentials": serde_json::to_value(&self.credentials).ok()?,
            "client_secret": self.client_secret.as_ref().map(Secret::expose),
            "redirect_uri": self.redirect_uri,
            "challenge": self.challenge,
        });
        Some(value.to_string())
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            credentials: serde_json::from_value(value.get("credentials")?.clone()).ok()?,
            client_secret: text("client_secret").map(Secret::new),
            redirect_uri: text("redirect_uri")?,
            challenge: text("challenge"),
        })
    }
}

impl OAuth {
    /// Looks for the sign-in of a server.
    pub(super) async fn load(&self, identity: &str) -> Result<Loaded, StoreError> {
        let Some(row) = self.store.server_sign_in(identity).await? else { return Ok(Loaded::Nothing) };
        if row.key_id != self.key.id() {
            return Ok(Loaded::OtherKey(row.version));
        }
        let saved = self.key.open(identity, &row.sealed).and_then(|text| Saved::parse(&text));
        let version = row.version;
        Ok(match saved {
            Some(saved) => Loaded::Saved { saved: Box::new(saved), version },
            None => Loaded::Unreadable(version),
        })
    }

    /// Stores a new sign-in. `by` is the user, or `None` for the gateway itself.
    pub(super) async fn save(
        &self,
        (identity, server): (&str, &str),
        saved: &Saved,
        by: Option<&str>,
    ) -> Result<(), StoreError> {
        let sealed = self.seal(identity, saved)?;
        let new = NewServerSignIn { identity, server, key_id: self.key.id(), sealed: &sealed, signed_in_by: by };
        self.store.save_server_sign_in(&new, (self.now_ms)()).await
    }

    fn seal(&self, identity: &str, saved: &Saved) -> Result<Vec<u8>, StoreError> {
        let sealed = saved.to_json().and_then(|text| self.key.seal(identity, &text));
        sealed.ok_or_else(|| StoreError::Corrupt { what: "a sign-in that cannot be sealed".to_owned() })
    }
}

/// The row of one server, for one renewal.
#[derive(Clone)]
pub(super) struct SealedCredentials {
    shared: Arc<OAuth>,
    identity: Arc<str>,
    /// The version to renew, and its content.
    current: Arc<Mutex<(i64, Saved)>>,
    /// Set if the renewed token could not be stored.
    unsaved: Arc<Mutex<Option<StoredCredentials>>>,
}

impl SealedCredentials {
    pub(super) fn new(shared: Arc<OAuth>, identity: &str, version: i64, saved: Saved) -> Self {
        let current = Arc::new(Mutex::new((version, saved)));
        Self { shared, identity: identity.into(), current, unsaved: Arc::default() }
    }

    /// Takes the renewed credentials that could not be stored.
    pub(super) fn take_unsaved(&self) -> Option<StoredCredentials> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn current(&self) -> (i64, Saved) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn failed(error: &StoreError) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

fn renewed_elsewhere() -> AuthError {
    AuthError::CredentialStoreError(RENEWED_ELSEWHERE.to_owned())
}

#[async_trait]
impl CredentialStore for SealedCredentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let (expected, _) = self.current();
        match self.shared.load(&self.identity).await.map_err(|error| failed(&error))? {
            Loaded::Saved { saved, version } if version == expected => Ok(Some(saved.credentials)),
            Loaded::Saved { .. } => Err(renewed_elsewhere()),
            Loaded::Nothing | Loaded::OtherKey(_) | Loaded::Unreadable(_) => Ok(None),
        }
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let (version, saved) = self.current();
        let saved = Saved { credentials, ..saved };
        let sealed = self.shared.seal(&self.identity, &saved).map_err(|error| failed(&error))?;
        let mut attempt = 1;
        loop {
            let (store, now_ms) = (&self.shared.store, (self.shared.now_ms)());
            let new = (self.shared.key.id(), sealed.as_slice());
            match store.renew_server_sign_in(&self.identity, version, new, now_ms).await {
                Ok(true) => return Ok(()),
                // A user has signed in again or signed out. Both outlive this renewal.
                Ok(false) => return Err(renewed_elsewhere()),
                Err(error) if attempt == SAVES_MAX => {
                    tracing::error!(error = &error as &dyn std::error::Error, "could not store a renewed token");
                    *self.unsaved.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved.credentials);
                    return Err(failed(&error));
                }
                Err(_) => tokio::time::sleep(SAVE_PAUSE).await,
            }
            attempt += 1;
        }
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let (version, _) = self.current();
        let removed = self.shared.store.remove_server_sign_in_version(&self.identity, version).await;
        removed.map(drop).map_err(|error| failed(&error))
    }

    async fn on_refresh_token_rejected(&self, _credentials: &StoredCredentials) -> Result<(), AuthError> {
        self.clear().await
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let begun = tokio::time::Instant::now();
        loop {
            let now_ms = (self.shared.now_ms)();
            let holder = &self.shared.holder;
            let leased =
                self.shared.store.lease_server_sign_in(&self.identity, holder, now_ms, now_ms + LEASE_MS).await;
            if leased.map_err(|error| failed(&error))? {
                let (shared, identity) = (Arc::clone(&self.shared), Arc::clone(&self.identity));
                return Ok(Some(CredentialRefreshGuard::new(Lease { shared, identity })));
            }
            if self.shared.store.server_sign_in_version(&self.identity).await.ok().flatten() != Some(self.current().0) {
                return Err(renewed_elsewhere());
            }
            if begun.elapsed() > LEASE_WAIT {
                return Err(AuthError::CredentialStoreError("another gateway is renewing the token".to_owned()));
            }
            tokio::time::sleep(LEASE_PAUSE).await;
        }
    }
}

/// The right to renew a token. Dropping it gives the right back.
struct Lease {
    shared: Arc<OAuth>,
    identity: Arc<str>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (shared, identity) = (Arc::clone(&self.shared), Arc::clone(&self.identity));
        // If this fails, the lease ends by itself.
        tokio::spawn(async move { shared.store.release_server_sign_in(&identity, &shared.holder).await });
    }
}
