//! Renews the access token of a server, once for all who wait for it.
//!
//! ```text
//!  turn (this process) ─▶ stored row ─ newer? ─▶ use it
//!                              │ the same
//!                              ▼
//!                         lease (all gateways) ─▶ provider ─▶ sealed row ─▶ use it
//! ```
//!
//! The provider is found anew for the first renewal of a process, because the metadata may have moved. It must be the
//! provider that issued the sign-in: otherwise a server could name another one and receive the refresh token.

use std::sync::Arc;

use http::HeaderValue;
use mcpproxy_core::settings::{OAuthGrant, Secret};
use mcpproxy_store::Status;
use rmcp::transport::auth::OAuthClientConfig;
use rmcp::transport::{AuthError, ClientCredentialsConfig, InMemoryCredentialStore};
use serde_json::json;
use url::Url;

use super::callback::Callback;
use super::provider::{Discovered, discover, reason};
use super::saved::{Loaded, RENEWED_ELSEWHERE, Saved, SealedCredentials};
use super::shared::SignInRecord;
use super::tokens::{AccessToken, Tokens};
use super::{SignInNeed, scopes};

const OFFLINE: &str = "offline_access";
const OTHER_PROVIDER: &str = "the server now names another identity provider; sign in again";
const OTHER_CLIENT: &str = "`oauth.client_id` has changed since the sign-in; sign in again";
const REFUSED: &str = "the provider no longer accepts the sign-in";
const NOT_RENEWABLE: &str = "the sign-in has expired, and the provider gave no refresh token";

impl Tokens {
    /// Renews the token, unless somebody else has renewed `stale` already.
    pub(super) async fn renew(&self, stale: Option<Arc<AccessToken>>) -> Result<HeaderValue, SignInNeed> {
        let _turn = self.turn.lock().await;
        let stale = stale.map(|stale| stale.version);
        if let Some(held) = self.held().filter(|held| Some(held.version) != stale) {
            return Ok(held.header.clone());
        }
        if let Some(failure) = self.recent_failure() {
            return Err(failure);
        }
        let renewed = match self.settings.grant {
            OAuthGrant::AuthorizationCode => self.refresh(stale).await,
            OAuthGrant::ClientCredentials => self.obtain(stale).await,
        };
        renewed.inspect_err(|need| self.note_failure(need))?;
        self.held().map(|held| held.header.clone()).ok_or_else(|| self.absent())
    }

    /// Renews the token with the refresh token.
    async fn refresh(&self, stale: Option<i64>) -> Result<(), SignInNeed> {
        let (saved, version) = match self.stored().await? {
            Some((saved, version)) if Some(version) != stale => {
                self.adopt(&saved, version);
                return Ok(());
            }
            Some(stored) => stored,
            None => return Err(self.absent()),
        };
        let issuer = saved.credentials.issuer.clone();
        let found = self.discovered(saved.challenge.as_deref()).await?;
        let Discovered { mut manager, mut metadata, issuer: found, http } = found;
        if issuer.as_deref() != Some(&found) {
            return Err(self.give_up(OTHER_PROVIDER, issuer.as_deref()).await);
        }
        let client_id = saved.credentials.client_id.clone();
        if self.settings.client_id.as_ref().is_some_and(|id| *id != client_id) {
            return Err(self.give_up(OTHER_CLIENT, issuer.as_deref()).await);
        }
        let mut config = OAuthClientConfig::new(client_id, saved.redirect_uri.clone());
        config.client_secret = self.client_secret(&saved).map(|secret| secret.expose().to_owned());
        let sealed = SealedCredentials::new(Arc::clone(&self.shared), &self.identity, version, saved.clone());
        manager.set_credential_store(sealed.clone());
        // rmcp adds `offline_access` to a renewal wherever a provider knows it. A provider that did not grant it refuses.
        if !saved.credentials.granted_scopes.iter().any(|scope| scope == OFFLINE) {
            metadata.scopes_supported.iter_mut().for_each(|scopes| scopes.retain(|scope| scope != OFFLINE));
            manager.set_metadata(metadata);
        }
        manager.configure_client(config).map_err(|error| SignInNeed::Unrenewed(reason(&error, &http)))?;
        match manager.refresh_token().await {
            Ok(_) => self.reload().await,
            Err(AuthError::TokenRefreshRejected(_)) => Err(self.give_up(REFUSED, issuer.as_deref()).await),
            Err(AuthError::AuthorizationRequired) => Err(self.give_up(NOT_RENEWABLE, issuer.as_deref()).await),
            Err(AuthError::CredentialStoreError(text)) if text == RENEWED_ELSEWHERE => self.reload().await,
            Err(error) => match sealed.take_unsaved() {
                // It works until it expires, or until the gateway restarts.
                Some(credentials) => {
                    self.adopt(&Saved { credentials, ..saved }, version + 1);
                    Ok(())
                }
                None => Err(SignInNeed::Unrenewed(reason(&error, &http))),
            },
        }
    }

