//! The reasons to refuse a sign-in or a step-up with the provider, with the words for users and for the log.

use http::StatusCode;
use mcpproxy_identity::TokenError;
use mcpproxy_store::StoreError;

use super::facts::Mismatch;

const ERROR_CODE_MAX: usize = 40;

/// A reason to refuse a trip to the provider.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// No provider is configured.
    Off,
    /// Too many sign-ins are under way.
    Busy,
    /// The provider cannot be reached, or its metadata is wrong.
    Unreachable,
    NoEndpoints,
    /// The `state` is unknown, used, expired, or of another browser.
    State,
    /// The answer comes from another issuer than the settings name.
    Issuer,
    /// The provider sent an error code.
    ByProvider(String),
    /// The provider did not accept the code.
    Code,
    NoIdToken,
    Token(TokenError),
    Claims(Mismatch),
    NotAllowed,
    /// Nobody has an account yet, and the sign-in did not begin at the setup link.
    NeedsSetupLink,
    NoName,
    /// The user at the provider is not the signed-in user, or the session has ended.
    OtherUser,
    Store(StoreError),
}

impl Refusal {
    pub(super) fn unreachable(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::warn!(error, "the identity provider cannot be used");
        Self::Unreachable
    }

    /// Keeps the error code of the provider, if it looks like one.
    pub(super) fn by_provider(error: &str) -> Self {
        let is_code = error.len() <= ERROR_CODE_MAX && error.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        Self::ByProvider(if is_code { error.to_owned() } else { "unknown_error".to_owned() })
    }

    /// Returns the reason for the log. `None` if nothing was refused: the user may try again later.
    pub(crate) fn reason(&self) -> Option<String> {
        Some(match self {
            Self::Off | Self::Busy | Self::Store(_) => return None,
            Self::Unreachable | Self::NoEndpoints => "the provider cannot be reached".to_owned(),
            Self::State => "unknown, used or expired state".to_owned(),
            Self::Issuer => "another issuer".to_owned(),
            Self::ByProvider(code) => format!("the provider answered {code}"),
            Self::Code => "the provider did not accept the code".to_owned(),
            Self::NoIdToken => "no ID token".to_owned(),
            Self::Token(error) => error.to_string(),
            Self::Claims(mismatch) => mismatch.reason().to_owned(),
            Self::NotAllowed => "not allowed by people.oidc.allowed".to_owned(),
            Self::NeedsSetupLink => "the first user needs the setup link".to_owned(),
            Self::NoName => "no free name".to_owned(),
            Self::OtherUser => "another user than the signed-in one".to_owned(),
        })
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Off => StatusCode::NOT_FOUND,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Unreachable | Self::NoEndpoints | Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Token(TokenError::Provider(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Self::State
            | Self::Issuer
            | Self::ByProvider(_)
            | Self::Code
            | Self::NoIdToken
            | Self::Token(_)
            | Self::Claims(_) => StatusCode::BAD_REQUEST,
            Self::NotAllowed | Self::NeedsSetupLink | Self::NoName | Self::OtherUser => StatusCode::FORBIDDEN,
        }
    }

    /// Returns the heading and the text of the page.
    pub(crate) fn words(&self) -> (&'static str, String) {
        let (heading, text) = match self {
            Self::Off => ("No identity provider", "This gateway has no identity provider. Sign in with your password."),
            Self::Busy => {
                ("Try again in a moment", "Too many sign-ins are under way. Wait a few seconds and try again.")
            }
            Self::Unreachable | Self::Token(TokenError::Provider(_)) => (
                "The identity provider does not answer",
                "Nobody can sign in with it right now. Try again in a moment. If the gateway has local accounts, you can \
                 still sign in with a password. The gateway’s log has the reason.",
            ),
            Self::NoEndpoints => (
                "The identity provider cannot be used",
                "Its metadata lacks the address for signing in or for tokens. Check `people.oidc.issuer` in the settings.",
            ),
            Self::State => (
                "This sign-in does not count",
                "It was used already, began more than ten minutes ago, or began in another browser. Sign in again.",
            ),
            Self::Issuer => (
                "This sign-in does not count",
                "The answer came from another identity provider than the one in the settings. Sign in again.",
            ),
            Self::ByProvider(code) => {
                let text = format!("The identity provider answered `{code}`. Sign in again, or ask its administrator.");
                return ("You were not signed in", text);
            }
            Self::Code => (
                "You were not signed in",
                "The identity provider did not accept the code of this sign-in. Sign in again. If it happens again, \
                 check `people.oidc.client_id` and `client_secret` in the settings.",
            ),
            Self::NoIdToken | Self::Token(_) => (
                "You were not signed in",
                "The identity provider sent no valid ID token for this gateway. The activity log has the reason.",
            ),
            Self::Claims(mismatch) => return ("You were not signed in", mismatch.message().to_owned()),
            Self::NotAllowed => (
                "You may not sign in here",
                "The identity provider knows you, but this gateway does not allow your account. Ask its operator to add \
                 you to `people.oidc.allowed`. Only addresses that the provider has verified count.",
            ),
            Self::NeedsSetupLink => (
                "Open the setup link first",
                "Nobody has an account here yet. Open the setup link that the gateway printed when it started, and \
                 continue with the identity provider there.",
            ),
            Self::NoName => ("No account could be created", "Too many users have the same name. Ask the operator."),
            Self::OtherUser => (
                "Nothing was confirmed",
                "You signed in at the identity provider as another user, or your session here has ended. Sign in again.",
            ),
            Self::Store(_) => (
                "Temporarily unavailable",
                "The gateway cannot reach its database right now. Nothing was changed. Try again in a moment.",
            ),
        };
        (heading, text.to_owned())
    }
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl From<Mismatch> for Refusal {
    fn from(mismatch: Mismatch) -> Self {
        Self::Claims(mismatch)
    }
}

/// Checks the `iss` parameter (RFC 9207). A provider that promises it must send it.
pub(super) fn check_issuer(given: Option<&str>, issuer: &str, is_promised: bool) -> Result<(), Refusal> {
    match given {
        Some(given) if given == issuer => Ok(()),
        None if !is_promised => Ok(()),
        Some(_) | None => Err(Refusal::Issuer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issuer_of_an_answer() {
        let check = |given: Option<&str>, is_promised: bool, expected: bool| {
            assert_eq!(check_issuer(given, "https://id.example", is_promised).is_ok(), expected, "{given:?}");
        };
        check(Some("https://id.example"), true, true);
        check(Some("https://id.example"), false, true);
        check(Some("https://evil.example"), true, false);
        check(Some("https://evil.example"), false, false);
        check(Some(""), false, false);
        check(None, false, true);
        check(None, true, false);
    }

    #[test]
    fn codes_of_a_provider_are_shown_only_if_they_are_codes() {
        let check = |error: &str, expected: &str| {
            let Refusal::ByProvider(code) = Refusal::by_provider(error) else { panic!("{error}") };
            assert_eq!(code, expected);
        };
        check("access_denied", "access_denied");
        check("<script>", "unknown_error");
        check(&"a".repeat(41), "unknown_error");
    }
}
