//! A dry run that a user makes in the console, in the name of an agent.
//!
//! It takes the path of the agent's own calls: the same checks, the same permit, the same record. Three things depend on
//! [`ConnectedAgent::user`](super::ConnectedAgent):
//!
//! - **It stays a dry run.** `call.rs` sets the mode, whatever the parameters say.
//! - **The record names the user** in its metadata, beside the agent. Otherwise the log would say that the agent did it.
//! - **It proves nothing for the agent.** Where a contract requires a dry run, the agent must make its own. The point of the
//!   requirement is that the agent reads the result before it makes the call, and this result goes to the user.

use std::sync::OnceLock;

use mcpproxy_store::{Outcome, Payload};

/// One dry run of a user, and its result.
pub(crate) struct UserRun {
    name: String,
    result: OnceLock<RunResult>,
}

/// The result of a dry run, masked as in its record.
pub(crate) enum RunResult {
    /// The gateway derived it from the contract, and sent nothing.
    Preview(Payload),
    /// The server was called.
    Server(Outcome),
}

impl UserRun {
    pub(crate) fn new(user: &str) -> Self {
        Self { name: user.to_owned(), result: OnceLock::new() }
    }

    /// The name of the user.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Stores the result for the user. One run makes one call, so there is no second result.
    pub(crate) fn ended(&self, result: RunResult) {
        let _only_one = self.result.set(result);
    }

    /// Returns the result. `None` if the gateway refused the dry run.
    pub(crate) fn result(&self) -> Option<&RunResult> {
        self.result.get()
    }
}
