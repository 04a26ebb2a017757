//! The claims of an ID token, and the rules for them that go beyond signature, issuer, audience and expiry.

use mcpproxy_core::settings::OidcSettings;
use mcpproxy_identity::Claims;
use mcpproxy_store::Profile;
use serde_json::Value;

/// Tolerated difference between the provider's clock and ours, in seconds.
const CLOCK_SKEW_S: i64 = 60;
/// OpenID Connect limits a subject to 255 characters, and RFC 5321 an address to 254.
const SUBJECT_MAX_CHARS: usize = 255;
const EMAIL_MAX_CHARS: usize = 254;
const NAME_MAX_CHARS: usize = 100;

/// The claims that a sign-in uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) subject: Option<String>,
    nonce: Option<String>,
    audiences: usize,
    authorized_party: Option<String>,
    username: Option<String>,
    auth_time: Option<i64>,
    acr: Option<String>,
    pub(super) profile: Profile,
}

/// The values that the claims must have.
pub(super) struct Expected<'a> {
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now_s: i64,
    pub(super) step_up: Option<ExpectedStepUp<'a>>,
}

pub(super) struct ExpectedStepUp<'a> {
    /// The user must have authenticated after this time.
    pub(super) begun_s: i64,
    pub(super) acr: Option<&'a str>,
}

/// A claim that is missing or has another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Subject,
    Nonce,
    AuthorizedParty,
    NoAuthTime,
    StaleAuthTime,
    Acr,
}

impl Facts {
    pub(super) fn of(claims: &Claims, settings: &OidcSettings) -> Self {
        let text = |name: &str| claims.text(name).map(str::to_owned);
        let known = |group: &String| settings.allowed.groups.contains(group) || settings.admins.groups.contains(group);
        Self {
            subject: text("sub"),
            nonce: text("nonce"),
            audiences: match claims.get("aud") {
                Some(Value::Array(audiences)) => audiences.len(),
                Some(_) | None => 1,
            },
            authorized_party: text("azp"),
            username: text("preferred_username"),
            auth_time: claims.seconds("auth_time"),
            acr: text("acr"),
            profile: Profile {
                email: text("email").filter(|email| email.chars().count() <= EMAIL_MAX_CHARS),
                email_verified: claims.is_true("email_verified"),
                name: text("name").map(|name| name.chars().take(NAME_MAX_CHARS).collect()),
                // Groups that no setting names do not matter here, and some users have hundreds.
                groups: groups(claims.get(&settings.groups_claim)).into_iter().filter(known).collect(),
            },
        }
    }

    /// Returns the subject if all claims are as expected.
    pub(super) fn check(&self, expected: &Expected<'_>) -> Result<&str, Mismatch> {
        let subject = self.subject.as_deref().filter(|subject| subject.chars().count() <= SUBJECT_MAX_CHARS);
        let subject = subject.ok_or(Mismatch::Subject)?;
        if self.nonce.as_deref() != Some(expected.nonce) {
            return Err(Mismatch::Nonce);
        }
        let is_ours = |party: &String| party == expected.client_id;
        let is_for_us = match &self.authorized_party {
            Some(party) => is_ours(party),
            // A token for several audiences must say which of them requested it.
            None => self.audiences == 1,
        };
        if !is_for_us {
            return Err(Mismatch::AuthorizedParty);
        }
        if let Some(step_up) = &expected.step_up {
            let auth_time = self.auth_time.ok_or(Mismatch::NoAuthTime)?;
            let earliest = step_up.begun_s.saturating_sub(CLOCK_SKEW_S);
            if !(earliest..=expected.now_s.saturating_add(CLOCK_SKEW_S)).contains(&auth_time) {
                return Err(Mismatch::StaleAuthTime);
            }
            if step_up.acr.is_some_and(|acr| self.acr.as_deref() != Some(acr)) {
                return Err(Mismatch::Acr);
            }
        }
        Ok(subject)
    }

    /// Returns a name for a new account. An address counts only if it is verified: the name stands beside every decision.
    pub(super) fn wanted_name(&self, subject: &str) -> String {
        let email = self.profile.email.as_ref().filter(|_| self.profile.email_verified);
        email.or(self.username.as_ref()).map_or_else(|| subject.to_owned(), Clone::clone)
    }
}

/// Reads the groups: a list of texts, or one text. It is not split, because names of groups have spaces.
fn groups(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) | None => Vec::new(),
    }
}

