//! The part of a server's lists that agents may see, and how the server came into the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcpproxy_core::Quarantined;
use mcpproxy_core::trust::{DefinitionKey, Held, Known};

use super::offers::Offers;

/// How a server came into the settings of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was in the file when the gateway started.
    Start,
    /// A person added it with a command at a terminal.
    Terminal,
    /// The file changed while the gateway ran. Nobody knows whose hand that was.
    FileChange,
}

/// The part of a server's lists that agents may see.
#[derive(Clone, Default)]
pub(crate) struct Admission {
    /// The lists that were judged.
    pub(crate) listed: Arc<Offers>,
    /// The same without what is held.
    pub(crate) offers: Arc<Offers>,
    /// False as long as nothing of the server is accepted. Then no request of an agent reaches it.
    pub(crate) is_open: bool,
    pub(crate) held: Arc<BTreeMap<DefinitionKey, Quarantined>>,
    /// The stored pins that the judgement used, and their version.
    pub(crate) known: Option<(i64, Arc<Known>)>,
    /// The time at which the store last learned that the server lists this.
    pub(crate) seen_ms: Option<i64>,
}

impl Admission {
    /// Counts listed definitions that a user rejected.
    pub(crate) fn rejected(&self) -> usize {
        self.held.len() - self.waiting()
    }

    /// Counts definitions that wait for a user. A rejected one does not.
    pub(crate) fn waiting(&self) -> usize {
        self.held.values().filter(|held| held.reason != Held::Rejected).count()
    }
}
