//! Signing in with an OpenID Connect provider, and stepping up there.
//!
//! ```text
//!  begin ─▶ provider ─▶ callback ─▶ finish
//!  state, nonce, PKCE    code, state    state taken ─▶ code exchanged ─▶ ID token verified ─▶ claims checked ─▶ account
//! ```
//!
//! Invariants:
//!
//! - **One browser, one answer.** `state` is stored with the digest of a cookie, for ten minutes. The row is removed when
//!   the user comes back, so no answer works twice or in another browser (`accounts/sign_in.rs` of the store).
//! - **One provider.** The issuer is compared in the metadata, in the `iss` parameter (RFC 9207) and in the ID token. A
//!   sign-in that began before the setting changed is refused.
//! - **Nobody by default.** Every sign-in and every request compares the user with `people.oidc.allowed`. A user who is
//!   no longer allowed is signed out.
//! - **The first user needs the setup link**, as with a password.
//! - **A step-up is for one purpose.** The provider is asked to authenticate again (`prompt=login`, `max_age=0`), and
//!   `auth_time` proves that it did. The proof is a secret that only the page of this browser gets. It works once.
//!
//! The session cookie is `SameSite=Strict`, so browsers do not send it along when the provider redirects back. The page of
//! the callback therefore loads the next page itself, instead of redirecting.

mod client;
mod facts;
mod refusal;

use std::sync::{Arc, Mutex, PoisonError};

use mcpproxy_core::settings::OidcSettings;
use mcpproxy_identity::{AddressError, Metadata, Provider};
use mcpproxy_store::{
    Admission, Attempt, NewSession, NewSignIn, Pace, ProviderSignIn, ProviderSubject, StoreError, TakenSignIn,
};
use oauth2::PkceCodeChallenge;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::client::Client;
use self::facts::{Expected, ExpectedStepUp, Facts};
pub(crate) use self::refusal::Refusal;
use super::identity::{AppState, SignedInUser};
use super::{random_bytes, records};
use crate::peer::Peer;

/// Time for a user to come back from the provider.
pub(crate) const SIGN_IN_MS: i64 = 10 * 60_000;
/// Time to use a step-up.
const PROOF_MS: i64 = 5 * 60_000;
pub(crate) const CALLBACK: &str = "/ui/sign-in/oidc/callback";

/// The provider of the settings, made again when its issuer changes.
#[derive(Default)]
pub(crate) struct Oidc {
    provider: Mutex<Option<Arc<Provider>>>,
}

/// The reason for a trip to the provider.
#[derive(Clone, Copy)]
pub(crate) enum Trip<'a> {
    /// The first user begins at the setup link, which is an invitation.
    SignIn {
        invitation: Option<&'a str>,
    },
    StepUp {
        signed: &'a SignedInUser,
        purpose: &'a str,
    },
}

/// The way to the provider.
pub(crate) struct Departure {
    pub(crate) url: String,
    /// The value of the cookie that binds the trip to this browser.
    pub(crate) browser: String,
}

/// The parameters with which a user comes back.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) state: String,
    pub(crate) code: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) issuer: Option<String>,
}

/// The result of a trip to the provider.
pub(crate) enum Arrival {
    SignedIn {
        session: NewSession,
        next: String,
    },
    /// `proof` goes into the form that needs it.
    SteppedUp {
        proof: String,
        purpose: String,
        next: String,
    },
}

/// Everything that `finish` needs to know about the beginning. Stored with `state`.
#[derive(Serialize, Deserialize)]
struct Saved {
    issuer: String,
    nonce: String,
    verifier: String,
    next: String,
    /// The purpose of a step-up.
    purpose: Option<String>,
    begun_ms: i64,
}

impl Oidc {
    fn provider(&self, issuer: &str) -> Result<Arc<Provider>, AddressError> {
        let mut known = self.provider.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(provider) = known.as_ref().filter(|provider| provider.issuer() == issuer) {
            return Ok(Arc::clone(provider));
        }
        let provider = Provider::new(issuer)?;
        *known = Some(Arc::clone(&provider));
        Ok(provider)
    }
}

impl AppState {
    /// Returns the settings of the provider, or refuses.
    pub(crate) fn oidc(&self) -> Result<OidcSettings, Refusal> {
        self.web.gateway.settings().people.oidc.clone().ok_or(Refusal::Off)
    }

