//! Approval requests, standing approvals, idempotency claims and dry runs.

pub(crate) mod approval;
pub(crate) mod claim;
pub(crate) mod sql;
pub(crate) mod standing;
pub(crate) mod step;
