//! The lock file: the definitions that are accepted, for version control.

use std::collections::HashMap;
use std::sync::Arc;

use super::{DefinitionKey, Pin, Rules};
use crate::settings::ServerSettings;

/// A lock file.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// By the identity of the server.
    pins: HashMap<String, Arc<HashMap<DefinitionKey, Pin>>>,
}

impl Lock {
    /// Returns the rules for a server.
    pub fn rules_for(&self, server: &ServerSettings) -> Rules {
        Rules::Locked(self.pins.get(server.identity.key()).map(Arc::clone))
    }
}