    /// Returns the address at which the user can also sign out of the provider, if the provider has one.
    pub(crate) async fn provider_sign_out_url(&self) -> Option<String> {
        let settings = self.oidc().ok()?;
        let (_, metadata) = self.provider(&settings).await.ok()?;
        let mut url = metadata.end_session_endpoint.clone()?;
        url.query_pairs_mut().append_pair("client_id", &settings.client_id);
        Some(url.into())
    }

    async fn provider(&self, settings: &OidcSettings) -> Result<(Arc<Provider>, Arc<Metadata>), Refusal> {
        let provider = self.auth.oidc.provider(&settings.issuer).map_err(|error| Refusal::unreachable(&error))?;
        let metadata = provider.metadata().await.map_err(|error| Refusal::unreachable(&error))?;
        Ok((provider, metadata))
    }

    /// Begins a trip to the provider. `browser` is the cookie of an earlier trip, which several tabs share.
    pub(crate) async fn depart(
        &self,
        trip: Trip<'_>,
        next: &str,
        browser: Option<&str>,
        peer: Peer,
    ) -> Result<Departure, Refusal> {
        let _place = self.auth.sign_ins.enter(peer).ok_or(Refusal::Busy)?;
        let settings = self.oidc()?;
        let (provider, metadata) = self.provider(&settings).await?;
        let client = Client::new(&settings, &metadata, &self.web.facts.base_url, provider.fetch())?;
        let secrets = (random_text(), random_text(), random_text());
        let (Some(state), Some(nonce), Some(fresh)) = secrets else { return Err(Refusal::Busy) };
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let (purpose, session_secret, invitation) = match trip {
            Trip::SignIn { invitation } => (None, None, invitation),
            Trip::StepUp { signed, purpose } => (Some(purpose), Some(signed.secret.as_str()), None),
        };
        let url = client.authorization_url(&state, &nonce, challenge, purpose.is_some());
        let saved = Saved {
            issuer: settings.issuer.clone(),
            nonce,
            verifier: verifier.secret().clone(),
            next: next.to_owned(),
            purpose: purpose.map(str::to_owned),
            begun_ms: self.now_ms(),
        };
        let data = serde_json::to_string(&saved).unwrap_or_default();
        let browser = browser.map_or(fresh, str::to_owned);
        let new = NewSignIn {
            state: &state,
            browser: &browser,
            address: peer.address(),
            session_secret,
            invitation,
            data: &data,
        };
        self.web.store.begin_sign_in(&new, self.now_ms(), SIGN_IN_MS).await?;
        Ok(Departure { url, browser })
    }

    /// Ends a trip to the provider. Records the result.
    pub(crate) async fn arrive(&self, answer: &Answer, browsers: &[&str], peer: Peer) -> Result<Arrival, Refusal> {
        let _place = self.auth.sign_ins.enter(peer).ok_or(Refusal::Busy)?;
        let name = format!("provider {}", peer.address());
        let attempt = Attempt::SignIn { name: &name, address: peer.address() };
        // Strangers at this address must not keep its users out, so a bad pace only makes them wait for each other.
        let pace = match self.web.store.check_attempt(attempt, self.now_ms()).await? {
            Admission::Admitted(pace) => pace,
            Admission::TooMany { .. } => Pace::Slow,
        };
        let _turn = self.auth.slow_lane.enter(pace).await.ok_or(Refusal::Busy)?;
        let mut about = json!({ "with": "provider" });
        let arrived = self.check_answer(answer, browsers, &mut about).await;
        if let Err(refusal) = &arrived
            && let Some(reason) = refusal.reason()
        {
            // The first refusals of each minute are recorded. More would fill the log.
            let is_recorded = matches!(
                self.web.store.count_attempt(attempt, self.now_ms()).await?,
                Admission::Admitted(Pace::Normal)
            );
            if is_recorded && let Some(members) = about.as_object_mut() {
                members.insert("reason".to_owned(), reason.into());
                let code = if members.contains_key("for") { "step_up_failed" } else { "login_refused" };
                records::write(self, records::refused(code, None, &about)).await;
            }
        }
        arrived
    }

