//! What each agent uses of the gateway right now.
//!
//! Limits belong to an agent, not to one of its connections. So all sessions and requests with one token share one
//! [`Usage`]. Requests without a token, where the settings allow them, are one agent too, because nothing tells them
//! apart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Agents in the table, beyond which those that use nothing are forgotten.
const REMEMBERED: usize = 1024;

/// The usage of all agents, by name.
#[derive(Default)]
pub(crate) struct Usages {
    table: Mutex<Table>,
}

/// Bounded by the number of tokens, and by `REMEMBERED` for agents that use nothing.
#[derive(Default)]
struct Table {
    agents: HashMap<String, Arc<Usage>>,
    next_key: u64,
}

/// A small name of an agent in this process, for pools that agents share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AgentKey(u64);

pub(crate) struct Usage {
    key: AgentKey,
}

impl Usages {
    /// Returns the usage of an agent. It is the same for as long as anything of the agent is open.
    pub(crate) fn of(&self, agent: &str) -> Arc<Usage> {
        let table = &mut *self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = table.agents.get(agent) {
            return Arc::clone(usage);
        }
        if table.agents.len() >= REMEMBERED {
            // Whatever an agent has open holds a clone.
            table.agents.retain(|_, usage| Arc::strong_count(usage) > 1);
        }
        let usage = Arc::new(Usage { key: AgentKey(table.next_key) });
        table.next_key += 1;
        table.agents.insert(agent.to_owned(), Arc::clone(&usage));
        usage
    }
}

impl Usage {
    pub(crate) fn key(&self) -> AgentKey {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_keeps_its_usage_while_it_uses_anything() {
        let usages = Usages::default();
        let (anna, ben) = (usages.of("anna"), usages.of("ben"));
        assert_ne!(anna.key(), ben.key());
        for number in 0..3 * REMEMBERED {
            usages.of(&format!("agent {number}"));
        }
        assert_eq!(usages.of("anna").key(), anna.key());
        assert!(usages.table.lock().unwrap().agents.len() <= REMEMBERED);
    }
}
