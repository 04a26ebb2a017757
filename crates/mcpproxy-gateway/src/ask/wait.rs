//! Holding a call while a user thinks, with a sign of life for the agent.

use std::time::Duration;

use mcpproxy_core::ApprovalState;
use mcpproxy_core::json::quote;
use mcpproxy_store::StoredApproval;
use tokio::time::{Instant, sleep_until};

use super::{Asking, Unanswered};
use crate::message::{self, INTERNAL_ERROR, RpcError};

/// Clients give up on a call that shows no life.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Waits for a decision, as long as `wait`; then the approval is given back as it is.
pub(super) async fn for_decision(
    asking: &Asking<'_>,
    approval: StoredApproval,
    wait: Duration,
) -> Result<StoredApproval, Unanswered> {
    let begin = Instant::now();
    let mut changed = asking.gateway.approvals.changed();
    let mut said = 0_u64;
    let mut approval = approval;
    loop {
        if let Some(found) = asking.gateway.store.find_approval(&approval.id).await? {
            approval = found;
        }
        if asking.passage.cancel.is_cancelled() {
            // The question stays: the agent may come back, and a user may have begun to read.
            let error = RpcError::new(INTERNAL_ERROR, "the call was cancelled");
            return Err(Unanswered::Returns(Err(error)));
        }
        let is_over = begin.elapsed() >= wait || asking.gateway.stopping.is_cancelled();
        if approval.state != ApprovalState::Pending || is_over {
            return Ok(approval);
        }
        // The first word goes out at once: it says where the user has to go.
        if begin.elapsed() >= PROGRESS_EVERY.saturating_mul(u32::try_from(said).unwrap_or(u32::MAX)) {
            said += 1;
            say_progress(asking, &approval, said).await;
        }
        let next_word = begin + PROGRESS_EVERY.saturating_mul(u32::try_from(said).unwrap_or(u32::MAX));
        tokio::select! {
            _ = changed.changed() => {}
            () = sleep_until(next_word.min(begin + wait)) => {}
            () = asking.gateway.stopping.cancelled() => {}
            () = asking.passage.cancel.cancelled() => {}
        }
    }
}

async fn say_progress(asking: &Asking<'_>, approval: &StoredApproval, count: u64) {
    let back = asking.passage.back;
    let Some(token) = back.progress_token() else { return };
    let words = format!("Waiting for a person to approve this: {}", asking.gateway.approvals.url(&approval.id));
    let count = count.to_string();
    let params = message::object([("progressToken", token), ("progress", &count), ("message", &quote(&words))]);
    back.say(message::notification("notifications/progress", &params)).await;
}
