//! Compares two settings, for a reload.

use super::Settings;
use crate::ServerName;

/// The difference between two settings. Changes that are not listed here take effect with the next snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<ServerName>,
    pub removed: Vec<ServerName>,
    pub changed: Vec<ServerName>,
    /// Keys whose new value takes effect only after a restart.
    pub restart_needed: Vec<&'static str>,
}

/// Compares values, not texts. If the secret behind a reference changes, its server counts as changed.
pub fn diff(old: &Settings, new: &Settings) -> Changes {
    let mut changes = Changes::default();
    for server in &new.servers {
        match old.servers.iter().find(|other| other.name == server.name) {
            None => changes.added.push(server.name.clone()),
            Some(other) if other != server => changes.changed.push(server.name.clone()),
            Some(_) => {}
        }
    }
    let is_gone = |name: &ServerName| !new.servers.iter().any(|server| server.name == *name);
    changes.removed = old.servers.iter().map(|server| &server.name).filter(|name| is_gone(name)).cloned().collect();
    if old.listen != new.listen {
        changes.restart_needed.push("listen");
    }
    if old.storage != new.storage {
        changes.restart_needed.push("storage");
    }
    if old.activity.checkpoints_to != new.activity.checkpoints_to {
        changes.restart_needed.push("activity.checkpoints_to");
    }
    if old.activity.retention != new.activity.retention {
        changes.restart_needed.push("activity.retention");
    }
    if old.approvals.public_url != new.approvals.public_url {
        changes.restart_needed.push("approvals.public_url");
    }
    changes
}

impl Changes {
    /// Returns true if there is nothing to connect, disconnect or restart.
    pub fn is_empty(&self) -> bool {
        let Self { added, removed, changed, restart_needed } = self;
        added.is_empty() && removed.is_empty() && changed.is_empty() && restart_needed.is_empty()
    }
}
