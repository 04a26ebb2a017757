//! Holds a call while a user decides, with progress messages for the agent.

use std::time::Duration;

use mcpproxy_core::json::quote;
use mcpproxy_core::{ApprovalState, Approvers};
use mcpproxy_store::StoredApproval;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{ApprovalFlow, Stopped};
use crate::answer::cancelled;
use crate::message;
use crate::record::now_ms;

/// Clients time out on a call without progress messages.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Waits for a decision for at most `wait`, then returns the approval as it is.
///
/// While the client shows a form (`open_form` is not cancelled), its user is deciding, and the call waits until the
/// request expires. That takes a progress token: without one, the client cannot know that the call is alive, and many
/// time out after a minute. When the form closes without a decision, only the web page is left. If no account could
/// decide there, the wait is over.
pub(super) async fn for_decision(
    flow: &ApprovalFlow<'_>,
    approval: StoredApproval,
    wait: Duration,
    open_form: Option<CancellationToken>,
) -> Result<StoredApproval, Stopped> {
    let begin = Instant::now();
    let is_kept_alive = flow.passage.channel.progress_token().is_some();
    let left_ms = u64::try_from(approval.expires_ms - now_ms()).unwrap_or_default();
    let with_form = Duration::from_millis(left_ms).max(wait);
    let mut changed = flow.state.approvals.changed();
    let mut messages = 0_u32;
    let (mut approval, mut wait, mut open_form) = (approval, wait, open_form);
    loop {
        // Before the approval is read: the answer of a form is stored before the form counts as closed.
        if open_form.as_ref().is_some_and(CancellationToken::is_cancelled) {
            open_form = None;
            if flow.approvers().await != Approvers::Ready {
                wait = Duration::ZERO;
            }
        }
        if let Some(found) = flow.state.store.find_approval(&approval.id).await? {
            approval = found;
        }
        if flow.passage.cancel.is_cancelled() {
            // The request stays open: the agent may come back, and a user may be reading it.
            return Err(Stopped::Answered(Err(cancelled())));
        }
        let most = if open_form.is_some() && is_kept_alive { with_form } else { wait };
        let is_over = begin.elapsed() >= most || flow.state.stopping.is_cancelled();
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
            () = sleep_until(next_message.min(begin + most)) => {}
            () = closed(open_form.as_ref()) => {}
            () = flow.state.stopping.cancelled() => {}
            () = flow.passage.cancel.cancelled() => {}
        }
    }
}

/// Completes when the form is closed. Never, if none is open.
async fn closed(form: Option<&CancellationToken>) {
    match form {
        Some(form) => form.cancelled().await,
        None => std::future::pending().await,
    }
}

/// Sends the link to the agent. It comes early in the text, because clients cut the line. `mcpproxy call` finds it there.
async fn send_progress(flow: &ApprovalFlow<'_>, approval: &StoredApproval, count: u32) {
    let channel = flow.passage.channel;
    let Some(token) = channel.progress_token() else { return };
    let text = format!("Open {} to approve or deny this call.", flow.state.approvals.url(&approval.id));
    let count = count.to_string();
    let params = message::object([("progressToken", token), ("progress", &count), ("message", &quote(&text))]);
    channel.notify(message::notification("notifications/progress", &params)).await;
}
