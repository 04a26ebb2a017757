//! The `agents` section: access tokens of an identity provider, and what their agents may do.
//!
//! A token of the provider says who its bearer is. It does not say what the bearer may do at this gateway. So the
//! operator maps claims of the token to a [`Scope`], in one of two ways:
//!
//! - `claims.allow` is a list of rules of the operator. The first entry that matches decides. Entries are not combined:
//!   a scope has one list of servers and one of operations, so "write on `github`" and "read on `payroll`" together would
//!   become "write on `payroll`".
//! - `claims.servers`, `claims.operations` and `claims.permissions` name claims in which the provider lists them.
//!
//! Without either, every valid token is a read-only agent without permissions, as a client without a token is with
//! `allow_anonymous_loopback`. With `allow`, a token that no entry matches is refused.
//!
//! Invariant: a scope never contains more than the mapping says. A claim of the wrong type, an unknown operation or an
//! invalid name adds nothing.

use url::{Host, Url};

use super::keys;
use super::read::Reader;
use crate::file::{Fields, Node};
use crate::{Agent, Scope, ServerName, Variant};

/// Entries in `claims.allow`.
const ALLOW_MAX: usize = 200;
/// Names in each list of the section.
const NAMES_MAX: usize = 1000;
/// Length of an issuer, an audience, or the name of a claim.
const TEXT_MAX_BYTES: usize = 512;
/// Length of the claim that names an agent.
const NAME_MAX_BYTES: usize = 128;
/// The claim that names an agent, unless the operator chooses another. Every provider sets it, and never gives it to
/// someone else.
const NAME_CLAIM: &str = "sub";
/// Separates the name of an agent from its issuer. Names of stored tokens cannot contain it.
const AT: char = '@';

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSettings {
    pub oauth: Option<AgentOAuth>,
}

/// Access tokens of an identity provider, accepted beside tokens of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOAuth {
    /// As tokens contain it in `iss`.
    pub issuer: String,
    /// As tokens contain it in `aud`. Best the public URL of `/mcp`, because clients ask for a token for that URL.
    pub audience: String,
    /// Scopes that clients ask the provider for.
    pub scopes: Vec<String>,
    pub claims: ClaimMapping,
    /// Agents that are refused, by the value of the claim that names them.
    pub blocked: Vec<String>,
}

/// Maps the claims of a token to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMapping {
    /// The claim that names the agent.
    pub name: String,
    pub granted: Granted,
}

