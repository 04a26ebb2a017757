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
                    let mut words = request_line(&request, Timestamp::now().as_millisecond());
                    // The store logs its own errors.
                    if let Ok(Some(link)) = first.link().await {
                        words.push_str(&format!("\n  {} {}", link.sentence(), link.url));
                    }
                    // In one write: who reads the request also reads how to decide on it.
                    tell(&words);
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
        if let Some(words) = decision_line(&found, before) {
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

/// Formats a decision, or the start of the call that it allows. Returns `None` for a pending request. `before` is the
/// state that was printed last. A waiting agent starts its call before the line about the approval is printed.
fn decision_line(approval: &StoredApproval, before: ApprovalState) -> Option<String> {
    let (icon, word) = match approval.state {
        ApprovalState::Consumed if before == ApprovalState::Approved => return Some(start_line(approval)),
        ApprovalState::Approved | ApprovalState::Consumed => ("✓", "approved"),
        ApprovalState::Denied => ("✗", "denied"),
        ApprovalState::Expired => ("✗", "expired"),
        ApprovalState::Cancelled => ("✗", "cancelled"),
        ApprovalState::Pending => return None,
    };
    let by = approval.decided_by.as_deref().map(|by| format!(" by {}", line(by))).unwrap_or_default();
    let comment = approval.comment.as_ref().map(|words| format!(": {}", words.for_terminal())).unwrap_or_default();
    let decision = format!(
        "{icon} {word}{by}: {} for agent {}{comment} ({})",
        line(&approval.tool.to_string()),
        line(&approval.agent),
        approval.id,
    );
    Some(match approval.state {
        ApprovalState::Consumed => format!("{decision}\n{}", start_line(approval)),
        ApprovalState::Pending
        | ApprovalState::Approved
        | ApprovalState::Denied
        | ApprovalState::Expired
        | ApprovalState::Cancelled => decision,
    })
}

/// Says that the agent started the call. Its result is not known yet, and may be a failure.
fn start_line(approval: &StoredApproval) -> String {
    let result = approval.record.map(|record| format!(" Result: mcpproxy activity show {record}")).unwrap_or_default();
    let (agent, tool) = (line(&approval.agent), line(&approval.tool.to_string()));
    format!("▸ agent {agent} started the approved call of {tool} ({}).{result}", approval.id)
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::{Assurance, Digest, RiskLevel, ToolName, Untrusted, Variant};
    use mcpproxy_gateway::{SaidBy, StatedRisk};
    use mcpproxy_store::RecordId;

    use super::*;

    fn decided(state: ApprovalState) -> StoredApproval {
        StoredApproval {
            id: ApprovalId::parse("01HF7YAT00ZZZZZZZZZZZZZZZZ").unwrap(),
            binding: Digest::of(b""),
            agent: "local".to_owned(),
            client: None,
            tool: ToolName::parse("mail:send").unwrap(),
            pin: Digest::of(b""),
            contract: Digest::of(b""),
            variant: Variant::Write,
            risk: None,
            least: Assurance::Factor,
            args: None,
            args_digest: Digest::of(b""),
            shown_args: Untrusted::new("{}"),
            attached: None,
            attached_digest: Digest::of(b""),
            shown_attached: None,
            about: Untrusted::new("{}"),
            created_ms: 0,
            expires_ms: 0,
            state,
            given: None,
            decided_by: Some("anna".to_owned()),
            decided_ms: None,
            comment: None,
            record: RecordId::parse("01HF7YAT00ZZW1Z00000000000"),
            consumed_ms: None,
        }
    }

    /// The user approves, the agent calls, and the call may still fail.
    #[test]
    fn an_approval_and_the_start_of_the_call_are_two_things() {
        let check = |state: ApprovalState, before: ApprovalState, expected: &str| {
            assert_eq!(decision_line(&decided(state), before).as_deref(), Some(expected));
        };
        let approved = "✓ approved by anna: mail:send for agent local (01HF7YAT00ZZZZZZZZZZZZZZZZ)";
        let started = "▸ agent local started the approved call of mail:send (01HF7YAT00ZZZZZZZZZZZZZZZZ). Result: \
                       mcpproxy activity show 01HF7YAT00ZZW1Z00000000000";
        check(ApprovalState::Approved, ApprovalState::Pending, approved);
        check(ApprovalState::Consumed, ApprovalState::Approved, started);
        check(ApprovalState::Consumed, ApprovalState::Pending, &format!("{approved}\n{started}"));
        check(
            ApprovalState::Denied,
            ApprovalState::Approved,
            "✗ denied by anna: mail:send for agent local (01HF7YAT00ZZZZZZZZZZZZZZZZ)",
        );
    }

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
        let drafted = asked("mail:send", Some(RiskLevel::Critical), Some(SaidBy::Draft));
        check(&drafted, "mail:send (critical; draft, not reviewed)");
        check(&asked("x:a\n\u{7}b", None, None), "x:a\\n\\u{7}b (unclassified)");
    }
}
