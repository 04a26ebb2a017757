//! The `oauth` section of a server: how the gateway signs in to it, if the server asks for OAuth.
//!
//! Most servers need none of it: the gateway finds the identity provider by itself and registers as a client. The section
//! is for providers that want a client registered by hand, and for servers that the gateway uses without a user.

use super::keys;
use super::read::Reader;
use super::secret::Secret;
use crate::file::{Fields, shown};

/// Scopes of one server, at most.
pub const OAUTH_SCOPES_MAX: usize = 100;
const SCOPE_MAX_BYTES: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// A client that is registered at the provider. Without it, the gateway registers itself.
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    /// The scopes to request. Empty requests those that the server names.
    pub scopes: Vec<String>,
    pub grant: OAuthGrant,
}

/// The way to get a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OAuthGrant {
    /// A user signs in at the provider.
    #[default]
    AuthorizationCode,
    /// The gateway signs in as itself, with its client secret.
    ClientCredentials,
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<OAuthSettings> {
    let node = &fields.find("oauth")?.node;
    let fields = reader.fields(node, &keys::OAUTH)?;
    let client_id = fields.find("client_id").and_then(|field| reader.expanded(&field.node)).map(|id| id.text);
    let client_secret = fields.find("client_secret").and_then(|field| reader.expanded(&field.node)).map(|secret| {
        if secret.has_reference { Secret::new(secret.text) } else { Secret::written_in_file(secret.text) }
    });
    let scopes = reader.parsed_list(&fields, "scopes", parse_scope);
    if scopes.len() > OAUTH_SCOPES_MAX {
        reader.report(node.position, format!("{} scopes; at most {OAUTH_SCOPES_MAX} are possible", scopes.len()));
    }
    let grant = reader.choice_of(&fields, "grant", keys::GRANTS).unwrap_or_default();
    if client_secret.is_some() && client_id.is_none() {
        reader.report(node.position, "`client_secret` needs `client_id`; add it");
    }
    if grant == OAuthGrant::ClientCredentials && (client_id.is_none() || client_secret.is_none()) {
        reader.report(node.position, "the grant `client_credentials` needs `client_id` and `client_secret`; add them");
    }
    Some(OAuthSettings { client_id, client_secret, scopes, grant })
}

fn parse_scope(text: &str) -> Result<String, String> {
    if is_oauth_scope(text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{}` is not a scope; write one word such as \"repo\" for each", shown(text)))
}

/// Returns true for a scope as RFC 6749 defines it: visible ASCII without `"` and `\`.
pub fn is_oauth_scope(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    (1..=SCOPE_MAX_BYTES).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Unresolved, parse};

    fn oauth(text: &str) -> Result<OAuthSettings, String> {
        let text = format!(r#"{{"mcpServers": {{"a": {{"url": "https://a.example/mcp", "oauth": {text}}}}}}}"#);
        let settings = parse(&text, &Unresolved).map_err(|mistakes| mistakes[0].message.clone())?;
        let mistake = settings.misconfigured().next().map(|(_, mistakes)| mistakes[0].message.clone());
        mistake.map_or_else(|| Ok(settings.servers[0].oauth.clone()), Err)
    }

    #[test]
    fn the_section_is_read() {
        assert_eq!(oauth("{}"), Ok(OAuthSettings::default()));
        let full = oauth(
            r#"{"client_id": "me", "client_secret": "${env:S}", "scopes": ["a", "b:c"], "grant": "client_credentials"}"#,
        )
        .unwrap();
        assert_eq!((full.client_id.as_deref(), full.scopes.len()), (Some("me"), 2));
        assert_eq!(full.grant, OAuthGrant::ClientCredentials);
    }

    #[test]
    fn mistakes_name_what_to_add() {
        let check = |text: &str, expected: &str| assert_eq!(oauth(text).unwrap_err(), expected, "{text}");
        check(r#"{"client_secret": "x"}"#, "`client_secret` needs `client_id`; add it");
        check(
            r#"{"grant": "client_credentials"}"#,
            "the grant `client_credentials` needs `client_id` and `client_secret`; add them",
        );
        check(r#"{"scopes": ["a b"]}"#, "`a b` is not a scope; write one word such as \"repo\" for each");
    }

    #[test]
    fn scopes() {
        for good in ["a", "repo", "https://www.example.com/auth/drive", "notes:read", "a.b-c_d~"] {
            assert!(is_oauth_scope(good), "{good}");
        }
        for bad in ["", "a b", "a\"", "a\\", "ä", "a\n", &"a".repeat(201)] {
            assert!(!is_oauth_scope(bad), "{bad}");
        }
    }
}
