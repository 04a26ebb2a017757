//! Changes while an approval request is pending: the call is decided again, and the old version is never sent.

use std::sync::Arc;

use mcpproxy_core::settings::ApprovalSettings;
use mcpproxy_core::trust::OnChange;
use mcpproxy_core::{Agent as Identity, ApprovalState, Scope};
use mcpproxy_gateway::Files;

use crate::agent::{Agent, Way};
use crate::asked::{ARGS, Got, HIGH, SEND, Stage, files, held, never_held, send, with_approval};
use crate::contracts::policies;
use crate::rig::within;

const PERMISSIONS: &str = "riskLevel: high\npermissions: [mail:send]";

/// A change between the approval request and the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The server changes the description of the tool, and the new one is accepted.
    Tool,
    /// The same, with the default settings: the tool waits for a review.
    HeldTool,
    /// The server removes the tool.
    NoTool,
    Critical,
    StepUp,
    Forbidden,
    /// The contract's text changes, but it requires the same approval as before.
    Words,
    Policy,
    Revoked,
    Permission,
}

const CHANGES: [Change; 10] = [
    Change::Tool,
    Change::HeldTool,
    Change::NoTool,
    Change::Critical,
    Change::StepUp,
    Change::Forbidden,
    Change::Words,
    Change::Policy,
    Change::Revoked,
    Change::Permission,
];

impl Change {
    fn contract(self) -> Option<&'static str> {
        match self {
            Self::Critical => Some("riskLevel: critical\npermissions: [mail:send]"),
            Self::StepUp => Some("riskLevel: high\npermissions: [mail:send]\nstepUpAuth: true"),
            Self::Forbidden => Some("riskLevel: forbidden"),
            Self::Words => Some("riskLevel: high\npermissions: [mail:send]\nsideEffects: [Two mails leave.]"),
            Self::Tool | Self::HeldTool | Self::NoTool | Self::Policy | Self::Revoked | Self::Permission => None,
        }
    }

    async fn happen(self, stage: &Stage, approvals: ApprovalSettings) {
        let peer = &stage.peer;
        if let Some(contract) = self.contract() {
            return stage.rig.gateway.reload(files(peer, contract, approvals));
        }
        match self {
            Self::Policy => {
                let policies = policies(r#"@id("no-mail") forbid(principal, action, resource == Tool::"fx:send");"#);
                stage.rig.gateway.reload(Files { policies, ..files(peer, PERMISSIONS, approvals) });
            }
            Self::Revoked => stage.rig.revoke("a").await,
            Self::Permission => {
                stage.rig.revoke("a").await;
                let scope = Scope { grants: vec!["mail:read".to_owned()], ..Scope::everything() };
                stage.rig.token_for(&Identity { name: "a".to_owned(), scope }).await;
            }
            _ => {
                if self == Self::HeldTool {
                    let mut reviewed = files(peer, PERMISSIONS, approvals);
                    Arc::make_mut(&mut reviewed.settings).trust.changes = OnChange::Review;
                    stage.rig.gateway.reload(reviewed);
                }
                let tools = match self {
                    Self::Tool | Self::HeldTool => SEND.replace("Sends.", "Sends all."),
                    _ => SEND.replace(r#""send""#, r#""gone""#),
                };
                peer.rewrite(|script| script.tools = format!("[{tools}]"));
                let settled = stage.rig.gateway.settled();
                assert_eq!(stage.rig.gateway.restart(&crate::rig::name("fx")), Ok(()));
                within(settled).await;
                within(stage.rig.gateway.ready()).await;
                stage.rig.until("fx", |server| server.state == mcpproxy_gateway::StateName::Ready).await;
            }
        }
    }

    /// Returns the code that the agent of a held call receives.
    fn for_held(self) -> &'static str {
        match self {
            Self::NoTool | Self::Forbidden => "tool_not_found",
            Self::HeldTool => "tool_quarantined",
            Self::Policy => "policy_violation",
            Self::Permission => "permission_denied",
            Self::Tool | Self::Critical | Self::StepUp | Self::Words | Self::Revoked => "approval_stale",
        }
    }
}

/// The page that lists these changes and their answers.
const PAGE: &str = include_str!("../../../../docs/approvals.md");

impl Change {
    /// Returns the words of its row on the page.
    fn row(self) -> &'static str {
        match self {
            Self::Tool => "| the definition of the tool, and the new one is accepted |",
            Self::HeldTool => "| the definition of the tool, and no user has accepted the new one |",
            Self::Critical | Self::StepUp | Self::Words => "| any field of the contract, ",
            Self::Revoked => "| the agent's token was revoked ",
            Self::Policy => "| a policy now forbids the call |",
            Self::Permission => "| the token no longer has a permission ",
            Self::NoTool | Self::Forbidden => "| the server no longer lists the tool, or the contract forbids it |",
        }
    }

    /// Checks that the page has this answer, and the right word for the approval.
    fn check_page(self, state: ApprovalState) {
        let row = PAGE.lines().find(|line| line.starts_with(self.row()));
        let row = row.unwrap_or_else(|| panic!("{self:?} is not on the page"));
        let word = if state == ApprovalState::Cancelled { "| cancelled |" } else { "| valid until it expires" };
        assert!(row.contains(&format!("| `{}` |", self.for_held())) && row.contains(word), "{self:?}: {row}");
    }
}

