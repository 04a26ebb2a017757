//! Changes that a person who watches the gateway wants to see, such as a server that went down.

use std::fmt;

use mcpproxy_core::ServerName;
use tokio::sync::broadcast;

/// Events that wait for a slow listener. It misses the oldest beyond that.
const EVENTS_KEPT: usize = 256;

/// A change of the gateway's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayEvent {
    /// New settings, contracts or policies are in force.
    Reloaded(ReloadSummary),
    /// New settings, contracts or policies are invalid, for this reason. The previous ones remain in force.
    Refused(String),
    /// Changes that weaken contracts or policies wait for a user. Everything else is in force.
    Held(String),
    /// Gateways that share a database differ, in these ways. Empty if they are the same again.
    Drift(Vec<String>),
    /// Definitions of a server are quarantined until a user reviews them. `is_first` if the server itself is new.
    Quarantined { server: ServerName, count: usize, is_first: bool, summary: String },
    /// Definitions of a server are quarantined, because the lock file does not have them.
    NotLocked { server: ServerName, count: usize, summary: String },
    /// Agents see changed definitions that nobody reviewed, because `trust.changes` is `warn`.
    Unreviewed { server: ServerName, count: usize, summary: String },
    /// A server is connected, with this number of tools. `unasked` of them are destructive and may run without an
    /// approval.
    Up { server: ServerName, tools: usize, unasked: usize },
    /// A server failed. The gateway tries again.
    Down { server: ServerName, reason: String, hint: Option<String> },
    /// A server is not connected, because its settings have mistakes.
    Misconfigured { server: ServerName, reason: String },
}

/// The parts that a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadSummary {
    pub added: Vec<ServerName>,
    pub removed: Vec<ServerName>,
    /// Servers with their keys that changed: `fx (url, include_tools)`.
    pub changed: Vec<String>,
    pub contracts: bool,
    pub policies: bool,
    /// Settings other than servers that changed, such as `contracts.unclassified allow → deny`.
    pub other_settings: Vec<String>,
    /// Keys whose new value takes effect only after a restart.
    pub restart_needed: Vec<&'static str>,
}

/// Lists the changes, such as `added time; contracts`.
impl fmt::Display for ReloadSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, removed, changed, contracts, policies, other_settings, restart_needed } = self;
        let mut parts = Vec::new();
        let names = |names: &[ServerName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (word, names) in [("added", names(added)), ("removed", names(removed)), ("changed", changed.clone())] {
            if !names.is_empty() {
                parts.push(format!("{word} {}", names.join(", ")));
            }
        }
        for (word, is_changed) in [("contracts", contracts), ("policies", policies)] {
            if *is_changed {
                parts.push(word.to_owned());
            }
        }
        if !other_settings.is_empty() {
            parts.push(format!("settings {}", other_settings.join(", ")));
        }
        if !restart_needed.is_empty() {
            parts.push(format!("restart to apply {}", restart_needed.join(", ")));
        }
        f.write_str(&if parts.is_empty() { "nothing changed".to_owned() } else { parts.join("; ") })
    }
}

/// Sends events to all who listen. Nobody has to.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<GatewayEvent>,
}

impl Default for Events {
    fn default() -> Self {
        Self { sender: broadcast::channel(EVENTS_KEPT).0 }
    }
}

impl Events {
    pub(crate) fn send(&self, event: GatewayEvent) {
        let _nobody_listens = self.sender.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<GatewayEvent> {
        self.sender.subscribe()
    }
}
