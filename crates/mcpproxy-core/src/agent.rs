//! An agent and the permissions of its token.

use crate::{ServerName, Variant};

/// An agent as its token describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub name: String,
    pub scope: Scope,
}

/// The scope of a token. It can be narrowed, never widened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Permissions such as `emails:send` or `files:*`, for contracts to ask for.
    pub grants: Vec<String>,
    /// `None` is every server, also those that come later.
    pub servers: Option<Vec<ServerName>>,
    pub operations: Vec<Variant>,
    /// The agent is unattended: it is told at once that a user must approve, and the approval request stays open
    /// longer.
    pub headless: bool,
}

impl Scope {
    /// Every operation on every server, with every permission.
    pub fn everything() -> Self {
        Self { grants: vec!["*".to_owned()], servers: None, operations: Variant::ALL.to_vec(), headless: false }
    }

    pub fn read_only() -> Self {
        Self { grants: Vec::new(), servers: None, operations: vec![Variant::Read], headless: false }
    }

    pub fn sees(&self, server: &ServerName) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }

    /// Returns true if the token has a permission: the same word, `files:*` for all that begin with `files:`, or `*`
    /// for all.
    pub fn grants(&self, permission: &str) -> bool {
        self.grants.iter().any(|grant| match grant.strip_suffix('*') {
            Some(begin) => permission.starts_with(begin),
            None => grant == permission,
        })
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
}