    /// Signs in as the gateway itself, with the client secret of the settings.
    async fn obtain(&self, stale: Option<i64>) -> Result<(), SignInNeed> {
        let stored = self.stored().await?;
        if let Some((saved, version)) = stored.as_ref().filter(|(_, version)| Some(*version) != stale)
            && self.settings.client_id.as_ref() == Some(&saved.credentials.client_id)
        {
            self.adopt(saved, *version);
            return Ok(());
        }
        let (Some(client_id), Some(secret)) = (self.settings.client_id.clone(), &self.settings.client_secret) else {
            return Err(SignInNeed::Missing);
        };
        let Discovered { mut manager, issuer, http, .. } = self.discovered(self.challenge().as_deref()).await?;
        let failed = |error: AuthError| SignInNeed::Unrenewed(reason(&error, &http));
        let scopes = match self.settings.scopes.as_slice() {
            [] => scopes::union([manager.select_initial_scopes(&[]).await]),
            own => own.to_vec(),
        };
        let redirect_uri = self.shared.redirect_uri(&Callback::of_issuer(&issuer));
        manager.configure_client(OAuthClientConfig::new(client_id.clone(), redirect_uri.clone())).map_err(failed)?;
        let resource = self.resource(manager.get_authorization_url(&[]).await.ok().as_deref());
        let client_secret = secret.expose().to_owned();
        let config =
            ClientCredentialsConfig::ClientSecret { client_id, client_secret, scopes, resource: Some(resource) };
        let fresh = InMemoryCredentialStore::new();
        manager.set_credential_store(fresh.clone());
        manager.configure_client_credentials(&config).map_err(failed)?;
        manager.exchange_client_credentials(&config).await.map_err(failed)?;
        let credentials = rmcp::transport::CredentialStore::load(&fresh).await.ok().flatten();
        let credentials = credentials.ok_or_else(|| SignInNeed::Unrenewed("the provider gave no token".to_owned()))?;
        let granted = credentials.granted_scopes.clone();
        let saved = Saved { credentials, client_secret: None, redirect_uri, challenge: self.challenge() };
        if stored.is_none() {
            self.note_obtained(&issuer, &granted).await;
        }
        let place = (&*self.identity, self.server.as_str());
        match self.shared.save(place, &saved, None).await {
            Ok(()) => self.reload().await,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "could not store a token");
                self.adopt(&saved, stale.unwrap_or_default() + 1);
                Ok(())
            }
        }
    }

    /// Returns the identifier of the server that tokens are for. rmcp has it in every authorization URL.
    pub(super) fn resource(&self, authorization: Option<&str>) -> String {
        let url = authorization.and_then(|url| Url::parse(url).ok());
        let found = url.as_ref().and_then(|url| url.query_pairs().find(|(name, _)| name == "resource"));
        found.map_or_else(|| self.url.to_string(), |(_, resource)| resource.into_owned())
    }

    async fn discovered(&self, challenge: Option<&str>) -> Result<Discovered, SignInNeed> {
        discover(&self.url, challenge).await.map_err(SignInNeed::Unrenewed)
    }

    async fn stored(&self) -> Result<Option<(Saved, i64)>, SignInNeed> {
        match self.shared.load(&self.identity).await {
            Ok(Loaded::Saved { saved, version }) => Ok(Some((*saved, version))),
            Ok(Loaded::Nothing | Loaded::OtherKey(_) | Loaded::Unreadable(_)) => {
                self.load().await;
                Ok(None)
            }
            Err(_) => Err(SignInNeed::Unrenewed("the database does not answer".to_owned())),
        }
    }

    /// Uses what is stored now.
    async fn reload(&self) -> Result<(), SignInNeed> {
        self.load().await;
        if self.held().is_some() { Ok(()) } else { Err(self.absent()) }
    }

    /// The secret of the settings, or the one that the provider gave at registration.
    fn client_secret<'a>(&'a self, saved: &'a Saved) -> Option<&'a Secret> {
        match &self.settings.client_id {
            Some(_) => self.settings.client_secret.as_ref(),
            None => saved.client_secret.as_ref(),
        }
    }

    /// Removes a sign-in that no longer works, and records it.
    async fn give_up(&self, reason: &'static str, issuer: Option<&str>) -> SignInNeed {
        if let Some(held) = self.held() {
            // The provider's answer is about this version. A user may have signed in again meanwhile.
            let removed = self.shared.store.remove_server_sign_in_version(&self.identity, held.version).await;
            if let Err(error) = removed {
                tracing::warn!(error = &error as &dyn std::error::Error, "could not remove a sign-in");
            }
        }
        let need = SignInNeed::Rejected(reason);
        self.forget(Some(need.clone()), None);
        let record = SignInRecord {
            server: &self.server,
            code: "server_sign_in_rejected",
            status: Status::Error,
            message: reason.to_owned(),
            metadata: json!({ "issuer": issuer }),
        };
        if let Err(error) = self.shared.record(record).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not record a rejected sign-in");
        }
        need
    }

    async fn note_obtained(&self, issuer: &str, scopes: &[String]) {
        let record = SignInRecord {
            server: &self.server,
            code: "server_signed_in",
            status: Status::Success,
            message: "the gateway signed in with its client credentials".to_owned(),
            metadata: json!({ "issuer": issuer, "scopes": scopes }),
        };
        if let Err(error) = self.shared.record(record).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not record a sign-in");
        }
    }
}
