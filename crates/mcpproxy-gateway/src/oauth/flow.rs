//! A sign-in that a user has begun and not finished: the way to the provider and back.
//!
//! Each server has at most one. Beginning another one replaces it, so their number is bounded by the servers. A flow is
//! found by its `state`, a random text that only the provider and the user's browser learn. The first answer with it takes
//! the flow, and a second one finds nothing. A flow that is not finished after ten minutes is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcpproxy_core::settings::{OAuthGrant, Secret};
use mcpproxy_core::{Digest, ServerName};
use mcpproxy_store::PresenceProof;
use rmcp::transport::auth::{AuthorizationMetadata, OAuthClientConfig};
use rmcp::transport::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, InMemoryCredentialStore,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::callback::Callback;
use super::provider::{Discovered, ProviderHttp, discover, reason};
use super::saved::Loaded;
use super::shared::{CLIENT_NAME, OAuth, SignInError, SignInSession};
use super::tokens::Tokens;
use super::{device, scopes};

/// Time for the user to sign in at the provider.
pub(super) const FLOW_LASTS: Duration = Duration::from_secs(10 * 60);

/// The way in which a user signs in at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInKind {
    /// In a browser, which returns to the gateway.
    Browser,
    /// On another device, with a short code.
    Device,
}

/// A sign-in that has begun.
#[derive(Clone, Debug)]
pub struct SignInStarted {
    pub id: String,
    /// The page to open.
    pub url: String,
    /// The code to type there, for a sign-in on another device.
    pub user_code: Option<String>,
    pub scopes: Vec<String>,
    pub issuer: String,
    /// The address that the browser returns to. An operator registers it for `oauth.client_id`.
    pub redirect_uri: Option<String>,
    pub lasts: Duration,
}

/// The newest sign-in at a server.
#[derive(Clone, Debug)]
pub struct SignInProgress {
    pub id: String,
    pub state: SignInState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInState {
    /// The user has not returned from the provider.
    Waiting,
    SignedIn {
        scopes: Vec<String>,
    },
    Failed(String),
}

#[derive(Default)]
pub(super) struct Flows {
    by_server: Mutex<HashMap<ServerName, Flow>>,
}

pub(super) struct Flow {
    pub(super) id: String,
    /// Found again in the callback. A flow on another device has none.
    state: Option<String>,
    pub(super) begun_by: SignInSession,
    begun: Instant,
    pub(super) result: SignInState,
    /// Taken by the first answer.
    pending: Option<Pending>,
    /// Ends the polling of a flow on another device.
    pub(super) stop: CancellationToken,
}

/// The part of a flow that finishes it.
pub(super) struct Pending {
    pub(super) session: Option<AuthorizationSession>,
    pub(super) fresh: InMemoryCredentialStore,
    pub(super) tokens: Arc<Tokens>,
    pub(super) http: ProviderHttp,
    pub(super) issuer: String,
    pub(super) client_secret: Option<Secret>,
    pub(super) callback: Callback,
    pub(super) redirect_uri: String,
    pub(super) challenge: Option<String>,
}

/// The client that the gateway is at a provider.
pub(super) struct OwnClient {
    pub(super) id: Option<String>,
    pub(super) secret: Option<Secret>,
}

impl OAuth {
    /// Begins a sign-in. The proof shows that a user wants it, and not an agent with a shell.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        tokens: &Arc<Tokens>,
        kind: SignInKind,
        begun_by: SignInSession,
        _present: &PresenceProof,
    ) -> Result<SignInStarted, SignInError> {
        if tokens.settings.grant == OAuthGrant::ClientCredentials {
            let text = "the gateway signs in to this server by itself, with `oauth.grant` set to `client_credentials`";
            return Err(SignInError::NotPossible(text.to_owned()));
        }
        let challenge = tokens.challenge();
        let found = discover(&tokens.url, challenge.as_deref()).await.map_err(SignInError::Failed)?;
        let wanted = self.scopes_to_request(tokens, &found.manager).await;
        match kind {
            SignInKind::Browser => self.begin_in_browser(tokens, found, challenge, wanted, begun_by).await,
            SignInKind::Device => device::begin(self, tokens, found, challenge, wanted, begun_by).await,
        }
    }