    /// Adds facts for the record of a refusal to `about`.
    async fn check_answer(
        &self,
        answer: &Answer,
        browsers: &[&str],
        about: &mut serde_json::Value,
    ) -> Result<Arrival, Refusal> {
        let mut taken = None;
        for browser in browsers {
            taken = taken.or(self.web.store.take_sign_in(&answer.state, browser, self.now_ms()).await?);
        }
        let taken = taken.ok_or(Refusal::State)?;
        let saved: Saved = serde_json::from_str(&taken.data).map_err(|_| Refusal::State)?;
        let mut add = |key: &str, value: Option<&str>| {
            if let (Some(members), Some(value)) = (about.as_object_mut(), value) {
                members.insert(key.to_owned(), value.into());
            }
        };
        add("issuer", Some(&saved.issuer));
        add("for", saved.purpose.as_deref());
        let settings = self.oidc()?;
        if saved.issuer != settings.issuer {
            return Err(Refusal::Issuer);
        }
        let (provider, metadata) = self.provider(&settings).await?;
        refusal::check_issuer(answer.issuer.as_deref(), &settings.issuer, metadata.sends_issuer)?;
        if let Some(error) = &answer.error {
            return Err(Refusal::by_provider(error));
        }
        let client = Client::new(&settings, &metadata, &self.web.facts.base_url, provider.fetch())?;
        let code = answer.code.as_deref().ok_or(Refusal::Code)?;
        let id_token = client.exchange(code, &saved.verifier).await?;
        let claims = provider.verify(&id_token, &settings.client_id).await?;
        let facts = Facts::of(&claims, &settings);
        add("subject", facts.subject.as_deref());
        add("email", facts.profile.email.as_deref());
        let step_up = saved
            .purpose
            .as_ref()
            .map(|_| ExpectedStepUp { begun_s: saved.begun_ms / 1000, acr: settings.acr.as_deref() });
        let now_s = self.now_ms() / 1000;
        let expected = Expected { client_id: &settings.client_id, nonce: &saved.nonce, now_s, step_up };
        let subject = facts.check(&expected)?;
        self.admit(&settings, subject.to_owned(), facts, taken, saved).await
    }

    /// Finds the account of a verified user, and opens a session or saves the proof of a step-up.
    async fn admit(
        &self,
        settings: &OidcSettings,
        subject: String,
        facts: Facts,
        taken: TakenSignIn,
        saved: Saved,
    ) -> Result<Arrival, Refusal> {
        let store = &self.web.store;
        let email = facts.profile.email.as_deref().filter(|_| facts.profile.email_verified);
        if !settings.allowed.select(email, &facts.profile.groups) {
            if let Some(name) = store.find_provider_user(&settings.issuer, &subject).await? {
                store.close_sessions_of(&name).await?;
            }
            return Err(Refusal::NotAllowed);
        }
        let wanted_name = facts.wanted_name(&subject);
        let subject = ProviderSubject { issuer: settings.issuer.clone(), subject, profile: facts.profile, wanted_name };
        if let Some(purpose) = &saved.purpose {
            return self.admit_step_up(&subject, purpose, &taken, &saved).await;
        }
        let signed_in = store.sign_in_from_provider(&subject, taken.invitation.as_ref(), self.now_ms()).await?;
        let (name, is_new) = match signed_in {
            ProviderSignIn::Known(name) => (name, false),
            ProviderSignIn::Created(name) => (name, true),
            ProviderSignIn::NeedsSetupLink => return Err(Refusal::NeedsSetupLink),
            ProviderSignIn::NoName => return Err(Refusal::NoName),
        };
        let metadata = json!({
            "user": name, "with": "provider", "issuer": subject.issuer, "email": subject.profile.email,
        });
        if is_new {
            records::write(self, records::done_with("user_created", &metadata)).await;
        }
        let session = self.open_session(&name).await?.ok_or(Refusal::Busy)?;
        records::write(self, records::done_with("login", &metadata)).await;
        Ok(Arrival::SignedIn { session, next: saved.next })
    }

    async fn admit_step_up(
        &self,
        subject: &ProviderSubject,
        purpose: &str,
        taken: &TakenSignIn,
        saved: &Saved,
    ) -> Result<Arrival, Refusal> {
        let store = &self.web.store;
        let name = store.find_provider_user(&subject.issuer, &subject.subject).await?.ok_or(Refusal::OtherUser)?;
        let (Some(session), Some(proof)) = (&taken.session, random_text()) else { return Err(Refusal::OtherUser) };
        let until_ms = self.now_ms() + PROOF_MS;
        if !store.save_provider_proof(session, &name, purpose, &proof, until_ms).await? {
            return Err(Refusal::OtherUser);
        }
        let metadata = json!({"user": name, "with": "provider", "for": purpose});
        records::write(self, records::done_with("step_up", &metadata)).await;
        Ok(Arrival::SteppedUp { proof, purpose: purpose.to_owned(), next: saved.next.clone() })
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns 256 random bits as hexadecimal digits.
fn random_text() -> Option<String> {
    let bytes: [u8; 32] = random_bytes()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
