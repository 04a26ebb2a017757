//! A call that passed all checks.

use std::sync::Arc;

use super::claim::Claim;
use crate::Attached;
use crate::catalog::Tool;
use crate::intent::{Arguments, Intent};

/// The call inside permits, approval requests and previews.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tool: Arc<Tool>,
    pub(super) intent: Intent,
    pub(super) arguments: Arguments,
    pub(super) attached: Attached,
    pub(super) warnings: Vec<Warning>,
    pub(super) is_verified: bool,
    pub(super) claim: Option<Claim>,
}

/// A finding for the record that does not stop the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub code: &'static str,
    pub message: String,
}