    /// Chooses the scopes: those of the settings, or those that the server names. Scopes that it asked for later are added
    /// to those that the sign-in has.
    async fn scopes_to_request(&self, tokens: &Tokens, manager: &AuthorizationManager) -> Vec<String> {
        let own = match tokens.settings.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            own => own.to_vec(),
        };
        let wanted = tokens.wanted();
        if wanted.is_empty() {
            return scopes::union([own]);
        }
        let granted = match self.load(&tokens.identity).await {
            Ok(Loaded::Saved { saved, .. }) => saved.credentials.granted_scopes,
            Ok(Loaded::Nothing | Loaded::OtherKey(_) | Loaded::Unreadable(_)) | Err(_) => Vec::new(),
        };
        scopes::union([own, granted, wanted])
    }

    /// Returns the URL of the gateway's metadata document, for a provider that reads such documents and sends `iss`.
    fn document_for(&self, provider: &AuthorizationMetadata) -> Option<String> {
        let has = |name: &str| provider.additional_fields.get(name).and_then(serde_json::Value::as_bool) == Some(true);
        let is_usable =
            has("client_id_metadata_document_supported") && has("authorization_response_iss_parameter_supported");
        self.client_document_url().filter(|_| is_usable)
    }

    async fn begin_in_browser(
        self: &Arc<Self>,
        tokens: &Arc<Tokens>,
        found: Discovered,
        challenge: Option<String>,
        wanted: Vec<String>,
        begun_by: SignInSession,
    ) -> Result<SignInStarted, SignInError> {
        let Discovered { mut manager, metadata, issuer, http } = found;
        let fresh = InMemoryCredentialStore::new();
        manager.set_credential_store(fresh.clone());
        let own_callback = Callback::of_issuer(&issuer);
        let (client, callback) = match (&tokens.settings.client_id, self.document_for(&metadata)) {
            (Some(id), _) => {
                let secret = tokens.settings.client_secret.clone();
                (OwnClient { id: Some(id.clone()), secret }, own_callback)
            }
            (None, Some(url)) => (OwnClient { id: Some(url), secret: None }, Callback::Document),
            (None, None) => {
                let refs: Vec<&str> = wanted.iter().map(String::as_str).collect();
                let address = self.redirect_uri(&own_callback);
                let registered = manager.register_client(CLIENT_NAME, &address, &refs).await;
                let failed = |error: AuthError| unregistered(&error, &http, &address);
                (registered.map(OwnClient::of).map_err(failed)?, own_callback)
            }
        };
        let redirect_uri = self.redirect_uri(&callback);
        let secret = client.secret.clone();
        let mut request = AuthorizationRequest::new(redirect_uri.clone())
            .with_initial_scope_selection()
            .with_scopes(wanted)
            .with_application_type(if redirect_uri.starts_with("https://") { "web" } else { "native" });
        request.client_id = client.id;
        request.client_secret = client.secret.map(|secret| secret.expose().to_owned());
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, error)| SignInError::Failed(reason(&error, &http)))?;
        let url = session.auth_url.clone();
        http.check_page(&url).await.map_err(SignInError::Failed)?;
        let state = parameter(&url, "state").ok_or_else(|| SignInError::Failed("no `state`".to_owned()))?;
        let requested = scopes::split(&parameter(&url, "scope").unwrap_or_default());
        let pending = Pending {
            session: Some(session),
            fresh,
            tokens: Arc::clone(tokens),
            http,
            issuer: issuer.clone(),
            client_secret: secret,
            callback,
            redirect_uri: redirect_uri.clone(),
            challenge,
        };
        let id = self.flows.insert(tokens.server.clone(), Some(state), begun_by, pending).id;
        let redirect_uri = Some(redirect_uri);
        Ok(SignInStarted { id, url, user_code: None, scopes: requested, issuer, redirect_uri, lasts: FLOW_LASTS })
    }
}

