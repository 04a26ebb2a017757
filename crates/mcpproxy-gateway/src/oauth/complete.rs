//! Finishes a sign-in: exchanges the code, records who signed in, and stores the token. Also signs out.

use std::sync::Arc;

use mcpproxy_core::ServerName;
use mcpproxy_store::Status;
use oauth2::TokenResponse as _;
use oauth2::basic::BasicTokenType;
use rmcp::transport::{CredentialStore as _, StoredCredentials};
use serde_json::json;

use super::callback::Callback;
use super::flow::{Pending, SignInProgress, SignInState};
use super::provider::reason;
use super::revoke::revoke;
use super::saved::{Loaded, Saved};
use super::shared::{OAuth, SignInError, SignInRecord, SignInSession};
use super::tokens::Tokens;

/// Errors that RFC 6749 defines for the answer of a provider. Any other text is not repeated.
const KNOWN_ERRORS: [&str; 8] = [
    "invalid_request",
    "unauthorized_client",
    "unsupported_response_type",
    "invalid_scope",
    "invalid_target",
    "server_error",
    "temporarily_unavailable",
    "login_required",
];

/// The answer of a provider, which a browser brings back.
#[derive(Clone)]
pub struct SignInAnswer {
    /// The address that the browser came back to.
    pub returned_to: Callback,
    pub state: String,
    pub code: Option<String>,
    pub issuer: Option<String>,
    pub error: Option<String>,
}

impl OAuth {
    /// Returns the server and the session that an answer belongs to, if its sign-in is under way.
    pub(crate) fn begun_by(&self, state: &str) -> Option<(ServerName, SignInSession)> {
        self.flows.begun_by(state)
    }

    pub(crate) fn progress(&self, server: &ServerName) -> Option<SignInProgress> {
        self.flows.progress(server)
    }

    /// Takes an answer of a provider. Returns the server, and the reason if the sign-in failed. `None` means that no
    /// sign-in with this `state` is under way.
    pub(crate) async fn finish(&self, answer: SignInAnswer) -> Option<(ServerName, Result<(), String>)> {
        let (server, id, session, pending) = self.flows.take(&answer.state)?;
        let credentials = exchanged(&pending, &answer).await;
        let finished = self.keep(&server, &id, &session, pending, credentials).await;
        Some((server, finished))
    }

    /// Stores the credentials of a finished sign-in, and sets its result.
    pub(super) async fn keep(
        &self,
        server: &ServerName,
        id: &str,
        session: &SignInSession,
        pending: Pending,
        credentials: Result<StoredCredentials, String>,
    ) -> Result<(), String> {
        let stored = match credentials {
            Ok(credentials) => self.store_signed_in(server, session, pending, credentials).await,
            Err(reason) => Err(reason),
        };
        let (result, kept) = match stored {
            Ok(scopes) => (SignInState::SignedIn { scopes }, Ok(())),
            Err(reason) => {
                self.note_failed(server, session, &reason).await;
                (SignInState::Failed(reason.clone()), Err(reason))
            }
        };
        self.flows.finish(server, id, result);
        kept
    }

    async fn store_signed_in(
        &self,
        server: &ServerName,
        session: &SignInSession,
        pending: Pending,
        credentials: StoredCredentials,
    ) -> Result<Vec<String>, String> {
        let Pending { tokens, issuer, client_secret, redirect_uri, challenge, .. } = pending;
        let token = credentials.token_response.as_ref().ok_or("the provider gave no token")?;
        if *token.token_type() != BasicTokenType::Bearer {
            return Err("the provider gave a token that is not a bearer token".to_owned());
        }
        let scopes = super::scopes::union([credentials.granted_scopes.clone()]);
        // No record, no sign-in.
        let record = SignInRecord {
            server,
            code: "server_signed_in",
            status: Status::Success,
            message: format!("{} signed in", session.user),
            metadata: json!({ "user": session.user, "scopes": scopes, "issuer": issuer }),
        };
        let unwritten = |_| "the activity log cannot be written, so nothing was stored".to_owned();
        self.record(record).await.map_err(unwritten)?;
        let credentials = credentials.with_issuer(Some(issuer));
        let saved = Saved { credentials, client_secret, redirect_uri, challenge };
        let place = (&*tokens.identity, server.as_str());
        self.save(place, &saved, Some(&session.user))
            .await
            .map_err(|error| format!("the sign-in was not stored: {error}"))?;
        tokens.load().await;
        tokens.announce();
        Ok(scopes)
    }

    async fn note_failed(&self, server: &ServerName, session: &SignInSession, reason: &str) {
        let record = SignInRecord {
            server,
            code: "server_sign_in_failed",
            status: Status::Error,
            message: reason.to_owned(),
            metadata: json!({ "user": session.user }),
        };
        if let Err(error) = self.record(record).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not record a failed sign-in");
        }
    }

    /// Removes the sign-in at a server, and revokes its tokens at the provider if that is possible. Returns false if there
    /// was none.
    pub(crate) async fn sign_out(&self, tokens: &Arc<Tokens>, user: &str) -> Result<bool, SignInError> {
        self.flows.cancel(&tokens.server);
        let loaded = self.load(&tokens.identity).await?;
        let issuer = match &loaded {
            Loaded::Nothing => return Ok(false),
            Loaded::Saved { saved, .. } => saved.credentials.issuer.clone(),
            Loaded::OtherKey(_) | Loaded::Unreadable(_) => None,
        };
        let record = SignInRecord {
            server: &tokens.server,
            code: "server_signed_out",
            status: Status::Success,
            message: format!("{user} signed out"),
            metadata: json!({ "user": user, "issuer": issuer }),
        };
        self.record(record).await?;
        // A renewal under way must not store a token after this.
        let _turn = tokens.turn.lock().await;
        self.store.remove_server_sign_in(&tokens.identity).await?;
        tokens.forget(None, None);
        if let Loaded::Saved { saved, .. } = loaded {
            revoke(tokens, &saved).await;
        }
        tokens.announce();
        Ok(true)
    }
}

/// Exchanges the code of an answer for credentials.
async fn exchanged(pending: &Pending, answer: &SignInAnswer) -> Result<StoredCredentials, String> {
    pending.callback.check(&answer.returned_to, answer.issuer.as_deref())?;
    if let Some(error) = answer.error.as_deref() {
        return Err(match error {
            "access_denied" => "access was denied at the provider".to_owned(),
            known if KNOWN_ERRORS.contains(&known) => format!("the provider answered with the error `{known}`"),
            _ => "the provider answered with an error".to_owned(),
        });
    }
    let code = answer.code.as_deref().ok_or("the answer of the provider has no code")?;
    let session = pending.session.as_ref().ok_or("this sign-in does not use a browser")?;
    let exchanged = session.handle_callback_with_issuer(code, &answer.state, answer.issuer.as_deref()).await;
    exchanged.map_err(|error| reason(&error, &pending.http))?;
    let credentials = pending.fresh.load().await.ok().flatten();
    credentials.ok_or_else(|| "the provider gave no token".to_owned())
}
