//! Identity asks: an agent, the holder of the admin key, a person, or nobody. Credentials are never mixed.

use std::sync::Arc;

use axum::extract::FromRef;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use mcpproxy_core::ApprovalId;
use mcpproxy_store::{Session, StoreError, User};

use crate::Web;
use crate::auth::attempts::Attempts;
use crate::auth::cookie::{self, Transport};
use crate::auth::passkey::Passkeys;
use crate::auth::password::Passwords;
use crate::auth::records;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// A person who does nothing for so long has gone away.
const IDLE_MS: i64 = 15 * 60_000;
/// And nobody stays signed in longer.
const MOST_MS: i64 = 12 * 60 * 60_000;

/// What all routes share.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) web: Arc<Web>,
    pub(crate) auth: Arc<Authenticators>,
}

/// What it takes to know people.
pub(crate) struct Authenticators {
    pub(crate) passwords: Passwords,
    /// Of signing in.
    pub(crate) attempts: Attempts,
    /// Of codes, by people who are signed in: strangers who fail to sign in must not keep them from deciding.
    pub(crate) codes: Attempts,
    pub(crate) passkeys: Option<Passkeys>,
    pub(crate) transport: Transport,
}

impl AppState {
    pub(crate) fn new(web: Web) -> Self {
        let base_url = &web.facts.base_url;
        let auth = Authenticators {
            passwords: Passwords::default(),
            attempts: Attempts::default(),
            codes: Attempts::default(),
            passkeys: Passkeys::at(base_url),
            transport: if base_url.starts_with("https://") { Transport::Tls } else { Transport::Plain },
        };
        Self { auth: Arc::new(auth), web: Arc::new(web) }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.web.facts.now_ms)()
    }

    /// Identity shows what in these headers. A request that shows an agent's token acts as that agent, whatever else it shows.
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<Identity, StoreError> {
        if let Some(value) = headers.get(AUTHORIZATION) {
            let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
            return Ok(Identity::Agent(token.trim().to_owned()));
        }
        // Only the header counts. A key in a query would end up in logs and histories.
        if let Some(candidate) = headers.get(API_KEY) {
            return Ok(if self.web.admin_key.is(candidate.as_bytes()) {
                Identity::AdminKey
            } else {
                Identity::Anonymous
            });
        }
        let mut found = None;
        for secret in cookie::read(headers) {
            let session = self.web.store.find_session(secret, self.now_ms(), IDLE_MS, MOST_MS).await?;
            let signed = session.map(|session| SignedInUser { session, secret: secret.to_owned() });
            // With two that are good, one was put there by somebody else, and which is not ours to guess.
            if found.is_some() && signed.is_some() {
                return Ok(Identity::Anonymous);
            }
            found = found.or(signed);
        }
        Ok(found.map_or(Identity::Anonymous, Identity::User))
    }

    /// Writes down that somebody who cannot decide tried to.
    pub(crate) async fn note_refused_decision(&self, identity: &Identity, path: &str) {
        let agent = match identity {
            Identity::Agent(token) => match self.web.store.find_agent(token).await {
                Ok(Some(agent)) => Some(agent.name),
                // Strangers write nothing into the log.
                Ok(None) | Err(_) => return,
            },
            Identity::AdminKey => None,
            Identity::Anonymous | Identity::User(_) => return,
        };
        let with = if agent.is_some() { "agent token" } else { "admin key" };
        let approval = path.split('/').find_map(ApprovalId::parse).map(|id| id.to_string());
        let metadata = serde_json::json!({"with": with, "approval_id": approval});
        records::write(self, records::refused("approval_decision_refused", agent, &metadata)).await;
    }
}

impl FromRef<AppState> for Arc<Web> {
    fn from_ref(app: &AppState) -> Self {
        Self::clone(&app.web)
    }
}

#[derive(Clone)]
pub(crate) enum Identity {
    Anonymous,
    /// The token is not looked at yet.
    Agent(String),
    AdminKey,
    User(SignedInUser),
}

/// A person with the session they are signed in with.
#[derive(Clone)]
pub(crate) struct SignedInUser {
    pub(crate) session: Session,
    pub(crate) secret: String,
}

impl SignedInUser {
    pub(crate) fn user(&self) -> &User {
        &self.session.user
    }

    pub(crate) fn name(&self) -> &str {
        self.session.user.name()
    }
}
