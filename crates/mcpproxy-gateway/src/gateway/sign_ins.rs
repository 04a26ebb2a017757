//! Sign-ins at servers that ask for OAuth, for users.

use std::sync::Arc;

use mcpproxy_core::ServerName;
use mcpproxy_store::PresenceProof;
use serde_json::Value;

use super::Gateway;
use crate::oauth::{SignInAnswer, SignInError, SignInKind, SignInProgress, SignInSession, SignInStarted, Tokens};

impl Gateway {
    /// Begins a sign-in at a server. The user finishes it at the provider.
    pub async fn begin_sign_in(
        &self,
        name: &ServerName,
        kind: SignInKind,
        session: SignInSession,
        present: &PresenceProof,
    ) -> Result<SignInStarted, SignInError> {
        let tokens = self.tokens_of(name)?;
        self.oauth.begin(&tokens, kind, session, present).await
    }

    /// Returns how far the newest sign-in at a server is.
    pub fn sign_in_progress(&self, name: &ServerName) -> Option<SignInProgress> {
        self.oauth.progress(name)
    }

    /// Returns the server and the session that an answer of a provider belongs to, if its sign-in is under way.
    pub fn sign_in_begun_by(&self, state: &str) -> Option<(ServerName, SignInSession)> {
        self.oauth.begun_by(state)
    }

    /// Takes the answer of a provider, once. Returns the server, and the reason if the sign-in failed.
    pub async fn finish_sign_in(&self, answer: SignInAnswer) -> Option<(ServerName, Result<(), String>)> {
        self.oauth.finish(answer).await
    }

    /// Signs out at a server. Returns false if there was no sign-in.
    pub async fn sign_out(&self, name: &ServerName, user: &str) -> Result<bool, SignInError> {
        let tokens = self.tokens_of(name)?;
        self.oauth.sign_out(&tokens, user).await
    }

    /// Returns the description of the gateway for providers, if its public address has https.
    pub fn client_document(&self) -> Option<Value> {
        self.oauth.client_document()
    }

    fn tokens_of(&self, name: &ServerName) -> Result<Arc<Tokens>, SignInError> {
        let server = self.servers.find(name).ok_or(SignInError::NoServer)?;
        if !server.settings.enabled {
            return Err(SignInError::NotPossible("the server is disabled; enable it first".to_owned()));
        }
        if let Some(reason) = server.misconfigured() {
            return Err(SignInError::NotPossible(format!("the settings of the server have a mistake: {reason}")));
        }
        server.tokens.clone().ok_or_else(|| {
            let text = "only servers with a `url` and without an `Authorization` header ask for a sign-in";
            SignInError::NotPossible(text.to_owned())
        })
    }
}