/// The source of an agent's scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Granted {
    /// Reads on every server, without permissions.
    ReadOnly,
    /// Claims that list servers, operations and permissions. A claim that is not mapped means the same as in
    /// [`Granted::ReadOnly`].
    Listed { servers: Option<String>, operations: Option<String>, permissions: Option<String> },
    /// The first entry that matches.
    Allow(Vec<AllowEntry>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowEntry {
    /// `None` matches every valid token.
    pub matches: Option<ClaimMatch>,
    pub scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMatch {
    pub claim: String,
    pub contains: String,
}

/// The claims of a valid token.
pub trait TokenClaims {
    /// Returns a claim that is a text and not empty.
    fn text(&self, name: &str) -> Option<&str>;

    /// Returns a claim as a list: an array of texts, or one text with spaces between the entries.
    fn list(&self, name: &str) -> Vec<&str>;
}

/// A reason why a valid token has no agent. Each names the setting, and none contains a claim's value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAgent {
    #[error("the token has no usable claim `{0}` to name its agent (`agents.oauth.claims.name`)")]
    Unnamed(String),
    #[error("the operator has blocked this agent (`agents.oauth.blocked`)")]
    Blocked,
    #[error("no entry of `agents.oauth.claims.allow` matches the token")]
    NotAllowed,
}

impl AgentOAuth {
    /// Returns the agent of a token. Its name ends with the issuer, so that it is never the name of a stored token, and
    /// never the name of an agent of another issuer.
    pub fn agent(&self, claims: &dyn TokenClaims) -> Result<Agent, NoAgent> {
        let name = claims.text(&self.claims.name).filter(|name| is_name(name));
        let name = name.ok_or_else(|| NoAgent::Unnamed(self.claims.name.clone()))?;
        if self.blocked.iter().any(|blocked| blocked == name) {
            return Err(NoAgent::Blocked);
        }
        let scope = self.claims.granted.scope(claims).ok_or(NoAgent::NotAllowed)?;
        Ok(Agent { name: format!("{name}{AT}{}", self.label()), scope })
    }

    /// Returns the scopes that clients ask for: those in the settings, and those that an entry of `allow` looks for.
    pub fn requested_scopes(&self) -> Vec<&str> {
        let mut scopes: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        let Granted::Allow(entries) = &self.claims.granted else { return scopes };
        let matches = entries.iter().filter_map(|entry| entry.matches.as_ref());
        for one in matches.filter(|one| matches!(one.claim.as_str(), "scope" | "scp")) {
            if !scopes.contains(&one.contains.as_str()) {
                scopes.push(&one.contains);
            }
        }
        scopes
    }

    /// The issuer without its scheme: `id.example.com/realms/main`.
    fn label(&self) -> &str {
        let issuer = &self.issuer;
        issuer.split_once("://").map_or(issuer.as_str(), |(_, rest)| rest).trim_end_matches('/')
    }
}

/// Returns true for the name of an agent that came with a token of an identity provider.
pub fn is_provider_agent(name: &str) -> bool {
    name.contains(AT)
}

impl Granted {
    /// The claims that list servers, operations and permissions.
    pub(super) fn listed(&self) -> [Option<&String>; 3] {
        match self {
            Self::Listed { servers, operations, permissions } => {
                [servers.as_ref(), operations.as_ref(), permissions.as_ref()]
            }
            Self::ReadOnly | Self::Allow(_) => [None; 3],
        }
    }

    /// Describes the entries of `allow` for people.
    pub(super) fn allowed(&self) -> String {
        let Self::Allow(entries) = self else { return String::new() };
        let words = |entry: &AllowEntry| {
            let operations: Vec<&str> = entry.scope.operations.iter().map(|variant| variant.operation()).collect();
            let operations = if operations.is_empty() { "nothing".to_owned() } else { operations.join(" ") };
            match &entry.matches {
                Some(one) => format!("{} contains {}: {operations}", one.claim, one.contains),
                None => format!("every token: {operations}"),
            }
        };
        entries.iter().map(words).collect::<Vec<_>>().join("; ")
    }

    fn scope(&self, claims: &dyn TokenClaims) -> Option<Scope> {
        match self {
            Self::ReadOnly => Some(Scope::read_only()),
            Self::Listed { servers, operations, permissions } => {
                let least = Scope::read_only();
                Some(Scope {
                    grants: permissions.as_ref().map_or(least.grants, |claim| listed_permissions(claims, claim)),
                    servers: servers.as_ref().map_or(least.servers, |claim| listed_servers(claims, claim)),
                    operations: operations.as_ref().map_or(least.operations, |claim| listed_operations(claims, claim)),
                    headless: false,
                })
            }
            Self::Allow(entries) => {
                let found = entries.iter().find(|entry| entry.matches.as_ref().is_none_or(|one| one.is_in(claims)));
                found.map(|entry| entry.scope.clone())
            }
        }
    }
}

impl ClaimMatch {
    fn is_in(&self, claims: &dyn TokenClaims) -> bool {
        claims.text(&self.claim) == Some(&self.contains) || claims.list(&self.claim).contains(&self.contains.as_str())
    }
}

fn listed_permissions(claims: &dyn TokenClaims, claim: &str) -> Vec<String> {
    let valid = claims.list(claim).into_iter().filter(|permission| Scope::check_permission(permission).is_ok());
    valid.take(NAMES_MAX).map(str::to_owned).collect()
}

/// `*` stands for every server.
fn listed_servers(claims: &dyn TokenClaims, claim: &str) -> Option<Vec<ServerName>> {
    let names = claims.list(claim);
    if names.contains(&"*") {
        return None;
    }
    Some(names.into_iter().filter_map(|name| ServerName::parse(name).ok()).take(NAMES_MAX).collect())
}

fn listed_operations(claims: &dyn TokenClaims, claim: &str) -> Vec<Variant> {
    let words = claims.list(claim);
    Variant::ALL.into_iter().filter(|variant| words.contains(&variant.operation())).collect()
}

/// Checks a value that names an agent. It is refused and not changed, because two values must not become one name.
fn is_name(text: &str) -> bool {
    let fits = |b: u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'@' | b'|' | b':' | b'/' | b'+' | b'=' | b'~')
    };
    (1..=NAME_MAX_BYTES).contains(&text.len()) && text.bytes().all(fits)
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<AgentSettings> {
    let fields = reader.fields(&fields.find("agents")?.node, &keys::AGENTS)?;
    Some(AgentSettings { oauth: fields.find("oauth").and_then(|field| read_oauth(reader, &field.node)) })
}

fn read_oauth(reader: &mut Reader<'_>, node: &Node) -> Option<AgentOAuth> {
    let fields = reader.fields(node, &keys::AGENT_OAUTH)?;
    let issuer = reader.required(node, &fields, "issuer", "the URL of your identity provider");
    let issuer = issuer.and_then(|node| reader.parsed(node, parse_issuer));
    let audience = reader.required(node, &fields, "audience", "the public URL of `/mcp`");
    let audience = audience.and_then(|node| reader.parsed(node, parse_audience));
    let scopes = names(reader, &fields, "scopes", parse_scope);
    let blocked = names(reader, &fields, "blocked", parse_blocked);
    let claims = match fields.find("claims") {
        Some(field) => read_claims(reader, &field.node),
        None => Some(ClaimMapping { name: NAME_CLAIM.to_owned(), granted: Granted::ReadOnly }),
    };
    Some(AgentOAuth { issuer: issuer?, audience: audience?, scopes: scopes?, claims: claims?, blocked: blocked? })
}

