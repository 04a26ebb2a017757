//! Steps: what else changes in the transaction that writes a record, and what it takes to be so before.

use mcpproxy_core::{ApprovalId, Assurance};

use crate::{NewApproval, NewClaim, NewDryRun, NewStandingApproval, RecordId};

/// A change that is made only together with a record.
#[derive(Clone, Debug)]
pub enum Step {
    /// Loses when the agent has as many pending approvals as it may have, or has asked for three times as many in the last
    /// ten minutes, or one with the same binding is open.
    Ask(Box<NewApproval>),
    /// Of what is pending and not expired. A yes is good until `until_ms`, however much time the question had left.
    Approve { id: ApprovalId, by: String, given: Assurance, now_ms: i64, until_ms: i64 },
    /// Of what is pending or approved.
    Deny { id: ApprovalId, by: String, comment: Option<String>, now_ms: i64 },
    /// Of what is approved and not expired. The approval remembers the record.
    Consume { id: ApprovalId, now_ms: i64 },
    /// Of what is pending or approved, and past its time.
    Expire { id: ApprovalId, now_ms: i64 },
    /// Of what is pending or approved.
    Cancel { id: ApprovalId, now_ms: i64 },
    /// Loses when there is one with this id.
    StandingApproval(Box<NewStandingApproval>),
    /// Of what is not revoked.
    Revoke { id: String, by: String, now_ms: i64 },
    /// Of what is not revoked, not expired and not used up.
    Use { id: String, now_ms: i64 },
    /// Loses when the key is taken, unless that claim has expired, or its call was never sent.
    Claim(Box<NewClaim>),
    /// Keeps the answer for whoever repeats the call. Does nothing if the claim is another call's by now.
    FinishClaim { agent: String, tool: String, key: String, answer: String },
    /// Gives a key back that has no answer, if this record took it; `None` is the record that is written.
    DropClaim { agent: String, tool: String, key: String, record: Option<RecordId> },
    /// Replaces an earlier one of the same call.
    KeepDryRun(Box<NewDryRun>),
}

/// The index of the first step that found something else than it needs. Nothing was written, and no record either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost(pub usize);

impl Step {
    /// What it takes in the queue.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Ask(new) => {
                let attached = [&new.attached, &new.shown_attached].into_iter().flatten().map(String::len);
                new.args.len() + new.shown_args.len() + new.about.len() + attached.sum::<usize>()
            }
            Self::StandingApproval(new) => new.schema.len(),
            Self::KeepDryRun(new) => new.preview.len(),
            Self::FinishClaim { answer, .. } => answer.len(),
            Self::Deny { comment, .. } => comment.as_ref().map_or(0, String::len),
            Self::Approve { .. }
            | Self::Consume { .. }
            | Self::Expire { .. }
            | Self::Cancel { .. }
            | Self::Revoke { .. }
            | Self::Use { .. }
            | Self::Claim(_)
            | Self::DropClaim { .. } => 0,
        }
    }

    /// Whether those who look at approvals and grants must hear of it.
    pub(crate) fn is_news(&self) -> bool {
        match self {
            Self::Ask(_)
            | Self::Approve { .. }
            | Self::Deny { .. }
            | Self::Consume { .. }
            | Self::Expire { .. }
            | Self::Cancel { .. }
            | Self::StandingApproval(_)
            | Self::Revoke { .. }
            | Self::Use { .. } => true,
            Self::Claim(_) | Self::FinishClaim { .. } | Self::DropClaim { .. } | Self::KeepDryRun(_) => false,
        }
    }
}
