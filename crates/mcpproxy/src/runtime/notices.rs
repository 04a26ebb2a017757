//! Prints approval requests on standard error of the gateway: a line when one is made, and a line when it is decided.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcpproxy_core::{ApprovalId, ApprovalState};
use mcpproxy_gateway::{ApprovalNotice, Approvals};
use mcpproxy_store::StoredApproval;
use tokio::sync::broadcast::error::RecvError;

use super::first_user::FirstUser;
use crate::terminal::output::{line, ring, tell};
use crate::terminal::time::clock;

/// Maximum number of open requests to follow. The decision on any further one is not printed.
const FOLLOWED_MAX: usize = 1000;

/// Prints requests and decisions until dropped.
pub(crate) async fn follow(approvals: Approvals, mut first: FirstUser, bell: bool) {
    let (mut requested, mut changed) = (approvals.requested(), approvals.changed());
    let mut open: BTreeMap<ApprovalId, ApprovalState> = BTreeMap::new();
    loop {
        tokio::select! {
            request = requested.recv() => match request {
                Ok(request) => {
                    tell(&request_line(&request, Timestamp::now().as_millisecond()));
                    // The store logs its own errors.
                    if let Ok(Some(link)) = first.link().await {
                        tell(&format!("  {} {}", link.sentence(), link.url));
                    }
                    if bell {
                        ring();
                    }
                    if open.len() < FOLLOWED_MAX {
                        open.insert(request.id, ApprovalState::Pending);
                    }
                }
                Err(RecvError::Lagged(missed)) => {
                    tell(&format!("✋ {missed} more approval requests. List them with `mcpproxy approvals list`."));
                }
                Err(RecvError::Closed) => return std::future::pending().await,
            },
            moved = changed.changed(), if !open.is_empty() => {
                if moved.is_err() {
                    return std::future::pending().await;
                }
                print_decisions(&approvals, &mut open).await;
            }
        }
    }
}

/// Prints decisions on open requests, and forgets the requests that are over.
async fn print_decisions(approvals: &Approvals, open: &mut BTreeMap<ApprovalId, ApprovalState>) {
    let ids: Vec<(ApprovalId, ApprovalState)> = open.iter().map(|(id, state)| (id.clone(), *state)).collect();
    for (id, before) in ids {
        // If the store is unreachable, try again at the next change.
        let Ok(found) = approvals.find(&id).await else { return };
        let Some(found) = found.map(|view| view.approval) else {
            open.remove(&id);
            continue;
        };
        if found.state == before {
            continue;
        }
        if let Some(words) = decision_line(&found) {
            tell(&words);
        }
        match found.state {
            ApprovalState::Pending | ApprovalState::Approved => open.insert(id, found.state),
            ApprovalState::Consumed | ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled => {
                open.remove(&id)
            }
        };
    }
}

fn request_line(request: &ApprovalNotice, now_ms: i64) -> String {
    format!(
        "✋ approval needed: agent {} wants {} ({}) {} expires {}",
        line(&request.agent),
        line(&request.tool),
        request.risk.words(),
        request.url,
        clock(request.expires_ms, now_ms),
    )
}

/// Formats a decision. Returns `None` for a pending request.
fn decision_line(approval: &StoredApproval) -> Option<String> {
    let (icon, word) = match approval.state {
        ApprovalState::Approved => ("✓", "approved"),
        ApprovalState::Denied => ("✗", "denied"),
        ApprovalState::Expired => ("✗", "expired"),
        ApprovalState::Cancelled => ("✗", "cancelled"),
        // The agent may have used the approval before this line is printed.
        ApprovalState::Consumed => ("✓", "used"),
        ApprovalState::Pending => return None,
    };
    let by = approval.decided_by.as_deref().map(|by| format!(" by {}", line(by))).unwrap_or_default();
    let comment = approval.comment.as_ref().map(|words| format!(": {}", words.for_terminal())).unwrap_or_default();
    Some(format!(
        "{icon} {word}{by}: {} for agent {}{comment} ({})",
        line(&approval.tool.to_string()),
        line(&approval.agent),
        approval.id,
    ))
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::RiskLevel;
    use mcpproxy_gateway::{SaidBy, StatedRisk};

    use super::*;

    #[test]
    fn a_request_is_one_line() {
        let id = ApprovalId::parse("01HF7YAT00ZZZZZZZZZZZZZZZZ").unwrap();
        let asked = |tool: &str, risk: Option<RiskLevel>, said_by: Option<SaidBy>| ApprovalNotice {
            id: id.clone(),
            agent: "local".to_owned(),
            tool: tool.to_owned(),
            risk: StatedRisk { risk, said_by },
            url: format!("http://localhost:8080/ui/approvals/{id}"),
            expires_ms: 0,
        };
        let check = |request: &ApprovalNotice, expected: &str| {
            let at = clock(0, 0);
            let rest = format!("http://localhost:8080/ui/approvals/{id} expires {at}");
            assert_eq!(request_line(request, 0), format!("✋ approval needed: agent local wants {expected} {rest}"));
        };
        let operators = asked("mail:send", Some(RiskLevel::Critical), Some(SaidBy::Operator));
        check(&operators, "mail:send (critical)");
        let servers = asked("mail:send", Some(RiskLevel::Low), Some(SaidBy::Server));
        check(&servers, "mail:send (unclassified; the server says low)");
        check(&asked("x:a\n\u{7}b", None, None), "x:a\\n\\u{7}b (unclassified)");
    }
}
