//! The lock file: exactly the definitions that are accepted, for version control.
//!
//! `mcpproxy lock` writes what all servers list now. With `serve --locked`, everything else is quarantined, and no user
//! can accept it. So a team reviews a change of a server as a diff of this file, and every machine has the same tools.
//!
//! ```json
//! {
//!   "version": 1,
//!   "servers": [
//!     {
//!       "name": "files",
//!       "transport": "stdio",
//!       "command": "npx",
//!       "args": ["-y", "files@1.2.0"],
//!       "identity": "5d0c…",
//!       "definitions": [
//!         {
//!           "kind": "tool",
//!           "name": "read_file",
//!           "formula": 1,
//!           "pin": "a41f…",
//!           "text": ["Reads a file."],
//!           "definition": { "name": "read_file", "description": "Reads a file.", "inputSchema": {} }
//!         }
//!       ]
//!     }
//!   ]
//! }
//! ```
//!
//! Servers and definitions are sorted, and each value has a line of its own, so that a diff shows what changed and
//! nothing else. `text` is the description line by line. Characters that cannot be seen are escaped.
//!
//! The file repeats itself on purpose, for its readers. [`Lock::read`] refuses a file whose parts disagree: a pin that
//! is not that of its definition, a `text` that is not its description, or an identity of another command. Otherwise a
//! reviewer could read one thing, and the gateway could accept another.
//!
//! A literal secret in `args` or `url` is written as `***`. The identity contains it, as a hash. Whoever has the file can
//! test guesses against that hash, so a short secret belongs behind a reference such as `${env:TOKEN}`.

mod diff;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::collections::HashMap;
use std::sync::Arc;

use crate::settings::{ServerSettings, WrittenTransport};
use crate::trust::{Definition, DefinitionKey, Pin, Rules};
use crate::{Mistake, ServerName};

pub use diff::LockDifference;

/// The version of the format.
pub const VERSION: u64 = 1;
/// Largest file. Ten thousand tools of four kilobytes fit.
pub const FILE_MAX_BYTES: usize = 64 << 20;

/// A lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Sorted by name.
    servers: Vec<LockedServer>,
}

/// One server of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LockedServer {
    name: ServerName,
    /// As written in the settings, with `***` for literal secrets.
    transport: WrittenTransport,
    /// The digest of its identity.
    identity: String,
    /// Sorted by key.
    definitions: Vec<Definition>,
    pins: Arc<HashMap<DefinitionKey, Pin>>,
}

impl Lock {
    /// Makes the lock of what servers list now. Of two definitions with the same key, the first counts.
    pub fn of<'s>(servers: impl IntoIterator<Item = (&'s ServerSettings, Vec<Definition>)>) -> Self {
        let locked = servers.into_iter().map(|(settings, definitions)| {
            let identity = &settings.identity;
            LockedServer::new(settings.name.clone(), identity.shown(), identity.key().to_owned(), definitions)
        });
        Self::new(locked.collect())
    }

    /// Reads a lock file. The mistake has its place and the next step.
    pub fn read(text: &str) -> Result<Self, Mistake> {
        read::read(text)
    }

    /// Writes the file.
    pub fn write(&self) -> String {
        write::write(self)
    }

    /// Returns the rules for a server. Nothing is accepted of one that the file does not have, or has with another
    /// identity.
    pub fn rules_for(&self, server: &ServerSettings) -> Rules {
        let locked = self.find(&server.name).filter(|locked| locked.identity == server.identity.key());
        Rules::Locked(locked.map(|locked| Arc::clone(&locked.pins)))
    }

    /// Returns how `now` differs from this file, by server.
    pub fn diff(&self, now: &Self) -> Vec<LockDifference> {
        diff::between(self, now)
    }

    /// Counts the definitions of all servers.
    pub fn count(&self) -> usize {
        self.servers.iter().map(|server| server.definitions.len()).sum()
    }

    fn new(mut servers: Vec<LockedServer>) -> Self {
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        Self { servers }
    }

    fn find(&self, name: &ServerName) -> Option<&LockedServer> {
        let at = self.servers.binary_search_by(|server| server.name.cmp(name)).ok()?;
        self.servers.get(at)
    }
}

impl LockedServer {
    fn new(name: ServerName, transport: WrittenTransport, identity: String, mut definitions: Vec<Definition>) -> Self {
        definitions.sort_by(|a, b| a.key.cmp(&b.key));
        definitions.dedup_by(|later, first| later.key == first.key);
        let pins = definitions.iter().map(|definition| (definition.key.clone(), definition.pin())).collect();
        Self { name, transport, identity, definitions, pins: Arc::new(pins) }
    }

    fn pin(&self, key: &DefinitionKey) -> Option<Pin> {
        self.pins.get(key).copied()
    }
}
