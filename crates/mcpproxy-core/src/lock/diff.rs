//! Compares a lock file with what servers list now.

use std::fmt;

use super::read::named;
use super::{Lock, LockedServer};
use crate::ServerName;
use crate::trust::change::{Change, compare};
use crate::trust::{Definition, DefinitionKey};

/// One way in which servers differ from the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockDifference {
    ServerAdded(ServerName),
    ServerGone(ServerName),
    /// The server is reached by another command or address, so nothing of it is accepted.
    ServerMoved(ServerName),
    Added {
        server: ServerName,
        key: DefinitionKey,
    },
    Gone {
        server: ServerName,
        key: DefinitionKey,
    },
    Changed {
        server: ServerName,
        key: DefinitionKey,
        change: Change,
    },
}

pub(super) fn between(old: &Lock, new: &Lock) -> Vec<LockDifference> {
    let mut found = Vec::new();
    for server in &new.servers {
        match old.find(&server.name) {
            None => found.push(LockDifference::ServerAdded(server.name.clone())),
            Some(locked) => of_server(&mut found, locked, server),
        }
    }
    let gone = old.servers.iter().filter(|server| new.find(&server.name).is_none());
    found.extend(gone.map(|server| LockDifference::ServerGone(server.name.clone())));
    found.sort_by(|a, b| a.server().cmp(b.server()));
    found
}

fn of_server(found: &mut Vec<LockDifference>, old: &LockedServer, new: &LockedServer) {
    let server = &new.name;
    if old.identity != new.identity {
        found.push(LockDifference::ServerMoved(server.clone()));
    }
    for Definition { key, json } in &new.definitions {
        match old.pin(key) {
            None => found.push(LockDifference::Added { server: server.clone(), key: key.clone() }),
            Some(pin) if Some(pin) == new.pin(key) => {}
            Some(_) => {
                let was = old.definitions.binary_search_by(|one| one.key.cmp(key)).ok();
                let was = was.and_then(|at| old.definitions.get(at)).map_or("", |one| &*one.json);
                let change = compare(key.kind, was, json);
                found.push(LockDifference::Changed { server: server.clone(), key: key.clone(), change });
            }
        }
    }
    let gone = old.definitions.iter().filter(|one| new.pin(&one.key).is_none());
    found.extend(gone.map(|one| LockDifference::Gone { server: server.clone(), key: one.key.clone() }));
}

impl LockDifference {
    pub fn server(&self) -> &ServerName {
        match self {
            Self::ServerAdded(server)
            | Self::ServerGone(server)
            | Self::ServerMoved(server)
            | Self::Added { server, .. }
            | Self::Gone { server, .. }
            | Self::Changed { server, .. } => server,
        }
    }
}

/// Words the difference on one line, safe to print.
impl fmt::Display for LockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerAdded(server) => write!(f, "{server}: the lock file does not have this server"),
            Self::ServerGone(server) => write!(f, "{server}: only the lock file has this server"),
            Self::ServerMoved(server) => {
                write!(f, "{server}: the lock file has another command or address for this server")
            }
            Self::Added { server, key } => write!(f, "{server}: {} is new", named(key)),
            Self::Gone { server, key } => write!(f, "{server}: {} is gone", named(key)),
            Self::Changed { server, key, change } => {
                let first = change.meanings.first().map(|meaning| format!(": {meaning}")).unwrap_or_default();
                let more = change.meanings.len().saturating_sub(1);
                write!(f, "{server}: {} changed{first}", named(key))?;
                match more {
                    0 => Ok(()),
                    1 => write!(f, " (and 1 more difference)"),
                    more => write!(f, " (and {more} more differences)"),
                }
            }
        }
    }
}