fn read_claims(reader: &mut Reader<'_>, node: &Node) -> Option<ClaimMapping> {
    let fields = reader.fields(node, &keys::CLAIMS)?;
    let name = match fields.find("name") {
        Some(field) => reader.parsed(&field.node, parse_claim),
        None => Some(NAME_CLAIM.to_owned()),
    };
    let [servers, operations, permissions] =
        ["servers", "operations", "permissions"].map(|key| reader.parsed_of(&fields, key, parse_claim));
    let allow = fields.find("allow");
    let listed = ["servers", "operations", "permissions"].iter().find_map(|key| fields.find(key));
    if let (Some(_), Some(listed)) = (allow, listed) {
        let message = format!("`{}` and `allow` cannot be combined; remove one of them", listed.name);
        return reader.mistake(listed.position, message);
    }
    let granted = match allow {
        Some(field) => Granted::Allow(reader.list(&field.node, ALLOW_MAX, read_entry)?),
        None if listed.is_some() => Granted::Listed { servers, operations, permissions },
        None => Granted::ReadOnly,
    };
    Some(ClaimMapping { name: name?, granted })
}

fn read_entry(reader: &mut Reader<'_>, node: &Node) -> Option<AllowEntry> {
    let fields = reader.fields(node, &keys::ALLOW)?;
    let claim = reader.parsed_of(&fields, "claim", parse_claim);
    let contains = reader.parsed_of(&fields, "contains", parse_text);
    for (one, other) in [("claim", "contains"), ("contains", "claim")] {
        if fields.find(one).is_some() && fields.find(other).is_none() {
            reader.report(node.position, format!("`{one}` without `{other}`; add it, or remove `{one}`"));
        }
    }
    let matches = claim.zip(contains).map(|(claim, contains)| ClaimMatch { claim, contains });
    let least = Scope::read_only();
    let servers = match fields.find("servers") {
        Some(field) => {
            let read = |reader: &mut Reader<'_>, node: &Node| {
                reader.parsed(node, |text| ServerName::parse(text).map_err(|error| error.to_string()))
            };
            reader.list(&field.node, NAMES_MAX, read).map(Some)
        }
        None => Some(least.servers),
    };
    let operations = match fields.find("operations") {
        Some(field) => {
            reader.list(&field.node, keys::OPERATIONS.len(), |reader, node| reader.choice(node, keys::OPERATIONS))
        }
        None => Some(least.operations),
    };
    let grants = names(reader, &fields, "permissions", |text| Scope::check_permission(text).map(|()| text.to_owned()));
    let headless = reader.boolean_of(&fields, "headless").unwrap_or(false);
    Some(AllowEntry { matches, scope: Scope { grants: grants?, servers: servers?, operations: operations?, headless } })
}

/// Reads a list of texts, which is empty if the key is missing.
fn names(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    key: &str,
    parse: fn(&str) -> Result<String, String>,
) -> Option<Vec<String>> {
    match fields.find(key) {
        Some(field) => reader.list(&field.node, NAMES_MAX, |reader, node| reader.parsed(node, parse)),
        None => Some(Vec::new()),
    }
}

/// Keeps the text as it is written, because tokens must contain exactly this text.
pub(super) fn parse_issuer(text: &str) -> Result<String, String> {
    let bad = || {
        "expected the URL of an identity provider such as \"https://id.example.com\", without `@`, query or `#`"
            .to_owned()
    };
    let text = parse_text(text).map_err(|_| bad())?;
    let url = Url::parse(&text).map_err(|_| bad())?;
    if text.contains(AT) || url.query().is_some() || url.fragment().is_some() {
        return Err(bad());
    }
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => return Err(bad()),
    };
    match url.scheme() {
        "https" => Ok(text),
        "http" if is_here => Ok(text),
        "http" => {
            Err("the keys that check tokens would cross the network unprotected; write `https://` (`http://` is \
                 accepted for localhost only)"
                .to_owned())
        }
        _ => Err(bad()),
    }
}

fn parse_audience(text: &str) -> Result<String, String> {
    parse_text(text).map_err(|_| {
        "expected the public URL of `/mcp`, such as \"https://gateway.example.com/mcp\", or another text that tokens \
         have in `aud`"
            .to_owned()
    })
}

fn parse_claim(text: &str) -> Result<String, String> {
    parse_text(text).map_err(|_| "expected the name of a claim such as \"groups\" or \"realm_access.roles\"".to_owned())
}

fn parse_scope(text: &str) -> Result<String, String> {
    let fits = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
    if (1..=TEXT_MAX_BYTES).contains(&text.len()) && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err("expected a scope such as \"mcp:read\", without spaces or quotes".to_owned())
}

fn parse_blocked(text: &str) -> Result<String, String> {
    if is_name(text) {
        return Ok(text.to_owned());
    }
    Err("expected a value of the claim that names agents (`claims.name`), such as \"anna\"".to_owned())
}

/// Accepts a text without control characters or space at its ends.
fn parse_text(text: &str) -> Result<String, String> {
    let is_plain = text.trim() == text && !text.contains(char::is_control);
    if is_plain && (1..=TEXT_MAX_BYTES).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(format!("expected a text of 1 to {TEXT_MAX_BYTES} characters"))
}
