//! The JSON of a token's scope.

use mcpproxy_core::{Scope, ServerName, Untrusted, Variant};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Longer values are cut in messages.
const VALUE_MAX_CHARS: usize = 80;

/// A new scope for an existing token. It replaces the whole scope.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeToken {
    /// Permissions such as `emails:send` or `files:*`.
    grants: Vec<String>,
    /// Servers that the agent may use. `null` means all, also those that are added later.
    servers: Option<Vec<String>>,
    /// `read`, `write` and `destructive`. At least one.
    operations: Vec<String>,
    /// `true` for an unattended agent. Its calls never wait for a user.
    #[serde(default)]
    headless: bool,
    /// The key of a page of this session. Needed to allow more than before, unless there is a `totp`.
    #[serde(default)]
    pub(crate) page_key: Option<String>,
    /// A fresh code of the user's authenticator app.
    #[serde(default)]
    pub(crate) totp: Option<String>,
}

impl ChangeToken {
    /// Returns the scope, or what to correct.
    pub(crate) fn scope(&self) -> Result<Scope, String> {
        let shown = |text: &str| Untrusted::shortened(text, VALUE_MAX_CHARS).for_terminal().into_owned();
        for grant in &self.grants {
            Scope::check_permission(grant).map_err(|reason| format!("`grants`: `{}`: {reason}", shown(grant)))?;
        }
        let server = |name: &String| {
            ServerName::parse(name).map_err(|_| format!("`servers`: `{}` is no name of a server", shown(name)))
        };
        let servers = self.servers.as_ref().map(|names| names.iter().map(server).collect()).transpose()?;
        let mut operations = Vec::new();
        for word in &self.operations {
            let operation = Variant::from_operation(word)
                .ok_or_else(|| format!("`operations`: `{}` is not `read`, `write` or `destructive`", shown(word)))?;
            operations.push(operation);
        }
        operations.sort();
        operations.dedup();
        if operations.is_empty() {
            return Err("`operations` is empty; name at least one".to_owned());
        }
        Ok(Scope { grants: self.grants.clone(), servers, operations, headless: self.headless })
    }
}

/// The scope of a token.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenScope {
    /// The agent that the token belongs to.
    name: String,
    grants: Vec<String>,
    /// `null` means all servers.
    servers: Option<Vec<String>>,
    operations: Vec<&'static str>,
    headless: bool,
}

impl TokenScope {
    pub(crate) fn new(name: &str, scope: &Scope) -> Self {
        Self {
            name: name.to_owned(),
            grants: scope.grants.clone(),
            servers: scope.servers.as_ref().map(|names| names.iter().map(ToString::to_string).collect()),
            operations: scope.operations.iter().map(|variant| variant.operation()).collect(),
            headless: scope.headless,
        }
    }
}
