//! `approvals wait`: waits until a user decides or the timeout ends.

use std::time::Duration;

use mcpproxy_core::ApprovalState;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::words::{state, text};
use super::{find, watch};
use crate::client::Rest;
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::output::{Format, tell};

/// Time between two requests to the gateway.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) async fn run(home: &Home, format: Format, given: &str, timeout: Duration) -> anyhow::Result<Exit> {
    let until = Instant::now() + timeout;
    let rest = Rest::connect(home)?;
    let id = find::id(&rest, given).await?;
    let path = format!("/api/v1/approvals/{id}");
    let mut rest = Some(rest);
    let mut last = Value::Null;
    loop {
        // The request survives a restart of the gateway, so keep waiting.
        if let Some(found) = watch::ask_again(home, &mut rest, &path).await? {
            last = found;
        }
        let is_over = state(&last).is_some_and(|state| state != ApprovalState::Pending);
        if is_over || Instant::now() >= until {
            break;
        }
        sleep(PAUSE.min(until - Instant::now())).await;
    }
    format.print(&last, || words(&last))?;
    let exit = exit(state(&last));
    if exit == Exit::Waiting {
        tell(&format!("No decision yet. Open {}", text(&last, "url")));
    }
    Ok(exit)
}

fn words(approval: &Value) -> String {
    let by = match (text(approval, "decided_by").as_str(), state(approval)) {
        ("-", _) => String::new(),
        (by, Some(ApprovalState::Expired)) => format!(", approved by {by} and not used in time"),
        (by, _) => format!(" by {by}"),
    };
    let comment = match text(approval, "comment").as_str() {
        "-" => String::new(),
        comment => format!(": {comment}"),
    };
    format!("{} {}{by}{comment}\n", text(approval, "id"), text(approval, "state"))
}

fn exit(state: Option<ApprovalState>) -> Exit {
    match state {
        Some(ApprovalState::Approved | ApprovalState::Consumed) => Exit::Done,
        Some(ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled) => Exit::Refused,
        Some(ApprovalState::Pending) | None => Exit::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn how_waiting_ends() {
        let check = |state: ApprovalState, expected: Exit| assert_eq!(exit(Some(state)), expected, "{state:?}");
        check(ApprovalState::Approved, Exit::Done);
        check(ApprovalState::Consumed, Exit::Done);
        check(ApprovalState::Denied, Exit::Refused);
        check(ApprovalState::Expired, Exit::Refused);
        check(ApprovalState::Cancelled, Exit::Refused);
        check(ApprovalState::Pending, Exit::Waiting);
        assert_eq!(exit(None), Exit::Waiting);
    }

    #[test]
    fn what_is_printed() {
        let check = |approval: Value, expected: &str| assert_eq!(words(&approval), expected);
        check(json!({"id": "01", "state": "pending"}), "01 pending\n");
        check(json!({"id": "01", "state": "approved", "decided_by": "anna"}), "01 approved by anna\n");
        check(
            json!({"id": "01", "state": "expired", "decided_by": "anna"}),
            "01 expired, approved by anna and not used in time\n",
        );
        check(
            json!({"id": "01", "state": "denied", "decided_by": "anna", "comment": "no\u{1b}"}),
            "01 denied by anna: no\\u{1b}\n",
        );
    }
}
