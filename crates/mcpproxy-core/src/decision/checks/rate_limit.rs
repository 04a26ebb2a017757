//! The rate limit of a tool's contract.

use crate::catalog::Tool;
use crate::contract::RateLimit;
use crate::decision::Moment;
use crate::denial::Denial;

/// Checks that one more call is within the rate limit, without counting it.
pub(super) fn has_room(tool: &Tool, moment: Moment<'_>) -> Result<(), Denial> {
    let Some(limit) = &tool.contract.rate_limit else { return Ok(()) };
    let wait_ms = moment.limits.wait_ms(&tool.name, limit.value, moment.clock.now_ms);
    wait_ms.map_or(Ok(()), |wait_ms| Err(exceeded(tool, limit.value, wait_ms)))
}

/// Counts the call in the rate limit, unless the store counts it with the call's record. This is the last step before a
/// permit: calls that ran in parallel may have taken the room that `has_room` found.
pub(in crate::decision) fn take_rate_slot(tool: &Tool, moment: Moment<'_>) -> Result<(), Denial> {
    let Some(limit) = &tool.contract.rate_limit else { return Ok(()) };
    let taken = moment.limits.take(&tool.name, limit.value, moment.clock.now_ms);
    taken.map_err(|wait_ms| exceeded(tool, limit.value, wait_ms))
}

fn exceeded(tool: &Tool, limit: RateLimit, wait_ms: u64) -> Denial {
    Denial::RateLimitExceeded { tool: tool.name.clone(), limit, wait_ms }
}
