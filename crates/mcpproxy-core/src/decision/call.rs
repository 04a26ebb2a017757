//! The parts of a call that permits, approval requests and previews share.

use std::sync::Arc;

use super::claim::Claim;
use crate::Attached;
use crate::catalog::Tool;
use crate::intent::{Arguments, Intent};

/// A call that no check refused.
///
/// [`Permit`](super::Permit), [`ApprovalRequest`](super::ApprovalRequest) and [`Preview`](super::Preview) own one and
/// dereference to it. Its fields can be set only by the decision.
#[derive(Debug)]
pub struct Call {
    pub(super) tool: Arc<Tool>,
    pub(super) intent: Intent,
    pub(super) arguments: Arguments,
    pub(super) attached: Attached,
    pub(super) warnings: Vec<Warning>,
    pub(super) is_verified: bool,
    pub(super) claim: Option<Claim>,
}

impl Call {
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// The exact bytes that are sent as `arguments`.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The members that are sent besides `arguments`, such as `_meta`.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// True if the server's annotations or the operator's contract confirm the variant that the agent used.
    pub fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// The idempotency key to reserve in the transaction that opens the call's record.
    pub fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }
}

/// A remark about a call that is recorded and does not stop it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub code: &'static str,
    pub message: String,
}

impl Warning {
    /// The code for a variant that allows more than the tool needs.
    pub const OVERLY_CAUTIOUS: &'static str = "overly_cautious";
}
