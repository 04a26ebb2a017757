//! Signs the gateway in to servers that ask for OAuth, and keeps their access tokens valid.
//!
//! ```text
//!  user ─▶ flow.rs, device.rs ─▶ provider          begin and finish a sign-in (callback.rs: the way back)
//!               │ credentials
//!               ▼
//!           saved.rs ─▶ store, sealed              one row per server
//!               ▲
//!               │ renew.rs ◀─ tokens.rs ◀─ upstream    a header for every request
//! ```
//!
//! The protocol itself is rmcp's: discovery, registration, PKCE, `resource`, `iss`, exchange and renewal. This module
//! decides when it runs, who may start it, where its requests may go (`provider.rs`), and where tokens are kept.
//!
//! Invariants:
//!
//! - **A token goes to one server.** It belongs to the server's identity, which is its name and address. Another address
//!   under the same name has no sign-in. An agent's own token is never used.
//! - **A code goes to the provider that issued it.** Each provider has its own redirect URI (`callback.rs`).
//! - **A user signs in.** [`OAuth::begin`] takes a `PresenceProof`. A larger scope that a server asks for later is shown
//!   to a user, and never requested by itself.
//! - **A refresh token is used once.** Renewing runs in a task of its own, which no cancelled call can interrupt. In this
//!   process a lock, and between gateways a lease in the store, let one renewal serve all who wait.
//! - **No text contains a token.** Reasons are made of our own words, because a provider could repeat a secret in its
//!   error message.

mod callback;
mod complete;
mod device;
mod flow;
mod provider;
mod renew;
mod revoke;
mod saved;
mod scopes;
mod shared;
mod tokens;

use std::fmt;

use mcpproxy_core::ServerName;

pub use callback::Callback;
pub use complete::SignInAnswer;
pub use flow::{SignInKind, SignInProgress, SignInStarted, SignInState};
pub(crate) use shared::OAuth;
pub use shared::{SignInError, SignInSession, StartedFrom};
pub(crate) use tokens::Tokens;

/// The reason why a server cannot be used without a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignInNeed {
    /// No sign-in is stored.
    Missing,
    /// The provider or the server no longer accepts the stored sign-in.
    Rejected(&'static str),
    /// A sign-in is stored, but `sealing.key` is another one.
    OtherKey,
    /// The server asks for scopes that the sign-in does not have.
    MoreScopes(Vec<String>),
    /// The sign-in could not be renewed, for a reason that may pass.
    Unrenewed(String),
}

impl SignInNeed {
    /// Returns true if the gateway can try again by itself.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unrenewed(_) => true,
            Self::Missing | Self::Rejected(_) | Self::OtherKey | Self::MoreScopes(_) => false,
        }
    }

    /// Returns true if no call can succeed on this connection. In the other cases, other or later calls may.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Missing | Self::Rejected(_) | Self::OtherKey => true,
            Self::MoreScopes(_) | Self::Unrenewed(_) => false,
        }
    }
}

impl fmt::Display for SignInNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the server asks for a sign-in"),
            Self::Rejected(reason) => f.write_str(reason),
            Self::OtherKey => f.write_str(
                "the stored sign-in was sealed with another `sealing.key`; copy that file into the data folder of this \
                 gateway, or sign in again",
            ),
            Self::MoreScopes(scopes) => write!(f, "the server asks for more scopes: {}", scopes.join(" ")),
            Self::Unrenewed(reason) => write!(f, "could not renew the sign-in: {reason}"),
        }
    }
}

/// A server that needs a sign-in, for the texts of agents and users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignInRequired {
    pub(crate) server: ServerName,
    pub(crate) need: SignInNeed,
    /// The page on which a user signs in.
    pub(crate) page: String,
}

impl SignInRequired {
    pub(crate) fn for_agent(&self) -> String {
        let Self { server, need, page } = self;
        let ask = format!("ask the user to run `mcpproxy servers login {server}`, or to open {page}");
        match need {
            SignInNeed::Unrenewed(_) => {
                format!(
                    "the gateway cannot use its sign-in at this server: {need}. Try again later. If that fails, {ask}"
                )
            }
            SignInNeed::MoreScopes(_) => {
                format!("{need}. The call was not processed. To allow it, {ask}")
            }
            // The text of `OtherKey` is for the operator.
            SignInNeed::Missing | SignInNeed::Rejected(_) | SignInNeed::OtherKey => format!(
                "the server needs a sign-in, so the call was not processed. Repeating the call does not help. Please {ask}"
            ),
        }
    }
}

impl SignInRequired {
    /// Returns the next step, for the operator.
    pub(crate) fn hint(&self) -> String {
        format!("Sign in with `mcpproxy servers login {}`, or on its page: {}", self.server, self.page)
    }
}

impl fmt::Display for SignInRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.need.fmt(f)
    }
}
