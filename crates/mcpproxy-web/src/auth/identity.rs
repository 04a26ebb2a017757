//! Finds the sender of a request: an agent, the admin key, a signed-in user, or none of them.
//!
//! Credentials are never combined. A request with an agent token acts as that agent, even if it also has the admin key
//! or a session cookie. Otherwise an agent that reads `admin.key` could add the key to its requests and gain more
//! rights.

use std::sync::Arc;

use axum::extract::FromRef;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use mcpproxy_core::ApprovalId;
use mcpproxy_core::settings::PeopleSettings;
use mcpproxy_store::{ProviderAccount, Session, StoreError, User};

use crate::Web;
use crate::auth::cookie::{self, Transport};
use crate::auth::oidc::Oidc;
use crate::auth::passkey::Passkeys;
use crate::auth::password::Passwords;
use crate::auth::records;
use crate::auth::session_places::SessionPlaces;
use crate::auth::sign_ins::SignIns;
use crate::auth::slow_lane::SlowLane;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The state that all routes share.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) web: Arc<Web>,
    pub(crate) auth: Arc<Authenticators>,
}

/// Everything needed to authenticate users.
pub(crate) struct Authenticators {
    pub(crate) passwords: Passwords,
    pub(crate) sign_ins: SignIns,
    pub(crate) session_places: SessionPlaces,
    /// For attempts to sign in from an address with many failures.
    pub(crate) slow_lane: SlowLane,
    pub(crate) passkeys: Option<Passkeys>,
    pub(crate) oidc: Oidc,
    pub(crate) transport: Transport,
}

impl AppState {
    pub(crate) fn new(web: Web) -> Self {
        let base_url = &web.facts.base_url;
        let auth = Authenticators {
            passwords: Passwords::default(),
            sign_ins: SignIns::default(),
            session_places: SessionPlaces::default(),
            slow_lane: SlowLane::default(),
            passkeys: Passkeys::at(base_url),
            oidc: Oidc::default(),
            transport: if base_url.starts_with("https://") { Transport::Tls } else { Transport::Plain },
        };
        Self { auth: Arc::new(auth), web: Arc::new(web) }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.web.facts.now_ms)()
    }

    /// Reads the credentials. An agent token takes precedence over everything else.
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<Identity, StoreError> {
        if let Some(value) = headers.get(AUTHORIZATION) {
            let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
            return Ok(Identity::Agent(token.trim().to_owned()));
        }
        // Only the header is read. A key in a query would end up in logs and browser histories.
        if let Some(candidate) = headers.get(API_KEY) {
            return Ok(if self.web.admin_key.is(candidate.as_bytes()) {
                Identity::AdminKey
            } else {
                Identity::Anonymous
            });
        }
        let mut found = None;
        for secret in cookie::read(headers) {
            let session = self.session_of(secret).await?;
            let signed = session.map(|session| SignedInUser { session, secret: secret.to_owned() });
            // Of two valid cookies, another program on this host set one, and we cannot tell which.
            if found.is_some() && signed.is_some() {
                return Ok(Identity::Anonymous);
            }
            found = found.or(signed);
        }
        Ok(found.map_or(Identity::Anonymous, Identity::User))
    }

    /// Returns the session of a secret. Closes it if the settings no longer let its user in.
    pub(crate) async fn session_of(&self, secret: &str) -> Result<Option<Session>, StoreError> {
        let settings = self.web.gateway.settings();
        let (idle_ms, max_ms) = (settings.people.session.idle_ms(), settings.people.session.max_ms());
        let session = self.web.store.find_session(secret, self.now_ms(), idle_ms, max_ms).await?;
        match session {
            Some(session) if !may_stay(&settings.people, session.provider.as_ref()) => {
                self.web.store.close_session(secret).await?;
                let metadata = serde_json::json!({"user": session.user.name()});
                records::write(self, records::refused("session_ended", None, &metadata)).await;
                Ok(None)
            }
            session => Ok(session),
        }
    }

    /// Records that an agent or the admin key tried to decide.
    pub(crate) async fn note_refused_decision(&self, identity: &Identity, path: &str) {
        let agent = match identity {
            Identity::Agent(token) => match self.web.gateway.find_agent(token).await {
                Ok(Some(agent)) => Some(agent.name.clone()),
                // Unknown tokens write nothing into the log.
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

/// Decides if the settings still let a user in who has signed in before.
fn may_stay(people: &PeopleSettings, account: Option<&ProviderAccount>) -> bool {
    match (account, &people.oidc) {
        (None, _) => people.password,
        (Some(_), None) => false,
        (Some(account), Some(oidc)) => {
            let profile = &account.profile;
            let email = profile.email.as_deref().filter(|_| profile.email_verified);
            account.issuer == oidc.issuer && oidc.allowed.select(email, &profile.groups)
        }
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
    /// The token is not verified yet.
    Agent(String),
    AdminKey,
    User(SignedInUser),
}

/// A user and their session.
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

    /// Returns true if the user signs in with the identity provider, and so has neither password nor factors here.
    pub(crate) fn is_of_provider(&self) -> bool {
        self.session.provider.is_some()
    }

    /// Returns true if the user may invite and remove others. Of the users of a provider, only its admins may.
    pub(crate) fn may_manage_users(&self, people: &PeopleSettings) -> bool {
        match (&self.session.provider, &people.oidc) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ProviderAccount { profile, .. }), Some(oidc)) => {
                let email = profile.email.as_deref().filter(|_| profile.email_verified);
                oidc.admins.select(email, &profile.groups)
            }
        }
    }
}
