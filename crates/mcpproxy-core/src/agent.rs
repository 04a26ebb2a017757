//! An agent and the permissions of its token.

use crate::{ServerName, Variant};

/// An agent as its token describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub name: String,
    pub scope: Scope,
}

/// The scope of a token. Only a user can change it, and only a user who is present can widen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Permissions such as `emails:send` or `files:*`, which contracts can require.
    pub grants: Vec<String>,
    /// `None` means every server, including servers that are added later.
    pub servers: Option<Vec<ServerName>>,
    pub operations: Vec<Variant>,
    /// True for an unattended agent. It gets the approval request at once instead of waiting, and the request stays
    /// open longer.
    pub headless: bool,
}

/// The longest permission that a contract can name.
const PERMISSION_MAX_BYTES: usize = 128;

impl Scope {
    /// Checks a permission as contracts write it, or a prefix followed by `*`. Any other text would never match.
    pub fn check_permission(text: &str) -> Result<(), String> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'/' | b'-');
        let name = text.strip_suffix('*').unwrap_or(text);
        if (1..=PERMISSION_MAX_BYTES).contains(&text.len()) && name.bytes().all(fits) {
            return Ok(());
        }
        Err(format!(
            "expected 1 to {PERMISSION_MAX_BYTES} letters, digits, `_`, `.`, `:`, `/` or `-`, optionally ending in `*`, \
             such as emails:send or files:*"
        ))
    }

    /// Returns the scope with every operation on every server and every permission.
    pub fn everything() -> Self {
        Self { grants: vec!["*".to_owned()], servers: None, operations: Variant::ALL.to_vec(), headless: false }
    }

    pub fn read_only() -> Self {
        Self { grants: Vec::new(), servers: None, operations: vec![Variant::Read], headless: false }
    }

    pub fn sees(&self, server: &ServerName) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }

    /// Returns true if the token has a permission: the same text, `files:*` for all that begin with `files:`, or `*`
    /// for all.
    pub fn grants(&self, permission: &str) -> bool {
        self.grants.iter().any(|grant| match grant.strip_suffix('*') {
            Some(begin) => permission.starts_with(begin),
            None => grant == permission,
        })
    }

    /// Returns true if this scope allows everything that `other` allows.
    pub fn covers(&self, other: &Self) -> bool {
        let has_grant = |grant: &String| match grant.strip_suffix('*') {
            // Only a prefix covers all permissions of another prefix.
            Some(begin) => self.grants.iter().filter_map(|own| own.strip_suffix('*')).any(|own| begin.starts_with(own)),
            None => self.grants(grant),
        };
        let has_servers = match (&self.servers, &other.servers) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => others.iter().all(|server| own.contains(server)),
        };
        has_servers
            && other.grants.iter().all(has_grant)
            && other.operations.iter().all(|operation| self.may(*operation))
            // Requests of an unattended agent stay open longer.
            && (self.headless || !other.headless)
    }

    pub fn may(&self, variant: Variant) -> bool {
        self.operations.contains(&variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_cover_permissions() {
        let check = |grant: &str, permission: &str, expected: bool| {
            let scope = Scope { grants: vec!["other:x".to_owned(), grant.to_owned()], ..Scope::everything() };
            assert_eq!(scope.grants(permission), expected, "{grant} {permission}");
        };
        check("emails:send", "emails:send", true);
        check("emails:send", "emails:send:bulk", false);
        check("emails:sen", "emails:send", false);
        check("emails:*", "emails:send", true);
        check("emails:*", "emails:send:bulk", true);
        check("emails:*", "emails", false);
        check("emails:*", "emails2:send", false);
        check("*", "emails:send", true);
        check("files:read", "emails:send", false);
    }

    #[test]
    fn a_scope_covers_a_narrower_one() {
        let scope = |grants: &[&str], servers: Option<&[&str]>, operations: &[Variant], headless: bool| Scope {
            grants: grants.iter().map(|grant| (*grant).to_owned()).collect(),
            servers: servers.map(|names| names.iter().map(|name| ServerName::parse(name).unwrap()).collect()),
            operations: operations.to_vec(),
            headless,
        };
        let [read, write, _] = Variant::ALL;
        let own = scope(&["files:*", "mail:send"], Some(&["a", "b"]), &[read, write], false);
        let check = |other: Scope, expected: bool| assert_eq!(own.covers(&other), expected, "{other:?}");
        check(own.clone(), true);
        check(scope(&[], Some(&["a"]), &[read], false), true);
        check(scope(&["files:read", "files:x:*"], Some(&["b"]), &[write], false), true);
        check(scope(&["mail:*"], Some(&["a"]), &[read], false), false);
        check(scope(&["*"], Some(&["a"]), &[read], false), false);
        check(scope(&["file*"], Some(&["a"]), &[read], false), false);
        check(scope(&[], None, &[read], false), false);
        check(scope(&[], Some(&["c"]), &[read], false), false);
        check(scope(&[], Some(&["a"]), &Variant::ALL, false), false);
        check(scope(&[], Some(&["a"]), &[read], true), false);
        assert!(Scope::everything().covers(&own) && !own.covers(&Scope::everything()));
    }
}
