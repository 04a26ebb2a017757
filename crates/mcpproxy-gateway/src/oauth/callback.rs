//! The addresses to which providers send browsers back.
//!
//! A hostile provider can send a user's browser on to an honest one, with the `state` and the PKCE challenge of its own
//! sign-in. The honest provider then returns a code under that `state`. A gateway that looks only at the `state` would send
//! the code to the hostile provider. This is the mix-up attack (RFC 9700, section 4.4). An honest provider that does not
//! send `iss` cannot be told apart by its answer, so it is told apart by the address of the answer:
//!
//! | the gateway's client at the provider | redirect URI | reason why an answer of another provider is refused |
//! |---|---|---|
//! | registered, by the gateway or by the operator | `/oauth/callback/DIGEST`, one per issuer | Other providers do not know this address. The gateway compares the digest with the sign-in's own. |
//! | a metadata document | `/oauth/callback` | The answer must contain `iss`. |
//!
//! A document cannot list one address per issuer. Every provider reads the same document, so each would accept the
//! addresses of all. That is why the gateway uses its document only at providers that announce `iss`.

use mcpproxy_core::Digest;

const PATH: &str = "/oauth/callback";
/// 128 bits. Nobody finds another issuer with the same digits.
const DIGITS: usize = 32;

/// The redirect URI of a sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callback {
    /// The address for one issuer: the first digits of its SHA-256.
    Issuer(String),
    /// The address in the gateway's client metadata document.
    Document,
}

impl Callback {
    pub(super) fn of_issuer(issuer: &str) -> Self {
        let mut digits = Digest::of(issuer.as_bytes()).to_string();
        digits.truncate(DIGITS);
        Self::Issuer(digits)
    }

    pub(super) fn path(&self) -> String {
        match self {
            Self::Issuer(digits) => format!("{PATH}/{digits}"),
            Self::Document => PATH.to_owned(),
        }
    }

    /// Checks that an answer comes from the provider that this sign-in began with. `iss` itself is compared by rmcp.
    pub(super) fn check(&self, returned_to: &Self, issuer: Option<&str>) -> Result<(), &'static str> {
        match (self == returned_to, self) {
            (false, _) => {
                Err("the answer came to the address of another provider than the one that the sign-in began with")
            }
            (true, Self::Document) if issuer.is_none() => {
                Err("the answer does not name the provider (`iss` is missing)")
            }
            (true, Self::Document | Self::Issuer(_)) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_issuer_has_an_address_of_its_own() {
        let honest = Callback::of_issuer("https://id.example");
        // As `printf %s https://id.example | sha256sum | cut -c1-32`.
        assert_eq!(honest.path(), "/oauth/callback/20a69b77c18109782ebd19432534d036");
        assert_ne!(honest, Callback::of_issuer("https://evil.example"));
    }

    #[test]
    fn an_answer_must_come_to_the_address_of_its_sign_in() {
        let (own, other) = (Callback::of_issuer("https://id.example"), Callback::of_issuer("https://evil.example"));
        assert!(own.check(&own, None).is_ok(), "the provider need not send `iss`");
        for (begun, returned) in [(&own, &other), (&own, &Callback::Document), (&Callback::Document, &own)] {
            assert!(begun.check(returned, Some("https://id.example")).is_err(), "{begun:?} {returned:?}");
        }
        assert!(Callback::Document.check(&Callback::Document, None).is_err(), "every provider knows this address");
        assert!(Callback::Document.check(&Callback::Document, Some("https://id.example")).is_ok());
    }
}