impl Mismatch {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Subject => "the ID token has no valid subject",
            Self::Nonce => "the ID token has another nonce",
            Self::AuthorizedParty => "the ID token was made for another client",
            Self::NoAuthTime => "the ID token has no auth_time",
            Self::StaleAuthTime => "the user did not authenticate again",
            Self::Acr => "the ID token has another acr",
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Subject | Self::Nonce | Self::AuthorizedParty => {
                "The ID token of the identity provider is not for this sign-in. Sign in again."
            }
            Self::NoAuthTime => {
                "The identity provider does not say when you authenticated (`auth_time`), so it cannot confirm an \
                 approval. Ask its administrator."
            }
            Self::StaleAuthTime => {
                "The identity provider did not ask you to authenticate again, so nothing was confirmed. Try again, or ask \
                 its administrator to support `prompt=login`."
            }
            Self::Acr => {
                "You did not authenticate in the way that `people.oidc.acr` requires. Try again with another method."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn facts() -> Facts {
        Facts {
            subject: Some("s-1".to_owned()),
            nonce: Some("n".to_owned()),
            audiences: 1,
            auth_time: Some(NOW),
            acr: Some("mfa".to_owned()),
            ..Facts::default()
        }
    }

    fn check(change: fn(&mut Facts), step_up: Option<ExpectedStepUp<'_>>, expected: Result<&str, Mismatch>) {
        let mut facts = facts();
        change(&mut facts);
        let values = Expected { client_id: "gate", nonce: "n", now_s: NOW, step_up };
        assert_eq!(facts.check(&values), expected, "{facts:?}");
    }

    #[test]
    fn claims_of_a_sign_in() {
        check(|_| {}, None, Ok("s-1"));
        check(|facts| facts.subject = None, None, Err(Mismatch::Subject));
        check(|facts| facts.subject = Some("x".repeat(256)), None, Err(Mismatch::Subject));
        check(|facts| facts.nonce = None, None, Err(Mismatch::Nonce));
        check(|facts| facts.nonce = Some("m".to_owned()), None, Err(Mismatch::Nonce));
        check(|facts| facts.audiences = 2, None, Err(Mismatch::AuthorizedParty));
        check(|facts| facts.authorized_party = Some("gate".to_owned()), None, Ok("s-1"));
        check(|facts| facts.authorized_party = Some("other".to_owned()), None, Err(Mismatch::AuthorizedParty));
        let for_us = |facts: &mut Facts| (facts.audiences, facts.authorized_party) = (2, Some("gate".to_owned()));
        check(for_us, None, Ok("s-1"));
        check(|facts| facts.auth_time = None, None, Ok("s-1"));
    }

    #[test]
    fn claims_of_a_step_up() {
        let step_up = |begun_s: i64| Some(ExpectedStepUp { begun_s, acr: None });
        check(|_| {}, step_up(NOW - 5), Ok("s-1"));
        check(|facts| facts.auth_time = Some(NOW - 65), step_up(NOW - 5), Ok("s-1"));
        check(|facts| facts.auth_time = Some(NOW - 66), step_up(NOW - 5), Err(Mismatch::StaleAuthTime));
        check(|facts| facts.auth_time = Some(NOW + 60), step_up(NOW - 5), Ok("s-1"));
        check(|facts| facts.auth_time = Some(NOW + 61), step_up(NOW - 5), Err(Mismatch::StaleAuthTime));
        check(|facts| facts.auth_time = None, step_up(NOW - 5), Err(Mismatch::NoAuthTime));
        let with_acr = || Some(ExpectedStepUp { begun_s: NOW, acr: Some("mfa") });
        check(|_| {}, with_acr(), Ok("s-1"));
        check(|facts| facts.acr = Some("pwd".to_owned()), with_acr(), Err(Mismatch::Acr));
        check(|facts| facts.acr = None, with_acr(), Err(Mismatch::Acr));
    }

    #[test]
    fn names_come_from_verified_addresses() {
        let mut facts = facts();
        facts.profile.email = Some("anna@example.com".to_owned());
        assert_eq!(facts.wanted_name("s-1"), "s-1");
        facts.username = Some("anna".to_owned());
        assert_eq!(facts.wanted_name("s-1"), "anna");
        facts.profile.email_verified = true;
        assert_eq!(facts.wanted_name("s-1"), "anna@example.com");
    }

    #[test]
    fn groups_are_not_split() {
        let read = |json: &str| groups(Some(&serde_json::from_str(json).unwrap()));
        assert_eq!(read(r#""Domain Admins""#), ["Domain Admins"]);
        assert_eq!(read(r#"["a b", 7, "c"]"#), ["a b", "c"]);
        assert!(read("7").is_empty() && groups(None).is_empty());
    }
}
