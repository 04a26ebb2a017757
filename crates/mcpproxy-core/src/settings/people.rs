//! The `people` section: how users sign in, who may sign in with an identity provider, and how long sessions last.
//!
//! Nobody is allowed by default. Without a selector in `allowed`, every account of the provider could approve calls, and a
//! public provider has accounts for everybody. So an empty `allowed` is a mistake, not a default.

use std::time::Duration;

use super::read::Reader;
use super::{Secret, address, amount, approvals, keys};
use crate::file::amount::DAY;
use crate::file::{Fields, Member, Node};

/// Entries in one list of selectors.
const SELECTORS_MAX: usize = 1000;
const TEXT_MAX_CHARS: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeopleSettings {
    /// Local users may sign in with their password.
    pub password: bool,
    pub oidc: Option<OidcSettings>,
    pub session: SessionSettings,
}

/// The lifetime of the sessions of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// A session without requests ends after this time.
    pub idle: Duration,
    /// Every session ends after this time.
    pub max: Duration,
}

/// An OpenID Connect provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    /// Exactly as the provider writes it.
    pub issuer: String,
    pub client_id: String,
    /// `None` for a public client, which PKCE protects.
    pub client_secret: Option<Secret>,
    /// Scopes to request besides `openid`, `profile` and `email`.
    pub scopes: Vec<String>,
    pub allowed: Selectors,
    /// Users of the provider who may also invite and remove users.
    pub admins: Selectors,
    /// The claim with the groups of a user.
    pub groups_claim: String,
    /// The name of the provider on the button.
    pub name: String,
    /// The authentication context that a step-up requires.
    pub acr: Option<String>,
}

/// Selects users of a provider. A user is selected if one entry matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// In lower case.
    pub emails: Vec<String>,
    /// In lower case, without `@`.
    pub domains: Vec<String>,
    /// Compared exactly.
    pub groups: Vec<String>,
}

impl Default for PeopleSettings {
    fn default() -> Self {
        Self { password: true, oidc: None, session: SessionSettings::default() }
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { idle: Self::IDLE, max: Self::MAX }
    }
}

impl SessionSettings {
    pub const IDLE: Duration = Duration::from_secs(15 * 60);
    pub const MAX: Duration = Duration::from_secs(12 * 60 * 60);

    pub fn idle_ms(&self) -> i64 {
        i64::try_from(self.idle.as_millis()).unwrap_or(i64::MAX)
    }

    pub fn max_ms(&self) -> i64 {
        i64::try_from(self.max.as_millis()).unwrap_or(i64::MAX)
    }
}

impl OidcSettings {
    pub const GROUPS_CLAIM: &str = "groups";
    pub const NAME: &str = "single sign-on";
}

impl Selectors {
    pub fn is_empty(&self) -> bool {
        self.emails.is_empty() && self.domains.is_empty() && self.groups.is_empty()
    }

    /// Returns true if an entry matches. `verified_email` is an address that the provider has checked: anyone can claim
    /// another one.
    pub fn select(&self, verified_email: Option<&str>, groups: &[String]) -> bool {
        let email = verified_email.map(str::to_lowercase).unwrap_or_default();
        let is_email = !email.is_empty() && self.emails.contains(&email);
        // The last `@` separates the domain. A quoted local part may contain others.
        let domain = email.rsplit_once('@').map(|(_, domain)| domain).filter(|domain| !domain.is_empty());
        let is_domain = domain.is_some_and(|domain| self.domains.iter().any(|own| own == domain));
        is_email || is_domain || groups.iter().any(|group| self.groups.contains(group))
    }

    /// Returns true if these select users that `other` does not.
    fn select_more_than(&self, other: &Self) -> bool {
        let more = |own: &[String], others: &[String]| own.iter().any(|entry| !others.contains(entry));
        more(&self.emails, &other.emails) || more(&self.domains, &other.domains) || more(&self.groups, &other.groups)
    }