#[tokio::test]
async fn a_held_call_is_decided_again() {
    for change in CHANGES {
        let stage = Stage::new(PERMISSIONS, held()).await;
        let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
        let params = send(ARGS, "");
        let (got, id) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
            let id = stage.pending().await.id;
            change.happen(&stage, held()).await;
            stage.approve(&id).await.unwrap();
            id
        });
        assert_eq!(got.code(), change.for_held(), "{change:?} {}", got.0);
        assert_eq!(stage.sent(), [""; 0], "{change:?}");
        // A tool that is missing, held or forbidden may come back unchanged. Every other change cancels the approval.
        let expected = match change {
            Change::NoTool | Change::HeldTool | Change::Forbidden => ApprovalState::Approved,
            _ => ApprovalState::Cancelled,
        };
        assert_eq!(stage.state(&id).await, expected, "{change:?}");
        change.check_page(expected);
    }
}

#[tokio::test]
async fn a_repeated_call_finds_the_new_state_of_things() {
    for change in CHANGES {
        for approved_first in [true, false] {
            let stage = Stage::new(PERMISSIONS, never_held()).await;
            let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
            let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
            if approved_first {
                stage.approve(&id).await.unwrap();
            }
            change.happen(&stage, never_held()).await;
            if matches!(change, Change::Revoked | Change::Permission) {
                let params = send(ARGS, &with_approval(&id));
                let answer = refused_before_the_decision(&stage, &agent, &params).await;
                assert_eq!(answer, http::StatusCode::UNAUTHORIZED, "{change:?}");
                assert_eq!(stage.sent(), [""; 0], "{change:?}");
                continue;
            }
            if !approved_first {
                stage.approve(&id).await.unwrap();
            }
            // Repeat the call without the id first. It opens a new approval request, which the old approval does not
            // cover.
            let plain = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code();
            let named = Got::of(&mut agent, &stage.rig, &send(ARGS, &with_approval(&id))).await.code();
            let expected = match change {
                Change::NoTool | Change::Forbidden => ["tool_not_found"; 2],
                Change::HeldTool => ["tool_quarantined"; 2],
                Change::Policy => ["policy_violation"; 2],
                _ => ["confirmation_required", "approval_stale"],
            };
            assert_eq!([plain.as_str(), &named], expected, "{change:?} {approved_first}");
            assert_eq!(stage.sent(), [""; 0], "{change:?}");
        }
    }
}

/// Repeats a call until the gateway rejects its token. The token cache notices a revocation after a short delay.
async fn refused_before_the_decision(stage: &Stage, agent: &Agent, params: &str) -> http::StatusCode {
    let refused = async {
        loop {
            let answer = stage.rig.send(agent.http(1, "tools/call", params)).await;
            if answer.status != http::StatusCode::OK {
                return answer.status;
            }
            let got = Got(serde_json::from_str(&answer.body).unwrap());
            assert_ne!(got.code(), "sent");
            tokio::task::yield_now().await;
        }
    };
    within(refused).await
}

/// If a reload removes the need for approval, the held call becomes stale. The next call runs without an approval.
#[tokio::test]
async fn a_call_that_no_longer_needs_approval_is_made() {
    let stage = Stage::new(HIGH, held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let params = send(ARGS, "");
    let (got, id) = tokio::join!(Got::of(&mut agent, &stage.rig, &params), async {
        let id = stage.pending().await.id;
        stage.rig.gateway.reload(files(&stage.peer, "riskLevel: low", held()));
        stage.approve(&id).await.unwrap();
        id
    });
    assert_eq!((got.code(), stage.sent()), ("approval_stale".to_owned(), Vec::new()));
    assert_eq!(stage.state(&id).await, ApprovalState::Cancelled);
    assert_eq!(Got::of(&mut agent, &stage.rig, &params).await.code(), "sent");
}

/// An approval survives while its tool is forbidden, until it expires.
#[tokio::test]
async fn a_tool_that_returns_unchanged_keeps_its_approval() {
    let stage = Stage::new(HIGH, never_held()).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    stage.approve(&id).await.unwrap();
    let named = send(ARGS, &with_approval(&id));
    stage.rig.gateway.reload(files(&stage.peer, "riskLevel: forbidden", never_held()));
    assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "tool_not_found");
    stage.rig.gateway.reload(files(&stage.peer, HIGH, never_held()));
    assert_eq!(Got::of(&mut agent, &stage.rig, &named).await.code(), "sent");
    assert_eq!(stage.sent(), [ARGS]);
}
