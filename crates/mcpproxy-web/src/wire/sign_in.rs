//! The JSON of sign-ins at servers that ask for OAuth.

use mcpproxy_gateway::{SignInProgress as Progress, SignInStarted as Started, SignInState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::words;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginSignIn {
    /// True to sign in on another device, with a short code.
    #[serde(default)]
    pub(crate) device: bool,
    /// A fresh code from an authenticator app. Replaces `page_key`.
    pub(crate) totp: Option<String>,
    /// `page_key` from the answer to signing in. Required without `totp`.
    pub(crate) page_key: Option<String>,
}

/// A sign-in at a server that has begun.
#[derive(Serialize, ToSchema)]
pub(crate) struct SignInStarted {
    id: String,
    /// The page of the provider to open in a browser.
    url: String,
    /// The code to type on that page, for a sign-in on another device.
    user_code: Option<String>,
    /// The scopes that are requested.
    scopes: Vec<String>,
    /// The provider.
    issuer: String,
    /// The redirect URI to register at the provider for `oauth.client_id`. `null` for a sign-in on another device.
    redirect_uri: Option<String>,
    /// The time to finish the sign-in.
    lasts_ms: u64,
}

impl From<Started> for SignInStarted {
    fn from(started: Started) -> Self {
        let Started { id, url, user_code, scopes, issuer, redirect_uri, lasts } = started;
        let lasts_ms = lasts.as_millis().try_into().unwrap_or(u64::MAX);
        Self { id, url, user_code, scopes, issuer, redirect_uri, lasts_ms }
    }
}

/// The newest sign-in at a server.
#[derive(Serialize, ToSchema)]
pub(crate) struct SignInProgress {
    id: String,
    #[schema(schema_with = states)]
    state: &'static str,
    /// Reason why it failed.
    reason: Option<String>,
    /// The scopes that the provider granted.
    scopes: Vec<String>,
}

impl From<Progress> for SignInProgress {
    fn from(progress: Progress) -> Self {
        let (state, reason, scopes) = match progress.state {
            SignInState::Waiting => ("waiting", None, Vec::new()),
            SignInState::SignedIn { scopes } => ("signed_in", None, scopes),
            SignInState::Failed(reason) => ("failed", Some(reason), Vec::new()),
        };
        Self { id: progress.id, state, reason, scopes }
    }
}

fn states() -> Object {
    words("`waiting` until the user returns from the provider.", ["waiting", "signed_in", "failed"])
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SignedOut {
    /// False if there was no sign-in.
    pub(crate) signed_out: bool,
}
