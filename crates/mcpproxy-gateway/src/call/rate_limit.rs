//! The rate limit of a tool's contract, which the store counts for all gateways together.
//!
//! A limited call is counted in the transaction that opens its record (`permitted.rs`), and a call over the limit is
//! refused there. So it costs one statement, and a tool without a limit costs none. If the database is away, the record
//! cannot be opened, and the call is not sent.

use mcpproxy_core::contract::RateLimit;
use mcpproxy_core::{Denial, Tool};
use mcpproxy_store::{Step, StoreError};

use crate::state::SharedState;

/// Returns the step that counts a call.
pub(super) fn count_step(tool: &Tool, limit: RateLimit) -> Step {
    Step::CountCall { tool: tool.name.clone(), limit }
}

/// Returns the refusal if the limit is used up now. Counts nothing. A user must not be asked about a call that cannot be
/// made.
pub(super) async fn check(state: &SharedState, tool: &Tool) -> Result<Option<Denial>, StoreError> {
    let Some(limit) = tool.contract.rate_limit.as_ref().map(|limit| limit.value) else { return Ok(None) };
    let wait_ms = state.store.rate_wait_ms(&tool.name, limit).await?;
    Ok(wait_ms.map(|wait_ms| denial(tool, limit, wait_ms)))
}

/// Returns the refusal of a call that the store did not count.
pub(super) async fn exceeded(state: &SharedState, tool: &Tool, limit: RateLimit) -> Result<Denial, StoreError> {
    // The limit may have room again by now. The call was refused all the same, and may be repeated at once.
    let wait_ms = state.store.rate_wait_ms(&tool.name, limit).await?.unwrap_or(1);
    Ok(denial(tool, limit, wait_ms))
}

fn denial(tool: &Tool, limit: RateLimit, wait_ms: u64) -> Denial {
    Denial::RateLimitExceeded { tool: tool.name.clone(), limit, wait_ms }
}
