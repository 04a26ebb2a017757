//! Helps operators to write and maintain contracts: first drafts, lint findings, differences and coverage. Finds
//! changes that weaken them.
//!
//! This module reads contracts and the catalog, and decides nothing. It lies above both, so that neither
//! has to know it.

pub mod coverage;
pub mod diff;
pub mod docs;
pub mod draft;
pub mod edit;
pub mod failures;
pub mod lint;
mod names;
pub mod weakening;
mod wild;
mod writer;
