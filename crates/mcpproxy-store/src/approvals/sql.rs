//! The SQL of approvals.

mod approvals;
mod claims;
pub(crate) mod steps;

pub(crate) use steps::Losers;