    fn in_both(&self, other: &Self) -> Self {
        let both =
            |own: &[String], others: &[String]| own.iter().filter(|entry| others.contains(entry)).cloned().collect();
        Self {
            emails: both(&self.emails, &other.emails),
            domains: both(&self.domains, &other.domains),
            groups: both(&self.groups, &other.groups),
        }
    }
}

impl PeopleSettings {
    /// Names the keys that let in more users, or keep them signed in for longer, than `old` does. Each has the words for
    /// the old and the new value.
    pub(crate) fn weaker_than(&self, old: &Self) -> Vec<(&'static str, &'static str, &'static str)> {
        let mut weaker = Vec::new();
        if self.password && !old.password {
            weaker.push(("people.password", "false", "true"));
        }
        match (&old.oidc, &self.oidc) {
            (None, Some(_)) => weaker.push(("people.oidc", "none", "set")),
            (Some(old), Some(new)) => {
                if new.is_another_provider(old) {
                    weaker.push(("people.oidc", "set", "changed"));
                }
                if new.allowed.select_more_than(&old.allowed) {
                    weaker.push(("people.oidc.allowed", "fewer users", "more users"));
                }
                if new.admins.select_more_than(&old.admins) {
                    weaker.push(("people.oidc.admins", "fewer users", "more users"));
                }
            }
            (Some(_) | None, None) => {}
        }
        if self.session.idle > old.session.idle || self.session.max > old.session.max {
            weaker.push(("people.session", "shorter", "longer"));
        }
        weaker
    }

    /// Returns these settings with everything that is stricter in `old`.
    pub(crate) fn held(&self, old: &Self) -> Self {
        let oidc = match (&old.oidc, &self.oidc) {
            (Some(old), Some(new)) => {
                let base = if new.is_another_provider(old) { old } else { new };
                let (allowed, admins) = (new.allowed.in_both(&old.allowed), new.admins.in_both(&old.admins));
                Some(OidcSettings { allowed, admins, ..base.clone() })
            }
            (None, _) | (_, None) => None,
        };
        let session = SessionSettings {
            idle: self.session.idle.min(old.session.idle),
            max: self.session.max.min(old.session.max),
        };
        Self { password: self.password && old.password, oidc, session }
    }
}

