//! The access token of one server, for every request to it.
//!
//! [`Tokens::authorization`] is on the path of every call, so it reads one pointer. A token that is about to expire is
//! renewed behind the calls that use it. A token that has expired is renewed first. [`Tokens::after_401`] handles a server
//! that rejects a token before its time. A thousand calls that meet the same 401 start one renewal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::{HeaderMap, HeaderValue, header};
use mcpproxy_core::ServerName;
use mcpproxy_core::settings::{OAuthGrant, OAuthSettings, ServerSettings, TransportSettings};
use oauth2::TokenResponse as _;
use rmcp::transport::{StoredCredentials, WWWAuthenticateParams};
use tokio::sync::Notify;
use url::Url;

use super::saved::{Loaded, Saved};
use super::shared::OAuth;
use super::{SignInNeed, SignInRequired, scopes};

/// A token is renewed this long before it expires, or when a fifth of its life is left.
const AHEAD_MS: i64 = 60_000;
/// A server that rejects a token of this age rejects the sign-in itself. Another token would not help.
const NEW_MS: i64 = 5_000;
/// Time in which calls share the failure of a renewal instead of trying again.
const FAILURE_LASTS: Duration = Duration::from_secs(2);
/// A longer header is ignored.
const CHALLENGE_MAX_BYTES: usize = 4096;

const NOT_ACCEPTED: &str = "the server does not accept the token of its sign-in";

pub(crate) struct Tokens {
    pub(super) shared: Arc<OAuth>,
    pub(super) server: ServerName,
    pub(super) identity: Box<str>,
    pub(super) url: Url,
    pub(super) settings: OAuthSettings,
    held: ArcSwapOption<AccessToken>,
    facts: Mutex<Facts>,
    /// Held during a renewal.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Notified when a user has signed in or out.
    changed: Notify,
}

/// Facts besides the token.
#[derive(Default)]
struct Facts {
    /// The newest `WWW-Authenticate` header.
    challenge: Option<String>,
    /// Scopes that the server asked for and the token does not have.
    wanted: Vec<String>,
    /// The reason why there is no token, if it is not simply missing.
    absent: Option<SignInNeed>,
    failure: Option<(Instant, SignInNeed)>,
    /// The version of the stored sign-in that was read last.
    seen: Option<i64>,
}

pub(super) struct AccessToken {
    pub(super) header: HeaderValue,
    /// The version of the row that it comes from.
    pub(super) version: i64,
    received_ms: i64,
    expires_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Fresh,
    /// To be renewed while it still works.
    Due,
    Expired,
}

impl AccessToken {
    /// Reads the token. Returns `None` if it cannot be a header.
    pub(super) fn of(credentials: &StoredCredentials, version: i64, now_ms: i64) -> Option<Self> {
        let token = credentials.token_response.as_ref()?;
        let mut header = HeaderValue::from_str(&format!("Bearer {}", token.access_token().secret())).ok()?;
        header.set_sensitive(true);
        let received_ms =
            credentials.token_received_at.and_then(|at| i64::try_from(at).ok()).map_or(now_ms, |at| at * 1000);
        let lasts_ms = token.expires_in().and_then(|lasts| i64::try_from(lasts.as_millis()).ok());
        Some(Self { header, version, received_ms, expires_ms: lasts_ms.map(|lasts| received_ms.saturating_add(lasts)) })
    }

    fn age(&self, now_ms: i64) -> Age {
        let Some(expires_ms) = self.expires_ms else { return Age::Fresh };
        let ahead = AHEAD_MS.min((expires_ms - self.received_ms) / 5);
        if now_ms >= expires_ms {
            Age::Expired
        } else if now_ms >= expires_ms - ahead {
            Age::Due
        } else {
            Age::Fresh
        }
    }
}

