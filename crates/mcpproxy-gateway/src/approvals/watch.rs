//! Background task for approvals: notices decisions of other replicas, ends expired requests, removes what has expired, and
//! records what the operator did to accounts at the terminal.

use std::time::Duration;

use mcpproxy_store::{Kind, NewRecord, OperatorAction, Status, StoreError, WaitFor};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Approvals;
use crate::record::now_ms;

/// Delay until a decision of another replica is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Delay until an expired request is recorded. It counts as expired at once.
const EXPIRE_EVERY: Duration = Duration::from_secs(2);
const FORGET_EVERY: Duration = Duration::from_secs(600);
/// Limited tools may be called often, so their calls are removed more often than the rest.
const FORGET_CALLS_EVERY: Duration = Duration::from_secs(60);
/// Requests ended per round. The rest waits for the next.
const EXPIRE_MAX: usize = 100;

pub(crate) async fn keep_watch(approvals: Approvals, stopping: CancellationToken) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut version = None;
    let (mut expired, mut forgot) = (Every::new(EXPIRE_EVERY), Every::new(FORGET_EVERY));
    let mut forgot_calls = Every::new(FORGET_CALLS_EVERY);
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            _ = looks.tick() => {}
        }
        // If the store fails, the next round tries again. Code that needs the store meanwhile reports the error.
        if let Ok(now) = approvals.store().approvals_version().await
            && version.replace(now) != Some(now)
        {
            approvals.has_changed();
        }
        if expired.is_due() {
            end_overdue(&approvals).await;
            if let Err(error) = record_operator_actions(&approvals).await {
                tracing::debug!(%error, "could not record a change of an account by the operator");
            }
        }
        if forgot.is_due()
            && let Err(error) = approvals.store().remove_expired(now_ms()).await
        {
            tracing::debug!(%error, "could not remove expired entries");
        }
        if forgot_calls.is_due()
            && let Err(error) = approvals.store().remove_old_rate_calls().await
        {
            tracing::debug!(%error, "could not remove calls that no rate limit counts any more");
        }
    }
}

/// Timer for work that is due at once and then periodically.
struct Every {
    pause: Duration,
    last: Option<Instant>,
}

impl Every {
    fn new(pause: Duration) -> Self {
        Self { pause, last: None }
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= self.pause);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }
}

async fn end_overdue(approvals: &Approvals) {
    let overdue = approvals.store().overdue_approvals(now_ms(), EXPIRE_MAX).await.unwrap_or_default();
    for id in overdue {
        if let Err(error) = approvals.expire(&id).await {
            tracing::debug!(%error, "could not end an expired approval request");
        }
    }
}

async fn record_operator_actions(approvals: &Approvals) -> Result<(), StoreError> {
    for action in approvals.store().take_operator_actions(now_ms()).await? {
        let OperatorAction { id: _, time_ms, code, user_name } = &action;
        let metadata = serde_json::json!({"user": user_name, "by": "operator", "done_ms": time_ms});
        let record = NewRecord {
            code: Some(code.clone()),
            metadata: metadata.to_string(),
            ..NewRecord::blank(Kind::Auth, Status::Success, now_ms(), rand::random())
        };
        approvals.ledger().append(record, WaitFor::Disk).await?;
        approvals.store().finish_operator_action(&action).await?;
    }
    Ok(())
}