/// Words why the gateway has no client at the provider, with the address that the operator needs to register one.
fn unregistered(error: &AuthError, http: &ProviderHttp, redirect_uri: &str) -> SignInError {
    let text = reason(error, http);
    SignInError::Failed(match error {
        AuthError::RegistrationFailed(_) => format!("{text}. The redirect URI of that client is {redirect_uri}"),
        _ => text,
    })
}

impl OwnClient {
    fn of(registered: OAuthClientConfig) -> Self {
        Self { id: Some(registered.client_id), secret: registered.client_secret.map(Secret::new) }
    }
}

/// The parts of a new flow that its caller needs.
pub(super) struct Inserted {
    pub(super) id: String,
    pub(super) stop: CancellationToken,
}

impl Flows {
    /// Adds a flow in place of an earlier one at the same server.
    pub(super) fn insert(
        &self,
        server: ServerName,
        state: Option<String>,
        begun_by: SignInSession,
        pending: Pending,
    ) -> Inserted {
        let (id, stop) = (format!("{:032x}", rand::random::<u128>()), CancellationToken::new());
        let (result, begun, pending) = (SignInState::Waiting, Instant::now(), Some(pending));
        let flow = Flow { id: id.clone(), state, begun_by, begun, result, pending, stop: stop.clone() };
        if let Some(replaced) = self.lock().insert(server, flow) {
            replaced.stop.cancel();
        }
        Inserted { id, stop }
    }

    /// Returns who began the flow of a callback.
    pub(super) fn begun_by(&self, state: &str) -> Option<(ServerName, SignInSession)> {
        let flows = self.lock();
        let (server, flow) = flows.iter().find(|(_, flow)| flow.is(state))?;
        Some((server.clone(), flow.begun_by.clone()))
    }

    /// Takes the flow of a callback. A second callback finds nothing.
    pub(super) fn take(&self, state: &str) -> Option<(ServerName, String, SignInSession, Pending)> {
        let mut flows = self.lock();
        let (server, flow) = flows.iter_mut().find(|(_, flow)| flow.is(state))?;
        let pending = flow.pending.take()?;
        Some((server.clone(), flow.id.clone(), flow.begun_by.clone(), pending))
    }

    /// Takes a flow by its id.
    pub(super) fn take_by_id(&self, server: &ServerName, id: &str) -> Option<(SignInSession, Pending)> {
        let mut flows = self.lock();
        let flow = flows.get_mut(server).filter(|flow| flow.id == id)?;
        Some((flow.begun_by.clone(), flow.pending.take()?))
    }

    pub(super) fn finish(&self, server: &ServerName, id: &str, result: SignInState) {
        if let Some(flow) = self.lock().get_mut(server).filter(|flow| flow.id == id) {
            flow.result = result;
            flow.stop.cancel();
        }
    }

    pub(super) fn progress(&self, server: &ServerName) -> Option<SignInProgress> {
        let flows = self.lock();
        flows.get(server).map(|flow| SignInProgress { id: flow.id.clone(), state: flow.result.clone() })
    }

    /// Forgets the flow of a server.
    pub(super) fn cancel(&self, server: &ServerName) {
        if let Some(flow) = self.lock().remove(server) {
            flow.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName, Flow>> {
        let mut flows = self.by_server.lock().unwrap_or_else(PoisonError::into_inner);
        for flow in flows.values_mut().filter(|flow| flow.begun.elapsed() >= FLOW_LASTS) {
            if flow.result == SignInState::Waiting {
                flow.result = SignInState::Failed("the sign-in was not finished within 10 minutes".to_owned());
            }
            flow.pending = None;
            flow.stop.cancel();
        }
        flows
    }
}

impl Flow {
    /// Compares digests, so that the time of the comparison says nothing about the state.
    fn is(&self, state: &str) -> bool {
        self.pending.is_some()
            && self.state.as_ref().is_some_and(|own| Digest::of(own.as_bytes()) == Digest::of(state.as_bytes()))
    }
}

/// Returns a query parameter of a URL.
pub(super) fn parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