impl Tokens {
    /// Returns `None` for a server that OAuth does not apply to: a process, or a server with an `Authorization` header in
    /// the settings.
    pub(crate) fn of(shared: &Arc<OAuth>, settings: &ServerSettings) -> Option<Arc<Self>> {
        let (TransportSettings::Http { url, headers } | TransportSettings::Sse { url, headers }) = &settings.transport
        else {
            return None;
        };
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header::AUTHORIZATION.as_str())) {
            return None;
        }
        Some(Arc::new(Self {
            shared: Arc::clone(shared),
            server: settings.name.clone(),
            identity: settings.identity.key().into(),
            url: Url::parse(url).ok()?,
            settings: settings.oauth.clone(),
            held: ArcSwapOption::empty(),
            facts: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Prepares a new connection. Scopes that an earlier one asked for are asked for again, if they are still needed.
    pub(crate) async fn connect(&self) {
        self.load().await;
        self.facts().wanted.clear();
    }

    /// Reads the stored sign-in. A store that does not answer leaves the token that is known.
    pub(super) async fn load(&self) {
        match self.shared.load(&self.identity).await {
            Ok(Loaded::Saved { saved, version }) => self.adopt(&saved, version),
            Ok(Loaded::Nothing) => self.forget(None, None),
            Ok(Loaded::OtherKey(version)) => self.forget(Some(SignInNeed::OtherKey), Some(version)),
            Ok(Loaded::Unreadable(version)) => {
                self.forget(Some(SignInNeed::Rejected("the stored sign-in cannot be read")), Some(version));
            }
            Err(error) => {
                tracing::warn!(server = %self.server, error = &error as &dyn std::error::Error, "could not read a sign-in");
                self.facts().absent = Some(SignInNeed::Unrenewed("the database does not answer".to_owned()));
            }
        }
    }

    /// Tells the supervisor that a user has signed in or out.
    pub(super) fn announce(&self) {
        self.changed.notify_one();
    }

    /// Waits until a user signs in or out at this gateway.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns true if another version of the sign-in is stored than the one that was read.
    pub(crate) async fn has_changed(&self) -> bool {
        let stored = self.shared.store.server_sign_in_version(&self.identity).await;
        stored.is_ok_and(|stored| stored != self.facts().seen)
    }

    /// Looks after the sign-in of a connected server, also while nobody calls it: takes over what another gateway has
    /// stored, and renews the token ahead of its end. Returns false if the sign-in is over.
    pub(crate) async fn look_after(self: &Arc<Self>) -> bool {
        if self.has_changed().await {
            self.load().await;
        }
        // A failure is kept for `lapsed`, and calls report it.
        let _header = self.authorization().await;
        self.held.load().is_some()
    }

    /// Returns why the token could not be renewed, if it has expired meanwhile.
    pub(crate) fn lapsed(&self) -> Option<SignInNeed> {
        let held = self.held.load_full()?;
        let has_expired = held.age((self.shared.now_ms)()) == Age::Expired;
        self.facts().failure.as_ref().filter(|_| has_expired).map(|(_, need)| need.clone())
    }

    /// Returns the header for a request, or `None` without a sign-in.
    pub(crate) async fn authorization(self: &Arc<Self>) -> Result<Option<HeaderValue>, SignInNeed> {
        let Some(held) = self.held.load_full() else { return Ok(None) };
        match held.age((self.shared.now_ms)()) {
            Age::Fresh => Ok(Some(held.header.clone())),
            Age::Due => {
                // Nobody waits for it, and another request finds the result.
                if let Ok(turn) = self.turn.try_lock() {
                    drop(turn);
                    let tokens = Arc::clone(self);
                    tokio::spawn(async move { tokens.renew(Some(held)).await });
                }
                Ok(self.held.load().as_ref().map(|held| held.header.clone()))
            }
            Age::Expired => Box::pin(self.renewed(Some(held))).await.map(Some),
        }
    }

    /// Handles a 401. Returns the header to repeat the request with, once.
    pub(crate) async fn after_401(
        self: &Arc<Self>,
        sent: Option<&HeaderValue>,
        headers: &HeaderMap,
    ) -> Result<HeaderValue, SignInNeed> {
        self.note_challenge(headers);
        match (sent, self.held.load_full()) {
            (None, Some(held)) => Ok(held.header.clone()),
            (None, None) => match self.settings.grant {
                OAuthGrant::AuthorizationCode => Err(self.absent()),
                OAuthGrant::ClientCredentials => self.renewed(None).await,
            },
            (Some(_), None) => Err(self.absent()),
            (Some(sent), Some(held)) if held.header != sent => Ok(held.header.clone()),
            (Some(_), Some(held)) if (self.shared.now_ms)() - held.received_ms < NEW_MS => {
                Err(SignInNeed::Rejected(NOT_ACCEPTED))
            }
            (Some(_), Some(held)) => self.renewed(Some(held)).await,
        }
    }

    /// Handles a token that the server rejects although it was renewed.
    pub(crate) fn reject(&self) -> SignInNeed {
        SignInNeed::Rejected(NOT_ACCEPTED)
    }

    /// Handles a 403. Returns the need for a sign-in if the token lacks a scope.
    pub(crate) fn after_403(&self, headers: &HeaderMap) -> Option<SignInNeed> {
        self.held.load().as_ref()?;
        let challenge = bearer(headers, &self.url).filter(|(_, params)| params.is_insufficient_scope());
        let (_, params) = challenge?;
        let wanted = scopes::split(params.scope.as_deref().unwrap_or_default());
        let mut facts = self.facts();
        facts.wanted = scopes::union([std::mem::take(&mut facts.wanted), wanted]);
        Some(SignInNeed::MoreScopes(facts.wanted.clone()))
    }

    /// Returns true if a 401 asks for a bearer token.
    pub(crate) fn is_asked(&self, headers: &HeaderMap) -> bool {
        self.held.load().is_some() || bearer(headers, &self.url).is_some()
    }

    /// Returns true if the gateway gets a token without a user.
    pub(crate) fn signs_in_by_itself(&self) -> bool {
        self.settings.grant == OAuthGrant::ClientCredentials
    }

    /// Returns the token as it is, for a request whose answer nobody waits for.
    pub(crate) fn token(&self) -> Option<HeaderValue> {
        self.held.load().as_ref().map(|held| held.header.clone())
    }

    /// Returns the scopes that the server asked for and the sign-in does not have.
    pub(crate) fn wanted(&self) -> Vec<String> {
        self.facts().wanted.clone()
    }

    pub(crate) fn required(&self, need: SignInNeed) -> SignInRequired {
        SignInRequired { server: self.server.clone(), need, page: self.shared.page_of(&self.server) }
    }

    pub(crate) fn server(&self) -> &ServerName {
        &self.server
    }

    pub(super) fn challenge(&self) -> Option<String> {
        self.facts().challenge.clone()
    }

    pub(super) fn held(&self) -> Option<Arc<AccessToken>> {
        self.held.load_full()
    }

    /// Uses this sign-in from now on.
    pub(super) fn adopt(&self, saved: &Saved, version: i64) {
        let token = AccessToken::of(&saved.credentials, version, (self.shared.now_ms)());
        let mut facts = self.facts();
        facts.absent =
            token.is_none().then_some(SignInNeed::Rejected("the provider issued a token that cannot be sent"));
        facts.failure = None;
        facts.seen = Some(version);
        let has = &saved.credentials.granted_scopes;
        facts.wanted.retain(|wanted| !has.contains(wanted));
        if facts.challenge.is_none() {
            facts.challenge.clone_from(&saved.challenge);
        }
        self.held.store(token.map(Arc::new));
    }

    /// Uses no sign-in from now on, for this reason.
    pub(super) fn forget(&self, absent: Option<SignInNeed>, seen: Option<i64>) {
        let mut facts = self.facts();
        facts.absent = absent;
        facts.seen = seen;
        facts.wanted.clear();
        self.held.store(None);
    }

    pub(super) fn absent(&self) -> SignInNeed {
        self.facts().absent.clone().unwrap_or(SignInNeed::Missing)
    }

    pub(super) fn note_failure(&self, need: &SignInNeed) {
        self.facts().failure = Some((Instant::now(), need.clone()));
    }

    /// Returns the failure of a renewal that has just ended.
    pub(super) fn recent_failure(&self) -> Option<SignInNeed> {
        let facts = self.facts();
        facts.failure.as_ref().filter(|(at, _)| at.elapsed() < FAILURE_LASTS).map(|(_, need)| need.clone())
    }

    /// Renews in a task of its own: a call that gives up must not lose a rotated refresh token.
    async fn renewed(self: &Arc<Self>, stale: Option<Arc<AccessToken>>) -> Result<HeaderValue, SignInNeed> {
        let tokens = Arc::clone(self);
        let renewing = tokio::spawn(async move { tokens.renew(stale).await });
        renewing.await.unwrap_or_else(|_| Err(SignInNeed::Unrenewed("the renewal was interrupted".to_owned())))
    }

    fn note_challenge(&self, headers: &HeaderMap) {
        if let Some((text, _)) = bearer(headers, &self.url) {
            self.facts().challenge = Some(text);
        }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the challenge for a bearer token, preferably one that leads to metadata.
fn bearer(headers: &HeaderMap, server: &Url) -> Option<(String, WWWAuthenticateParams)> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let is_bearer = |text: &&str| {
        let scheme = text.trim_start().get(..6).unwrap_or_default();
        scheme.eq_ignore_ascii_case("bearer") && text.len() <= CHALLENGE_MAX_BYTES
    };
    let read = |text: &str| (text.to_owned(), WWWAuthenticateParams::parse(text, server));
    let mut all: Vec<_> = values.filter(is_bearer).take(8).map(read).collect();
    let leads = all.iter().position(|(_, params)| params.resource_metadata_url.is_some()).unwrap_or(0);
    (leads < all.len()).then(|| all.swap_remove(leads))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(received_ms: i64, expires_ms: Option<i64>) -> AccessToken {
        AccessToken { header: HeaderValue::from_static("Bearer x"), version: 1, received_ms, expires_ms }
    }

    #[test]
    fn a_token_is_renewed_ahead_of_its_end() {
        let hour = token(0, Some(3_600_000));
        assert_eq!(hour.age(3_539_999), Age::Fresh);
        assert_eq!(hour.age(3_540_000), Age::Due);
        assert_eq!(hour.age(3_600_000), Age::Expired);
        let short = token(0, Some(5_000));
        assert_eq!((short.age(3_999), short.age(4_000), short.age(5_000)), (Age::Fresh, Age::Due, Age::Expired));
        assert_eq!(token(0, None).age(i64::MAX), Age::Fresh);
    }

    #[test]
    fn challenges() {
        let url = Url::parse("https://a.example/mcp").unwrap();
        let check = |values: &[&str], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::WWW_AUTHENTICATE, value.parse().unwrap());
            }
            assert_eq!(bearer(&headers, &url).map(|(text, _)| text).as_deref(), expected, "{values:?}");
        };
        check(&[], None);
        check(&["Basic realm=\"x\""], None);
        check(&["Bearer"], Some("Bearer"));
        check(&["bearer scope=\"a\""], Some("bearer scope=\"a\""));
        let leads = "Bearer resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\"";
        check(&["Basic x", "Bearer scope=\"a\"", leads], Some(leads));
        check(&[&format!("Bearer x=\"{}\"", "y".repeat(5000))], None);
    }
}
