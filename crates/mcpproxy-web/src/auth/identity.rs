//! Who asks: an agent, the holder of the admin key, a person, or nobody. Credentials are never mixed.

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
pub(crate) struct Site {
    pub(crate) web: Arc<Web>,
    pub(crate) people: Arc<People>,
}

/// What it takes to know people.
pub(crate) struct People {
    pub(crate) passwords: Passwords,
    /// Of signing in.
    pub(crate) attempts: Attempts,
    /// Of codes, by people who are signed in: strangers who fail to sign in must not keep them from deciding.
    pub(crate) codes: Attempts,
    pub(crate) passkeys: Option<Passkeys>,
    pub(crate) transport: Transport,
}

impl Site {
    pub(crate) fn new(web: Web) -> Self {
        let base_url = &web.facts.base_url;
        let people = People {
            passwords: Passwords::default(),
            attempts: Attempts::default(),
            codes: Attempts::default(),
            passkeys: Passkeys::at(base_url),
            transport: if base_url.starts_with("https://") { Transport::Tls } else { Transport::Plain },
        };
        Self { people: Arc::new(people), web: Arc::new(web) }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.web.facts.now_ms)()
    }

    /// Who shows what in these headers. A request that shows an agent's token acts as that agent, whatever else it shows.
    pub(crate) async fn who(&self, headers: &HeaderMap) -> Result<Who, StoreError> {
        if let Some(value) = headers.get(AUTHORIZATION) {
            let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
            return Ok(Who::Agent(token.trim().to_owned()));
        }
        // Only the header counts. A key in a query would end up in logs and histories.
        if let Some(candidate) = headers.get(API_KEY) {
            return Ok(if self.web.admin_key.is(candidate.as_bytes()) { Who::Key } else { Who::Nobody });
        }
        let mut found = None;
        for secret in cookie::read(headers) {
            let session = self.web.store.find_session(secret, self.now_ms(), IDLE_MS, MOST_MS).await?;
            let signed = session.map(|session| Signed { session, secret: secret.to_owned() });
            // With two that are good, one was put there by somebody else, and which is not ours to guess.
            if found.is_some() && signed.is_some() {
                return Ok(Who::Nobody);
            }
            found = found.or(signed);
        }
        Ok(found.map_or(Who::Nobody, Who::Person))
    }

    /// Writes down that somebody who cannot decide tried to.
    pub(crate) async fn note_refused_decision(&self, who: &Who, path: &str) {
        let agent = match who {
            Who::Agent(token) => match self.web.store.find_agent(token).await {
                Ok(Some(agent)) => Some(agent.name),
                // Strangers write nothing into the log.
                Ok(None) | Err(_) => return,
            },
            Who::Key => None,
            Who::Nobody | Who::Person(_) => return,
        };
        let with = if agent.is_some() { "agent token" } else { "admin key" };
        let approval = path.split('/').find_map(ApprovalId::parse).map(|id| id.to_string());
        let metadata = serde_json::json!({"with": with, "approval_id": approval});
        records::write(self, records::refused("approval_decision_refused", agent, &metadata)).await;
    }
}

impl FromRef<Site> for Arc<Web> {
    fn from_ref(site: &Site) -> Self {
        Self::clone(&site.web)
    }
}

#[derive(Clone)]
pub(crate) enum Who {
    Nobody,
    /// The token is not looked at yet.
    Agent(String),
    Key,
    Person(Signed),
}

/// A person with the session they are signed in with.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) session: Session,
    pub(crate) secret: String,
}

impl Signed {
    pub(crate) fn user(&self) -> &User {
        &self.session.user
    }

    pub(crate) fn name(&self) -> &str {
        self.session.user.name()
    }
}
