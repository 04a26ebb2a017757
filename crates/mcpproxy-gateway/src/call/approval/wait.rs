//! Holds a call while a user decides, with progress messages for the agent.

use std::time::Duration;

use mcpproxy_core::ApprovalState;
use mcpproxy_core::json::quote;
use mcpproxy_store::StoredApproval;
use tokio::time::{Instant, sleep_until};

use super::{ApprovalFlow, Stopped};
use crate::answer::cancelled;
use crate::message;

/// Clients time out on a call without progress messages.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Waits for a decision for at most `wait`, then returns the approval as it is.
pub(super) async fn for_decision(
    flow: &ApprovalFlow<'_>,
    approval: StoredApproval,
    wait: Duration,
) -> Result<StoredApproval, Stopped> {
    let begin = Instant::now();
    let mut changed = flow.state.approvals.changed();
    let mut messages = 0_u32;
    let mut approval = approval;
    loop {
        if let Some(found) = flow.state.store.find_approval(&approval.id).await? {
            approval = found;
        }
        if flow.passage.cancel.is_cancelled() {
            // The request stays open: the agent may come back, and a user may be reading it.
            return Err(Stopped::Answered(Err(cancelled())));
        }
        let is_over = begin.elapsed() >= wait || flow.state.stopping.is_cancelled();
        if approval.state != ApprovalState::Pending || is_over {
            return Ok(approval);
        }
        // The first message goes out at once, because it contains the link for the user.
        if begin.elapsed() >= PROGRESS_EVERY.saturating_mul(messages) {
            messages = messages.saturating_add(1);
            send_progress(flow, &approval, messages).await;
        }
        let next_message = begin + PROGRESS_EVERY.saturating_mul(messages);
        tokio::select! {
            _ = changed.changed() => {}
            () = sleep_until(next_message.min(begin + wait)) => {}
            () = flow.state.stopping.cancelled() => {}
            () = flow.passage.cancel.cancelled() => {}
        }
    }
}

async fn send_progress(flow: &ApprovalFlow<'_>, approval: &StoredApproval, count: u32) {
    let channel = flow.passage.channel;
    let Some(token) = channel.progress_token() else { return };
    let text = format!("Waiting for a person to approve this: {}", flow.state.approvals.url(&approval.id));
    let count = count.to_string();
    let params = message::object([("progressToken", token), ("progress", &count), ("message", &quote(&text))]);
    channel.notify(message::notification("notifications/progress", &params)).await;
}
