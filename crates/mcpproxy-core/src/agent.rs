//! Who calls: an agent and what its token lets it do.

use crate::{ServerName, Variant};

/// An agent as its token describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub name: String,
    pub scope: Scope,
}

/// What a token was made for. Narrower is always possible, wider never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Permissions such as `emails:send` or `files:*`, for contracts to ask for.
    pub grants: Vec<String>,
    /// `None` is every server, also those that come later.
    pub servers: Option<Vec<ServerName>>,
    pub operations: Vec<Variant>,
}

impl Scope {
    /// Everything but grants: what `token create NAME` gives without options.
    pub fn everything() -> Self {
        Self { grants: Vec::new(), servers: None, operations: Variant::ALL.to_vec() }
    }

    pub fn read_only() -> Self {
        Self { grants: Vec::new(), servers: None, operations: vec![Variant::Read] }
    }

    pub fn sees(&self, server: &ServerName) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }

    pub fn may(&self, variant: Variant) -> bool {
        self.operations.contains(&variant)
    }
}