impl OidcSettings {
    /// Returns true if other accounts would be accepted, or a weaker step-up.
    fn is_another_provider(&self, old: &Self) -> bool {
        let Self { issuer, client_id, groups_claim, acr, client_secret: _, scopes: _, allowed: _, admins: _, name: _ } =
            self;
        (issuer, client_id, groups_claim, acr) != (&old.issuer, &old.client_id, &old.groups_claim, &old.acr)
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<PeopleSettings> {
    let fields = reader.fields(&fields.find("people")?.node, &keys::PEOPLE)?;
    let default = PeopleSettings::default();
    let password = reader.boolean_of(&fields, "password").unwrap_or(default.password);
    if let Some(field) = fields.find("password")
        && !password
        && fields.find("oidc").is_none()
    {
        let message = "nobody could sign in: there is no identity provider; add `people.oidc`, or remove `password`";
        reader.report(field.node.position, message);
    }
    Some(PeopleSettings {
        password,
        oidc: fields.find("oidc").and_then(|field| read_oidc(reader, &field.node)),
        session: read_session(reader, &fields).unwrap_or_default(),
    })
}

fn read_session(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<SessionSettings> {
    let node = &fields.find("session")?.node;
    let fields = reader.fields(node, &keys::SESSION)?;
    let default = SessionSettings::default();
    let session = SessionSettings {
        idle: reader.parsed_of(&fields, "idle", amount::parse_session_idle).unwrap_or(default.idle),
        max: reader.parsed_of(&fields, "max", amount::parse_session_max).unwrap_or(default.max),
    };
    if session.idle > session.max {
        reader.report(node.position, "`idle` is longer than `max`; write a shorter `idle`, or a longer `max`");
    }
    Some(session)
}

fn read_oidc(reader: &mut Reader<'_>, node: &Node) -> Option<OidcSettings> {
    let fields = reader.fields(node, &keys::OIDC)?;
    for key in ["issuer", "client_id"] {
        if fields.find(key).is_none() {
            reader.report(node.position, format!("an identity provider needs `{key}`; add it"));
        }
    }
    let allowed = read_selectors(reader, fields.find("allowed"));
    if allowed.as_ref().is_none_or(Selectors::is_empty) {
        let message = "nobody may sign in, because `allowed` is empty; add `emails`, `domains` or `groups`, such as \
                       \"allowed\": {\"emails\": [\"anna@example.com\"]}";
        reader.report(fields.find("allowed").map_or(node.position, |field| field.node.position), message);
    }
    let client_secret = fields.find("client_secret");
    let client_secret = client_secret.and_then(|field| approvals::read_secret(reader, &field.node, check_text));
    let issuer = reader.parsed_of(&fields, "issuer", address::parse_issuer);
    let client_id = reader.parsed_of(&fields, "client_id", parse_text);
    Some(OidcSettings {
        client_secret,
        scopes: reader.parsed_list(&fields, "scopes", parse_scope),
        allowed: allowed.unwrap_or_default(),
        admins: read_selectors(reader, fields.find("admins")).unwrap_or_default(),
        groups_claim: read_text(reader, &fields, "groups_claim")
            .unwrap_or_else(|| OidcSettings::GROUPS_CLAIM.to_owned()),
        name: read_text(reader, &fields, "name").unwrap_or_else(|| OidcSettings::NAME.to_owned()),
        acr: read_text(reader, &fields, "acr"),
        issuer: issuer?,
        client_id: client_id?,
    })
}

fn read_selectors(reader: &mut Reader<'_>, field: Option<&Member>) -> Option<Selectors> {
    let node = &field?.node;
    let fields = reader.fields(node, &keys::SELECTORS)?;
    let selectors = Selectors {
        emails: reader.parsed_list(&fields, "emails", parse_email),
        domains: reader.parsed_list(&fields, "domains", parse_domain),
        groups: reader.parsed_list(&fields, "groups", parse_text),
    };
    let most = [&selectors.emails, &selectors.domains, &selectors.groups].into_iter().map(Vec::len).max();
    if most.is_some_and(|most| most > SELECTORS_MAX) {
        reader.report(node.position, format!("more than {SELECTORS_MAX} entries in a list; use `domains` or `groups`"));
    }
    Some(selectors)
}

fn read_text(reader: &mut Reader<'_>, fields: &Fields<'_>, key: &str) -> Option<String> {
    reader.parsed_of(fields, key, parse_text)
}

fn check_text(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("the text is empty; write a value, or remove the key".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("the text contains a control character; remove it".to_owned());
    }
    if text.chars().count() > TEXT_MAX_CHARS {
        return Err(format!("the text is longer than {TEXT_MAX_CHARS} characters; shorten it"));
    }
    Ok(())
}

fn parse_text(text: &str) -> Result<String, String> {
    check_text(text).map(|()| text.to_owned())
}

fn parse_scope(text: &str) -> Result<String, String> {
    let is_scope = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
    if is_scope { Ok(text.to_owned()) } else { Err("expected one scope without spaces, such as \"groups\"".to_owned()) }
}

fn parse_email(text: &str) -> Result<String, String> {
    let bad = || "expected an e-mail address such as \"anna@example.com\"".to_owned();
    check_text(text).map_err(|_| bad())?;
    let (local, domain) = text.rsplit_once('@').ok_or_else(bad)?;
    if local.is_empty() || local.contains(['*', ' ']) {
        return Err(bad());
    }
    parse_domain(domain).map_err(|_| bad())?;
    Ok(text.to_lowercase())
}

fn parse_domain(text: &str) -> Result<String, String> {
    let bad = || "expected a domain such as \"example.com\", without `@` or `*`".to_owned();
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
    let is_domain = !text.is_empty() && text.chars().all(fits) && !text.starts_with('.') && text.contains('.');
    if is_domain { Ok(text.to_lowercase()) } else { Err(bad()) }
}

/// The longest session. The store forgets sessions that were not used for this long.
pub(super) const SESSION_MAX: Duration = Duration::from_secs(7 * DAY.as_secs());

#[cfg(test)]
mod tests;
